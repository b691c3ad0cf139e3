"""What a pipeline knows of its arms over many queries."""

from __future__ import annotations

import copy
import gc
import json
import pickle
from collections import Counter
from dataclasses import FrozenInstanceError
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import run_virtual, turns, virtual_time
from hypothesis import given, settings
from hypothesis import strategies as st

from rrf_stream import Arm, ArmReport, ArmStats, ArmStatus, Breaker, Latency, Page, Pipeline
from rrf_stream._health import ArmHealth
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rrf_stream import Snapshot

NO_LATENCY = Latency(0, None, None, None)


def report(status: ArmStatus, received: int = 0, first: float | None = None) -> ArmReport:
    return ArmReport("a", status, 1.0, 100, received, first, 1.0, None)


def answered(health: ArmHealth, first: float, last: float | None = None) -> None:
    """Let an arm answer a query."""
    last = first if last is None else last
    health.closed(None, report(ArmStatus.EXHAUSTED, 2, first), last, hedged=False, second_won=False)


def latency(values: list[float]) -> Latency:
    """Return quantiles by their definition: the smallest value that a share of all does not exceed."""

    def quantile(percent: int) -> float:
        enough = (v for v in values if 100 * sum(w <= v for w in values) >= percent * len(values))
        return min(enough)

    return Latency(len(values), quantile(50), quantile(95), quantile(99)) if values else NO_LATENCY


# --- against the answers ----------------------------------------------------------------------------------

ENDINGS: dict[str, Callable[..., script]] = {
    "ends": script,
    "fails": lambda *steps: script(*steps, fail=OSError("down")),
    "hangs": lambda *steps: script(*steps, hang=True),
}
SCRIPTS = st.tuples(
    st.lists(st.integers(1, 40).map(lambda tenths: tenths / 8), max_size=4), st.sampled_from(sorted(ENDINGS))
)


def play(plan: tuple[list[float], str]) -> script:
    """Return a source that yields an id after each of the delays, and then ends as it is told."""
    delays, ending = plan
    return ENDINGS[ending](*(step for number, delay in enumerate(delays) for step in (delay, number)))


def retriever(*steps: Any, **ending: Any) -> Callable[[Any], Awaitable[script]]:
    """Return a retriever that writes the same script for each query."""

    async def retrieve(_: Any) -> script:
        return script(*steps, **ending)

    return retrieve


def last_hit(plan: tuple[list[float], str], window: int) -> float:
    """Return when an arm delivers its last hit that counts."""
    return sum(plan[0][:window])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(deadline=None, max_examples=60)
@given(queries=st.lists(st.tuples(SCRIPTS, SCRIPTS), max_size=12))
def test_statistics_are_what_the_answers_said(
    backend: str, queries: list[tuple[tuple[list[float], str], tuple[list[float], str]]]
) -> None:
    """For all queries: counts, hits and latencies are those of the final snapshots, taken together."""

    async def main() -> None:
        async def a(query: tuple[Any, Any]) -> script:
            return play(query[0])

        async def b(query: tuple[Any, Any]) -> script:
            return play(query[1])

        pipeline = Pipeline([Arm("a", a, window=2, idle_timeout=3), Arm("b", b, timeout=6)], timeout=8)
        finals: list[Snapshot] = [await pipeline.search(query) for query in queries]
        assert list(pipeline.stats()) == ["a", "b"]
        for index, (name, window) in enumerate([("a", 2), ("b", 100)]):
            stats = pipeline.stats()[name]
            reports = [final.coverage[name] for final in finals]
            assert (stats.name, stats.queries) == (name, len(queries))
            assert stats.statuses == Counter(one.status for one in reports)
            assert stats.answered == sum(one.status.is_full for one in reports)
            assert stats.failed == sum(one.error is not None for one in reports)
            assert stats.answered + stats.failed + stats.timed_out == len(queries)
            assert stats.received == sum(one.received for one in reports)
            assert stats.first_hit == latency(
                [one.first_hit_after for one in reports if one.first_hit_after is not None]
            )
            assert stats.last_hit == latency(
                [
                    last_hit(query[index], window)
                    for query, one in zip(queries, reports, strict=True)
                    if one.status.is_full and one.received
                ]
            )
            assert (stats.skipped, stats.hedged, stats.second_won) == (0, 0, 0)
            assert (stats.breaker, stats.retry_after) == ("closed", None)

    run_virtual(backend, main)


@pytest.mark.anyio
@virtual_time
async def test_an_arm_that_was_cut_off_counts_for_the_first_hit_only() -> None:
    """When its last hit would have come nobody knows, so that latency is of arms that answered."""
    pipeline = Pipeline({"cut": retriever(1.0, "x", hang=True), "mute": retriever(hang=True)}, timeout=2)
    await pipeline.search("q")
    cut, mute = pipeline.stats().values()
    assert (cut.first_hit, cut.last_hit) == (Latency(1, 1, 1, 1), NO_LATENCY)
    assert (mute.first_hit, mute.last_hit) == (NO_LATENCY, NO_LATENCY)
    assert (cut.timed_out, mute.timed_out, cut.received, mute.received) == (1, 1, 1, 0)


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize(
    "steps",
    [
        ("x", 1.0),
        ("x", 1.0, Page()),
        (Page(["x"]), 0.5, Page(), 0.5, Page()),
        (Page(), "x", 1.0),
    ],
    ids=["end", "empty page", "pages", "empty page first"],
)
async def test_the_last_hit_is_a_hit(steps: tuple[Any, ...]) -> None:
    """Neither an empty page after it nor the end of the arm is one."""
    pipeline = Pipeline({"a": retriever(0.25, *steps)})
    final = await pipeline.search("q")
    assert final.elapsed == 1.25
    stats = pipeline.stats()["a"]
    assert stats.first_hit == stats.last_hit == Latency(1, 0.25, 0.25, 0.25)


@pytest.mark.anyio
@virtual_time
async def test_each_query_counts_once_however_it_ends() -> None:
    """Read to the end, left early, stopped, dropped, or never begun."""
    pipeline = Pipeline({"a": retriever("x", hang=True)})
    async with pipeline.open("left") as fusion:
        await anext(fusion)
    async with pipeline.open("stopped") as fusion:
        await anext(fusion)
        fusion.stop()
        await fusion.final()
    fusion = pipeline.open("dropped")
    await anext(fusion)
    del fusion
    gc.collect()
    await turns()
    async with pipeline.open("left before the first look"):
        pass
    pipeline.open("never begun")
    stats = pipeline.stats()["a"]
    assert stats.statuses == {ArmStatus.STOPPED: 1, ArmStatus.CANCELLED: 3}
    assert stats.queries == 4


@pytest.mark.anyio
async def test_queries_on_several_event_loops_count_together() -> None:
    """Threads with loops of their own lose no query of each other."""
    pipeline = Pipeline({"a": retriever("x", "y"), "b": retriever(fail=OSError())})

    async def search() -> None:
        for _ in range(25):
            await pipeline.search("q")

    async with anyio.create_task_group() as group:
        for backend in ("asyncio", "trio") * 2:
            elsewhere: Callable[[], None] = partial(anyio.run, search, backend=backend)
            group.start_soon(partial(anyio.to_thread.run_sync, elsewhere))
    a, b = pipeline.stats().values()
    assert (a.queries, a.answered, a.received, a.first_hit.samples) == (100, 100, 200, 100)
    assert (b.queries, b.failed, b.received) == (100, 100, 0)


# --- the form ---------------------------------------------------------------------------------------------


def test_there_are_statistics_before_the_first_query() -> None:
    """Every arm is there, with nothing counted."""
    assert Pipeline({"a": lambda _: [], "b": lambda _: []}, breaker={"b": Breaker()}).stats() == {
        name: ArmStats(
            name=name,
            queries=0,
            statuses={},
            answered=0,
            timed_out=0,
            failed=0,
            skipped=0,
            received=0,
            hedged=0,
            second_won=0,
            first_hit=NO_LATENCY,
            last_hit=NO_LATENCY,
            breaker="closed",
            retry_after=None,
        )
        for name in ("a", "b")
    }


@settings(deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=300))
def test_quantiles_are_values_that_were_seen(values: list[float]) -> None:
    """For all latencies: each quantile is the smallest that its share of them does not exceed."""
    health = ArmHealth("a")
    for value in values:
        answered(health, value, 2 * value)
    stats = health.stats()
    assert stats.first_hit == latency(values)
    assert stats.last_hit == latency([2 * value for value in values])


def test_latencies_are_those_of_the_last_thousand_queries() -> None:
    """What an arm did long ago is counted, but says nothing of how it is today."""
    health = ArmHealth("a")
    for seconds in range(2500):
        answered(health, float(seconds))
    stats = health.stats()
    assert stats.queries == 2500
    assert stats.first_hit == stats.last_hit == Latency(1000, 1999, 2449, 2489)


def test_statistics_are_a_picture_that_stays() -> None:
    """They neither change with the next query nor can be changed."""
    health = ArmHealth("a")
    answered(health, 1.0)
    before = health.stats()
    answered(health, 2.0)
    assert (before.queries, before.statuses) == (1, {ArmStatus.EXHAUSTED: 1})
    mutable: Any = before
    with pytest.raises(FrozenInstanceError):
        mutable.queries = 5
    with pytest.raises(TypeError):
        mutable.statuses[ArmStatus.FAILED] = 1


@pytest.mark.parametrize("send", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_statistics_can_be_sent_to_another_process(send: Callable[[ArmStats], ArmStats]) -> None:
    """Copied or pickled they say the same."""
    health = ArmHealth("a", Breaker(1))
    answered(health, 1.0, 2.0)
    stats = health.stats()
    assert send(stats) == stats


@pytest.mark.anyio
@virtual_time
async def test_statistics_go_into_json() -> None:
    """`to_dict` has every field, in plain types, with the words of the statuses."""
    policy = Breaker(1, 30, 0, clock=anyio.current_time)
    pipeline = Pipeline({"a": retriever(0.5, "x", 0.5, fail=OSError())}, breaker=policy)
    for _ in range(2):
        await pipeline.search("q")
    told = pipeline.stats()["a"].to_dict()
    assert json.loads(json.dumps(told)) == told
    assert told == {
        "name": "a",
        "queries": 2,
        "statuses": {"failed": 1, "skipped": 1},
        "answered": 0,
        "timed_out": 0,
        "failed": 1,
        "skipped": 1,
        "received": 1,
        "hedged": 0,
        "second_won": 0,
        "first_hit": {"samples": 1, "p50": 0.5, "p95": 0.5, "p99": 0.5},
        "last_hit": {"samples": 0, "p50": None, "p95": None, "p99": None},
        "breaker": "open",
        "retry_after": 30,
    }
