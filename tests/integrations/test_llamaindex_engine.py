"""The retriever inside LlamaIndex: indexes, query engines, callbacks and the instrumentation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from framework_kit import fail
from llama_index.core import SummaryIndex, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]  # it is offered
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import TextNode
from llamaindex_kit import WAYS, Asynchronous, Given, aretrieve, fused, ids, retrieve

from rrf_stream.errors import DegradedError
from rrf_stream.integrations.llamaindex import FusionEndEvent, FusionRetriever

if TYPE_CHECKING:
    from collections.abc import Iterator


class Letters(BaseEmbedding):
    """Vectors that count letters."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Events(BaseEventHandler):
    """Keeps the events."""

    seen: list[Any] = []  # noqa: RUF012 - pydantic copies it for each handler

    def handle(self, event: Any, **_: Any) -> None:
        """Keep an event."""
        self.seen.append(event)


@pytest.fixture
def events() -> Iterator[Events]:
    """The events of a test."""
    root, handler = get_dispatcher(), Events()
    before = list(root.event_handlers)
    root.add_event_handler(handler)
    yield handler
    root.event_handlers = before


@pytest.fixture
def spans() -> Iterator[SimpleSpanHandler]:
    """The spans of a test."""
    root, handler = get_dispatcher(), SimpleSpanHandler()
    before = list(root.span_handlers)
    root.add_span_handler(handler)
    yield handler
    root.span_handlers = before


def indexes() -> dict[str, Any]:
    """Return two retrievers over the same nodes, one of vectors and one of all nodes in order."""
    nodes = [TextNode(id_=word, text=word) for word in ("apple", "banana", "cherry", "date")]
    vectors = VectorStoreIndex(nodes, embed_model=Letters())
    return {"vectors": vectors.as_retriever(similarity_top_k=2), "all": SummaryIndex(nodes).as_retriever()}


def test_retrievers_of_real_indexes_are_fused() -> None:
    """A vector index and a list of all nodes, asked in both ways, give one ranking."""
    retriever = FusionRetriever(indexes(), similarity_top_k=3)
    for ask in WAYS:
        found = ask(retriever, "cherry")
        assert ids(found) == ["cherry", "date", "apple"]
        assert fused(found)[0].ranks == {"vectors": 1, "all": 3}
        assert fused(found)[0].coverage == {"vectors": "exhausted", "all": "exhausted"}


def test_a_query_engine_answers_with_it() -> None:
    """The fused nodes are its sources in both ways, and nothing but their text is in the prompt."""
    retriever = FusionRetriever(indexes())
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    for answer in engine.query("cherry"), asyncio.run(engine.aquery("cherry")):
        assert ids(answer.source_nodes) == ["cherry", "date"]
        assert fused(answer.source_nodes)[0].ranks == {"vectors": 1, "all": 3}
        assert "cherry\n\ndate" in str(answer)  # it is the prompt, which this model gives back
        assert not {"ranks", "coverage", "exhausted"} & {*str(answer).replace(":", " ").split()}
        assert answer.metadata == {"cherry": {}, "date": {}}


def test_callbacks_are_called() -> None:
    """The fusion and both retrievers tell a callback manager, and the fusion with the fused nodes."""
    debug = LlamaDebugHandler(print_trace_on_end=False)
    manager = CallbackManager([debug])
    arms = [Given("ab", callback_manager=manager), Given("b", callback_manager=manager)]
    retriever = FusionRetriever(arms, callback_manager=manager)
    for ask in WAYS:
        found = ask(retriever)
        ended = debug.get_event_pairs(CBEventType.RETRIEVE)
        assert len(ended) == 3
        told = [pair[1].payload[EventPayload.NODES] for pair in ended if len(pair) == 2 and pair[1].payload]
        assert found in told
        debug.flush_event_logs()


def test_events_of_the_instrumentation_are_told(events: Events) -> None:
    """Beside those of every retriever there is one that says how the fusion ended."""
    found = FusionRetriever({"good": Given("a"), "down": Asynchronous("b", fail)}).retrieve("q")
    kinds = [type(event) for event in events.seen]
    assert (kinds.count(RetrievalStartEvent), kinds.count(RetrievalEndEvent)) == (3, 2)
    assert (kinds[0], kinds[-2:]) == (RetrievalStartEvent, [FusionEndEvent, RetrievalEndEvent])
    ended = events.seen[-2]
    assert (ended.outcome, ended.degraded) == ("complete", True)
    assert ended.coverage == {"good": "exhausted", "down": "failed"}
    assert ended.model_dump()["class_name"] == "FusionEndEvent"
    assert events.seen[-1].nodes == found


def test_an_answer_of_nobody_is_told_before_it_is_raised(events: Events) -> None:
    """The event comes also where there are no nodes to hold what happened."""
    with pytest.raises(DegradedError):
        FusionRetriever({"down": Given("a", fail)}).retrieve("q")
    assert [event.coverage for event in events.seen if type(event) is FusionEndEvent] == [{"down": "failed"}]


def test_spans_of_the_retrievers_are_inside_that_of_the_fusion(spans: SimpleSpanHandler) -> None:
    """In both ways, and in threads, a trace shows who asked whom."""
    retriever = FusionRetriever([Given("a"), Asynchronous("b")])
    expected = {
        retrieve: ("FusionRetriever._retrieve", {"Given.retrieve", "Asynchronous.retrieve"}),
        aretrieve: ("FusionRetriever.aretrieve", {"Given.retrieve", "Asynchronous.aretrieve"}),
    }
    for ask, (outer, asked) in expected.items():
        spans.completed_spans.clear()
        ask(retriever)
        parents = {
            span.id_.split("-")[0]: str(span.parent_id).split("-")[0] for span in spans.completed_spans
        }
        assert {name for name, parent in parents.items() if parent == outer} == asked
