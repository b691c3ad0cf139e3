"""The rules of the core by example: ties, identity, copies, pages and windows."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Entry, expected_fusion
from stream_plans import Text, closed, in_full

from rrf_stream import Accumulator, Hit, fuse

# --- ties -------------------------------------------------------------------------------------------------


def book_order(lists: list[list[Any]]) -> list[Any]:
    """Return the ids in the order of the book, at the default rank constant and equal weights."""
    rankings = {f"list_{n}": [Entry(id_) for id_ in ids] for n, ids in enumerate(lists)}
    return [row.id for row in expected_fusion(rankings, weights=dict.fromkeys(rankings, 1))]


@settings(max_examples=100, deadline=None)
@given(order=st.permutations(["A", "B", "C"] * 3), top_k=st.integers(1, 9))
def test_three_way_ties_go_to_the_earlier_arm(order: list[str], top_k: int) -> None:
    """Disjoint arms interleave by rank, then by arm, in each order in which nine hits can arrive."""
    accumulator = Accumulator({"A": 1, "B": 1, "C": 1}, top_k=top_k)
    seen: dict[str, int] = dict.fromkeys("ABC", 0)
    for arm in order:
        seen[arm] += 1
        accumulator.add(arm, [f"{arm.lower()}{seen[arm]}"])
        accumulator.snapshot()
    ids = closed(accumulator).ids
    assert ids == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3"][:top_k]


def test_sums_that_are_equal_as_fractions_tie_however_they_come_about() -> None:
    """Ranks (6, 39) and (12, 28) at 60 are both 5/198, which doubles split; first sight decides."""
    left: list[Any] = [("left", n) for n in range(1, 40)]
    right: list[Any] = [("right", n) for n in range(1, 40)]
    left[6 - 1], right[39 - 1] = "six", "six"
    left[12 - 1], right[28 - 1] = "twelve", "twelve"
    assert 1 / (60 + 6) + 1 / (60 + 39) != 1 / (60 + 12) + 1 / (60 + 28)
    for lists in ([left, right], [right, left]):
        hits = {hit.id: hit for hit in fuse(lists)}
        assert hits["six"].score == hits["twelve"].score == 5 / 198
        assert (hits["six"].rank < hits["twelve"].rank) is (lists[0] is left)


@settings(max_examples=100, deadline=None)
@given(ranks=st.lists(st.integers(1, 40), min_size=2, max_size=5))
def test_no_order_of_addition_tells_equal_sums_apart(ranks: list[int]) -> None:
    """Ids whose ranks are permutations of one another over equal arms have one score, to the last bit."""
    scores = set()
    for permuted in itertools.islice(itertools.permutations(ranks), 24):
        lists = [[*((arm, n) for n in range(1, rank)), "id"] for arm, rank in enumerate(permuted)]
        scores.add(next(hit.score for hit in fuse(lists) if hit.id == "id"))
    assert len(scores) == 1


def test_a_tie_at_the_cut_is_won_back_by_a_late_lower_arm() -> None:
    """An id that lost a tie for the last place takes it when an earlier arm that adds nothing ranks it."""
    # 1e-30 / 61 is less than one unit of 2**-96, so "low" changes tie keys but never a score.
    accumulator = Accumulator({"low": 1e-30, "high": 1.0, "other": 1.0}, top_k=1)
    accumulator.add("high", ["first"])
    accumulator.add("other", ["second"])
    assert accumulator.snapshot().ids == ["first"]
    accumulator.add("low", ["second"])
    assert accumulator.snapshot().ids == ["second"]
    accumulator.add("low", ["first"])
    assert accumulator.snapshot().ids == ["second"]


def test_a_tie_at_exactly_half_a_step_below_the_cut_is_not_missed() -> None:
    """Half a step rounds up and so ties with a whole one; the earlier arm's id takes the only place."""
    step = 2.0**-64  # at rank constant 1, rank 1 earns half the weight: half a step for "low", one for "high"
    accumulator = Accumulator({"low": step, "high": 2 * step}, rank_constant=1, top_k=1)
    accumulator.add("high", ["x", "y"])
    assert accumulator.snapshot().ids == ["x"]
    accumulator.add("low", ["z"])
    assert accumulator.snapshot().ids == ["z"]
    assert [
        hit.id
        for hit in fuse(
            {"low": ["z"], "high": ["x", "y"]}, weights={"low": step, "high": 2 * step}, rank_constant=1
        )
    ] == ["z", "x", "y"]


def test_a_zero_weight_arm_decides_no_tie_and_lists_nothing() -> None:
    """Weight 0 neither lifts an id in a tie nor lists one, but what it ranked is told."""
    hits = fuse({"mute": ["b", "only"], "left": ["a"], "right": ["b"]}, weights={"mute": 0})
    assert [hit.id for hit in hits] == ["a", "b"]
    assert hits[1].ranks == {"mute": 1, "right": 1}
    assert hits[0].score == hits[1].score == 1 / 61
    assert hits[0].normalized == 1 / 2


def test_weights_of_one_are_no_weights() -> None:
    """Weights that are all 1 give the very hits that no weights give."""
    lists = {"a": ["x", "y", "z"], "b": ["z", "w"]}
    assert in_full(fuse(lists, weights={"a": 1, "b": 1.0})) == in_full(fuse(lists))


def test_weights_too_small_for_any_score_still_list_their_ids() -> None:
    """Where every contribution floors to nothing, ids are listed at 0 in first-seen order."""
    hits = fuse({"a": ["x", "y"], "b": ["z", "x"]}, weights={"a": 1e-40, "b": 1e-40})
    assert [(hit.id, hit.score, hit.normalized) for hit in hits] == [("x", 0, 0), ("y", 0, 0), ("z", 0, 0)]


def test_if_all_weights_are_zero_there_is_nothing_to_list() -> None:
    """No positive weight, no hits, and no division by nothing."""
    assert fuse({"a": ["x"]}, weights={"a": 0}) == []
    accumulator = Accumulator({"a": 0.0})
    accumulator.add("a", ["x"])
    assert closed(accumulator).hits == ()


def test_ties_by_id_sort_equal_scores_by_id() -> None:
    """With `ties="id"` the smaller id comes first, and only among equal scores."""
    lists = [["c", "z"], ["b", "y"], ["a", "z"]]
    assert [hit.id for hit in fuse(lists, ties="id")] == ["z", "a", "b", "c", "y"]
    assert [hit.id for hit in fuse(lists)] == ["z", "c", "b", "a", "y"]
    assert [hit.id for hit in fuse(lists, ties="id", top_k=3)] == ["z", "a", "b"]


HASHED = """
from rrf_stream import Accumulator, fuse
lists = {arm: [f"{arm}{n}" for n in range(20)] for arm in "cab"}
accumulator = Accumulator(dict.fromkeys(lists, 1), top_k=7)
for n in range(20):
    for arm, ids in lists.items():
        accumulator.add(arm, ids[n:n + 1])
        accumulator.snapshot()
print([hit.id for hit in fuse(lists)], accumulator.snapshot().ids)
"""


def test_no_hash_seed_changes_an_order() -> None:
    """A process with other string hashes gives the same order: by rank, then by arm as declared."""
    order = [f"{arm}{n}" for n in range(20) for arm in "cab"]
    for seed in "123":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(  # noqa: S603 - the program is a constant of this file
            [sys.executable, "-c", HASHED], env=environment, capture_output=True, text=True, check=True
        )
        assert run.stdout == f"{order} {order[:7]}\n"


# --- identity ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrival", list(itertools.permutations(range(3))))
@pytest.mark.parametrize(
    "equal", [(1.0, 1, True), (True, 1.0, 1), ("x", Text("x"), "x"), (Text("x"), "x", "x")]
)
def test_of_equal_ids_the_lowest_arms_object_is_shown(
    arrival: tuple[int, ...], equal: tuple[Any, ...]
) -> None:
    """Equal ids of several types are one id, shown as the first-declared of the arms that have ranked it."""
    accumulator = Accumulator({f"arm{n}": 1 for n in range(3)}, top_k=1)
    for n, arm in enumerate(arrival, 1):
        accumulator.add(f"arm{arm}", [equal[arm]])
        (hit,) = accumulator.snapshot().hits
        arrived = sorted(arrival[:n])
        assert hit.id is equal[arrived[0]]
        assert list(hit.ranks) == [f"arm{arm}" for arm in arrived]
    (batch,) = fuse([[id_] for id_ in equal])
    assert batch.id is equal[0]


def test_the_lowest_arms_object_is_shown_for_an_id_that_comes_back_into_the_top() -> None:
    """1 falls out of the top as the first arm gave it, and returns through another arm's True."""
    accumulator = Accumulator({"a": 1, "b": 1}, top_k=1)
    accumulator.add("a", ["x", 1])
    assert accumulator.snapshot().ids == ["x"]
    accumulator.add("b", [True])
    (hit,) = accumulator.snapshot().hits
    assert type(hit.id) is int


def test_a_zero_weight_arm_names_the_id_as_it_gives_the_copy() -> None:
    """The first-declared arm does both, whatever it weighs."""
    (hit,) = fuse({"mute": [Hit(1.0, item="mute's")], "loud": [Hit(1, item="loud's")]}, weights={"mute": 0})
    assert type(hit.id) is float
    assert hit.item == "mute's"


def test_within_an_arm_the_first_of_equal_ids_is_shown() -> None:
    """True after 1 in one arm is a repeat of 1."""
    (hit,) = fuse([[1, True, 1.0]])
    assert type(hit.id) is int
    assert hit.ranks == {"list_0": 1}


def test_ids_need_not_be_comparable() -> None:
    """Falsy ids, tuples and mixed types tie without being compared; None is not "None", "0" is not 0."""
    odd = [0, "", None, (), ("a", 1), "0", "None", frozenset({1}), b"0", 2.5]
    hits = fuse([[id_] for id_ in odd])
    assert [hit.id for hit in hits] == odd
    assert {hit.score for hit in hits} == {1 / 61}


@settings(max_examples=100, deadline=None)
@given(ids=st.permutations(["b", "a", 3, None, (1,), 2]), cut=st.integers(1, 6))
def test_every_id_type_survives_a_cut(ids: list[Any], cut: int) -> None:
    """The threshold never compares ids either."""
    assert (
        [hit.id for hit in fuse([[id_] for id_ in ids], top_k=cut)]
        == ids[:cut]
        == book_order([[i] for i in ids])[:cut]
    )


# --- copies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrival", list(itertools.permutations(["a", "b", "c"])))
def test_the_copy_shown_is_the_first_declared_arms(arrival: tuple[str, ...]) -> None:
    """`item` is the lowest arm's copy and `items` holds all, in the order of the arms, not of arrival."""
    accumulator = Accumulator(dict.fromkeys("abc", 1))
    for arm in arrival:
        accumulator.add(arm, [Hit("doc", score=3.0, item=f"from {arm}")])
    (hit,) = accumulator.snapshot().hits
    assert hit.item == "from a"
    assert list(hit.items.items()) == [("a", "from a"), ("b", "from b"), ("c", "from c")]


def test_scores_of_hits_are_never_read() -> None:
    """An arm's order is its ranking: neither a rising score nor NaN re-sorts it."""
    hits = fuse([[Hit("a", score=0.1), Hit("b", score=9.0), Hit("c", score=float("nan")), Hit("d")]])
    assert [hit.id for hit in hits] == ["a", "b", "c", "d"]


def test_a_copy_that_a_repeat_brings_is_a_change() -> None:
    """The repeat of an id earns nothing; the copy that comes with it is shown all the same."""
    accumulator = Accumulator({"a": 1, "b": 1}, top_k=1)
    accumulator.add("a", ["x", "y"])
    (hit,) = accumulator.snapshot().hits
    assert (hit.item, accumulator.changed) == (None, False)
    accumulator.add("a", [Hit("x", item="copy")])
    assert accumulator.changed
    (hit,) = accumulator.snapshot().hits
    assert (hit.item, hit.ranks) == ("copy", {"a": 1})

    chosen = Accumulator({"a": 1}, top_k=1, representative=tuple)
    chosen.add("a", [Hit("x", item="one"), Hit("y")])
    assert chosen.snapshot().hits[0].item == ("one",)
    chosen.add("a", [Hit("x", item="two")])
    assert chosen.changed
    assert chosen.snapshot().hits[0].item == ("one", "two")


def test_a_plain_id_has_no_copy() -> None:
    """`item` is None for plain ids, and `items` is empty."""
    (hit,) = fuse([["a"]])
    assert hit.item is None
    assert dict(hit.items) == {}


def test_a_repeat_with_a_copy_that_is_not_shown_is_no_news() -> None:
    """The first copy is shown, so a repeat changes nothing that anybody sees; copies are never compared."""

    class Incomparable:
        def __eq__(self, other: object) -> bool:
            raise ValueError("the truth value of an array is ambiguous")

        __hash__ = None  # type: ignore[assignment]

    accumulator = Accumulator({"a": 1}, top_k=1)
    page = [Hit("x", item=Incomparable()), Hit("y", item=Incomparable())]
    accumulator.add("a", page)
    assert accumulator.refresh() is not None
    accumulator.add("a", page)
    assert accumulator.refresh() is None
