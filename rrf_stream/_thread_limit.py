"""How many threads may run blocking sources at once, in the whole process."""

from __future__ import annotations

import os
import threading

from rrf_stream._checks import check_count
from rrf_stream.errors import ThreadLimitError

__all__ = ["give_back", "set_thread_limit", "take_place"]


class _Places:
    """How many threads run, and how many may."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self.guard = threading.Lock()

    def start_anew(self) -> None:
        """Forget the threads of the parent process, which a child does not have."""
        self.taken = 0
        self.guard = threading.Lock()


_places = _Places(128)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_places.start_anew)


def take_place() -> None:
    """Let one more thread run, or raise `ThreadLimitError`; never waits for one to end."""
    with _places.guard:
        if _places.taken >= _places.most:
            raise ThreadLimitError(
                f"{_places.taken} threads run blocking sources, and at most {_places.most} may: a call "
                "that is stuck holds its place, and set_thread_limit() sets the bound",
                most=_places.most,
                running=_places.taken,
            )
        _places.taken += 1


def give_back(failure: RuntimeError | None = None) -> None:
    """Take note that a thread has ended, or that it could not be started: that raises `ThreadLimitError`."""
    with _places.guard:
        _places.taken -= 1
        running, most = _places.taken, _places.most
    if failure is not None:
        raise ThreadLimitError(
            f"{failure}, with {running} threads running blocking sources", most=most, running=running
        ) from failure


def set_thread_limit(most: int) -> int:
    """Set how many threads may run blocking sources at once, in the whole process; at first 128.

    A source that would need one more is refused with `ThreadLimitError`; it does not wait for a
    place. Threads that run already are not touched, and one that is stuck counts until it ends.

    Args:
        most: At least 1.

    Returns:
        The number before.

    Raises:
        ValueError: `most` is less than 1.
        TypeError: `most` is no whole number.
    """
    check_count("most", most)
    with _places.guard:
        before, _places.most = _places.most, most
    return before
