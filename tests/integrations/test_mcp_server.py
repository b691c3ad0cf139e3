"""The tools, called in memory with the SDK's own client, on asyncio and trio."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from mcp import Client
from mcp_kit import NAMES, Asked, Told, hits, in_virtual_time, refusal, search, text_of

from rrf_stream import Arm, Breaker, Hit, Pipeline, set_thread_limit
from rrf_stream.integrations.mcp import FetchedDocument, SearchAnswer, create_server
from rrf_stream.testing import capture_events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks", "no_hang")]


def fast_and_slow() -> tuple[Asked, Asked, Pipeline]:
    """Return a fast arm, an arm that gives one hit and then hangs, and a pipeline of both."""
    lexical, slow = Asked(hits("a", "c", "b")), Asked(0.125, hits("a"), hang=True)
    return lexical, slow, Pipeline({"lexical": lexical, "dense": slow})


# --- searching --------------------------------------------------------------------------------------------


async def test_search_answers_with_data_and_text() -> None:
    """Both say the same; the data is what the tool's own output schema declares."""
    pipeline = Pipeline({"lexical": Asked(hits("a", "b")), "dense": Asked(hits("b"))})
    async with Client(create_server(pipeline)) as client:
        answer, text = await search(client, top_k=1)
        tools = (await client.list_tools()).tools
    assert answer.complete
    assert [hit.model_dump() for hit in answer.hits] == [
        {
            "rank": 1,
            "id": "b",
            "title": "Title of b",
            "snippet": "words of b",
            "score": pytest.approx(1 / 62 + 1 / 61, abs=1e-6),
            "arms": {"lexical": 2, "dense": 1},
        }
    ]
    assert text == "1 hit.\n\n1. Title of b\n   id: b | ranks: lexical 2, dense 1\n   words of b"
    assert [tool.name for tool in tools] == ["search"], "no fetch without a function for it"
    assert tools[0].output_schema == SearchAnswer.model_json_schema()


@in_virtual_time
async def test_a_slow_arm_costs_the_time_of_the_call_and_no_more() -> None:
    """The answer comes just before the end of the time that the call gave, and says who was slow."""
    _, slow, pipeline = fast_and_slow()
    async with Client(create_server(pipeline, arm_names=NAMES)) as client:
        started = anyio.current_time()
        answer, text = await search(client, timeout_ms=500)
        assert anyio.current_time() - started == pytest.approx(0.49)
    assert not answer.complete
    assert answer.certain_first_n == 1
    assert answer.elapsed_ms == 490
    assert answer.missing_arms == ["the vector index gave only 1 result within 490 ms"]
    assert text.splitlines()[0] == (
        "3 hits. Results may be incomplete: the vector index gave only 1 result within 490 ms. The first hit "
        "is certain; what follows might change in a complete search."
    )
    assert slow.played[0].closed


@in_virtual_time
@pytest.mark.parametrize(
    ("asked", "got"), [(None, 1.99), (1_500, 1.49), (60_000, 7.99), (10**400, 7.99), (10, 0.009)]
)
async def test_the_time_has_a_default_and_a_most(asked: int | None, got: float) -> None:
    """A call that does not say has the default, and none has more than the most; some is for the wording."""
    _, _, pipeline = fast_and_slow()
    async with Client(create_server(pipeline, timeout=2.0, max_timeout=8.0)) as client:
        started = anyio.current_time()
        await search(client, timeout_ms=asked)
        assert anyio.current_time() - started == pytest.approx(got)


async def test_a_failing_arm_is_told_of_and_its_words_are_not() -> None:
    """The others answer; what the error says goes to the log, where those who run the server see it."""
    failing = Asked(fail=ConnectionError("no route to db:5432, password=hunter2"))
    pipeline = Pipeline({"lexical": Asked(hits("a")), "dense": failing})
    with capture_events() as events:
        async with Client(create_server(pipeline, arm_names=NAMES)) as client:
            answer, text = await search(client)
    assert answer.missing_arms == ["the vector index failed (ConnectionError)"]
    assert [hit.id for hit in answer.hits] == ["a"]
    assert "hunter2" not in text + answer.model_dump_json()
    assert any("hunter2" in str(event.get("error")) for event in events)


async def test_a_required_arm_that_fails_is_an_error_in_words(caplog: pytest.LogCaptureFixture) -> None:
    """There is no answer then, and the words are for a model; no traceback is logged."""
    failing = Asked(fail=ConnectionError("password=hunter2"))
    breaker = Breaker(failures=1, cooldown=60)
    pipeline = Pipeline(
        [Arm("lexical", failing, required=True), Arm("dense", Asked(hits("a")))], breaker={"lexical": breaker}
    )
    with caplog.at_level(logging.INFO):
        async with Client(create_server(pipeline, arm_names=NAMES)) as client:
            first, second = await refusal(client, query="words"), await refusal(client, query="words")
    assert first == (
        "there is no answer: the full-text index, which every answer needs, failed (ConnectionError). This "
        "says nothing about what the documents hold; try again later."
    )
    assert "was not asked, as it failed before; it is tried again in" in second
    leaks = [record.getMessage() for record in caplog.records if "hunter2" in record.getMessage()]
    assert leaks == [], leaks
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"query": " \n"}, "query must not be blank; ask with the words that matter"),
        (
            {"query": "x" * 2_001},
            "query must have at most 2,000 characters, not 2,001; ask with the words that matter",
        ),
        ({"query": "x", "top_k": 0}, "top_k must be 1 to 50, not 0"),
        ({"query": "x", "top_k": 51}, "top_k must be 1 to 50, not 51"),
        ({"query": "x", "timeout_ms": 0}, "timeout_ms must be at least 1, not 0"),
        ({"query": "x", "timeout_ms": 1.5}, "timeout_ms must be a whole number"),
        ({"query": "x", "top_k": "many"}, "top_k must be a whole number"),
        ({"query": 5}, "query must be text"),
        ({}, "query must be given"),
        (
            {"query": "x", "limit": 5, "top_k": None},
            "top_k must be a whole number; limit is no argument of this tool",
        ),
    ],
)
async def test_what_cannot_be_asked_is_refused_in_words(arguments: dict[str, Any], said: str) -> None:
    """A model can mend its call by what it is told; the arms are not bothered."""
    lexical = Asked(hits("a"))
    async with Client(create_server(Pipeline({"lexical": lexical}))) as client:
        assert await refusal(client, **arguments) == said
    assert lexical.played == []


async def test_a_pipeline_that_settles_early_takes_any_top_k() -> None:
    """How many places must be settled is up to the call here, so that no call asks for too few."""
    settling = Pipeline({"lexical": Asked(hits("a", "b"))}, until="settled", settle=5)
    async with Client(create_server(settling)) as client:
        answer, _ = await search(client, top_k=1)
    assert [hit.id for hit in answer.hits] == ["a"]


# --- progress ---------------------------------------------------------------------------------------------


@in_virtual_time
async def test_each_better_snapshot_is_told_in_its_time() -> None:
    """Ten results in a second, and a notification every quarter: not one more, each later than the last."""
    steps = [step for n in range(10) for step in (0.1, f"id{n}")]
    pipeline = Pipeline({"lexical": Asked(*steps), "dense": Asked(hits("a"), hang=True)})
    told: list[Told] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(Told(progress, total, message or ""))

    async with Client(create_server(pipeline, arm_names=NAMES, progress_interval=0.25)) as client:
        arguments = {"query": "words", "timeout_ms": 2_000}
        await client.call_tool("search", arguments, progress_callback=tell)
    times = [one.progress for one in told]
    assert 4 <= len(told) <= 6
    assert all(later - earlier >= 250 for earlier, later in pairwise(times))
    assert {one.total for one in told} == {2_000}
    assert told[0].message == (
        "1 hit so far; waiting for the full-text index, the vector index; best: Title of a"
    )
    assert told[-1].message == "10 hits so far; waiting for the vector index; best: id0"


@in_virtual_time
async def test_a_client_that_is_slow_to_be_told_gets_its_answer_in_time() -> None:
    """A notification that nobody takes is given up for the answer."""
    _, _, pipeline = fast_and_slow()

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        del progress, total, message
        await anyio.sleep(3_600)

    async with Client(create_server(pipeline)) as client:
        started = anyio.current_time()
        await client.call_tool("search", {"query": "x", "timeout_ms": 500}, progress_callback=tell)
        assert anyio.current_time() - started == pytest.approx(0.49)


@in_virtual_time
async def test_a_client_that_is_slow_to_be_told_does_not_delay_an_answer_that_is_ready() -> None:
    """All arms have answered after 0.25 s, of 20 s that the call has, and so has the server."""
    pipeline = Pipeline({"lexical": Asked(hits("a")), "dense": Asked(0.125, "b", 0.125, "c")})

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        del progress, total, message
        await anyio.sleep(3_600)

    async with Client(create_server(pipeline, progress_interval=0.01)) as client:
        started = anyio.current_time()
        arguments = {"query": "x", "timeout_ms": 20_000}
        result = await client.call_tool("search", arguments, progress_callback=tell)
        assert anyio.current_time() - started == 0.25
    assert SearchAnswer.model_validate(result.structured_content).complete


@in_virtual_time
async def test_an_arm_that_is_slow_to_clean_up_does_not_delay_the_answer() -> None:
    """It does so in the background, and the lifespan stays open for it when the server ends."""
    seen: list[str] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        yield
        seen.append("closed")

    async def slow(_: str) -> AsyncIterator[str]:
        yield "a"
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.75)
                seen.append("cleaned up")

    async with Client(create_server(Pipeline({"slow": slow}), lifespan=opened)) as client:
        started = anyio.current_time()
        await search(client, timeout_ms=500)
        assert anyio.current_time() - started == pytest.approx(0.49)
    assert seen == ["cleaned up", "closed"]


@in_virtual_time
async def test_more_calls_than_there_are_places_are_refused_in_words() -> None:
    """A place is free again when its call has ended, also one that was cancelled."""
    _, _, pipeline = fast_and_slow()
    async with Client(create_server(pipeline, max_calls=2, fetch={"a": "All of it."}.get)) as client:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(client.call_tool, "search", {"query": "x", "timeout_ms": 20_000})
            await anyio.sleep(0.25)
            said = {await refusal(client, query="x"), await refusal(client, "fetch", id="a")}
            tasks.cancel_scope.cancel()
        await anyio.sleep(0.0625)
        await search(client, timeout_ms=250)
    assert said == {"too many calls are under way; try again later"}


# --- cancelling -------------------------------------------------------------------------------------------


@in_virtual_time
async def test_cancelling_the_call_cancels_the_arms() -> None:
    """The scripts that hung are closed at that moment, long before the time of the call is over."""
    lexical, slow, pipeline = fast_and_slow()
    async with Client(create_server(pipeline)) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "search", {"query": "x", "timeout_ms": 20_000})
            await anyio.sleep(0.25)
            assert not slow.played[0].closed
            tasks.cancel_scope.cancel()
        await anyio.sleep(0.0625)
        assert [script.closed for script in (*lexical.played, *slow.played)] == [True, True]
        answer, _ = await search(client, timeout_ms=250)  # the next call is as good as the first
        assert [hit.id for hit in answer.hits] == ["a", "c", "b"]


@in_virtual_time
async def test_in_one_process_a_time_limit_of_the_client_is_kept() -> None:
    """It is a deadline around the search, which answers just before it, though its own time is longer."""
    _, _, pipeline = fast_and_slow()
    async with Client(create_server(pipeline)) as client:
        started = anyio.current_time()
        arguments = {"query": "x", "timeout_ms": 9_000}
        result = await client.call_tool("search", arguments, read_timeout_seconds=0.25)
        assert 0.2 < anyio.current_time() - started <= 0.25
    answer = SearchAnswer.model_validate(result.structured_content)
    assert answer.missing_arms == ["'dense' gave only 1 result within 245 ms"]


# --- fetching ---------------------------------------------------------------------------------------------

DOCUMENTS: dict[Any, Any] = {
    "a/b": {"title": "Text", "text": "All of it."},
    7: {"text": "seven"},
    1: "the document that True is equal to",
    (1, "x"): "a tuple",
    "7 ": {"text": "looks like a number"},
}


async def by_id(id_: Any) -> Any:
    return DOCUMENTS.get(id_)


def in_two_steps(id_: Any) -> Any:
    """Give an awaitable, which no one can tell by the form of the function."""
    return by_id(id_)


@pytest.mark.parametrize("fetch", [by_id, DOCUMENTS.get, DOCUMENTS.__getitem__, in_two_steps])
async def test_fetch_takes_every_id_that_search_gave(fetch: Callable[[Any], Any]) -> None:
    """Text, numbers and tuples; by a function that is asynchronous, plain, raises, or gives an awaitable."""
    pipeline = Pipeline({"lexical": Asked(*DOCUMENTS)})
    async with Client(create_server(pipeline, fetch=fetch)) as client:
        answer, text = await search(client)
        assert [hit.id for hit in answer.hits] == ["a/b", "7", "1", '[1, "x"]', "7 "]
        assert "call fetch with its id" in text
        found = [await client.call_tool("fetch", {"id": hit.id}) for hit in answer.hits]
        for wrong in ("true", "7.0", " 7", '["1", "x"]'):  # that a dictionary or JSON would take for another
            assert "there is no document" in await refusal(client, "fetch", id=wrong)
        assert await refusal(client, "fetch", id="8") == (
            "there is no document with this id; give the id of a hit of search, unchanged"
        )
    assert [FetchedDocument.model_validate(result.structured_content).text for result in found] == [
        "All of it.",
        "seven",
        "the document that True is equal to",
        "a tuple",
        "looks like a number",
    ]
    assert text_of(found[0]) == "Text\n\nAll of it."


async def test_a_long_document_comes_in_parts() -> None:
    """Each part has its bound, and the parts are the document."""
    document = "".join(f"{n} " for n in range(2_000))
    server = create_server(
        Pipeline({"lexical": Asked("a")}), fetch={"a": document}.get, max_fetch_chars=2_000
    )
    parts: list[str] = []
    async with Client(server) as client:
        start: int | None = 0
        while start is not None:
            result = await client.call_tool("fetch", {"id": "a", "start": start})
            part = FetchedDocument.model_validate(result.structured_content)
            assert len(text_of(result)) <= 2_000
            assert len(json.dumps(result.structured_content)) <= 2_200, "blanks between the fields included"
            parts.append(part.text)
            start = part.next_start
        assert await refusal(client, "fetch", id="a", start=-1) == "start must be at least 0, not -1"
    assert "".join(parts) == document
    assert len(parts) > 4


async def test_an_id_that_is_absurd_names_nothing() -> None:
    """Nobody is asked for an id of a megabyte."""

    async def fetch(id_: str) -> str:
        raise AssertionError(id_)

    async with Client(create_server(Pipeline({"lexical": Asked("a")}), fetch=fetch)) as client:
        assert "there is no document" in await refusal(client, "fetch", id="x" * 1_000_000)


async def test_a_fetch_that_fails_is_an_error_in_words(caplog: pytest.LogCaptureFixture) -> None:
    """The kind of the error is told, what it says is logged, in one line."""

    async def fetch(_: Any) -> Any:
        raise ConnectionError("password=hunter2")

    with caplog.at_level(logging.WARNING):
        async with Client(create_server(Pipeline({"lexical": Asked("a")}), fetch=fetch)) as client:
            said = await refusal(client, "fetch", id="a")
    assert said == "the document could not be read (ConnectionError); try again later"
    assert [record.getMessage() for record in caplog.records] == [
        "rrf_stream.fetch_failed: ConnectionError('password=hunter2')"
    ]
    assert caplog.records[0].exc_info is None


@in_virtual_time
async def test_a_fetch_that_hangs_is_given_up() -> None:
    """It has as long as a search can have at most."""

    async def fetch(_: Any) -> Any:
        await anyio.sleep_forever()

    server = create_server(Pipeline({"lexical": Asked("a")}), fetch=fetch, timeout=1.0, max_timeout=4.0)
    async with Client(server) as client:
        started = anyio.current_time()
        said = await refusal(client, "fetch", id="a")
        assert anyio.current_time() - started == 4.0
    assert said == "the document could not be read within 4 s; try again later"


async def test_a_plain_fetch_blocks_nobody() -> None:
    """It runs in a thread, so another call is answered while it waits."""
    go_on = threading.Event()

    fetched: list[str] = []

    def fetch(id_: str) -> str:
        return f"{id_} {go_on.wait(30)}"

    async def fetch_it() -> None:
        fetched.append(text_of(await client.call_tool("fetch", {"id": "a"})))

    async with (
        Client(create_server(Pipeline({"lexical": Asked("a")}), fetch=fetch)) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(fetch_it)
        await anyio.lowlevel.checkpoint()
        answer, _ = await search(client)
        go_on.set()
    assert [hit.id for hit in answer.hits] == ["a"]
    assert fetched == ["a True"]


async def test_plain_fetches_that_hang_take_a_place_each_until_there_is_none() -> None:
    """Their threads are counted until they end, though nobody waits for them any more."""
    go_on = threading.Event()

    def fetch(_: str) -> None:
        go_on.wait(30)

    before = set_thread_limit(2)
    server = create_server(Pipeline({"lexical": Asked("a")}), fetch=fetch, timeout=0.1, max_timeout=0.1)
    try:
        async with Client(server) as client:
            said = [await refusal(client, "fetch", id="a") for _ in range(3)]
    finally:
        go_on.set()
        set_thread_limit(before)
    assert said == [
        "the document could not be read within 0.1 s; try again later",
        "the document could not be read within 0.1 s; try again later",
        "the document could not be read (too many are being read); try again later",
    ]


# --- the server -------------------------------------------------------------------------------------------


async def test_the_lifespan_is_open_while_the_server_runs() -> None:
    """What it opens is there for the first search, and closed when the server has ended."""
    seen: list[str] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[str]:
        seen.append("opened")
        yield "state"
        seen.append("closed")

    async def lexical(query: str) -> list[str]:
        seen.append(query)
        return ["a"]

    async with Client(create_server(Pipeline({"lexical": lexical}), lifespan=opened)) as client:
        await search(client)
    assert seen == ["opened", "words", "closed"]


async def test_tools_tell_a_model_what_they_are_and_that_they_only_read() -> None:
    """What there is to find and how long it may take is in the descriptions, the limits in the schema."""
    server = create_server(
        Pipeline({"lexical": Asked("a")}),
        name="handbook",
        about="the handbook of the company",
        fetch=by_id,
        timeout=1.5,
        max_timeout=9.0,
        max_top_k=7,
    )
    async with Client(server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert client.server_info is not None
        assert client.server_info.name == "handbook"
        assert "Search the handbook of the company." in (client.instructions or "")
    assert tools.keys() == {"search", "fetch"}
    for tool in tools.values():
        assert "the handbook of the company" in (tool.description or "")
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True
    assert "(1500 unless you say otherwise, 9000 at most)" in (tools["search"].description or "")
    parameters = tools["search"].input_schema["properties"]
    assert parameters.keys() == {"query", "top_k", "timeout_ms"}
    assert tools["search"].input_schema["additionalProperties"] is False
    assert tools["search"].input_schema["required"] == ["query"]
    assert (parameters["top_k"]["default"], parameters["top_k"]["maximum"]) == (7, 7)
    assert all("description" in parameter for parameter in parameters.values())


async def test_documents_of_any_kind_can_be_described() -> None:
    """`describe` says what the title and the text are, of hits and of fetched documents."""
    rows = {"a": ("A row", "its cells")}
    pipeline = Pipeline({"lexical": Asked(Hit("a", item=rows["a"]))})
    server = create_server(pipeline, fetch=rows.get, describe=lambda row: row or ("", ""))
    async with Client(server) as client:
        answer, _ = await search(client)
        fetched = await client.call_tool("fetch", {"id": "a"})
    assert (answer.hits[0].title, answer.hits[0].snippet) == ("A row", "its cells")
    assert text_of(fetched) == "A row\n\nits cells"


def fails_on_b(item: Any) -> Any:
    """Describe a document, unless it is that of b, or the one of c, which it gives no text."""
    if item == "b":
        raise KeyError("password=hunter2")
    return ("c", None) if item == "c" else ("Title", item)


async def test_a_document_that_cannot_be_described_does_not_cost_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its hit has an id and a rank, and `fetch` refuses it in words; the first such failure is logged."""
    ids = ("a", "b", "c", "b2")
    pipeline = Pipeline({"lexical": Asked(*(Hit(id_, item=id_[:1]) for id_ in ids), hang=True)})
    server = create_server(pipeline, fetch={"b": "b"}.get, describe=fails_on_b, progress_interval=0.01)
    with caplog.at_level(logging.WARNING):
        async with Client(server) as client:
            answer, _ = await search(client, timeout_ms=100)
            said = await refusal(client, "fetch", id="b")
    assert [(hit.id, hit.title, hit.snippet) for hit in answer.hits] == [
        ("a", "Title", "a"),
        ("b", "", ""),
        ("c", "", ""),
        ("b2", "", ""),
    ]
    assert said == "the document could not be read (KeyError); try again later"
    assert [record.getMessage() for record in caplog.records] == [
        "rrf_stream.describe_failed: KeyError('password=hunter2')",
        "rrf_stream.fetch_failed: KeyError('password=hunter2')",
    ]
