"""What one arm has delivered: its ids by rank, and the copies that came along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeAlias

from rrf_stream._checks import check_iterable
from rrf_stream._hit import Hit, Key, identify, scores_in
from rrf_stream._scores import Scores
from rrf_stream._tally import Layout

__all__ = ["Ranking", "Repeats"]

Repeats: TypeAlias = Literal["consume", "skip"]


class Ranking:
    """The results of one arm so far. Grows by pages of any size, never past its window.

    Args:
        layout: Knows the arm, and what a rank adds to a tally. If it raises, nothing is taken.
        arm: Which arm of the layout it is, from 0.
        skip_repeats: Whether a repeat leaves its rank to the next id.
        keep_copies: Whether to keep every copy of an id, repeats included, beside the first.
        key: Gives the id of a result that is not a `Hit`; None if results are ids.

    Attributes:
        name: The name of the arm.
        window: How many ranks are read at most; None for no limit.
        ids: The ids delivered, by rank from 1; with `skip_repeats` without the repeats.
        items: The first copy of each id that came with one.
        copies: All copies of each id that came with one, if they are kept.
        received: Results taken, repeats included.
        repeats: Whether there were any.
    """

    __slots__ = (
        "_arm",
        "_keep_copies",
        "_key",
        "_layout",
        "_scores",
        "_seen",
        "_skip_repeats",
        "copies",
        "ids",
        "items",
        "name",
        "received",
        "repeats",
        "window",
    )

    def __init__(
        self,
        layout: Layout,
        arm: int,
        *,
        skip_repeats: bool = False,
        keep_copies: bool = False,
        key: Key | None = None,
    ) -> None:
        spec = layout.specs[arm]
        kernel = layout.score_kernels[arm]
        self.name = spec.name
        self.window = spec.window
        self._layout = layout
        self._arm = arm
        self.ids: list[Any] = []
        self.items: dict[Any, Any] = {}
        self.copies: dict[Any, list[Any]] = {}
        self.received = 0
        self.repeats = False
        self._scores = None if kernel is None else Scores(spec.name, kernel, spec.weight)
        self._seen: set[Any] = set()
        self._skip_repeats = skip_repeats
        self._keep_copies = keep_copies
        self._key = key

    @property
    def is_full(self) -> bool:
        """Whether the window is used up."""
        return self.window is not None and len(self.ids) >= self.window

    def ceiling(self) -> int:
        """Return the most that the next new id can gain here, in units of 2**-96; constant time."""
        return self.next_addition() >> self._layout.low

    def next_addition(self) -> int:
        """Return the most that the next new id can add to its tally here, 0 if none fits; constant time."""
        if self.is_full:
            return 0
        addition = self._layout.addition(self._arm, len(self.ids) + 1)
        return addition if self._scores is None else addition + (self._scores.ceiling << self._layout.low)

    def past(self) -> Callable[[], Iterable[tuple[Any, int]]]:
        """Return what gives, at any later time, the ids delivered now and what their ranks add to a tally.

        It keeps no copies of documents. Of equal ids the first counts.
        """
        return partial(_past, self.ids, len(self.ids), self._layout, self._arm, self._scores)

    def results(self) -> list[Any]:
        """Return the ids delivered; if the kernel goes by scores, hits with these, for `fuse`."""
        return self.ids.copy() if self._scores is None else [*map(Hit, self.ids, self._scores.given)]

    @property
    def _room(self) -> int | None:
        """How many results can still count at most; None for no limit that is known before they are read."""
        return None if self.window is None or self._skip_repeats else self.window - len(self.ids)

    def extend(self, results: Iterable[Any]) -> tuple[Sequence[Any], Sequence[int]]:
        """Take the next results, up to the window; return the new ids and what to add to their tallies.

        Raises:
            TypeError: The results are no iterable, an id is not hashable, or there is no score
                where the kernel goes by scores. Nothing was taken.
            ValueError: The kernel goes by scores, and one is infinite, not a number, or higher
                than the one before. Nothing was taken.
        """
        if isinstance(results, list):
            ids = results.copy()
        else:
            check_iterable(f"hits of arm {self.name!r}", results, "results in rank order")
            ids = [*islice(results, self._room)]
        items: list[Any] | None = None
        known = self._scores
        scores = [] if known is None else scores_in(ids)
        distinct = _distinct(ids) if self._key is None else None
        if distinct is None:  # some are more than ids: a Hit is not hashable
            ids, items = identify(ids, self._key, self.name)
            distinct = _distinct(ids)
            if distinct is None:
                raise TypeError(f"id must be hashable, in arm {self.name!r}; with key it can be")
        used = len(self.ids)
        end = used + len(ids)
        window = self.window
        if (
            known is not None
            or len(distinct) < len(ids)
            or (window is not None and end > window)
            or (used and not self._seen.isdisjoint(distinct))
        ):
            return self._extend_sifted(ids, items, scores)
        additions = self._layout.additions(self._arm, used + 1, end)
        self.received += len(ids)
        if used:
            self.ids += ids
            self._seen |= distinct
        else:
            self.ids, self._seen = ids, distinct
        if items is not None:
            self._keep(ids, items)
        return ids, additions

    def _extend_sifted(
        self, ids: list[Any], items: list[Any] | None, scores: list[Any]
    ) -> tuple[Sequence[Any], Sequence[int]]:
        """Do the same for results that go past the window, have repeats in them, or go by scores."""
        used = len(self.ids)
        ids, ranks = self._sift(ids)
        new = [*ranks]
        order = new if self._skip_repeats else ids
        additions = self._layout.additions(self._arm, used + 1, used + len(order))
        gains = [additions[rank - used - 1] for rank in ranks.values()]
        if self._scores is not None:
            del scores[len(ids) :]
            # A score has its place among all results read: with "skip" a repeat has no rank.
            place = "result" if self._skip_repeats else "rank"
            units = self._scores.extend(scores, place, self.received + 1)
            worth = dict(zip(reversed(ids), reversed(units), strict=True))  # of the first of equal ids
            gains = [gain + (worth[id_] << self._layout.low) for gain, id_ in zip(gains, new, strict=True)]
            if self._skip_repeats:
                first = dict(zip(reversed(ids), reversed(scores), strict=True))
                scores = [first[id_] for id_ in new]
            self._scores.given += scores
        self.repeats = self.repeats or len(new) < len(ids)
        self.received += len(ids)
        self.ids += order
        self._seen.update(new)
        if items is not None:
            self._keep(ids, items)
        return new, gains

    def _sift(self, ids: list[Any]) -> tuple[list[Any], dict[Any, int]]:
        """Return the ids that fit into the window, and the ranks of the new ones among them."""
        rank = len(self.ids)
        last = rank + len(ids) if self.window is None else self.window
        by_id: dict[Any, int] = {}
        for taken, id_ in enumerate(ids):
            if rank == last:
                return ids[:taken], by_id
            new = id_ not in self._seen and id_ not in by_id
            rank += new or not self._skip_repeats
            if new:
                by_id[id_] = rank
        return ids, by_id

    def _keep(self, ids: Iterable[Any], items: Iterable[Any]) -> None:
        for id_, item in zip(ids, items, strict=False):  # items may go on past the window
            if item is not None:
                self.items.setdefault(id_, item)
                if self._keep_copies:
                    self.copies.setdefault(id_, []).append(item)


def _past(
    ids: list[Any], taken: int, layout: Layout, arm: int, scores: Scores | None
) -> Iterable[tuple[Any, int]]:
    additions = layout.additions(arm, 1, taken)
    if scores is not None:
        worth = scores.worth(taken)
        additions = [one + (units << layout.low) for one, units in zip(additions, worth, strict=True)]
    return zip(ids, additions, strict=False)  # there may be more ids by then


def _distinct(ids: list[Any]) -> set[Any] | None:
    """Return the distinct ids; None if one is not hashable."""
    try:
        return set(ids)
    except TypeError:
        return None
