"""What one arm has delivered: ids by rank, ranks by id, and the copies that came along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Literal, TypeAlias

from rrf_stream._hit import Key, identify
from rrf_stream._kernels import Kernel, tabulate

__all__ = ["Ranking", "Repeats"]

Repeats: TypeAlias = Literal["consume", "skip"]


class Ranking:
    """The results of one arm so far. Grows by pages of any size, never past its window.

    Args:
        name: The name of the arm.
        weight: A finite number; at least 0 wherever a threshold is kept.
        kernel: What a rank is worth.
        window: How many ranks are read at most; None for no limit.
        skip_repeats: Whether a repeat leaves its rank to the next id.
        lists: Whether its ids enter the fused ranking and decide ties; None for those of an arm
            of some weight.
        keep_copies: Whether to keep every copy of an id, repeats included, beside the first.
        key: Gives the id of a result that is not a `Hit`; None if results are ids.

    Attributes:
        ids: The ids delivered, by rank from 1; with `skip_repeats` without the repeats.
        ranks: The rank of each id, that of its first occurrence.
        items: The first copy of each id that came with one.
        copies: All copies of each id that came with one, if they are kept.
        received: Results taken, repeats included.
        repeats: Whether there were any.
    """

    __slots__ = (
        "_keep_copies",
        "_kernel",
        "_key",
        "_skip_repeats",
        "_table",
        "copies",
        "ids",
        "items",
        "lists",
        "name",
        "ranks",
        "received",
        "repeats",
        "weight",
        "window",
    )

    def __init__(
        self,
        name: str,
        weight: float,
        kernel: Kernel,
        *,
        window: int | None = None,
        skip_repeats: bool = False,
        lists: bool | None = None,
        keep_copies: bool = False,
        key: Key | None = None,
    ) -> None:
        self.name = name
        self.weight = weight
        self.window = window
        self.lists = weight > 0 if lists is None else lists
        self.ids: list[Any] = []
        self.ranks: dict[Any, int] = {}
        self.items: dict[Any, Any] = {}
        self.copies: dict[Any, list[Any]] = {}
        self.received = 0
        self.repeats = False
        self._kernel = kernel
        self._table = tabulate(kernel, weight, window or 0)
        self._skip_repeats = skip_repeats
        self._keep_copies = keep_copies
        self._key = key

    @property
    def is_full(self) -> bool:
        """Whether the window is used up."""
        return self.window is not None and len(self.ids) >= self.window

    @property
    def best(self) -> int:
        """The contribution of rank 1, in units."""
        return self._table[0]

    def extend(self, results: Iterable[Any]) -> tuple[Iterable[Any], Sequence[int]]:
        """Take the next results, up to the window; return the new ids and their contributions.

        Raises:
            TypeError: An id is not hashable. Nothing was taken.
        """
        ids = list(results)
        items: list[Any] | None = None
        used = len(self.ids)
        fresh = _ranked(ids, used + 1) if self._key is None else None
        if fresh is None:  # some are more than ids: a Hit is not hashable
            ids, items = identify(ids, self._key, self.name)
            fresh = _ranked(ids, used + 1)
            if fresh is None:
                raise TypeError(f"id must be hashable, in arm {self.name!r}; with key it can be")
        end = used + len(ids)
        new: Iterable[Any] = ids
        if (
            len(fresh) < len(ids)
            or (self.window is not None and end > self.window)
            or (used and not self.ranks.keys().isdisjoint(fresh))
        ):
            ids, fresh = self._sift(ids)
            new = fresh
            self.repeats = self.repeats or len(fresh) < len(ids)
            end = used + (len(fresh) if self._skip_repeats else len(ids))
        if end > len(self._table):
            self._table = tabulate(self._kernel, self.weight, end)
        self.received += len(ids)
        if used:
            self.ids += new if self._skip_repeats else ids
            self.ranks.update(fresh)
        else:
            self.ids = list(new) if self._skip_repeats else ids
            self.ranks = fresh
        if items is not None:
            self._keep(ids, items)
        if new is ids or self._skip_repeats:
            return new, self._table[used:end]
        return new, [self._table[rank - 1] for rank in fresh.values()]

    def _sift(self, ids: list[Any]) -> tuple[list[Any], dict[Any, int]]:
        """Return the ids that fit into the window, and the ranks of the new ones among them."""
        last = len(self.ids) + len(ids) if self.window is None else self.window
        rank = len(self.ids)
        fresh: dict[Any, int] = {}
        for taken, id_ in enumerate(ids):
            if rank == last:
                return ids[:taken], fresh
            if id_ not in self.ranks and id_ not in fresh:
                rank += 1
                fresh[id_] = rank
            elif not self._skip_repeats:
                rank += 1
        return ids, fresh

    def _keep(self, ids: Iterable[Any], items: Iterable[Any]) -> None:
        for id_, item in zip(ids, items, strict=False):  # items may go on past the window
            if item is not None:
                self.items.setdefault(id_, item)
                if self._keep_copies:
                    self.copies.setdefault(id_, []).append(item)


def _ranked(ids: list[Any], first: int) -> dict[Any, int] | None:
    """Return ids with consecutive ranks, the last one for a repeat; None if an id is not hashable."""
    try:
        return dict(zip(ids, count(first)))
    except TypeError:
        return None
