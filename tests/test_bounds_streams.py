"""Whole streams: what is certain stays, intervals only shrink, and in the end nothing is open."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import pytest
from bounds_states import KERNELS, NAMES, large
from bounds_watch import Watch, exact_in
from hypothesis import given, settings
from hypothesis import strategies as st

from rrf_stream import Accumulator, Arm, ArmStatus, _bounds, _groups, _intervals, _outside, fuse, fuse_arms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from bounds_states import Play

    from rrf_stream._bounds import BoundsMode


def complete(play: Play) -> list[int]:
    """Return the ids of the answer if every arm delivers all it has."""
    start = play.start
    rankings = dict(zip(NAMES, play.rankings, strict=False))
    weights = dict(zip(NAMES, start.weights, strict=False))
    options = KERNELS[start.kernel][0]
    hits = fuse(rankings, weights=weights, top_k=start.top_k, repeats=start.repeats, **options)
    return [hit.id for hit in hits]


@settings(max_examples=250, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_nothing_certain_is_taken_back(seed: int) -> None:
    """Settled positions and sets stay, ranks lie in all earlier intervals, and what is exact is what cut-off
    arms would have left as it is.
    """
    play = large(Random(seed))
    watch, in_full = Watch(), complete(play)
    for accumulator, state in play.run("ranks"):
        snapshot = accumulator.snapshot()
        watch.see(snapshot, state.table)
        exact_in(snapshot, in_full)
    assert watch.snapshots[-1].final


def test_most_streams_promise_something_early() -> None:
    """The claims above are not empty: positions are settled, and exact, long before the end."""
    early = cut = 0
    for seed in range(100):
        watch = Watch()
        for accumulator, state in large(Random(seed)).run("settled"):
            watch.see(accumulator.snapshot(), state.table)
        final = watch.snapshots[-1]
        early += watch.promised > 0
        cut += 0 < (final.exact or 0) < len(final.hits)
    assert early > 50
    assert cut > 5


def test_a_repeat_is_no_second_rival() -> None:
    """Of two documents one can pass the other, however often it was delivered and looked at."""
    accumulator = Accumulator([Arm("p", ()), Arm("silent", (), window=2)], top_k=1, bounds="ranks")
    for ids in (["a", "b"], ["b"], ["b"]):
        accumulator.add("p", ids)
        accumulator.snapshot()
    accumulator.close("p", ArmStatus.EXHAUSTED)
    (hit,) = accumulator.snapshot().hits
    assert (hit.id, hit.best_rank, hit.worst_rank) == ("a", 1, 2)


@contextmanager
def calls() -> Iterator[set[str]]:
    """Collect the names of the functions of the certificates that are called in the body."""
    modules = {module.__name__ for module in (_bounds, _groups, _intervals, _outside)}
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__") in modules:
            called.add(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize(
    ("bounds", "used"),
    [
        ("off", set[str]()),
        ("settled", {"Bounds.judge", "Groups.update"}),
        ("ranks", {"Bounds.judge", "Groups.update", "Intervals.of"}),
    ],
)
def test_nothing_is_paid_for_what_is_not_asked_for(bounds: BoundsMode, used: set[str]) -> None:
    """With "off" the only call is the one that sees so; ranks are worked out for those who want them."""
    with calls() as called:
        accumulator = Accumulator({"p": 1, "q": 1, "r": 1}, top_k=2, bounds=bounds)
        for arm in "pq":
            accumulator.add(arm, [1, 2, 3, arm])
            accumulator.refresh()
        accumulator.close("p", ArmStatus.FAILED)
        accumulator.snapshot()
        accumulator.close("q", ArmStatus.EXHAUSTED)
        accumulator.close("r", ArmStatus.EXHAUSTED)
        final = accumulator.snapshot()
    assert used <= called
    if bounds == "off":
        assert called == {"bounds_of"}
        assert (final.settled, final.theta, final.hits[0].upper) == (None, None, None)
    elif bounds == "settled":
        assert not [name for name in called if name.startswith("Intervals")]


def test_an_answer_in_full_is_certain_at_a_glance() -> None:
    """Of arms that have all delivered in full nobody looks for who may still enter."""
    with calls() as called:
        answer = asyncio.run(fuse_arms({"p": [*range(20)], "q": [*range(5, 25)]}, top_k=5))
    assert (answer.settled, answer.exact, answer.settled_set, answer.exact_set) == (5, 5, 5, 5)
    assert [hit.upper for hit in answer.hits] == [hit.score for hit in answer.hits]
    assert answer.contenders == ()
    assert "Bounds.judge" in called
    assert not [name for name in called if name.startswith(("Groups", "Intervals"))]
