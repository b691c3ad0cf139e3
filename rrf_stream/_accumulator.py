"""The incremental core as users hold it: add pages, close arms, take snapshots.

No async, no clock, no input or output: this is the part of the library for
people with their own event loop, and the part that `open_fusion` drives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from operator import is_
from typing import Any

from rrf_stream._arm import Arm, arms_of
from rrf_stream._arm_state import ArmState
from rrf_stream._bounds import NOTHING, Bounds, BoundsMode, Verdict, bounds_of
from rrf_stream._checks import (
    check_bounds,
    check_callable,
    check_choice,
    check_count,
    check_kernel,
    check_names,
    check_weight,
)
from rrf_stream._coverage import ArmReport, ArmStatus, Coverage
from rrf_stream._hit import Key
from rrf_stream._kernels import Kernel
from rrf_stream._plan import Plan, specs_of
from rrf_stream._ranking import Ranking, Repeats
from rrf_stream._scoreboard import Representative, Scoreboard
from rrf_stream._snapshot import FusedHit, Outcome, Snapshot
from rrf_stream._tally import arm_spec, layout_of
from rrf_stream.errors import FusionClosedError

__all__ = ["Accumulator", "accumulator_of"]


def accumulator_of(plan: Plan) -> Accumulator:
    """Return a new accumulator without checking again what a plan has checked."""
    accumulator = Accumulator.__new__(Accumulator)
    accumulator._start(plan)  # noqa: SLF001 - the other constructor of the class
    return accumulator


_CLOSED = [status for status in ArmStatus if not status.is_open]


class Accumulator:
    """Fuses rankings while they arrive; every snapshot is the exact fusion of what was added.

    Whatever the order of arrival and the size of the pages, a snapshot has the hits that
    `fuse` gives for the same results, bit for bit. Adding a hit is constant work; a snapshot
    costs by the number of hits it shows, not by the number of ids seen.

    Args:
        arms: Weights by arm name, or arms, whose sources are not used. Their order decides ties.
        top_k: How many hits a snapshot shows, at least 1.
        window: How many ranks an arm given by its weight is read to, at least 1; None for no limit.
        rank_constant: A finite number above 0.
        kernel: What a rank is worth; None for `ReciprocalRank(rank_constant)`.
        key: Gives the id of a result that is not a `Hit`; None if results are ids.
        representative: Chooses the copy shown, from the list of all copies of an id in the
            order of the arms, then of ranks; None for the first.
        repeats: Whether a repeat within one arm uses up a rank ("consume") or not ("skip").
            Either way the first occurrence counts.
        bounds: What a snapshot says of the future: "settled", how much of it is certain, "ranks",
            the best and worst rank of each hit too, or "off", nothing, at no cost.

    Raises:
        ValueError: A name, weight or option is out of its range.
        TypeError: A value is of the wrong type.
    """

    def __init__(
        self,
        arms: Mapping[str, float] | Iterable[Arm],
        *,
        top_k: int = 10,
        window: int | None = 100,
        rank_constant: float = 60,
        kernel: Kernel | None = None,
        key: Key | None = None,
        representative: Representative | None = None,
        repeats: Repeats = "consume",
        bounds: BoundsMode = "settled",
    ) -> None:
        check_count("top_k", top_k)
        check_count("window", window, optional=True)
        check_choice("repeats", repeats, ("consume", "skip"))
        check_callable("key", key)
        check_callable("representative", representative)
        shared = check_kernel(kernel, rank_constant)
        if isinstance(arms, Mapping):
            check_names("arms", arms)
            for name, weight in arms.items():
                check_weight(f"the weight of arm {name!r}", weight)
            specs = [arm_spec(name, shared, weight, window) for name, weight in arms.items()]
        else:
            specs = specs_of(arms_of(arms), shared)
        given = tuple(specs)
        check_bounds(bounds, [spec.kernel for spec in given])
        self._start(Plan(given, layout_of(given), top_k, repeats == "skip", key, representative, bounds))

    def _start(self, plan: Plan) -> None:
        layout = plan.layout
        keep_copies = plan.representative is not None
        rankings = [
            Ranking(layout, arm, skip_repeats=plan.skip_repeats, keep_copies=keep_copies, key=plan.key)
            for arm in range(len(plan.specs))
        ]
        self._board = Scoreboard(
            layout,
            rankings,
            top_k=plan.top_k,
            representative=plan.representative,
            bounded=plan.bounds != "off",
        )
        self.states = [*map(ArmState, count(), plan.specs, rankings)]
        self._bounds = bounds_of(plan.bounds, layout, self.states, self._board, plan.top_k)
        self._verdict: Verdict | None = NOTHING  # None when something has arrived, or an arm has closed
        self._told = NOTHING  # what readers know of it
        self._open = len(rankings)
        self._seq = 0
        self._status_changed = False
        self._shown: tuple[FusedHit, ...] = ()  # without their bounds

    @property
    def changed(self) -> bool:
        """Whether a snapshot may show something that the last one did not."""
        if self._bounds is None:
            return self._status_changed or self._board.touched
        return self._status_changed or self._verdict is not self._told

    @property
    def closed(self) -> bool:
        """Whether every arm is closed, so that a snapshot taken now is final."""
        return not self._open

    def add(self, arm: str, hits: Iterable[Any], *, at: float | None = None) -> bool:
        """Add the next results of an arm, best first.

        Results beyond the arm's window are dropped, and the arm closes as WINDOW_FULL once
        its window is used up. If a key raises or an id is not hashable, nothing is added.

        Args:
            arm: The name of the arm.
            hits: Any number of ids, `Hit` objects, or with `key` of objects.
            at: Seconds since the start, by the caller's clock; reported, never read.

        Returns:
            Whether the arm takes more.

        Raises:
            FusionClosedError: The arm is closed.
            ValueError: There is no such arm.
            TypeError: `hits` is no iterable of results, or an id is not hashable.
        """
        state = self._state(arm)
        if state.final is None:
            return self.take(state, hits, at)
        raise FusionClosedError(f"arm {arm!r} is closed ({state.status}) and takes no more hits")

    def take(self, state: ArmState, hits: Iterable[Any], at: float | None) -> bool:
        """Do the same with an arm that is open."""
        ranking = state.ranking
        self._board.extend(state.index, hits)
        self._verdict = None
        if self._bounds is not None:
            self._bounds.keep_up()
        if state.status is ArmStatus.WAITING and ranking.received:
            state.status = ArmStatus.STREAMING
            state.first_hit_after = at
            self._status_changed = True
        if ranking.is_full:
            self.shut(state, ArmStatus.WINDOW_FULL, at)
            return False
        return True

    def close(
        self, arm: str, status: ArmStatus, error: BaseException | None = None, *, at: float | None = None
    ) -> None:
        """Close an arm: nothing more will come from it. Closing a closed arm changes nothing.

        Args:
            arm: The name of the arm.
            status: Why it closed; any status but WAITING and STREAMING.
            error: What it raised, if it failed.
            at: Seconds since the start, by the caller's clock; reported, never read.

        Raises:
            ValueError: There is no such arm, or the status is not one of a closed arm.
        """
        state = self._state(arm)
        if status not in _CLOSED:
            raise ValueError(f"status must be one of {', '.join(_CLOSED)}, not {status!r}")
        if state.final is None:
            self.shut(state, ArmStatus(status), at, error)

    def shut(
        self,
        state: ArmState,
        status: ArmStatus,
        at: float | None,
        error: BaseException | None = None,
        retry_after: float | None = None,
    ) -> ArmReport:
        """Do the same with an arm that is open, and return its report."""
        state.status = status
        state.final = report = state.report(at, error, retry_after)
        self._open -= 1
        self._status_changed = True
        self._verdict = None
        return report

    def snapshot(self, *, at: float | None = None, outcome: Outcome = Outcome.COMPLETE) -> Snapshot:
        """Return the fused top-k of what was added so far; final if every arm is closed.

        Args:
            at: Seconds since the start, by the caller's clock; reported, never read.
            outcome: Why the fusion ended, if it has.
        """
        return self._snapshot(tuple(self._board.hits()), at, outcome)

    def refresh(self, *, at: float | None = None) -> Snapshot | None:
        """Return a snapshot if it shows anything that the last one did not, else None.

        Args:
            at: Seconds since the start, by the caller's clock; reported, never read.
        """
        if not self.changed:
            return None
        hits = tuple(self._board.hits())  # a hit is the same object as before if nothing about it has changed
        if not self._status_changed and len(hits) == len(self._shown) and all(map(is_, hits, self._shown)):
            if self._bounds is None:
                return None
            before, self._told = self._told.news, self._judge(self._bounds, self._board.shown)
            if before == self._told.news:
                return None
        return self._snapshot(hits, at, Outcome.COMPLETE)

    def _snapshot(self, hits: tuple[FusedHit, ...], at: float | None, outcome: Outcome) -> Snapshot:
        self._seq += 1
        self._status_changed = False
        self._shown = hits
        certificates = {}
        if self._bounds is not None:
            self._told = verdict = self._judge(self._bounds, self._board.shown)
            hits, certificates = verdict.bound(hits), verdict.certificates()
        return Snapshot(
            hits=hits,
            seq=self._seq,
            elapsed=at,
            final=not self._open,
            outcome=None if self._open else Outcome(outcome),
            coverage=Coverage(tuple([state.final or state.report(at) for state in self.states])),
            **certificates,
        )

    def settles(self, wanted: int) -> bool:
        """Return whether all is certain of the first positions; with bounds only.

        Args:
            wanted: How many positions, at most as many as a snapshot shows.
        """
        bounds = self._bounds
        if bounds is None:
            return False
        leaders = self._board.leaders()
        known = bounds.foresee(leaders, wanted)
        return self._judge(bounds, leaders).settled >= wanted if known is None else known

    def _judge(self, bounds: Bounds, leaders: list[int]) -> Verdict:
        if self._verdict is None or self._verdict is NOTHING:
            self._verdict = bounds.judge(leaders)
        return self._verdict

    def rankings(self) -> dict[str, list[Any]]:
        """Return the ids that each arm has delivered, best first.

        `fuse` of them, with the weights, rank constant or kernels, repeats and top-k of this fusion,
        gives the ids, scores and ranks of a snapshot taken now. (Copies are not in them.) Where an arm's
        kernel goes by scores, they are `Hit` objects with these.
        """
        return {state.spec.name: state.ranking.results() for state in self.states}

    def describe(self) -> str:
        """Return the live counts in words."""
        arms = ", ".join(f"{s.spec.name} {s.status} {s.ranking.received}" for s in self.states) or "no arms"
        return f"{len(self._board)} ids, {self._seq} snapshots; {arms}"

    def __repr__(self) -> str:
        return f"<Accumulator {self.describe()}>"

    def _state(self, arm: str) -> ArmState:
        for state in self.states:
            if state.spec.name == arm:
                return state
        known = ", ".join(repr(state.spec.name) for state in self.states) or "none"
        raise ValueError(f"arm must be the name of one of the arms ({known}), not {arm!r}")
