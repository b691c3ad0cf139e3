"""How one integer holds a document's score and its rank in every arm.

A *tally* ::

    | score in units of 2**-96 | rank in the first arm | ... | rank in the last arm |

What one rank of one arm adds to a tally is tabulated, so that taking a result is
one look-up and one addition, in any order. (Where a kernel goes by scores, the table
has the ranks only, and what the score is worth is added to it.) A document is met at
most once in each arm, so no field overflows into the next: it has the bits that the
window of its arm needs.

A field holds the distance of the rank from the end of the field's range, and 0
where there is no rank. So the greater of two tallies with one score is that of
the document which was seen first: by the first arm that has either, at the
smaller rank. With the score rounded, tallies compare as the fused order does.
"""

from __future__ import annotations

import sys
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from rrf_stream._kernels import KEY_HALF, KEY_SHIFT, ONE, Kernel, contributions
from rrf_stream._scores import score_kernel

__all__ = ["ArmSpec", "Layout", "Ranks", "arm_spec", "layout_of"]

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


def arm_spec(name: str, kernel: Kernel, weight: float, window: int | None) -> ArmSpec:
    """Return the spec of an arm that lists documents if it has any weight."""
    spec: ArmSpec = _spec((str.__str__(name), kernel, weight, window, weight > 0))
    return spec


_spec = partial(tuple.__new__, ArmSpec)  # ArmSpec() itself takes three times as long


class Layout:
    """Where a tally holds what, for the arms of one fusion; says always the same, and is shared by fusions.

    Attributes:
        specs: What to know of each arm, in the order that decides ties.
        low: The lowest bit of the score.
        ranks_only: The bits of all ranks.
        listing: The bits of the ranks in arms that list documents.
        heads: The highest bit of each arm's field, as a number that has this bit alone.
        half: What to add to a tally so that its score is rounded, not cut, to units of 2**-64.
        order: The bits of a rounded tally that documents are ordered by: its score, and who was
            seen first. The greater, the better, and no two are equal.
        step: The difference of tallies from which on their rounded scores differ.
        ceiling: The highest score that all arms together can give.
        score_kernels: The kernel of each arm that goes by scores, None for those that go by ranks.

    Raises:
        ValueError: The weights are so large that a score may not be finite.
    """

    __slots__ = (
        "_arm_of_bits",
        "_blocks",
        "_fields",
        "_shift",
        "_tables",
        "ceiling",
        "half",
        "heads",
        "listing",
        "low",
        "order",
        "ranks_only",
        "score_kernels",
        "specs",
        "step",
    )

    def __init__(self, specs: tuple[ArmSpec, ...]) -> None:
        self.specs = specs
        self.score_kernels = tuple([score_kernel(spec.kernel) for spec in specs])
        widths = [_UNLIMITED_BITS if spec.window is None else spec.window.bit_length() for spec in specs]
        self.low = low = sum(widths)
        self.ranks_only = (1 << low) - 1
        self.listing = 0
        self._fields: list[tuple[str, int, int]] = []  # name, lowest bit, and one more than the highest value
        self._arm_of_bits: list[int] = [0]  # the arm that has the highest of so many bits
        shift = low
        for spec, bits in zip(specs, widths, strict=True):
            shift -= bits
            self._fields.append((spec.name, shift, 1 << bits))
            self.listing |= ((1 << bits) - 1) << shift if spec.lists else 0
        for arm, bits in reversed([*enumerate(widths)]):
            self._arm_of_bits += [arm] * bits
        self.heads = tuple([top >> 1 << shift for _, shift, top in self._fields])
        self.half = KEY_HALF << low
        self._shift = KEY_SHIFT + low
        self.step = 1 << self._shift
        self.order = self.listing | -1 << self._shift
        self._tables = tuple(
            tuple(self._additions(arm, 1, min(spec.window or _LARGEST_TABLE, _LARGEST_TABLE)))
            for arm, spec in enumerate(specs)
        )
        self._blocks: list[tuple[int, Sequence[int]]] = [(0, ())] * len(specs)  # beyond the tables
        tops = [contributions(spec.kernel, spec.weight, range(1, 2))[0] for spec in specs]
        ceiling = sum(map(abs, tops))
        if ceiling > _LARGEST:
            raise ValueError("weights must add up to a finite number")
        self.ceiling = ceiling / ONE or 1.0  # contributions of less than a unit add up to 0

    def additions(self, arm: int, first: int, last: int) -> Sequence[int]:
        """Return what each of some consecutive ranks of an arm adds to a tally, scores not counted."""
        table = self._tables[arm]
        if last <= len(table):
            return table[first - 1 : last]
        start, block = self._blocks[arm]
        if not (start <= first and last < start + len(block)):
            start = first  # an arm goes on from here, so most of a block will be wanted
            _, _, top = self._fields[arm]
            block = self._additions(arm, first, min(max(last, first + _LARGEST_TABLE), top - 1))
            self._blocks[arm] = start, block
        return block[first - start : last + 1 - start]

    def addition(self, arm: int, rank: int) -> int:
        """Return the same for one rank that may never be read: tabulates nothing."""
        table = self._tables[arm]
        if rank <= len(table):
            return table[rank - 1]
        start, block = self._blocks[arm]
        if start <= rank < start + len(block):
            return block[rank - start]
        return self._additions(arm, rank, rank)[0]

    def _additions(self, arm: int, first: int, last: int) -> list[int]:
        spec = self.specs[arm]
        _, shift, top = self._fields[arm]
        if self.score_kernels[arm] is not None:
            return [top - rank << shift for rank in range(first, last + 1)]
        ranks = range(max(first - 1, 1), last + 1)  # with the rank before, as contributions must not rise
        units = contributions(spec.kernel, spec.weight, ranks)
        additions = [
            (one << self.low) + (top - rank << shift) for one, rank in zip(units, ranks, strict=True)
        ]
        return additions[first - ranks.start :]

    def rounded(self, tally: int) -> int:
        """Return the score alone, in units of 2**-64."""
        return tally + self.half >> self._shift

    def floor(self, tally: int) -> int:
        """Return the least tally with the same rounded score."""
        return (self.rounded(tally) << self._shift) - self.half

    def ranks(self, tally: int) -> dict[str, int]:
        """Return the ranks of a document by arm, in the order of the arms."""
        ranks = {}
        fields = tally & self.ranks_only
        for name, shift, top in self._fields:
            field = fields >> shift & top - 1
            if field:
                ranks[name] = top - field
        return ranks

    def first(self, tally: int) -> tuple[int, int]:
        """Return the first arm, from 0, that ranked the document, and its rank there."""
        fields = tally & self.ranks_only
        arm = self._arm_of_bits[fields.bit_length()]
        _, shift, top = self._fields[arm]
        return arm, top - (fields >> shift)


layout_of = lru_cache(maxsize=16)(Layout)


class Ranks(Mapping[str, int]):
    """The ranks of one document by arm, in the order of the arms: a read-only view of its tally.

    Read off the tally when first asked for, as most hits are never asked.
    """

    __slots__ = ("_layout", "_read", "_tally")

    def __init__(self, layout: Layout, tally: int) -> None:
        self._layout = layout
        self._tally = tally
        self._read: dict[str, int] | None = None

    def _ranks(self) -> dict[str, int]:
        if self._read is None:
            self._read = self._layout.ranks(self._tally)
        return self._read

    def __getitem__(self, arm: str) -> int:
        """Return the rank in an arm; KeyError if the arm did not rank the document."""
        return (self._read or self._ranks())[arm]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the arms that ranked the document, in order."""
        return iter(self._ranks())

    def __len__(self) -> int:
        """Return the number of arms that ranked the document."""
        return len(self._ranks())

    def keys(self) -> KeysView[str]:
        """Return the names of the arms that ranked the document, in order."""
        return self._ranks().keys()

    def items(self) -> ItemsView[str, int]:
        """Return the names of the arms and the ranks there, in order."""
        return self._ranks().items()

    def __eq__(self, other: object) -> bool:
        """Return whether another mapping holds the same ranks."""
        if isinstance(other, Ranks):
            if other._layout is self._layout:
                return not (self._tally ^ other._tally) & self._layout.ranks_only
            return self._ranks() == other._ranks()
        return self._ranks() == other

    __hash__ = None  # type: ignore[assignment]  # as for other mappings

    def __repr__(self) -> str:
        return repr(self._ranks())

    def __reduce__(self) -> tuple[type[dict[str, int]], tuple[dict[str, int]]]:
        return dict, (dict(self._ranks()),)
