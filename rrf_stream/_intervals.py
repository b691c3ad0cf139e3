"""The best and the worst rank that a hit can still get.

To pass a hit, a document behind it has to gain. What it can gain are unread ranks
of arms that have not ranked it, and each of these, a *slot*, goes to one document. So
only so many documents can pass: no more than there are slots that are worth
enough, and no more than the worth of all slots together pays for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import neg
from typing import Any, NamedTuple

from rrf_stream._arm_state import ArmState
from rrf_stream._groups import Groups, Open
from rrf_stream._kernels import KEY_HALF, KEY_SHIFT, contributions
from rrf_stream._tally import Layout

__all__ = ["Intervals"]

_LISTED = 2048
_MOST_LISTED = 1 << 20
_UNLIMITED = (1 << 32) - 1  # ranks that a tally has room for


class Rival(NamedTuple):
    """A document behind a hit, and the best that it can reach.

    Attributes:
        place: Its place in the order then.
        ties: What decides between equal scores then: the ranks in its tally.
        score: Its score as it is, in units of 2**-96.
        arms: How many arms may still rank it.
    """

    place: int
    ties: int
    score: int
    arms: int


class Slots:
    """The unread ranks of the arms that still run.

    Args:
        layout: Knows what ranks are worth.
        states: Where these arms stand.
        most: How many ranks of each arm to list at least.

    Attributes:
        listed: How many ranks of each arm are listed, if there are so many.
        worth: What all slots together are worth, in units; None if there are too many to tell.
    """

    __slots__ = ("_deep", "_equal", "_known", "_values", "listed", "worth")

    def __init__(self, layout: Layout, states: Sequence[ArmState], most: int) -> None:
        self._values: list[int] = []
        self._equal: list[tuple[int, int]] = []  # scores may stay as they are: most units, number of slots
        self._deep: list[tuple[ArmState, range, int]] = []  # with the worth of the last rank listed
        self.listed = max(most, _LISTED)
        self._known: dict[int, int] = {}
        for state in states:
            ranks = range(len(state.ranking.ids) + 1, (state.spec.window or _UNLIMITED) + 1)
            if layout.score_kernels[state.index] is not None:
                self._equal.append((state.ranking.ceiling(), len(ranks)))
            else:
                spec = state.spec
                values = contributions(spec.kernel, spec.weight, ranks[: self.listed]) if ranks else []
                self._values += values
                if len(ranks) > self.listed:
                    self._deep.append((state, ranks[self.listed :], values[-1]))
        self._values.sort()
        equal = sum(units * count for units, count in self._equal)
        self.worth = None if self._deep else sum(self._values) + equal

    def at_least(self, units: int, most: int | None = None) -> int:
        """Return how many slots are worth at least so much.

        Args:
            units: How much, in units of 2**-96.
            most: Where it makes no difference whether there are so many or more; None if it does.
        """
        count = self._known.get(units)
        if count is None:
            count = len(self._values) - bisect_left(self._values, units)
            count += sum(slots for worth, slots in self._equal if worth >= units)
            deep = [(state, ranks) for state, ranks, last in self._deep if last >= units]
            if deep and most is not None and most <= self.listed:
                return _UNLIMITED  # an arm that goes on has so many in its list already
            count += sum(self._deep_at_least(state, ranks, units) for state, ranks in deep)
            self._known[units] = count
        return count

    @staticmethod
    def _deep_at_least(state: ArmState, ranks: range, units: int) -> int:
        kernel, weight = state.spec.kernel, state.spec.weight

        def below_zero(rank: int) -> int:  # so that it rises with the rank
            return -contributions(kernel, weight, range(rank, rank + 1))[0]

        return bisect_right(ranks, -units, key=below_zero)


class Intervals:
    """The best and worst ranks of the hits of one fusion, which never widen.

    Args:
        layout: Where a tally holds what.
        groups: The ids outside the top.
    """

    __slots__ = ("_groups", "_layout", "_worst")

    def __init__(self, layout: Layout, groups: Groups) -> None:
        self._layout = layout
        self._groups = groups
        self._worst: dict[Any, int] = {}  # of each hit, the least that was ever given

    def of(
        self, leaders: list[int], places: list[int], states: Sequence[ArmState], open_: Open
    ) -> tuple[list[int], list[int]]:
        """Return the best ranks and the worst ranks of the top.

        Args:
            leaders: The tallies of the top, in order.
            places: Their places in the order.
            states: Where the arms stand that still run.
            open_: What their next ranks are worth.
        """
        layout = self._layout
        if not leaders:
            return [], []
        groups = self._groups
        behind = [self._rival(*one, open_) for one in groups.within(open_, layout.floor(leaders[-1]))]
        unseen = self._rival(0, 0, open_)
        slots = self._slots(leaders[-1], states, unseen, len(behind) + len(leaders))
        best = []
        worst = []
        for position, seen in reversed([*enumerate(groups.seen(leaders))]):
            tally, place = leaders[position], places[position]
            rival = self._rival(tally, seen, open_)
            best.append(1 + bisect_left(places, -rival.place, key=neg))
            bound = position + 1 + self._most_that_pass(tally, place, behind, unseen, slots)
            id_ = groups.id_of(tally)
            self._worst[id_] = bound = min(bound, self._worst.get(id_, bound))
            worst.append(bound)
            behind.append(rival)
        return best[::-1], worst[::-1]

    def _slots(self, last: int, states: Sequence[ArmState], unseen: Rival, rivals: int) -> Slots:
        """Return the slots, so many of them listed that hardly any other has to be looked for."""
        slots = Slots(self._layout, states, rivals)
        # No more matter than there are rivals, and documents not seen yet that can pass the last hit.
        most = rivals + slots.at_least(self._enough(last) // unseen.arms)
        if slots.listed < most <= _MOST_LISTED // len(states):
            slots = Slots(self._layout, states, most)
        return slots

    def _enough(self, tally: int) -> int:
        """Return the least score, in units, that rounds to that of a hit."""
        return (self._layout.rounded(tally) << KEY_SHIFT) - KEY_HALF

    def _rival(self, tally: int, seen: int, open_: Open) -> Rival:
        layout = self._layout
        reached = tally + open_[seen]
        arms = (open_.heads & ~seen).bit_count()
        place = reached + layout.half & layout.order
        return Rival(place, reached & layout.listing, tally >> layout.low, arms)

    def _most_that_pass(
        self, tally: int, place: int, behind: list[Rival], unseen: Rival, slots: Slots
    ) -> int:
        """Return a number that is at least that of the documents behind a hit that can pass it together."""
        layout = self._layout
        first_seen = tally & layout.listing
        # The least score that is enough for a document that loses, or wins, against the hit among equals.
        enough = self._enough(tally)
        more = enough + (1 << KEY_SHIFT)
        wants = [
            (max((enough if ties > first_seen else more) - score, 0), arms)
            for reached, ties, score, arms in behind
            if reached > place
        ]
        lack = others = 0
        if unseen.place > place:
            lack = max(enough if unseen.ties > first_seen else more, 0)
            others = slots.at_least(-(-lack // unseen.arms))
        if not wants and not others:
            return 0
        # One of the slots that a document gets is worth at least its share of what the document lacks.
        most = len(wants) + others
        served = _most_served([slots.at_least(-(-units // arms), most) for units, arms in wants], others)
        if slots.worth is None:
            return served
        return min(served, _most_paid([units for units, _ in wants], lack, others, slots.worth))


def _most_served(uses: list[int], unseen: int) -> int:
    """Return how many documents can get a slot that is worth enough to them.

    Args:
        uses: For each, how many slots are. A slot that is worth enough to one is so to each with more.
        unseen: The same for documents not seen yet, of which there are any number.
    """
    count = 0
    for use in sorted(uses):
        if use > unseen > count:
            count = unseen
        if use > count:
            count += 1
    return max(count, unseen)


def _most_paid(lacks: list[int], lack: int, unseen: int, worth: int) -> int:
    """Return how many documents can get what they lack, out of a sum.

    Args:
        lacks: What each lacks, in units.
        lack: The same for a document not seen yet.
        unseen: How many of those may count.
        worth: The sum.
    """
    count = 0
    for size, many in sorted([*[(size, 1) for size in lacks], (lack, unseen)]):
        served = min(many, worth // size) if size else many
        count += served
        worth -= served * size
        if served < many:
            break
    return count
