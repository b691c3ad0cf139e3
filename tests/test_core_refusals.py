"""What an accumulator refuses in the midst of a stream leaves everything as it was."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_plans import closed, in_full

from rrf_stream import Accumulator, ArmStatus, Hit, fuse
from rrf_stream.errors import FusionClosedError, RRFStreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

WRONG = (TypeError, ValueError)


def text_of(error: BaseException) -> str:
    """Return all that an error tells: its message and its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def state_of(accumulator: Accumulator) -> tuple[Any, ...]:
    """Return all that an accumulator shows, except the number of the snapshot."""
    snapshot = accumulator.snapshot()
    return (
        in_full(snapshot.hits),
        snapshot.coverage,
        snapshot.final,
        snapshot.outcome,
        accumulator.rankings(),
    )


def half_way() -> Accumulator:
    """Return an accumulator in the midst of a stream: one arm ahead, one just begun, one silent."""
    accumulator = Accumulator({"first": 1, "second": 0.5, "silent": 1}, top_k=3)
    accumulator.add("first", ["a", "b", "c", "d"])
    accumulator.snapshot()
    accumulator.add("second", ["d"])
    return accumulator


# --- closing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", ["third", "", None, 0, ["first"]])
def test_an_unknown_arm_is_a_value_error_that_lists_the_arms(arm: Any) -> None:
    """For adding as for closing, and nothing changes."""
    accumulator = half_way()
    before = state_of(accumulator)
    with pytest.raises(ValueError, match=r"(?s)arm.*first.*second.*silent"):
        accumulator.add(arm, ["x"])
    with pytest.raises(ValueError, match=r"(?s)arm.*first.*second.*silent"):
        accumulator.close(arm, ArmStatus.EXHAUSTED)
    assert state_of(accumulator) == before


CLOSED = [status for status in ArmStatus if status not in {ArmStatus.WAITING, ArmStatus.STREAMING}]


@pytest.mark.parametrize("status", CLOSED)
def test_a_closed_arm_takes_no_more(status: ArmStatus) -> None:
    """Adding to it is an error of the fusion and a ValueError, and what it brings is not even read."""

    def unread() -> Iterator[str]:
        raise AssertionError("a closed arm's page was read")
        yield "never"

    accumulator = half_way()
    accumulator.close("first", status)
    before = state_of(accumulator)
    with pytest.raises(FusionClosedError, match="first") as caught:
        accumulator.add("first", unread())
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, RRFStreamError)
    assert state_of(accumulator) == before


def test_a_full_window_closes_for_good() -> None:
    """The page that fills the window is the last."""
    accumulator = Accumulator({"a": 1}, window=2)
    assert accumulator.add("a", ["x"]) is True
    assert accumulator.add("a", ["y", "z"]) is False
    with pytest.raises(FusionClosedError, match="a"):
        accumulator.add("a", ["w"])
    assert accumulator.rankings() == {"a": ["x", "y"]}


def test_closing_a_closed_arm_changes_nothing() -> None:
    """The first status, error and time stand."""
    accumulator = half_way()
    reason = OSError("gone")
    accumulator.close("first", ArmStatus.FAILED, reason, at=1.5)
    before = state_of(accumulator)
    accumulator.close("first", ArmStatus.CANCELLED, ValueError("too late"), at=9.0)
    assert state_of(accumulator) == before
    report = accumulator.snapshot().coverage["first"]
    assert (report.status, report.error, report.elapsed) == (ArmStatus.FAILED, reason, 1.5)


@pytest.mark.parametrize("status", [ArmStatus.WAITING, ArmStatus.STREAMING, "done", None])
def test_an_arm_closes_with_the_status_of_a_closed_arm(status: Any) -> None:
    """An open status or no status at all is an error."""
    accumulator = half_way()
    before = state_of(accumulator)
    with pytest.raises(WRONG, match=r"(?i)status"):
        accumulator.close("first", status)
    assert state_of(accumulator) == before


def test_the_snapshot_is_final_when_all_arms_are_closed() -> None:
    """Not before, and then for good."""
    accumulator = half_way()
    for arm in ("first", "second", "silent"):
        assert not accumulator.snapshot().final
        accumulator.close(arm, ArmStatus.EXHAUSTED)
    assert accumulator.snapshot().final
    assert accumulator.snapshot().hits == accumulator.snapshot().hits


def test_times_are_reported_and_nothing_else() -> None:
    """`at` of the first hit and of the close come back in the report."""
    accumulator = Accumulator({"a": 1, "b": 1})
    accumulator.add("a", ["x"], at=0.25)
    accumulator.add("a", ["y"], at=0.5)
    accumulator.close("a", ArmStatus.EXHAUSTED, at=0.75)
    report, silent = accumulator.snapshot().coverage.arms
    assert (report.first_hit_after, report.elapsed) == (0.25, 0.75)
    assert (silent.first_hit_after, silent.status) == (None, ArmStatus.WAITING)


# --- bad pages --------------------------------------------------------------------------------------------


class OwnError(Exception):
    """An exception that only the caller knows."""


def breaking(*hits: Any) -> Iterator[Any]:
    yield from hits
    raise OwnError("the page broke")


def picky(item: Any) -> Any:
    if item == "bad":
        raise OwnError("no id in this one")
    return item


BAD_PAGES: dict[str, Any] = {
    "an unhashable id": (TypeError, lambda: [["list"]]),
    "an unhashable id at the end": (TypeError, lambda: ["x", "y", "a", ["list"]]),
    "an unhashable id within a tuple": (TypeError, lambda: ["x", ("tuple", [])]),
    "a hit with an unhashable id": (TypeError, lambda: ["x", Hit({}), "y"]),  # type: ignore[arg-type]
    "an iterable that breaks": (OwnError, lambda: breaking("x", "y")),
    "no iterable": (TypeError, lambda: 5),
    "nothing at all": (TypeError, lambda: None),
    "a text": (TypeError, lambda: "text"),
}


@pytest.mark.parametrize("case", BAD_PAGES)
@pytest.mark.parametrize("arm", ["first", "second", "silent"])
def test_a_bad_page_is_not_added_in_part(case: str, arm: str) -> None:
    """What was good in it is not there either, and the next page follows the last good one."""
    kind, page = BAD_PAGES[case]
    accumulator, untouched = half_way(), half_way()
    before = state_of(accumulator)
    with pytest.raises(kind):
        accumulator.add(arm, page())
    assert state_of(accumulator) == before
    for other in (accumulator, untouched):
        other.add(arm, ["x", "d"])
    assert state_of(accumulator) == state_of(untouched)
    assert in_full(closed(accumulator).hits) == in_full(closed(untouched).hits)


@settings(max_examples=100, deadline=None)
@given(
    good=st.lists(st.sampled_from("abcxyz"), max_size=5),
    place=st.integers(0, 5),
    repeats=st.sampled_from(["consume", "skip"]),
    window=st.integers(5, 12),
)
def test_nowhere_in_a_page_is_a_bad_id_half_applied(
    good: list[str], place: int, repeats: Any, window: int
) -> None:
    """First, last or between, at the edge of the window or far from it."""
    page: list[Any] = [*good[:place], ["unhashable"], *good[place:]]
    accumulators = [Accumulator({"a": 1, "b": 1}, top_k=2, window=window, repeats=repeats) for _ in range(2)]
    for accumulator in accumulators:
        accumulator.add("b", ["y", "x"])
        accumulator.add("a", ["a", "b", "a"])
        accumulator.snapshot()
    broken, untouched = accumulators
    before = state_of(broken)
    with pytest.raises(TypeError):
        broken.add("a", page)
    assert state_of(broken) == before
    for accumulator in accumulators:
        accumulator.add("a", good)
    assert state_of(broken) == state_of(untouched)


def test_an_unhashable_id_names_the_arm_and_the_way_out() -> None:
    """The error tells whose result it was and that `key` gives ids to such results."""
    accumulator = half_way()
    with pytest.raises(TypeError) as caught:
        accumulator.add("second", [{"id": 1}])
    told = text_of(caught.value)
    assert "hashable" in told
    assert "second" in told
    assert re.search(r"\bkey\b", told)
    with pytest.raises(TypeError) as caught:
        fuse({"dense": ["x"], "lexical": [{"id": 1}]})
    told = text_of(caught.value)
    assert "hashable" in told
    assert "lexical" in told
    assert re.search(r"\bkey\b", told)


def test_an_error_in_key_propagates_and_says_where_it_was_raised() -> None:
    """It keeps its type and message; a note names `key` and the arm."""
    accumulator = Accumulator({"first": 1, "second": 1}, key=picky)
    accumulator.add("first", ["good"])
    before = state_of(accumulator)
    with pytest.raises(OwnError, match="no id in this one") as caught:
        accumulator.add("second", ["good", "bad"])
    assert re.search(r"\bkey\b", text_of(caught.value))
    assert "second" in text_of(caught.value)
    assert state_of(accumulator) == before
    with pytest.raises(OwnError, match="no id in this one") as caught:
        fuse({"first": ["good"], "second": ["bad"]}, key=picky)
    assert re.search(r"\bkey\b", text_of(caught.value))
    assert "second" in text_of(caught.value)


def test_a_key_that_gives_an_unhashable_id_is_a_type_error() -> None:
    """A `key` does not help if it returns a list."""
    accumulator = Accumulator({"a": 1}, key=lambda item: [item])
    with pytest.raises(TypeError, match="hashable"):
        accumulator.add("a", ["x"])
    assert accumulator.rankings() == {"a": []}
    assert accumulator.snapshot().coverage["a"].status is ArmStatus.WAITING


def test_an_error_in_representative_leaves_the_accumulator_as_it_was() -> None:
    """It propagates from the snapshot; nothing added is lost, and a later snapshot may succeed."""
    refusing = True

    def representative(copies: list[Any]) -> Any:
        if refusing:
            raise OwnError("not now")
        return copies[0]

    accumulator = Accumulator({"a": 1}, key=str.lower, representative=representative)
    accumulator.add("a", ["X", "Y"])
    with pytest.raises(OwnError, match="not now"):
        accumulator.snapshot()
    refusing = False
    assert [(hit.id, hit.item) for hit in accumulator.snapshot().hits] == [("x", "X"), ("y", "Y")]
