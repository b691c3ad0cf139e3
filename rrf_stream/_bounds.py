"""What can still change: how much of the top is certain, and what the rest waits for.

The tally that a document would have if it came next in every arm that has not ranked
it yet is the best that it can reach: it tells the highest score and, among equal
scores, the best place. A document is certainly ahead of another if it is ahead
even of that. Nothing that makes no assumption about what is still to come can
know more, as it may come like this.

This is asked twice: of the arms that still run (`settled`), and of all that have not
delivered their whole window, whatever the reason (`exact`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from rrf_stream._arm_state import ArmState
from rrf_stream._groups import Groups, Open
from rrf_stream._intervals import Intervals
from rrf_stream._kernels import scores_of
from rrf_stream._outside import Outside
from rrf_stream._scoreboard import Scoreboard
from rrf_stream._snapshot import FIRST_BOUND, FusedHit
from rrf_stream._tally import Layout

__all__ = ["NOTHING", "Bounds", "BoundsMode", "Verdict", "bounds_of"]

BoundsMode: TypeAlias = Literal["settled", "off", "ranks"]

_BACKLOG = 2048  # ids that may wait to be sorted in: some milliseconds' work

_hit = partial(tuple.__new__, FusedHit)  # FusedHit() itself takes three times as long
_score = attrgetter("score")
_NONE = repeat(None)


class Verdict(NamedTuple):
    """What is certain of the top at one moment.

    Attributes:
        settled: Leading positions that no further event can change.
        exact: Leading positions that would be the same had every arm delivered its whole window.
        settled_set: Leading positions whose documents, in any order, no further event can change.
        exact_set: The same had every arm delivered its whole window.
        best_ranks: For each hit, the best rank it can still reach; None unless they are asked for.
        worst_ranks: For each hit, the worst rank it can still fall to; None unless they are asked for.
        uppers: For each hit, the highest score it can still reach; None if none can gain.
        unseen_possible: Whether an id not seen yet may still enter.
        blocking_arms: The arms that the next position waits for.
        outside: The documents outside the top.
    """

    settled: int
    exact: int
    settled_set: int
    exact_set: int
    best_ranks: Sequence[int | None] | None
    worst_ranks: Sequence[int | None] | None
    uppers: list[float] | None
    unseen_possible: bool
    blocking_arms: tuple[str, ...]
    outside: Outside | None

    @property
    def news(self) -> tuple[object, ...]:
        """What a reader waits for: that it has changed is worth a snapshot."""
        return self[:6]

    def certificates(self) -> dict[str, Any]:
        """Return what a snapshot says of the future, by its names."""
        return {
            "settled": self.settled,
            "exact": self.exact,
            "settled_set": self.settled_set,
            "exact_set": self.exact_set,
            "unseen_possible": self.unseen_possible,
            "blocking_arms": self.blocking_arms,
            "_outside": self.outside,
        }

    def bound(self, hits: tuple[FusedHit, ...]) -> tuple[FusedHit, ...]:
        """Return the hits with their bounds; they have their scores as upper ones so far."""
        if self.uppers is None and self.best_ranks is None:
            return hits
        uppers = map(_score, hits) if self.uppers is None else self.uppers
        bounds = zip(uppers, self.best_ranks or _NONE, self.worst_ranks or _NONE, strict=False)
        return tuple([_hit((*hit[:FIRST_BOUND], *bound)) for hit, bound in zip(hits, bounds, strict=True)])


_verdict = partial(tuple.__new__, Verdict)  # as for hits

NOTHING = Verdict(0, 0, 0, 0, None, None, None, unseen_possible=True, blocking_arms=(), outside=None)
"""Stands for a verdict before anything has happened."""


class Bounds:
    """Judges the top of one fusion, again and again while it grows.

    Args:
        layout: Where a tally holds what.
        states: Where the arms stand.
        board: Knows all tallies.
        top_k: How many hits a snapshot shows.
        ranks: Whether to give the best and worst ranks of hits too.
    """

    __slots__ = (
        "_board",
        "_groups",
        "_intervals",
        "_kept_up",
        "_layout",
        "_listing",
        "_rankings",
        "_ranks",
        "_top_k",
    )

    def __init__(
        self, layout: Layout, states: Sequence[ArmState], board: Scoreboard, top_k: int, *, ranks: bool
    ) -> None:
        self._layout = layout
        self._rankings = [state.ranking for state in states]
        self._board = board
        self._top_k = top_k
        # An arm without a weight lists nothing and decides no tie: nobody waits for it.
        self._listing = [
            (state, head) for state, head in zip(states, layout.heads, strict=True) if state.spec.lists
        ]
        self._ranks = ranks
        self._groups: Groups | None = None  # until something can still change
        self._intervals: Intervals | None = None
        self._kept_up = 0

    def keep_up(self) -> None:
        """Sort in what has arrived if it is much, so that no judgement, and no deadline, waits for that."""
        if len(self._board) > self._kept_up + _BACKLOG:
            self._kept_up = len(self._board)
            _, pending = self._open()
            if pending.heads:
                self._grouped(self._board.leaders(), pending)

    def judge(self, leaders: list[int]) -> Verdict:
        """Return what is certain.

        Args:
            leaders: The tallies of the top, in order.
        """
        layout = self._layout
        count = len(leaders)
        is_full = count == self._top_k
        running, pending = self._open()
        settled = settled_set = exact = exact_set = count
        best: Sequence[int | None] | None = range(1, count + 1) if self._ranks else None
        worst = best
        uppers = None
        blocking: tuple[str, ...] = ()
        unseen_possible = False
        if pending.heads:
            groups = self._grouped(leaders, pending)
            half, order = layout.half, layout.order
            places = [tally + half & order for tally in leaders]
            seen = groups.seen(leaders)
            rivals = self._rivals(groups, leaders, seen, pending)
            exact, exact_set = _certain(places, rivals)
            if is_full:
                groups.drop([arms for place, arms in rivals[count:-1] if place < places[-1]])
            if running.heads:
                if running is not pending:
                    rivals = self._rivals(groups, leaders, seen, running)
                settled, settled_set = _certain(places, rivals)
                unseen_possible = not is_full or rivals[-1][0] > places[-1]
                if settled < count:
                    blocking = self._blocking(places[settled], rivals[settled + 1 :], running)
                elif not is_full:  # an empty place waits for whoever may fill it
                    blocking = self._named(running.heads)
                reached = [tally + running[arms] for tally, arms in zip(leaders, seen, strict=True)]
                uppers = scores_of(reached, layout.low)
                if self._ranks:
                    intervals = self._intervals = self._intervals or Intervals(layout, groups)
                    states = [state for state, head in self._listing if running.heads & head]
                    best, worst = intervals.of(leaders, places, states, running)
        outside = Outside(layout, self._rankings, leaders, running, is_full=is_full)
        verdict: Verdict = _verdict(
            (
                settled,
                exact,
                settled_set,
                exact_set,
                best,
                worst,
                uppers,
                unseen_possible,
                blocking,
                outside,
            )
        )
        return verdict

    def foresee(self, leaders: list[int], wanted: int) -> bool | None:
        """Return whether all is certain of the first positions, if that is seen at a glance; else None.

        Args:
            leaders: The tallies of the top, in order.
            wanted: How many positions, at most as many as a snapshot shows.
        """
        running, _ = self._open()
        if not running.heads:
            return True
        half, order = self._layout.half, self._layout.order
        if len(leaders) < wanted or leaders[wanted - 1] + half & order < running[0] + half & order:
            return False
        return None

    def _open(self) -> tuple[Open, Open]:
        """Return the arms that still run, and all that have not delivered their whole window."""
        running = {}
        pending = {}
        for state, head in self._listing:
            if state.final is not None and state.status.is_full:
                continue
            addition = state.ranking.next_addition()
            if addition:
                pending[head] = addition
                if state.final is None:
                    running[head] = addition
        every = Open(pending)
        return (every if len(running) == len(pending) else Open(running)), every

    def _grouped(self, leaders: list[int], pending: Open) -> Groups:
        """Return the groups of all that has arrived."""
        groups = self._groups = self._groups or Groups(self._layout, self._rankings, self._board)
        # Nothing that does not reach the last place from where it is, through all arms, ever will.
        is_full = len(leaders) == self._top_k
        groups.update(leaders, self._layout.floor(leaders[-1]) - pending[0] if is_full else 0)
        return groups

    def _rivals(
        self, groups: Groups, leaders: list[int], seen: list[int], open_: Open
    ) -> list[tuple[int, int]]:
        """Return which places others can reach: the leaders, the groups outside, and an id not seen yet.

        Each place comes with the heads of the arms that ranked the document already.
        """
        half, order = self._layout.half, self._layout.order
        rivals = [
            (tally + open_[arms] + half & order, arms) for tally, arms in zip(leaders, seen, strict=True)
        ]
        rivals += groups.strongest(open_)
        rivals.append((open_[0] + half & order, 0))
        return rivals

    def _blocking(self, place: int, rivals: list[tuple[int, int]], open_: Open) -> tuple[str, ...]:
        """Return the arms by which others may pass a place."""
        missing = 0
        for reached, arms in rivals:
            if reached > place:
                missing |= ~arms
        low = self._layout.low
        worth = sum(head for head, addition in open_.additions.items() if addition >> low)
        missing &= open_.heads
        missing = missing & worth or missing  # ranks that are worth nothing still decide ties
        return self._named(missing)

    def _named(self, heads: int) -> tuple[str, ...]:
        """Return the names of arms."""
        return tuple([state.spec.name for state, head in self._listing if head & heads])


def bounds_of(
    mode: BoundsMode, layout: Layout, states: Sequence[ArmState], board: Scoreboard, top_k: int
) -> Bounds | None:
    """Return what judges the top as far as it is asked for; None for "off"."""
    return None if mode == "off" else Bounds(layout, states, board, top_k, ranks=mode == "ranks")


def _certain(places: list[int], rivals: list[tuple[int, int]]) -> tuple[int, int]:
    """Return how many of the top are certain as a list, and as a set.

    Args:
        places: The places of the leaders in the order.
        rivals: What they can reach, and then what others can.
    """
    as_list = len(places)
    as_set = 0
    strongest, _ = max(rivals[len(places) :])
    for position in range(len(places) - 1, -1, -1):
        if places[position] > strongest:
            as_set = as_set or position + 1
        else:
            as_list = position
        reached, _ = rivals[position]
        strongest = max(strongest, reached)
    return as_list, as_set
