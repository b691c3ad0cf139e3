"""Reading a search server: what it says, whatever way it comes, and what happens when it does not."""

from __future__ import annotations

import gc
import gzip
import json
import pickle
import time
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest
from client_kit import DONE, SOON, Answers, Gated, event, nobody, serving, snapshots, told, wait_until

from rrf_stream import Arm, Hit, Outcome, Pipeline, Snapshot
from rrf_stream.errors import RemoteError
from rrf_stream.web import create_app
from rrf_stream.web.client import stream_search

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks", "no_hang")]
plain_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "uvloop"], indirect=True)

ALL = [*told(*snapshots("é", ("x", 2))), DONE]
TOKEN = "a token of some length"  # noqa: S105 - of this test only


async def lexical(query: str) -> AsyncIterator[Hit]:
    for word in query.split():
        yield Hit(word, score=1.0, item={"title": word.upper()})


async def backwards(query: str) -> list[Any]:
    return [*reversed(query.split())]


async def broken(query: str) -> list[str]:
    raise OSError(query)


async def read(url: str, q: str = "q", **options: Any) -> list[Snapshot]:
    return [snapshot async for snapshot in stream_search(url, q, **options)]


async def read_from(answers: Answers, **options: Any) -> list[Snapshot]:
    with serving(answers) as url:
        return await read(url, **options)


# --- the stream -------------------------------------------------------------------------------------------


async def test_the_stream_of_a_server_is_that_of_its_pipeline() -> None:
    """Hits, certificates and coverage are those that `Pipeline.search` gives, and one snapshot is final."""
    pipeline = Pipeline({"lexical": lexical, "backwards": backwards}, bounds="ranks")
    with serving(create_app(pipeline)) as url:
        read_there = await read(url, "some words in an order & ümlaut=1", top_k=4)
    here = await pipeline.search("some words in an order & ümlaut=1", top_k=4)
    last = read_there[-1]
    assert [snapshot.final for snapshot in read_there] == [False] * (len(read_there) - 1) + [True]
    assert last.to_dict()["hits"] == here.to_dict()["hits"]
    assert (last.outcome, last.settled, last.exact) == (Outcome.COMPLETE, 4, 4)
    assert [report.received for report in last.coverage] == [7, 7]


async def test_snapshots_come_while_arms_still_run() -> None:
    """Each is there as soon as the server has it, not with the end of the answer."""
    arm = Gated(["a", "b"])
    with serving(create_app(Pipeline({"arm": arm.retriever}))) as url:
        async with aclosing(stream_search(url, "q")) as stream:
            arm.open(1)
            while (snapshot := await anext(stream)).ids != ["a"]:
                pass
            arm.open()
            rest = [snapshot async for snapshot in stream]
    assert not snapshot.final
    assert (rest[-1].ids, rest[-1].final) == (["a", "b"], True)


async def test_what_is_asked_is_sent() -> None:
    """The query, the options in their units, the names of arms and the token; options not given are not."""
    answers = Answers(ALL)
    with serving(answers) as url:
        await read(f"{url}/below/", "a&b = c", timeout=0.25, top_k=7, arms=["x", "y"], token=TOKEN)
        assert answers.requests[-1]["path"] == "/below/search/stream"
        assert answers.asked == {"q": ["a&b = c"], "timeout_ms": ["250"], "top_k": ["7"], "arms": ["x,y"]}
        assert answers.header("authorization") == f"Bearer {TOKEN}"
        assert answers.header("accept") == "text/event-stream"
        await read(url)
        assert answers.asked == {"q": ["q"]}
        assert answers.header("authorization") is None


async def test_options_do_what_they_do_on_the_server() -> None:
    """Only the named arms answer, with so many hits, within the time."""
    hanging = Gated(["never"])
    pipeline = Pipeline({"lexical": lexical, "backwards": backwards, "hanging": hanging.retriever})
    with serving(create_app(pipeline, token=TOKEN)) as url:
        last = (await read(url, "a b c", top_k=2, arms=["backwards"], token=TOKEN))[-1]
        assert (last.ids, [report.name for report in last.coverage]) == (["c", "b"], ["backwards"])
        last = (await read(url, "a", arms={"hanging"}, timeout=0.05, token=TOKEN))[-1]
        assert (last.ids, last.outcome) == ([], Outcome.DEADLINE)
        with pytest.raises(RemoteError) as caught:
            await read(url, "a")
        assert caught.value.status == 401


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_the_stream_may_be_cut_anywhere(size: int) -> None:
    """Between the two bytes of a letter, between \\r and \\n, or nowhere: the snapshots are the same."""
    body = b"".join([b": hello\r\n\r\n", event("news", "{}"), *ALL[:1], b": still here\r\n\r\n", *ALL[1:]])
    read_there = await read_from(Answers([body[at : at + size] for at in range(0, len(body), size)]))
    assert [snapshot.ids for snapshot in read_there] == [["é"], ["é", ("x", 2)], ["é", ("x", 2)]]


async def test_a_block_without_data_is_no_event() -> None:
    """Such as an id alone, by which a server keeps browsers from asking again before there is a hit."""
    nothing = [b"id: 0\r\n\r\n", b"event: snapshot\r\n\r\n", b"event: error\r\n\r\n", b"event: done\r\n\r\n"]
    assert [one.final for one in await read_from(Answers([*nothing, *ALL]))] == [False, False, True]


@pytest.mark.parametrize("part", [b"x" * 1_000_000, (b"data: " + b"x" * 990 + b"\r\n") * 1_000])
async def test_an_event_without_end_is_given_up(part: bytes) -> None:
    """One long line, or lines that never make an event: beyond a limit, nothing more is read."""
    with pytest.raises(RemoteError, match=r"broke off .*an event of more than 16 MB"):
        await read_from(Answers([part] * 20, then="silence"))


async def test_an_answer_that_is_compressed_is_refused() -> None:
    """It was not asked for, and could become any number of bytes here."""
    with pytest.raises(RemoteError, match="compressed its answer"):
        await read_from(Answers([gzip.compress(b"".join(ALL))], headers={"content-encoding": "gzip"}))


async def test_a_stream_of_any_length_is_read() -> None:
    """The limit is that of one event."""
    comment = b": " + b"x" * 1_000_000 + b"\r\n\r\n"
    assert (await read_from(Answers([ALL[0], *[comment] * 12, ALL[0], *[comment] * 12, *ALL])))[-1].final


async def test_what_comes_after_the_final_snapshot_is_nothing() -> None:
    """A final snapshot is the last, also if the server breaks off before it says that it is done."""
    again = told(*snapshots("late"))
    assert [one.final for one in await read_from(Answers([*ALL[:-1], *again, DONE]))][-2:] == [False, True]
    for then in ("end", "break"):
        assert (await read_from(Answers(ALL[:-1], then=then)))[-1].final


# --- leaving ----------------------------------------------------------------------------------------------


async def test_leaving_closes_the_connection_and_the_arms_with_it() -> None:
    """The server cancels its arms at once, long before the arm would end."""
    arm = Gated(["a", "b"])
    arm.open(1)
    with serving(create_app(Pipeline({"arm": arm.retriever}))) as url:
        async with aclosing(stream_search(url, "q")) as stream:
            await anext(stream)
            left = time.monotonic()
        wait_until(lambda: bool(arm.left_at))
    assert arm.left_at[0] - left < 1, "a tenth of that, on a machine that is not busy"


async def test_a_search_that_is_cancelled_closes_the_connection() -> None:
    """Cancelled while it waits for the next snapshot, it leaves nothing open."""
    answers = Answers(ALL[:1], then="silence")
    with serving(answers) as url:
        with anyio.move_on_after(0.2) as scope:
            await read(url)
        assert scope.cancelled_caught
        wait_until(lambda: bool(answers.gone_at))


async def test_a_cancelled_task_can_leave() -> None:
    """In a scope that is cancelled already, the connection is closed all the same, and so is the client."""
    answers = Answers(ALL[:1], then="silence")
    with serving(answers) as url:
        with anyio.CancelScope() as scope:
            async with aclosing(stream_search(url, "q")) as stream:
                await anext(stream)
                scope.cancel()
        wait_until(lambda: bool(answers.gone_at))


@plain_loops
async def test_a_search_that_is_dropped_closes_the_connection() -> None:
    """When a stream is collected that was left by `break`, the event loop closes it."""
    answers = Answers(ALL[:1], then="silence")
    with serving(answers) as url:
        async for _ in stream_search(url, "q"):
            break
        gc.collect()
        with anyio.fail_after(SOON):
            while not answers.gone_at:  # noqa: ASYNC110 - set in the thread of the server
                await anyio.sleep(0.01)


async def test_a_search_that_was_never_read_asks_nobody() -> None:
    """The request is sent with the first read."""
    answers = Answers(ALL)
    with serving(answers) as url:
        await stream_search(url, "q").aclose()
    assert answers.requests == []


# --- errors -----------------------------------------------------------------------------------------------


async def test_a_problem_is_an_error_with_what_it_says() -> None:
    """Status, problem and the time to wait are there, in words too."""
    problem = {"title": "Too Many Requests", "status": 429, "detail": "8 searches are under way", "limit": 8}
    kind = "application/problem+json"
    answers = Answers([json.dumps(problem).encode()], 429, kind, {"retry-after": "7"})
    with pytest.raises(
        RemoteError, match=r"refused the search: status 429: Too Many .*: 8 searches"
    ) as caught:
        await read_from(answers)
    error = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (error.status, error.problem, error.retry_after) == (429, problem, 7)
    assert str(error) == str(caught.value)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<h1>no</h1>", "text/html"),
        (b"", "application/json"),
        (b"[1]", "application/json"),
        (b"{" * 200_000, "application/problem+json"),
    ],
)
async def test_a_refusal_without_a_problem_has_its_status(body: bytes, kind: str) -> None:
    """A proxy in between says what it likes; however much that is, the error has the status."""
    with pytest.raises(RemoteError, match="refused the search: status 503") as caught:
        await read_from(Answers([body], 503, kind, {"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}))
    assert (caught.value.status, caught.value.problem, caught.value.retry_after) == (503, {}, None)


async def test_a_refused_parameter_is_named() -> None:
    """What the real server refuses, it names."""
    app = create_app(Pipeline({"lexical": lexical}))
    with serving(app) as url, pytest.raises(RemoteError, match="lexical") as caught:
        await read(url, arms=["unknown"])
    assert (caught.value.status, caught.value.problem["parameter"]) == (400, "arms")


async def test_a_search_that_fails_over_there_fails_here_after_its_final_snapshot() -> None:
    """A required arm failed: the final snapshot comes first, then the error that the server tells of."""
    pipeline = Pipeline([Arm("broken", broken, required=True), Arm("lexical", lexical)])
    got: list[Snapshot] = []

    async def collect(url: str) -> None:
        async for snapshot in stream_search(url, "a b"):
            got.append(snapshot)  # noqa: PERF401 - it raises before all are there

    wanted = r"failed: status 502.*'broken'"
    with serving(create_app(pipeline)) as url, pytest.raises(RemoteError, match=wanted) as caught:
        await collect(url)
    assert (got[-1].final, got[-1].outcome) == (True, Outcome.FAILED)
    assert (caught.value.status, caught.value.problem["arm"]) == (502, "broken")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (Answers(ALL[:1], then="break"), "broke off before its final snapshot"),
        (Answers(ALL[:1]), "ended before its final snapshot"),
        (Answers([ALL[0], DONE]), "ended before its final snapshot"),
        (Answers(), "ended before its final snapshot"),
        (Answers([event("snapshot", "{]")]), "told what is no snapshot"),
        (Answers([event("snapshot", "{}")]), "told what is no snapshot: hits is missing"),
        (Answers([event("snapshot", "[" * 100_000)]), "told what is no snapshot"),
        (Answers([event("error", "?")]), "failed$"),
        (Answers([b"{}"], kind="application/json"), "answered with application/json, and not with a stream"),
        (Answers(ALL, status=307, headers={"location": "/"}), "refused the search: status 307"),
        (Answers(status=204), "refused the search: status 204"),
    ],
)
async def test_an_answer_that_is_none_is_an_error(answers: Answers, message: str) -> None:
    """What breaks off, or is something else, is never taken for an answer; what came before it stays."""
    answers = replace(answers, requests=[])
    with pytest.raises(RemoteError, match=message) as caught:
        await read_from(answers)
    assert "http://127.0.0.1:" in str(caught.value)
    assert len(answers.requests) == 1, "a search is never repeated"


async def test_a_server_that_is_not_there_is_an_error() -> None:
    """It has no status, and its cause is what the network said."""
    with pytest.raises(RemoteError, match="did not answer: ConnectError") as caught:
        await read(nobody())
    assert caught.value.status is None
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


async def test_no_error_shows_a_password() -> None:
    """The address is shown without it; the server gets it."""
    answers = Answers(ALL[:1])
    with serving(answers) as url, pytest.raises(RemoteError) as caught:
        await read(url.replace("//", "//someone:secret@"), token="secret too")  # noqa: S106
    assert answers.header("authorization") == "Basic c29tZW9uZTpzZWNyZXQ="
    assert "secret" not in repr(caught.value)


# --- clients ----------------------------------------------------------------------------------------------


async def test_a_client_of_the_callers_stays_open_and_keeps_its_connection() -> None:
    """Two searches to their end take one connection; one that is left does not spoil the next."""
    answers = Answers(ALL)
    with serving(answers) as url:
        async with httpx.AsyncClient(trust_env=False) as client:
            for _ in range(2):
                await read(url, client=client)
            ports = {scope["client"][1] for scope in answers.requests}
            async with aclosing(stream_search(url, "q", client=client)) as stream:
                await anext(stream)
            assert (await read(url, client=client))[-1].final
            assert not client.is_closed
    assert len(ports) == 1


async def test_a_client_that_is_in_a_hurry_waits_for_a_stream() -> None:
    """A stream is silent for longer than a client's usual read timeout: it is read with another one."""
    arm = Gated(["a"])
    with serving(create_app(Pipeline({"arm": arm.retriever}))) as url:
        async with (
            httpx.AsyncClient(trust_env=False, timeout=0.05) as client,
            anyio.create_task_group() as group,
        ):
            group.start_soon(_open_later, arm, 0.3)
            assert (await read(url, client=client))[-1].ids == ["a"]


async def _open_later(arm: Gated, seconds: float) -> None:
    await anyio.sleep(seconds)
    arm.open()


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:1", "socks5://127.0.0.1:1", "nonsense://"])
async def test_no_proxy_is_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """Whatever the environment says of proxies, a server on this machine is reached without."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    assert (await read_from(Answers(ALL)))[-1].final


async def test_a_proxy_of_the_environment_is_asked_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search elsewhere goes by the proxy, which here is the answer itself."""
    answers = Answers(ALL)
    with serving(answers) as url:
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert (await read("http://search.invalid:8000"))[-1].final
    assert answers.header("host") == "search.invalid:8000"
