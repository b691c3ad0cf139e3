"""How a fusion is left: its arms are closed at once, and may clean up for as long as the grace."""

from __future__ import annotations

from contextlib import suppress

import anyio

from rrf_stream._coverage import ArmStatus
from rrf_stream._drain import wait_for
from rrf_stream._run import Run
from rrf_stream._snapshot import Outcome
from rrf_stream._source import discard

__all__ = ["abandon", "clean_up", "let_go"]


async def clean_up(run: Run) -> None:
    """Leave, wait for the tasks to end for at most the grace, and let go of those that do not."""
    _leave(run)
    until = run.backend.time() + run.settings.grace
    while tasks := run.arms.running:  # the end of one may start another, which closes what it never read
        with anyio.CancelScope(shield=True, deadline=until) as scope:
            await wait_for(tasks)
        if scope.cancelled_caught:
            break
    _report_abandoned(run)


def let_go(run: Run) -> None:
    """Leave without waiting; tasks that have not ended after the grace are abandoned."""
    _leave(run)
    if run.arms.running and run.grace is None:
        due = run.backend.time() + run.settings.grace
        run.grace = run.backend.call_at(due, lambda: _report_abandoned(run))


def abandon(run: Run) -> None:
    """Leave, from any thread and without waiting: nobody holds the handle any more."""
    if not run.running:
        for arm in run.arms:
            discard(arm.source)
    elif run.arms.running or run.journal.watched:
        with suppress(RuntimeError):  # the event loop is gone, and the tasks with it
            run.backend.post(lambda: let_go(run))


def _leave(run: Run) -> None:
    """Close every open arm because the reader left, started or not."""
    run.stop(ArmStatus.CANCELLED, Outcome.STOPPED)
    if not run.running:
        run.start()
    run.journal.left()


def _report_abandoned(run: Run) -> None:
    """Report what still runs. It was cancelled if it was reading; a clean-up is left to end by itself."""
    for arm in run.arms.running:
        if not arm.abandoned:
            arm.abandoned = True
            run.journal.abandoned(arm.arm.name, arm.attempt)
