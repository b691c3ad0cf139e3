"""The incremental core: the tally of every document, and the best at any time.

There is no object per document: an id is a key of one dictionary, and its tally,
one integer, is all that is known of it.

What keeps a snapshot cheap: scores only grow, so an id outside the top-k can
enter it only through its own next contribution. The scoreboard therefore keeps
the k-th best tally it last saw, and the few *candidates* that reach it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import nlargest
from itertools import repeat
from operator import sub
from typing import Any, Literal, TypeAlias

from rrf_stream._kernels import scores_of
from rrf_stream._ranking import Ranking
from rrf_stream._snapshot import FusedHit
from rrf_stream._tally import Layout, Ranks

__all__ = ["Representative", "Scoreboard", "Ties"]

Ties: TypeAlias = Literal["first-seen", "id"]
Representative: TypeAlias = Callable[[list[Any]], Any]
"""Chooses the copy shown from all copies of an id."""

_new = tuple.__new__  # FusedHit() itself takes three times as long
_SORT_BELOW = 16


class Scoreboard:
    """The scores of all ids that the rankings hold, and the best of them.

    Args:
        layout: Where a tally holds what.
        rankings: One empty ranking an arm.
        top_k: How many of the best are wanted; None for all.
        representative: Chooses the copy shown; None for the first.
        ties: What decides between equal scores: who was seen first in the order of the
            rankings, or the smaller id.
        bounded: Whether the hits have an upper score: their own, as if nothing could gain any more.

    Attributes:
        shown: The tallies of the hits that were returned last, in order.
        tallies: The tally of every id seen.
        touched: Whether the best may have changed since they were last asked for.
    """

    __slots__ = (
        "_bounded",
        "_by_id",
        "_candidates",
        "_copies_change",
        "_furthest",
        "_hits",
        "_layout",
        "_most_candidates",
        "_rankings",
        "_representative",
        "_threshold",
        "_top_k",
        "shown",
        "tallies",
        "touched",
    )

    def __init__(
        self,
        layout: Layout,
        rankings: Sequence[Ranking],
        *,
        top_k: int | None,
        representative: Representative | None = None,
        ties: Ties = "first-seen",
        bounded: bool = False,
    ) -> None:
        self._layout = layout
        self._rankings = rankings
        self.tallies: dict[Any, int] = {}
        self._candidates: set[Any] | None = None  # None: every id is one
        self._threshold = 0
        # How many candidates may gather before the best are picked again: often enough that no
        # snapshot finds many, seldom enough that picking costs little for each id added.
        self._most_candidates = math.inf if top_k is None else 4 * top_k + 512
        self._hits: list[FusedHit] = []
        self.shown: list[int] = []
        self._copies_change = False  # whether a repeat may bring another copy of a document
        self._furthest: float = 0  # the last arm that delivered, while arms deliver in their order
        self._top_k = top_k
        self._representative = representative
        self._by_id = ties == "id"
        self._bounded = bounded
        self.touched = False

    def __len__(self) -> int:
        """Return the number of ids seen."""
        return len(self.tallies)

    def extend(self, arm: int, results: Iterable[Any]) -> None:
        """Add the next results of an arm; constant work a result.

        Args:
            arm: Which arm, from 0.
            results: The results, best first.

        Raises:
            TypeError: The results are no iterable, or an id is not hashable. Nothing was added.
        """
        ranking = self._rankings[arm]
        ids, additions = ranking.extend(results)
        self._furthest = arm if arm >= self._furthest else math.inf
        tallies = self.tallies
        candidates = self._candidates
        if candidates is None:
            self.touched = True
            if tallies:
                get = tallies.get
                for id_, addition in zip(ids, additions, strict=True):
                    tallies[id_] = get(id_, 0) + addition
            else:
                self.tallies = tallies = dict(zip(ids, additions, strict=True))
            gathered = len(tallies)
        else:
            get = tallies.get
            threshold = self._threshold
            for id_, addition in zip(ids, additions, strict=True):
                tallies[id_] = tally = get(id_, 0) + addition
                if tally >= threshold:
                    candidates.add(id_)
                    self.touched = True
            gathered = len(candidates)
        if ranking.repeats and ranking.items:
            self.touched = self._copies_change = True
        if gathered > self._most_candidates:
            self._best()

    def leaders(self) -> list[int]:
        """Return the tallies of the best, in order."""
        return [self.tallies[id_] for id_ in self._best()]

    def hits(self) -> list[FusedHit]:
        """Return the best, each with what explains it; from then on nothing is `touched`.

        A hit is the same object as before if nothing about it has changed.
        """
        # The key of a dictionary is the first of equal ids to arrive; in arm order, that of the first arm.
        in_order = self._furthest < math.inf and self._candidates is None
        best = self._best()
        tallies = [self.tallies[id_] for id_ in best]
        # A tally tells which document it is of: it holds a rank in an arm, and only one document has that.
        known = 0 if self._copies_change else len(self.shown)
        if known:
            changed = [
                rank for rank, tally in enumerate(tallies, 1) if rank > known or tally != self.shown[rank - 1]
            ]
            hits = self._hits.copy()
            ids = [best[rank - 1] for rank in changed]
            for rank, hit in zip(changed, self._explain(changed, ids, in_order=in_order), strict=True):
                hits[rank - 1 : rank] = (hit,)  # one more where the list ends
        else:
            hits = self._explain(range(1, len(best) + 1), best, in_order=in_order)
            for place, (tally, was, hit) in enumerate(zip(self.shown, self._hits, hits, strict=False)):
                if tally == tallies[place] and _same_copies(was, hit):
                    hits[place] = was
        self._hits, self.shown = hits, tallies
        self.touched = False
        return self._hits

    def _explain(self, fused_ranks: Sequence[int], ids: list[Any], *, in_order: bool) -> list[FusedHit]:
        """Return the hits for some ids at some ranks."""
        layout = self._layout
        tallies = [self.tallies[id_] for id_ in ids]
        scores = scores_of(tallies, layout.low)
        ceiling = layout.ceiling
        shown = ids if in_order else self._as_first_given(tallies)
        uppers = scores if self._bounded else repeat(None)
        by_arm, items = self._items(ids)
        rows = zip(shown, fused_ranks, scores, items, by_arm, tallies, uppers, strict=False)
        return [
            _new(
                FusedHit,
                (id_, rank, score, score / ceiling, item, copies, Ranks(layout, tally), upper, None, None),
            )
            for id_, rank, score, item, copies, tally, upper in rows
        ]

    def _best(self) -> list[Any]:
        """Return the ids of the best, in order, and make them the candidates."""
        tallies = self.tallies
        layout = self._layout
        pool: Collection[Any] = tallies if self._candidates is None else self._candidates
        if layout.listing != layout.ranks_only:
            pool = [id_ for id_ in pool if tallies[id_] & layout.listing]
        end = len(pool) if self._top_k is None else self._top_k
        crowded = len(pool) > end
        if len(pool) > _SORT_BELOW * end:
            floor = layout.floor(nlargest(end, map(tallies.__getitem__, pool))[-1])
            pool = [id_ for id_ in pool if tallies[id_] >= floor]
        if not crowded:
            best = [*pool]
            self._sort(best)
            return best
        best = sorted(pool, key=tallies.__getitem__, reverse=True)
        self._threshold = floor = layout.floor(tallies[best[end - 1]])
        tied = end
        while tied < len(best) and tallies[best[tied]] >= floor:
            tied += 1
        del best[tied:]
        values = [tallies[id_] for id_ in best]
        if self._by_id or min(map(sub, values, values[1:]), default=0) < layout.step:
            self._sort(best)  # two may have the same rounded score
        # A tie that is lost can only be won by a further contribution: then the id comes back.
        del best[end:]
        self._candidates = {*best}
        return best

    def _sort(self, ids: list[Any]) -> None:
        """Sort by rounded score, then by what decides ties."""
        tallies = self.tallies
        layout = self._layout
        if not self._by_id:
            half = layout.half
            order = layout.order
            ids.sort(key=lambda id_: tallies[id_] + half & order, reverse=True)
            return
        try:
            ids.sort(key=lambda id_: (-layout.rounded(tallies[id_]), id_))
        except TypeError as error:
            raise TypeError(f"ties='id' wants ids that can be compared: {error}") from error

    def _as_first_given(self, tallies: list[int]) -> list[Any]:
        """Return ids as the first-declared arm gave them: 1 and True are equal, but not the same."""
        rankings = self._rankings
        firsts = map(self._layout.first, tallies)
        return [rankings[arm].ids[rank - 1] for arm, rank in firsts]

    def _items(self, best: list[Any]) -> tuple[list[dict[str, Any]], Iterable[Any]]:
        """Return the copies of each id by arm, and the copy to show."""
        by_arm: list[dict[str, Any]] = [{} for _ in best]
        carriers = [ranking for ranking in self._rankings if ranking.items]
        if not carriers:
            return by_arm, repeat(None, len(best))
        for ranking in carriers:
            for id_, copies in zip(best, by_arm, strict=True):
                if id_ in ranking.items:
                    copies[ranking.name] = ranking.items[id_]
        return by_arm, [self._copy(id_, copies) for id_, copies in zip(best, by_arm, strict=True)]

    def _copy(self, id_: Any, copies: dict[str, Any]) -> Any:
        if not copies:
            return None
        if self._representative is None:
            return next(iter(copies.values()))
        return self._representative(
            [copy for ranking in self._rankings for copy in ranking.copies.get(id_, ())]
        )


def _same_copies(one: FusedHit, other: FusedHit) -> bool:
    """Return whether two hits of one document show the same copies; what these are equal to is not asked."""
    return one.item is other.item and [*map(id, one.items.values())] == [*map(id, other.items.values())]
