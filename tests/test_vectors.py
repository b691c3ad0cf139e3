"""The fusion rules as data: each file in `vectors` holds inputs and what has to come out.

A file is `{"about", "vectors": [{"name", "call", "claim", "given", "want"}]}`. `call` says what is called,
`given` holds its arguments (left out: the default), `want` what must hold, one key per kind of statement.
Every key is checked or the test fails, so a slip in the data cannot pass for a statement that holds.

Scores are written as sums of fractions, `"1/61 + 0.5/62"`, and agree when the double lies within 1e-15 of
the exact value. Ids and items are compared with their types: 1 is not True and not 1.0.
"""

from __future__ import annotations

import builtins
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest
from vector_calls import CALLS, Outcome

VECTORS = Path(__file__).parent / "vectors"
JSON = Any


# --- reading the data -------------------------------------------------------------------------------------


def exact(text: str) -> Fraction:
    """Return the value of `"1/61 + 0.5/62"`: fractions joined by spaced signs."""
    total, sign = Fraction(0), 1
    for word in text.split():
        if word in {"+", "-"}:
            sign = 1 if word == "+" else -1
        else:
            above, _, below = word.partition("/")
            total += sign * Fraction(above) / Fraction(below or "1")
    return total


def same(left: object, right: object) -> bool:
    """Tell whether two values are equal in value and type, all the way down."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def lookup(table: Sequence[tuple[object, Any]] | None, wanted: object) -> Any:
    """Return what a table of (id, value) says about an id; the call must offer such a table."""
    assert table is not None, "this call does not report that"
    found = [value for name, value in table if same(name, wanted)]
    assert len(found) == 1, f"{wanted!r} occurs {len(found)} times"
    return found[0]


# --- the statements ---------------------------------------------------------------------------------------


def check_order(got: Outcome, want: JSON) -> None:
    assert same(got.order, want)


def check_first(got: Outcome, want: JSON) -> None:
    assert same(got.order[0], want)


def check_ids(got: Outcome, want: JSON) -> None:
    assert len(got.order) == len(want)
    assert all(any(same(one, other) for other in got.order) for one in want)


def check_count(got: Outcome, want: JSON) -> None:
    assert len(got.order) == want


def check_at_most(got: Outcome, want: JSON) -> None:
    assert len(got.order) <= want


def check_scores(got: Outcome, want: JSON) -> None:
    for name, text in want:
        assert abs(Fraction(lookup(got.scores, name)) - exact(text)) <= got.tolerance, name


def check_normalized(got: Outcome, want: JSON) -> None:
    for name, text in want:
        assert abs(Fraction(lookup(got.normalized, name)) - exact(text)) <= Fraction(1, 10**15), name


def check_gap(got: Outcome, want: JSON) -> None:
    upper, lower, text = want
    gap = lookup(got.scores, upper) - lookup(got.scores, lower)
    assert abs(Fraction(gap) - exact(text)) <= Fraction(1, 10**15)


def check_tied(got: Outcome, want: JSON) -> None:
    for group in want:
        assert len(group) >= 2, "a tie needs two ids"
        assert len({lookup(got.scores, name) for name in group}) == 1, group


def check_falling(got: Outcome, want: JSON) -> None:
    assert len(want) >= 2, "a fall needs two ids"
    values = [lookup(got.scores, name) for name in want]
    assert all(above > below for above, below in itertools.pairwise(values))


def check_never_rising(got: Outcome, want: JSON) -> None:
    assert want is True
    assert got.scores is not None
    values = [score for _, score in got.scores]
    assert len(values) >= 2
    assert values == sorted(values, reverse=True)


def check_ranks(got: Outcome, want: JSON) -> None:
    for name, ranks in want:
        assert lookup(got.ranks, name) == ranks, name


def check_arms(got: Outcome, want: JSON) -> None:
    assert got.ranks, "no row to show the names"
    assert all(list(ranks) == want for _, ranks in got.ranks)


def check_shown(got: Outcome, want: JSON) -> None:
    for name, item in want:
        assert same(lookup(got.shown, name), item), name


def check_offered(got: Outcome, want: JSON) -> None:
    for name, copies in want:
        assert same(lookup(got.offered, name), copies), name


def check_pairs(got: Outcome, want: JSON) -> None:
    assert got.pairs is not None
    assert same(got.pairs, want)


def check_row(got: Outcome, want: JSON) -> None:
    assert got.pairs is not None
    position, pair = want
    assert same(got.pairs[position - 1], pair)


def running_sum(values: Iterable[float]) -> float:
    """Add from left to right, rounding each time, which `sum` no longer does since CPython 3.12."""
    return reduce(add, values)


def check_running_doubles(got: Outcome, want: JSON) -> None:
    for name, value in want:
        assert running_sum(got.sums[name]) == value


def _tie_flags(got: Outcome, groups: JSON, total: Callable[[Iterable[float]], float]) -> list[bool]:
    return [len({total(got.sums[name]) for name in group}) == 1 for group in groups]


def check_every_arrival(got: Outcome, want: JSON) -> None:
    assert want is True
    if got.arrivals is None:  # the batch outcome, which the arrivals are compared with
        return
    seen = 0
    for other in got.arrivals():
        assert same(other.order, got.order)
        assert other.scores == got.scores
        seen += 1
    assert seen >= 2, "one arrival is no comparison"


def check_leads_down_to(got: Outcome, want: JSON) -> None:
    assert got.depth["leads"] == list(range(2, want + 1))


def check_ties_at(got: Outcome, want: JSON) -> None:
    assert got.depth["ties"] == [want]


def check_leads_within_default_window(got: Outcome, want: JSON) -> None:
    assert got.depth["leads within window"] is want


CHECKS: Mapping[str, Callable[[Outcome, JSON], None]] = {
    name.removeprefix("check_"): check
    for name, check in sorted(globals().items())
    if name.startswith("check_")
}
#: Read together with `tied`, whose groups they speak of.
TIE_FLAGS: Mapping[str, Callable[[Iterable[float]], float]] = {
    "running_doubles_tie": running_sum,
    "fsum_ties": math.fsum,
}
#: The only two whose empty list is a statement.
MAY_BE_EMPTY = {"order", "pairs"}


# --- the tests --------------------------------------------------------------------------------------------


def _load() -> Iterator[Any]:
    for path in sorted(VECTORS.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        assert set(content) == {"about", "vectors"}, path.name
        for vector in content["vectors"]:
            yield pytest.param(vector, id=f"{path.stem}:{vector['name']}")


ALL = list(_load())


@pytest.mark.parametrize("vector", ALL)
def test_vector(vector: JSON) -> None:
    """What the data states about a call holds, in every form in which the call can be made."""
    verify(vector)


def verify(vector: JSON) -> None:
    assert set(vector) == {"name", "call", "claim", "given", "want"}
    want = dict(vector["want"])
    assert want, "a vector that wants nothing shows nothing"
    assert all(value != [] or name in MAY_BE_EMPTY for name, value in want.items())
    call = CALLS[vector["call"]]
    given = json.loads(json.dumps(vector["given"]))

    if "error" in want:
        kind = getattr(builtins, want.pop("error"))
        with pytest.raises(kind) as caught:
            list(call(given))
        assert want.pop("error_says", "") in str(caught.value)
        assert not want, f"an error leaves nothing else to check: {sorted(want)}"
        return

    outcomes = list(call(given))
    assert outcomes
    for outcome in outcomes:
        for name, value in want.items():
            if name in TIE_FLAGS:
                assert _tie_flags(outcome, want["tied"], TIE_FLAGS[name]) == value
            else:
                CHECKS[name](outcome, value)


def test_vectors_are_found_and_have_names_of_their_own() -> None:
    """All five files are read, and no name or claim is used twice."""
    assert {param.id.partition(":")[0] for param in ALL} == {
        "core",
        "rank_lists",
        "ranked_keys",
        "rounded_pairs",
        "two_engines",
    }
    names = [param.values[0]["name"] for param in ALL]
    assert len(set(names)) == len(names) >= 87


@pytest.mark.parametrize(
    "want",
    [
        {},
        {"scores": []},
        {"scores": [["a", "1/62"]]},
        {"scores": [["absent", "1/61"]]},
        {"order": ["a", "b"], "no_such_statement": True},
        {"tied": [["a"]]},
        {"tied": [["a", "b"]]},
        {"order": ["b", "a"]},
        {"pairs": [["a", 0.016393]]},
        {"error": "ValueError"},
    ],
)
def test_the_runner_rejects_a_wrong_or_empty_statement(want: JSON) -> None:
    """A vector that is wrong, unknown, not applicable or empty fails: the runner cannot pass by default."""
    vector = {
        "name": "n",
        "call": "rrf_scores",
        "claim": "c",
        "given": {"rank_lists": [["a", "b"]]},
        "want": want,
    }
    with pytest.raises((AssertionError, KeyError, pytest.fail.Exception)):
        verify(vector)
