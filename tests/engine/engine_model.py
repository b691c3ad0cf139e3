"""Random fusions in virtual time, and what a plain loop over their events says must come of each.

Times are whole ticks of 2**-12 s, which floating-point numbers add exactly. What can happen to an arm
happens at times that nothing else shares: arm n acts at ticks that leave n when divided by 64, and each
kind of time limit has a remainder of its own. So no outcome depends on what runs first at one instant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import strategies as st

from rrf_stream import Arm, Page
from rrf_stream.testing import Script, script

if TYPE_CHECKING:
    from collections.abc import Iterator

TICK = 2.0**-12
PERIOD = 64
TIMEOUT, IDLE, DEADLINE, PATIENCE, STOP, LEAVE = 16, 23, 32, 40, 48, 52
"""Remainders of the times at which something is up; `PATIENCE` is added to one of the others."""

End = Literal["ends", "fails", "hangs"]


@dataclass(frozen=True)
class ArmPlan:
    """One arm: what it delivers after how many periods, how it ends, and what it is allowed."""

    pages: list[tuple[int, list[int]]]
    end: End
    rest: int
    """Periods between the last page and the end."""
    weight: float
    window: int | None
    timeout: int | None
    idle: int | None
    required: bool
    cleanup: int
    swallow: int

    def source(self, number: int) -> Script:
        steps: list[Any] = [number * TICK]
        for gap, ids in self.pages:
            steps += [gap * PERIOD * TICK, Page(ids) if len(ids) != 1 else ids[0]]
        return script(
            *steps,
            self.rest * PERIOD * TICK,
            fail=OSError("down") if self.end == "fails" else None,
            hang=self.end == "hangs",
            cleanup=self.cleanup * PERIOD * TICK,
            shield=True,
            swallow=0 if self.end == "hangs" else self.swallow,
        )

    def arm(self, number: int, source: Script) -> Arm:
        return Arm(
            name(number),
            source,
            weight=self.weight,
            window=self.window,
            timeout=None if self.timeout is None else self.timeout * TICK,
            idle_timeout=None if self.idle is None else (self.idle - number) * TICK,
            required=self.required,
        )

    def events(self, number: int) -> Iterator[tuple[int, str, list[int]]]:
        """Give what the arm does if nobody stops it, each with its tick."""
        now = number
        for gap, ids in self.pages:
            now += gap * PERIOD
            yield now, "delivers", ids
        if self.end != "hangs":
            yield now + self.rest * PERIOD, self.end, []


@dataclass(frozen=True)
class FusionPlan:
    """A fusion, and what its reader does."""

    arms: list[ArmPlan]
    deadline: int | None
    quorum: float | None
    patience: int
    repeats: Literal["consume", "skip"]
    top_k: int
    min_interval: int
    stop: int | None
    leave: int | None
    pause: int
    """Periods that the reader takes over each snapshot."""
    reads: bool
    """Whether the reader wants more than the final snapshot."""

    @property
    def options(self) -> dict[str, Any]:
        return {
            "timeout": None if self.deadline is None else self.deadline * TICK,
            "quorum": self.quorum,
            "patience": self.patience * TICK,
            "repeats": self.repeats,
            "top_k": self.top_k,
            "min_interval": self.min_interval * PERIOD * TICK,
        }


def name(number: int) -> str:
    return f"arm {number}"


# --- what must come of it ---------------------------------------------------------------------------------


@dataclass
class ArmFate:
    """One arm in the model: what it has delivered, and how it closed."""

    plan: ArmPlan
    number: int
    todo: list[tuple[int, str, list[int]]]
    ids: list[int] = field(default_factory=list)
    received: int = 0
    status: str = ""
    closed_at: int = 0
    arrivals: list[tuple[int, int]] = field(default_factory=list)
    """Ticks of its pages, and how many ids were ranked by then."""

    def close(self, status: str, now: int) -> None:
        self.status, self.closed_at = status, now

    def deliver(self, ids: list[int], now: int, *, skip: bool) -> None:
        window = math.inf if self.plan.window is None else self.plan.window
        for id_ in ids:
            if len(self.ids) < window:
                self.received += 1
                if not (skip and id_ in self.ids):
                    self.ids.append(id_)
        self.arrivals.append((now, len(self.ids)))
        if len(self.ids) == window:
            self.close("window_full", now)

    def limits(self) -> Iterator[tuple[int, str]]:
        """Give the ticks at which it is closed if nothing else happens, and as what."""
        if self.plan.timeout is not None:
            yield self.plan.timeout, "timed_out"
        if self.plan.idle is not None:
            last = self.arrivals[-1][0] if self.arrivals else 0
            yield last + self.plan.idle - self.number, "idle"

    def ranked_by(self, tick: float) -> int:
        """Return how many ids it has ranked at a moment, and before."""
        return max((count for when, count in self.arrivals if when <= tick), default=0)

    @property
    def first_hit_after(self) -> float | None:
        ticks = [when for when, count in self.arrivals if count]
        return ticks[0] * TICK if ticks else None


class Fate:
    """How a fusion ends: a plain loop over its events, one moment at a time."""

    def __init__(self, plan: FusionPlan) -> None:
        self.plan = plan
        self.arms = [ArmFate(arm, n, list(arm.events(n))) for n, arm in enumerate(plan.arms)]
        self.outcome = ""
        self.ended_at = 0
        self._quorum_due: int | None = None
        self._judge(0)
        while not self.outcome:
            self._play(self._next())

    @property
    def _open(self) -> list[ArmFate]:
        return [arm for arm in self.arms if not arm.status]

    def _stops(self) -> list[tuple[int, str, str]]:
        """Give what ends the fusion whatever its arms do: when, as what, and what it makes of open arms."""
        plan = self.plan
        stops = [
            (plan.deadline, "deadline", "deadline"),
            (self._quorum_due, "quorum", "stopped"),
            (plan.stop, "stopped", "stopped"),
            (plan.leave, "stopped", "cancelled"),
        ]
        return [(when, outcome, status) for when, outcome, status in stops if when is not None]

    def _next(self) -> int:
        return min(
            [
                *(when for when, *_ in self._stops()),
                *(arm.todo[0][0] for arm in self._open if arm.todo),
                *(when for arm in self._open for when, _ in arm.limits()),
            ]
        )

    def _play(self, now: int) -> None:
        for when, outcome, status in self._stops():
            if when == now:
                self._finish(outcome, status, now)
                return
        for arm in self._open:
            if arm.todo and arm.todo[0][0] == now:
                _, what, ids = arm.todo.pop(0)
                if what == "delivers":
                    arm.deliver(ids, now, skip=self.plan.repeats == "skip")
                else:
                    arm.close("exhausted" if what == "ends" else "failed", now)
            else:
                for when, status in arm.limits():
                    if when == now and not arm.status:
                        arm.close(status, now)
        self._judge(now)

    def _judge(self, now: int) -> None:
        """End the fusion if that follows from the arms that are closed."""
        closed = [arm for arm in self.arms if arm.status]
        if any(arm.plan.required and arm.status == "failed" for arm in closed):
            self._finish("failed", "stopped", now)
        elif not self._open:
            self._finish("complete", "", now)
        elif self.plan.quorum is not None and self._quorum_due is None:
            weight, gone = (sum(Fraction(arm.plan.weight) for arm in some) for some in (self.arms, closed))
            if weight and gone >= Fraction(self.plan.quorum) * weight:
                self._quorum_due = now + self.plan.patience
                if not self.plan.patience:
                    self._finish("quorum", "stopped", now)

    def _finish(self, outcome: str, status: str, now: int) -> None:
        self.outcome, self.ended_at = outcome, now
        for arm in self._open:
            arm.close(status, now)


# --- random ones ------------------------------------------------------------------------------------------


def moments(remainder: int) -> st.SearchStrategy[int]:
    """Ticks with a remainder, in the first ten periods."""
    return st.integers(0, 9).map(lambda period: period * PERIOD + remainder)


def optional(strategy: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    return st.none() | st.none() | strategy


@st.composite
def arm_plans(draw: st.DrawFn, number: int) -> ArmPlan:
    pages = st.tuples(st.integers(0, 3), st.lists(st.integers(0, 7), max_size=4))
    return ArmPlan(
        pages=draw(st.lists(pages, max_size=5)),
        end=draw(st.sampled_from(["ends", "ends", "fails", "hangs"])),
        rest=draw(st.integers(0, 3)),
        weight=draw(st.sampled_from([1.0, 1.0, 0.5, 2.0, 0.0])),
        window=draw(st.none() | st.integers(1, 6)),
        timeout=draw(optional(moments(TIMEOUT + number))),
        idle=draw(optional(moments(IDLE))),
        required=draw(st.sampled_from([False, False, False, True])),
        cleanup=draw(st.sampled_from([0, 0, 1, 40])),
        swallow=draw(st.integers(0, 1)),
    )


@st.composite
def fusion_plans(draw: st.DrawFn) -> FusionPlan:
    """Fusions of up to four arms; one that nothing would end gets a deadline."""
    arms = [draw(arm_plans(number)) for number in range(draw(st.integers(0, 4)))]
    stop = draw(optional(moments(STOP)))
    leave = draw(optional(moments(LEAVE)))
    endless = any(arm.end == "hangs" and arm.timeout is arm.idle is None for arm in arms)
    deadline = draw(moments(DEADLINE) if endless and stop is leave is None else optional(moments(DEADLINE)))
    return FusionPlan(
        arms=arms,
        deadline=deadline,
        quorum=draw(st.none() | st.sampled_from([0.25, 0.5, 0.75, 1.0])),
        patience=draw(st.just(0) | moments(PATIENCE)),
        repeats=draw(st.sampled_from(["consume", "skip"])),
        top_k=draw(st.integers(1, 10)),
        min_interval=draw(st.sampled_from([0, 0, 1, 5])),
        stop=stop,
        leave=leave,
        pause=draw(st.sampled_from([0, 0, 1, 4])),
        reads=draw(st.sampled_from([True, True, False])),
    )
