"""The ids outside the top, grouped by the arms that ranked them, the strongest first.

While the arms that ranked a document stay the same, so does its tally, and what it
can still gain is the same for all of its group. So the strongest of a group is all
there is to look at. When another arm ranks the document, it moves to another group,
and what it leaves behind is thrown away when it comes to the top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from rrf_stream._ranking import Ranking
from rrf_stream._scoreboard import Scoreboard
from rrf_stream._tally import Layout

__all__ = ["Groups", "Open", "seen_by"]


class Open(dict[int, int]):
    """What a document can gain at most in the arms that may still rank it, as an addition to its tally.

    Added to its tally, it gives the tally that the document has if it comes next in each of these
    arms: the highest score it can reach, and the best place among equals. The key is the heads of
    the arms that ranked it already: 0 for a document not seen yet.

    Args:
        additions: What the next rank adds, by the head of the arm's field: its highest bit.

    Attributes:
        additions: The same.
        heads: The heads of all these arms.
    """

    __slots__ = ("additions", "heads")

    def __init__(self, additions: dict[int, int]) -> None:
        super().__init__()
        self.additions = additions
        self.heads = sum(additions)

    def __missing__(self, seen: int) -> int:
        """Return the gain of a document that was ranked by other arms than those asked for before."""
        self[seen] = gain = sum(one for head, one in self.additions.items() if not head & seen)
        return gain


def seen_by(layout: Layout) -> Callable[[Iterable[int]], list[int]]:
    """Return what tells of each tally the heads of the arms with a weight that ranked the document."""
    heads = sum(head for head, spec in zip(layout.heads, layout.specs, strict=True) if spec.lists)
    rest = layout.listing ^ heads  # a field with any bit carries into its head when all these are added
    return lambda tallies: [((tally & rest) + rest | tally) & heads for tally in tallies]


class Groups:
    """All ids that are not among the leaders and may still matter.

    Args:
        layout: Where a tally holds what.
        rankings: What the arms have delivered.
        board: Knows all tallies.

    Attributes:
        seen: Tells of each tally the heads of the arms with a weight that ranked the document.
    """

    __slots__ = ("_board", "_groups", "_layout", "_leaders", "_rankings", "_taken", "seen")

    def __init__(self, layout: Layout, rankings: Sequence[Ranking], board: Scoreboard) -> None:
        self._layout = layout
        self._rankings = rankings
        self._board = board
        self._groups: dict[int, list[int]] = {}  # heaps of tallies below 0: the strongest is the least
        self._taken = [0] * len(rankings)
        self._leaders: set[int] = set()
        self.seen = seen_by(layout)

    def id_of(self, tally: int) -> Any:
        """Return the id of the document that has a tally."""
        arm, rank = self._layout.first(tally)
        return self._rankings[arm].ids[rank - 1]

    def update(self, leaders: list[int], least: int) -> None:
        """Take note of what has arrived, and of who leads.

        An id outside the top can join it only by a further contribution, which changes its tally: so
        no leader is in any group.

        Args:
            leaders: The tallies of the top.
            least: A tally below which, as it is, no id can join the top.
        """
        led = set(leaders)
        tallies = self._board.tallies
        fresh = {tally for tally in self._leaders - led if self._is_current(tally)}
        for arm, (ranking, taken) in enumerate(zip(self._rankings, self._taken, strict=True)):
            ids = ranking.ids
            if len(ids) > taken:
                fresh.update(map(tallies.__getitem__, ids[taken:] if taken else ids))
                self._taken[arm] = len(ids)
        fresh -= led
        self._leaders = led
        groups = self._groups
        listing = self._layout.listing
        strong = [tally for tally in fresh if tally >= least and tally & listing]
        for tally, seen in zip(strong, self.seen(strong), strict=True):
            if seen not in groups:
                groups[seen] = []
            heappush(groups[seen], -tally)
        first, rankings = self._layout.first, self._rankings
        for group in groups.values():
            while group:
                tally = -group[0]
                arm, rank = first(tally)
                if tallies[rankings[arm].ids[rank - 1]] == tally:
                    break
                heappop(group)

    def strongest(self, open_: Open) -> list[tuple[int, int]]:
        """Return for each group the best place in the order that any of it can reach, and its heads."""
        layout = self._layout
        half, order, step = layout.half, layout.order, -layout.step
        found = []
        for seen, group in self._groups.items():
            if group:
                gain = open_[seen]
                reached = gain - group[0] + half
                place = reached & order
                limit = gain + half - (reached & step)  # of what rounds to the same score
                if (len(group) > 1 and group[1] <= limit) or (len(group) > 2 and group[2] <= limit):
                    place = max(tally + gain + half & order for tally in self._above(group, limit))
                found.append((place, seen))
        return found

    def drop(self, groups: Iterable[int]) -> None:
        """Forget groups of which no id can join the top as it is."""
        for seen in groups:
            del self._groups[seen]

    def within(self, open_: Open, least: int) -> Iterator[tuple[int, int]]:
        """Return the tallies of all ids that can reach a tally, each with the heads of its arms."""
        for seen, group in self._groups.items():
            for tally in {*self._above(group, open_[seen] - least)}:  # a repeat has brought it twice
                yield tally, seen

    def _above(self, group: list[int], limit: int) -> Iterator[int]:
        """Return the current tallies of a group down to a limit, which is below 0 as the heap is."""
        waiting = [0]
        while waiting:
            index = waiting.pop()
            if index < len(group) and group[index] <= limit:
                tally = -group[index]
                if self._is_current(tally):
                    yield tally
                waiting += (2 * index + 1, 2 * index + 2)

    def _is_current(self, tally: int) -> bool:
        """Return whether a document still has this tally, which tells which document it is of."""
        return self._board.tallies[self.id_of(tally)] == tally
