"""Sources that are known to block, asynchronous ones among them, each read in a thread of its own."""

from __future__ import annotations

import asyncio
import reprlib
from contextlib import suppress
from contextvars import Context
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
    thread_stream,
    unending,
)
from rrf_stream._tasks import Detached, current_backend
from rrf_stream._thread_stream import BUFFER, ThreadStream
from rrf_stream._threads import SourceThread

__all__ = ["ThreadSource", "in_thread"]


def in_thread(source: Source, *, buffer: int = BUFFER) -> ThreadSource:
    """Read a source that blocks in a daemon thread of its own, so that the answer is on time anyway.

    For clients that are not asynchronous, and for asynchronous ones that block nevertheless. The source is
    called, iterated and closed in that one thread, in a copy of the context of whoever reads it. An
    asynchronous one runs there on an event loop of its own: trio's under trio, else that of asyncio.

    Closing the arm returns at once. The thread learns it when the source next gives something, closes
    the source, and ends; on an event loop the source is cancelled. A call that is stuck runs on until it
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
        source = self.__wrapped__
        return thread_stream(partial(_read, source), source, buffer=self._buffer)

    def __call__(self, *args: Any, **kwargs: Any) -> ThreadSource:
        source = self.__wrapped__
        if not callable(source):
            raise TypeError(f"in_thread: what is called must be a callable, not {reprlib.repr(source)}")
        return ThreadSource(partial(source, *args, **kwargs), self._buffer)

    def __repr__(self) -> str:
        return f"in_thread({reprlib.repr(self.__wrapped__)})"


def _read(source: Any, thread: SourceThread) -> None:
    """Read a source of any form in this thread, with an event loop only if it is asynchronous."""
    for _ in range(MOST_STEPS):
        if is_asynchronous(source):
            backend = "asyncio" if isinstance(thread.loop, asyncio.AbstractEventLoop) else "trio"
            main = partial(anyio.run, _OwnLoop(source, thread).main, backend=backend)
            # The reader's context says that an event loop runs already; only the source gets that one.
            Context().run(main)
            return
        if not is_to_be_called(source):
            read_here(source, thread)
            return
        source = thread.variables.run(source)
    raise unending(source)


class _OwnLoop:
    """An asynchronous source that is read on an event loop in its own thread.

    Args:
        source: What to read.
        thread: Where.
    """

    def __init__(self, source: Any, thread: SourceThread) -> None:
        self._source = source
        self._thread = thread
        self._reads = True

    async def main(self) -> None:
        """Read it in a task that is cancelled, once, when nobody reads any more."""
        thread = self._thread
        if thread.stopped:
            discard(self._source)
            return
        errors: list[BaseException | None] = []
        backend = current_backend()
        task = Detached(thread.name)
        thread.variables.run(backend.spawn, task, lambda _, error: errors.append(error), self._read)

        def cancel() -> None:
            if self._reads:
                task.cancel()

        def post_cancel() -> None:
            with suppress(RuntimeError):  # this event loop has ended
                backend.post(cancel)

        thread.on_stop(post_cancel)  # posted, the cancellation cannot come before the first step
        await task.wait()
        for error in errors:
            if error is not None and not (thread.stopped and isinstance(error, asyncio.CancelledError)):
                raise error

    async def _read(self, _: Detached) -> None:
        stream = await open_stream(self._source, blocking=True)
        if type(stream) is Page:
            self._thread.put(stream)
            return
        try:
            async for element in stream:
                if not self._thread.put(element):
                    break
        finally:
            self._reads = False
            await close_stream(stream)
