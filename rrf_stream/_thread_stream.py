"""A source that blocks, read in a thread, as an asynchronous stream.

Nothing can stop code that blocks, so nobody waits for it: a stream that is closed tells its thread so
and goes on. The thread learns it when the source next gives something, and closes the source. Until
then it holds its place under the bound.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from inspect import iscoroutine
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Self, TypeAlias

from rrf_stream._coverage import in_words
from rrf_stream._hit import Page
from rrf_stream._log import emit
from rrf_stream._tasks import Backend, Detached, Waiter, current_backend
from rrf_stream._threads import begin_in_thread, context_of_thread

__all__ = ["BUFFER", "Reading", "ThreadStream", "Work"]

Work: TypeAlias = "Callable[[Any, Reading], None]"
Discard: TypeAlias = Callable[[Any, Backend], object]

BUFFER = 256
"""How many results wait for the event loop at most, unless a source is given another number."""

_BRIEFLY = 0.0015  # seconds that the event loop is held up for a call which is probably quick
_PAUSE = 0.1  # seconds without such a wait after one in vain, so that they take 1.5 % of the time at most
_no_wait_until = 0.0
_ENDS = (StopIteration, StopAsyncIteration)


class Reading(Detached):
    """One source while a thread reads it: what the thread and the event loop share.

    Each of them changes attributes of its own and looks at the other's, in an order that leaves no
    gap; the guard is for what must change together. When nobody reads any more, `closed` is set.
    The stream that is read is not known here, so that it can be dropped.

    Args:
        work: What to do in the thread, in a copy of the context of whoever starts it.
        source: What that is given, with this object.
        name: What the source is called.
        buffer: How many results may wait before the source is not asked for more.
        discard: Closes, on the event loop, what the call returned when nobody wants it any more.

    Attributes:
        outcome: What the call returned, in a tuple: an empty one if the thread reads that itself. Else None.
    """

    outcome: tuple[Any, ...] | None = None
    _has_ended = False
    _failure: BaseException | None = None
    _given = 0
    _taken = 0
    _waits_for_room = False
    _told = False
    _waiter: Waiter | None = None
    _news: threading.Lock | None = None

    def __init__(self, work: Work, source: Any, name: str, buffer: int, discard: Discard) -> None:
        super().__init__(f"rrf:thread:{name}")
        self._work = work
        self._source = source
        self._buffer = buffer
        self._discard = discard
        self._results: deque[tuple[int, Any]] = deque()
        self._guard = threading.Lock()
        self._room: SimpleQueue[None] = SimpleQueue()  # its put may interrupt itself, as a finaliser does

    @property
    def working(self) -> bool:
        """Whether the code of the source may run, until its thread has done with it; for virtual clocks."""
        return not self._waits_for_room

    def start(self) -> None:
        """Start it; ThreadLimitError if there is no thread to be had."""
        self._backend = current_backend()
        self._variables = context_of_thread()
        self.begin(self._backend.loop, lambda *_: None)
        try:
            begin_in_thread(self)
        except BaseException:
            self.forget()
            raise
        self.started = True

    # --- in the thread ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Read the source to its end."""
        try:
            self._variables.run(self._work, self._source, self)
        except BaseException as error:  # noqa: BLE001 - whatever a source raises is for its reader
            self._failure = error
        del self._source, self._variables  # if nobody else holds them, they are collected in their own thread

    def put(self, element: Any) -> bool:
        """Give a result or a page to the reader, wait while too much waits there, return whether to go on."""
        if self.closed:
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
                full = self._given - self._taken >= self._buffer and not self.closed
                self._waits_for_room = full
            if full:
                self._room.get()
                self._waits_for_room = False
        return not self.closed

    def read_on(self) -> None:
        """Say that the call has returned something that this thread reads itself."""
        self.outcome = ()
        self._bring_news(self._wake)

    def tell(self) -> None:
        """Tell the event loop that the source has ended and is closed."""
        self._has_ended = True
        self.forget()  # here, as an event loop that ends does not run what was posted last
        if not self._bring_news(self._finish):
            for value in self.outcome or ():
                if iscoroutine(value):
                    value.close()

    def _bring_news(self, callback: Callable[[], None]) -> bool:
        news = self._news  # after what is new, as the event loop looks at both the other way round
        if news is None:
            return self._post(callback)
        if news.locked():
            news.release()
        return True

    def _post(self, callback: Callable[[], None]) -> bool:
        try:
            self._backend.post(callback)
        except RuntimeError:  # the event loop is gone
            self.closed = True
            return False
        return True

    # --- on the event loop --------------------------------------------------------------------------------

    async def called(self) -> Any:
        """Start it, and return what to go on with: what the call returned, or a stream of what is read."""
        try:
            self._start_and_look()
            while self.outcome is None and not self._has_ended:
                await self._call_from_thread()
        except BaseException:
            self.stop()
            raise
        outcome, self.outcome = self.outcome, ()
        if outcome is None:
            self.raise_failure()
        return outcome[0] if outcome else ThreadStream(self)

    def _start_and_look(self) -> None:
        """Start it, and wait a little for a call that is quick; the loop need not be woken for it then."""
        global _no_wait_until  # noqa: PLW0603 - all arms of the process share the time that is lost
        if perf_counter() < _no_wait_until:
            self.start()
            return
        self._news = news = threading.Lock()
        news.acquire()
        try:
            self.start()
            if not news.acquire(timeout=_BRIEFLY):
                _no_wait_until = perf_counter() + _PAUSE
        finally:
            self._news = None

    async def take(self) -> Page[Any]:
        """Wait for something, and return all that has arrived.

        Raises:
            StopAsyncIteration: There is no more.
            RuntimeError: It is being read already; or the source raised what only an event loop may.
        """
        if self._waiter is not None:
            raise RuntimeError("this source is being read already")
        while True:
            ended = self._has_ended  # before looking whether there is something, as the thread does it after
            if self._results:
                return self._page()
            if ended:
                self.raise_failure()
                raise StopAsyncIteration
            await self._call_from_thread()

    def raise_failure(self) -> None:
        """Raise what the source raised, once."""
        error, self._failure = self._failure, None
        try:
            if error is None:
                return
            if isinstance(error, Exception | SystemExit) and not isinstance(error, _ENDS):
                raise error
            # On an event loop it would mean something else: an end, a cancellation, a Ctrl-C.
            raise RuntimeError(f"the source raised {error!r}") from error
        finally:
            del error  # which refers to this frame

    def stop(self) -> None:
        """Let nobody read any more, and wait for nothing."""
        with self._guard:
            self.closed = True
            self._waits_for_room = False
        self.stop_from_anywhere()
        self._let_go()

    def stop_from_anywhere(self) -> None:
        """Do the same as far as a finaliser can, which may interrupt anything."""
        self.closed = True
        self._room.put(None)
        self.cancel()

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
        page: Page[Any] = Page()
        for _, element in arrived:
            page.extend(element if type(element) is Page else [element])
        return page

    def _wake(self) -> None:
        self._told = False
        if self._waiter is not None:
            self._waiter.set()

    def _finish(self) -> None:
        self.finish(None)
        self._wake()
        self._let_go()

    def _let_go(self) -> None:
        if self.closed and self._has_ended:
            outcome, self.outcome = self.outcome, ()
            for value in outcome or ():
                self._discard(value, self._backend)
            if self._failure is not None:
                emit("late_error", thread=self.name, error=in_words(self._failure))
                self._failure = None


class ThreadStream:
    """What a thread reads, as an asynchronous stream of pages; it starts with the first read.

    Closing it returns at once. Dropping it tells the thread to end, too.
    """

    __slots__ = ("_reading",)

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Page[Any]:
        reading = self._reading
        if reading.closed:
            raise StopAsyncIteration
        if not reading.started:
            reading.start()
        return await reading.take()

    async def aclose(self) -> None:
        """Let the thread end; never waits for it."""
        self._reading.stop()

    def __del__(self) -> None:
        self._reading.stop_from_anywhere()
