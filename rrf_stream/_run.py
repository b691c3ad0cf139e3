"""One fusion while it runs: its arms, its clock, and every decision about them.

All decisions are plain synchronous functions: an arm delivers, an arm closes, a
time is up. Pumps and timers call them; the reader only looks at the result. No
task or timer refers to the handle that the reader holds, so that a handle which
is dropped can stop its arms.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import anyio

from rrf_stream._accumulator import accumulator_of
from rrf_stream._arm import Arm
from rrf_stream._coverage import ArmStatus, in_words
from rrf_stream._hit import Page
from rrf_stream._log import emit, log_arm_closed, log_cleanup_failed, log_fusion_closed
from rrf_stream._options import Settings
from rrf_stream._plan import Plan
from rrf_stream._pump import ArmRun, discard, have_quorum, pump
from rrf_stream._snapshot import Outcome, Snapshot
from rrf_stream._tasks import Backend, Detached, Timer, Waiter, current_backend, wait_for
from rrf_stream.errors import ArmError

__all__ = ["Run"]

_OUTER_MARGIN = 0.005  # seconds before an enclosing deadline at which the answer is due, to get out in time
_numbers = count(1)


class Run:
    """A fusion from its start to the end of its last task.

    Attributes:
        accumulator: What has arrived.
        deadline: When the final snapshot is due, on the clock of the event loop.
        outcome: Why it ended, if it has.
        running: Whether it has been started.
        ended: Whether every arm is closed, so that the next snapshot is the final one.
        final: The final snapshot, once it was taken.
    """

    def __init__(self, arms: Sequence[Arm], sources: Sequence[Any], settings: Settings, plan: Plan) -> None:
        self.settings = settings
        self.accumulator = accumulator_of(plan)
        self.number = next(_numbers)
        self.deadline = math.inf
        self.outcome = Outcome.COMPLETE
        self.running = False
        self.ended = False
        self.final: Snapshot | None = None
        self._arms = [ArmRun(arm, source) for arm, source in zip(arms, sources, strict=True)]
        self._backend: Backend
        self._started_at = 0.0
        self._ended_after = 0.0
        self._failure: ArmError | None = None
        self._quorum_due = math.inf
        self._stopped_early: tuple[ArmStatus, Outcome] | None = None
        self._unlogged: list[str] = []
        self._end_logged = False
        self._let_go = False
        self._timer: Timer | None = None
        self._wake: Waiter | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._backend.time() - self._started_at

    @property
    def tasks(self) -> list[Detached]:
        """The tasks of arms that have not ended, open or cleaning up."""
        return [arm.task for arm in self._arms if arm.task is not None and not arm.task.ended]

    def start(self) -> None:
        """Start the clock and all arms."""
        outer = anyio.current_effective_deadline()  # imports anyio's backend, before the clock starts
        self._backend = backend = current_backend()
        settings = self.settings
        self.running = True
        self._started_at = now = backend.time()
        self.deadline = min(
            math.inf if settings.timeout is None else now + settings.timeout,
            math.inf if settings.deadline is None else settings.deadline,
            outer - _OUTER_MARGIN,
        )
        for arm in self._arms:
            arm.set_clock(now)
        if self._stopped_early is not None:
            self.stop(*self._stopped_early)
        for arm in self._arms:
            if arm.closed:  # by a stop before the start, or by an eager task that ended the fusion
                discard(arm, backend)
            else:
                done = partial(self._task_ended, arm)
                name = f"rrf:{arm.arm.name}"
                arm.begin(backend.spawn(pump, arm, self.deliver, self.close, name=name, done=done))
        self._consider()
        self._set_timer()
        self._log()

    async def answer(self) -> Snapshot:
        """Wait for the final snapshot, and be done before an anyio deadline around this call fires.

        Raises:
            ArmError: A required arm failed.
        """
        if not self.running:
            self.start()
        elif (outer := anyio.current_effective_deadline() - _OUTER_MARGIN) < self.deadline:
            self.deadline = outer
            self._set_timer()
        while not self.ended:
            await self.changed()
        final = self.finish()
        self.raise_failure()
        return final

    def finish(self) -> Snapshot:
        """Return the final snapshot of a fusion that has ended."""
        self.final = self.final or self.accumulator.snapshot(at=self._ended_after, outcome=self.outcome)
        return self.final

    def raise_failure(self) -> None:
        """Raise the failure of a required arm, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def changed(self) -> None:
        """Wait until something arrives or an arm closes."""
        self._wake = waiter = self._backend.waiter()
        await waiter.wait()

    def stop(self, status: ArmStatus, outcome: Outcome) -> None:
        """Close every open arm with the status, and end for the reason that the outcome gives."""
        if not self.running:
            self._stopped_early = self._stopped_early or (status, outcome)
        elif not self.ended:
            self.outcome = outcome
            for arm in self._arms:
                if not arm.closed:
                    self._shut(arm, status)
                    arm.cancel()
            self._end()
            self._log()

    def leave(self) -> None:
        """Close every open arm because the reader left, started or not."""
        self.stop(ArmStatus.CANCELLED, Outcome.STOPPED)
        if not self.running:
            self.start()

    def abandon(self) -> None:
        """Leave, from any thread and without waiting: nobody holds the handle any more."""
        if not self.running:
            for arm in self._arms:
                discard(arm, None)
        elif self.tasks:
            with suppress(RuntimeError):  # the event loop is gone, and the tasks with it
                self._backend.post(self.let_go)

    async def clean_up(self) -> None:
        """Leave, wait for the tasks to end for at most the grace, and let go of those that do not."""
        self.leave()
        until = self._backend.time() + self.settings.grace
        while self.tasks:  # the end of one may start another, which closes what it never read
            with anyio.CancelScope(shield=True, deadline=until) as scope:
                await wait_for(self.tasks)
            if scope.cancelled_caught:
                break
        self._abandon()

    def let_go(self) -> None:
        """Leave without waiting; tasks that have not ended after the grace are abandoned."""
        self.leave()
        if self.tasks:
            self._let_go = True
            self._timer = self._backend.call_at(self._backend.time() + self.settings.grace, self._abandon)

    def __str__(self) -> str:
        state = str(self.outcome) if self.ended else "running" if self.running else "not started"
        return f"{state}: {self.accumulator.describe()}, {len(self.tasks)} tasks alive"

    def deliver(self, arm: ArmRun, element: Any) -> bool:
        """Take what an arm yielded, a page or one result; return whether it may go on."""
        page = element if type(element) is Page else [element]
        if arm.closed:
            arm.late += len(page)
            return False
        arm.last = now = self._backend.time()
        more = self.accumulator.add(arm.arm.name, page, at=now - self._started_at)
        if not more:
            self.close(arm, ArmStatus.WINDOW_FULL)
        elif self.accumulator.changed:
            self._notify()
        return more

    def close(self, arm: ArmRun, status: ArmStatus, error: BaseException | None = None) -> None:
        """Close an arm, unless it is, and do what follows from it."""
        if not arm.closed:
            self._shut(arm, status, error)
            self._consider()
            self._log()

    def _shut(self, arm: ArmRun, status: ArmStatus, error: BaseException | None = None) -> None:
        """Close an arm, and leave what follows from it to the caller."""
        arm.close()
        self._unlogged.append(arm.arm.name)
        self.accumulator.close(arm.arm.name, status, error, at=self.elapsed)
        if arm.arm.required and status is ArmStatus.FAILED and self._failure is None:
            self._failure = ArmError(
                f"required arm {arm.arm.name!r} failed: {in_words(error)}", arm=arm.arm.name
            )
            self._failure.__cause__ = error

    def _consider(self) -> None:
        """End the fusion if that follows from the arms that are closed, and tell the reader."""
        if self._failure is not None and not self.ended:
            self.stop(ArmStatus.STOPPED, Outcome.FAILED)
        elif self.accumulator.closed:
            self._end()
        elif self._quorum_due == math.inf and have_quorum(self._arms, self.settings.quorum):
            self._quorum_due = self._backend.time() + self.settings.patience
            if self.settings.patience:
                self._set_timer()
            else:
                self.stop(ArmStatus.STOPPED, Outcome.QUORUM)
        self._notify()

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            self._ended_after = self.elapsed
            if self._timer is not None:
                self._timer.cancel()
            self._notify()

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = min([self.deadline, self._quorum_due, *(arm.expiry for arm in self._arms if not arm.closed)])
        if due < math.inf and not self.ended:
            self._timer = self._backend.call_at(due, self._time_is_up)

    def _time_is_up(self) -> None:
        now = self._backend.time()
        if now >= self.deadline:
            self.stop(ArmStatus.DEADLINE, Outcome.DEADLINE)
        elif now >= self._quorum_due:
            self.stop(ArmStatus.STOPPED, Outcome.QUORUM)
        else:
            for arm in self._arms:
                if not arm.closed and now >= arm.expiry:
                    self._shut(arm, ArmStatus.TIMED_OUT if now >= arm.due else ArmStatus.IDLE)
                    arm.cancel()
            self._consider()
            self._log()
        self._set_timer()

    def _log(self) -> None:
        """Report arms that were closed, in that order, and the end, when nothing is left to be decided."""
        while self._unlogged:
            log_arm_closed(self.number, self.accumulator.report(self._unlogged.pop(0)))
        if self.ended and not self._end_logged:
            self._end_logged = True
            log_fusion_closed(self.number, self.outcome, len(self._arms), self._ended_after)

    def _task_ended(self, arm: ArmRun, error: BaseException | None) -> None:
        if not arm.closed:  # cancelled by somebody else, or before its first step
            self.close(arm, ArmStatus.FAILED, error)
        elif error is not None and not isinstance(error, asyncio.CancelledError):
            log_cleanup_failed(self.number, arm.arm.name, error)
        if not arm.started:
            discard(arm, self._backend)
        if arm.late:
            emit("late_hits", fusion=self.number, arm=arm.arm.name, received=arm.late)
        if self._let_go and self._timer is not None and not self.tasks:
            self._timer.cancel()

    def _abandon(self) -> None:
        """Report what still runs. It was cancelled if it was reading; a clean-up is left to end by itself."""
        for arm in self._arms:
            if arm.task is not None and not arm.task.ended and not arm.abandoned:
                arm.abandoned = True
                emit("arm_abandoned", warning=True, fusion=self.number, arm=arm.arm.name)
