"""LlamaIndex: a fusion as its retriever, and its retrievers as arms of a fusion.

The only importer of llama_index. Nodes are the same document if their ids are equal, whatever their text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from rrf_stream import Breaker, FusionOptions, Hedging, Hit, Snapshot
from rrf_stream.errors import MissingExtraError
from rrf_stream.integrations._two_ways import TwoWayPipeline, TwoWays

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.callbacks.base import CallbackManager
    from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]  # it is offered
    from llama_index.core.instrumentation.events.base import BaseEvent  # type: ignore[attr-defined]
    from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, QueryType
except ImportError as error:
    raise MissingExtraError("llama-index-core", extra="llamaindex") from error

__all__ = ["FusedNode", "FusionEndEvent", "FusionRetriever", "from_llamaindex"]

_MODE = "reciprocal_rerank"
_RANK_CONSTANT = 59.0
"""LlamaIndex counts ranks from 0 and adds 60; ours are from 1."""

_dispatcher = get_dispatcher(__name__)


class FusedNode(NodeWithScore):
    """A node with its fused score, and how it came by it.

    The node itself is the one that the first retriever gave, untouched: what explains the score is beside
    it, so that it reaches neither a language model nor an embedding, and the node's hash stays the same.

    Attributes:
        ranks: Its rank, from 1, for each retriever that found it.
        coverage: The `ArmStatus` of every retriever, by name, when this answer was final.
    """

    ranks: dict[str, int] = Field(default_factory=dict)
    coverage: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class, as LlamaIndex stores it."""
        return "FusedNode"


class FusionEndEvent(BaseEvent):
    """An event of the instrumentation: a fusion has ended, with or without nodes.

    Attributes:
        outcome: Why it ended; an `Outcome`.
        degraded: Whether a retriever did not answer in full.
        coverage: The `ArmStatus` of every retriever, by name.
    """

    outcome: str
    degraded: bool
    coverage: dict[str, str]

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class, as LlamaIndex stores it."""
        return "FusionEndEvent"


class FusionRetriever(BaseRetriever):
    """Asks several retrievers at the same time, and fuses what they give by reciprocal rank.

    It takes the place of `QueryFusionRetriever(mode="reciprocal_rerank", num_queries=1)`, and gives the
    same scores. A retriever that fails, or is late where there is a `timeout`, costs its own nodes only.

    `aretrieve` asks a retriever that is asynchronous on the event loop, and any other in a thread.
    `retrieve` asks all of them in threads, by their own `retrieve`. It may be called where an event loop
    runs, which it then holds up.

    Args:
        retrievers: At least one; in a list, where the arms are named `retriever_0`, `retriever_1`, ..., or
            by arm name. Their order decides ties. Each gives its nodes best first.
        similarity_top_k: How many nodes to return, at least 1; may be set later.
        retriever_weights: One for each retriever, at least 0 and not all 0; 1 for each if not given.
        llm: For callers of `QueryFusionRetriever`; not used, as no queries are generated.
        query_gen_prompt: The same.
        mode: For callers of `QueryFusionRetriever`; must be "reciprocal_rerank".
        num_queries: The same; must be 1.
        use_async: For callers of `QueryFusionRetriever`; not used, as all retrievers are always asked at the
            same time.
        verbose: As for every retriever.
        callback_manager: As for every retriever.
        objects: As for every retriever.
        object_map: As for every retriever.
        breaker: When a retriever that fails again and again is left alone; see `Pipeline`.
        hedging: When a retriever that is late is asked a second time; see `Pipeline`.
        options: Such as `timeout` or `quorum`; see `FusionOptions`. `rank_constant` is 59 if not given,
            which with ranks from 1 is what LlamaIndex adds to ranks from 0. `top_k` and `key` are not
            among them, as these are `similarity_top_k` and the id of the node.

    Raises:
        ValueError: A value is out of its range, or not one that is allowed.
        TypeError: A value is of the wrong type, or there is no such option.
    """

    def __init__(
        self,
        retrievers: Sequence[BaseRetriever] | Mapping[str, BaseRetriever],
        *,
        similarity_top_k: int = 2,
        retriever_weights: Sequence[float] | None = None,
        llm: object = None,  # noqa: ARG002 - for callers of QueryFusionRetriever
        query_gen_prompt: str | None = None,  # noqa: ARG002
        mode: str = _MODE,
        num_queries: int = 1,
        use_async: bool = True,  # noqa: ARG002
        verbose: bool = False,
        callback_manager: CallbackManager | None = None,
        objects: list[IndexNode] | None = None,
        object_map: dict[str, Any] | None = None,
        breaker: Breaker | Mapping[str, Breaker] | None = None,
        hedging: Hedging | Mapping[str, Hedging] | None = None,
        **options: Unpack[FusionOptions],
    ) -> None:
        if mode != _MODE:
            raise ValueError(f"mode must be {_MODE!r}, the only one that goes by rank, not {mode!r}")
        if num_queries != 1:
            raise ValueError(f"num_queries must be 1, as no queries are generated here, not {num_queries!r}")
        if "top_k" in options:
            raise TypeError("top_k must not be given: similarity_top_k says how many nodes to return")
        options["top_k"] = similarity_top_k
        if options.get("kernel") is None:
            options.setdefault("rank_constant", _RANK_CONSTANT)
        if not isinstance(retrievers, Mapping):
            retrievers = {f"retriever_{number}": each for number, each in enumerate(retrievers)}
        self.similarity_top_k = similarity_top_k
        self._pipeline = TwoWayPipeline(
            {name: _two_ways(retriever) for name, retriever in retrievers.items()},
            weights=_weights(tuple(retrievers), retriever_weights),
            breaker=breaker,
            hedging=hedging,
            **options,
        )
        super().__init__(
            callback_manager=callback_manager, object_map=object_map, objects=objects, verbose=verbose
        )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._pipeline.search_and_wait(query_bundle, top_k=self.similarity_top_k))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self._pipeline.search(query_bundle, top_k=self.similarity_top_k))


def from_llamaindex(retriever: BaseRetriever) -> Callable[[QueryType], Any]:
    """Return a retriever of LlamaIndex as one of a `Pipeline`.

    It takes a text or a `QueryBundle`. Ids are those of the nodes, and items the `NodeWithScore` objects.
    One that is not asynchronous itself runs in a thread: LlamaIndex would have it block the event loop.

    Example:
        `Pipeline({"vectors": from_llamaindex(index.as_retriever()), "text": text}, timeout=0.3)`

    Args:
        retriever: Any retriever; its events and callbacks are as ever.

    Raises:
        TypeError: It is none.
    """
    return _two_ways(retriever).retriever


def _two_ways(retriever: BaseRetriever) -> TwoWays:
    if not isinstance(retriever, BaseRetriever):
        raise TypeError(f"a retriever must be one of LlamaIndex, a BaseRetriever, not {retriever!r}")
    # What a class that does not override them inherits would call `_retrieve` on the event loop.
    inherited = (BaseRetriever._aretrieve, BaseRetriever.aretrieve)  # noqa: SLF001 - made to be overridden
    blocks = (type(retriever)._aretrieve, type(retriever).aretrieve) == inherited  # noqa: SLF001
    return TwoWays(
        blocking=partial(_retrieve, retriever),
        asynchronous=None if blocks else partial(_aretrieve, retriever),
    )


def _retrieve(retriever: BaseRetriever, query: QueryType) -> list[Hit]:
    return _hits(retriever.retrieve(query))


async def _aretrieve(retriever: BaseRetriever, query: QueryType) -> list[Hit]:
    return _hits(await retriever.aretrieve(query))


def _hits(nodes: Sequence[NodeWithScore]) -> list[Hit]:
    return [Hit(node.node.node_id, node.score, node) for node in nodes]


def _weights(names: tuple[str, ...], weights: Sequence[float] | None) -> dict[str, float] | None:
    if weights is None:
        return None
    if len(weights) != len(names):
        raise ValueError(
            f"retriever_weights must be one for each of the {len(names)} retrievers, not {weights!r}"
        )
    return dict(zip(names, weights, strict=True))


def _nodes(final: Snapshot) -> list[NodeWithScore]:
    """Return the nodes of an answer.

    Raises:
        DegradedError: Nobody answered; to return no nodes would say that there are none.
    """
    coverage = {report.name: str(report.status) for report in final.coverage.arms}
    _dispatcher.event(
        FusionEndEvent(outcome=str(final.outcome), degraded=final.coverage.degraded, coverage=coverage)
    )
    if not final.hits and not final.coverage.answered:
        final.raise_for_coverage()
    return [
        FusedNode(node=hit.item.node, score=hit.score, ranks=dict(hit.ranks), coverage=coverage)
        for hit in final.hits
    ]
