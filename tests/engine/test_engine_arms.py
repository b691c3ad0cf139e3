"""What an arm adds to the fusion: its hits, by its window, weight and kernel."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import pytest
from engine_kit import assert_is_batch, forever, read, received, statuses

from rrf_stream import (
    Arm,
    ArmStatus,
    FusedHit,
    Hit,
    Kernel,
    Page,
    ReciprocalRank,
    fuse_arms,
    open_fusion,
)
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from fractions import Fraction

pytestmark = pytest.mark.anyio
BY_ID = operator.itemgetter("id")


async def test_ranks_weights_and_items_explain_each_hit() -> None:
    """A hit carries its rank in each arm, the sum weight / (60 + rank), and the copy of each arm."""
    final = await fuse_arms(
        [
            Arm("dense", [Hit("x", score=0.9, item="dense x"), Hit("y", item="dense y")]),
            Arm("bm25", ["y", "z", Hit("x", item="bm25 x")], weight=0.5),
        ]
    )
    x, y, z = final.hits
    assert [x.id, y.id, z.id] == ["x", "y", "z"]
    assert x.score == pytest.approx(1 / (60 + 1) + 0.5 / (60 + 3), rel=1e-14)
    assert y.score == pytest.approx(1 / (60 + 2) + 0.5 / (60 + 1), rel=1e-14)
    assert x.normalized == pytest.approx(x.score / (1 / 61 + 0.5 / 61), rel=1e-14)
    assert (x.ranks, y.ranks, z.ranks) == ({"dense": 1, "bm25": 3}, {"dense": 2, "bm25": 1}, {"bm25": 2})
    assert (x.item, x.items) == ("dense x", {"dense": "dense x", "bm25": "bm25 x"})
    assert (y.item, y.items, z.item) == ("dense y", {"dense": "dense y"}, None)


async def test_a_key_gives_the_id_of_any_result() -> None:
    """With a key results are objects; a `Hit` needs no key."""
    rows = [{"id": 7, "from": "a"}, Hit(8, item="hit")]
    final = await fuse_arms({"a": rows, "b": script({"id": 8, "from": "b"})}, key=BY_ID)
    assert final.ids == [8, 7]
    assert final.hits[0].items == {"a": "hit", "b": {"id": 8, "from": "b"}}
    assert rows == [{"id": 7, "from": "a"}, Hit(8, item="hit")]


async def test_a_key_that_raises_fails_its_arm_only() -> None:
    """The result that has no id closes its arm as FAILED, with the key's own error and all before it kept."""
    final = await fuse_arms({"a": script({"id": 1}, {"no id": 2}, {"id": 3}), "b": [{"id": 4}]}, key=BY_ID)
    assert final.ids == [1, 4]
    assert statuses(final) == {"a": ArmStatus.FAILED, "b": ArmStatus.EXHAUSTED}
    assert isinstance(final.coverage["a"].error, KeyError)


async def test_an_id_that_is_not_hashable_fails_its_arm_only() -> None:
    """A list is no id: its arm is FAILED with a TypeError, and nothing of its page counts."""
    final = await fuse_arms({"a": script("x", Page(["y", ["z"]])), "b": ["w"]})
    assert final.ids == ["x", "w"]
    assert isinstance(final.coverage["a"].error, TypeError)


async def test_a_window_ends_its_arm() -> None:
    """An arm is read to its window and no further, closed, and counts as answered in full."""
    source = script("p", "q", "r", "s")
    final = await fuse_arms([Arm("a", source, window=2), Arm("b", ["r"])])
    assert statuses(final) == {"a": ArmStatus.WINDOW_FULL, "b": ArmStatus.EXHAUSTED}
    assert final.ids == ["p", "r", "q"]
    assert final.coverage["a"].window == 2
    assert final.coverage.full
    assert await anext(source, "closed") == "closed"


async def test_a_page_beyond_the_window_is_cut() -> None:
    """Of a page of five results an arm with a window of three takes three."""
    final = await fuse_arms([Arm("a", [*"pqrst"], window=3)])
    assert final.ids == ["p", "q", "r"]
    assert received(final) == {"a": 3}
    assert statuses(final) == {"a": ArmStatus.WINDOW_FULL}


async def test_an_arm_that_ends_with_its_window_is_full() -> None:
    """Whether anything followed the last rank of the window is never asked."""
    final = await fuse_arms([Arm("a", script("p", "q", hang=True), window=2)])
    assert statuses(final) == {"a": ArmStatus.WINDOW_FULL}


async def test_the_window_is_a_hundred_ranks_unless_given() -> None:
    """The default window takes 100 of 150 results; None takes all."""
    final = await fuse_arms([Arm("a", range(150)), Arm("b", range(150), window=None)])
    assert received(final) == {"a": 100, "b": 150}
    assert statuses(final) == {"a": ArmStatus.WINDOW_FULL, "b": ArmStatus.EXHAUSTED}


async def test_an_endless_arm_ends_with_its_window() -> None:
    """A source that never ends and never waits is stopped by its window."""

    async def endless() -> AsyncIterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    assert received(await fuse_arms([Arm("a", endless(), window=1000)])) == {"a": 1000}


async def test_an_arm_of_weight_zero_is_read_but_lists_nothing() -> None:
    """It is reported, and explains hits of other arms, but brings none of its own."""
    final = await fuse_arms([Arm("silent", ["x", "y"], weight=0), Arm("b", ["y"])])
    assert final.ids == ["y"]
    assert final.hits[0].score == pytest.approx(1 / 61)
    assert received(final) == {"silent": 2, "b": 1}


async def test_ties_are_broken_by_the_order_of_the_arms_not_of_arrival() -> None:
    """The last-declared arm delivers first, and still comes last among equal scores."""
    final = await fuse_arms({"first": script(0.002, "z"), "second": ["a"]})
    assert final.ids == ["z", "a"]
    assert final.hits[0].score == final.hits[1].score


@pytest.mark.parametrize(("repeats", "rank"), [("consume", 5), ("skip", 3)])
async def test_repeats_use_up_ranks_or_not(repeats: Any, rank: int) -> None:
    """After x, dup, dup, dup the next result has rank 5, or with "skip" rank 3."""
    source = script("x", Page(["dup", "dup"]), "dup", "y")
    async with open_fusion({"a": source}, repeats=repeats) as fusion:
        final = await fusion.final()
        assert_is_batch(final, fusion, repeats=repeats)
    assert {hit.id: hit.ranks["a"] for hit in final.hits} == {"x": 1, "dup": 2, "y": rank}


async def test_the_representative_chooses_among_all_copies() -> None:
    """It gets every copy, by the order of the arms, whatever arrived first."""
    late = script(0.002, Hit("x", item="late"))
    final = await fuse_arms({"a": late, "b": [Hit("x", item="early")]}, representative=tuple)
    assert final.hits[0].item == ("late", "early")
    shown = await fuse_arms({"a": [Hit("x", item="long text")], "b": [Hit("x", item="text")]})
    assert shown.hits[0].item == "long text"


async def test_a_representative_that_raises_reaches_the_reader() -> None:
    """What the caller's own function raises while a snapshot is made is the reader's to see."""

    def choose(_: list[Any]) -> Any:
        raise LookupError("no favourite")

    with pytest.raises(LookupError, match="no favourite"):
        await fuse_arms({"a": [Hit("x", item=1)]}, representative=choose)
    with pytest.raises(LookupError, match="no favourite"):
        await read(open_fusion({"a": [Hit("x", item=1)], "b": forever()}, representative=choose))


class Tenths:
    """Worth a tenth of the weight at any rank."""

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        return [int(weight * 2**96) // 10 for _ in ranks]


async def test_kernels_are_of_the_fusion_or_of_an_arm() -> None:
    """An arm's own kernel wins over the fusion's, which wins over the rank constant of 60."""
    assert isinstance(Tenths(), Kernel)
    sharp = await fuse_arms(
        [Arm("a", ["x"]), Arm("b", ["y"], kernel=ReciprocalRank(1))], kernel=ReciprocalRank(9)
    )
    assert [(hit.id, hit.score) for hit in sharp.hits] == [("y", 1 / (1 + 1)), ("x", 1 / (9 + 1))]
    assert (await fuse_arms({"a": ["x"]}, kernel=Tenths())).hits[0].score == pytest.approx(0.1)
    assert (await fuse_arms({"a": ["x"]}, rank_constant=3)).hits[0].score == 1 / (3 + 1)


async def test_kernels_of_two_families_are_refused_without_a_trace() -> None:
    """Contributions of two families have no common scale; no half-built fusion is left to warn."""
    with pytest.raises(ValueError, match="one family"):
        open_fusion([Arm("a", ["x"], kernel=Tenths()), Arm("b", ["y"])])


async def test_odd_ids_are_ids() -> None:
    """0, the empty text, None and tuples are ids like any other."""
    final = await fuse_arms({"a": script(0, "", None, (1, "x"), Hit(0.5))})
    assert final.ids == [0, "", None, (1, "x"), 0.5]


def test_hits_of_a_snapshot_are_what_the_door_shows() -> None:
    """The fields of a fused hit are those the design fixes."""
    assert FusedHit._fields == (
        *("id", "rank", "score", "normalized", "item", "items", "ranks"),
        *("upper", "best_rank", "worst_rank"),
    )
