"""`astream`: documents as soon as their places are settled, each once."""

from __future__ import annotations

import asyncio
from math import isclose
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from langchain_kit import Awaited, Given, Recorder, docs, in_virtual_time, on_asyncio, rrf, statuses, texts

from rrf_stream.errors import DegradedError
from rrf_stream.integrations.langchain import FusionRetriever

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun
    from langchain_core.documents import Document

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]


def late_third(**options: Any) -> FusionRetriever:
    """Return a fusion of three, whose first two settle the first place after 0.2 s."""
    return FusionRetriever(
        retrievers=[
            Awaited(found=docs("oslo", "bern"), after=0.1),
            Awaited(found=docs("oslo", "rome"), after=0.2),
            Awaited(found=docs("wien", "oslo"), after=0.5),
        ],
        **options,
    )


async def timed(stream: AsyncIterator[list[Document]]) -> list[tuple[float, list[str]]]:
    """Return what a stream yields, and after how many seconds."""
    start = anyio.current_time()
    return [(round(anyio.current_time() - start, 3), texts(chunk)) async for chunk in stream]


@in_virtual_time
async def test_documents_come_when_their_places_are_settled() -> None:
    """The first place is certain when two have agreed on it; the others when the third has answered."""
    assert await timed(late_third().astream("query")) == [(0.2, ["oslo"]), (0.5, ["wien", "bern", "rome"])]


@in_virtual_time
async def test_at_the_deadline_the_rest_comes() -> None:
    """A time limit settles all places, with what has arrived."""
    assert await timed(late_third(timeout=0.3).astream("query")) == [
        (0.2, ["oslo"]),
        (0.3, ["bern", "rome"]),
    ]


@in_virtual_time
async def test_top_k_ends_the_stream_of_documents() -> None:
    """No more than `top_k` come, and they come as early."""
    assert await timed(late_third(top_k=1).astream("query")) == [(0.2, ["oslo"])]


@in_virtual_time
async def test_a_document_tells_what_was_known_when_its_place_was_settled() -> None:
    """A place does not change any more, but the score in it may still rise: `ainvoke` knows the last one."""
    retriever = late_third()
    early, *_ = [document async for chunk in retriever.astream("query") for document in chunk]
    whole = (await retriever.ainvoke("query"))[0]
    assert rrf([early])[0]["ranks"] == {"retriever_1": 1, "retriever_2": 1}
    assert rrf([whole])[0]["ranks"] == {"retriever_1": 1, "retriever_2": 1, "retriever_3": 2}
    assert isclose(rrf([early])[0]["score"], 2 / 61 / 3)
    assert isclose(rrf([whole])[0]["score"], (2 / 61 + 1 / 62) / 3)
    assert rrf([early])[0]["exact"]
    assert statuses(early)["retriever_3"] == "waiting"
    assert not rrf([early])[0]["coverage"]["degraded"]


@on_asyncio
async def test_an_empty_answer_is_one_empty_list() -> None:
    """So a chain goes on with it."""
    retriever = FusionRetriever(retrievers=[Given(found=[])])
    assert [chunk async for chunk in retriever.astream("query")] == [[]]
    chain = retriever | RunnableLambda(len)
    assert [chunk async for chunk in chain.astream("query")] == [0]


@on_asyncio
async def test_a_stream_without_asynchronous_reading_is_one_list() -> None:
    """`stream` gives what `invoke` does."""
    retriever = FusionRetriever(retrievers=[Given(found=docs("oslo")), Given(found=docs("bern"))])
    assert [texts(chunk) for chunk in retriever.stream("query")] == [["oslo", "bern"]]


@in_virtual_time
async def test_a_chain_gets_the_whole_or_the_parts() -> None:
    """What follows in a chain gets the lists as they come, if it takes a stream, or else added together."""

    async def each(stream: AsyncIterator[list[Document]]) -> AsyncIterator[list[Document]]:
        async for chunk in stream:
            yield [chunk[0]]

    parts = late_third() | RunnableGenerator(each)
    assert await timed(parts.astream("query")) == [(0.2, ["oslo"]), (0.5, ["wien"])]
    whole = late_third() | RunnableLambda(lambda documents: documents[::-1])
    assert await timed(whole.astream("query")) == [(0.5, ["rome", "bern", "wien", "oslo"])]


class Shortened(FusionRetriever):
    """Gives the first document only."""

    async def _aget_relevant_documents(self, query: str, **options: Any) -> list[Document]:
        return (await super()._aget_relevant_documents(query, **options))[:1]


@in_virtual_time
async def test_a_subclass_with_a_search_of_its_own_streams_that() -> None:
    """What it gives comes in one list, with the runs as ever."""
    recorder = Recorder()
    retriever = Shortened(retrievers=late_third().retrievers)
    assert await timed(retriever.astream("query", {"callbacks": [recorder]})) == [(0.5, ["oslo"])]
    (run,) = recorder.named("Shortened")
    assert (run.told, run.found) == (["start", "end"], ["oslo"])


class Noted(Awaited):
    """Notes when it is cancelled."""

    notes: Any = None

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        try:
            return await super()._aget_relevant_documents(query, run_manager=run_manager)
        except asyncio.CancelledError:
            self.notes.append(anyio.current_time())
            raise


def left_alone(cancelled: list[float]) -> FusionRetriever:
    """Return a fusion whose first place is settled at once, and whose third retriever never answers."""
    third = Noted(found=[], after=1000)
    third.notes = cancelled
    return FusionRetriever(retrievers=[Awaited(found=docs("oslo")), Awaited(found=docs("oslo")), third])


@in_virtual_time
async def test_leaving_the_stream_stops_the_retrievers() -> None:
    """Its run ends with what was read, and a retriever that is still asked is cancelled."""
    cancelled: list[float] = []
    recorder = Recorder()
    stream: Any = left_alone(cancelled).astream("query", {"callbacks": [recorder]})
    assert texts(await anext(stream)) == ["oslo"]
    start = anyio.current_time()
    await stream.aclose()
    assert cancelled == [start]
    (run,) = recorder.named("FusionRetriever")
    assert (run.told, run.found) == (["start", "end"], ["oslo"])


@in_virtual_time
async def test_a_reader_that_is_cancelled_stops_the_retrievers() -> None:
    """The run ends with the cancellation as its error, as LangChain's streams do."""
    cancelled: list[float] = []
    recorder = Recorder()
    with anyio.CancelScope() as scope:
        async for _ in left_alone(cancelled).astream("query", {"callbacks": [recorder]}):
            scope.cancel()
    await anyio.lowlevel.checkpoint()  # LangChain tells of it in a task of its own
    assert len(cancelled) == 1
    (run,) = recorder.named("FusionRetriever")
    assert run.told == ["start", "error"]
    assert isinstance(run.error, asyncio.CancelledError)


@in_virtual_time
async def test_what_was_settled_is_there_before_a_partial_answer_is_refused() -> None:
    """With `raise_on_degraded` the error comes in the end, when it is known; the rest is not given then."""
    read: list[str] = []
    recorder = Recorder()
    stream = late_third(timeout=0.3, raise_on_degraded=True).astream("query", {"callbacks": [recorder]})

    async def read_on() -> None:
        async for chunk in stream:
            read.extend(texts(chunk))

    with pytest.raises(DegradedError, match="retriever_3"):
        await read_on()
    assert read == ["oslo"]
    assert recorder.named("FusionRetriever")[0].told == ["start", "error"]


@on_asyncio
async def test_wrong_values_end_the_run_too() -> None:
    """A value that was made wrong later is the error of the run that meets it."""
    retriever = FusionRetriever(retrievers=[Given(found=docs("oslo"))])
    retriever.weights = [1, 2]
    recorder = Recorder()
    with pytest.raises(ValueError, match="weights"):
        [chunk async for chunk in retriever.astream("query", {"callbacks": [recorder]})]
    assert recorder.named("FusionRetriever")[0].told == ["start", "error"]
