"""How far each arm got, and what that says of an answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

__all__ = ["ArmReport", "ArmStatus", "Coverage", "in_words"]


def in_words(error: BaseException | None) -> str | None:
    """Return an error as text, whatever its own `__repr__` does; None for none."""
    if error is None:
        return None
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - it is the caller's code
        return f"{type(error).__name__} without words"


class ArmStatus(StrEnum):
    """Where an arm stands. Every status but the first two is final."""

    WAITING = "waiting"
    """Open; nothing has arrived."""
    STREAMING = "streaming"
    """Open; something has arrived."""
    EXHAUSTED = "exhausted"
    """Closed in full: the arm ended by itself."""
    WINDOW_FULL = "window_full"
    """Closed in full: the arm delivered its whole window."""
    TIMED_OUT = "timed_out"
    """Closed short: the arm's own timeout was over."""
    IDLE = "idle"
    """Closed short: the arm delivered nothing for its idle timeout."""
    DEADLINE = "deadline"
    """Closed short: the deadline of the fusion was reached."""
    FAILED = "failed"
    """Closed short: the arm raised."""
    REJECTED = "rejected"
    """Closed short: there was no thread to run the arm in."""
    SKIPPED = "skipped"
    """Closed short: not asked, as its circuit breaker is open."""
    STOPPED = "stopped"
    """Closed short: the fusion needed no more of it."""
    CANCELLED = "cancelled"
    """Closed short: the reader left."""

    @property
    def is_open(self) -> bool:
        """Whether more may arrive."""
        return self in _OPEN

    @property
    def is_full(self) -> bool:
        """Whether the arm closed having delivered all it was asked for."""
        return self in _FULL

    @property
    def is_short(self) -> bool:
        """Whether the arm closed before it had delivered all it was asked for."""
        return self not in _OPEN and self not in _FULL


_OPEN = frozenset({ArmStatus.WAITING, ArmStatus.STREAMING})
_FULL = frozenset({ArmStatus.EXHAUSTED, ArmStatus.WINDOW_FULL})


class ArmReport(NamedTuple):
    """What one arm has done so far.

    Attributes:
        name: The name of the arm.
        status: Where it stands.
        weight: Its weight in the fusion.
        window: How many ranks it is read to at most; None for no limit.
        received: Results taken from it, repeats included.
        first_hit_after: Seconds from the start to its first result; None before that, or without a clock.
        elapsed: Seconds from the start to its close, or to now while it is open; None without a clock.
        error: What it raised, if it failed, or why it was rejected; with its traceback, for as long as
            the report is kept.
        retry_after: Seconds until it is tried again, if it was skipped, at least 0; else None.
    """

    name: str
    status: ArmStatus
    weight: float
    window: int | None
    received: int
    first_hit_after: float | None
    elapsed: float | None
    error: BaseException | None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which arms answered, and why the others did not.

    Attributes:
        arms: One report an arm, in the order of the arms.
    """

    arms: tuple[ArmReport, ...]

    def __getitem__(self, name: str) -> ArmReport:
        """Return the report of the named arm; KeyError if there is none."""
        for report in self.arms:
            if report.name == name:
                return report
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is an arm of this name."""
        return any(report.name == name for report in self.arms)

    def __iter__(self) -> Iterator[ArmReport]:
        """Return the reports, in the order of the arms."""
        return iter(self.arms)

    @property
    def full(self) -> bool:
        """Whether every arm delivered all it was asked for."""
        return all(report.status.is_full for report in self.arms)

    @property
    def degraded(self) -> bool:
        """Whether some arm closed before it had delivered all it was asked for."""
        return any(report.status.is_short for report in self.arms)

    @property
    def reasons(self) -> tuple[ArmStatus, ...]:
        """The statuses of the arms that closed short, each once, in the order of the arms."""
        return tuple(dict.fromkeys(report.status for report in self.arms if report.status.is_short))

    @property
    def answered(self) -> tuple[str, ...]:
        """The names of the arms that delivered all they were asked for."""
        return tuple(report.name for report in self.arms if report.status.is_full)

    @property
    def weight_fraction(self) -> float:
        """The share of the weight, 0..1, of the arms that delivered all they were asked for."""
        weights = [float(report.weight) for report in self.arms]  # as JSON has them, so that it says the same
        heaviest = max(weights, default=0)
        if not heaviest:
            return float(self.full)
        shares = [weight / heaviest for weight in weights]
        answered = (share for share, report in zip(shares, self.arms, strict=True) if report.status.is_full)
        return math.fsum(answered) / math.fsum(shares)
