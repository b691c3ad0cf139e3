"""Components of Haystack that do what they are told, and document stores with a few fruits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
from haystack import Document, Pipeline, component
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from rrf_stream.integrations.haystack import FusionRetriever

FRUITS = {"1": "red apple pie", "2": "green pear", "3": "apple tree", "4": "pear tree"}
VEGETABLES = {"1": "red apple pie", "5": "apple sauce", "6": "apple of the earth", "2": "pear"}

_threads = ThreadPoolExecutor(max_workers=1)


def documents(ids: Iterable[str]) -> list[Document]:
    """Return documents with these ids, best first, each with a text of its own."""
    return [
        Document(id=id_, content=f"text of {id_}", meta={"page": 1}, score=1 / rank)
        for rank, id_ in enumerate(ids, 1)
    ]


def ids(found: dict[str, Any]) -> list[str]:
    """Return the ids of the documents of an answer, in order."""
    return [document.id for document in found["documents"]]


def bm25(texts: dict[str, str]) -> InMemoryBM25Retriever:
    """Return a real retriever over a store of its own."""
    store = InMemoryDocumentStore(async_executor=_threads)  # its own it joins where it is collected: anywhere
    store.write_documents([Document(id=id_, content=text) for id_, text in texts.items()])
    return InMemoryBM25Retriever(store)


@component
class Given:
    """A retriever without `run_async`: gives documents, after it did something in the thread it is in."""

    def __init__(self, found: Iterable[str], before: Callable[[], object] | None = None) -> None:
        self.found = documents(found)
        self.before = before
        self.calls: list[dict[str, Any]] = []
        self.life: list[str] = []

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """Give the documents."""
        if self.before is not None:
            self.before()
        self.calls.append({"query": query, "filters": filters, "top_k": top_k})
        return {"documents": self.found}

    def warm_up(self) -> None:
        """Take note."""
        self.life.append("warm_up")

    def close(self) -> None:
        """Take note."""
        self.life.append("close")


class Asynchronous:
    """A retriever with a `run_async`, and no component: that is enough for an arm."""

    def __init__(
        self,
        found: Iterable[str],
        before: Callable[[], object] | None = None,
        wait: Callable[[], Awaitable[object]] = lambda: anyio.sleep(0),  # noqa: ASYNC115
    ) -> None:
        self.found = documents(found)
        self.before = before
        self.wait = wait
        self.life: list[str] = []

    def run(self, query: str) -> dict[str, Any]:
        """Give the documents, after it did something."""
        assert query
        if self.before is not None:
            self.before()
        return {"documents": self.found}

    async def run_async(self, query: str) -> dict[str, Any]:
        """Give the documents, after it waited for something."""
        assert query
        await self.wait()
        return {"documents": self.found}

    async def warm_up_async(self) -> None:
        """Take note."""
        self.life.append("warm_up_async")

    async def close_async(self) -> None:
        """Take note."""
        self.life.append("close_async")


def run(retriever: FusionRetriever, **parameters: Any) -> dict[str, Any]:
    """Ask a retriever in a pipeline of Haystack, and wait for the answer."""
    pipeline = Pipeline()
    pipeline.add_component("fusion", retriever)
    found = pipeline.run({"fusion": {"query": "q", **parameters}})
    pipeline.remove_component("fusion")
    answer: dict[str, Any] = found["fusion"]
    return answer


def run_async(retriever: FusionRetriever, **parameters: Any) -> dict[str, Any]:
    """Ask a retriever in a pipeline of Haystack on an event loop."""
    pipeline = Pipeline()
    pipeline.add_component("fusion", retriever)
    found = asyncio.run(pipeline.run_async({"fusion": {"query": "q", **parameters}}))
    pipeline.remove_component("fusion")
    answer: dict[str, Any] = found["fusion"]
    return answer


WAYS = (run, run_async)
