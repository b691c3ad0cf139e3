"""What a thread reads, as an asynchronous stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from rrf_stream._hit import Page
from rrf_stream._threads import Discard, SourceThread

__all__ = ["BUFFER", "ThreadStream"]

BUFFER = 256
"""How many results wait for the event loop at most, unless a source is given another number."""


class ThreadStream:
    """What a thread reads, as an asynchronous stream of pages; the thread starts with the first read.

    Closing it returns at once. Dropping it tells the thread to end, too.

    Args:
        work: What to do in the thread.
        name: What the source is called.
        discard: As for `SourceThread`.
        buffer: As for `SourceThread`.
    """

    __slots__ = ("_closed", "_make", "_thread")

    def __init__(
        self, work: Callable[[SourceThread], None], *, name: str, discard: Discard, buffer: int = BUFFER
    ) -> None:
        self._make: Callable[[], SourceThread] = lambda: SourceThread(work, name, buffer, discard)
        self._thread: SourceThread | None = None
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Page[Any]:
        if self._closed:
            raise StopAsyncIteration
        return await (self._thread or self._start()).take()

    async def aclose(self) -> None:
        """Let the thread end; never waits for it."""
        self._closed = True
        if self._thread is not None:
            self._thread.stop()

    async def called(self) -> Any:
        """Start the thread, and return what to go on with: what its call returned, or this stream itself.

        Raises:
            ThreadLimitError: There is no thread to be had.
        """
        thread = self._start()
        try:
            await thread.returned()
        except BaseException:
            await self.aclose()
            raise
        outcome, thread.outcome = thread.outcome, ()
        if outcome is None:
            thread.raise_failure()
        return outcome[0] if outcome else self

    def _start(self) -> SourceThread:
        thread = self._make()
        thread.start()
        self._thread = thread
        del self._make  # which holds the source
        return thread

    def __del__(self) -> None:
        if self._thread is not None and not self._closed:
            self._thread.stop_from_anywhere()
