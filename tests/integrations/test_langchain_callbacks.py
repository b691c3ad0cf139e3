"""Callbacks: the runs of the retrievers are below that of the fusion, whichever way it is asked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables import RunnableLambda
from langchain_kit import (
    PATIENCE,
    Awaited,
    Gated,
    Given,
    Recorder,
    as_a_whole,
    ask,
    docs,
    every_way,
    on_asyncio,
    rrf,
    texts,
)
from otel_kit import FUSION, instrumented

from rrf_stream import Pipeline
from rrf_stream.errors import DegradedError
from rrf_stream.integrations.langchain import FusionRetriever, from_langchain

if TYPE_CHECKING:
    from uuid import UUID

    from langchain_core.documents import Document

pytestmark = [pytest.mark.anyio, on_asyncio]


def both(**options: Any) -> FusionRetriever:
    """Return a fusion of a retriever that runs in a thread and one that does not."""
    inner = [Given(found=docs("oslo"), tags=["own"]), Awaited(found=docs("oslo", "bern"))]
    return FusionRetriever(retrievers=inner, **options)


@every_way
async def test_the_runs_of_retrievers_are_below_that_of_the_fusion(how: str) -> None:
    """Each has its start and its end with its documents, and the tag that `EnsembleRetriever` gives it."""
    recorder = Recorder()
    await ask(both(), how, {"callbacks": [recorder]})
    (outer,), (given,), (awaited,) = map(recorder.named, ("FusionRetriever", "Given", "Awaited"))
    assert (outer.parent, outer.told, outer.found) == (None, ["start", "end"], ["oslo", "bern"])
    assert (given.parent, given.told, given.found) == ("FusionRetriever", ["start", "end"], ["oslo"])
    assert (awaited.parent, awaited.told) == ("FusionRetriever", ["start", "end"])
    assert sorted(given.tags) == ["own", "retriever_1"]
    assert awaited.tags == ("retriever_2",)


@every_way
async def test_the_config_reaches_the_retrievers(how: str) -> None:
    """Tags and metadata of the call are everybody's, those of the fusion its own, as is the run's name."""
    recorder = Recorder()
    fusion = both(tags=["fused"], metadata={"level": "top"})
    config: Any = {"callbacks": [recorder], "tags": ["call"], "metadata": {"user": "x"}, "run_name": "hybrid"}
    await ask(fusion, how, config)
    (outer,), (given,), (awaited,) = map(recorder.named, ("hybrid", "Given", "Awaited"))
    assert sorted(outer.tags) == ["call", "fused"]
    assert outer.metadata == {"user": "x", "level": "top", "ls_retriever_name": "fusion"}
    assert sorted(given.tags) == ["call", "own", "retriever_1"]
    assert sorted(awaited.tags) == ["call", "retriever_2"]
    assert awaited.metadata["user"] == "x"
    assert "level" not in awaited.metadata


@every_way
async def test_they_are_told_what_they_would_be_there(how: str) -> None:
    """Names, parents, tags and endings are those of an `EnsembleRetriever` of the same retrievers."""
    retrievers = pytest.importorskip(
        "langchain_classic.retrievers", reason="the extra rivals is not installed, which brings it"
    )
    told = []
    for kind in (FusionRetriever, retrievers.EnsembleRetriever):
        recorder = Recorder()
        await ask(kind(retrievers=both().retrievers), how, {"callbacks": [recorder], "tags": ["call"]})
        told.append(
            sorted(
                (
                    run.name.replace("Ensemble", "Fusion"),
                    str(run.parent).replace("Ensemble", "Fusion"),
                    sorted(run.tags),
                    run.told,
                    run.found,
                )
                for run in recorder.runs.values()
            )
        )
    assert told[0] == told[1]


@every_way
async def test_within_a_chain_the_fusion_is_below_it(how: str) -> None:
    """The config of a chain is inherited by the fusion, and by its retrievers through that."""

    def longer(query: str) -> str:
        return f"{query}!"

    recorder = Recorder()
    chain = RunnableLambda(longer) | both()
    assert texts(await ask(chain, how, {"callbacks": [recorder]})) == ["oslo", "bern"]
    parents = {run.name: run.parent for run in recorder.runs.values()}
    assert parents["FusionRetriever"] == "RunnableSequence"
    assert parents["Given"] == parents["Awaited"] == "FusionRetriever"


@every_way
async def test_an_error_of_a_retriever_is_told_of_its_run(how: str) -> None:
    """The run of the fusion ends well."""
    recorder = Recorder()
    error = OSError("refused")
    retriever = FusionRetriever(
        retrievers=[Given(found=error), Given(found=docs("oslo")), Awaited(found=error)]
    )
    await ask(retriever, how, {"callbacks": [recorder]})
    assert [run.told for run in recorder.named("FusionRetriever")] == [["start", "end"]]
    told = {run.tags: (run.told, run.error) for run in recorder.named("Given") + recorder.named("Awaited")}
    assert told == {
        ("retriever_1",): (["start", "error"], error),
        ("retriever_2",): (["start", "end"], None),
        ("retriever_3",): (["start", "error"], error),
    }


@every_way
async def test_an_error_of_the_fusion_is_told_of_its_run(how: str) -> None:
    """An answer of nobody is the error of the run."""
    recorder = Recorder()
    with pytest.raises(DegradedError) as caught:
        await ask(FusionRetriever(retrievers=[Given(found=OSError())]), how, {"callbacks": [recorder]})
    (outer,) = recorder.named("FusionRetriever")
    assert (outer.told, outer.error) == (["start", "error"], caught.value)


class Listener(AsyncCallbackHandler):
    """Notes asynchronously who has started and ended."""

    def __init__(self) -> None:
        self.names: dict[UUID, str] = {}
        self.ended: set[str] = set()

    async def on_retriever_start(self, *_: Any, run_id: UUID, **told: Any) -> None:
        await anyio.lowlevel.checkpoint()
        self.names[run_id] = told["name"]

    async def on_retriever_end(self, *_: Any, run_id: UUID, **__: Any) -> None:
        await anyio.lowlevel.checkpoint()
        self.ended.add(self.names[run_id])


@every_way
async def test_asynchronous_callbacks_are_called_too(how: str) -> None:
    """Also for what runs in threads."""
    listener = Listener()
    await ask(both(), how, {"callbacks": [listener]})
    assert listener.ended == {"FusionRetriever", "Given", "Awaited"}


@pytest.mark.parametrize("how", ["ainvoke", "astream"])
async def test_a_run_can_be_given_its_id(how: str) -> None:
    """As for any retriever."""
    recorder, run_id = Recorder(), uuid4()
    if how == "ainvoke":
        await both().ainvoke("query", {"callbacks": [recorder]}, run_id=run_id)
    else:
        [chunk async for chunk in both().astream("query", {"callbacks": [recorder]}, run_id=run_id)]
    assert recorder.runs[run_id].name == "FusionRetriever"


async def test_events_of_a_stream() -> None:
    """`astream_events` has the starts and ends of all, the fusion above, and the documents as they come."""
    events = [event async for event in both().astream_events("query")]
    starts = {event["name"]: event for event in events if event["event"] == "on_retriever_start"}
    ends = {event["name"]: event for event in events if event["event"] == "on_retriever_end"}
    assert starts.keys() == ends.keys() == {"FusionRetriever", "Given", "Awaited"}
    outer = starts["FusionRetriever"]["run_id"]
    assert [starts[name]["parent_ids"] for name in ("FusionRetriever", "Given", "Awaited")] == [
        [],
        [outer],
        [outer],
    ]
    assert events[0]["run_id"] == events[-1]["run_id"] == outer
    found: list[Document] = ends["FusionRetriever"]["data"]["output"]
    assert texts(found) == ["oslo", "bern"]
    assert rrf(found)[0]["rank"] == 1
    chunks = [event["data"]["chunk"] for event in events if event["event"] == "on_retriever_stream"]
    assert [document for chunk in chunks for document in chunk] == found


async def test_a_call_that_is_too_late_tells_of_its_end_when_it_has_one() -> None:
    """A thread cannot be stopped: its run ends after that of the fusion, below which it is."""
    gate, ended, recorder = threading.Event(), threading.Event(), Recorder()

    class Told(Recorder):
        def on_retriever_end(self, documents: Any, *, run_id: UUID, **told: Any) -> None:
            super().on_retriever_end(documents, run_id=run_id, **told)
            if self.runs[run_id].name == "Gated":
                ended.set()

    recorder = Told()
    slow = Gated(found=docs("rome"), gate=gate)
    retriever = FusionRetriever(retrievers=[Given(found=docs("oslo")), slow], timeout=1)
    assert texts(await ask(retriever, "ainvoke", {"callbacks": [recorder]})) == ["oslo"]
    (late,) = recorder.named("Gated")
    assert (late.parent, late.told) == ("FusionRetriever", ["start"])
    gate.set()
    assert await anyio.to_thread.run_sync(ended.wait, PATIENCE)
    assert (late.told, late.found) == (["start", "end"], ["rome"])


async def test_arms_of_a_pipeline_are_below_the_chain_around_it() -> None:
    """`from_langchain` needs no config for that: it is inherited, in threads too."""
    recorder = Recorder()
    arms = {"given": from_langchain(both().retrievers[0]), "awaited": from_langchain(both().retrievers[1])}
    pipeline = Pipeline(arms)

    async def search(query: str) -> list[str]:
        ids: list[str] = (await pipeline.search(query)).ids
        return ids

    chain = RunnableLambda(search, name="search")
    assert await chain.ainvoke("query", {"callbacks": [recorder]}) == ["oslo", "bern"]
    assert {run.name: run.parent for run in recorder.runs.values()} == {
        "search": None,
        "Given": "search",
        "Awaited": "search",
    }


@as_a_whole
async def test_spans_of_a_retriever_are_below_that_of_its_arm(how: str) -> None:
    """OpenTelemetry shows who asked whom, whichever way the fusion is asked."""
    with instrumented() as kept:

        def find(_: str) -> list[Document]:
            with kept.tracer.start_as_current_span("inside"):
                return docs("oslo")

        with kept.tracer.start_as_current_span("caller"):
            await ask(FusionRetriever(retrievers=[RunnableLambda(find)]), how)
        assert kept.tree() == {
            "caller": None,
            FUSION: "caller",
            "retrieval retriever_1": FUSION,
            "inside": "retrieval retriever_1",
        }
