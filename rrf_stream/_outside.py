"""The ids outside the top of one snapshot: counted when somebody asks, as it was then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from rrf_stream._groups import Open, seen_by
from rrf_stream._ranking import Ranking
from rrf_stream._tally import Layout

__all__ = ["Outside"]


class Found(NamedTuple):
    """What was found, which is all that is sent of a snapshot elsewhere."""

    contenders: tuple[Any, ...]
    theta: float


class Outside:
    """What could still enter the top at the moment of a snapshot.

    There may be many such ids, and few readers ask. Rankings only grow, so it is enough to keep how
    far they had come.

    Args:
        layout: Where a tally holds what.
        rankings: What the arms have delivered.
        leaders: The tallies of the top, in order.
        is_full: Whether the top has as many hits as it can have.
        open_: The arms that still run.
    """

    __slots__ = ("_found", "_is_full", "_layout", "_leaders", "_open", "_pasts")

    def __init__(
        self, layout: Layout, rankings: Sequence[Ranking], leaders: list[int], open_: Open, *, is_full: bool
    ) -> None:
        self._layout = layout
        self._pasts = [ranking.past() for ranking in rankings]
        self._leaders = leaders
        self._is_full = is_full
        self._open = open_
        self._found: Found | None = None

    @property
    def contenders(self) -> tuple[Any, ...]:
        """Ids outside the top that may still enter it, in their present order."""
        return self._look().contenders

    @property
    def theta(self) -> float:
        """The highest score that a document outside can reach, over the lowest score inside."""
        return self._look().theta

    def _look(self) -> Found:
        if self._found is None:
            outside = self._outside() if self._is_full else {}
            self._found = Found(self._contenders(outside), self._theta(outside))
            self._pasts = []
        return self._found

    def _outside(self) -> dict[Any, tuple[int, int]]:
        """Return the tally of each id outside, and the one it would have if it came next in all open arms."""
        layout = self._layout
        tallies: dict[Any, int] = {}
        for past in self._pasts:
            added: dict[Any, int] = {}
            for id_, addition in past():
                added.setdefault(id_, addition)
            for id_, addition in added.items():
                tallies[id_] = tallies.get(id_, 0) + addition
        inside = {*self._leaders}
        seen = seen_by(layout)
        return {
            id_: (tally, tally + self._open[arms])
            for (id_, tally), arms in zip(tallies.items(), seen(tallies.values()), strict=True)
            if arms and tally not in inside
        }

    def _contenders(self, outside: dict[Any, tuple[int, int]]) -> tuple[Any, ...]:
        if not self._open.heads or not outside:
            return ()
        half, order = self._layout.half, self._layout.order
        last = self._leaders[-1] + half & order
        places = {
            id_: tally + half & order
            for id_, (tally, reached) in outside.items()
            if reached + half & order > last
        }
        return tuple(sorted(places, key=places.__getitem__, reverse=True))

    def _theta(self, outside: dict[Any, tuple[int, int]]) -> float:
        low = self._layout.low
        above = max((reached for _, reached in outside.values()), default=0)
        above = max(above, self._open[0]) >> low
        below = self._leaders[-1] >> low if self._leaders else 0
        if below:
            return above / below
        return math.inf if above else 0.0

    def __reduce__(self) -> tuple[type[Found], tuple[Any, ...]]:
        return Found, tuple(self._look())
