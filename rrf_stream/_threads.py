"""Threads of the library's own, each running one source that blocks.

Nothing can stop code that blocks, so nobody waits for it: a stream that is closed tells its thread so
and goes on. The thread learns it when the source next gives something, closes the source, and ends. Until
then it holds its place under the bound. Threads are daemons, so that none keeps the interpreter from exiting.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from inspect import iscoroutine
from queue import SimpleQueue
from time import perf_counter
from typing import Any, TypeAlias

from rrf_stream._coverage import in_words
from rrf_stream._hit import Page
from rrf_stream._log import emit
from rrf_stream._tasks import Backend, Detached, Waiter, current_backend
from rrf_stream._thread_limit import give_back, take_place

__all__ = ["Discard", "SourceThread"]

Work: TypeAlias = "Callable[[SourceThread], None]"
Discard: TypeAlias = Callable[[Any, Backend], object]

_BRIEFLY = 0.0015  # seconds that the event loop is held up for a call which is probably quick
_PAUSE = 0.1  # seconds without such a wait after one in vain, so that they take 1.5 % of the time at most
_no_wait_until = 0.0


class SourceThread(threading.Thread):
    """A thread that runs one source, with what it and its event loop share.

    The event loop and the thread each change attributes of their own and look at the other's, in an
    order that leaves no gap; the guard is for what must change together. The stream that is read
    is not known here, so that it can be dropped.

    Args:
        work: What to do in the thread; it is given this object.
        name: What the source is called.
        buffer: How many results may wait before the source is not asked for more.
        discard: Closes, on the event loop, what the call returned when nobody wants it any more.

    Attributes:
        loop: The event loop that it answers to, or trio's token.
        variables: The context of whoever started it, for the source to run in.
        stopped: Whether nobody reads any more.
        over: Whether the source has ended and is closed.
        outcome: What the call returned, in a tuple: an empty one if the thread reads that itself. Else None.
    """

    def __init__(self, work: Work, name: str, buffer: int, discard: Discard) -> None:
        super().__init__(name=f"rrf:thread:{name}", daemon=True)
        self._backend = current_backend()
        self._work = work
        self._buffer = buffer
        self._discard = discard
        self.loop = self._backend.loop
        self.variables = copy_context()
        self.stopped = False
        self.over = False
        self.outcome: tuple[Any, ...] | None = None
        self._news = threading.Event()
        self._results: deque[tuple[int, Any]] = deque()
        self._given = 0
        self._taken = 0
        self._guard = threading.Lock()
        self._room: SimpleQueue[None] = SimpleQueue()  # its put may interrupt itself, as a finaliser does
        self._waits_for_room = False
        self._told = False
        self._has_ended = False
        self._failure: BaseException | None = None
        self._cancel: Callable[[], None] | None = None
        self._waiter: Waiter | None = None
        self._life: Detached

    @property
    def working(self) -> bool:
        """Whether the code of the source runs, or is about to. Before that ends, the event loop is told."""
        return not (self._waits_for_room or self._has_ended)

    def start(self) -> None:
        """Start it.

        Raises:
            ThreadLimitError: As many run already as may, or the system gives no more.
        """
        take_place()
        self._life = Detached(self.name)
        self._life.begin(self.loop, lambda *_: None)
        try:
            super().start()
        except RuntimeError as error:
            self._life.finish(None)
            give_back(error)

    # --- in the thread ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Do the work, and tell the event loop how it ended."""
        try:
            self._work(self)
        except BaseException as error:  # noqa: BLE001 - whatever a source raises is for its reader
            self._failure = error
        del self._work  # and with it a source that nobody else holds, in its own thread
        give_back()
        self.over = True
        self._news.set()
        self._life.forget()  # here, as an event loop that ends does not run what was posted last
        if not self._post(self._finish):
            for value in self.outcome or ():
                if iscoroutine(value):
                    value.close()
        self._has_ended = True

    def put(self, element: Any) -> bool:
        """Give a result or a page to the reader, and wait while too much waits there.

        Returns:
            Whether to go on.
        """
        if self.stopped:
            return False
        if type(element) is Page:
            element = Page(element)  # the source goes on before it is read, and may use its list again
            self._given += max(len(element), 1)
        else:
            self._given += 1
        self._results.append((self._given, element))
        if not self._told:
            self._told = True
            self._post(self._wake)
        if self._given - self._taken >= self._buffer:
            with self._guard:
                full = self._given - self._taken >= self._buffer and not self.stopped
                self._waits_for_room = full
            if full:
                self._room.get()
                self._waits_for_room = False
        return not self.stopped

    def read_on(self) -> None:
        """Say that the call has returned something that this thread reads itself."""
        self.outcome = ()
        self._news.set()
        self._post(self._wake)

    def on_stop(self, cancel: Callable[[], None]) -> None:
        """Have something called when nobody reads any more, maybe twice, from any thread."""
        self._cancel = cancel
        if self.stopped:
            cancel()

    def _post(self, callback: Callable[[], None]) -> bool:
        try:
            self._backend.post(callback)
        except RuntimeError:  # the event loop is gone
            self.stopped = True
            return False
        return True

    # --- on the event loop --------------------------------------------------------------------------------

    async def returned(self) -> None:
        """Wait until the call has returned, or raised."""
        global _no_wait_until  # noqa: PLW0603 - all arms of the process share the time that is lost
        if perf_counter() >= _no_wait_until and not self._news.wait(_BRIEFLY):
            _no_wait_until = perf_counter() + _PAUSE
        while self.outcome is None and not self.over:
            await self._call_from_thread()

    async def take(self) -> Page[Any]:
        """Wait for something, and return all that has arrived.

        Raises:
            StopAsyncIteration: There is no more.
            RuntimeError: It is being read already; or the source raised what only an event loop may.
        """
        if self._waiter is not None:
            raise RuntimeError("this source is being read already")
        while True:
            over = self.over  # before looking whether there is something, as the thread does it after
            if self._results:
                return self._page()
            if over:
                self.raise_failure()
                raise StopAsyncIteration
            await self._call_from_thread()

    def raise_failure(self) -> None:
        """Raise what the source raised, once."""
        error, self._failure = self._failure, None
        try:
            match error:
                case None:
                    return
                case StopIteration() | StopAsyncIteration():
                    pass
                case Exception() | SystemExit():
                    raise error
            # On an event loop it would mean something else: an end, a cancellation, a Ctrl-C.
            raise RuntimeError(f"the source raised {error!r}") from error
        finally:
            del error  # which refers to this frame

    def stop(self) -> None:
        """Let nobody read any more, and wait for nothing."""
        with self._guard:
            self.stopped = True
            self._waits_for_room = False
        self.stop_from_anywhere()
        self._discard_outcome()

    def stop_from_anywhere(self) -> None:
        """Do the same as far as a finaliser can, which may interrupt anything."""
        self.stopped = True
        self._life.is_over = True
        self._room.put(None)
        if self._cancel is not None:
            self._cancel()

    async def _call_from_thread(self) -> None:
        self._waiter = waiter = self._backend.waiter()
        try:
            await waiter.wait()
        finally:
            self._waiter = None

    def _page(self) -> Page[Any]:
        arrived = [self._results.popleft() for _ in range(len(self._results))]
        with self._guard:
            self._taken = arrived[-1][0]
            if self._waits_for_room:
                self._waits_for_room = False
                self._room.put(None)
        if len(arrived) == 1 and type(arrived[0][1]) is Page:
            return arrived[0][1]
        page: Page[Any] = Page()
        for _, element in arrived:
            page.extend(element if type(element) is Page else [element])
        return page

    def _wake(self) -> None:
        self._told = False
        if self._waiter is not None:
            self._waiter.set()

    def _finish(self) -> None:
        self._life.finish(None)
        self._wake()
        if self.stopped:
            self._discard_outcome()
            if self._failure is not None:
                emit("late_error", thread=self.name, error=in_words(self._failure))
                self._failure = None

    def _discard_outcome(self) -> None:
        if self.over:
            outcome, self.outcome = self.outcome, ()
            for value in outcome or ():
                self._discard(value, self._backend)
