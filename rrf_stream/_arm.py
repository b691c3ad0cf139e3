"""What an arm is, and how any source becomes one asynchronous stream."""

from __future__ import annotations

import reprlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
)
from collections.abc import (
    Set as AbstractSet,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, TypeAlias, TypeVar, cast

from rrf_stream._checks import (
    check_count,
    check_iterable,
    check_kernels,
    check_names,
    check_seconds,
    check_weight,
)
from rrf_stream._hit import Page
from rrf_stream._kernels import Kernel

__all__ = ["Arm", "Source", "arms_of", "close_stream", "open_stream", "pages"]

T = TypeVar("T")

Source: TypeAlias = AsyncIterable[Any] | Awaitable[Any] | Iterable[Any] | Callable[..., Any]
"""An asynchronous iterable of results, an awaitable of a list of them, a short iterable, or a
callable that returns one of these. A retriever is such a callable that takes the query."""


_MOST_STEPS = 8  # a callable that returns itself would never end, and never let go of the event loop


@dataclass(frozen=True, slots=True)
class Arm:
    """One named stream of results inside one fusion.

    Attributes:
        name: Not empty, and no other arm of the fusion has it.
        source: What to read: an asynchronous iterable, an awaitable of a list, a short
            iterable, or a callable that returns one of these and is called when the arm starts.
            It yields results, or pages of them, best first. In a `Pipeline`, the callable
            takes the query.
        weight: Finite and at least 0. With 0 the arm is read and reported but lists nothing.
        window: How many ranks are read at most, at least 1; None for no limit.
        timeout: Seconds from the start until the arm is closed with what has arrived; None for no limit.
        idle_timeout: Seconds without a result until the arm is closed; None for no limit.
        required: Whether its failure is the failure of the whole fusion.
        kernel: What its ranks are worth; None for the kernel of the fusion.

    Raises:
        ValueError: A number is out of its range, or the name is empty.
        TypeError: A value is of the wrong type.
    """

    name: str
    source: Any
    _: KW_ONLY
    weight: float = 1.0
    window: int | None = 100
    timeout: float | None = None
    idle_timeout: float | None = None
    required: bool = False
    kernel: Kernel | None = None

    def __post_init__(self) -> None:
        check_names("name", [self.name])
        _check_source(self.source)
        check_weight("weight", self.weight)
        check_count("window", self.window, optional=True)
        check_seconds("timeout", self.timeout)
        check_seconds("idle_timeout", self.idle_timeout)
        if self.kernel is not None:
            check_kernels([self.kernel])


def arms_of(arms: Mapping[str, Any] | Iterable[Arm]) -> tuple[Arm, ...]:
    """Return the arms that are given, as arms or as sources by name.

    Raises:
        ValueError: Two arms have one name.
        TypeError: Something given is no arm.
    """
    if isinstance(arms, Mapping):
        return tuple(Arm(name, source) for name, source in arms.items())
    check_iterable("arms", arms, "Arm objects")
    given = tuple(arms)
    for arm in given:
        if not isinstance(arm, Arm):
            raise TypeError(f"arms must be a mapping of names to sources, or Arm objects, not {arm!r}")
    check_names("arms", [arm.name for arm in given])
    return given


def pages(source: Source) -> AsyncIterator[Page[Any]]:
    """Read a source that yields lists of results, each list as one page.

    Example:
        `Arm("dense", pages(client.search_batches(query)))`

    Args:
        source: Any source whose elements are iterables of results.

    Raises:
        TypeError: `source` is no source; or, while reading, an element is not iterable.
    """
    _check_source(source)
    return _pages(source)


async def _pages(source: Source) -> AsyncGenerator[Page[Any], None]:
    stream = await open_stream(source)
    try:
        async for element in stream:
            # A list source whose elements are lists arrives as one page of them.
            for batch in element if type(element) is Page else (element,):
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
            _check_source(source)
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
        for result in self._iterator:
            return result
        raise StopAsyncIteration

    async def aclose(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


def _check_source(source: Any) -> None:
    kind = type(source)
    if hasattr(kind, "__aiter__") or hasattr(kind, "__await__"):
        return
    readable = hasattr(kind, "__iter__") or callable(source)
    if not readable or isinstance(source, str | bytes | Mapping | AbstractSet):
        raise TypeError(
            "source must be an asynchronous iterable, an awaitable of a list, an iterable in rank order, "
            f"or a callable that returns one of these, not {reprlib.repr(source)}"
        )
