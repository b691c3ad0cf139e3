"""Wrong arguments of the core: each is refused by name, and a refusal leaves everything as it was."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rrf_stream import Accumulator, Arm, fuse

if TYPE_CHECKING:
    from collections.abc import Callable

WRONG = (TypeError, ValueError)
NOT_FINITE = [math.nan, math.inf, -math.inf]


# --- options ----------------------------------------------------------------------------------------------


def both(**options: Any) -> list[Callable[[], object]]:
    """Return the batch call and the stream that take an option."""
    return [lambda: fuse({"a": ["x"]}, **options), lambda: Accumulator({"a": 1}, **options)]


@pytest.mark.parametrize("value", [0, -1, -0.5, *NOT_FINITE, "60", None, 1j, [60]])
def test_rank_constant_is_a_finite_number_above_zero(value: Any) -> None:
    """Zero, negative, NaN, infinite or not a number: an error, never a silent fallback."""
    for call in both(rank_constant=value):
        with pytest.raises(WRONG, match="rank_constant"):
            call()


@pytest.mark.parametrize("value", [0, -1, 2.5, "3", math.nan])
def test_top_k_is_a_count_of_at_least_one(value: Any) -> None:
    """A top of nothing is no top."""
    for call in both(top_k=value):
        with pytest.raises(WRONG, match="top_k"):
            call()


@pytest.mark.parametrize("value", [0, -1, 2.5, "3", math.nan])
def test_window_is_a_count_of_at_least_one(value: Any) -> None:
    """For all arms or for one."""
    with pytest.raises(WRONG, match="window"):
        Accumulator({"a": 1}, window=value)
    with pytest.raises(WRONG, match="window"):
        Arm("a", [], window=value)


@pytest.mark.parametrize("value", ["Consume", "count", "", None, True, 1])
def test_repeats_is_one_of_two_words(value: Any) -> None:
    """The error names both."""
    for call in both(repeats=value):
        with pytest.raises(WRONG, match=r"repeats.*consume.*skip"):
            call()


@pytest.mark.parametrize("value", ["first_seen", "ID", "", None, 1])
def test_ties_is_one_of_two_words(value: Any) -> None:
    """The error names both."""
    with pytest.raises(WRONG, match=r"ties.*first-seen.*id"):
        fuse([["x"]], ties=value)


@pytest.mark.parametrize("value", ["on", "", None, True])
def test_bounds_is_a_known_word(value: Any) -> None:
    """The error names the parameter."""
    with pytest.raises(WRONG, match="bounds"):
        Accumulator({"a": 1}, bounds=value)


@pytest.mark.parametrize("name", ["key", "representative"])
@pytest.mark.parametrize("value", ["id", 0, ["id"]])
def test_callbacks_are_callable(name: str, value: Any) -> None:
    """The name of a field is no function, and it shows before anything is read."""
    for call in both(**{name: value}):
        with pytest.raises(WRONG, match=name):
            call()


@pytest.mark.parametrize("value", ["rrf", 60, object()])
def test_kernel_is_a_kernel(value: Any) -> None:
    """Neither its name nor a number is one."""
    for call in both(kernel=value):
        with pytest.raises(WRONG, match="kernel"):
            call()


def test_options_are_keyword_only() -> None:
    """No number is taken for another by its place."""
    with pytest.raises(TypeError):
        Accumulator({"a": 1}, 5)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        fuse([["x"]], {"list_0": 1})  # type: ignore[call-arg]


def test_ties_by_id_want_ids_that_compare() -> None:
    """With `ties="id"` ids of types that do not compare are a TypeError that names the option."""
    with pytest.raises(TypeError, match="ties"):
        fuse([["a"], [1]], ties="id")


# --- arms and weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [-1, -1e-300, *NOT_FINITE, "1", None, 1j, [1]])
def test_weights_are_finite_and_at_least_zero(weight: Any) -> None:
    """By name, by position, or of an arm; the error names the arm if there is a choice."""
    with pytest.raises(WRONG, match=r"(?s)weight.*bad|bad.*weight"):
        Accumulator({"good": 1, "bad": weight})
    with pytest.raises(WRONG, match=r"(?s)weight.*bad|bad.*weight"):
        fuse({"good": ["x"], "bad": ["y"]}, weights={"bad": weight})
    with pytest.raises(WRONG, match="weight"):
        fuse([["x"], ["y"]], weights=[1, weight])
    with pytest.raises(WRONG, match="weight"):
        Arm("bad", [], weight=weight)


def test_weights_that_add_up_beyond_a_double_are_refused() -> None:
    """Any one finite weight is fine; two of the largest would give an infinite score."""
    largest = sys.float_info.max
    (hit,) = fuse({"a": ["x"]}, weights={"a": largest})
    assert hit.score == pytest.approx(largest / 61, rel=1e-15)
    assert hit.normalized == 1
    for call in (
        lambda: fuse({"a": ["x"], "b": ["x"]}, weights={"a": largest, "b": largest}, rank_constant=1e-9),
        lambda: Accumulator({"a": largest, "b": largest}, rank_constant=1e-9),
    ):
        with pytest.raises(ValueError, match="weight"):
            call()


def test_negative_zero_is_zero() -> None:
    """-0.0 is not below 0."""
    assert fuse({"a": ["x"]}, weights={"a": -0.0}) == []


def test_a_weight_for_an_unknown_arm_is_an_error() -> None:
    """A misspelt name must not silently weigh 1."""
    with pytest.raises(ValueError, match=r"(?s)weights.*dnese|dnese.*weights"):
        fuse({"dense": ["x"]}, weights={"dnese": 2.0})
    with pytest.raises(ValueError, match="weights"):
        fuse([["x"]], weights={"list_1": 2.0})


@pytest.mark.parametrize("weights", [[], [1], [1, 1, 1]])
def test_weights_by_position_are_as_many_as_the_lists(weights: list[float]) -> None:
    """Neither too few nor too many."""
    with pytest.raises(ValueError, match="weights"):
        fuse([["x"], ["y"]], weights=weights)


def test_lists_may_be_weighted_by_their_given_names() -> None:
    """Unnamed lists are list_0, list_1; a weight that is left out is 1."""
    assert [hit.id for hit in fuse([["x"], ["y"]], weights={"list_1": 2})] == ["y", "x"]
    assert [hit.id for hit in fuse([["x"], ["y"]], weights=[1, 2])] == ["y", "x"]


@pytest.mark.parametrize("weights", [2.0, "12", {1, 2}])
def test_weights_are_a_mapping_or_a_sequence(weights: Any) -> None:
    """A number, a text or a set without order says nothing about which arm is meant."""
    with pytest.raises(WRONG, match="weight"):
        fuse([["x"], ["y"]], weights=weights)


@pytest.mark.parametrize("name", ["", None, 1, b"a", ("a",)])
def test_arm_names_are_text_that_is_not_empty(name: Any) -> None:
    """A name is what reports and logs go by."""
    for call in (
        lambda: Accumulator({name: 1}),
        lambda: fuse({name: ["x"]}),
        lambda: Arm(name, []),
    ):
        with pytest.raises(WRONG, match="name"):
            call()


def test_arm_names_are_given_once() -> None:
    """Two arms of one name could not be told apart in any report."""
    with pytest.raises(ValueError, match="twin"):
        Accumulator([Arm("twin", []), Arm("other", []), Arm("twin", [])])


@pytest.mark.parametrize("arms", [["a"], [("a", 1.0)], 5, None, [None]])
def test_arms_are_weights_by_name_or_arms(arms: Any) -> None:
    """A list of names is neither."""
    with pytest.raises(WRONG, match="arms"):
        Accumulator(arms)


def test_arms_carry_their_own_weight_and_window() -> None:
    """Given as objects, arms are read to their own windows, and their sources are left alone."""
    accumulator = Accumulator([Arm("deep", iter([]), weight=0.5), Arm("shallow", [], window=1)], window=7)
    assert accumulator.add("shallow", ["x", "dropped"]) is False
    assert accumulator.add("deep", [f"d{n}" for n in range(99)]) is True
    assert accumulator.add("deep", ["d99"]) is False
    deep, shallow = accumulator.snapshot().coverage.arms
    assert (deep.name, deep.weight, deep.window, deep.received) == ("deep", 0.5, 100, 100)
    assert (shallow.name, shallow.weight, shallow.window, shallow.received) == ("shallow", 1.0, 1, 1)


@pytest.mark.parametrize(
    "rankings", [5, None, "abc", {"a": 5}, [5], {"a": "abc"}, ["abc"], [{"x", "y"}], {"a": {"x": 0.9}}]
)
def test_rankings_are_iterables_of_results(rankings: Any) -> None:
    """A number is none, a text is one result, and sets and scores by id have no order of rank."""
    with pytest.raises(WRONG):
        fuse(rankings)


@pytest.mark.parametrize("hits", [5, None, "abc", {"x", "y"}, {"x": 0.9}])
def test_hits_are_iterables_of_results(hits: Any) -> None:
    """The same holds for a page, and nothing of it is added."""
    accumulator = Accumulator({"a": 1})
    with pytest.raises(TypeError, match="hits of arm 'a' must be"):
        accumulator.add("a", hits)
    assert accumulator.rankings() == {"a": []}
