"""Waiting for what cleans up in the background."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import anyio.lowlevel

from rrf_stream._checks import check_seconds
from rrf_stream._tasks import Detached, current_backend, left_on

__all__ = ["drain", "wait_for"]

_TURNS = 3  # of the event loop, until a fusion that was just dropped has closed its arms


async def wait_for(tasks: Sequence[Detached]) -> None:
    """Wait until all of some tasks of the running event loop have ended."""
    for task in tasks:
        await task.wait()


async def drain(timeout: float | None = None) -> list[str]:  # noqa: ASYNC109 - waiting is what it does
    """Wait for arms that are closed but have not ended: that clean up, or ignore their cancellation.

    Call it before the event loop ends, for arms whose clean-up must not be cut off. Arms of
    fusions that still go on are not waited for.

    Args:
        timeout: Seconds to wait at most; None for no limit.

    Returns:
        The names of the tasks that it waited for in vain.
    """
    check_seconds("timeout", timeout)
    loop = current_backend().loop
    for _ in range(_TURNS):
        await anyio.lowlevel.checkpoint()
    with anyio.move_on_after(timeout):
        while here := left_on(loop):  # the end of one may start another, which closes what it never read
            await wait_for(here)
    return [task.name for task in left_on(loop)]
