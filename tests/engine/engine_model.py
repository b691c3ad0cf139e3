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


@dataclass
class Fate:
    """How a fusion ends."""

    arms: list[ArmFate]
    outcome: str = ""
    ended_at: int = 0


def fate(plan: FusionPlan) -> Fate:
    """Play a fusion through, event by event."""
    arms = [ArmFate(arm, n, list(arm.events(n))) for n, arm in enumerate(plan.arms)]
    result = Fate(arms)
    quorum_due: int | None = None

    def finish(outcome: str, status: str, now: int) -> None:
        result.outcome, result.ended_at = outcome, now
        for arm in arms:
            if not arm.status:
                arm.close(status, now)

    if not arms:
        finish("complete", "", 0)
    while not result.outcome:
        running = [arm for arm in arms if not arm.status]
        stops = [
            (plan.deadline, "deadline", "deadline"),
            (quorum_due, "quorum", "stopped"),
            (plan.stop, "stopped", "stopped"),
            (plan.leave, "stopped", "cancelled"),
        ]
        times = [when for when, *_ in stops if when is not None]
        times += [arm.todo[0][0] for arm in running if arm.todo]
        times += [when for arm in running for when, _ in arm.limits()]
        now = min(times)
        for when, outcome, status in stops:
            if when == now and not result.outcome:
                finish(outcome, status, now)
        if result.outcome:
            break
        for arm in running:
            if arm.todo and arm.todo[0][0] == now:
                _, what, ids = arm.todo.pop(0)
                if what == "delivers":
                    arm.deliver(ids, now, skip=plan.repeats == "skip")
                else:
                    arm.close("exhausted" if what == "ends" else "failed", now)
            else:
                due = [status for when, status in arm.limits() if when == now]
                if due:
                    arm.close(due[0], now)
        closed = [arm for arm in arms if arm.status]
        if any(arm.plan.required and arm.status == "failed" for arm in closed):
            finish("failed", "stopped", now)
        elif len(closed) == len(arms):
            finish("complete", "", now)
        elif plan.quorum is not None and quorum_due is None:
            weight, gone = (sum(Fraction(arm.plan.weight) for arm in some) for some in (arms, closed))
            if weight and gone >= Fraction(plan.quorum) * weight:
                quorum_due = now + plan.patience
                if not plan.patience:
                    finish("quorum", "stopped", now)
    return result


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
        quorum=draw(st.none() | st.sampled_from([0.25, 0.5, 0.75, 1.0])) if any(a.weight for a in arms) else None,
        patience=draw(st.just(0) | moments(PATIENCE)),
        repeats=draw(st.sampled_from(["consume", "skip"])),
        top_k=draw(st.integers(1, 10)),
        min_interval=draw(st.sampled_from([0, 0, 1, 5])),
        stop=stop,
        leave=leave,
        pause=draw(st.sampled_from([0, 0, 1, 4])),
        reads=draw(st.sampled_from([True, True, False])),
    )
