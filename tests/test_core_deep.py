"""Ranks far down: where contributions are no longer tabulated for good, but block by block."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from stream_plans import feed

from rrf_stream import Accumulator, fuse

if TYPE_CHECKING:
    from fractions import Fraction

DEPTH = 7000


@pytest.mark.parametrize("window", [None, 2049, 5000, 10_000])
def test_deep_streams_are_the_batch(window: int | None) -> None:
    """Two long arms with repeats, in pages of any size, give what `fuse` gives for what fits."""
    chance = random.Random(3)
    rankings = {arm: [f"id {chance.randrange(DEPTH)}" for _ in range(DEPTH)] for arm in ("a", "b")}
    accumulator = Accumulator({"a": 1.0, "b": 0.7}, top_k=5, window=window)
    feed(accumulator, rankings, chance)
    within = {arm: ranking[:window] for arm, ranking in rankings.items()}
    assert list(accumulator.snapshot().hits) == fuse(within, weights={"b": 0.7}, top_k=5)


def test_every_deep_rank_is_worth_what_it_says() -> None:
    """At any depth a document has its rank, and 1 / (60 + rank)."""
    accumulator = Accumulator({"a": 1}, top_k=DEPTH, window=None)
    for start in range(0, DEPTH, 700):
        accumulator.add("a", range(start, start + 700))
    for hit in accumulator.snapshot().hits:
        assert hit.ranks == {"a": hit.id + 1}
        assert hit.score == pytest.approx(1 / (60 + hit.id + 1), rel=1e-12)


@dataclass(frozen=True)
class Rises:
    """A kernel that breaks its promise after some rank."""

    after: int

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return more for the ranks after that one."""
        return [int(weight * (2**95 if rank > self.after else 2**80)) for rank in ranks]


@pytest.mark.parametrize("after", [5, 2048, 2100, 4097])
def test_a_kernel_that_rises_is_refused_at_any_depth(after: int) -> None:
    """Also where the rise falls between two pages; and nothing of the second is added."""
    with pytest.raises(ValueError, match="kernel"):  # noqa: PT012 - by when depends on the depth
        accumulator = Accumulator({"a": 1}, window=None, kernel=Rises(after))
        accumulator.add("a", [f"up to {rank}" for rank in range(after)])
        accumulator.add("a", ["after"])
    if after > 2048:
        accumulator = Accumulator({"a": 1}, window=None, kernel=Rises(after))
        accumulator.add("a", [f"up to {rank}" for rank in range(100)])
        assert accumulator.snapshot().hits[0].id == "up to 0"
