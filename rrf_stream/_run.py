"""One fusion while it runs: its arms, its clock, and every decision about them.

All decisions are plain synchronous functions: an arm delivers, an arm closes, a
time is up. Pumps and timers call them; the reader only looks at the result. No
task or timer refers to the handle that the reader holds, so that a handle which
is dropped can stop its arms.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Sequence
from contextvars import copy_context
from typing import Any

import anyio

from rrf_stream._accumulator import accumulator_of
from rrf_stream._arm import Arm
from rrf_stream._attempts import Attempts, failure_of
from rrf_stream._coverage import ArmStatus
from rrf_stream._health import Watch
from rrf_stream._hit import Page
from rrf_stream._log import Journal
from rrf_stream._observed import journal_of
from rrf_stream._options import Settings
from rrf_stream._plan import Plan
from rrf_stream._pump import ArmRun, discard_unread, pump
from rrf_stream._snapshot import Outcome, Snapshot
from rrf_stream._tasks import Backend, Timer, Waiter, current_backend
from rrf_stream.errors import ArmError

__all__ = ["Run"]

_OUTER_MARGIN = 0.005  # seconds before an enclosing deadline at which the answer is due, to get out in time


class Run:
    """A fusion from its start to the end of its last task.

    Args:
        arms: What was asked for.
        sources: What to read, one an arm.
        settings: The options of the fusion.
        plan: What the core must know of arms and options.
        watch: What follows the arms over many queries; None for nothing.

    Attributes:
        accumulator: What has arrived.
        arms: The arms while they are read.
        backend: The event loop, once the run has started.
        deadline: When the final snapshot is due, on the clock of the event loop.
        outcome: Why it ended, if it has.
        running: Whether it has been started.
        ended: Whether every arm is closed, so that the next snapshot is final.
        final: The final snapshot, once it was taken.
        grace: What reports the arms that still run when the grace is over, once the reader has left.
    """

    backend: Backend
    journal: Journal

    def __init__(
        self,
        arms: Sequence[Arm],
        sources: Sequence[Any],
        settings: Settings,
        plan: Plan,
        watch: Watch | None = None,
    ) -> None:
        self.settings = settings
        self.accumulator = accumulator = accumulator_of(plan)
        self.arms = Attempts(arms, sources, accumulator.states, watch)
        self.deadline = math.inf
        self.outcome = Outcome.COMPLETE
        self.running = False
        self.ended = False
        self.final: Snapshot | None = None
        self.grace: Timer | None = None
        self._settle = (settings.settle or settings.top_k) if settings.until == "settled" else 0
        self._started_at = 0.0
        self._ended_after = 0.0
        self._failure: ArmError | None = None
        self._quorum_due = math.inf
        self._look_at = math.inf  # to see whether enough is settled
        self._stop_asked: tuple[ArmStatus, Outcome] | None = None
        self._calls_out = False
        self._timer: Timer | None = None
        self._wake: Waiter | None = None
        self._wakes_at_end = False

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.backend.time() - self._started_at

    def start(self) -> None:
        """Start the clock and all arms."""
        outer = anyio.current_effective_deadline()  # imports anyio's backend, before the clock starts
        self.backend = backend = current_backend()
        self._context = copy_context()  # for timers, which an arm may set
        self.journal = journal_of(self.accumulator.states, self.settings)
        self._spawn = self.journal.spawning(backend.spawn)
        self.running = True
        self._started_at = now = backend.time()
        self.deadline = min(outer - _OUTER_MARGIN, self.settings.due(now))
        for arm in self.arms:
            arm.set_clock(now)
        if not self._stop_if_asked():
            for arm, retry_after in self.arms.admit(now):
                self._shut(arm, ArmStatus.SKIPPED, retry=retry_after)
        if self.accumulator.changed or not len(self.arms):
            self._consider()
        for arm in self.arms:
            if arm.closed:  # before the start, or by an eager task that ended the fusion
                discard_unread(arm, backend, self._task_ended)
            else:
                self._spawn(arm, self._task_ended, pump, self.deliver, self.close)
        self._set_timer()

    def hurry(self) -> None:
        """Be done before an anyio deadline around this call fires."""
        outer = anyio.current_effective_deadline() - _OUTER_MARGIN
        if outer < self.deadline:
            self.deadline = outer
            self._set_timer()

    def news(self, *, until_end: bool = False) -> Awaitable[None]:
        """Return what waits until something arrives or an arm closes, or else until every arm is closed."""
        self._wakes_at_end = until_end
        self._wake = waiter = self.backend.waiter()
        return waiter.wait()

    def refresh(self) -> Snapshot | None:
        """Return a snapshot if it shows anything that the last one did not, else None."""
        self._calls_out = True
        try:
            return self.accumulator.refresh(at=self.elapsed)
        finally:
            self._calls_out = False
            self._stop_if_asked()

    def finish(self) -> Snapshot:
        """Return the final snapshot of a fusion that has ended."""
        if self.final is None:
            self.final = self.accumulator.snapshot(at=self._ended_after, outcome=self.outcome)
        return self.final

    def raise_failure(self) -> None:
        """Raise the failure of a required arm, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def stop(self, status: ArmStatus, outcome: Outcome) -> None:
        """Close every open arm with the status, and end for the reason that the outcome gives."""
        if not self.running or self._calls_out:
            self._stop_asked = self._stop_asked or (status, outcome)
        elif not self.ended:
            self.outcome = outcome
            for arm in self.arms:
                if not arm.closed:
                    self._shut(arm, status)
                    arm.cancel()
            self._end()

    def _stop_if_asked(self) -> bool:
        """Stop if a callback asked to in the middle of something, or somebody before the start."""
        asked, self._stop_asked = self._stop_asked, None
        if asked is not None:
            self.stop(*asked)
        return asked is not None

    def deliver(self, arm: ArmRun, element: Any) -> bool:
        """Take what an arm yielded, a page or one result; return whether it may go on."""
        page = element if type(element) is Page else [element]
        if arm.closed:
            arm.late += len(page)
            return False
        arm.last = now = self.backend.time()
        if page:
            arm.last_hit = now
        self._calls_out = True
        try:
            more = self.accumulator.take(arm.state, page, now - self._started_at)
        finally:
            self._calls_out = False
        if arm.rival is not None:
            arm.rival.last = now
            if arm.state.ranking.received:
                self.arms.choose(arm)
        if self._stop_if_asked():
            return False
        if not more:
            self.close(arm, ArmStatus.WINDOW_FULL)
            return False
        if self._settle and self._look_at == math.inf:
            self._look_at = now  # as soon as nothing more is at hand
            self._set_timer()
        if self._wake is not None and self.accumulator.changed:
            self._notify()
        return True

    def close(self, arm: ArmRun, status: ArmStatus, error: BaseException | None = None) -> None:
        """Close an arm, unless it is, and do what follows from it."""
        if arm.closed:
            return
        if arm.rival is not None and status.is_short:  # the other attempt goes on
            self.arms.give_up(arm, error)
            self.journal.attempt_failed(arm.arm.name, arm.attempt, error)
        else:
            self._shut(arm, status, error)
            self._consider()

    def _task_ended(self, arm: ArmRun, error: BaseException | None) -> None:
        if not arm.closed:  # cancelled by somebody else, or before its first step
            self.close(arm, ArmStatus.FAILED, error)
        elif error is not None and not isinstance(error, asyncio.CancelledError):
            self.journal.cleanup_failed(arm.arm.name, arm.attempt, error)
        if not arm.started:
            discard_unread(arm, self.backend, self._task_ended)
        if arm.late:
            self.journal.late_hits(arm.arm.name, arm.attempt, arm.late)
        if self.grace is not None and not self.arms.running:
            self.grace.cancel()

    def _shut(
        self, arm: ArmRun, status: ArmStatus, error: BaseException | None = None, retry: float | None = None
    ) -> None:
        """Close an arm, and leave what follows from it to the caller."""
        if arm.rival is not None:
            self.arms.choose(arm)
        arm.closed = True
        report = arm.state.final
        if report is None:  # else the accumulator has closed it, as its window is full
            if error is not None:
                error = arm.first_error or error
            report = self.accumulator.shut(arm.state, status, self.elapsed, error, retry)
        self.journal.arm_closed(report, arm.attempt)
        self.arms.tell(arm, report, self._started_at)
        if arm.arm.required and self._failure is None:
            self._failure = failure_of(report)

    def _consider(self) -> None:
        """End the fusion if that follows from the arms that are closed; tell the reader and the log."""
        if self._failure is not None and not self.ended:
            self.stop(ArmStatus.STOPPED, Outcome.FAILED)
        elif self.accumulator.closed:
            self._end()
        elif self._settle and self.accumulator.settles(self._settle):
            self.stop(ArmStatus.STOPPED, Outcome.SETTLED)
        elif self._quorum_due == math.inf and self.arms.have_quorum(self.settings.quorum):
            self._quorum_due = self.backend.time() + self.settings.patience
            if self.settings.patience:
                self._set_timer()
            else:
                self.stop(ArmStatus.STOPPED, Outcome.QUORUM)
        self._notify()
        self.journal.flush()

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            self._ended_after = self.elapsed
            self._set_timer()
            self._notify()
            self.journal.fusion_closed(self.outcome, len(self.arms), self._ended_after)

    def _notify(self) -> None:
        if self._wake is not None and (self.ended or not self._wakes_at_end):
            self._wake.set()
            self._wake = None

    def _set_timer(self) -> None:
        """Schedule what is due first."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.ended:
            due = min(self.deadline, self._quorum_due, self._look_at, self.arms.expiry)
            if due < math.inf:
                self._timer = self._context.run(self.backend.call_at, due, self._time_is_up)

    def _time_is_up(self) -> None:
        now = self.backend.time()
        if now >= self.deadline:
            self.stop(ArmStatus.DEADLINE, Outcome.DEADLINE)
        elif now >= self._quorum_due:
            self.stop(ArmStatus.STOPPED, Outcome.QUORUM)
        else:
            self._look_at = math.inf
            for second in self.arms.hedge(now):
                self._spawn(second, self._task_ended, pump, self.deliver, self.close)
            for arm in self.arms:
                if not arm.closed and now >= arm.expiry:
                    self._shut(arm, ArmStatus.TIMED_OUT if now >= arm.due else ArmStatus.IDLE)
                    arm.cancel()
            self._consider()
        self._set_timer()
