"""What the tests of threads share."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import anyio

from rrf_stream import _threads, set_thread_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Let only so many threads run."""
    before = set_thread_limit(threads)
    try:
        yield
    finally:
        set_thread_limit(before)


class Stuck:
    """Calls that are stuck until the context is left; used as a retriever; `thread` is that of the last."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.calls = 0
        self.thread = threading.current_thread()

    def __call__(self, query: str = "q") -> list[str]:
        self.calls += 1
        self.thread = threading.current_thread()
        self.release.wait()
        return [query]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()


def library_threads() -> list[str]:
    """Return the names of the threads that run a source."""
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("rrf:"))


def idle_threads() -> list[threading.Thread]:
    """Return the threads that wait for a source."""
    return list(_threads._idle)


async def until(condition: Callable[[], bool]) -> None:
    """Wait, in real time, for what a thread is to do."""
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.001)
