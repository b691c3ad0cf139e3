"""What a score is worth, for arms that are fused by their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import isfinite
from numbers import Rational
from typing import Any, TypeAlias

from rrf_stream._kernels import ONE, AnyScale, Kernel, exact

__all__ = ["Scores", "TheoreticalMinMax", "score_kernel"]

Number: TypeAlias = float | Fraction
"""A finite number; floats are the rational numbers that they are."""


@dataclass(frozen=True, slots=True)
class TheoreticalMinMax:
    """Scores on the scale from what the arm can give at least to its first: a share of the weight.

    A result adds weight * (score - floor) / (first score - floor), floored to a unit; a score
    below the floor counts as the floor. If even the first score is not above the floor, nothing in
    the arm is worth anything. With the weights alpha and 1 - alpha this is the convex combination
    TM2C2 of Bruch, Gai, Ingber: An analysis of fusion functions for hybrid retrieval, TOIS 2023.

    Its arms must yield `Hit` objects with finite scores that never rise.

    Attributes:
        floor: The least score that the arm could ever give: -1 for cosines, 0 for BM25.

    Raises:
        ValueError: `floor` is infinite or not a number.
        TypeError: `floor` is not a real number.
    """

    floor: float

    def __post_init__(self) -> None:
        exact("floor", self.floor)

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return the most that each rank can give: the weight, as all scores may be equal."""
        return [weight.numerator * ONE // weight.denominator] * len(ranks)

    def scale(self, weight: Fraction, first: Number) -> Callable[[Iterable[Number]], list[int]]:
        """Return what gives the contributions of scores, in units of 2**-96.

        Args:
            weight: The exact weight of the arm.
            first: Its first score, which none of the others exceeds.
        """
        floor = exact("floor", self.floor)
        span = Fraction(first) - floor
        slope = weight * ONE / span if span > 0 else Fraction(0)
        return partial(_scaled, floor, slope.numerator, slope.denominator * floor.denominator)


def _scaled(floor: Fraction, dividend: int, divisor: int, scores: Iterable[Number]) -> list[int]:
    """Return floor((score - floor) * slope) for each score, where it is above 0."""
    least, parts = floor.numerator, floor.denominator
    units = []
    for score in scores:
        numerator, denominator = score.as_integer_ratio()
        above = numerator * parts - least * denominator
        units.append(above * dividend // (denominator * divisor) if above > 0 else 0)
    return units


def score_kernel(kernel: Kernel) -> TheoreticalMinMax | None:
    """Return the kernel if it goes by scores, None if it goes by ranks."""
    while isinstance(kernel, AnyScale):
        kernel = kernel.kernel
    return kernel if isinstance(kernel, TheoreticalMinMax) else None


class Scores:
    """The scores of one arm so far, in the order read, and what they are worth.

    Args:
        arm: The name of the arm, for errors.
        kernel: What its scores are worth.
        weight: Its weight, at least 0.

    Attributes:
        ceiling: The most that one further score can give, in units of 2**-96.
        given: The score of each rank, as it came; kept by the ranking, which knows the ranks.
    """

    __slots__ = ("_arm", "_kernel", "_last", "_scale", "_weight", "ceiling", "given")

    def __init__(self, arm: str, kernel: TheoreticalMinMax, weight: float) -> None:
        self._arm = arm
        self._kernel = kernel
        self._weight = exact("weight", weight)
        self._last: Number | None = None
        self._scale: Callable[[Iterable[Number]], list[int]] | None = None
        self.given: list[Any] = []
        (self.ceiling,) = kernel.units(self._weight, range(1, 2))

    def extend(self, scores: Sequence[Any], place: str, number: int) -> list[int]:
        """Take the next scores; return what they are worth, in units of 2**-96.

        Args:
            scores: The scores as they came.
            place: What to call the place of a score in errors, such as "rank".
            number: The place of the first of them.

        Raises:
            TypeError: There is no score, or it is not a real number. Nothing was taken.
            ValueError: A score is infinite, not a number, or higher than the one before.
                Nothing was taken.
        """
        last = self._last
        numbers: list[Number] = []
        for at, score in enumerate(scores, number):
            value = (
                score if type(score) is float and isfinite(score) else self._number(score, f"{place} {at}")
            )
            if last is not None and value > last:
                raise ValueError(
                    f"scores of arm {self._arm!r} must never rise: {value} at {place} {at} follows {last}"
                )
            numbers.append(value)
            last = value
        if not numbers:
            return []
        scale = self._scale or self._kernel.scale(self._weight, numbers[0])
        units = scale(numbers)
        self._scale = scale
        self._last = last
        self.ceiling = units[-1]
        return units

    def worth(self, count: int) -> list[int]:
        """Return what the scores of the first ranks are worth, in units of 2**-96."""
        numbers = [self._number(score, f"rank {rank}") for rank, score in enumerate(self.given[:count], 1)]
        return [] if self._scale is None else self._scale(numbers)

    def _number(self, score: Any, place: str) -> Number:
        if score is None:
            raise TypeError(
                f"results of arm {self._arm!r} must be Hit objects with a score, for {self._kernel!r};"
                f" there is none at {place}"
            )
        number = exact(f"the score of arm {self._arm!r} at {place}", score)
        return number if isinstance(score, Rational) else float(score)
