"""What one arm has delivered: its ids by rank, and the copies that came along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Literal, TypeAlias

from rrf_stream._checks import check_iterable
from rrf_stream._hit import Key, identify
from rrf_stream._tally import Layout

__all__ = ["Ranking", "Repeats"]

Repeats: TypeAlias = Literal["consume", "skip"]


class Ranking:
    """The results of one arm so far. Grows by pages of any size, never past its window.

    Args:
        name: The name of the arm.
        layout: Knows what a rank adds to a tally. If it raises, nothing is taken.
        arm: Which arm of the layout it is, from 0.
        window: How many ranks are read at most; None for no limit.
        skip_repeats: Whether a repeat leaves its rank to the next id.
        keep_copies: Whether to keep every copy of an id, repeats included, beside the first.
        key: Gives the id of a result that is not a `Hit`; None if results are ids.

    Attributes:
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
        name: str,
        layout: Layout,
        arm: int,
        *,
        window: int | None = None,
        skip_repeats: bool = False,
        keep_copies: bool = False,
        key: Key | None = None,
    ) -> None:
        self.name = name
        self._layout = layout
        self._arm = arm
        self.window = window
        self.ids: list[Any] = []
        self.items: dict[Any, Any] = {}
        self.copies: dict[Any, list[Any]] = {}
        self.received = 0
        self.repeats = False
        self._seen: set[Any] = set()
        self._skip_repeats = skip_repeats
        self._keep_copies = keep_copies
        self._key = key

    @property
    def is_full(self) -> bool:
        """Whether the window is used up."""
        return self.window is not None and len(self.ids) >= self.window

    @property
    def _room(self) -> int | None:
        """How many results can still count at most; None for no limit that is known before they are read."""
        return None if self.window is None or self._skip_repeats else self.window - len(self.ids)

    def extend(self, results: Iterable[Any]) -> tuple[Sequence[Any], Sequence[int]]:
        """Take the next results, up to the window; return the new ids and what to add to their tallies.

        Raises:
            TypeError: The results are no iterable, or an id is not hashable. Nothing was taken.
        """
        if isinstance(results, list):
            ids = results.copy()
        else:
            check_iterable(f"hits of arm {self.name!r}", results, "results in rank order")
            ids = [*islice(results, self._room)]
        items: list[Any] | None = None
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
            len(distinct) < len(ids)
            or (window is not None and end > window)
            or (used and not self._seen.isdisjoint(distinct))
        ):
            return self._extend_sifted(ids, items)
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

    def _extend_sifted(self, ids: list[Any], items: list[Any] | None) -> tuple[Sequence[Any], Sequence[int]]:
        """Do the same for results that go past the window, or have repeats in them."""
        used = len(self.ids)
        ids, ranks = self._sift(ids)
        new = [*ranks]
        order = new if self._skip_repeats else ids
        additions = self._layout.additions(self._arm, used + 1, used + len(order))
        self.repeats = self.repeats or len(new) < len(ids)
        self.received += len(ids)
        self.ids += order
        self._seen.update(new)
        if items is not None:
            self._keep(ids, items)
        return new, [additions[rank - used - 1] for rank in ranks.values()]

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


def _distinct(ids: list[Any]) -> set[Any] | None:
    """Return the distinct ids; None if one is not hashable."""
    try:
        return set(ids)
    except TypeError:
        return None
