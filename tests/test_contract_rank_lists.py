"""rrf_scores, rrf_fuse, explain_fusion: what the vectors do not already show."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rrf_stream import Hit, explain_fusion, rrf_fuse, rrf_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BAD_K = [0, -1, -0.5, math.nan, math.inf, -math.inf]

string_lists = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=4)


def untouchable() -> Iterator[Any]:
    raise AssertionError("a list was read before k was checked")
    yield "never"


@pytest.mark.parametrize("k", BAD_K)
@pytest.mark.parametrize("function", [rrf_scores, rrf_fuse, explain_fusion])
def test_k_is_checked_before_any_list_is_read(function: Callable[..., Any], k: float) -> None:
    """A k that is not a finite number above 0 is an error, on any input at all."""
    with pytest.raises(ValueError, match="k must be"):
        function([untouchable()], k=k)
    with pytest.raises(ValueError, match="k must be"):
        function([], k=k)


def test_true_is_one_and_a_fraction_is_a_fraction() -> None:
    """`k=True` is k=1; k=0.5 puts rank 1 at 1/1.5."""
    assert rrf_scores([["a"]], k=True) == {"a": 1 / 2}
    assert rrf_scores([["a"]], k=0.5) == {"a": 1 / 1.5}


def test_scores_come_in_the_order_of_first_sight() -> None:
    """List 0, then what is new in list 1: not by score."""
    assert list(rrf_scores([["x", "b"], ["c", "b", "a"]])) == ["x", "b", "c", "a"]


def test_results_are_a_dict_of_floats_and_lists_of_rows() -> None:
    """Rows of `rrf_fuse` are tuples, those of `explain_fusion` dicts of three entries."""
    scores = rrf_scores([["a"]])
    assert type(scores) is dict
    assert type(scores["a"]) is float
    rows = rrf_fuse([["a"]])
    assert type(rows) is list
    assert rows == [("a", 1 / 61, "a")]
    assert explain_fusion([["a"]]) == [{"identity": "a", "ranks": {"list_0": 1}, "rrf_score": 1 / 61}]
    assert type(explain_fusion([["a"]])[0]["ranks"]) is dict


@pytest.mark.parametrize("lists", [[], [[]], [[], []]])
def test_empty_input_gives_empty_output(lists: list[list[str]]) -> None:
    """Nothing to rank is no error."""
    assert rrf_scores(lists) == {}
    assert rrf_fuse(lists) == []
    assert explain_fusion(lists) == []


@pytest.mark.parametrize("function", [rrf_scores, rrf_fuse, explain_fusion])
def test_outer_and_inner_iterables_may_be_read_once(function: Callable[..., Any]) -> None:
    """Generators of generators give what lists of lists give."""
    lists = [["x", "y"], ["y", "z"]]
    assert function(iter(one) for one in lists) == function(lists)


@pytest.mark.parametrize("function", [rrf_scores, rrf_fuse, explain_fusion])
def test_a_key_is_called_once_for_each_item(function: Callable[..., Any]) -> None:
    """Left to right, list by list, repeats included."""
    calls: list[str] = []

    def key(item: str) -> str:
        calls.append(item)
        return item[0]

    function([["x1", "y1", "x2"], ["y2"]], key=key)
    assert calls == ["x1", "y1", "x2", "y2"]


@pytest.mark.parametrize("function", [rrf_scores, rrf_fuse, explain_fusion])
def test_an_error_in_key_propagates(function: Callable[..., Any]) -> None:
    """It keeps its type: a missing field is the caller's KeyError."""
    with pytest.raises(KeyError, match="id"):
        function([[{"id": 1}, {}]], key=lambda item: item["id"])


@pytest.mark.parametrize("function", [rrf_scores, rrf_fuse, explain_fusion])
def test_an_unhashable_item_needs_a_key(function: Callable[..., Any]) -> None:
    """Without one it is a TypeError; with one the item may be anything."""
    with pytest.raises(TypeError):
        function([[["list", "item"]]])
    assert len(function([[["list", "item"]]], key=lambda item: item[0])) == 1


def test_representative_is_called_once_for_each_id_with_all_its_copies() -> None:
    """Copies come in list order, then by position; a single copy is no exception."""
    calls: list[list[str]] = []

    def representative(copies: list[str]) -> str:
        calls.append(list(copies))
        return copies[-1]

    lists = [["n0", "m0", "m1", "n1"], ["o2", "m2"]]
    rows = rrf_fuse(lists, key=lambda item: item[0], representative=representative)
    assert sorted(calls) == [["m0", "m1", "m2"], ["n0", "n1"], ["o2"]]
    assert {name: item for name, _, item in rows} == {"m": "m2", "n": "n1", "o": "o2"}


def test_what_representative_returns_is_not_checked() -> None:
    """None is as good an answer as an object that was never in a list."""
    assert rrf_fuse([["a"]], representative=lambda _: None) == [("a", 1 / 61, None)]
    assert rrf_fuse([["a"]], representative=len) == [("a", 1 / 61, 1)]


def test_an_error_in_representative_propagates() -> None:
    """It keeps its type, as that of a key does."""

    def refuse(_: object) -> None:
        raise LookupError("no copy is good enough")

    with pytest.raises(LookupError, match="good enough"):
        rrf_fuse([["a"]], representative=refuse)


def test_none_is_an_item_like_others() -> None:
    """A copy that is None is shown, and is offered."""
    assert rrf_fuse([[None, 0]]) == [(None, 1 / 61, None), (0, 1 / 62, 0)]
    assert rrf_fuse([[None, 0], [None]], representative=list) == [
        (None, 2 / 61, [None, None]),
        (0, 1 / 62, [0]),
    ]
    assert rrf_fuse([[None], ["copy"]], key=lambda _: "id") == [("id", 2 / 61, None)]
    assert rrf_fuse([[None], ["copy"]], key=lambda _: "id", representative=list) == [
        ("id", 2 / 61, [None, "copy"])
    ]


def test_equal_ids_are_one_id_shown_as_first_seen() -> None:
    """1, 1.0 and True are one id; "1" is another."""
    rows = rrf_fuse([[1.0, "1"], [True], [1]])
    assert [(type(name), name) for name, _, _ in rows] == [(float, 1.0), (str, "1")]
    assert list(map(type, rrf_scores([[True], [1]]))) == [bool]
    assert [type(row["identity"]) for row in explain_fusion([[1], [True]])] == [int]


def test_items_that_look_like_results_are_items() -> None:
    """An item is opaque: a pair is no id with a score, and a `Hit` is one more object that needs a key."""
    pair = ("a", 0.5)
    assert rrf_scores([[pair]]) == {pair: 1 / 61}
    assert rrf_fuse([[pair]]) == [(pair, 1 / 61, pair)]
    hit = Hit("a", item="copy")
    for function in (rrf_scores, rrf_fuse, explain_fusion):
        with pytest.raises(TypeError, match="hashable"):
            function([[hit]])
    ((name, score, item),) = rrf_fuse([[hit]], key=lambda result: result.id)
    assert (name, score) == ("a", 1 / 61)
    assert item is hit


def test_list_names_are_counted_before_k_is_checked() -> None:
    """Of two wrong arguments the names are reported."""
    with pytest.raises(ValueError, match="list_names length"):
        explain_fusion([["x"]], ["A", "B"], k=0)
    with pytest.raises(ValueError, match="list_names length"):
        explain_fusion([], ["A"])
    with pytest.raises(ValueError, match="list_names length"):
        explain_fusion([["x"], ["y"]], [])


def test_names_may_be_any_sequence() -> None:
    """A tuple of names is as good as a list."""
    assert explain_fusion([["x"], []], ("A", "B"))[0]["ranks"] == {"A": 1, "B": None}


def test_equal_names_let_the_later_list_overwrite_even_with_none() -> None:
    """The entry is that of the later list, also where that list lacks the id."""
    assert explain_fusion([["x"], ["y"]], ["A", "A"]) == [
        {"identity": "x", "ranks": {"A": None}, "rrf_score": 1 / 61},
        {"identity": "y", "ranks": {"A": 1}, "rrf_score": 1 / 61},
    ]


@settings(max_examples=100, deadline=None)
@given(lists=string_lists, k=st.floats(0.01, 1e6))
def test_the_three_functions_agree(lists: list[list[str]], k: float) -> None:
    """Scores, rows and explanations tell of the same fusion, and the sum is that of the formula."""
    scores = rrf_scores(lists, k=k)
    rows = rrf_fuse(lists, k=k)
    assert {name: score for name, score, _ in rows} == scores
    assert [(row["identity"], row["rrf_score"]) for row in explain_fusion(lists, k=k)] == [
        (name, score) for name, score, _ in rows
    ]
    assert [score for _, score, _ in rows] == sorted(scores.values(), reverse=True)
    for row in explain_fusion(lists, k=k):
        ranks = [rank for rank in row["ranks"].values() if rank is not None]
        exact = sum((1 / (Fraction(k) + rank) for rank in ranks), Fraction(0))
        assert abs(Fraction(row["rrf_score"]) - exact) <= Fraction(1, 10**15) * max(1, exact)
        assert list(row["ranks"].values()) == [
            one.index(row["identity"]) + 1 if row["identity"] in one else None for one in lists
        ]
