"""Daemon threads, each doing one job and then the next, as to start one costs several times what a call does.

No job waits for a thread: it takes one that is idle, or a new one. An idle thread knows nothing of its
last job, holds no place under the bound, and soon ends. Daemons keep no interpreter from exiting.
"""

from __future__ import annotations

import os
import sys
import threading
from contextvars import Context, copy_context
from typing import Protocol

from rrf_stream._thread_limit import give_back, take_place

__all__ = ["Job", "begin_in_thread", "context_of_thread"]

_PATIENCE = 0.1  # seconds that a thread waits for a job: to start one that often takes 0.1 % of the time
_IDLE = "idle thread of rrf_stream"


class Job(Protocol):
    """What a thread does; meanwhile it has this name."""

    name: str

    def run(self) -> None:
        """Do it, and let go of what that took; must not raise."""

    def tell(self) -> None:
        """Tell that it is done, when the thread holds no place and has not its name any more."""


class _Thread(threading.Thread):
    """A thread with its first job; there is none once one has told of its end. Virtual clocks look at it."""

    def __init__(self, job: Job) -> None:
        super().__init__(name=job.name, daemon=True)
        self.job: Job | None = job
        self._called = threading.Lock()
        self._called.acquire()

    def call(self, job: Job) -> None:
        """Have it do another one, when it is idle and nobody else can take it."""
        self.name = job.name
        self.job = job
        self._called.release()

    def run(self) -> None:
        """Do one job after the other, until none comes for a while."""
        while (job := self.job) is not None:
            job.run()
            give_back()
            self.name = _IDLE  # before it is told, so that nobody who knows takes it for a leak
            job.tell()
            del job
            self.job = None  # may collect what is left of it, so that the thread is idle only after that
            _idle.append(self)
            if not self._called.acquire(timeout=_PATIENCE):
                self._leave()

    def _leave(self) -> None:
        try:
            _idle.remove(self)
        except ValueError:  # somebody took it at the last moment
            self._called.acquire()


_idle: list[_Thread] = []  # each of its methods that is used is atomic
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def begin_in_thread(job: Job) -> None:
    """Have a thread do something; ThreadLimitError if as many run as may, or the system gives no more."""
    take_place()
    try:
        thread = _idle.pop()
    except IndexError:
        _start_thread(job)
    else:
        thread.call(job)


def _start_thread(job: Job) -> None:
    try:
        Context().run(_Thread(job).start)  # some builds of Python have a thread keep its starter's context
    except RuntimeError as error:
        give_back(error)


def context_of_thread() -> Context:
    """Return a copy of the context of whoever calls, for a thread that has no event loop until it runs one.

    Where sniffio is installed, anyio keeps in the context which event loop runs, and would refuse another.
    """
    variables = copy_context()
    if (sniffio := sys.modules.get("sniffio")) is not None:
        variables.run(sniffio.current_async_library_cvar.set, None)
    return variables
