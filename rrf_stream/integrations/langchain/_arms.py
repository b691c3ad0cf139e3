"""Retrievers of LangChain as arms, and what tells their documents apart."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, TypeAlias

from rrf_stream import Hit, in_thread
from rrf_stream.integrations.langchain._core import (
    BaseRetriever,
    Document,
    DynamicRunnable,
    RetrieverLike,
    Runnable,
    RunnableBindingBase,
    RunnableConfig,
    RunnableLambda,
    RunnableSequence,
    RunnableWithFallbacks,
    VectorStore,
    VectorStoreRetriever,
)

__all__ = ["IdKey", "blocking", "from_langchain", "search_of"]

IdKey: TypeAlias = str | Callable[[Document], Any] | None
"""A key of the metadata of documents, what gives the id of one, or None for its text."""


def from_langchain(
    retriever: RetrieverLike, *, id_key: IdKey = None, config: RunnableConfig | None = None
) -> Callable[[str], Any]:
    """Make an arm of a LangChain retriever; in a `Pipeline` it is one of the retrievers as it is.

    A retriever that is asynchronous itself is awaited. Any other has its `invoke` called in a thread of
    this library, not in the executor that LangChain would use: there a call that is stuck keeps
    `asyncio.run` from ending. A sequence, or one with fallbacks, is awaited if all of its members are, or
    if one is a coroutine function, which has no other way.

    Example:
        `Pipeline({"dense": from_langchain(store.as_retriever()), "text": text}, timeout=0.3)`

    Args:
        retriever: A retriever, or any other `Runnable` that takes a query and returns documents.
        id_key: What tells documents apart: a key of their metadata, a function that gives a
            document's id, or None for their text.
        config: What the retriever is invoked with: callbacks, tags and the like. The config of a
            chain that it runs in is inherited without.

    Returns:
        A callable that takes a query and returns a source of hits, with the documents as their items.

    Raises:
        TypeError: `retriever` is no `Runnable`, or `id_key` of another type.
    """
    if not isinstance(retriever, Runnable):
        raise TypeError(f"retriever must be a LangChain retriever or Runnable, not {reprlib.repr(retriever)}")
    if not _is_asynchronous(retriever):
        return in_thread(blocking(retriever, id_key=id_key, config=config))
    id_of = _id_of(id_key)

    async def ask(query: str) -> list[Hit]:
        return _hits(await retriever.ainvoke(query, config), id_of)

    return ask


def blocking(
    retriever: RetrieverLike, *, id_key: IdKey, config: RunnableConfig | None
) -> Callable[[str], list[Hit]]:
    """Return what calls `invoke`, and is called what the retriever is; so is the thread that runs it."""
    id_of = _id_of(id_key)

    def ask(query: str) -> list[Hit]:
        return _hits(retriever.invoke(query, config), id_of)

    ask.__name__ = retriever.get_name()
    return ask


#: What a vector store may be asynchronous by, for each type of search of its retriever.
_SEARCHES = {
    "similarity": ["asimilarity_search"],
    "mmr": ["amax_marginal_relevance_search"],
    "similarity_score_threshold": [
        "asimilarity_search_with_relevance_scores",
        "_asimilarity_search_with_relevance_scores",
        "asimilarity_search_with_score",
    ],
}


def _is_asynchronous(retriever: Runnable[Any, Any]) -> bool:
    """Return whether to await it: all that it is made of is asynchronous, or something is nothing else."""
    members = [*_members(retriever)]
    return all(map(_awaits, members)) or any(
        isinstance(one, RunnableLambda) and not hasattr(one, "func") for one in members
    )


def _members(retriever: Runnable[Any, Any]) -> Iterator[Runnable[Any, Any]]:
    """Give what a runnable is made of, as far as LangChain's own wrappers tell."""
    inner: Iterable[Runnable[Any, Any]]
    match retriever:
        case RunnableBindingBase():  # with_config, with_retry, bind
            inner = [retriever.bound]
        case DynamicRunnable():  # configurable_fields, configurable_alternatives
            inner = [retriever.default]
        case RunnableWithFallbacks():
            inner = retriever.runnables
        case RunnableSequence():
            inner = retriever.steps
        case _:
            yield retriever
            return
    for one in inner:
        yield from _members(one)


def _awaits(retriever: Runnable[Any, Any]) -> bool:
    """Return whether its `ainvoke` is more than its `invoke` in an executor of asyncio."""
    if isinstance(retriever, RunnableLambda):
        return hasattr(retriever, "afunc")
    if not isinstance(retriever, BaseRetriever) or type(retriever).ainvoke is not BaseRetriever.ainvoke:
        return type(retriever).ainvoke is not Runnable.ainvoke
    search = search_of(type(retriever))
    if isinstance(retriever, VectorStoreRetriever) and search is search_of(VectorStoreRetriever):
        store = type(retriever.vectorstore)
        names = _SEARCHES.get(retriever.search_type, ())
        return any(getattr(store, name) is not getattr(VectorStore, name) for name in names)
    return bool(search.__module__ != BaseRetriever.__module__)  # which makes one for classes without


def search_of(kind: type[BaseRetriever]) -> Any:
    """Return the asynchronous method that a class of retrievers has of its own, or inherits."""
    return kind._aget_relevant_documents  # noqa: SLF001 - a class is asynchronous by overriding it


def _id_of(id_key: IdKey) -> Callable[[Document], Any]:
    """Return what gives the id of a document, and raises if there is none."""
    if id_key is None:
        return attrgetter("page_content")
    if not isinstance(id_key, str) and not callable(id_key):
        raise TypeError(f"id_key must be a key of metadata or a function of a document, not {id_key!r}")

    def id_of(document: Document) -> Any:
        id_ = document.metadata.get(id_key) if isinstance(id_key, str) else id_key(document)
        if id_ is None:  # all that have none would be one document
            raise ValueError(
                f"id_key, {id_key!r}, must give an id for every document, but not for {document!r}"
            )
        return id_

    return id_of


def _hits(found: Iterable[Document | str], id_of: Callable[[Document], Any]) -> list[Hit]:
    documents = [Document(page_content=one) if isinstance(one, str) else one for one in found]
    for one in documents:
        if not isinstance(one, Document):
            raise TypeError(f"a retriever must return Document objects, not {reprlib.repr(one)}")
    return [Hit(id_of(document), item=document) for document in documents]
