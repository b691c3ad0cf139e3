"""What snapshots say of the future against every ending there is, where these are few enough to try."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from bounds_oracle import UNIT, by_trying
from bounds_pairs import by_pairs, worst_ranks
from bounds_states import KERNELS, Moment, right, says, small
from hypothesis import given, note, settings
from hypothesis import strategies as st

from rrf_stream import ArmStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS, ENDED, FULL = ArmStatus.STREAMING, ArmStatus.EXHAUSTED, ArmStatus.WINDOW_FULL
TIMED_OUT, FAILED = ArmStatus.TIMED_OUT, ArmStatus.FAILED


def try_all(moment: Moment) -> None:
    """Assert that a snapshot says what holds in every ending, and no less; and so does the other oracle."""
    state = moment.state
    truth, worst = by_trying(state)
    assert by_pairs(state) == truth
    snapshot = moment.snapshot()
    assert snapshot.ids == state.shown
    assert says(snapshot) == right(truth)
    limits = worst_ranks(state, state.shown)
    for hit in snapshot.hits:
        assert (hit.upper, hit.best_rank) == (truth.upper[hit.id] / UNIT, truth.best[hit.id])
        lowest, limit = worst[hit.id], limits[hit.id]
        assert hit.worst_rank is not None
        assert limit is not None
        assert lowest <= hit.worst_rank <= limit
        if len(state.open("settled")) <= 1:
            assert hit.worst_rank == lowest == limit
        for rank in range(1, hit.worst_rank + 2):
            assert hit.certainly_within(rank) is (rank >= hit.worst_rank)


def pairs_of_lines(window: int) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Give all that two arms may have delivered, up to the names of the ids."""
    for sizes in product(range(window + 1), repeat=2):
        for ids in product("abcdefgh"[: sum(sizes)], repeat=sum(sizes)):
            if [*dict.fromkeys(ids)] == sorted(set(ids)):
                yield ids[: sizes[0]], ids[sizes[0] :]


WEIGHTS = ((1, 1), (1, 0.5), (0.5, 1))


@pytest.mark.parametrize(
    ("kernel", "weights"),
    [*product(KERNELS, WEIGHTS), ("level", (0, 1)), ("level", (1, 0)), ("k=60", (0, 0))],
)
def test_every_state_of_two_arms_with_two_ranks_each(kernel: str, weights: tuple[float, float]) -> None:
    """Every pair of lists, every way in which the arms may stand, repeats that count or do not."""
    stands = (RUNS, ENDED, TIMED_OUT)
    for ids, first, second in product(pairs_of_lines(2), stands, stands):
        ends = (first, second)
        if all(end is RUNS or len(line) < 2 for line, end in zip(ids, ends, strict=True)):
            try_all(Moment(ids, weights, (2, 2), ends, kernel, top_k=2))
        if any(len(set(line)) < len(line) for line in ids):
            try_all(Moment(ids, weights, (2, 2), ends, kernel, top_k=2, repeats="skip"))


@settings(max_examples=800, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_every_ending_of_a_small_state(random: Random) -> None:
    """One to three arms of all kinds, windows of up to four ranks, as many ties as can be had."""
    moment = small(random)
    note(repr(moment))
    try_all(moment)
    assert says(moment.snapshot("settled")) == says(moment.snapshot("ranks"))


@dataclass(frozen=True)
class Worked:
    """A state that can be worked out by hand, and what holds in it."""

    moment: Moment
    order: str
    settled: int
    exact: int
    intervals: dict[str, tuple[int, int]]
    upper: dict[str, float] = field(default_factory=dict)


def worked(*arms: tuple[str, int, ArmStatus], **options: Any) -> Moment:
    """Return a moment of arms that are given by what they delivered, their window, and how they stand."""
    ids, windows, ends = zip(*arms, strict=True)
    return Moment(tuple(map(tuple, ids)), options.pop("weights", (1,) * len(ids)), windows, ends, **options)


SPLIT = (("abc", 100, ENDED), ("acb", 100, ENDED), ("", 2, RUNS))
BY_HAND = {
    "both running": Worked(
        worked(("ab", 3, RUNS), ("ac", 3, RUNS)),
        "abc",
        settled=1,
        exact=1,
        intervals={"a": (1, 1), "b": (2, 4), "c": (2, 4)},
        upper={"a": 2 / 61, "b": 1 / 62 + 1 / 63, "c": 1 / 62 + 1 / 63},
    ),
    "one running": Worked(
        worked(("a", 4, RUNS), ("acb", 100, ENDED)),
        "acb",
        settled=1,
        exact=1,
        intervals={"a": (1, 1), "c": (2, 4), "b": (2, 5)},
        upper={"a": 2 / 61, "c": 2 / 62, "b": 1 / 62 + 1 / 63},
    ),
    "one cut off": Worked(
        worked(("a", 4, TIMED_OUT), ("acb", 100, ENDED)),
        "acb",
        settled=3,
        exact=1,
        intervals={"a": (1, 1), "c": (2, 2), "b": (3, 3)},
        upper={"a": 2 / 61, "c": 1 / 62, "b": 1 / 63},
    ),
    "one silent": Worked(
        worked(("abcdef", 100, ENDED), ("", 2, RUNS)),
        "abcdef",
        settled=0,
        exact=0,
        intervals={"a": (1, 3), "b": (1, 4), "f": (1, 8)},
    ),
    "the silent arm loses a tie": Worked(
        worked(("a", 100, ENDED), ("", 1, RUNS)), "a", settled=1, exact=1, intervals={"a": (1, 1)}
    ),
    "the silent arm wins a tie": Worked(
        worked(("", 1, RUNS), ("a", 100, ENDED)), "a", settled=0, exact=0, intervals={"a": (1, 2)}
    ),
    "a light arm silent": Worked(
        worked(*SPLIT, weights=(1, 1, 0.25)),
        "abc",
        settled=0,
        exact=0,
        intervals={"a": (1, 3), "b": (1, 3), "c": (1, 3)},
    ),
    "a light arm silent, k=1": Worked(
        worked(*SPLIT, weights=(1, 1, 0.25), kernel="k=1"),
        "abc",
        settled=1,
        exact=1,
        intervals={"a": (1, 1), "b": (2, 3), "c": (2, 3)},
    ),
    # In steps of 2**-64 l has 3 + 3 + 5 quarters, a 3 + 5 and b 5 + 1: with the 5 of the last arm either
    # rounds to the 3 that l has. Then b, which has less than a, wins by the tie rule, and a does not.
    "the weaker of two equals wins the tie": Worked(
        worked(
            ("bla", 100, ENDED),
            ("alxyb", 100, ENDED),
            ("l", 100, ENDED),
            ("", 1, RUNS),
            kernel="grains",
            top_k=1,
        ),
        "l",
        settled=0,
        exact=0,
        intervals={"l": (1, 2)},
    ),
    "nothing asked": Worked(worked(("", 100, ENDED)), "", settled=0, exact=0, intervals={}),
    "an arm of no weight": Worked(
        worked(("a", 100, ENDED), ("ab", 100, RUNS), weights=(1, 0)),
        "a",
        settled=1,
        exact=1,
        intervals={"a": (1, 1)},
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_states_worked_out_by_hand(name: str) -> None:
    """Orders, certificates, intervals and upper scores are those that anyone can check on paper."""
    case = BY_HAND[name]
    snapshot = case.moment.snapshot()
    assert snapshot.ids == [*case.order]
    assert (snapshot.settled, snapshot.exact) == (case.settled, case.exact)
    hits = {hit.id: hit for hit in snapshot.hits}
    assert {id_: (hits[id_].best_rank, hits[id_].worst_rank) for id_ in case.intervals} == case.intervals
    assert {id_: hits[id_].upper for id_ in case.upper} == pytest.approx(case.upper, rel=1e-15)
