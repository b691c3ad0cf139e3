"""The retriever of LlamaIndex: threads, event loops, failures, and its retrievers as arms."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar

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
from llamaindex_kit import WAYS, Asynchronous, Given, Hanging, Noted, fused, ids

from rrf_stream import Pipeline
from rrf_stream.errors import DegradedError, MissingExtraError
from rrf_stream.integrations.llamaindex import FusionRetriever, from_llamaindex

# --- both ways to ask -------------------------------------------------------------------------------------


def test_retrieve_asks_all_at_the_same_time_by_their_own_retrieve() -> None:
    """Each of three retrievers waits for the others; none is asked on an event loop."""
    meet = threading.Barrier(3, timeout=PATIENCE).wait
    arms = [Given("a", meet), Given("b", meet), Hanging("c", meet)]
    assert ids(FusionRetriever(arms, similarity_top_k=3).retrieve("q")) == ["a", "b", "c"]


@guarded
async def test_retrieve_works_where_an_event_loop_runs() -> None:
    """On any event loop the call that waits gives what it gives without one."""
    retriever = FusionRetriever([Given("ab"), Asynchronous("b")])
    assert ids(retriever.retrieve("q")) == ["b", "a"]


@on_asyncio
async def test_aretrieve_asks_on_the_event_loop_who_is_asynchronous() -> None:
    """A retriever that is asynchronous is not asked in the other way."""
    arm = Asynchronous("ab", forbidden)
    assert ids(await FusionRetriever([arm, Given("b")]).aretrieve("q")) == ["b", "a"]
    assert len(arm.queries) == 1


@on_asyncio
async def test_aretrieve_leaves_the_event_loop_free_for_who_is_not() -> None:
    """A retriever that only blocks waits for what the event loop does meanwhile."""
    gate = Gate()
    retriever = FusionRetriever([Given("a", gate)])
    assert ids(await opened_by_the_loop(gate, retriever.aretrieve("q"))) == ["a"]


@on_asyncio
async def test_context_variables_reach_the_retrievers_in_both_ways() -> None:
    """What the caller set is seen by retrievers in their threads."""
    caller: ContextVar[str] = ContextVar("caller")
    seen = []
    retriever = FusionRetriever([Given("a", lambda: seen.append(caller.get()))])
    caller.set("in time")
    await retriever.aretrieve("q")
    retriever.retrieve("q")
    assert seen == ["in time"] * 2


def test_one_retriever_serves_several_threads_at_once() -> None:
    """Two searches that wait for each other both end."""
    meet = threading.Barrier(2, timeout=PATIENCE).wait
    retriever = FusionRetriever([Given("a", meet)])
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(ids(retriever.retrieve("q")))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == [["a"], ["a"]]


# --- who fails, and who is late ---------------------------------------------------------------------------


def test_a_failing_retriever_costs_its_own_nodes_only() -> None:
    """The others answer, and the nodes say who failed."""
    retriever = FusionRetriever({"good": Given("a"), "down": Given("b", fail)})
    for ask in WAYS:
        (node,) = fused(ask(retriever))
        assert (node.node_id, node.coverage) == ("a", {"good": "exhausted", "down": "failed"})


def test_a_hanging_thread_costs_the_timeout_only() -> None:
    """Both ways return on time while a call is stuck, and its nodes are missing."""
    with Gate() as gate:
        retriever = FusionRetriever({"good": Given("a"), "late": Given("b", gate)}, timeout=0.2)
        for ask in WAYS:
            started = time.monotonic()
            (node,) = fused(ask(retriever))
            assert 0.2 <= time.monotonic() - started < PATIENCE / 2
            assert (node.node_id, node.coverage["late"]) == ("a", "deadline")


def test_a_hanging_coroutine_costs_exactly_the_timeout() -> None:
    """On a simulated clock the answer is there after the timeout, not later."""
    retriever = FusionRetriever([Asynchronous("a"), Hanging("b")], timeout=0.3)
    found, seconds = seconds_of(lambda: retriever.aretrieve("q"))
    assert ids(found) == ["a"]
    assert seconds == pytest.approx(0.3)


def test_nobody_answered_is_not_nothing_found() -> None:
    """No nodes with an answer are an empty list; without any answer it is an error, caused by the first."""
    assert FusionRetriever([Given(""), Given("b", fail)]).retrieve("q") == []
    with pytest.raises(DegradedError, match=r"retriever_0 \(failed after 0 hits\), retriever_1") as caught:
        FusionRetriever([Given("a", fail), Given("b", fail)]).retrieve("q")
    assert isinstance(caught.value.__cause__, ConnectionError)


@on_asyncio
async def test_a_reader_that_leaves_stops_the_retrievers() -> None:
    """A retriever that is asked is cancelled with the search."""
    arm = Noted()
    await cancelled_once(arm.waiting, FusionRetriever([arm]).aretrieve("q"))
    assert arm.cancelled


# --- retrievers of LlamaIndex as arms ---------------------------------------------------------------------


@on_asyncio
async def test_retrievers_are_arms_of_a_pipeline() -> None:
    """Ids are those of the nodes, items the nodes with the scores that their retriever gave."""
    quiet = Given("bc")
    retrievers = {"text": from_llamaindex(Asynchronous("ab", forbidden)), "vectors": from_llamaindex(quiet)}
    final = await Pipeline(retrievers, top_k=2).search("q")
    assert (final.ids, final.coverage.full) == (["b", "a"], True)
    assert final.hits[0].items["vectors"] is quiet.found[0]
    assert quiet.queries[0].query_str == "q"


@on_asyncio
async def test_an_arm_that_blocks_is_read_in_a_thread() -> None:
    """LlamaIndex would have the event loop wait for it; here the loop is free to end that."""
    gate = Gate()
    pipeline = Pipeline({"a": from_llamaindex(Given("a", gate))})
    assert (await opened_by_the_loop(gate, pipeline.search("q"))).ids == ["a"]


def test_only_a_retriever_is_an_arm() -> None:
    """Anything else is refused at once."""
    with pytest.raises(TypeError, match="must be one of LlamaIndex"):
        from_llamaindex(print)  # type: ignore[arg-type]  # that is the point


def test_without_the_library_the_extra_is_named() -> None:
    """The import fails with the command that mends it."""
    error = error_without("llama_index", "rrf_stream.integrations.llamaindex")
    assert error.startswith(MissingExtraError.__name__)
    assert "pip install 'rrf-stream[llamaindex]'" in error
