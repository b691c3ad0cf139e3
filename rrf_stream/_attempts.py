"""The arms of one fusion while they are read: which attempt counts, and when something is due."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rrf_stream._arm import Arm
from rrf_stream._arm_state import ArmState
from rrf_stream._coverage import ArmReport, ArmStatus, in_words
from rrf_stream._health import Watch
from rrf_stream._pump import ArmRun
from rrf_stream.errors import ArmError

__all__ = ["Attempts", "failure_of"]

_FATAL = (ArmStatus.FAILED, ArmStatus.REJECTED, ArmStatus.SKIPPED)  # for a fusion that requires the arm
_NEARLY_ALL = 1 - 1e-12  # 7 arms of 10 are a quorum of .7, whatever floats make of it


class Attempts:
    """The attempts at reading the arms of a fusion: one an arm, and a second where an arm is hedged.

    Args:
        arms: What was asked for.
        sources: What to read, one an arm.
        states: Where the arms stand.
        watch: What follows the arms over many queries; None for nothing.
    """

    __slots__ = ("_arms", "_others", "_watch")

    def __init__(
        self, arms: Sequence[Arm], sources: Sequence[Any], states: Sequence[ArmState], watch: Watch | None
    ) -> None:
        self._watch = watch
        self._arms = [*map(ArmRun, arms, sources, states)]
        self._others: list[ArmRun] = []

    def __iter__(self) -> Iterator[ArmRun]:
        """Return the attempts that count, one an arm in the order of the arms."""
        return iter(self._arms)

    def __len__(self) -> int:
        """Return the number of arms."""
        return len(self._arms)

    @property
    def running(self) -> list[ArmRun]:
        """Every attempt whose task has not ended, open or cleaning up."""
        return [arm for some in (self._arms, self._others) for arm in some if arm.runs]

    @property
    def expiry(self) -> float:
        """When something is to be done about an arm, if none delivers until then."""
        return min([arm.expiry for arm in self._arms if not arm.closed], default=math.inf)

    def admit(self, now: float) -> Iterator[tuple[ArmRun, float]]:
        """Give the arms that are to be skipped, and for how many seconds; let others be hedged."""
        if self._watch is None:
            return
        for index, arm in enumerate(self._arms):
            retry_after, hedge_after = self._watch.admit(index)
            if retry_after is not None:
                yield arm, retry_after
            elif hedge_after is not None:
                arm.hedge_at = now + hedge_after

    def have_quorum(self, quorum: float | None) -> bool:
        """Return whether arms with a share of the weight of at least `quorum`, if any, are closed."""
        if quorum is None:
            return False
        weight = math.fsum(arm.arm.weight for arm in self._arms)
        closed = math.fsum(arm.arm.weight for arm in self._arms if arm.closed)
        return weight > 0 and closed >= quorum * weight * _NEARLY_ALL

    def hedge(self, now: float) -> Iterator[ArmRun]:
        """Give second attempts at arms that are late: that were to have delivered by now, and have not."""
        if self._watch is None:
            return
        for arm in self._arms:
            if not arm.closed and now >= arm.hedge_at:
                arm.hedge_at = math.inf
                if not arm.state.ranking.received and self._watch.hedge(arm.state.index):
                    yield self._second(arm)

    def _second(self, arm: ArmRun) -> ArmRun:
        """Return a second attempt at reading an arm, with the same limits of time."""
        second = ArmRun(arm.arm, arm.source, arm.state)
        second.attempt = 2
        arm.hedged = second.hedged = True
        second.last, second.due = arm.last, arm.due
        arm.rival, second.rival = second, arm
        self._others.append(second)
        return second

    def tell(self, arm: ArmRun, report: ArmReport, started_at: float) -> None:
        """Tell how an arm did in a query that started then, now that it is closed."""
        if self._watch is not None:
            last = arm.last_hit - started_at if report.received else None
            won = arm.attempt == 2 and last is not None
            self._watch.closed(arm.state.index, report, last, hedged=arm.hedged, second_won=won)

    def choose(self, arm: ArmRun) -> None:
        """Let this attempt count, and end its rival."""
        rival = self._part(arm)
        if rival is not None:
            self._count(arm, rival)
            rival.closed = True
            rival.cancel()

    def give_up(self, arm: ArmRun, error: BaseException | None) -> None:
        """Let the rival of an attempt that failed count."""
        rival = self._part(arm)
        if rival is not None:
            self._count(rival, arm)
            rival.first_error = error
        arm.closed = True

    def _count(self, arm: ArmRun, other: ArmRun) -> None:
        self._arms[arm.state.index] = arm
        self._others = [other if one is arm else one for one in self._others]

    @staticmethod
    def _part(arm: ArmRun) -> ArmRun | None:
        rival, arm.rival = arm.rival, None
        if rival is not None:
            rival.rival = None
        return rival


def failure_of(report: ArmReport) -> ArmError | None:
    """Return the failure of a required arm: it raised, as the cause, or was not read; None if neither."""
    if report.status not in _FATAL:
        return None
    name = report.name
    if report.retry_after is not None:
        return ArmError(f"required arm {name!r} is skipped for {report.retry_after:.3g} s more", arm=name)
    fate = "failed" if report.status is ArmStatus.FAILED else f"was {report.status}"
    failure = ArmError(f"required arm {name!r} {fate}: {in_words(report.error)}", arm=name)
    failure.__cause__ = report.error
    return failure
