"""How deep an arm is read, in what pieces, and how many arms there may be."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from stream_plans import closed, in_full

from rrf_stream import Accumulator, Arm, ArmStatus, fuse


@pytest.mark.parametrize(
    ("repeats", "ids", "ranks"),
    [
        ("consume", ["a", "a", "b", "c"], {"a": 1, "b": 3}),  # a, a, b use up three ranks
        ("skip", ["a", "a", "b", "a", "c", "d"], {"a": 1, "b": 2, "c": 3}),
    ],
)
def test_a_window_counts_ranks_that_are_used_up(repeats: Any, ids: list[str], ranks: dict[str, int]) -> None:
    """A window of 3 ends after three results, or after three different ids if repeats are skipped."""
    accumulator = Accumulator({"arm": 1}, window=3, repeats=repeats)
    assert accumulator.add("arm", ids) is False
    snapshot = accumulator.snapshot()
    assert {hit.id: hit.ranks["arm"] for hit in snapshot.hits} == ranks
    assert snapshot.coverage["arm"].status is ArmStatus.WINDOW_FULL
    assert snapshot.final


@pytest.mark.parametrize("page", [999, 4096, 4097, 10_000])
def test_ranks_and_scores_are_exact_at_any_depth(page: int) -> None:
    """Ten thousand ranks deep, in pages of any size, an id has 1/(60 + rank) in each arm, and both ranks."""
    ids = range(10_000)
    repeated = [*ids[:5000], *ids[4990:]]  # ten repeats use up the ranks 5001 to 5010
    lists: dict[str, list[Any]] = {"down": repeated, "up": [*reversed(ids)]}
    accumulator = Accumulator(dict.fromkeys(lists, 1), window=None, top_k=10_000, bounds="off")
    for start in range(0, 10_010, page):
        for arm, one in lists.items():
            accumulator.add(arm, one[start : start + page])
        accumulator.snapshot()
    hits = closed(accumulator).hits
    assert in_full(hits) == in_full(fuse(lists))
    for hit in hits:
        down, up = hit.id + 1 + 10 * (hit.id >= 5000), 10_000 - hit.id
        assert hit.ranks == {"down": down, "up": up}
        assert abs(hit.score - (1 / (60 + down) + 1 / (60 + up))) < 1e-15


def test_many_arms_keep_their_ranks_apart() -> None:
    """With forty arms of unlike windows each rank is told of its own arm, in the order of the arms."""
    arms = [Arm(f"arm{n:02}", [], window=n + 1) for n in range(40)]
    accumulator = Accumulator(arms, top_k=1)
    for n in reversed(range(40)):  # "id" stands last in each window: at rank n + 1 of arm n
        assert accumulator.add(f"arm{n:02}", [*((n, filler) for filler in range(n)), "id"]) is False
    (hit,) = accumulator.snapshot().hits
    assert list(hit.ranks.items()) == [(f"arm{n:02}", n + 1) for n in range(40)]
    exact = sum(Fraction(1, 60 + n + 1) for n in range(40))
    assert abs(Fraction(hit.score) - exact) < Fraction(1, 10**15)


def test_pages_may_be_any_iterable_read_once() -> None:
    """A page may be a generator, and a list of rankings may hold generators."""
    accumulator = Accumulator({"arm": 1})
    assert accumulator.add("arm", (f"d{n}" for n in range(3))) is True
    assert accumulator.rankings() == {"arm": ["d0", "d1", "d2"]}
    assert [hit.id for hit in fuse([(f"d{n}" for n in range(3)), iter(["d2"])])] == ["d2", "d0", "d1"]


def test_key_is_called_once_for_each_result() -> None:
    """In the stream as in the batch, in order, and not again for a snapshot."""
    calls: list[str] = []

    def key(item: str) -> str:
        calls.append(item)
        return item[0]

    accumulator = Accumulator({"a": 1, "b": 1}, key=key)
    accumulator.add("a", ["x1", "y1"])
    accumulator.snapshot()
    accumulator.add("b", ["y2", "x2"])
    closed(accumulator)
    assert calls == ["x1", "y1", "y2", "x2"]
    calls.clear()
    (x, y) = fuse({"a": ["x1", "y1"], "b": ["y2", "x2"]}, key=key)
    assert calls == ["x1", "y1", "y2", "x2"]
    assert (x.id, x.item, dict(x.items)) == ("x", "x1", {"a": "x1", "b": "x2"})
    assert (y.id, y.item, dict(y.items)) == ("y", "y1", {"a": "y1", "b": "y2"})
