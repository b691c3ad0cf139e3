"""The retriever of several retrievers in Haystack: both ways to ask, failures, saving, arms."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
import time
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import pytest
from framework_kit import (
    PATIENCE,
    Gate,
    cancelled_once,
    error_without,
    fail,
    forbidden,
    guarded,
    on_asyncio,
    opened_by_the_loop,
    seconds_of,
)
from haystack import Document
from haystack import Pipeline as Haystack
from haystack.core.errors import DeserializationError, PipelineRuntimeError, SerializationError
from haystack_kit import (
    FRUITS,
    VEGETABLES,
    WAYS,
    Asynchronous,
    Given,
    bm25,
    ids,
    run,
    run_async,
)

from rrf_stream import Breaker, Pipeline
from rrf_stream.errors import DegradedError, MissingExtraError
from rrf_stream.integrations.haystack import FusionJoiner, FusionRetriever, from_haystack

# --- what it gives ----------------------------------------------------------------------------------------


def test_real_retrievers_are_fused_in_a_pipeline() -> None:
    """Both ways give what the joiner makes of the same two lists, and say who was asked."""
    arms = {"fruits": bm25(FRUITS), "vegetables": bm25(VEGETABLES)}
    lists = [arm.run(query="apple")["documents"] for arm in arms.values()]
    expected = FusionJoiner(top_k=3).run(lists)
    for ask in WAYS:
        found = ask(FusionRetriever(arms, top_k=3), query="apple")
        assert ids(found) == ids(expected)
        assert [document.score for document in found["documents"]] == [
            document.score for document in expected["documents"]
        ]
        assert found["documents"][0].meta["rrf"]["ranks"] == {"fruits": 2, "vegetables": 2}
        assert (found["degraded"], found["coverage"]["answered"]) == (False, ["fruits", "vegetables"])


def test_equal_text_with_different_ids_stays_separate() -> None:
    """Two stores that hold one text by two ids give two documents."""
    retriever = FusionRetriever({"a": bm25({"1": "apple"}), "b": bm25({"2": "apple"})})
    assert ids(run(retriever, query="apple")) == ["1", "2"]


def test_the_documents_that_retrievers_gave_are_not_changed() -> None:
    """Score and explanation are on copies."""
    arm = Given("ab")
    before = [document.to_dict() for document in arm.found]
    found = run(FusionRetriever({"a": arm}))
    assert [document.to_dict() for document in arm.found] == before
    assert found["documents"][0].meta == {
        "page": 1,
        "rrf": {"rank": 1, "ranks": {"a": 1}, "normalized": pytest.approx(1.0)},
    }


@pytest.mark.parametrize("ask", WAYS)
def test_parameters_of_a_call_reach_the_retrievers(ask: Any) -> None:
    """Filters and a number of documents are given on to each, if there are any."""
    arm, other = Given("abc"), Given("d")
    retriever = FusionRetriever({"a": arm, "b": other})
    assert len(ask(retriever)["documents"]) == 4
    assert len(ask(retriever, filters={"x": 1}, top_k_per_retriever=7, top_k=2)["documents"]) == 2
    assert arm.calls == other.calls
    assert arm.calls == [
        {"query": "q", "filters": None, "top_k": None},
        {"query": "q", "filters": {"x": 1}, "top_k": 7},
    ]


@pytest.mark.parametrize("first", ["a", "b"])
def test_weights_are_for_names_whoever_answers_first(first: str) -> None:
    """On an event loop, too, a weight is that of the retriever it was given for."""
    answered = {name: anyio.Event() for name in "ab"}

    async def wait(name: str) -> None:
        if name != first:
            await answered[first].wait()
        answered[name].set()

    arms = {name: Asynchronous(name, wait=partial(wait, name)) for name in "ab"}
    assert ids(run_async(FusionRetriever(arms, weights={"b": 9}))) == ["b", "a"]


# --- both ways to ask -------------------------------------------------------------------------------------


def test_run_asks_all_at_the_same_time_by_their_own_run() -> None:
    """Each of three retrievers waits for the others; none is asked on an event loop."""
    meet = threading.Barrier(3, timeout=PATIENCE).wait
    arms = {"a": Given("a", meet), "b": Given("b", meet), "c": Asynchronous("c", meet, anyio.sleep_forever)}
    assert ids(run(FusionRetriever(arms))) == ["a", "b", "c"]


@guarded
async def test_run_works_where_an_event_loop_runs() -> None:
    """On any event loop the call that waits gives what it gives without one."""
    assert ids(run(FusionRetriever({"a": Given("ab"), "b": Asynchronous("b")}))) == ["b", "a"]


@on_asyncio
async def test_run_async_leaves_the_event_loop_free() -> None:
    """Who has a `run_async` is asked by that; who only blocks waits for what the loop does meanwhile."""
    gate = Gate()
    arms = {"a": Given("a", gate), "b": Asynchronous("b", forbidden)}
    found = await opened_by_the_loop(gate, FusionRetriever(arms).run_async(query="q"))
    assert ids(found) == ["a", "b"]


@on_asyncio
async def test_context_variables_reach_the_retrievers_in_both_ways() -> None:
    """What the caller set is seen by retrievers in their threads."""
    caller: ContextVar[str] = ContextVar("caller")
    seen = []
    retriever = FusionRetriever({"a": Given("a", lambda: seen.append(caller.get()))})
    caller.set("in time")
    await retriever.run_async(query="q")
    retriever.run(query="q")
    assert seen == ["in time"] * 2


# --- who fails, and who is late ---------------------------------------------------------------------------


@pytest.mark.parametrize("ask", WAYS)
def test_a_failing_retriever_costs_its_own_documents_only(ask: Any) -> None:
    """The pipeline goes on; the outputs say that something is missing, and why."""
    found = ask(FusionRetriever({"good": Given("a"), "down": Given("b", fail)}))
    assert (ids(found), found["degraded"]) == (["a"], True)
    down = found["coverage"]["arms"][1]
    assert (down["name"], down["status"], down["error"]) == ("down", "failed", "ConnectionError('refused')")


@pytest.mark.parametrize("ask", WAYS)
def test_a_retriever_that_gives_no_documents_has_failed(ask: Any) -> None:
    """An answer without the key `documents` is no answer."""

    class Odd:
        def run(self, query: str) -> dict[str, Any]:
            return {"replies": [query]}

    found = ask(FusionRetriever({"good": Given("a"), "odd": Odd()}))
    assert found["coverage"]["arms"][1]["error"] == "KeyError('documents')"


@pytest.mark.parametrize("ask", WAYS)
def test_nobody_answered_is_not_nothing_found(ask: Any) -> None:
    """No documents with an answer are an empty list; without any answer the pipeline fails."""
    found = ask(FusionRetriever({"good": Given(""), "down": Given("b", fail)}))
    assert (ids(found), found["degraded"]) == ([], True)
    with pytest.raises(PipelineRuntimeError) as caught:
        ask(FusionRetriever({"a": Given("a", fail), "b": Given("b", fail)}))
    error = caught.value.__cause__
    assert isinstance(error, DegradedError)
    assert "a (failed after 0 hits), b (failed after 0 hits)" in str(error)
    assert isinstance(error.__cause__, ConnectionError)


@on_asyncio
async def test_a_reader_that_leaves_stops_the_retrievers() -> None:
    """A retriever that is asked is cancelled with the search."""
    waiting = asyncio.Event()
    cancelled = []

    async def wait() -> None:
        waiting.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            cancelled.append("a")
            raise

    await cancelled_once(waiting, FusionRetriever({"a": Asynchronous("a", wait=wait)}).run_async(query="q"))
    assert cancelled == ["a"]


@pytest.mark.parametrize("ask", WAYS)
def test_a_hanging_thread_costs_the_timeout_only(ask: Any) -> None:
    """Both ways return on time while a call is stuck, and its documents are missing."""
    with Gate() as gate:
        retriever = FusionRetriever({"good": Given("a"), "late": Given("b", gate)}, timeout=0.2)
        started = time.monotonic()
        found = ask(retriever)
        assert 0.2 <= time.monotonic() - started < PATIENCE / 2
    assert (ids(found), found["coverage"]["reasons"]) == (["a"], ["deadline"])


def test_a_hanging_coroutine_costs_exactly_the_timeout() -> None:
    """On a simulated clock the answer is there after the timeout, not later."""
    arms = {"good": Asynchronous("a"), "late": Asynchronous("b", wait=anyio.sleep_forever)}
    retriever = FusionRetriever(arms, timeout=0.3)
    found, seconds = seconds_of(lambda: retriever.run_async(query="q"))
    assert (ids(found), found["degraded"]) == (["a"], True)
    assert seconds == pytest.approx(0.3)


def test_a_breaker_follows_both_ways_to_ask() -> None:
    """A retriever that failed once in each way is left alone in both."""
    retriever = FusionRetriever({"good": Given("a"), "down": Given("b", fail)}, breaker=Breaker(failures=2))
    told = [ask(retriever)["coverage"]["arms"][1]["status"] for ask in (run, run_async, run, run_async)]
    assert told == ["failed", "failed", "skipped", "skipped"]


# --- a component of Haystack ------------------------------------------------------------------------------


def test_a_saved_pipeline_has_the_retriever_and_its_retrievers() -> None:
    """It is what it was when a pipeline is saved and loaded, by whoever trusts this package."""
    retriever = FusionRetriever(
        {"fruits": bm25(FRUITS), "vegetables": bm25(VEGETABLES)},
        weights={"fruits": 2.0},
        top_k=3,
        timeout=5.0,
    )
    pipeline = Haystack()
    pipeline.add_component("fusion", retriever)
    saved = pipeline.dumps()
    with pytest.raises(DeserializationError, match="not on the trusted-module allowlist"):
        Haystack.loads(saved)
    loaded = Haystack.loads(saved, allowed_modules=["rrf_stream.*"])
    assert loaded.dumps() == saved
    found, again = (each.run({"fusion": {"query": "apple"}})["fusion"] for each in (pipeline, loaded))
    assert found["documents"] == again["documents"]


def test_reading_does_not_change_what_is_read() -> None:
    """What `to_dict` gave can be read twice."""
    data = FusionRetriever({"fruits": bm25(FRUITS)}, patience=1.0, quorum=0.5).to_dict()
    assert data["init_parameters"]["quorum"] == 0.5
    with pytest.raises(DeserializationError):
        FusionRetriever.from_dict({**data, "type": "other"})
    copies = [FusionRetriever.from_dict(data).to_dict() for _ in range(2)]
    assert copies == [data, data]


def test_what_cannot_be_saved_is_refused_by_haystack() -> None:
    """A breaker holds a clock, and so is no part of a saved pipeline."""
    pipeline = Haystack()
    pipeline.add_component("fusion", FusionRetriever({"fruits": bm25(FRUITS)}, breaker=Breaker()))
    with pytest.raises(SerializationError, match="value of type 'Breaker' in the serialized data"):
        pipeline.dumps()


def test_the_life_of_the_retrievers_is_that_of_the_component() -> None:
    """A pipeline warms up and closes them, each in the way it has."""
    blocking, asynchronous = Given("a"), Asynchronous("b")
    retriever = FusionRetriever({"a": blocking, "b": asynchronous})
    pipeline = Haystack()
    pipeline.add_component("fusion", retriever)
    pipeline.warm_up()
    retriever.close()
    assert (blocking.life, asynchronous.life) == (["warm_up", "close"], [])
    asyncio.run(pipeline.warm_up_async())
    asyncio.run(retriever.close_async())
    assert blocking.life == ["warm_up", "close"] * 2
    assert asynchronous.life == ["warm_up_async", "close_async"]


def test_a_search_warms_up_the_retrievers_first() -> None:
    """Where no pipeline has done that, as with the component whose place it takes."""
    blocking, asynchronous = Given("a"), Asynchronous("b")
    retriever = FusionRetriever({"a": blocking, "b": asynchronous})
    retriever.run(query="q")
    assert (blocking.life, asynchronous.life) == (["warm_up"], [])
    asyncio.run(retriever.run_async(query="q"))
    assert (blocking.life, asynchronous.life) == (["warm_up"] * 2, ["warm_up_async"])


def test_its_retrievers_are_there_to_read() -> None:
    """A change would have no effect, and so cannot be made."""
    arm = Given("a")
    retriever = FusionRetriever({"a": arm})
    assert retriever.retrievers == {"a": arm}
    with pytest.raises(TypeError):
        retriever.retrievers["b"] = arm  # type: ignore[index]  # that is the point


def test_it_can_be_copied_and_pickled() -> None:
    """A copy gives the same, and has retrievers of its own, which are those that it asks."""
    retriever = FusionRetriever({"a": Given("abc"), "b": Given("b")}, weights={"b": 3.0}, top_k=2)
    for same in (pickle.loads(pickle.dumps(retriever)), copy.deepcopy(retriever)):  # noqa: S301
        for ask in WAYS:
            assert ids(ask(same)) == ["b", "a"]
        assert len(same.retrievers["a"].calls) == 2
    assert retriever.retrievers["a"].calls == []


def test_its_sockets_are_typed() -> None:
    """A pipeline is refused that connects one of its outputs to something of another type."""
    pipeline = Haystack()
    pipeline.add_component("fusion", FusionRetriever({"a": Given("a")}))
    assert {name: socket["type"] for name, socket in pipeline.outputs()["fusion"].items()} == {
        "documents": list[Document],
        "coverage": dict[str, Any],
        "degraded": bool,
    }
    assert {name for name, socket in pipeline.inputs()["fusion"].items() if socket["is_mandatory"]} == {
        "query"
    }


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"retrievers": {"a": print}}, TypeError, "with a run method, not <built-in"),
        ({"retrievers": {"a": Given}}, TypeError, "with a run method, not <class"),
        (
            {"retrievers": {"a": FusionJoiner()}},
            TypeError,
            "with a query, unlike that of",
        ),
        ({"retrievers": {}}, ValueError, "retrievers must have at least one"),
        ({"weights": {"a": 0}}, ValueError, "weights of the retrievers must not all be 0, as are {'a': 0}"),
        ({"retrievers": [Given("a")]}, TypeError, "retrievers must be a mapping of names"),
        ({"weights": {"b": 1}}, ValueError, "weights must be for retrievers, a, not for 'b'"),
        ({"weights": {"a": -1}}, ValueError, "weight must be a finite number of at least 0"),
        ({"top_k": 0}, ValueError, "top_k must be a whole number of at least 1"),
        ({"key": str}, TypeError, "key must not be given"),
        ({"patient": 1}, TypeError, "'patient' is not an option"),
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    """They are refused when the pipeline is built, by name."""
    with pytest.raises(error, match=words):
        FusionRetriever(**{"retrievers": {"a": Given("a")}, **wrong})


def test_a_wrong_number_of_documents_is_refused() -> None:
    """A call for none is an error, as in the constructor."""
    with pytest.raises(ValueError, match="top_k must be a whole number of at least 1"):
        FusionRetriever({"a": Given("a")}).run(query="q", top_k=0)


# --- retrievers of Haystack as arms -----------------------------------------------------------------------


@on_asyncio
async def test_retrievers_are_arms_of_a_pipeline() -> None:
    """Ids are those of the documents, items the documents with the scores that their retriever gave."""
    arms = {"fruits": from_haystack(bm25(FRUITS), top_k=1), "given": from_haystack(Given("35"))}
    final = await Pipeline(arms).search("apple tree")
    assert (final.ids, final.coverage.full) == (["3", "5"], True)
    fruit = final.hits[0].items["fruits"]
    assert (fruit.content, fruit.score) == (
        "apple tree",
        bm25(FRUITS).run("apple tree")["documents"][0].score,
    )


@on_asyncio
async def test_an_arm_without_run_async_is_read_in_a_thread() -> None:
    """The event loop is free to end what the call waits for."""
    gate = Gate()
    arm = Given("a", gate)
    final = await opened_by_the_loop(gate, Pipeline({"a": from_haystack(arm, top_k=3)}).search("q"))
    assert final.ids == ["a"]
    assert arm.calls == [{"query": "q", "filters": None, "top_k": 3}]


def test_only_what_runs_is_an_arm() -> None:
    """Anything else is refused at once."""
    with pytest.raises(TypeError, match="with a run method"):
        from_haystack(print)


def test_without_the_library_the_extra_is_named() -> None:
    """The import fails with the command that mends it."""
    error = error_without("haystack", "rrf_stream.integrations.haystack")
    assert error.startswith(MissingExtraError.__name__)
    assert "pip install 'rrf-stream[haystack]'" in error
