"""Snapshots sent as JSON: `from_dict` undoes `to_dict`, and refuses what it did not make."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import bounds_states as states
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rrf_stream import Accumulator, Arm, ArmStatus, Hit, Outcome, Snapshot
from rrf_stream.errors import DegradedError, ReportedError

if TYPE_CHECKING:
    from collections.abc import Hashable


@dataclass(frozen=True)
class Place:
    """An id with parts."""

    file: str
    line: int


def sent(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot as it is at the other end of a wire."""
    return Snapshot.from_dict(json.loads(json.dumps(snapshot.to_dict(), allow_nan=False)))


def assert_comes_back(snapshot: Snapshot) -> None:
    """Assert that nothing is lost on the way, with JSON and without."""
    told = snapshot.to_dict()
    assert Snapshot.from_dict(told).to_dict() == told
    assert sent(snapshot).to_dict() == told


def one_of_each() -> dict[str, Any]:
    """Return a snapshot with something in every field."""
    arms = [Arm(name, (), window=3) for name in ("open", "late", "failed", "skipped")]
    accumulator = Accumulator(arms, top_k=1, bounds="ranks")
    accumulator.add("open", [Hit(("x", 1), item={"n": 1}), "y"], at=0.25)
    accumulator.close("failed", ArmStatus.FAILED, at=0.5, error=OSError("gone"))
    accumulator.close("skipped", ArmStatus.SKIPPED, at=0.0)
    told = accumulator.snapshot(at=0.75).to_dict()
    told["coverage"]["arms"][3]["retry_after"] = 1.5
    return told


# --- there and back ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.sampled_from(["settled", "ranks"]))
def test_random_snapshots_come_back(seed: int, bounds: Literal["settled", "ranks"]) -> None:
    """Whatever the arms delivered and however they ended: what `from_dict` makes tells the same."""
    random = Random(seed)
    assert_comes_back(states.small(random).snapshot(bounds))
    accumulator: Accumulator
    for accumulator, _ in states.large(random, pages=3).run(bounds):
        assert_comes_back(accumulator.snapshot())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
IDS: st.SearchStrategy[Hashable] = st.recursive(
    st.none()
    | st.integers()
    | st.text()
    | st.binary(max_size=3)
    | st.fractions()
    | st.builds(Place, st.text(), st.integers()),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=2),
    max_leaves=5,
)
WEIGHTS = st.integers(0, 2**70) | st.floats(0, 1e300) | st.fractions(0, 10) | st.booleans()


@settings(deadline=None)
@given(st.lists(st.tuples(IDS, JSON)), WEIGHTS, WEIGHTS, st.sampled_from(["settled", "off"]))
@example([], Fraction(1, 3), Fraction(1, 7), "off")
def test_ids_items_and_weights_of_any_kind_come_back(
    hits: list[tuple[Any, Any]], weight: Any, other: Any, bounds: Literal["settled", "off"]
) -> None:
    """Ids that JSON has no type for, items, and exact weights: told again, they are told the same."""
    arms = [Arm("a", (), weight=weight), Arm("b", (), weight=other), Arm("c", (), window=None)]
    accumulator = Accumulator(arms, bounds=bounds)
    accumulator.add("a", [Hit(id_, item=item) for id_, item in hits])
    accumulator.close("a", ArmStatus.EXHAUSTED)
    assert_comes_back(accumulator.snapshot())


def test_all_of_a_snapshot_is_there_again() -> None:
    """Enumerations, errors, ranks and contenders are what they were, not what JSON made of them."""
    snapshot = Snapshot.from_dict(one_of_each())
    (hit,) = snapshot.hits
    assert (hit.id, hit.ranks, hit.items, hit.worst_rank) == (("x", 1), {"open": 1}, {"open": {"n": 1}}, 5)
    failed, skipped = snapshot.coverage["failed"], snapshot.coverage["skipped"]
    assert (failed.status, repr(failed.error)) == (ArmStatus.FAILED, "OSError('gone')")
    assert isinstance(failed.error, ReportedError)
    assert (skipped.status.is_short, skipped.retry_after) == (True, 1.5)
    assert (snapshot.contenders, snapshot.blocking_arms, snapshot.elapsed) == (("y",), ("open", "late"), 0.75)
    with pytest.raises(DegradedError, match="failed after 0 hits") as caught:
        snapshot.raise_for_coverage()
    assert caught.value.__cause__ is failed.error


def test_an_outcome_comes_back_as_one() -> None:
    """The reason for the end is a member of the enumeration again."""
    accumulator = Accumulator({"a": 1})
    accumulator.close("a", ArmStatus.DEADLINE)
    assert sent(accumulator.snapshot(outcome=Outcome.DEADLINE)).outcome is Outcome.DEADLINE


def test_an_infinite_theta_is_told_from_none() -> None:
    """JSON has null for both; it is infinite where there are bounds, and None where there are none."""
    nothing = Accumulator({"a": 1}).snapshot()
    assert nothing.theta == sent(nothing).theta == math.inf
    without = sent(Accumulator({"a": 1}, bounds="off").snapshot())
    assert (without.theta, without.contenders, without.settled) == (None, None, None)


def test_ids_are_hashable_whatever_they_are_in_json() -> None:
    """Lists are tuples and objects read-only mappings, so that `delta` and other fusions take them."""
    accumulator = Accumulator({"a": 1})
    accumulator.add("a", [Place("f", 1), ("p", (1, 2))])
    first, second = sent(accumulator.snapshot()), sent(accumulator.snapshot())
    assert first.ids == [{"file": "f", "line": 1}, ("p", (1, 2))]
    assert len({*first.ids, *second.ids}) == 2
    assert not second.delta(first)
    with pytest.raises(TypeError, match="item assignment"):
        first.ids[0]["line"] = 2


@pytest.mark.parametrize("send", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_what_came_back_can_be_sent_on(send: Any) -> None:
    """It can be copied and pickled, as any snapshot."""
    snapshot = Snapshot.from_dict(one_of_each())
    again = send(snapshot)
    assert (again.hits, again.contenders, again.to_dict()) == (
        snapshot.hits,
        snapshot.contenders,
        snapshot.to_dict(),
    )


# --- what is refused --------------------------------------------------------------------------------------


def replaced(path: str, value: Any) -> dict[str, Any]:
    """Return the snapshot of `one_of_each` with another value at a place like `hits.0.rank`."""
    told: dict[str, Any] = json.loads(json.dumps(one_of_each()))
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    inside: Any = told
    for step in way:
        inside = inside[step]
    inside[last] = value
    return told


def nested(depth: int) -> list[Any]:
    """Return an empty list in so many others."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("hits", {}, "hits must be a list"),
        ("hits.0", "x", r"hits\[0\] must be a JSON object"),
        ("hits.0.rank", 0, r"hits\[0\]\.rank must be a whole number of at least 1, not 0"),
        ("hits.0.score", "1", r"hits\[0\]\.score must be a finite number, not '1'"),
        (
            "hits.0.ranks",
            {"open": 1.5},
            r"hits\[0\]\.ranks must be an object, of which each value is a whole",
        ),
        ("hits.0.items", [], r"hits\[0\]\.items must be an object"),
        ("hits.0.id", nested(60), r"hits\[0\]\.id must be nested at most 50 deep"),
        ("hits.0.id", {1}, r"hits\[0\]\.id must be a JSON value"),
        ("hits.0.id", ["x", math.nan], r"hits\[0\]\.id must be a JSON value"),
        ("hits.0.score", True, r"hits\[0\]\.score must be a finite number, not True"),
        ("seq", True, "seq must be a whole number"),
        ("seq", -1, "seq must be a whole number of at least 0"),
        ("elapsed", math.nan, "elapsed must be a finite number, or null"),
        ("elapsed", 10**400, "elapsed must be a finite number, or null"),
        ("final", 0, "final must be true or false, not 0"),
        ("outcome", "bored", "outcome must be 'complete' or 'deadline' .* or null, not 'bored'"),
        ("coverage", None, "coverage must be a JSON object"),
        ("coverage.arms", None, r"coverage\.arms must be a list"),
        ("coverage.arms.1.status", "asleep", r"coverage\.arms\[1\]\.status must be 'waiting' or"),
        ("coverage.arms.1.weight", True, r"coverage\.arms\[1\]\.weight must be a finite number, not True"),
        ("coverage.arms.1.weight", -1, r"coverage\.arms\[1\]\.weight must be a finite number of at least 0"),
        ("coverage.arms.1.name", "open", r"coverage\.arms\[1\]\.name must be that of one arm, not 'open'"),
        ("coverage.arms.1.error", 5, r"coverage\.arms\[1\]\.error must be a string, or null"),
        ("settled", 1.0, "settled must be a whole number of at least 0, or null"),
        ("settled", 2, "settled must be at most the number of hits, 1, or null, not 2"),
        ("exact_set", 9, "exact_set must be at most the number of hits, 1, or null, not 9"),
        ("contenders", "y", "contenders must be a list, or null"),
        ("blocking_arms", [1], "blocking_arms must be a list, of which each is a string, or null"),
    ],
)
def test_wrong_fields_are_named(path: str, value: Any, message: str) -> None:
    """A field that is not what it must be is a ValueError that says which, where, and what it must be."""
    with pytest.raises(ValueError, match=f"^{message}"):
        Snapshot.from_dict(replaced(path, value))


@pytest.mark.parametrize(
    "path", ["hits", "seq", "final", "coverage.arms", "hits.0.id", "coverage.arms.0.weight"]
)
def test_missing_fields_are_named(path: str) -> None:
    """Without a field that every server tells, nothing is guessed."""
    *way, last = path.split(".")
    told = one_of_each()
    inside: Any = told
    for step in way:
        inside = inside[int(step) if step.isdigit() else step]
    del inside[last]
    with pytest.raises(ValueError, match=f"{last} is missing"):
        Snapshot.from_dict(told)


@pytest.mark.parametrize("data", [None, [], "{}", 5])
def test_what_is_no_object_is_refused(data: Any) -> None:
    """A list or text is no snapshot."""
    with pytest.raises(ValueError, match="data must be a JSON object"):
        Snapshot.from_dict(data)


def test_a_later_version_may_tell_more_and_an_earlier_one_less() -> None:
    """Unknown fields are ignored; without those that speak of the future, it is unknown."""
    told = one_of_each()
    for inside in (told, told["hits"][0], told["coverage"], told["coverage"]["arms"][0]):
        inside["new"] = {"in": "2.0"}
    assert Snapshot.from_dict(told).to_dict() == one_of_each()
    known = {name: told[name] for name in ("hits", "seq", "elapsed", "final", "outcome", "coverage")}
    early = Snapshot.from_dict(known)
    assert (early.settled, early.contenders, early.theta, early.blocking_arms) == (None,) * 4
