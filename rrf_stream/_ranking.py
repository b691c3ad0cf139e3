"""What one arm has delivered: its ids by rank, and the copies that came along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from rrf_stream._hit import Key, identify

__all__ = ["Ranking", "Repeats"]

Repeats: TypeAlias = Literal["consume", "skip"]
Worth: TypeAlias = Callable[[int, int], Sequence[int]]


class Ranking:
    """The results of one arm so far. Grows by pages of any size, never past its window.

    Args:
        name: The name of the arm.
        worth: Gives what each of some consecutive ranks is worth, from its first and last. If it
            raises, nothing is taken.
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
        "_keep_copies",
        "_key",
        "_seen",
        "_skip_repeats",
        "_worth",
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
        worth: Worth,
        *,
        window: int | None = None,
        skip_repeats: bool = False,
        keep_copies: bool = False,
        key: Key | None = None,
    ) -> None:
        self.name = name
        self._worth = worth
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

    def extend(self, results: Iterable[Any]) -> tuple[Sequence[Any], Sequence[int]]:
        """Take the next results, up to the window; return the new ids and what they are worth.

        Raises:
            TypeError: The results are no iterable, or an id is not hashable. Nothing was taken.
        """
        ids = results.copy() if type(results) is list else self._listed(results)
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
        worths = self._worth(used + 1, end)
        self.received += len(ids)
        if used:
            self.ids += ids
            self._seen |= distinct
        else:
            self.ids, self._seen = ids, distinct
        if items is not None:
            self._keep(ids, items)
        return ids, worths

    def _extend_sifted(self, ids: list[Any], items: list[Any] | None) -> tuple[Sequence[Any], Sequence[int]]:
        """Do the same for results that go past the window, or have repeats in them."""
        used = len(self.ids)
        ids, ranks = self._sift(ids)
        new = [*ranks]
        order = new if self._skip_repeats else ids
        worths = self._worth(used + 1, used + len(order))
        self.repeats = self.repeats or len(new) < len(ids)
        self.received += len(ids)
        self.ids += order
        self._seen.update(new)
        if items is not None:
            self._keep(ids, items)
        return new, [worths[rank - used - 1] for rank in ranks.values()]

    def _listed(self, results: Iterable[Any]) -> list[Any]:
        if isinstance(results, (str, bytes)) or not hasattr(results, "__iter__"):
            raise TypeError(
                f"hits of arm {self.name!r} must be an iterable of results, not {results!r}; "
                "for one result give a list of it"
            )
        return list(results)

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
