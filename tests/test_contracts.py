"""The batch functions that keep faith with other systems: what the vectors do not already show.

`tests/vectors` holds inputs and outputs. Here is the rest of each contract: signatures, errors, one-shot
inputs, what callbacks are given and how often, and rules that hold for all inputs.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rrf_stream import (
    ReciprocalRankFusion,
    RRFConfig,
    RRFFusion,
    explain_fusion,
    fuse,
    reciprocal_rank_fusion,
    rrf_fuse,
    rrf_scores,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

EMPTY = inspect.Parameter.empty
BAD_K = [0, -1, -0.5, math.nan, math.inf, -math.inf]

string_lists = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=4)
"""Small lists with repeats; ids are strings, since one of the systems sorts them."""


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    return [(name, parameter.default) for name, parameter in inspect.signature(function).parameters.items()]


# --- signatures -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (rrf_scores, [("rank_lists", EMPTY), ("key", None), ("k", 60)]),
        (rrf_fuse, [("rank_lists", EMPTY), ("key", None), ("k", 60), ("representative", None)]),
        (explain_fusion, [("rank_lists", EMPTY), ("list_names", None), ("key", None), ("k", 60)]),
        (reciprocal_rank_fusion, [("rankings", EMPTY), ("k", 60), ("top_n", None)]),
        (ReciprocalRankFusion().fuse, [("ranked_key_lists", EMPTY), ("k", 60), ("weights", ())]),
        (RRFConfig, [("k", 60.0), ("retrieve_k", 50), ("final_k", 10)]),
        (RRFFusion, [("config", RRFConfig())]),
        (RRFFusion().fuse, [("semantic", EMPTY), ("lexical", EMPTY)]),
        (RRFFusion.normalize_scores, [("scored", EMPTY)]),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_signature(function: Callable[..., Any], expected: list[tuple[str, Any]]) -> None:
    """Names, order and defaults are part of the contract, and each argument goes by position or by name."""
    assert parameters(function) == expected
    kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
    assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_key_fusion_takes_no_constructor_arguments() -> None:
    """There is nothing to configure in a `ReciprocalRankFusion`."""
    assert parameters(ReciprocalRankFusion) == []


def test_normalize_scores_is_static() -> None:
    """It is called on the class or on an instance, with one argument either way."""
    assert isinstance(inspect.getattr_static(RRFFusion, "normalize_scores"), staticmethod)


# --- f: what differs, and what does not -------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        rrf_scores,
        rrf_fuse,
        explain_fusion,
        reciprocal_rank_fusion,
        ReciprocalRankFusion().fuse,
        lambda lists: RRFFusion().fuse(*([(name, 0.0) for name in one] for one in lists)),
        fuse,
    ],
    ids=[
        "rrf_scores",
        "rrf_fuse",
        "explain_fusion",
        "reciprocal_rank_fusion",
        "key fusion",
        "RRFFusion",
        "fuse",
    ],
)
def test_no_function_changes_its_input(call: Callable[[list[list[str]]], object]) -> None:
    """Lists come back as they went in, and a second call gives the same."""
    lists = [["b", "a", "b", "c"], ["c", "d"]]
    first = call(lists)
    assert lists == [["b", "a", "b", "c"], ["c", "d"]]
    assert call(lists) == first


@settings(max_examples=100, deadline=None)
@given(lists=string_lists)
def test_each_system_gives_each_id_once(lists: list[list[str]]) -> None:
    """All list the same ids; only order, scores and cuts are theirs."""
    ids = {name for one in lists for name in one}
    answers: list[Iterable[Any]] = [
        list(rrf_scores(lists)),
        (row[0] for row in rrf_fuse(lists)),
        (row["identity"] for row in explain_fusion(lists)),
        (row[0] for row in reciprocal_rank_fusion(lists)),
        ReciprocalRankFusion().fuse(lists),
        (hit.id for hit in fuse(lists)),
    ]
    for answer in answers:
        assert Counter(answer) == Counter(ids)


@settings(max_examples=100, deadline=None)
@given(lists=string_lists)
def test_the_core_is_the_first_of_the_systems(lists: list[list[str]]) -> None:
    """`fuse` at its defaults gives the order and the scores of `rrf_fuse`."""
    assert [(hit.id, hit.score) for hit in fuse(lists)] == [
        (name, score) for name, score, _ in rrf_fuse(lists)
    ]


@settings(max_examples=100, deadline=None)
@given(lists=string_lists)
def test_without_repeats_key_fusion_orders_as_the_core(lists: list[list[str]]) -> None:
    """At equal weights the two differ in nothing but repeats."""
    distinct = [list(dict.fromkeys(one)) for one in lists]
    assert ReciprocalRankFusion().fuse(lists) == [hit.id for hit in fuse(distinct)]
    assert ReciprocalRankFusion().fuse(lists) == [hit.id for hit in fuse(lists, repeats="skip")]
