"""The core against the rules: whatever arrives in whatever pieces, the answer is the one in the book."""

from __future__ import annotations

import copy
import dataclasses
import random
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import UNIT, Expected, expected_fusion
from stream_plans import FORMS, PLAIN_IDS, Plan, closed, in_full, plans

from rrf_stream import ArmStatus, FusedHit, fuse

if TYPE_CHECKING:
    from collections.abc import Sequence


def agree(hits: Sequence[FusedHit], rows: Sequence[Expected]) -> None:
    """Assert that hits are the rows of the book."""
    assert [(type(hit.id), hit.id, hit.rank) for hit in hits] == [
        (type(row.id), row.id, row.rank) for row in rows
    ]
    for hit, row in zip(hits, rows, strict=True):
        assert hit.score.hex() == row.score.hex()
        assert list(hit.ranks.items()) == list(row.ranks.items())
        assert list(hit.items.items()) == list(row.items.items())
        assert hit.item == row.item
        assert 0 <= hit.normalized <= 1
        if row.best_possible > Fraction(1, 10**12):  # below that, whole units are too coarse a measure
            share = Fraction(row.units, UNIT) / row.best_possible
            assert hit.normalized == pytest.approx(float(share), rel=1e-9, abs=1e-15)


def book(plan: Plan, counts: dict[str, int]) -> list[Expected]:
    """Return what the rules demand for what a plan has delivered."""
    return expected_fusion(
        plan.entries(counts),
        weights=plan.weights,
        rank_constant=plan.rank_constant,
        top_k=plan.top_k,
        repeats=plan.repeats,
        representative=plan.representative,
    )


# --- batch, and stream against batch ----------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(plan=plans())
def test_batch_fusion_is_what_the_rules_say(plan: Plan) -> None:
    """`fuse` gives the ids, scores, ranks and copies of the exact rules, in their order."""
    agree(plan.batch(), book(plan, plan.all))


@settings(max_examples=300, deadline=None)
@given(plan=plans())
def test_a_stream_ends_as_the_batch_fusion_of_its_lists(plan: Plan) -> None:
    """The last snapshot equals `fuse` bit for bit, in whatever pages the lists arrived."""
    last = plan.final()
    assert last.final
    assert in_full(last.hits) == in_full(plan.batch())


@settings(max_examples=300, deadline=None)
@given(plan=plans(), looks=st.integers(0, 2**16 - 1))
def test_each_snapshot_is_the_fusion_of_what_has_arrived(plan: Plan, looks: int) -> None:
    """A snapshot equals `fuse` of the prefixes received, and no earlier look changes a later one."""
    accumulator = plan.accumulator()
    for page, counts in enumerate(plan.run(accumulator)):
        if looks >> page & 1:
            snapshot = accumulator.snapshot()
            assert in_full(snapshot.hits) == in_full(plan.batch(counts))
            agree(snapshot.hits, book(plan, counts))
    agree(closed(accumulator).hits, book(plan, plan.all))


@settings(max_examples=200, deadline=None)
@given(plan=plans(), data=st.data())
def test_the_order_of_arrival_changes_nothing(plan: Plan, data: st.DataObject) -> None:
    """Other pages in another order end in the same hits, looked at or not on the way."""
    arms = list(plan.rankings)
    steps = data.draw(st.lists(st.tuples(st.sampled_from(arms), st.integers(1, 3)), max_size=12))
    other = dataclasses.replace(plan, steps=[*steps, *((arm, 99) for arm in reversed(arms))])
    accumulator = other.accumulator()
    for _ in other.run(accumulator):
        accumulator.snapshot()
    assert in_full(closed(accumulator).hits) == in_full(plan.final().hits)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_small_top_of_many_ids_is_never_stale(seed: int) -> None:
    """With far more ids than `top_k` and a look after almost every page, no id is lost from the top."""
    # A weight of 3e-27 adds a unit or three: scores that differ, and still tie as multiples of 2**-64.
    rng = random.Random(seed)
    arms = "pqrstu"[: rng.randint(2, 6)]
    pool = range(rng.choice([6, 15, 40]))
    kinds = [rng.choice([int, float]) for _ in arms]  # equal ids of two types: which is shown must not vary
    depth = rng.choice([10, 40])
    steps = [(rng.choice(arms), rng.choice([1, 1, 2, 7])) for _ in range(40)]
    plan = Plan(
        rankings={
            arm: [*map(kind, rng.choices(pool, k=rng.randint(0, depth)))]
            for arm, kind in zip(arms, kinds, strict=True)
        },
        weights={arm: rng.choice([1, 1, 1, 2, 0.5, 3e-27, 3e-27, 1e9, 0]) for arm in arms},
        steps=sorted(steps) if rng.random() < 0.3 else steps,
        rank_constant=rng.choice([60, 60, 1, 0.5, 1e-6, 2.0**33]),
        top_k=rng.choice([1, 2, 3, 5]),
        window=rng.choice([5, 20, 100]),
        repeats=rng.choice(["consume", "skip"]),
        form="plain",
    )
    accumulator = plan.accumulator()
    for counts in plan.run(accumulator):
        if rng.random() < 0.8:
            assert in_full(accumulator.snapshot().hits) == in_full(plan.batch(counts))
    assert in_full(closed(accumulator).hits) == in_full(plan.batch())


@settings(max_examples=200, deadline=None)
@given(plan=plans(forms=["plain"]), parts=st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_scores_round_to_the_nearest_step_in_stream_and_batch(plan: Plan, parts: list[int]) -> None:
    """Around half a step of 2**-64 one unit decides about a tie; scores are rounded as the rules say."""
    # At rank constant 1 an arm of weight n / 2**64 gives n/2, n/3, n/4, ... steps.
    weights = {arm: part / 2**64 for arm, part in zip(plan.rankings, parts, strict=False)}
    plan = dataclasses.replace(plan, weights=weights, rank_constant=1)
    accumulator = plan.accumulator()
    for counts in plan.run(accumulator):
        agree(accumulator.snapshot().hits, book(plan, counts))
    agree(plan.batch(), book(plan, plan.all))


@settings(max_examples=200, deadline=None)
@given(plan=plans(), looks=st.integers(0, 2**16 - 1))
def test_what_counts_as_unchanged_is_unchanged(plan: Plan, looks: int) -> None:
    """If nothing `changed`, or `refresh` gives None, hits and statuses are those of the last snapshot."""
    accumulator = plan.accumulator()
    before = accumulator.snapshot()
    for page, _ in enumerate(plan.run(accumulator)):
        if looks >> page & 1:
            changed = accumulator.changed
            refreshed = accumulator.refresh()
            after = accumulator.snapshot()
            assert not accumulator.changed
            shown = [
                (in_full(seen.hits), [arm.status for arm in seen.coverage.arms]) for seen in (before, after)
            ]
            if refreshed is None:
                assert shown[0] == shown[1]
            else:
                assert changed
                assert in_full(refreshed.hits) == in_full(after.hits)
            before = after


# --- what stays as it was ---------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(plan=plans())
def test_inputs_are_not_changed(plan: Plan) -> None:
    """Lists, weights and the objects in them are the same after fusion as before."""
    lists = plan.prefixes(plan.all)
    weights = dict(plan.weights)
    before = copy.deepcopy(lists)
    objects = {arm: [id(hit) for hit in hits] for arm, hits in lists.items()}
    fuse(lists, weights=weights, **plan.options)
    accumulator = plan.accumulator()
    for arm, hits in lists.items():
        accumulator.add(arm, hits)
    closed(accumulator)
    assert lists == before
    assert {arm: [id(hit) for hit in hits] for arm, hits in lists.items()} == objects
    assert weights == plan.weights


@settings(max_examples=100, deadline=None)
@given(plan=plans())
def test_rankings_are_what_the_snapshot_was_made_of(plan: Plan) -> None:
    """`fuse(accumulator.rankings(), ...)` gives the snapshot back; what it returns is the caller's own."""
    accumulator = plan.accumulator()
    options = {**plan.options, "key": None, "representative": None}
    for _ in plan.run(accumulator):
        before = accumulator.snapshot().hits
        again = fuse(accumulator.rankings(), weights=plan.weights, **options)
        assert [(hit.id, hit.score, hit.normalized, hit.ranks) for hit in again] == [
            (hit.id, hit.score, hit.normalized, hit.ranks) for hit in before
        ]
        for ids in accumulator.rankings().values():
            ids.clear()
        assert in_full(accumulator.snapshot().hits) == in_full(before)


@settings(max_examples=100, deadline=None)
@given(plan=plans(forms=["plain"]))
def test_an_older_snapshot_does_not_move(plan: Plan) -> None:
    """A snapshot is a view of one moment: nothing that comes later shows in it."""
    accumulator = plan.accumulator()
    kept = []
    for _ in plan.run(accumulator):
        snapshot = accumulator.snapshot()
        kept.append((snapshot, in_full(snapshot.hits), snapshot.coverage.arms))
    closed(accumulator)
    assert all(
        in_full(snapshot.hits) == hits and snapshot.coverage.arms == arms for snapshot, hits, arms in kept
    )


# --- windows and states -----------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(plan=plans(ids=PLAIN_IDS, forms=FORMS[:3]))
def test_an_arm_is_read_to_its_window_and_then_closes(plan: Plan) -> None:
    """`add` says whether more is wanted; the arm is WINDOW_FULL at that very hit and counts no other."""
    accumulator = plan.accumulator()
    for counts in plan.run(accumulator):
        snapshot = accumulator.snapshot()
        for arm, entries in plan.entries(counts).items():
            used = len(entries) if plan.repeats == "consume" else len({entry.id for entry in entries})
            report = snapshot.coverage[arm]
            assert report.received == len(entries)
            assert report.window == plan.window
            assert report.weight == plan.weights[arm]
            if used == plan.window:
                assert report.status is ArmStatus.WINDOW_FULL
            else:
                assert report.status is (ArmStatus.STREAMING if entries else ArmStatus.WAITING)
        reports = snapshot.coverage.arms
        assert [report.name for report in reports] == list(plan.rankings)
        assert snapshot.final is all(report.status is ArmStatus.WINDOW_FULL for report in reports)


@settings(max_examples=100, deadline=None)
@given(plan=plans(forms=["plain"]), sized=st.integers(1, 9))
def test_a_smaller_top_is_the_beginning_of_a_larger_one(plan: Plan, sized: int) -> None:
    """`top_k` cuts and does nothing else."""
    whole = dataclasses.replace(plan, top_k=100)
    part = dataclasses.replace(plan, top_k=sized)
    assert in_full(part.batch()) == in_full(whole.batch())[:sized]
    assert in_full(part.final().hits) == in_full(whole.final().hits)[:sized]
    uncut = fuse(plan.prefixes(plan.all), weights=plan.weights, **{**plan.options, "top_k": None})
    assert in_full(uncut) == in_full(whole.batch())
