"""What has arrived is sorted in on the way if it is much; no certificate depends on when."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from rrf_stream import Accumulator, Arm, ArmStatus, Page, Snapshot, _bounds, fuse_arms
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import Iterator


def certificates(snapshot: Snapshot) -> tuple[Any, ...]:
    return (
        snapshot.ids,
        (snapshot.settled, snapshot.exact, snapshot.settled_set, snapshot.exact_set),
        (snapshot.contenders, snapshot.unseen_possible, snapshot.blocking_arms, snapshot.theta),
        [hit.upper for hit in snapshot.hits],
    )


def snapshots(seed: int) -> Iterator[tuple[Any, ...]]:
    """Give what is certain along a stream of pages of three arms without a window."""
    chance = random.Random(seed)
    arms = [Arm(name, (), window=None, weight=weight) for name, weight in (("a", 1), ("b", 0.5), ("c", 2))]
    accumulator = Accumulator(arms, top_k=5, rank_constant=chance.choice([1, 60]))
    ids = [chance.sample(range(900), 600) for _ in arms]
    for turn in range(30):
        for arm, ranking in zip("abc", ids, strict=True):
            if chance.random() < 0.7:
                accumulator.add(arm, ranking[turn * 20 : turn * 20 + 20])
        if turn % 10 == 9:
            yield certificates(accumulator.snapshot())
    accumulator.close("a", ArmStatus.EXHAUSTED)
    yield certificates(accumulator.snapshot())


@pytest.mark.parametrize("seed", range(10))
def test_what_is_sorted_in_on_the_way_changes_no_certificate(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every few ids, or only for a snapshot: the same is certain."""
    at_once = list(snapshots(seed))
    monkeypatch.setattr(_bounds, "_BACKLOG", 7)
    assert list(snapshots(seed)) == at_once


def test_a_long_stream_leaves_little_to_be_sorted_in() -> None:
    """So the final snapshot is there in time, also of an arm that delivers without end."""
    accumulator = Accumulator([Arm("a", (), window=None), Arm("b", ())])
    for start in range(0, 20_000, 500):
        accumulator.add("a", range(start, start + 500))
    groups = accumulator._bounds._groups  # type: ignore[union-attr]  # bounds are on by default
    assert groups is not None
    assert groups._taken[0] >= 20_000 - _bounds._BACKLOG - 500


@pytest.mark.anyio
async def test_a_fusion_of_long_arms_says_the_same_as_ever() -> None:
    """Through the engine, with pages larger than the backlog."""
    pages = [Page(range(start, start + 3000)) for start in range(0, 9000, 3000)]
    final = await fuse_arms([Arm("a", script(*pages), window=None), Arm("b", script("x"))], top_k=3)
    assert (final.ids, final.settled, final.exact) == ([0, "x", 1], 3, 3)
