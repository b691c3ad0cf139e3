"""Daemon threads, each owning one resource that blocks, and calls on it that can be cancelled.

anyio's own worker threads do not fit: an abandoned call keeps the interpreter from exiting, and
nothing tells the call that nobody waits for it any more. Here a cancelled call is interrupted where
it runs, and threads that were never closed are stopped when the interpreter exits.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

from rrf_stream.retrievers._jobs import Job, R, Signal

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: How long the interpreter's exit waits for threads that were never closed, in seconds.
EXIT_PATIENCE = 2.0


class Workers(Generic[R]):
    """Threads that take calls from one queue, each with a resource of its own.

    Args:
        open_resource: Makes a resource; called once in each thread.
        count: Number of threads, at least 1.
        name: Name of the threads.
        owner: What is closed when these workers are, for the error message.
    """

    def __init__(self, open_resource: Callable[[], R], *, count: int, name: str, owner: str) -> None:
        self._open_resource = open_resource
        self._owner = owner
        self._queue: queue.SimpleQueue[Job[R, Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._jobs: set[Job[R, Any]] = set()
        self._closed = False
        self._failure: BaseException | None = None
        self._opening = self._alive = count
        self._watchers: list[Signal] = []
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for _ in range(count)]
        _LIVE.add(self)
        for thread in self._threads:
            thread.start()

    async def ready(self) -> None:
        """Wait until every thread has its resource; raises what the first that failed raised."""
        await self._watch(lambda: self._opening == 0)
        if self._failure is not None:
            raise self._failure

    async def run(self, call: Callable[[R], T], *, settle: bool = False) -> T:
        """Run `call` in the next free thread.

        Cancellation interrupts the call. The wait ends at once, or, with `settle`, when the call has
        ended: whoever writes wants to know that nothing is still being written.

        Args:
            call: Gets the resource. It must not refer to whoever closes the workers when collected.
            settle: Whether a cancelled wait sees the call end.

        Returns:
            What `call` returned.

        Raises:
            ValueError: The workers are closed, or were closed meanwhile.
        """
        job = Job(call)
        with self._lock:
            if self._closed:
                raise self._closed_error()
            self._jobs.add(job)
        self._queue.put(job)
        return await job.wait(settle=settle)

    async def aclose(self) -> None:
        """Interrupt what runs, refuse what waits, and see every thread end."""
        self.stop()
        self.dismiss()
        with anyio.CancelScope(shield=True):
            await self._watch(lambda: self._alive == 0)
        for thread in self._threads:
            thread.join()  # it has said that it ends: microseconds

    def stop(self) -> None:
        """Interrupt what runs, and refuse what waits or comes later; the threads stay."""
        with self._lock:
            self._closed = True
            jobs = list(self._jobs)
        for job in jobs:
            job.cancel(self._closed_error())

    def dismiss(self) -> None:
        """Let the threads end after what is queued. Takes no lock, so a finaliser may call it."""
        for _ in self._threads:
            self._queue.put(None)

    def join(self, timeout: float) -> None:
        """Wait for the threads to end, at most `timeout` seconds in all; blocks."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _closed_error(self) -> ValueError:
        return ValueError(f"{self._owner} is closed")

    def _work(self) -> None:
        try:
            resource = self._open_resource()
        except BaseException as error:  # noqa: BLE001 - ready() raises it
            self._count(opened=1, ended=1, failure=error)
            return
        self._count(opened=1)
        while (job := self._queue.get()) is not None:
            job.run(resource)
            with self._lock:
                self._jobs.discard(job)
            del job  # or this frame would keep the call's result alive until the next one comes
        try:
            resource.close()
        finally:
            self._count(ended=1)

    def _count(self, *, opened: int = 0, ended: int = 0, failure: BaseException | None = None) -> None:
        with self._lock:
            self._opening -= opened
            self._alive -= ended
            self._failure = self._failure or failure
            watchers = list(self._watchers)
        if self._alive == 0:
            _LIVE.discard(self)
        for watcher in watchers:
            watcher.set()

    async def _watch(self, condition: Callable[[], bool]) -> None:
        while True:
            watcher = Signal()
            with self._lock:
                if condition():
                    return
                self._watchers.append(watcher)
            try:
                await watcher.wait()
            finally:
                with self._lock:
                    self._watchers.remove(watcher)


_LIVE: set[Workers[Any]] = set()


@atexit.register
def _stop_all() -> None:
    """Stop threads that nobody closed, so that none is cut off in the middle of a call."""
    left = list(_LIVE)
    for workers in left:
        workers.stop()
        workers.dismiss()
    deadline = time.monotonic() + EXIT_PATIENCE
    for workers in left:
        workers.join(max(0.0, deadline - time.monotonic()))
