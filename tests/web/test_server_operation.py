"""For whoever keeps a server running: /healthz, /readyz and /metrics."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from server_kit import Watched, asking, letters

from rrf_stream import Arm, Breaker, Pipeline
from rrf_stream.web import create_app

if TYPE_CHECKING:
    from rrf_stream import FusedHit

pytestmark = pytest.mark.asyncio


async def failing(_: str) -> list[str]:
    raise ConnectionError("secret of the arm")


class Moody:
    """A retriever that fails as long as it is told to."""

    def __init__(self) -> None:
        self.fails = True
        self.asked: list[Any] = []

    @property
    def source(self) -> Any:
        async def moody(query: Any) -> list[str]:
            self.asked.append(query)
            if self.fails:
                raise ConnectionError("secret of the arm")
            return ["a"]

        return moody


def value(metrics: str, line: str) -> float:
    """Return the value of a line, 0 where there is none."""
    found = re.search(rf"^{re.escape(line)} (\S+)$", metrics, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


# --- ready ------------------------------------------------------------------------------------------------


async def test_a_server_without_required_arms_is_ready() -> None:
    """Arms that need not answer make no server unready, even if none of them can."""
    async with asking(create_app(Pipeline({"broken": failing}), probe="x")) as client:
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        assert (await client.get("/healthz")).json() == {"status": "alive"}


async def test_an_open_breaker_of_a_required_arm_makes_unready() -> None:
    """Without a probe no arm is asked; the answer names the arm whose breaker is open, and that is all."""
    moody, calm = Moody(), Watched("a")
    arms = [Arm("moody", moody.source, required=True), Arm("calm", calm.source, required=True)]
    async with asking(create_app(Pipeline(arms, breaker=Breaker(failures=2, cooldown=60)))) as client:
        assert (await client.get("/readyz")).status_code == 200
        assert not moody.asked
        for _ in range(2):
            assert (await client.get("/search", params={"q": "x"})).status_code == 502
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["arms"]) == (503, ["moody"])
        assert "secret" not in answer.text
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/search", params={"q": "x"})).json()["arm"] == "moody"
    assert len(moody.asked) == 2


async def test_a_probe_asks_the_required_arms_and_them_only() -> None:
    """Each is asked the probe, once in some seconds however often somebody wants to know."""
    first, second, other = Watched("a"), Watched("b"), Watched("c")
    arms = [
        Arm("first", first.source, required=True),
        Arm("other", other.source),
        Arm("second", second.source, required=True),
    ]
    async with asking(create_app(Pipeline(arms), probe={"any": "thing"})) as client:
        answers = await asyncio.gather(*[client.get("/readyz") for _ in range(5)])
        answers.append(await client.get("/readyz"))
        assert {answer.status_code for answer in answers} == {200}
        assert "rrf_stream_searches_total{" not in (await client.get("/metrics")).text
    assert (first.asked, second.asked, other.asked) == ([{"any": "thing"}], [{"any": "thing"}], [])


async def test_a_probe_that_fails_makes_unready_until_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A required arm that raises is named; it is asked again when the answer is old."""
    moody = Moody()
    app = create_app(Pipeline([Arm("moody", moody.source, required=True)]), probe="x")
    async with asking(app) as client:
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["arms"]) == (503, ["moody"])
        assert "secret" not in answer.text
        moody.fails = False
        assert (await client.get("/readyz")).status_code == 503
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 6)
        assert (await client.get("/readyz")).status_code == 200
    assert len(moody.asked) == 2


async def test_every_required_arm_that_cannot_answer_is_named() -> None:
    """Several that fail or are late are told together, in their order, and those that answer are not."""
    late = Watched("a", wait=True)
    sources = {"late": late.source, "one": failing, "good": Watched("a").source, "two": failing}
    arms = [Arm(name, source, required=True) for name, source in sources.items()]
    async with asking(create_app(Pipeline(arms, timeout=0.2), probe="x")) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["arms"]) == (503, ["late", "one", "two"])


async def test_a_required_arm_that_is_late_makes_unready() -> None:
    """The probe has the time that a search has by default."""
    late = Watched("a", wait=True)
    app = create_app(Pipeline([Arm("late", late.source, required=True)], timeout=0.05), probe="x")
    async with asking(app) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["arms"]) == (503, ["late"])


async def test_an_arm_that_was_not_needed_to_the_end_can_answer() -> None:
    """Options that end a search early do not end the probe: every required arm is waited for."""
    quick = Watched(*"abcdefgh")
    slow = Watched("a", pause=0.1)
    arms = [Arm("quick", quick.source, required=True, weight=9), Arm("slow", slow.source, required=True)]
    for options in ({"quorum": 0.5}, {"until": "settled", "top_k": 1}):
        app = create_app(Pipeline(arms, **options), probe="x")
        async with asking(app) as client:
            answer = await client.get("/readyz")
        assert answer.status_code == 200, answer.text


# --- metrics ----------------------------------------------------------------------------------------------


async def test_metrics_tell_what_became_of_searches() -> None:
    """Latencies to the first and the final snapshot, statuses of arms, outcomes, refusals, what is open."""
    stuck = Watched("s", wait=True)
    pipeline = Pipeline({"quick": Watched("a").source, "broken": failing, "stuck": stuck.source})
    async with asking(create_app(pipeline)) as client:
        for path in ("/search", "/search/stream"):
            await client.get(path, params={"q": "x", "arms": "quick"})
            await client.get(path, params={"q": "x", "timeout_ms": 60})
        await client.get("/search")
        await client.get("/nowhere")
        searching = asyncio.create_task(client.get("/search", params={"q": "x", "timeout_ms": 400}))
        stuck.idle.clear()
        await stuck.idle.wait()
        answer = await client.get("/metrics")
        await searching
        after = (await client.get("/metrics")).text
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    metrics = answer.text
    assert value(metrics, "rrf_stream_first_snapshot_seconds_count") == 2  # of streams, which show it
    assert value(metrics, "rrf_stream_final_snapshot_seconds_count") == 4
    assert value(metrics, 'rrf_stream_final_snapshot_seconds_bucket{le="0.05"}') == 2
    assert 0.12 <= value(metrics, "rrf_stream_final_snapshot_seconds_sum") < 20
    assert value(metrics, 'rrf_stream_searches_total{outcome="complete"}') == 2
    assert value(metrics, 'rrf_stream_searches_total{outcome="deadline"}') == 2
    assert value(metrics, 'rrf_stream_arms_total{arm="quick",status="exhausted"}') == 4
    assert value(metrics, 'rrf_stream_arms_total{arm="broken",status="failed"}') == 2
    assert value(metrics, 'rrf_stream_arms_total{arm="stuck",status="deadline"}') == 2
    assert value(metrics, 'rrf_stream_refused_total{status="400"}') == 1
    assert value(metrics, 'rrf_stream_refused_total{status="404"}') == 1
    assert value(metrics, "rrf_stream_open_fusions") == 1
    assert value(metrics, "rrf_stream_overruns_total") == 0
    assert value(after, "rrf_stream_open_fusions") == 0
    assert value(after, 'rrf_stream_searches_total{outcome="deadline"}') == 3


async def test_a_search_that_overruns_its_budget_is_counted() -> None:
    """An arm that blocks the event loop for 100 ms makes the answer late, and the count says so."""

    async def blocking(_: str) -> Any:
        yield "a"
        await asyncio.sleep(0.01)
        time.sleep(0.15)  # noqa: ASYNC251 - this is what must not be done
        yield "b"

    async with asking(create_app(Pipeline({"blocking": blocking}))) as client:
        answer = await client.get("/search", params={"q": "x", "timeout_ms": 50})
        metrics = (await client.get("/metrics")).text
    assert answer.json()["elapsed"] > 0.1
    assert value(metrics, "rrf_stream_overruns_total") == 1


async def test_a_search_with_a_required_arm_that_failed_is_counted() -> None:
    """It has an outcome of its own, over both ways to ask."""
    async with asking(create_app(Pipeline([Arm("broken", failing, required=True)]))) as client:
        for path in ("/search", "/search/stream"):
            await client.get(path, params={"q": "x"})
        metrics = (await client.get("/metrics")).text
    assert value(metrics, 'rrf_stream_searches_total{outcome="failed"}') == 2
    assert value(metrics, "rrf_stream_open_fusions") == 0


@pytest.mark.parametrize("path", ["/search", "/search/stream"])
async def test_an_answer_that_breaks_is_counted_as_that(path: str) -> None:
    """`present` that raises is neither a search that was complete nor a client that left."""

    def present(_: FusedHit) -> NoReturn:
        raise LookupError

    async with asking(create_app(letters(), present=present)) as client:
        await client.get(path, params={"q": "x"})
        metrics = (await client.get("/metrics")).text
    assert re.findall(r"^rrf_stream_searches_total\{.*", metrics, re.MULTILINE) == [
        'rrf_stream_searches_total{outcome="broken"} 1.0'
    ]
    assert value(metrics, "rrf_stream_open_fusions") == 0


async def test_every_problem_is_counted() -> None:
    """By its status, also those of the guards, of a required arm and of a server that broke; once each."""

    def present(_: FusedHit) -> NoReturn:
        raise LookupError

    token = "a token of some length"  # noqa: S105 - for the test
    arms = [Arm("broken", failing, required=True), Arm("good", Watched("a").source)]
    app = create_app(Pipeline(arms), token=token, hosts=["server"], present=present)
    async with asking(app) as client:
        key = {"Authorization": f"Bearer {token}"}
        await client.get("/page.json")
        await client.get("/page.json", headers=key | {"Host": "other.example"})
        for path in ("/nowhere", "/search", "/search?q=x&arms=broken", "/search?q=x&arms=good"):
            await client.get(path, headers=key)
        metrics = (await client.get("/metrics", headers=key)).text
    counted = re.findall(r'^rrf_stream_refused_total\{status="(\d+)"\} 1\.0$', metrics, re.MULTILINE)
    assert sorted(counted) == ["400", "401", "404", "421", "500", "502"]


async def test_two_servers_of_one_process_count_apart() -> None:
    """The counters belong to the application."""
    async with asking(create_app(letters())) as one, asking(create_app(letters())) as other:
        await one.get("/search", params={"q": "x"})
        assert 'searches_total{outcome="complete"} 1.0' in (await one.get("/metrics")).text
        assert "searches_total{" not in (await other.get("/metrics")).text
