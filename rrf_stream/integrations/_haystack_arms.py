"""Retrievers of Haystack as arms: whatever has a `run` that gives documents; needs nothing of Haystack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rrf_stream import Hit
from rrf_stream.integrations._two_ways import TwoWays


def from_haystack(retriever: Any, /, **run_kwargs: Any) -> Callable[[str], Any]:
    """Return a retriever of Haystack as one of a `Pipeline`.

    Ids are those of the documents, and items the documents. One without `run_async` runs in a thread.

    Example:
        `Pipeline({"bm25": from_haystack(InMemoryBM25Retriever(store), top_k=50), "text": text})`

    Args:
        retriever: A component, or anything that has a `run` with a `query`, and maybe a `run_async`, that
            give `{"documents": [...]}`.
        run_kwargs: What it is called with beside the query.

    Raises:
        TypeError: It has no `run`, or one without a `query`, or is a class.
    """

    def asked(query: str) -> dict[str, Any]:
        return {**run_kwargs, "query": query}

    return two_ways(retriever, asked).retriever


def two_ways(retriever: Any, parameters: Callable[[Any], dict[str, Any]]) -> TwoWays:
    """Return a retriever of Haystack as both kinds of code call it.

    Args:
        retriever: What has a `run`.
        parameters: Makes of what is asked the parameters of that.

    Raises:
        TypeError: It has none, or one without a `query`, or is a class.
    """
    if isinstance(retriever, type) or not callable(getattr(retriever, "run", None)):
        raise TypeError(f"a retriever must be one of Haystack, with a run method, not {retriever!r}")
    if "query" not in getattr(retriever, "__haystack_input__", ("query",)):  # only components have that
        raise TypeError(f"a retriever must have a run method with a query, unlike that of {retriever!r}")
    asynchronous = partial(_run_async, retriever, parameters) if hasattr(retriever, "run_async") else None
    return TwoWays(blocking=partial(_run, retriever, parameters), asynchronous=asynchronous)


def _run(retriever: Any, parameters: Callable[[Any], dict[str, Any]], asked: Any) -> list[Hit]:
    return _hits(retriever.run(**parameters(asked)))


async def _run_async(retriever: Any, parameters: Callable[[Any], dict[str, Any]], asked: Any) -> list[Hit]:
    return _hits(await retriever.run_async(**parameters(asked)))


def _hits(result: Mapping[str, Any]) -> list[Hit]:
    return [Hit(document.id, document.score, document) for document in result["documents"]]
