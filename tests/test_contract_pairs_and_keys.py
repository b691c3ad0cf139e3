"""reciprocal_rank_fusion and ReciprocalRankFusion: what the vectors do not already show."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rrf_stream import ReciprocalRankFusion, reciprocal_rank_fusion, rrf_scores

BAD_K = [0, -1, -0.5, math.nan, math.inf, -math.inf]

string_lists = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=4)
"""Small lists with repeats; ids are strings, since one of the systems sorts them."""


# --- b: reciprocal_rank_fusion ----------------------------------------------------------------------------


def test_pairs_are_lists_of_an_id_and_a_float() -> None:
    """Rows are lists, not tuples."""
    rows = reciprocal_rank_fusion([["a"]])
    assert type(rows) is list
    assert rows == [["a", 0.016393]]
    assert type(rows[0]) is list
    assert type(rows[0][1]) is float


@pytest.mark.parametrize("k", BAD_K)
def test_pairs_want_a_finite_k_above_zero(k: float) -> None:
    """Also when there is nothing to rank."""
    for rankings in ([["a"]], []):
        with pytest.raises(ValueError, match="k must be"):
            reciprocal_rank_fusion(rankings, k=k)


def test_a_negative_top_n_is_an_error() -> None:
    """It is not taken for "all but the last"."""
    with pytest.raises(ValueError, match="top_n"):
        reciprocal_rank_fusion([["a", "b"]], top_n=-1)


@pytest.mark.parametrize("rankings", [[], [[]], [[], []]])
def test_pairs_of_nothing(rankings: list[list[str]]) -> None:
    """No lists and empty lists are fine."""
    assert reciprocal_rank_fusion(rankings) == []
    assert reciprocal_rank_fusion(rankings, top_n=3) == []


def test_pairs_let_a_repeat_use_up_its_rank() -> None:
    """b stands third: 1/63 = 0.015873, not 1/62 = 0.016129."""
    assert reciprocal_rank_fusion([["a", "a", "b"]]) == [["a", 0.016393], ["b", 0.015873]]


def test_pairs_know_no_upper_limits() -> None:
    """More than twenty lists of more than a thousand ids are fused like fewer and shorter ones."""
    many = [[f"{n:04}" for n in range(1001)]] * 21
    rows = reciprocal_rank_fusion(many, top_n=1)
    assert rows == [["0000", round(21 / 61, 6)]]
    assert len(reciprocal_rank_fusion(many)) == 1001


def test_no_two_ranks_of_the_top_twenty_round_alike() -> None:
    """At k=60 neither single ranks nor pairs of ranks of the first twenty collide by rounding alone."""
    singles = {round(1 / (60 + rank), 6) for rank in range(1, 21)}
    assert len(singles) == 20
    rows = reciprocal_rank_fusion([[f"d{n:02}" for n in range(20, 0, -1)]])
    assert [name for name, _ in rows] == [f"d{n:02}" for n in range(20, 0, -1)]
    sums = {Fraction(1, 60 + a) + Fraction(1, 60 + b) for a in range(1, 21) for b in range(a, 21)}
    assert len({round(float(one), 6) for one in sums}) == len(sums)


@settings(max_examples=100, deadline=None)
@given(rankings=string_lists, k=st.sampled_from([1, 60, 2000, 10**6]), top_n=st.none() | st.integers(0, 9))
def test_pairs_are_rounded_then_sorted_then_cut(rankings: list[list[str]], k: int, top_n: int | None) -> None:
    """Round the double to six places, sort by that and by id, cut: in this order."""
    rows = [[name, round(score, 6)] for name, score in rrf_scores(rankings, k=k).items()]
    rows.sort(key=lambda row: (-row[1], row[0]))
    assert reciprocal_rank_fusion(rankings, k=k, top_n=top_n) == rows[:top_n]


# --- c: ReciprocalRankFusion ------------------------------------------------------------------------------


def test_key_fusion_is_frozen() -> None:
    """Nothing can be set on an instance, neither a known name nor a new one."""
    fusion = ReciprocalRankFusion()
    for name in ("k", "weights", "fuse", "anything"):
        with pytest.raises(AttributeError):
            setattr(fusion, name, 1)
    with pytest.raises(AttributeError):
        del fusion.fuse


@pytest.mark.parametrize("k", [math.nan, math.inf, -math.inf])
def test_key_fusion_rejects_a_k_that_is_no_number(k: float) -> None:
    """Below 1 is 1, but NaN and infinity are errors."""
    with pytest.raises(ValueError, match=r"\bk\b"):
        ReciprocalRankFusion().fuse([["a"]], k=k)


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf])
def test_key_fusion_rejects_a_weight_that_is_no_number(weight: float) -> None:
    """Whichever list it belongs to."""
    with pytest.raises(ValueError, match="weight"):
        ReciprocalRankFusion().fuse([["a"], ["b"]], weights=[1.0, weight])


@pytest.mark.parametrize("k", [0.5, 0, -1, -1e9, 1, True])
def test_key_fusion_clamps_k_below_one_to_one(k: float) -> None:
    """At k=1 third in both lists (2/4) ties with first in one (1/2); below it loses, at 60 it wins."""
    lists = [["s", "x", "both"], ["t", "y", "both"]]
    assert ReciprocalRankFusion().fuse(lists, k=k) == ["s", "both", "t", "x", "y"]
    assert ReciprocalRankFusion().fuse(lists) == ["both", "s", "t", "x", "y"]


def test_key_fusion_has_no_upper_limit_for_k() -> None:
    """A huge k makes it a count of lists."""
    assert ReciprocalRankFusion().fuse([["a", "b"], ["c", "b"]], k=10**6) == ["b", "a", "c"]


def test_key_fusion_takes_none_weights_and_one_shot_input() -> None:
    """None is 1.0 wherever it stands; lists are read once."""
    lists = [["a"], ["b"], ["c"]]
    assert ReciprocalRankFusion().fuse(lists, weights=[None, 3.0]) == ["b", "a", "c"]
    assert ReciprocalRankFusion().fuse([iter(one) for one in lists]) == ["a", "b", "c"]


def test_key_fusion_does_not_normalise_weights() -> None:
    """Doubling all weights changes no order, and 2 with a default of 1 is not 1 with a half."""
    lists = [["a", "b"], ["b", "c"], ["c", "a"]]
    fuse_keys = ReciprocalRankFusion().fuse
    assert fuse_keys(lists, weights=[2, 2, 2]) == fuse_keys(lists)


def test_a_zero_weight_list_counts_for_ties_of_keys() -> None:
    """b is seen first, in a list of weight 0, and so wins its tie with a."""
    assert ReciprocalRankFusion().fuse([["b"], ["a"], ["b"]], weights=[0, 1, 1]) == ["b", "a"]


def test_zero_weight_keys_come_last_in_the_order_of_first_sight() -> None:
    """All at 0, behind every key that earned something."""
    assert ReciprocalRankFusion().fuse([["p", "q"], ["x"], ["r", "p"]], weights=[0, 1, 0]) == [
        "x",
        "p",
        "q",
        "r",
    ]


def test_a_negative_list_pulls_a_key_down() -> None:
    """-2/61 + 1/61 is below 0 and so below a key of a zero-weight list."""
    lists = [["bad"], ["bad", "good"], ["mute"]]
    assert ReciprocalRankFusion().fuse(lists, weights=[-2, 1, 0]) == ["good", "mute", "bad"]


def test_any_hashable_is_a_key_and_an_unhashable_is_not() -> None:
    """Tuples, None and mixed types are keys; a list is a TypeError."""
    assert ReciprocalRankFusion().fuse([[None, ("t", 1)], [0, ""]]) == [None, 0, ("t", 1), ""]
    with pytest.raises(TypeError):
        ReciprocalRankFusion().fuse([[["list"]]])  # type: ignore[list-item]


@settings(max_examples=100, deadline=None)
@given(
    lists=string_lists,
    weights=st.lists(st.none() | st.sampled_from([0.0, 1.0, 2.0, 0.5, -1.0, 0.1]), max_size=5),
    k=st.sampled_from([60, 1, 0, 7]),
)
def test_keys_are_sorted_by_the_exact_weighted_sum(
    lists: list[list[str]], weights: list[float | None], k: int
) -> None:
    """Repeats use up nothing, absent weights are 1, k is at least 1, ties go by first sight."""
    sums: dict[str, Fraction] = {}
    for index, one in enumerate(lists):
        given_weight = weights[index] if index < len(weights) else None
        weight = Fraction(1.0 if given_weight is None else given_weight)
        for rank, key in enumerate(dict.fromkeys(one), 1):
            sums[key] = sums.get(key, Fraction(0)) + weight / (max(k, 1) + rank)
    wanted = sorted(sums, key=lambda key: -sums[key])  # sorted() is stable: the dict is in first-seen order
    assert ReciprocalRankFusion().fuse(lists, k, weights) == wanted
