"""How one integer holds a document's score and its rank in every arm.

A *tally* ::

    | score in units of 2**-96 | rank in the last arm | ... | rank in the first arm |

What one rank of one arm adds to a tally is tabulated, so that taking a result is
one look-up and one addition, in any order. A document is met at most once in each
arm, so no field overflows into the next: it has the bits that the window of its
arm needs. Tallies compare as scores do, but for ties.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from rrf_stream._kernels import KEY_HALF, KEY_SHIFT, ONE, Kernel, contributions

__all__ = ["ArmSpec", "Layout", "Ranks", "layout_of"]

_UNLIMITED_BITS = 32
_LARGEST_TABLE = 2048
_LARGEST = int(sys.float_info.max) * ONE


class ArmSpec(NamedTuple):
    """What the layout of a tally must know of an arm.

    Attributes:
        name: Its name.
        kernel: What a rank is worth.
        weight: A finite number; at least 0 wherever the best are picked before the end.
        window: How many ranks are read at most; None for no limit.
        lists: Whether its documents enter the fused ranking and decide ties.
    """

    name: str
    kernel: Kernel
    weight: float
    window: int | None
    lists: bool


class Layout:
    """Where a tally holds what, for the arms of one fusion; never changed, and shared by fusions.

    Attributes:
        specs: What to know of each arm, in the order that decides ties.
        fields: Name, lowest bit and shifted mask of the rank in each arm.
        low: The lowest bit of the score.
        ranks_only: The bits of all ranks.
        listing: The bits of the ranks in arms that list documents.
        lists: Whether each arm lists documents.
        half: What to add to a tally to round its score, before it is shifted.
        shift: How far to shift a rounded tally to get its sort key.
        ceiling: The highest score that all arms together can give.

    Raises:
        ValueError: The weights are so large that a score may not be finite.
    """

    __slots__ = (
        "_tables",
        "ceiling",
        "fields",
        "half",
        "listing",
        "lists",
        "low",
        "ranks_only",
        "shift",
        "specs",
    )

    def __init__(self, specs: tuple[ArmSpec, ...]) -> None:
        fields = []
        shift = 0
        for spec in specs:
            bits = _UNLIMITED_BITS if spec.window is None else spec.window.bit_length()
            fields.append((spec.name, shift, (1 << bits) - 1))
            shift += bits
        self.specs = specs
        self.fields = tuple(fields)
        self.low = shift
        self.ranks_only = (1 << shift) - 1
        self.lists = tuple(spec.lists for spec in specs)
        self.listing = sum(
            mask << at for (_, at, mask), lists in zip(fields, self.lists, strict=True) if lists
        )
        self.half = KEY_HALF << shift
        self.shift = KEY_SHIFT + shift
        self._tables = tuple(
            tuple(self._additions(index, 1, min(spec.window or _LARGEST_TABLE, _LARGEST_TABLE)))
            for index, spec in enumerate(specs)
        )
        ceiling = sum(abs(table[0] >> shift) for table in self._tables)
        if ceiling > _LARGEST:
            raise ValueError("weights must add up to a finite number")
        self.ceiling = ceiling / ONE or 1.0  # contributions of less than a unit add up to 0

    def additions(self, arm: int, first: int, last: int) -> tuple[int, ...] | list[int]:
        """Return what each of some consecutive ranks of an arm adds to a tally."""
        table = self._tables[arm]
        return table[first - 1 : last] if last <= len(table) else self._additions(arm, first, last)

    def _additions(self, arm: int, first: int, last: int) -> list[int]:
        spec = self.specs[arm]
        _, shift, _ = self.fields[arm]
        ranks = range(first, last + 1)
        units = contributions(spec.kernel, spec.weight, ranks)
        low = self.low
        return [(one << low) + (rank << shift) for one, rank in zip(units, ranks, strict=True)]

    def tie_floor(self, tally: int) -> int:
        """Return the least tally with the same sort key."""
        return (tally + self.half >> self.shift << self.shift) - self.half

    def sort_key(self, tally: int) -> int:
        """Return the score in units of 2**-64, rounded: what scores are compared by."""
        return tally + self.half >> self.shift

    def first_listed(self, tally: int) -> tuple[int, int]:
        """Return the first arm, from 0, that listed the document, and its rank there: what decides ties."""
        tally &= self.listing
        for index, (_, shift, mask) in enumerate(self.fields):
            rank = tally >> shift & mask
            if rank:
                return index, rank
        raise ValueError("tally must be that of a document that an arm listed")


layout_of = lru_cache(maxsize=16)(Layout)


class Ranks(Mapping[str, int]):
    """The ranks of one document by arm, in the order of the arms: a read-only view of its tally."""

    __slots__ = ("_layout", "_tally")

    def __init__(self, layout: Layout, tally: int) -> None:
        self._layout = layout
        self._tally = tally

    def __getitem__(self, arm: str) -> int:
        """Return the rank in an arm; KeyError if the arm did not rank the document."""
        for name, shift, mask in self._layout.fields:
            if name == arm:
                rank = self._tally >> shift & mask
                if rank:
                    return rank
        raise KeyError(arm)

    def __iter__(self) -> Iterator[str]:
        """Return the names of the arms that ranked the document, in order."""
        return (name for name, shift, mask in self._layout.fields if self._tally >> shift & mask)

    def __len__(self) -> int:
        """Return the number of arms that ranked the document."""
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        """Return whether another mapping holds the same ranks."""
        if isinstance(other, Ranks) and other._layout is self._layout:
            return not (self._tally ^ other._tally) & self._layout.ranks_only
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as for other mappings

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type[dict[str, int]], tuple[dict[str, int]]]:
        return dict, (dict(self),)
