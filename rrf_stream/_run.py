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
from typing import Any

import anyio

from rrf_stream._accumulator import accumulator_of
from rrf_stream._arm import Arm
from rrf_stream._attempts import Attempts, failure_of
from rrf_stream._coverage import ArmStatus
from rrf_stream._health import Watch
from rrf_stream._hit import Page
from rrf_stream._log import Journal
from rrf_stream._options import Settings
from rrf_stream._plan import Plan
from rrf_stream._pump import ArmRun, discard_unread, pump
from rrf_stream._snapshot import Outcome, Snapshot
from rrf_stream._tasks import Backend, Timer, Waiter, current_backend
from rrf_stream.errors import ArmError

__all__ = ["Run"]

_OUTER_MARGIN = 0.005  # seconds before an enclosing deadline at which the answer is due, to get out in time
_DID_NOT_RUN = (ArmStatus.FAILED, ArmStatus.REJECTED, ArmStatus.SKIPPED)


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
        ended: Whether every arm is closed, so that the next snapshot is the final one.
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
        self.arms = Attempts(arms, sources, accumulator.states)
        self.deadline = math.inf
        self.outcome = Outcome.COMPLETE
        self.running = False
        self.ended = False
        self.final: Snapshot | None = None
        self.grace: Timer | None = None
        self._watch = watch
        self._started_at = 0.0
        self._ended_after = 0.0
        self._failure: ArmError | None = None
        self._quorum_due = math.inf
        self._stopped_early: tuple[ArmStatus, Outcome] | None = None
        self._timer: Timer | None = None
        self._wake: Waiter | None = None
        self._wakes_at_end = False

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.backend.time() - self._started_at

    def __str__(self) -> str:
        state = str(self.outcome) if self.ended else "running" if self.running else "not started"
        return f"{state}: {self.accumulator.describe()}, {len(self.arms.running)} tasks alive"

    # --- for the reader -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the clock and all arms."""
        outer = anyio.current_effective_deadline()  # imports anyio's backend, before the clock starts
        self.backend = backend = current_backend()
        self.journal = Journal()
        self.running = True
        self._started_at = now = backend.time()
        self.deadline = min(outer - _OUTER_MARGIN, self.settings.due(now))
        for arm in self.arms:
            arm.set_clock(now)
        if self._stopped_early is not None:
            self.stop(*self._stopped_early)
        elif self._watch is not None:
            self._admit(self._watch)
        deliver, close, done = self.deliver, self.close, self._task_ended
        for arm in self.arms:
            if arm.closed:  # before the start, or by an eager task that ended the fusion
                discard_unread(arm, backend, done)
            else:
                backend.spawn(arm, done, pump, deliver, close)
        if self.accumulator.changed or not len(self.arms):
            self._consider()
        self._set_timer()

    def hurry(self) -> None:
        """Be done before an anyio deadline around this call fires."""
        outer = anyio.current_effective_deadline() - _OUTER_MARGIN
        if outer < self.deadline:
            self.deadline = outer
            self._set_timer()

    def changed(self, *, until_end: bool = False) -> Awaitable[None]:
        """Return what waits until something arrives or an arm closes, or else until every arm is closed."""
        self._wakes_at_end = until_end
        self._wake = waiter = self.backend.waiter()
        return waiter.wait()

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
        if not self.running:
            self._stopped_early = self._stopped_early or (status, outcome)
        elif not self.ended:
            self.outcome = outcome
            for arm in self.arms:
                if not arm.closed:
                    self._shut(arm, status)
                    arm.cancel()
            self._end()

    # --- for the pumps ------------------------------------------------------------------------------------

    def deliver(self, arm: ArmRun, element: Any) -> bool:
        """Take what an arm yielded, a page or one result; return whether it may go on."""
        page = element if type(element) is Page else [element]
        if arm.closed:
            arm.late += len(page)
            return False
        arm.last = now = self.backend.time()
        accumulator = self.accumulator
        more = accumulator.take(arm.state, page, now - self._started_at)
        if arm.rival is not None and arm.state.ranking.received:
            self.arms.choose(arm)
        if not more:
            self.close(arm, ArmStatus.WINDOW_FULL)
        elif self._wake is not None and accumulator.changed:
            self._notify()
        return more

    def close(self, arm: ArmRun, status: ArmStatus, error: BaseException | None = None) -> None:
        """Close an arm, unless it is, and do what follows from it."""
        if not arm.closed and (arm.rival is None or status.is_full or not self.arms.give_up(arm, error)):
            self._shut(arm, status, error)
            self._consider()

    def _task_ended(self, arm: ArmRun, error: BaseException | None) -> None:
        if not arm.closed:  # cancelled by somebody else, or before its first step
            self.close(arm, ArmStatus.FAILED, error)
        elif error is not None and not isinstance(error, asyncio.CancelledError):
            self.journal.cleanup_failed(arm.arm.name, error)
        if not arm.started:
            discard_unread(arm, self.backend, self._task_ended)
        if arm.late:
            self.journal.late_hits(arm.arm.name, arm.late)
        if self.grace is not None and not self.arms.running:
            self.grace.cancel()

    # --- decisions ----------------------------------------------------------------------------------------

    def _admit(self, watch: Watch) -> None:
        """Skip the arms that are to be left alone, and let others be hedged."""
        for index, arm in enumerate(self.arms):
            retry_after = watch.admit(index)
            if retry_after is not None:
                self._shut(arm, ArmStatus.SKIPPED, retry=retry_after)
            elif (after := watch.hedge_after(index)) is not None:
                arm.hedge_at = self._started_at + after

    def _shut(
        self, arm: ArmRun, status: ArmStatus, error: BaseException | None = None, retry: float | None = None
    ) -> None:
        """Close an arm, and leave what follows from it to the caller."""
        if arm.rival is not None:
            self.arms.choose(arm)
        arm.close()
        state = arm.state
        report = state.final
        if report is None:  # else the accumulator has closed it, as its window is full
            error = error and (arm.first_error or error)
            report = self.accumulator.shut(state, status, self.elapsed, error, retry)
        self.journal.arm_closed(report)
        if self._watch is not None:
            last = arm.last - self._started_at if report.received else None
            second_won = arm.is_second and last is not None
            try:
                self._watch.closed(state.index, report, last, hedged=arm.hedged, second_won=second_won)
            except Exception as failure:  # noqa: BLE001 - a clock of the caller's may raise; the search goes on
                self.journal.health_failed(report.name, failure)
        if arm.arm.required and status in _DID_NOT_RUN and self._failure is None:
            self._failure = failure_of(report)

    def _consider(self) -> None:
        """End the fusion if that follows from the arms that are closed; tell the reader and the log."""
        quorum = self.settings.quorum
        if self._failure is not None and not self.ended:
            self.stop(ArmStatus.STOPPED, Outcome.FAILED)
        elif self.accumulator.closed:
            self._end()
        elif quorum is not None and self._quorum_due == math.inf and self.arms.have_quorum(quorum):
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
            if self._timer is not None:
                self._timer.cancel()
            self._notify()
            self.journal.fusion_closed(self.outcome, len(self.arms), self._ended_after)

    def _notify(self) -> None:
        if self._wake is not None and (self.ended or not self._wakes_at_end):
            self._wake.set()
            self._wake = None

    # --- time ---------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Schedule what is due first."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = min(self.deadline, self._quorum_due, self.arms.expiry)
        if due < math.inf and not self.ended:
            self._timer = self.backend.call_at(due, self._time_is_up)

    def _time_is_up(self) -> None:
        now = self.backend.time()
        if now >= self.deadline:
            self.stop(ArmStatus.DEADLINE, Outcome.DEADLINE)
        elif now >= self._quorum_due:
            self.stop(ArmStatus.STOPPED, Outcome.QUORUM)
        else:
            for arm in self.arms:
                if not arm.closed and now >= arm.hedge_at:
                    self._hedge(arm)
                if not arm.closed and now >= arm.expiry:
                    self._shut(arm, ArmStatus.TIMED_OUT if now >= arm.due else ArmStatus.IDLE)
                    arm.cancel()
            self._consider()
        self._set_timer()

    def _hedge(self, arm: ArmRun) -> None:
        """Start a second attempt at reading an arm, if it has delivered nothing."""
        arm.hedge_at = math.inf
        if not arm.state.ranking.received:
            second = self.arms.hedge(arm)
            self.backend.spawn(second, self._task_ended, pump, self.deliver, self.close)
