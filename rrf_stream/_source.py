"""How any source becomes one asynchronous stream.

What is asynchronous runs on the event loop, and a list or another sized collection is read at once.
Everything else may block, so it runs in a thread: a callable that is not asynchronous, and an
iterable without a size, such as a generator.
"""

from __future__ import annotations

import reprlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sized,
)
from contextlib import AbstractAsyncContextManager
from functools import partial
from inspect import isasyncgenfunction, isclass, iscoroutine, iscoroutinefunction, ismethod
from types import BuiltinFunctionType, CoroutineType, WrapperDescriptorType
from typing import Any, Self, TypeAlias, cast

from rrf_stream._arm import check_source
from rrf_stream._checks import check_iterable
from rrf_stream._hit import Page
from rrf_stream._tasks import Backend, Detached
from rrf_stream._thread_stream import BUFFER, Reading, ThreadStream, Work

__all__ = [
    "MOST_STEPS",
    "Source",
    "close_stream",
    "close_unread",
    "discard",
    "is_asynchronous",
    "is_to_be_called",
    "open_stream",
    "pages",
    "read_here",
    "read_in_thread",
    "unending",
]

Source: TypeAlias = AsyncIterable[Any] | Awaitable[Any] | Iterable[Any] | Callable[..., Any]
"""An asynchronous iterable of results, an awaitable of a list of them, an iterable, or a callable
that returns one of these. A retriever is such a callable that takes the query."""


MOST_STEPS = 8
"""How often a source is called or awaited at most: one that returns itself would never end."""

_BUILT_IN = (BuiltinFunctionType, WrapperDescriptorType)  # not asynchronous, which `inspect` is slow to see
_AT_HAND = (list, tuple, str, bytes)  # what can be iterated without a thread, or is refused


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
    if type(stream) is Page:  # a list of lists
        stream = _Iterated(stream)
    try:
        async for element in stream:
            for batch in element if type(element) is Page else (element,):
                check_iterable("pages: what the source yields", batch, "results in rank order")
                yield Page(batch)
    finally:
        await close_stream(stream)


async def open_stream(source: Any, *, blocking: bool = False) -> AsyncIterator[Any] | Page[Any]:
    """Call and await a source until it can be read; return what reads it, or all that it has as a page.

    An iterator that is also an asynchronous context manager, as memory object streams and
    aiostream's streamers are, is entered. `close_stream` undoes what this did.

    Args:
        source: Of any form.
        blocking: Whether this event loop may be blocked, so that no other thread is needed.

    Raises:
        TypeError: The source is, or turned out to be, none.
        ThreadLimitError: It needs a thread, and there is none to be had.
    """
    if type(source) is CoroutineType:  # as most often; the loop would do the same
        source = await source
    for _ in range(MOST_STEPS):
        if type(source) is list:
            return Page(source)
        if hasattr(type(source), "__aiter__"):
            break
        if hasattr(type(source), "__await__"):
            source = await source
        elif not is_to_be_called(source):
            return _read_sync(source, blocking=blocking)
        elif blocking or is_asynchronous(source):
            source = source()
        else:
            source = await read_in_thread(_call, source).called()
    else:
        raise unending(source)
    iterator: AsyncIterator[Any] = aiter(source)
    if hasattr(type(iterator), "__aenter__"):
        await _managed(iterator).__aenter__()
    return iterator


def _read_sync(source: Any, *, blocking: bool) -> AsyncIterator[Any] | Page[Any]:
    """Return all that a list has, or what reads another iterable; in a thread, if it may block."""
    check_source(source, name="what the source returned")
    if isinstance(source, list | tuple):
        return source if type(source) is Page else Page(source)
    if blocking or isinstance(source, Sized):
        return _Iterated(source)
    return ThreadStream(read_in_thread(read_here, source))


async def close_stream(stream: AsyncIterator[Any]) -> None:
    """Close what `open_stream` opened, if it can be closed."""
    if hasattr(type(stream), "__aexit__"):
        await _managed(stream).__aexit__(None, None, None)
    elif (aclose := getattr(stream, "aclose", None)) is not None:
        await aclose()


def discard(source: Any) -> AsyncIterator[Any] | None:
    """Close a source that nobody has begun to read, as far as that goes without an event loop.

    Returns:
        What is still to be closed on one.
    """
    source = getattr(source, "__wrapped__", source)  # what `in_thread` was given
    if iscoroutine(source):
        source.close()  # or Python warns that it was never awaited
    return source if isinstance(source, AsyncIterator) else None


def discard_on(source: Any, backend: Backend) -> None:
    """Close a source that nobody has begun to read, in a task of its own if that takes one."""
    unread = discard(source)
    if unread is not None:
        task = Detached("rrf:discarded")
        task.closed = True
        backend.spawn(task, lambda *_: None, close_unread, unread)


async def close_unread(_: Detached, stream: AsyncIterator[Any]) -> None:
    """Close a stream; what a task does."""
    await close_stream(stream)


def is_asynchronous(source: Any) -> bool:
    """Return whether a source, or calling it, belongs on an event loop: by what it is, without calling it."""
    bare = _bare(source)
    kind = bare if isclass(bare) else type(bare)
    if hasattr(kind, "__aiter__") or hasattr(kind, "__await__"):
        return True
    called = (bare, getattr(type(bare), "__call__", None))  # noqa: B004 - its code, not whether it is there
    codes = [code for code in called if not isinstance(code, _BUILT_IN)]
    return any(iscoroutinefunction(code) or isasyncgenfunction(code) for code in codes)


def is_to_be_called(source: Any) -> bool:
    """Return whether a source that is not asynchronous itself is a callable that returns one."""
    return callable(source) and not hasattr(type(source), "__iter__")


def unending(source: Any) -> TypeError:
    """Return the error for a source that only leads to further ones."""
    return TypeError(f"source must be one within {MOST_STEPS} calls and awaits, not {reprlib.repr(source)}")


def read_in_thread(work: Work, source: Any, *, buffer: int = BUFFER) -> Reading:
    """Return what reads a source in a thread, once it is started, and is called what the source is."""
    bare = _bare(source)
    name = getattr(bare, "__name__", None) or type(bare).__name__
    return Reading(work, source, name, buffer, discard_on)


def read_here(results: Iterable[Any], reading: Reading) -> None:
    """Iterate over results in this thread, and close what iterates."""
    check_source(results, name="what the source returned")
    iterator = iter([Page(results)] if isinstance(results, list | tuple) else results)
    try:
        for element in iterator:
            if not reading.put(element):
                break
    finally:
        _close(iterator)


def _call(source: Callable[[], Any], reading: Reading) -> None:
    """Call something in this thread, and read what it returns if that may block, too."""
    result = source()
    quick = isinstance(result, _AT_HAND) or not hasattr(type(result), "__iter__")
    if quick or is_asynchronous(result):
        reading.outcome = (result,)
    else:
        reading.read_on()
        read_here(result, reading)


def _bare(source: Any) -> Any:
    """Return the function, class or object below partial calls and bound methods."""
    while True:
        if isinstance(source, partial):
            source = source.func
        elif ismethod(source):
            source = source.__func__
        else:
            return source


def _managed(stream: AsyncIterator[Any]) -> AbstractAsyncContextManager[Any]:
    return cast("AbstractAsyncContextManager[Any]", stream)


def _close(iterator: Iterator[Any]) -> None:
    close = getattr(iterator, "close", None)
    if close is not None:
        close()


class _Iterated:
    """Results that are there, as a stream. No generator, whose bookkeeping costs more than a page."""

    __slots__ = ("_iterator",)

    def __init__(self, results: Iterable[Any]) -> None:
        self._iterator = iter(results)

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
        _close(self._iterator)
