"""Sources that are known to block, asynchronous ones among them, each read in a thread of its own."""

from __future__ import annotations

import asyncio
import math
import reprlib
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

import anyio

from rrf_stream._arm import check_source
from rrf_stream._checks import check_count
from rrf_stream._hit import Page
from rrf_stream._source import (
    MOST_STEPS,
    Source,
    close_stream,
    discard,
    is_asynchronous,
    is_to_be_called,
    open_stream,
    read_here,
    read_in_thread,
    unending,
)
from rrf_stream._tasks import Detached, current_backend
from rrf_stream._thread_stream import BUFFER, Reading, ThreadStream

__all__ = ["ThreadSource", "in_thread"]


def in_thread(source: Source, *, buffer: int = BUFFER) -> ThreadSource:
    """Read a source that blocks in a daemon thread, so that the answer is on time anyway.

    For clients that are not asynchronous, and for asynchronous ones that block nevertheless. The source is
    called, iterated and closed in that one thread, in a copy of the context of whoever reads it. An
    asynchronous one runs there on an event loop of its own: trio's under trio, else that of asyncio.
    A later source may run in the same thread, and meet what this one left in `threading.local`.

    Closing the arm returns at once. The thread learns it when the source next gives something, closes
    the source, and is done; on an event loop the source is cancelled. A call that is stuck runs on until it
    returns: it holds its place under the bound of `set_thread_limit`, and keeps no interpreter from exiting.

    Example:
        `Pipeline({"dense": in_thread(client.search), "text": text}, timeout=0.3)`

    Args:
        source: Of any form. An asynchronous generator or a coroutine must not have been started.
        buffer: How many results it is read ahead of the fusion at most, at least 1; a page that goes
            beyond is still taken whole. All results that have arrived are read as one page.

    Returns:
        An asynchronous iterable of pages; each iteration has a thread of its own. It is also a retriever
        if `source` is one: called with a query, it gives what reads `source(query)`, called in the thread.

    Raises:
        ValueError: `buffer` is less than 1.
        TypeError: `source` is no source, or `buffer` no whole number.
    """
    check_source(source)
    check_count("buffer", buffer)
    return ThreadSource(source, buffer)


class ThreadSource:
    """What `in_thread` returns."""

    __slots__ = ("__wrapped__", "_buffer")

    def __init__(self, source: Source, buffer: int) -> None:
        self.__wrapped__ = source
        self._buffer = buffer

    def __aiter__(self) -> ThreadStream:
        return ThreadStream(read_in_thread(_read, self.__wrapped__, buffer=self._buffer))

    def __call__(self, *args: Any, **kwargs: Any) -> ThreadSource:
        source = self.__wrapped__
        if not callable(source):
            raise TypeError(f"in_thread: what is called must be a callable, not {reprlib.repr(source)}")
        return ThreadSource(partial(source, *args, **kwargs), self._buffer)

    def __repr__(self) -> str:
        return f"in_thread({reprlib.repr(self.__wrapped__)})"


def _read(source: Any, reading: Reading) -> None:
    """Read a source of any form in this thread, with an event loop only if it is asynchronous."""
    for _ in range(MOST_STEPS):
        if is_asynchronous(source):
            backend = "asyncio" if isinstance(reading.loop, asyncio.AbstractEventLoop) else "trio"
            anyio.run(_OwnLoop(source, reading).main, backend=backend)
            return
        if not is_to_be_called(source):
            read_here(source, reading)
            return
        source = source()
    raise unending(source)


class _OwnLoop:
    """An asynchronous source that is read on an event loop in its own thread.

    Args:
        source: What to read, in a copy of the current context.
        reading: Who is given it.
    """

    def __init__(self, source: Any, reading: Reading) -> None:
        self._source = source
        self._reading = reading
        self._variables = copy_context()
        self._task = Detached(reading.name)
        self._is_read = True

    async def main(self) -> None:
        """Read it in a task that is cancelled, once, when nobody reads any more."""
        reading = self._reading
        if reading.closed:
            discard(self._source)
            return
        if isinstance(loop := current_backend().loop, asyncio.BaseEventLoop):
            loop.slow_callback_duration = math.inf  # it is there to be blocked; debug mode need not say so
        errors: list[BaseException | None] = []
        self._backend = backend = current_backend()
        self._variables.run(backend.spawn, self._task, lambda _, error: errors.append(error), self._read)
        reading.native = self
        if reading.closed:
            self.cancel()
        await self._task.wait()
        for error in errors:
            if error is not None and not (reading.closed and isinstance(error, asyncio.CancelledError)):
                raise error

    def cancel(self) -> None:
        """Cancel the task, maybe twice, from any thread: posted, it cannot come before the first step."""
        with suppress(RuntimeError):  # this event loop has ended
            self._backend.post(self._cancel)

    def _cancel(self) -> None:
        if self._is_read:
            self._task.cancel()

    async def _read(self, _: Detached) -> None:
        stream = await open_stream(self._source, blocking=True)
        if type(stream) is Page:
            self._reading.put(stream)
            return
        try:
            async for element in stream:
                if not self._reading.put(element):
                    break
        finally:
            self._is_read = False
            await close_stream(stream)
