"""Retrievers of LlamaIndex that do what they are told, and nodes for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import anyio
import anyio.lowlevel
from framework_kit import nothing
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from rrf_stream.integrations.llamaindex import FusedNode


def nodes(ids: Iterable[str]) -> list[NodeWithScore]:
    """Return nodes with these ids, best first, each with a text of its own."""
    return [
        NodeWithScore(node=TextNode(id_=id_, text=f"text of {id_}"), score=1 / rank)
        for rank, id_ in enumerate(ids, 1)
    ]


def ids(found: Sequence[NodeWithScore]) -> list[str]:
    """Return the ids of nodes, in order."""
    return [node.node_id for node in found]


def fused(found: Sequence[NodeWithScore]) -> list[FusedNode]:
    """Return the same nodes, which are fused ones."""
    assert all(type(node) is FusedNode for node in found)
    return [node for node in found if isinstance(node, FusedNode)]


class Given(BaseRetriever):
    """A retriever that is not asynchronous: gives nodes, after it did something in the thread it is in."""

    def __init__(
        self,
        found: Iterable[str] | list[NodeWithScore],
        before: Callable[[], object] = nothing,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        given = list(found)
        self.found = [node for node in given if isinstance(node, NodeWithScore)] or nodes(map(str, given))
        self.before = before
        self.queries: list[QueryBundle] = []

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.before()
        self.queries.append(query_bundle)
        return self.found


class Hanging(Given):
    """A retriever that is asynchronous, and hangs; what it does for code that waits is that of `Given`."""

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await anyio.sleep_forever()
        return self._retrieve(query_bundle)


class Noted(Given):
    """A retriever that is asynchronous, hangs, and notes that somebody waits, and that it is cancelled."""

    def __init__(self) -> None:
        super().__init__("a")
        self.waiting = asyncio.Event()
        self.cancelled = False

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.waiting.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return self._retrieve(query_bundle)


class Asynchronous(Given):
    """A retriever that is asynchronous."""

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await anyio.lowlevel.checkpoint()
        self.queries.append(query_bundle)
        return self.found


def retrieve(retriever: BaseRetriever, query: str = "q") -> list[NodeWithScore]:
    """Ask a retriever, and wait for the answer."""
    found: list[NodeWithScore] = retriever.retrieve(query)
    return found


def aretrieve(retriever: BaseRetriever, query: str = "q") -> list[NodeWithScore]:
    """Ask a retriever on an event loop."""
    found: list[NodeWithScore] = asyncio.run(retriever.aretrieve(query))
    return found


WAYS = (retrieve, aretrieve)
