"""RRFConfig and RRFFusion: what the vectors do not already show."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rrf_stream import RRFConfig, RRFFusion, fuse

BAD_K = [0, -1, -0.5, math.nan, math.inf, -math.inf]


# --- d: RRFConfig, RRFFusion ------------------------------------------------------------------------------


def test_config_by_position_and_by_name() -> None:
    """The three numbers can be given either way, and read."""
    config = RRFConfig(10.0, 20, 5)
    assert (config.k, config.retrieve_k, config.final_k) == (10.0, 20, 5)
    assert RRFConfig(k=10.0, retrieve_k=20, final_k=5) == config
    default = RRFConfig()
    assert (default.k, default.retrieve_k, default.final_k) == (60.0, 50, 10)


@pytest.mark.parametrize("k", BAD_K)
def test_config_wants_a_finite_k_above_zero(k: float) -> None:
    """A wrong k shows when the config is made."""
    with pytest.raises(ValueError, match=r"\bk\b"):
        RRFConfig(k=k)


@pytest.mark.parametrize("name", ["retrieve_k", "final_k"])
@pytest.mark.parametrize("value", [-1, 2.5, "3", None])
def test_config_wants_counts(name: str, value: Any) -> None:
    """`retrieve_k` and `final_k` are integers of at least 0."""
    with pytest.raises(ValueError, match=name):
        RRFConfig(**{name: value})


def test_zero_counts_give_nothing() -> None:
    """Neither reading nothing nor returning nothing is an error."""
    assert RRFFusion(RRFConfig(final_k=0)).fuse([("a", 1.0)], [("a", 1.0)]) == []
    assert RRFFusion(RRFConfig(retrieve_k=0)).fuse([("a", 1.0)], [("a", 1.0)]) == []


def test_rows_are_tuples_of_an_id_and_a_float() -> None:
    """As they came in, with another score."""
    (row,) = RRFFusion().fuse([("a", 0.9)], [])
    assert row == ("a", 1 / 61)
    assert type(row) is tuple
    assert type(row[1]) is float


def test_at_most_retrieve_k_results_of_an_engine_are_read() -> None:
    """What lies deeper earns nothing, in both at once or not: "deep" would lead with 2/63."""
    rows = RRFFusion(RRFConfig(retrieve_k=2)).fuse(
        [("a", 1.0), ("b", 0.5), ("deep", 0.1)], [("x", 1.0), ("y", 0.5), ("deep", 0.1)]
    )
    assert rows == [("a", 1 / 61), ("x", 1 / 61), ("b", 1 / 62), ("y", 1 / 62)]


def test_a_repeat_in_an_engine_uses_up_its_rank_and_its_place_in_retrieve_k() -> None:
    """b stands third, within three read results but not within two."""
    semantic = [("a", 3.0), ("a", 2.0), ("b", 1.0)]
    assert RRFFusion().fuse(semantic, []) == [("a", 1 / 61), ("b", 1 / 63)]
    assert RRFFusion(RRFConfig(retrieve_k=2)).fuse(semantic, []) == [("a", 1 / 61)]


@pytest.mark.parametrize("scores", [(None, None), (math.nan, math.nan), (0.1, 0.9), ("text", object())])
def test_scores_of_the_engines_are_not_read(scores: tuple[Any, Any]) -> None:
    """None, NaN, a rising score or something that is no number at all: position is what counts."""
    semantic = [("p", scores[0]), ("q", scores[1]), ("t", scores[0])]
    rows = RRFFusion().fuse(semantic, [("t", scores[1])])
    assert rows == [("t", pytest.approx(1 / 63 + 1 / 61)), ("p", 1 / 61), ("q", 1 / 62)]


@pytest.mark.parametrize("k", [1, 10, 60])
def test_agreement_within_k_plus_one_beats_a_lone_first(k: int) -> None:
    """In both at rank r against first in one: more up to r = k + 1, equal at k + 2, less below."""
    for r, ahead in ((k + 1, True), (k + 2, False), (k + 3, False)):
        semantic = [("lone", 1.0), *((f"s{n}", 1.0) for n in range(2, r)), ("both", 1.0)]
        lexical = [*((f"l{n}", 1.0) for n in range(1, r)), ("both", 1.0)]
        scores: dict[Any, float] = dict(RRFFusion(RRFConfig(k, r, 2 * r)).fuse(semantic, lexical))
        assert (scores["both"] > scores["lone"]) is ahead
        assert (scores["both"] == scores["lone"]) is (r == k + 2)


@settings(max_examples=100, deadline=None)
@given(
    semantic=st.lists(st.sampled_from("abcdefgh"), max_size=12),
    lexical=st.lists(st.sampled_from("abcdefgh"), max_size=12),
    retrieve_k=st.integers(0, 12),
    final_k=st.integers(0, 9),
)
def test_two_engines_are_the_core_on_two_lists(
    semantic: list[str], lexical: list[str], retrieve_k: int, final_k: int
) -> None:
    """Cut to `retrieve_k`, fused, cut to `final_k`; ties go to the semantic engine's earlier id."""
    rows = RRFFusion(RRFConfig(60.0, retrieve_k, final_k)).fuse(
        [(name, 0.0) for name in semantic], [(name, 0.0) for name in lexical]
    )
    hits = fuse([semantic[:retrieve_k], lexical[:retrieve_k]])
    assert rows == [(hit.id, hit.score) for hit in hits][:final_k]
    assert len(rows) <= final_k


# --- d: normalize_scores ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_normalizing_wants_finite_scores(bad: float) -> None:
    """Also as the only score, and whether first or last."""
    for scored in (
        [("a", bad)],
        [("a", 1.0), ("b", bad)],
        [("b", bad), ("a", 1.0)],
        [("a", bad), ("b", bad)],
    ):
        with pytest.raises(ValueError, match="score"):
            RRFFusion.normalize_scores(scored)


def test_normalizing_nothing_and_one() -> None:
    """Nothing gives nothing; a single score is its own best."""
    assert RRFFusion.normalize_scores([]) == []
    assert RRFFusion.normalize_scores([("a", -7.5)]) == [("a", 1.0)]
    assert RRFFusion.normalize_scores(iter([("a", 0)])) == [("a", 1.0)]


def test_normalizing_keeps_order_ids_and_repeats() -> None:
    """It neither sorts nor merges."""
    scored = [("a", 1), ("b", 3), ("a", 2), (None, 1)]
    assert RRFFusion.normalize_scores(scored) == [("a", 0.0), ("b", 1.0), ("a", 0.5), (None, 0.0)]
    assert scored == [("a", 1), ("b", 3), ("a", 2), (None, 1)]


def test_normalizing_survives_a_span_beyond_the_largest_double() -> None:
    """The difference of the extremes overflows a double; the quotient does not."""
    huge = 1.7e308
    assert RRFFusion.normalize_scores([("a", huge), ("b", 0.0), ("c", -huge)]) == [
        ("a", 1.0),
        ("b", 0.5),
        ("c", 0.0),
    ]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_normalized_scores_span_zero_to_one_in_the_order_of_the_scores(values: list[float]) -> None:
    """For any finite doubles: least 0, largest 1, never out of order, never out of range."""
    rows = RRFFusion.normalize_scores(list(enumerate(values)))
    results = [score for _, score in rows]
    assert [name for name, _ in rows] == list(range(len(values)))
    if min(values) == max(values):
        assert results == [1.0] * len(values)
        return
    span = Fraction(max(values)) - Fraction(min(values))
    for value, result in zip(values, results, strict=True):
        assert result == pytest.approx(
            float((Fraction(value) - Fraction(min(values))) / span), rel=1e-12, abs=1e-15
        )
        assert 0 <= result <= 1
    by_value = [result for _, result in sorted(zip(values, results, strict=True))]
    assert by_value == sorted(results)
    assert results[values.index(max(values))] == 1
    assert results[values.index(min(values))] == 0
