"""What a rank is worth: exact contributions, held as integers.

A contribution is an integer number of *units* of 2**-96, so that a sum of
contributions does not depend on the order in which they are added. Scores are
compared in units of 2**-64: flooring loses less than one unit a contribution,
far less than that rounding step, so sums that are equal in mathematics tie.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from numbers import Rational, Real
from typing import ClassVar, Protocol, runtime_checkable

__all__ = [
    "KEY_HALF",
    "KEY_SHIFT",
    "ONE",
    "AnyScale",
    "InverseSquareRank",
    "Kernel",
    "RankBiased",
    "ReciprocalRank",
    "check_units",
    "contributions",
    "exact",
    "family_of",
    "scores_of",
    "unbounded_because",
]

ONE = 1 << 96
"""The score 1.0 in units."""

_UNIT = 2.0**-96
KEY_SHIFT = 32
KEY_HALF = 1 << (KEY_SHIFT - 1)
"""Scores are compared in units of 2**-64: units plus a half, shifted."""


def scores_of(tallies: list[int], low: int) -> list[float]:
    """Return the float nearest to each score, of which unit 0 is bit `low`."""
    try:
        # A product rounds once, as a quotient does, in a third of the time.
        return [(tally >> low) * _UNIT for tally in tallies]
    except OverflowError:
        return [(tally >> low) / ONE for tally in tallies]


@runtime_checkable
class Kernel(Protocol):
    """Turns ranks into contributions. Must be hashable: its tables are cached by it.

    Two attributes are optional:

    - `family: str | None` says which kernels have contributions on one scale, so that they may be
      added: those whose families are equal. It is the name of the type if there is no such
      attribute; None goes with every family.
    - `unbounded: str | None` says why nothing can be promised of ranks that are still to come, in
      words that go into an error. None, and no such attribute, say that a rank never gives more
      than the one before. Only a kernel that is unbounded may give more.
    """

    def __hash__(self) -> int: ...

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return one contribution a rank, in units of 2**-96.

        Args:
            weight: The exact weight of the arm, at least 0 in a stream.
            ranks: Consecutive ranks, counted from 1.

        Returns:
            As many integers as there are ranks; for a weight of at least 0 they are
            at least 0, and never rise unless the kernel is unbounded.
        """


@dataclass(frozen=True, slots=True)
class ReciprocalRank:
    """Reciprocal Rank Fusion: weight / (rank_constant + rank), floored to a unit.

    Cormack, Clarke, Buettcher: Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods, SIGIR 2009.

    Attributes:
        rank_constant: A finite number above 0. Small ones favour the top ranks.

    Raises:
        ValueError: `rank_constant` is not a finite number above 0.
        TypeError: `rank_constant` is not a real number.
    """

    rank_constant: float = 60

    def __post_init__(self) -> None:
        if exact("rank_constant", self.rank_constant) <= 0:
            raise ValueError(f"rank_constant must be a finite number above 0, not {self.rank_constant!r}")

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return floor(weight * 2**96 / (rank_constant + rank)) for each rank."""
        constant = exact("rank_constant", self.rank_constant)
        dividend = (weight.numerator * constant.denominator) << 96
        step = weight.denominator * constant.denominator
        offset = weight.denominator * constant.numerator
        return [dividend // (offset + step * rank) for rank in ranks]


@dataclass(frozen=True, slots=True)
class RankBiased:
    """Rank-biased centroids: weight * (1 - persistence) * persistence ** (rank - 1), floored to a unit.

    All ranks of an arm together give its weight. After `p` ranks the rest can give
    weight * persistence ** p, so little is open early.

    Bailey, Moffat, Scholer, Thomas: Retrieval consistency in the presence of query variations,
    SIGIR 2017.

    Attributes:
        persistence: A number above 0 and below 1: with which probability a reader goes on from one
            rank to the next. Small ones favour the top ranks.

    Raises:
        ValueError: `persistence` is not above 0 and below 1.
        TypeError: `persistence` is not a real number.
    """

    persistence: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < exact("persistence", self.persistence) < 1:
            raise ValueError(f"persistence must be a number above 0 and below 1, not {self.persistence!r}")

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return floor(weight * (1 - persistence) * persistence**(rank - 1) * 2**96) for each rank."""
        phi = exact("persistence", self.persistence)
        top = weight * (1 - phi) * ONE
        # The exact power grows by up to 53 bits a rank. Instead: its first bits, in steps of 2**-bits, and
        # by how many steps it may be higher. So many bits leave doubt about a floor once in 2**64 ranks.
        bits = top.numerator.bit_length() + 128
        divisor = top.denominator << bits
        power, doubt = _power(phi, ranks.start - 1, bits)
        units = []
        for exponent in range(ranks.start - 1, ranks.stop - 1):
            floor = power * top.numerator // divisor
            if floor != (power + doubt) * top.numerator // divisor:
                floor = math.floor(top * phi**exponent)
            units.append(floor)
            power = power * phi.numerator // phi.denominator
            doubt += 1
        return units


def _power(base: Fraction, exponent: int, bits: int) -> tuple[int, int]:
    """Return a power of a number from 0 to 1 in steps of 2**-bits, and by how many it may be higher."""
    power = 1 << bits
    doubt = 0
    for digit in f"{exponent:b}":
        power = power * power >> bits
        doubt = 2 * doubt + 1
        if digit == "1":
            power = power * base.numerator // base.denominator
            doubt += 1
    return power, doubt


@dataclass(frozen=True, slots=True)
class InverseSquareRank:
    """Inverse square rank: weight / rank**2, floored to a unit.

    Mourao, Martins, Magalhaes: Inverse square rank fusion for multimodal search, CBMI 2014. They
    also multiply each sum by the number of arms that hold the document; here it is the plain sum.
    """

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return floor(weight * 2**96 / rank**2) for each rank."""
        dividend = weight.numerator << 96
        return [dividend // (weight.denominator * rank * rank) for rank in ranks]


@dataclass(frozen=True, slots=True)
class AnyScale:
    """A kernel as it is, with leave to stand beside kernels of any other family.

    Contributions of different families have different scales. Whoever weights the arms
    so that their sum means something says so with this.

    Attributes:
        kernel: What a rank is worth.
        unbounded: Why nothing can be promised of it, if that is so.

    Raises:
        TypeError: `kernel` is none.
    """

    kernel: Kernel
    family: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_units(self.kernel)

    @property
    def unbounded(self) -> str | None:
        """Why nothing can be promised of the kernel; None if it can."""
        return unbounded_because(self.kernel)

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return what the kernel gives."""
        return self.kernel.units(weight, ranks)


def check_units(kernel: Kernel) -> None:
    """Refuse what is no kernel."""
    if isinstance(kernel, type) or not callable(getattr(kernel, "units", None)):  # as isinstance(), but fast
        raise TypeError(f"kernel must have a method units(weight, ranks), not be {kernel!r}")


def family_of(kernel: Kernel) -> str | None:
    """Return which kernels a kernel may stand beside: those of the same family; None for all."""
    family: str | None = getattr(kernel, "family", type(kernel).__name__)
    return family


def unbounded_because(kernel: Kernel) -> str | None:
    """Return why nothing can be promised of the ranks that are still to come; None if it can."""
    reason: str | None = getattr(kernel, "unbounded", None)
    return reason


def exact(name: str, value: float) -> Fraction:
    """Return the rational number that a finite real number is.

    Args:
        name: What to call the value in an error.
        value: An int, float, Fraction or another real number, such as NumPy's.

    Raises:
        ValueError: The value is infinite or not a number.
        TypeError: The value is not a real number.
    """
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a finite number, not {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return Fraction(number)


def contributions(kernel: Kernel, weight: float, ranks: range) -> list[int]:
    """Return the contributions of consecutive ranks, checked.

    Args:
        kernel: What a rank is worth at weight 1.
        weight: A finite real number.
        ranks: Consecutive ranks, counted from 1.

    Raises:
        TypeError: The kernel gives other than integers.
        ValueError: The kernel gives the wrong number of contributions, or for a weight of at
            least 0 they are below 0, or rise though it is not unbounded.
    """
    exact_weight = exact("weight", weight)
    units = kernel.units(exact_weight, ranks)
    if type(kernel) is not ReciprocalRank:
        _check(kernel, exact_weight, units, len(ranks))
    return units


def _check(kernel: Kernel, weight: Fraction, table: list[int], size: int) -> None:
    if not all(isinstance(units, int) for units in table):
        raise TypeError(f"kernel must give integers, in units of 2**-96; {kernel!r} does not")
    if len(table) != size:
        raise ValueError(f"kernel must give one contribution a rank: {size}, not {len(table)} ({kernel!r})")
    if weight < 0:
        return
    if min(table) < 0:
        raise ValueError(f"kernel must give contributions of at least 0; {kernel!r} does not")
    if unbounded_because(kernel) is None and any(a < b for a, b in pairwise(table)):
        raise ValueError(
            f"kernel must give contributions that never rise, or say in `unbounded` why; {kernel!r} does not"
        )
