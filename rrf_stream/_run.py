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

from rrf_stream._accumulator import Accumulator
from rrf_stream._arm import Arm
from rrf_stream._coverage import ArmStatus
from rrf_stream._hit import Page
from rrf_stream._log import emit, log_arm_closed
from rrf_stream._options import Settings
from rrf_stream._pump import ArmRun, discard, pump
from rrf_stream._snapshot import Outcome, Snapshot
from rrf_stream._tasks import Backend, Detached, Timer, current_backend, wait_for
from rrf_stream.errors import ArmError

__all__ = ["Run"]

_OUTER_MARGIN = 0.005
"""Seconds before an enclosing deadline at which the final snapshot is due, so that it gets out in time."""
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

    def __init__(self, arms: Sequence[Arm], sources: Sequence[Any], settings: Settings) -> None:
        self.settings = settings
        self.accumulator = Accumulator(
            arms,
            top_k=settings.top_k,
            rank_constant=settings.rank_constant,
            kernel=settings.kernel,
            key=settings.key,
            representative=settings.representative,
            repeats=settings.repeats,
            bounds=settings.bounds,
        )
        self.number = next(_numbers)
        self.deadline = math.inf
        self.outcome = Outcome.COMPLETE
        self.running = False
        self.ended = False
        self.final: Snapshot | None = None
        self._arms = [ArmRun(arm, source) for arm, source in zip(arms, sources, strict=True)]
        self._backend: Backend
        self._started_at = 0.0
        self._failure: ArmError | None = None
        self._quorum_due = math.inf
        self._timer: Timer | None = None
        self._wake: anyio.Event | None = None

    # What the reader calls.

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
            arm.last = now
            arm.due = math.inf if arm.arm.timeout is None else now + arm.arm.timeout
        if not self._arms:
            self._end()
        for arm in self._arms:
            if not arm.closed:  # an eager task may already have ended the fusion
                arm.task = backend.spawn(
                    pump, arm, self, name=f"rrf:{arm.arm.name}", done=partial(self._task_ended, arm)
                )
        self._set_timer()

    async def answer(self) -> Snapshot:
        """Wait for the final snapshot, and be done before an anyio deadline around this call fires.

        Raises:
            ArmError: A required arm failed.
        """
        if not self.running:
            self.start()
        outer = anyio.current_effective_deadline() - _OUTER_MARGIN
        if outer < self.deadline:
            self.deadline = outer
            self._set_timer()
        while not self.ended:
            await self.changed()
        final = self.finish()
        self.raise_failure()
        return final

    def finish(self) -> Snapshot:
        """Return the final snapshot of a fusion that has ended."""
        if self.final is None:
            self.final = self.accumulator.snapshot(at=self.elapsed, outcome=self.outcome)
        return self.final

    def raise_failure(self) -> None:
        """Raise the failure of a required arm, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def changed(self) -> None:
        """Wait until something arrives or an arm closes."""
        self._wake = anyio.Event()
        await self._wake.wait()

    def stop(self, status: ArmStatus, outcome: Outcome) -> None:
        """Close every open arm with the status, and end for the reason that the outcome gives."""
        if self.ended:
            return
        self.outcome = outcome
        for arm in self._arms:
            if not arm.closed:
                self.close(arm, status)
                arm.cancel()

    def leave(self) -> None:
        """Close every open arm because the reader left, started or not."""
        if not self.running:
            self._backend = current_backend()
            self._started_at = self._backend.time()
            self.running = True
            for arm in self._arms:
                discard(arm, self._backend)
        self.stop(ArmStatus.CANCELLED, Outcome.STOPPED)

    def abandon(self) -> None:
        """Leave, from any thread and without waiting: nobody holds the handle any more."""
        if self.running and self.tasks:
            with suppress(RuntimeError):  # the event loop is gone, and the tasks with it
                self._backend.post(self.let_go)

    async def clean_up(self) -> None:
        """Leave, wait for the tasks to end for at most the grace, and let go of those that do not."""
        self.leave()
        self._abandon(await wait_for(self.tasks, self.settings.grace))

    def let_go(self) -> None:
        """Leave without waiting; tasks that have not ended after the grace are abandoned."""
        self.leave()
        if self.tasks:
            when = self._backend.time() + self.settings.grace
            self._timer = self._backend.call_at(when, lambda: self._abandon(self.tasks))

    def __str__(self) -> str:
        state = str(self.outcome) if self.ended else "running" if self.running else "not started"
        return f"{state}: {self.accumulator.describe()}, {len(self.tasks)} tasks alive"

    # What pumps and timers call.

    def deliver(self, arm: ArmRun, element: Any) -> bool:
        """Take what an arm yielded, a page or one result; return whether it may go on."""
        page = element if type(element) is Page else (element,)
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
        if arm.closed:
            return
        arm.closed = True
        self.accumulator.close(arm.arm.name, status, error, at=self.elapsed)
        log_arm_closed(self.number, self.accumulator.report(arm.arm.name))
        if arm.arm.required and status is ArmStatus.FAILED:
            self._failure = ArmError(f"required arm {arm.arm.name!r} failed: {error!r}", arm=arm.arm.name)
            self._failure.__cause__ = error
            self.outcome = Outcome.FAILED
            self.stop(ArmStatus.STOPPED, Outcome.FAILED)
        if self.accumulator.closed:
            self._end()
        elif self._has_quorum():
            self._await_the_patient()
        self._notify()

    def _has_quorum(self) -> bool:
        quorum = self.settings.quorum
        if quorum is None or self._quorum_due < math.inf:
            return False
        weights = [arm.arm.weight for arm in self._arms]
        ended = [arm.arm.weight for arm in self._arms if arm.closed]
        return math.fsum(ended) >= quorum * math.fsum(weights) * (
            1 - 1e-12
        )  # 7 of 10 is .7, whatever floats say

    def _await_the_patient(self) -> None:
        self._quorum_due = self._backend.time() + self.settings.patience
        if self.settings.patience:
            self._set_timer()
        else:
            self.stop(ArmStatus.STOPPED, Outcome.QUORUM)

    def _end(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
        emit(
            "fusion_closed",
            warning=self.outcome is Outcome.FAILED,
            fusion=self.number,
            outcome=str(self.outcome),
            arms=len(self._arms),
            elapsed_ms=round(self.elapsed * 1000, 3),
        )

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
        for arm in self._arms:
            if not arm.closed and now >= arm.expiry:
                self.close(arm, ArmStatus.TIMED_OUT if now >= arm.due else ArmStatus.IDLE)
                arm.cancel()
        self._set_timer()

    def _task_ended(self, arm: ArmRun, error: BaseException | None) -> None:
        if not arm.closed:  # cancelled by somebody else, or before its first step
            self.close(arm, ArmStatus.FAILED, error)
        elif error is not None and not isinstance(error, asyncio.CancelledError):
            emit("arm_cleanup_failed", warning=True, fusion=self.number, arm=arm.arm.name, error=repr(error))
        if not arm.started:
            discard(arm, self._backend)
        if arm.late:
            emit("late_hits", fusion=self.number, arm=arm.arm.name, received=arm.late)
        if self.ended and self._timer is not None and not self.tasks:
            self._timer.cancel()

    def _abandon(self, tasks: list[Detached]) -> None:
        for task in tasks:
            task.cancel()
            emit("arm_abandoned", warning=True, fusion=self.number, arm=task.name.removeprefix("rrf:"))
