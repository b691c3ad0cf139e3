"""The incremental core: the scores of every id, and the best of them at any time.

There is no object per id: an id is a key of one dictionary of scores, and of one
dictionary of ranks an arm.

What keeps a snapshot cheap: scores only grow, so an id outside the top-k can
enter it only through its own next contribution. The scoreboard therefore keeps
the k-th best score it last saw, and the few *candidates* that reach it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from heapq import nlargest
from itertools import count, repeat
from typing import Any, Literal, TypeAlias

from rrf_stream._kernels import ONE, score_of, scores_of, sort_key, tie_floor
from rrf_stream._ranking import Ranking
from rrf_stream._snapshot import FusedHit

__all__ = ["Representative", "Scoreboard", "Ties"]

Ties: TypeAlias = Literal["first-seen", "id"]
Representative: TypeAlias = Callable[[list[Any]], Any]
"""Chooses the copy shown from all copies of an id."""

_hit = partial(tuple.__new__, FusedHit)  # FusedHit() itself takes three times as long
_SORT_BELOW = 16


class Scoreboard:
    """The scores of all ids that the rankings hold, and the best of them.

    Args:
        rankings: One ranking an arm, in the order that decides ties.
        top_k: How many of the best are wanted; None for all.
        representative: Chooses the copy shown; None for the first.
        ties: What decides between equal scores: who was seen first in the order of the
            rankings, or the smaller id.

    Attributes:
        rankings: As given; extended through the scoreboard only.
        units: The score of each id, in units.
        touched: Whether the best may have changed since they were last asked for.

    Raises:
        ValueError: The weights are so large that a score may not be finite.
    """

    __slots__ = (
        "_candidates",
        "_ceiling",
        "_patience",
        "_representative",
        "_threshold",
        "_ties",
        "_top_k",
        "rankings",
        "touched",
        "units",
    )

    def __init__(
        self,
        rankings: Sequence[Ranking],
        *,
        top_k: int | None,
        representative: Representative | None = None,
        ties: Ties = "first-seen",
    ) -> None:
        ceiling = sum([abs(ranking.best) for ranking in rankings])  # noqa: C419 - a list is faster
        if ceiling >= sys.float_info.max * ONE:
            raise ValueError("weights must add up to a finite number")
        self.rankings = rankings
        self.units: dict[Any, int] = {}
        self.touched = False
        self._top_k = top_k
        self._representative = representative
        self._ties = ties
        self._ceiling = score_of(ceiling) or 1.0  # contributions of less than a unit add up to 0
        self._threshold = 0
        self._candidates: set[Any] | None = None  # None: every id is one
        # How many candidates may gather before the best are picked again: often enough that no
        # snapshot finds many, seldom enough that picking costs little for each id added.
        self._patience = math.inf if top_k is None else 4 * top_k + 512

    def extend(self, ranking: Ranking, results: Iterable[Any]) -> None:
        """Add the next results of one of the rankings; constant work a result.

        Raises:
            TypeError: An id is not hashable. Nothing was added.
        """
        new, contributions = ranking.extend(results)
        units = self.units
        candidates = self._candidates
        if not ranking.lists or (ranking.repeats and ranking.items):
            self.touched = True  # by a rank or a copy that a hit shows
        if not ranking.lists:
            return
        if not units:
            units.update(zip(new, contributions, strict=True))
            self.touched = True
        elif candidates is None:
            get = units.get
            for id_, contribution in zip(new, contributions, strict=True):
                units[id_] = get(id_, 0) + contribution
            self.touched = True
        else:
            get = units.get
            threshold = self._threshold
            for id_, contribution in zip(new, contributions, strict=True):
                units[id_] = total = get(id_, 0) + contribution
                if total >= threshold:
                    candidates.add(id_)
                    self.touched = True
        if len(units if candidates is None else candidates) > self._patience:
            self._best()

    def hits(self) -> list[FusedHit]:
        """Return the best, each with what explains it; from then on nothing is `touched`."""
        best = self._best()
        explained: list[dict[str, int]] = [{} for _ in best]
        for ranking in self.rankings:
            name = ranking.name
            for ranks, rank in zip(explained, map(ranking.ranks.get, best), strict=True):
                if rank:
                    ranks[name] = rank
        shown = best if {*map(type, best)} <= {str} else self._as_first_given(best)
        scores = scores_of([self.units[id_] for id_ in best])
        ceiling = self._ceiling
        normalized = [score / ceiling for score in scores]
        items = self._items(best)
        copies = map(self._copy, best, items)
        none = repeat(None)
        self.touched = False
        return [
            *map(
                _hit,
                zip(shown, count(1), scores, normalized, copies, items, explained, none, none, none),
            )
        ]

    def _best(self) -> list[Any]:
        """Return the ids of the best, in order, and make them the candidates."""
        units = self.units
        top_k = self._top_k
        pool: Collection[Any] = units if self._candidates is None else self._candidates
        if top_k is not None and len(pool) > _SORT_BELOW * top_k:
            threshold = tie_floor(nlargest(top_k, map(units.__getitem__, pool))[-1])
            pool = [id_ for id_ in pool if units[id_] >= threshold]
        best = sorted(pool, key=units.__getitem__, reverse=True)
        end = len(best) if top_k is None else top_k
        if len(best) > end:
            self._threshold = threshold = tie_floor(units[best[end - 1]])
            tied = end
            while tied < len(best) and units[best[tied]] >= threshold:
                tied += 1
            del best[tied:]
        if len({*map(sort_key, map(units.__getitem__, best))}) < len(best):
            self._break_ties(best)
        if len(units) > end:
            # A tie that is lost can only be won by a further contribution: then the id comes back.
            del best[end:]
            self._candidates = {*best}
        return best

    def _break_ties(self, best: list[Any]) -> None:
        if self._ties == "first-seen":
            best.sort(key=self._by_first_seen)
            return
        try:
            best.sort(key=lambda id_: (-sort_key(self.units[id_]), id_))
        except TypeError as error:
            raise TypeError(f"ties='id' wants ids that can be compared: {error}") from error

    def _by_first_seen(self, id_: Any) -> tuple[int, int, int]:
        for index, ranking in enumerate(self.rankings):
            if ranking.lists and id_ in ranking.ranks:
                return -sort_key(self.units[id_]), index, ranking.ranks[id_]
        raise KeyError(id_)

    def _as_first_given(self, best: list[Any]) -> list[Any]:
        """Return the ids as the first-declared arm gave them: 1 and True are equal, but not the same."""
        shown = best
        for ranking in reversed(self.rankings):
            ranks = map(ranking.ranks.get, best)
            shown = [ranking.ids[rank - 1] if rank else id_ for id_, rank in zip(shown, ranks, strict=True)]
        return shown

    def _items(self, best: list[Any]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = [{} for _ in best]
        for ranking in self.rankings:
            if ranking.items:
                for id_, copies in zip(best, items, strict=True):
                    if id_ in ranking.items:
                        copies[ranking.name] = ranking.items[id_]
        return items

    def _copy(self, id_: Any, items: dict[str, Any]) -> Any:
        if not items:
            return None
        if self._representative is None:
            return next(iter(items.values()))
        return self._representative(
            [copy for ranking in self.rankings for copy in ranking.copies.get(id_, ())]
        )
