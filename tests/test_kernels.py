"""What ranks and scores are worth: every kernel against exact fractions, and what is no kernel."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import FrozenInstanceError, dataclass, fields
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rrf_stream import (
    Accumulator,
    AnyScale,
    Arm,
    Hit,
    InverseSquareRank,
    Kernel,
    RankBiased,
    ReciprocalRank,
    TheoreticalMinMax,
    fuse,
)

UNIT = 2**96
WRONG = (TypeError, ValueError)
KERNELS: list[Kernel] = [
    ReciprocalRank(),
    RankBiased(),
    RankBiased(0.99),
    InverseSquareRank(),
    TheoreticalMinMax(-1.0),
    AnyScale(RankBiased(0.8)),
]

weights = st.fractions(0, 10**6) | st.floats(0, 1e200) | st.sampled_from([0, 1, 5e-324, 1e-28, 3**40])
shares = (
    st.floats(0, 1, exclude_min=True, exclude_max=True)
    | st.fractions(Fraction(1, 10**6), Fraction(10**6 - 1, 10**6))
    | st.sampled_from([0.5, 0.8, 0.9, 0.98, Fraction(1, 3), Fraction(2, 3)])
)
starts = st.integers(1, 900)
lengths = st.integers(1, 12)


def floored(value: Fraction) -> int:
    return math.floor(UNIT * value)


# --- by rank ----------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(phi=shares, weight=weights, start=starts, length=lengths)
def test_rank_biased_is_the_exact_power_floored(phi: Any, weight: Any, start: int, length: int) -> None:
    """Each rank is worth weight * (1 - persistence) * persistence ** (rank - 1), to the unit."""
    ranks = range(start, start + length)
    p, w = Fraction(phi), Fraction(weight)
    assert RankBiased(phi).units(w, ranks) == [floored(w * (1 - p) * p ** (rank - 1)) for rank in ranks]


def test_rank_biased_is_exact_where_a_value_is_whole() -> None:
    """Whole numbers of units are never missed by one, whatever the power is rounded to on the way."""
    for base in (3, 5, 7):
        phi = Fraction(1, base)
        weight = Fraction(base**60, (base - 1) * UNIT)
        units = RankBiased(phi).units(weight, range(1, 63))  # type: ignore[arg-type]
        assert units == [base**exponent for exponent in range(59, -1, -1)] + [0, 0]


@pytest.mark.parametrize("phi", [0.5, 0.9, 0.99, 1 - 1e-6, 1 - 2**-40, 1 - 2**-53])
def test_rank_biased_never_rises_at_any_depth(phi: float) -> None:
    """Also billions of ranks down, where the exact power has billions of bits, and wherever it begins."""
    kernel = RankBiased(phi)
    log = math.log2(1 - phi) + 96
    for start in (1, 10, 600, 2049, 10**6, 2**31, 2**32 - 40):
        units = kernel.units(Fraction(1), range(start, start + 20))
        assert units == [kernel.units(Fraction(1), range(r, r + 1))[0] for r in range(start, start + 20)]
        assert all(a >= b for a, b in pairwise(units))
        expected = log + (start - 1) * math.log1p(phi - 1) / math.log(2)
        if expected < 0:
            assert units[0] == 0
        elif expected > 50:
            assert math.log2(units[0]) == pytest.approx(expected, rel=1e-6)


def test_rank_biased_ends_where_a_rank_is_worth_less_than_a_unit() -> None:
    """At the default persistence that is from rank 611 on."""
    assert RankBiased().units(Fraction(1), range(609, 613)) == [1, 1, 0, 0]


@given(phi=shares, weight=st.sampled_from([1, 0.3, 7]))
def test_rank_biased_shares_out_the_weight(phi: Any, weight: float) -> None:
    """The ranks of an arm never add up to more than its weight, nor the unread ones to more than is left."""
    units = RankBiased(phi).units(Fraction(weight), range(1, 201))
    for read in (0, 1, 10, 100):
        assert sum(units[read:]) <= UNIT * Fraction(weight) * Fraction(phi) ** read


@given(weight=weights, start=st.integers(1, 2**32), length=lengths)
def test_inverse_square_is_exact(weight: Any, start: int, length: int) -> None:
    """Each rank is worth weight / rank**2, to the unit."""
    ranks = range(start, start + length)
    w = Fraction(weight)
    assert InverseSquareRank().units(w, ranks) == [floored(w / rank**2) for rank in ranks]


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, math.nan, math.inf, "0.9", None, 1j])
def test_persistence_is_above_zero_and_below_one(value: Any) -> None:
    """At 0 or 1 there would be no ranking left."""
    with pytest.raises(WRONG, match="persistence"):
        RankBiased(value)


# --- by score ---------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(
    floor=st.floats(-1e6, 1e6) | st.fractions(-100, 100) | st.integers(-3, 3),
    scores=st.lists(st.floats(-1e6, 1e6) | st.integers(-3, 3) | st.fractions(-5, 5), min_size=1, max_size=8),
    weight=weights,
)
def test_scores_are_worth_their_share_of_the_first(floor: Any, scores: list[Any], weight: Any) -> None:
    """Each is worth weight * (score - floor) / (first - floor) to the unit, and never less than 0."""
    scores.sort(reverse=True)
    low, first, w = Fraction(floor), Fraction(scores[0]), Fraction(weight)
    kernel = TheoreticalMinMax(floor)
    units = kernel.scale(w, scores[0])(scores)
    if first > low:
        assert units == [floored(w * max(Fraction(0), (Fraction(s) - low) / (first - low))) for s in scores]
        assert units[0] == floored(w) == kernel.units(w, range(1, 2))[0]
    else:
        assert units == [0] * len(scores)


def hits(*scores: float | None) -> list[Hit]:
    return [Hit(f"id {rank}", score) for rank, score in enumerate(scores, 1)]


def worth(kernel: Kernel, *scores: float | None) -> list[float]:
    """Return what the results of a single arm score, by rank."""
    rows = fuse({"a": hits(*scores)}, kernel=kernel)
    assert [row.id for row in rows] == [f"id {rank}" for rank in range(1, len(scores) + 1)]
    return [row.score for row in rows]


def test_scores_at_and_below_the_floor_are_worth_nothing() -> None:
    """Rounding noise below the floor is the floor; an arm with nothing above its floor gives nothing."""
    assert worth(TheoreticalMinMax(-1), 1.0, 0.0, -1.0, -1.0000000000000002) == [1.0, 0.5, 0.0, 0.0]
    assert worth(TheoreticalMinMax(0), 8, 8, 4, 0, -3) == [1.0, 1.0, 0.5, 0.0, 0.0]
    assert worth(TheoreticalMinMax(0), 0.0, 0.0, -0.0) == [0.0, 0.0, 0.0]
    assert worth(TheoreticalMinMax(0), -1.0, -2.0) == [0.0, 0.0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "0", None, 1j])
def test_floor_is_a_finite_number(value: Any) -> None:
    """Else no score would have a place above it."""
    with pytest.raises(WRONG, match="floor"):
        TheoreticalMinMax(value)


# --- what all kernels are ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_are_values(kernel: Kernel) -> None:
    """Equal ones have one hash, say how they are made, and survive pickling and copying."""
    assert isinstance(kernel, Kernel)
    for twin in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel), eval(repr(kernel))):  # noqa: S301, S307
        assert twin == kernel
        assert hash(twin) == hash(kernel)
    assert [other for other in KERNELS if other == kernel] == [kernel]
    for field in fields(kernel):  # type: ignore[arg-type]
        with pytest.raises(FrozenInstanceError):
            setattr(kernel, field.name, 1)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_first_rank_of_all_arms_is_worth_one(kernel: Kernel) -> None:
    """`normalized` is the part of what all configured arms could give at rank 1, missing arms included."""
    arms = [Arm("a", [], weight=3, kernel=kernel), Arm("b", [], kernel=kernel)]
    accumulator = Accumulator(arms)
    accumulator.add("a", [Hit("x", 0.5), Hit("y", 0.25)])
    x, _ = accumulator.snapshot().hits
    assert x.normalized == pytest.approx(3 / 4, rel=1e-15)
    accumulator.add("b", [Hit("x", 7.0)])
    assert accumulator.snapshot().hits[0].normalized == 1.0


# --- families ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flat:
    """A kernel of somebody else's: the same for every rank."""

    family: str | None = "flat"
    unbounded: str | None = None

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return a quarter of the weight for each rank."""
        return [int(weight * UNIT) // 4] * len(ranks)


def fused(*kernels: Kernel | None) -> list[float]:
    """Return the score of a document that is first in every arm, one arm a kernel."""
    arms = [Arm(f"arm {number}", [], kernel=kernel) for number, kernel in enumerate(kernels)]
    accumulator = Accumulator(arms)
    for arm in arms:
        accumulator.add(arm.name, [Hit("x", 1.0)])
    return [hit.score for hit in accumulator.snapshot().hits]


def test_kernels_of_one_family_stand_together() -> None:
    """Other constants or floors leave the scale as it is; a fusion's kernel that no arm uses is not asked."""
    assert fused(ReciprocalRank(1), ReciprocalRank(3), None) == [pytest.approx(1 / 2 + 1 / 4 + 1 / 61)]
    assert fused(RankBiased(0.5), RankBiased(0.75)) == [0.75]
    assert fused(TheoreticalMinMax(-1), TheoreticalMinMax(0)) == [2.0]
    assert fused(Flat(), Flat("flat"), Flat(None)) == [0.75]


@pytest.mark.parametrize(
    "kernels",
    [
        (RankBiased(), InverseSquareRank()),
        (RankBiased(), None),
        (TheoreticalMinMax(0), None),
        (Flat(), RankBiased(), RankBiased()),
        (Flat("one"), Flat("two")),
    ],
)
def test_families_do_not_mix_unless_somebody_says_so(kernels: tuple[Kernel | None, ...]) -> None:
    """The error names the families and the way out, and the way out is one."""
    with pytest.raises(ValueError, match=r"one family.*AnyScale.*not \w+ and \w+"):
        fused(*kernels)
    assert len(fused(kernels[0], *[AnyScale(kernel or ReciprocalRank()) for kernel in kernels[1:]])) == 1


def test_a_batch_takes_kernels_by_arm() -> None:
    """An arm that is not named has the standard one, with the rank constant that is given."""
    lists = {"a": hits(4, 3), "b": hits(1)}
    for kernel in (ReciprocalRank(1), AnyScale(TheoreticalMinMax(0))):
        first, _ = fuse(lists, kernel={"a": kernel}, rank_constant=3)
        assert first.score == pytest.approx(worth(kernel, 4)[0] + 1 / 4)
    assert fuse([["x"]], kernel={"list_0": RankBiased(0.5)})[0].score == 0.5
    with pytest.raises(ValueError, match=r"kernel must be for arms of the fusion \('a', 'b'\), not for 'c'"):
        fuse(lists, kernel={"c": RankBiased()})
    with pytest.raises(ValueError, match=r"one family.*AnyScale"):
        fuse(lists, kernel={"b": RankBiased()})
    with pytest.raises(TypeError, match=r"kernel must have a method units"):
        fuse(lists, kernel={"a": 60})  # type: ignore[dict-item]


def test_any_scale_changes_no_value() -> None:
    """A kernel with leave to mix is worth what it was, by rank or by score."""
    assert fused(Flat(None), InverseSquareRank()) == [1.25]
    assert fused(AnyScale(AnyScale(TheoreticalMinMax(0))), Flat()) == [1.25]
    assert worth(AnyScale(TheoreticalMinMax(0)), 4, 3) == [1.0, 0.75]
    assert worth(AnyScale(AnyScale(TheoreticalMinMax(0))), 4, 3) == [1.0, 0.75]
    assert worth(AnyScale(RankBiased(0.5)), None, 3) == [0.5, 0.25]
    assert AnyScale(Flat(unbounded="because")).unbounded == "because"
    assert AnyScale(RankBiased()).unbounded is None


@pytest.mark.parametrize("value", [None, "rrf", ReciprocalRank])
def test_any_scale_is_of_a_kernel(value: Any) -> None:
    """What has no contributions has no scale."""
    with pytest.raises(TypeError, match="kernel"):
        AnyScale(value)


@pytest.mark.parametrize("attribute", ["family", "unbounded"])
def test_what_a_kernel_says_of_itself_is_text(attribute: str) -> None:
    """It goes into messages."""
    with pytest.raises(TypeError, match=attribute):
        Arm("a", [], kernel=Flat(**{attribute: 5}))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Rising:
    """A kernel whose second rank is worth most."""

    unbounded: str | None = None

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return half the weight for rank 2, a quarter for the others."""
        return [int(weight * UNIT) >> (1 if rank == 2 else 2) for rank in ranks]


def test_only_a_kernel_that_says_why_may_rise() -> None:
    """Contributions that rise are refused, unless the kernel owns that it promises nothing."""
    with pytest.raises(ValueError, match="unbounded"):
        fuse([["x", "y"]], kernel=Rising())
    rows = fuse([["x", "y"]], kernel=Rising(unbounded="the second rank is worth most"))
    assert [(row.id, row.score) for row in rows] == [("y", 0.5), ("x", 0.25)]
