"""A plain model of a fusion that is driven step by step: what must come of all that is done to it.

What is due at one instant comes in this order: the fusion before its arms, the deadline before the quorum,
the timeout of an arm before its idle timeout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from engine_chaos_arms import NEVER, ArmModel

from rrf_stream import FusedHit, Hit, Page, fuse

MARGIN = 0.005
"""What the final snapshot is ahead of an enclosing deadline."""

Mode = Literal["next", "rest", "final"]
"""What is read: the next snapshot, all that are still to come, or the final one."""
View = tuple[int, float | None, bool, str | None, list[FusedHit], list[tuple[Any, ...]]]
"""All that a snapshot says."""


def enclosing(due: float) -> float:
    """Return an enclosing deadline that makes the answer due then, to the last bit; `NEVER` if none does."""
    rounded = due + MARGIN
    near = (rounded, math.nextafter(rounded, 0), math.nextafter(rounded, NEVER))
    return next((when for when in near if when - MARGIN == due), NEVER)


@dataclass
class Read:
    """What a reader gets: snapshots, and then an end."""

    mode: Mode
    until: float = NEVER
    """When it is cancelled."""
    got: list[View] = field(default_factory=list)
    end: str | None = None


class FusionModel:
    """One fusion: all decisions about it, and what its reader sees."""

    def __init__(self, arms: list[ArmModel], **options: Any) -> None:
        self.arms = arms
        self.options = options
        self.clock = 0.0
        self.started = NEVER
        self.deadline = NEVER
        self.quorum_due = NEVER
        self.outcome: str | None = None
        self.ended_after = 0.0
        self.failed = False
        self.failure: str | None = None
        """The required arm whose failure nobody was told yet."""
        self.early: tuple[str, str] | None = None
        self.left = False
        self.let_go_at = NEVER
        """When the grace is over for those that still clean up."""
        self.seq = 0
        self.shown: Any = ([], ["waiting"] * len(arms))
        self.next_at = 0.0
        self.final: View | None = None
        self.read: Read | None = None
        self.events: list[tuple[Any, ...]] = []

    # --- what it says ---

    @property
    def running(self) -> bool:
        return self.started < NEVER

    @property
    def tasks(self) -> list[ArmModel]:
        return [arm for arm in self.arms if arm.task in {"reads", "cleans"}]

    @property
    def hits(self) -> list[FusedHit]:
        return fuse(
            {arm.name: arm.taken for arm in self.arms},
            weights={arm.name: arm.weight for arm in self.arms},
            top_k=self.options["top_k"],
            repeats=self.options["repeats"],
        )

    @property
    def visible(self) -> Any:
        return (self.hits, [arm.status for arm in self.arms])

    def _view(self, elapsed: float) -> View:
        self.seq += 1
        self.shown = self.visible
        reports = [arm.report(elapsed) for arm in self.arms]
        return (self.seq, elapsed, self.outcome is not None, self.outcome, self.hits, reports)

    # --- what is done to it ---

    def start(self, now: float, outer: float = NEVER) -> None:
        self.started = now
        timeout, deadline = (
            NEVER if given is None else given for given in (self.options["timeout"], self.options["deadline"])
        )
        self.deadline = min(now + timeout, deadline, outer - MARGIN)
        for arm in self.arms:
            arm.last = 0.0
            arm.task = "reads"
        if self.early is not None:
            self._finish(*self.early, now, unread=True)

    def stop(self, outcome: str, status: str, now: float, *, unread: bool = False) -> None:
        if not self.running:
            self.early = self.early or (outcome, status)
        elif self.outcome is None:
            self._finish(outcome, status, now, unread=unread)

    def leave(self, now: float, *, unread: bool = False) -> None:
        self.left = True
        self.stop("stopped", "cancelled", now, unread=unread)
        if not self.running:
            self.start(now)
        self.let_go_at = now + self.options["grace"]

    def drop(self, now: float) -> None:
        if self.running and self.tasks:
            self.stop("stopped", "cancelled", now)
            self.let_go_at = now + self.options["grace"]

    def command(self, arm: ArmModel, step: Any, now: float) -> None:
        """Do what follows from what an arm that reads was sent."""
        results = None if isinstance(step, BaseException) else step if type(step) is Page else [step]
        if not arm.is_open:
            arm.late += len(results or ())
            fails = isinstance(step, BaseException) and not isinstance(step, StopAsyncIteration)
            arm.spoils = arm.spoils or fails  # it answers its cancellation with an error
            self._clean_up(arm, now)
        elif results is None:
            ends = isinstance(step, StopAsyncIteration)
            self._close(arm, "exhausted" if ends else "failed", now, None if ends else type(step))
        elif any(isinstance(result, list) for result in results):
            self._close(arm, "failed", now, TypeError)
        else:
            hits = [result if isinstance(result, Hit) else Hit(result) for result in results]
            arm.take(hits, now - self.started, skip=self.options["repeats"] == "skip")
            if arm.is_full:
                self._close(arm, "window_full", now)
        self._judge(now)

    # --- what follows ---

    def next_event(self) -> float:
        """Return when something happens if nothing is done to it."""
        return min(
            [*self.limits(), self.let_go_at, *self._reader(), *(arm.cleans_until for arm in self.arms)]
        )

    def limits(self) -> list[float]:
        """Return the times at which an arm, or the fusion, is up."""
        if not self.running or self.outcome is not None:
            return []
        arms = [self.started + arm.due[0] for arm in self.arms if arm.is_open]
        return [self.deadline, self.quorum_due, *arms]

    def _reader(self) -> list[float]:
        if self.read is None or self.read.end is not None:
            return []
        new = self.read.mode != "final" and self.visible != self.shown
        return [self.read.until, self.next_at if new else NEVER]

    def happen(self, now: float) -> None:
        """Do all that is due by now, each at its time."""
        while (when := max(self.clock, self.next_event())) <= now:
            self.clock = when
            self._happen(when)
        self.clock = now
        self._happen(now)

    def _happen(self, now: float) -> None:
        if any(when <= now for when in self.limits()):
            self._time_is_up(now)
        for arm in self.tasks:
            if arm.cleans_until <= now:
                self._task_ends(arm)
        if self.let_go_at <= now or (self.let_go_at < NEVER and not self.tasks):
            self.let_go_at = NEVER
            for arm in self.tasks:
                if not arm.abandoned:
                    arm.abandoned = True
                    self.events.append(("rrf_stream.arm_abandoned", arm.name, "warning"))
        if self.read is not None and self.read.end is None:
            self._let_read(self.read, now)

    def _time_is_up(self, now: float) -> None:
        if self.deadline <= now:
            self._finish("deadline", "deadline", now)
        elif self.quorum_due <= now:
            self._finish("quorum", "stopped", now)
        else:
            for arm in self.arms:
                when, status = arm.due
                if arm.is_open and self.started + when <= now:
                    self._close(arm, status, now)
            self._judge(now)

    def _judge(self, now: float) -> None:
        """End the fusion if that follows from the arms that are closed."""
        if self.outcome is not None:
            return
        quorum = self.options["quorum"]
        closed = [arm for arm in self.arms if not arm.is_open]
        weight, gone = (sum(Fraction(arm.weight) for arm in some) for some in (self.arms, closed))
        if self.failed:
            self._finish("failed", "stopped", now)
        elif len(closed) == len(self.arms):
            self._finish("complete", "", now)
        elif quorum is not None and self.quorum_due == NEVER and 0 < weight * Fraction(quorum) <= gone:
            self.quorum_due = now + self.options["patience"]
            if self.quorum_due == now:
                self._finish("quorum", "stopped", now)

    def _finish(self, outcome: str, status: str, now: float, *, unread: bool = False) -> None:
        self.outcome, self.ended_after = outcome, now - self.started
        for arm in self.arms:
            if arm.is_open:
                self._close(arm, status, now, unread=unread)
        level = "warning" if outcome == "failed" else "info"
        self.events.append(
            ("rrf_stream.fusion_closed", outcome, len(self.arms), _ms(self.ended_after), level)
        )

    def _close(
        self,
        arm: ArmModel,
        status: str,
        now: float,
        error: type[BaseException] | None = None,
        *,
        unread: bool = False,
    ) -> None:
        arm.status, arm.error, arm.closed_after = status, error, now - self.started
        level = "warning" if status == "failed" else "info"
        self.events.append(
            ("rrf_stream.arm_closed", arm.name, status, len(arm.taken), _ms(arm.closed_after), level)
        )
        if status == "failed" and arm.required and not self.failed:
            self.failed, self.failure = True, arm.name
        if unread or status in {"exhausted", "failed", "window_full"}:
            arm.cancels = None if unread else 0
            self._clean_up(arm, now)
        else:
            arm.cancels = 1
            if not arm.defies:
                self._clean_up(arm, now)

    def _clean_up(self, arm: ArmModel, now: float) -> None:
        arm.task, arm.cleans_until = "cleans", now + arm.cleanup

    def _task_ends(self, arm: ArmModel) -> None:
        arm.task, arm.cleans_until = "over", NEVER
        if arm.spoils:
            self.events.append(("rrf_stream.arm_cleanup_failed", arm.name, "warning"))
        if arm.late:
            self.events.append(("rrf_stream.late_hits", arm.name, arm.late, "info"))

    # --- who reads it ---

    def begin(self, read: Read, now: float, outer: float = NEVER) -> None:
        """Begin to read, under an enclosing deadline."""
        self.read = read
        if read.mode != "final" and (self.final is not None or self.left):
            read.end = self._last_word("over" if read.mode == "next" else "done")
        elif not self.running:
            self.start(now, outer)
        elif read.mode == "final":
            self.deadline = min(self.deadline, outer - MARGIN)

    def _let_read(self, read: Read, now: float) -> None:
        if self.outcome is not None:
            self.final = self.final or self._view(self.ended_after)
            read.end = "done" if read.mode == "next" else self._last_word("done")
            if read.mode != "final" or read.end == "done":
                read.got.append(self.final)
        elif read.mode != "final" and self.visible != self.shown and self.next_at <= now:
            read.got.append(self._view(now - self.started))
            self.next_at = now + self.options["min_interval"]
            if read.mode == "next":
                read.end = "done"
        if read.end is None and read.until <= now:
            read.end = "cancelled"

    def _last_word(self, otherwise: str) -> str:
        """Return the failure of a required arm, once."""
        failure, self.failure = self.failure, None
        return otherwise if failure is None else f"{failure} failed"


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
