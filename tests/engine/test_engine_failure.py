"""What the failure of an arm costs: its own results, and nothing else, unless it is required."""

from __future__ import annotations

import operator
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import assert_is_batch, read, received, statuses

from rrf_stream import (
    Arm,
    ArmStatus,
    Outcome,
    Snapshot,
    fuse_arms,
    in_thread,
    open_fusion,
    set_thread_limit,
)
from rrf_stream.errors import ArmError, DegradedError, ThreadLimitError
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.anyio
BY_ID = operator.itemgetter("id")


# --- failure ----------------------------------------------------------------------------------------------


class NoWordsError(Exception):
    """An error that cannot be put into words."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


async def test_a_failing_arm_keeps_what_it_delivered_and_costs_nothing_else() -> None:
    """Its hits stay, its error is kept as it was raised, and the other arms go on."""
    error = OSError("connection lost")
    async with open_fusion({"bad": script("x", "y", fail=error), "good": script(0.002, "z", "x")}) as fusion:
        final = await fusion.final()
        assert_is_batch(final, fusion)
    assert final.ids == ["x", "z", "y"]
    assert final.coverage["bad"].error is error
    assert statuses(final) == {"bad": ArmStatus.FAILED, "good": ArmStatus.EXHAUSTED}
    assert received(final) == {"bad": 2, "good": 2}
    assert final.outcome is Outcome.COMPLETE
    assert (final.coverage.full, final.coverage.degraded) == (False, True)
    assert (final.coverage.reasons, final.coverage.answered) == ((ArmStatus.FAILED,), ("good",))


def _raise(*_: Any) -> Any:
    raise OSError("down")


async def _raise_later() -> Any:
    raise OSError("down")


class NotOpened:
    """A source that fails before it can be read."""

    def __aiter__(self) -> AsyncIterator[str]:
        raise OSError("down")


@pytest.mark.parametrize(
    "source",
    [
        lambda: _raise,
        lambda: _raise_later,
        lambda: map(_raise, "x"),
        NotOpened,
        lambda: script(fail=OSError("down")),
        lambda: script(0.001, fail=OSError("down")),
    ],
    ids=["call", "await", "iteration", "opening", "first step", "later step"],
)
async def test_an_arm_may_fail_at_any_step(source: Callable[[], Any]) -> None:
    """A call, an await, an opening, a first step, a later one: each is the same failure of the one arm."""
    final = await fuse_arms({"bad": source(), "good": ["x"]})
    assert isinstance(final.coverage["bad"].error, OSError)
    assert statuses(final) == {"bad": ArmStatus.FAILED, "good": ArmStatus.EXHAUSTED}
    assert final.ids == ["x"]


async def test_an_error_without_words_is_kept_like_any_other() -> None:
    """An error whose own `repr` raises fails its arm, on time, and is kept."""
    final = await fuse_arms({"bad": script("x", fail=NoWordsError()), "good": ["y"]}, timeout=5)
    assert statuses(final) == {"bad": ArmStatus.FAILED, "good": ArmStatus.EXHAUSTED}
    assert isinstance(final.coverage["bad"].error, NoWordsError)
    assert final.outcome is Outcome.COMPLETE


async def test_all_arms_failed_is_an_empty_degraded_answer() -> None:
    """The final snapshot comes, is empty, and says so when asked."""
    final = await fuse_arms({"a": script(fail=OSError("a")), "b": script(fail=KeyError("b"))})
    assert (final.hits, final.final, final.outcome) == ((), True, Outcome.COMPLETE)
    assert final.coverage.degraded
    assert final.coverage.weight_fraction == 0
    with pytest.raises(
        DegradedError, match=r"a \(failed after 0 hits\), b \(failed after 0 hits\)"
    ) as caught:
        final.raise_for_coverage()
    assert caught.value.coverage is final.coverage
    assert isinstance(caught.value.__cause__, OSError)


async def test_no_arms_is_a_complete_empty_answer() -> None:
    """There was nothing to ask, and everything asked has answered."""
    for snapshots in ([await fuse_arms({})], await read(open_fusion([]))):
        (final,) = snapshots
        assert (final.ids, final.final, final.seq, final.outcome) == ([], True, 1, Outcome.COMPLETE)
        assert final.coverage.full
        final.raise_for_coverage()


async def test_coverage_tells_an_empty_answer_from_a_failed_one() -> None:
    """Both have no hits; only one raises."""
    nothing_found = await fuse_arms({"a": []})
    nothing_asked = await fuse_arms({"a": script(fail=OSError("down"))})
    assert nothing_found.ids == nothing_asked.ids == []
    nothing_found.raise_for_coverage()
    with pytest.raises(DegradedError):
        nothing_asked.raise_for_coverage()


async def test_the_weight_fraction_is_the_share_of_the_arms_that_answered() -> None:
    """Weights 3, 1, 1 of which the last fails: (3 + 1) / (3 + 1 + 1)."""
    final = await fuse_arms(
        [
            Arm("a", ["x"], weight=3),
            Arm("b", []),
            Arm("c", script("y", fail=OSError("down"))),
        ]
    )
    assert final.coverage.weight_fraction == pytest.approx(4 / 5)


# --- required arms ----------------------------------------------------------------------------------------


async def test_the_failure_of_a_required_arm_is_raised_with_its_cause() -> None:
    """`ArmError` names the arm, its cause is the arm's own error, and neither is wrapped in a group."""
    error = OSError("down")
    arms = [Arm("must", script("x", fail=error), required=True), Arm("other", script(hang=True))]
    with pytest.raises(ArmError, match="'must' failed") as caught:
        await fuse_arms(arms)
    assert caught.value.arm == "must"
    assert caught.value.__cause__ is error


async def test_a_required_arm_that_finds_no_thread_fails_the_fusion() -> None:
    """REJECTED means that it was not read at all, so the answer fails at once."""
    before = set_thread_limit(1)
    go = threading.Event()
    try:
        async with open_fusion({"holds the thread": in_thread(go.wait)}) as other:
            await anyio.lowlevel.checkpoint()
            arms = [Arm("must", in_thread(list), required=True), Arm("other", script(hang=True))]
            with pytest.raises(ArmError, match="'must' was rejected: ThreadLimitError") as caught:
                await fuse_arms(arms)
            assert isinstance(caught.value.__cause__, ThreadLimitError)
            go.set()
            assert statuses(await other.final()) == {"holds the thread": ArmStatus.FAILED}
    finally:
        go.set()
        set_thread_limit(before)


async def test_a_reader_gets_the_final_snapshot_before_the_error() -> None:
    """The stream ends with a final snapshot, FAILED, then raises once; the other arms were stopped."""
    other = script("y", hang=True)
    arms = [Arm("must", script("x", fail=OSError("down")), required=True), Arm("other", other)]
    snapshots: list[Snapshot] = []

    async def keep() -> None:
        async for snapshot in fusion:
            snapshots.append(snapshot)  # noqa: PERF401 - a comprehension would lose them all to the error

    async with open_fusion(arms) as fusion:
        with pytest.raises(ArmError):
            await keep()
        assert [snapshot async for snapshot in fusion] == []
    assert [snapshot.final for snapshot in snapshots] == [False] * (len(snapshots) - 1) + [True]
    assert snapshots[-1].outcome is Outcome.FAILED
    assert statuses(snapshots[-1]) == {"must": ArmStatus.FAILED, "other": ArmStatus.STOPPED}
    assert other.closed


async def test_the_error_of_a_required_arm_leaves_the_context_unwrapped() -> None:
    """It passes `async with` as it is."""
    with pytest.raises(ArmError):
        await read(open_fusion([Arm("must", script(fail=OSError("down")), required=True)]))


async def test_a_required_arm_without_words_still_fails_the_fusion() -> None:
    """The message is no reason to miss the failure."""
    with pytest.raises(ArmError) as caught:
        await fuse_arms([Arm("must", script(fail=NoWordsError()), required=True)], timeout=5)
    assert isinstance(caught.value.__cause__, NoWordsError)


async def test_only_failure_fails_a_required_arm() -> None:
    """A required arm that ends empty, fills its window, or runs out of time has not failed."""
    final = await fuse_arms(
        [
            Arm("empty", [], required=True),
            Arm("full", ["x", "y"], window=1, required=True),
            Arm("late", script(hang=True), required=True, timeout=0.002),
        ]
    )
    assert list(statuses(final).values()) == [
        ArmStatus.EXHAUSTED,
        ArmStatus.WINDOW_FULL,
        ArmStatus.TIMED_OUT,
    ]
    assert final.outcome is Outcome.COMPLETE


async def test_a_required_arm_may_fail_when_all_others_have_ended() -> None:
    """The last arm to end decides as much as the first."""
    arms = [Arm("good", ["x"]), Arm("must", script(0.002, fail=OSError("down")), required=True)]
    async with open_fusion(arms) as fusion:
        with pytest.raises(ArmError):
            await fusion.final()


async def test_two_required_arms_raise_the_first_failure() -> None:
    """Once the fusion has failed, what happens to other arms is not news."""
    arms = [
        Arm("late", script(0.01, fail=OSError("late")), required=True),
        Arm("early", script(fail=OSError("early")), required=True),
    ]
    with pytest.raises(ArmError) as caught:
        await fuse_arms(arms)
    assert caught.value.arm == "early"
