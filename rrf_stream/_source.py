"""How any source becomes one asynchronous stream."""

from __future__ import annotations

import reprlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
)
from contextlib import AbstractAsyncContextManager
from typing import Any, Self, TypeAlias, cast

from rrf_stream._arm import check_source
from rrf_stream._checks import check_iterable
from rrf_stream._hit import Page

__all__ = ["Source", "close_stream", "open_stream", "pages"]

Source: TypeAlias = AsyncIterable[Any] | Awaitable[Any] | Iterable[Any] | Callable[..., Any]
"""An asynchronous iterable of results, an awaitable of a list of them, a short iterable, or a
callable that returns one of these. A retriever is such a callable that takes the query."""


_MOST_STEPS = 8  # a callable that returns itself would never end, and never let go of the event loop


def pages(source: Source) -> AsyncIterator[Page[Any]]:
    """Read a source that yields lists of results, each list as one page.

    Example:
        `Arm("dense", pages(client.search_batches(query)))`

    Args:
        source: Any source whose elements are iterables of results.

    Raises:
        TypeError: `source` is no source; or, while reading, an element is not iterable.
    """
    check_source(source)
    return _pages(source)


async def _pages(source: Source) -> AsyncGenerator[Page[Any], None]:
    stream = await open_stream(source)
    try:
        async for element in stream:
            # A list source whose elements are lists arrives as one page of them.
            for batch in element if type(element) is Page else (element,):
                check_iterable("pages: what the source yields", batch, "results in rank order")
                yield Page(batch)
    finally:
        await close_stream(stream)


async def open_stream(source: Any) -> AsyncIterator[Any]:
    """Call and await a source until it can be read, and return the iterator that reads it.

    An iterator that is also an asynchronous context manager, as memory object streams and
    aiostream's streamers are, is entered. `close_stream` undoes what this did.

    Raises:
        TypeError: The source is, or turned out to be, none.
    """
    for _ in range(_MOST_STEPS):
        if hasattr(type(source), "__aiter__"):
            break
        if hasattr(type(source), "__await__"):
            source = await source
        elif callable(source) and not hasattr(type(source), "__iter__"):
            source = source()
        else:
            check_source(source)
            return _Iterated(source)
    else:
        raise TypeError(
            f"source must be one within {_MOST_STEPS} calls and awaits, not {reprlib.repr(source)}"
        )
    iterator: AsyncIterator[Any] = aiter(source)
    if hasattr(type(iterator), "__aenter__"):
        await _managed(iterator).__aenter__()
    return iterator


async def close_stream(stream: AsyncIterator[Any]) -> None:
    """Close what `open_stream` opened, if it can be closed."""
    if hasattr(type(stream), "__aexit__"):
        await _managed(stream).__aexit__(None, None, None)
    elif (aclose := getattr(stream, "aclose", None)) is not None:
        await aclose()


def _managed(stream: AsyncIterator[Any]) -> AbstractAsyncContextManager[Any]:
    return cast("AbstractAsyncContextManager[Any]", stream)


class _Iterated:
    """A short iterable as a stream. No generator, whose bookkeeping costs more than a page."""

    __slots__ = ("_iterator",)

    def __init__(self, results: Iterable[Any]) -> None:
        whole = isinstance(results, list | tuple) and Page not in map(type, results)
        self._iterator = iter([results if type(results) is Page else Page(results)] if whole else results)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self._iterator)
        except StopIteration:
            raise StopAsyncIteration from None
        except StopAsyncIteration as error:  # as Python does with a StopIteration that leaves a generator
            raise RuntimeError("the source raised StopAsyncIteration") from error

    async def aclose(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()
