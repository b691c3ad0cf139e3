"""The table of a terminal, drawn without one: its last picture, as plain text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rrf_stream import Accumulator, Arm, ArmStatus
from rrf_stream.cli._live import live_table

if TYPE_CHECKING:
    from rrf_stream import Snapshot


@pytest.fixture
def fusion() -> Accumulator:
    """The first of three is certain; "dense" may still turn the others round."""
    fusion = Accumulator([Arm(name, [], window=9) for name in ("lexical", "dense", "graph")])
    for name, ids in (("lexical", "abc"), ("dense", "a"), ("graph", "a")):
        fusion.add(name, [*ids])
    fusion.close("lexical", ArmStatus.EXHAUSTED, at=0.01)
    fusion.close("graph", ArmStatus.EXHAUSTED, at=0.01)
    return fusion


def drawn(snapshot: Snapshot, capsys: pytest.CaptureFixture[str]) -> list[str]:
    with live_table() as show:
        show(snapshot)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    return [line.rstrip() for line in out.splitlines()]


def marked(lines: list[str]) -> dict[str, bool]:
    """Whether each row of the table has a mark beside its rank, by the id, which is the title."""
    rows = [re.match(r" *\d+ +(✓?) +(?:new +|[▲▼]\d+ +)?(\w+) ", line) for line in lines]
    return {row[2]: bool(row[1]) for row in rows if row}


def test_what_is_final_is_marked_and_not_by_its_colour_alone(
    fusion: Accumulator, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mark stands beside the rank, and before the words that say what it means."""
    lines = drawn(fusion.snapshot(at=0.02), capsys)
    assert marked(lines) == {"a": True, "b": False, "c": False}
    assert lines[-1] == "✓ the first is final; 2-3 may still change: 2 waits for dense"


def test_in_the_end_what_a_late_arm_could_have_changed_is_not_marked(
    fusion: Accumulator, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stream is over and nothing moves, but more of "dense" might have moved it."""
    fusion.close("dense", ArmStatus.DEADLINE, at=0.3)
    final = fusion.snapshot(at=0.3)
    assert (final.settled, final.exact) == (3, 1)
    lines = drawn(final, capsys)
    assert marked(lines) == {"a": True, "b": False, "c": False}
    assert lines[-2:] == [
        "degraded after 300 ms: 3 hits; dense timed out after 1 hit, 300 ms",
        "✓ the first would be the same had every arm delivered its whole window",
    ]


def test_of_a_full_answer_everything_is_marked(
    fusion: Accumulator, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is final, and what it is worth is one line."""
    fusion.add("dense", ["c"])
    fusion.close("dense", ArmStatus.EXHAUSTED, at=0.3)
    lines = drawn(fusion.snapshot(at=0.3), capsys)
    assert marked(lines) == {"a": True, "b": True, "c": True}
    assert lines[-1] == "complete after 300 ms: 3 hits, every arm answered in full"


def test_what_nothing_is_known_of_has_no_mark(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither without bounds, nor while everything can still change."""
    fusion = Accumulator({"lexical": 1, "dense": 1}, bounds="off")
    fusion.add("lexical", ["a", "b"])
    lines = drawn(fusion.snapshot(), capsys)
    assert marked(lines) == {"a": False, "b": False}
    assert "✓" not in "".join(lines)
