"""Kernels in fusions: streams against batches and against the rules, and arms whose scores are no good."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import UNIT, Entry, nearest_step, ranked, within
from stream_plans import closed, feed, in_full

from rrf_stream import (
    Accumulator,
    AnyScale,
    Arm,
    ArmStatus,
    Hit,
    InverseSquareRank,
    Page,
    RankBiased,
    ReciprocalRank,
    TheoreticalMinMax,
    fuse,
    fuse_arms,
    open_fusion,
)
from rrf_stream._kernels import Kernel
from rrf_stream._ranking import Ranking
from rrf_stream._tally import arm_spec, layout_of
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BY_RANK: list[Kernel] = [RankBiased(), RankBiased(0.5), InverseSquareRank(), ReciprocalRank(1)]
BY_SCORE: list[Kernel] = [TheoreticalMinMax(0), TheoreticalMinMax(-1.0), TheoreticalMinMax(0.3)]


# --- streams, batches and the rules -----------------------------------------------------------------------


@dataclass(frozen=True)
class Mix:
    """Arms with kernels of their own, what they deliver, and in which pieces it arrives."""

    kernels: dict[str, Kernel]
    weights: dict[str, float]
    results: dict[str, list[Hit]]
    steps: list[tuple[str, int]]
    window: int
    repeats: Any
    top_k: int

    def accumulator(self) -> Accumulator:
        arms = [
            Arm(name, [], weight=self.weights[name], window=self.window, kernel=kernel)
            for name, kernel in self.kernels.items()
        ]
        return Accumulator(arms, top_k=self.top_k, repeats=self.repeats, bounds="off")

    def run(self, accumulator: Accumulator) -> Iterator[dict[str, int]]:
        """Feed the accumulator, and pause after each page with the number of results delivered."""
        taken = dict.fromkeys(self.results, 0)
        open_arms = set(self.results)
        for arm, size in [*self.steps, *((arm, 99) for arm in self.results)]:
            if arm in open_arms:
                start, taken[arm] = taken[arm], taken[arm] + size
                if not accumulator.add(arm, self.results[arm][start : taken[arm]]):
                    open_arms.remove(arm)
            yield taken


def worth(kernel: Kernel, weight: float, rank: int, score: Any, first: Any) -> int:
    """Return a contribution by the book."""
    if isinstance(kernel, AnyScale):
        return worth(kernel.kernel, weight, rank, score, first)
    if isinstance(kernel, RankBiased):
        phi = Fraction(kernel.persistence)
        value = (1 - phi) * phi ** (rank - 1)
    elif isinstance(kernel, InverseSquareRank):
        value = Fraction(1, rank**2)
    elif isinstance(kernel, ReciprocalRank):
        value = 1 / (Fraction(kernel.rank_constant) + rank)
    else:
        assert isinstance(kernel, TheoreticalMinMax)
        low, high = Fraction(kernel.floor), Fraction(first)
        value = max(Fraction(0), (Fraction(score) - low) / (high - low)) if high > low else Fraction(0)
    return math.floor(UNIT * Fraction(weight) * value)


def book(mix: Mix, counts: Mapping[str, int]) -> list[tuple[Any, str, dict[str, int]]]:
    """Return id, score and ranks of the best, by the rules alone."""
    units: dict[Any, int] = {}
    ranks: dict[Any, dict[str, int]] = {}
    first_seen: dict[Any, tuple[int, int]] = {}
    for index, (arm, hits) in enumerate(mix.results.items()):
        entries = [Entry(hit.id, hit.score) for hit in hits[: counts[arm]]]
        read = within(entries, repeats=mix.repeats, window=mix.window)
        for rank, entry in ranked(read, repeats=mix.repeats, window=mix.window):
            one = worth(mix.kernels[arm], mix.weights[arm], rank, entry.item, hits[0].score)
            units[entry.id] = units.get(entry.id, 0) + one
            ranks.setdefault(entry.id, {})[arm] = rank
            if mix.weights[arm] > 0:
                first_seen.setdefault(entry.id, (index, rank))
    order = sorted(first_seen, key=lambda id_: (-nearest_step(units[id_]), first_seen[id_]))
    return [(id_, (units[id_] / UNIT).hex(), ranks[id_]) for id_ in order[: mix.top_k]]


def rows(hits: Sequence[Any]) -> list[tuple[Any, str, dict[str, int]]]:
    return [(hit.id, hit.score.hex(), dict(hit.ranks)) for hit in hits]


@st.composite
def mixes(draw: st.DrawFn, *kernels: Kernel, alike: bool) -> Mix:
    """Draw a small fusion with many ties, repeats and equal scores; `alike` if `fuse` can do it too."""
    names = draw(st.lists(st.sampled_from("zyxw"), min_size=1, max_size=4, unique=True))
    score: st.SearchStrategy[Any] = st.sampled_from(
        [1, 0.9, 0.5, 0.3, 0.1, 1e-300, 0, -0.5, -1.0, -1.0000001, Fraction(1, 3)]
    )
    shared = draw(st.sampled_from(kernels))
    results = {}
    for name in names:
        ids = draw(st.lists(st.sampled_from("abcdef"), max_size=9))
        scores = sorted(draw(st.lists(score, min_size=len(ids), max_size=len(ids))), reverse=True)
        results[name] = [Hit(id_, value) for id_, value in zip(ids, scores, strict=True)]
    return Mix(
        kernels={name: shared if alike else draw(st.sampled_from(kernels)) for name in names},
        weights={name: draw(st.sampled_from([1, 1, 0.5, 0, 2, 3e-27, 1e200])) for name in names},
        results=results,
        steps=draw(st.lists(st.tuples(st.sampled_from(names), st.integers(0, 4)), max_size=12)),
        window=draw(st.integers(1, 5) | st.just(100)),
        repeats=draw(st.sampled_from(["consume", "skip"])),
        top_k=draw(st.integers(1, 4) | st.just(100)),
    )


@settings(max_examples=300, deadline=None)
@given(mix=mixes(*BY_RANK, *BY_SCORE, alike=True))
def test_every_kernel_streams_what_it_gives_in_a_batch(mix: Mix) -> None:
    """In any pages and any order a stream ends as `fuse` of the same results, bit for bit."""
    accumulator = mix.accumulator()
    for _ in mix.run(accumulator):
        accumulator.snapshot()
    cut = {arm: kept(mix, hits) for arm, hits in mix.results.items()}
    (kernel,) = set(mix.kernels.values())
    batch = fuse(cut, weights=mix.weights, kernel=kernel, top_k=mix.top_k, repeats=mix.repeats)
    assert in_full(closed(accumulator).hits) == in_full(batch)


def kept(mix: Mix, hits: list[Hit]) -> list[Hit]:
    """Return what an arm delivers before its window is full."""
    entries = [Entry(hit.id) for hit in hits]
    return hits[: len(within(entries, repeats=mix.repeats, window=mix.window))]


@settings(max_examples=300, deadline=None)
@given(mix=mixes(*map(AnyScale, [*BY_RANK, *BY_SCORE]), alike=False))
def test_each_snapshot_is_what_the_rules_say(mix: Mix) -> None:
    """With a kernel for each arm every snapshot has the exact scores, order and ranks of what has arrived.

    So has `fuse` of the rankings as they are.
    """
    accumulator = mix.accumulator()
    options: dict[str, Any] = {"weights": mix.weights, "top_k": mix.top_k, "repeats": mix.repeats}
    for counts in mix.run(accumulator):
        hits = accumulator.snapshot().hits
        assert rows(hits) == book(mix, counts)
        assert rows(fuse(accumulator.rankings(), kernel=mix.kernels, **options)) == rows(hits)


@settings(max_examples=200, deadline=None)
@given(mix=mixes(*map(AnyScale, [*BY_RANK, *BY_SCORE]), alike=False))
def test_nothing_is_worth_more_than_the_ceiling_before_it(mix: Mix) -> None:
    """What a rank adds is at most what `ceiling` told, and exactly that where ranks alone decide."""
    for name, kernel in mix.kernels.items():
        spec = arm_spec(name, kernel, mix.weights[name], mix.window)
        layout = layout_of((spec,))
        ranking = Ranking(layout, 0, skip_repeats=mix.repeats == "skip")
        hits = kept(mix, mix.results[name])
        for hit in hits:
            ceiling, addition = ranking.ceiling(), ranking.next_addition()
            assert addition >> layout.low == ceiling
            rank = len(ranking.ids) + 1
            _, gains = ranking.extend([hit])
            for gain in gains:
                assert layout.ranks(gain) == {name: rank} == layout.ranks(addition)
                assert gain <= addition
                if kernel in [*map(AnyScale, BY_RANK)]:
                    assert gain == addition
        whole = Ranking(layout, 0, skip_repeats=mix.repeats == "skip")
        whole.extend(mix.results[name])
        assert whole.next_addition() == ranking.next_addition()
        assert whole.results() == ranking.results()
        weights = {name: mix.weights[name]}
        again = fuse({name: whole.results()}, weights=weights, kernel=kernel, repeats=mix.repeats)
        assert again == fuse({name: hits}, weights=weights, kernel=kernel, repeats=mix.repeats)
        if ranking.is_full:
            assert ranking.ceiling() == ranking.next_addition() == 0
        elif hits:
            after = len(ranking.ids) + 1
            last = hits[-1].score
            assert ranking.ceiling() == worth(kernel, mix.weights[name], after, last, hits[0].score)


@pytest.mark.parametrize("kernel", [RankBiased(0.999), InverseSquareRank(), TheoreticalMinMax(0)], ids=repr)
@pytest.mark.parametrize("window", [None, 2049, 4200])
def test_the_ceiling_is_known_at_any_depth(kernel: Kernel, window: int | None) -> None:
    """Beyond the table too, between its blocks and within one."""
    layout = layout_of((arm_spec("a", kernel, 0.7, window),))
    ranking = Ranking(layout, 0)
    for rank in (0, *range(2040, 2060), 4100, 4199, 4200):
        ranking.extend([Hit(number, 1.0) for number in range(len(ranking.ids), rank)])
        if window is not None and rank >= window:
            assert ranking.next_addition() == ranking.ceiling() == 0
        else:
            assert ranking.ceiling() == worth(kernel, 0.7, rank + 1, 1.0, 1.0)
            assert layout.ranks(ranking.next_addition()) == {"a": rank + 1}


@pytest.mark.parametrize("kernel", [RankBiased(0.999), InverseSquareRank(), TheoreticalMinMax(0)], ids=repr)
@pytest.mark.parametrize("window", [None, 2049, 5000])
def test_deep_streams_are_the_batch(kernel: Kernel, window: int | None) -> None:
    """Two long arms with repeats, in pages of any size, give what `fuse` gives for what fits."""
    depth = 6000
    chance = random.Random(7)
    rankings = {
        arm: [Hit(f"id {chance.randrange(depth)}", (depth - rank) / 7) for rank in range(depth)]
        for arm in ("a", "b")
    }
    accumulator = Accumulator({"a": 1.0, "b": 0.7}, top_k=300, window=window, kernel=kernel, bounds="off")
    feed(accumulator, rankings, chance)
    within_window = {arm: ranking[:window] for arm, ranking in rankings.items()}
    batch = fuse(within_window, weights={"b": 0.7}, top_k=300, kernel=kernel)
    assert list(accumulator.snapshot().hits) == batch


def test_scores_that_differ_by_less_than_a_step_tie() -> None:
    """Sums of contributions compare as multiples of 2**-64, as everywhere; then the first arm decides."""
    high: Any = Fraction(1, 2)
    low: Any = high - Fraction(1, 8 * 2**64)
    first = [Hit("top", 1), Hit("y", low)]
    second = [Hit("other", 1), Hit("x", high)]
    got = fuse([first, second], kernel=TheoreticalMinMax(0))
    assert [hit.id for hit in got] == ["top", "other", "y", "x"]


# --- scores that are no good ------------------------------------------------------------------------------


def fresh(**options: Any) -> Accumulator:
    """Return an accumulator of scores whose arm `a` has delivered two results."""
    accumulator = Accumulator({"a": 1, "b": 1}, kernel=TheoreticalMinMax(0), **options)
    accumulator.add("a", [Hit("x", 0.9), Hit("y", 0.5)])
    return accumulator


NO_SCORE = r"results of arm 'a' must be Hit objects with a score, for TheoreticalMinMax.*none at rank 4"
BAD: list[tuple[Any, Any, str]] = [
    (Hit("bad", 0.45), ValueError, r"scores of arm 'a' must never rise: 0\.45 at rank 4 follows 0\.4"),
    (Hit("bad", math.inf), ValueError, r"score of arm 'a' at rank 4 must be a finite number, not inf"),
    (Hit("bad", -math.inf), ValueError, r"score of arm 'a' at rank 4 must be a finite number, not -inf"),
    (Hit("bad", math.nan), ValueError, r"score of arm 'a' at rank 4 must be a finite number, not nan"),
    (
        Hit("bad", cast("float", "0.1")),
        TypeError,
        r"score of arm 'a' at rank 4 must be a finite number, not '0\.1'",
    ),
    (Hit("bad"), TypeError, NO_SCORE),
    ("bad", TypeError, NO_SCORE),
]


@pytest.mark.parametrize(("bad", "kind", "message"), BAD, ids=[str(bad) for bad, _, _ in BAD])
@pytest.mark.parametrize("nested", [False, True])
def test_a_bad_score_is_refused_with_its_page(bad: Any, kind: Any, message: str, *, nested: bool) -> None:
    """The error names arm, rank and scores; nothing of the page is added, and the arm may go on."""
    accumulator = fresh()
    before = accumulator.snapshot().hits, accumulator.rankings()
    page = [Hit("z", 0.4), bad, Hit("w", 0.1)]
    with pytest.raises(kind, match=message):
        accumulator.add("a", [Page(page)] if nested else page)
    assert (accumulator.snapshot().hits, accumulator.rankings()) == before
    assert accumulator.add("a", [Hit("z", 0.45), Hit("w", 0.1)])  # what was refused set no new limit
    assert [hit.score for hit in accumulator.snapshot().hits] == pytest.approx([1, 5 / 9, 1 / 2, 1 / 9])
    with pytest.raises(kind, match="arm 'list_0'"):
        fuse([[Hit("z", 0.4), bad]], kernel=TheoreticalMinMax(0))


def test_the_first_score_of_an_arm_may_be_bad_too() -> None:
    """The next page then sets the scale."""
    accumulator = Accumulator({"a": 1}, kernel=TheoreticalMinMax(0))
    for bad in (Hit("x", math.nan), Hit("x", math.inf), Hit("x"), "x"):
        with pytest.raises((TypeError, ValueError), match="rank 1"):
            accumulator.add("a", [bad])
    accumulator.add("a", [Hit("y", 8), Hit("x", 2)])
    assert [(hit.id, hit.score) for hit in accumulator.snapshot().hits] == [("y", 1.0), ("x", 0.25)]


@pytest.mark.parametrize(("repeats", "place"), [("consume", "rank 5"), ("skip", "result 5")])
def test_every_result_read_must_not_rise_and_the_first_of_equal_ids_counts(repeats: Any, place: str) -> None:
    """A repeat has a score as well: it is held against its neighbours, and worth nothing."""
    accumulator = fresh(repeats=repeats)
    accumulator.add("a", [Hit("x", 0.4), Hit("y", 0.3)])
    assert [hit.score for hit in accumulator.snapshot().hits] == pytest.approx([1, 5 / 9])
    with pytest.raises(ValueError, match=f"0.35 at {place} follows 0.3"):
        accumulator.add("a", [Hit("z", 0.35)])
    accumulator.add("a", [Hit("z", 0.3), Hit("z", 0.1)])
    assert accumulator.snapshot().hits[2].score == pytest.approx(1 / 3)


def test_scores_past_the_window_are_not_looked_at() -> None:
    """They are dropped, so that it makes no difference in which page they came."""
    accumulator = Accumulator({"a": 1}, window=2, kernel=TheoreticalMinMax(0))
    assert not accumulator.add("a", [Hit("x", 2), Hit("y", 1), Hit("z", 5), "w"])
    assert [(hit.id, hit.score) for hit in accumulator.snapshot().hits] == [("x", 1.0), ("y", 0.5)]


def test_kernels_of_ranks_read_no_scores() -> None:
    """They may rise, be missing or be no numbers."""
    hits = [Hit("x", 0.1), Hit("y", math.nan), Hit("z"), Hit("w", "high")]  # type: ignore[arg-type]
    for kernel in BY_RANK:
        assert [hit.id for hit in fuse([hits], kernel=kernel)] == ["x", "y", "z", "w"]


def test_scores_may_be_numpys() -> None:
    """Each is the number that it is, and is told as one."""
    numpy = pytest.importorskip("numpy", reason="needs numpy")
    for kind in (numpy.float64, numpy.float32, numpy.float16, numpy.int64):
        scores = [kind(score) for score in (8, 3, 1)]
        hits = [Hit(rank, score) for rank, score in enumerate(scores)]
        got = fuse([hits], kernel=TheoreticalMinMax(0))
        assert [hit.score for hit in got] == [1.0, 0.375, 0.125]
        with pytest.raises(ValueError, match=r"rise: 3(\.0)? at rank 4 follows 1(\.0)?$"):
            fuse([[*hits, Hit("bad", scores[1])]], kernel=TheoreticalMinMax(0))
    tenth = numpy.float32(0.1)
    assert fuse([[Hit("x", tenth), Hit("y", 0.1)]], kernel=TheoreticalMinMax(0))[1].score < 1
    with pytest.raises(ValueError, match="rise"):
        fuse([[Hit("x", 0.1), Hit("y", tenth)]], kernel=TheoreticalMinMax(0))


@pytest.mark.anyio
async def test_an_arm_whose_scores_rise_fails_alone() -> None:
    """It is FAILED with the error, what came before the bad page counts, and the other arms go on."""
    source = script(Page([Hit("x", 0.9), Hit("y", 0.6)]), 0.001, Page([Hit("z", 0.3), Hit("w", 0.4)]))
    other = script(0.005, Hit("y", 12.0), Hit("v", 3.0))
    async with open_fusion(
        [
            Arm("dense", source, kernel=TheoreticalMinMax(0)),
            Arm("bm25", other, weight=0.5, kernel=TheoreticalMinMax(0)),
        ]
    ) as fusion:
        final = await fusion.final()
    dense, bm25 = final.coverage.arms
    assert (dense.status, dense.received, bm25.status) == (ArmStatus.FAILED, 2, ArmStatus.EXHAUSTED)
    assert str(dense.error) == "scores of arm 'dense' must never rise: 0.4 at rank 4 follows 0.3"
    assert [(hit.id, hit.score) for hit in final.hits] == [
        ("y", pytest.approx(0.6 / 0.9 + 0.5)),
        ("x", 1.0),
        ("v", pytest.approx(0.125)),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("bad", ["plain id", Hit("x"), Hit("x", math.nan), Hit("x", math.inf)])
async def test_an_arm_without_a_score_fails_alone(bad: Any) -> None:
    """It is FAILED, and says what it should have yielded."""
    final = await fuse_arms({"a": [bad], "b": [Hit("y", 1.0)]}, kernel=TheoreticalMinMax(0))
    assert [arm.status for arm in final.coverage.arms] == [ArmStatus.FAILED, ArmStatus.EXHAUSTED]
    assert "arm 'a'" in str(final.coverage["a"].error)
    assert final.ids == ["y"]
