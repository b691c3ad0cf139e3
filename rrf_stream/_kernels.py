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
from typing import Protocol, runtime_checkable

__all__ = ["KEY_HALF", "KEY_SHIFT", "ONE", "Kernel", "ReciprocalRank", "contributions", "exact", "scores_of"]

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
    """Turns ranks into contributions. Must be hashable: its tables are cached by it."""

    def __hash__(self) -> int: ...

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return one contribution a rank, in units of 2**-96.

        Args:
            weight: The exact weight of the arm, at least 0 in a stream.
            ranks: Consecutive ranks, counted from 1.

        Returns:
            As many integers as there are ranks; for a weight of at least 0 they are
            at least 0 and never rise.
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
        ValueError: The kernel gives the wrong number of contributions, or they rise or are
            below 0 for a weight of at least 0.
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
    if weight >= 0 and (table[-1] < 0 or any(a < b for a, b in pairwise(table))):
        raise ValueError(
            f"kernel must give contributions that never rise nor fall below 0; {kernel!r} does not"
        )
