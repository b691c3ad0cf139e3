"""What is on the screen, in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrf_stream import Accumulator, ArmReport, ArmStatus, Hit, Snapshot
from rrf_stream.cli import _words as words
from rrf_stream.retrievers.sqlite import Document


def snapshot(rankings: dict[str, list[Any]], **closed: ArmStatus) -> Snapshot:
    """The fusion of rankings; an arm ends by itself unless `closed` says otherwise."""
    fusion = Accumulator(dict.fromkeys(rankings, 1.0))
    for arm, hits in rankings.items():
        fusion.add(arm, hits, at=0.01)
        fusion.close(arm, closed.get(arm, ArmStatus.EXHAUSTED), at=0.02)
    return fusion.snapshot(at=0.3)


def report(status: ArmStatus, received: int, error: BaseException | None = None) -> ArmReport:
    return ArmReport(
        name="dense",
        status=status,
        weight=1.0,
        window=100,
        received=received,
        first_hit_after=None,
        elapsed=0.012,
        error=error,
        retry_after=9.0 if status is ArmStatus.SKIPPED else None,
    )


@given(text=st.text())
def test_nothing_that_is_shown_can_command_a_terminal(text: str) -> None:
    for shown in (words.visible(text), words.one_line(text)):
        assert all(char.isprintable() or char in "\u200c\u200d" for char in shown)
        shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [bold]words[/bold] :smile:", "plain [bold]words[/bold] :smile:"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("back\bspace\x7f\x9b", "back\\x08space\\x7f\\x9b"),
        ("turned \u202eround", "turned \\u202eround"),
        ("half \ud800", "half \\ud800"),
        ("naïve 東京 👩\u200d🔬", "naïve 東京 👩\u200d🔬"),
    ],
)
def test_commands_are_written_out_and_words_are_not(text: str, shown: str) -> None:
    assert words.visible(text) == words.one_line(text) == shown


def test_one_line_is_one_line_and_no_longer_than_asked() -> None:
    assert words.one_line("  two\n\n\tlines \r\n") == "two lines"
    assert words.one_line("x" * 200, limit=10) == "x" * 9 + "…"
    assert words.visible("two\nlines") == "two\\nlines"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 ms"),
        (0.0124, "12 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (12.34, "12.3 s"),
        (None, "unknown time"),
    ],
)
def test_a_duration_is_short(seconds: float | None, shown: str) -> None:
    assert words.duration(seconds) == shown


@pytest.mark.parametrize(
    ("status", "received", "error", "shown"),
    [
        (ArmStatus.WAITING, 0, None, "waiting"),
        (ArmStatus.STREAMING, 7, None, "streaming, 7 hits so far"),
        (ArmStatus.EXHAUSTED, 1, None, "done in 12 ms, 1 hit"),
        (ArmStatus.WINDOW_FULL, 100, None, "done in 12 ms, 100 hits"),
        (ArmStatus.TIMED_OUT, 7, None, "timed out after 7 hits, 12 ms"),
        (ArmStatus.DEADLINE, 0, None, "timed out after 0 hits, 12 ms"),
        (ArmStatus.IDLE, 7, None, "gone quiet after 7 hits, 12 ms"),
        (ArmStatus.FAILED, 7, OSError("\x1b[2J"), "failed after 7 hits: OSError: \\x1b[2J"),
        (ArmStatus.REJECTED, 0, None, "not started: no thread was free"),
        (ArmStatus.SKIPPED, 0, None, "not asked: tried again in 9.0 s"),
        (ArmStatus.STOPPED, 7, None, "stopped after 7 hits: no more was needed"),
        (ArmStatus.CANCELLED, 7, None, "cancelled after 7 hits"),
    ],
)
def test_every_status_has_its_words(
    status: ArmStatus, received: int, error: BaseException | None, shown: str
) -> None:
    assert words.arm_state(report(status, received, error)) == shown


def test_no_status_is_forgotten() -> None:
    assert all(words.arm_state(report(status, 1)) for status in ArmStatus)


def test_a_full_answer_says_so_and_a_degraded_one_says_why() -> None:
    full = snapshot({"lexical": ["a", "b"], "dense": ["b"]})
    assert words.closing(full) == "complete after 300 ms: 2 hits, every arm answered in full"
    short = snapshot({"lexical": ["a"], "dense": []}, dense=ArmStatus.DEADLINE)
    assert words.closing(short).startswith(
        "degraded after 300 ms: 1 hit; dense timed out after 0 hits, 20 ms"
    )
    assert words.closing(snapshot({"lexical": []})).startswith("complete after 300 ms: no hits")


def test_an_explanation_adds_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    file = Document(id=str(tmp_path / "x" / "a.md"), title="A \x1b title", text="First\nwords")
    fusion = Accumulator({"lexical": 1.0, "dense": 0.5})
    fusion.add("lexical", [Hit(file.id, item=file), Hit("b")])
    fusion.add("dense", [Hit("b"), Hit("c"), Hit(file.id, item=file)])
    assert list(words.explanation(fusion.snapshot())) == [
        "1. A \\x1b title",
        f"   {1 / 61 + 0.5 / 63:.5f} = 1/(60+1) lexical + 0.5 * 1/(60+3) dense",
        "   x/a.md",
        "   First words",
        "2. b",
        f"   {1 / 62 + 0.5 / 61:.5f} = 1/(60+2) lexical + 0.5 * 1/(60+1) dense",
        "3. c",
        f"   {0.5 / 62:.5f} = 0.5 * 1/(60+2) dense",
    ]


def test_moves_are_told_since_a_hit_entered() -> None:
    moves = words.Moves()
    fusion = Accumulator({"lexical": 1.0, "dense": 1.0, "graph": 1.0}, top_k=3)
    assert moves.see(fusion.snapshot()) == {}
    fusion.add("lexical", ["a", "b", "c"])
    assert moves.see(fusion.snapshot()) == {"a": "", "b": "", "c": ""}, (
        "the first are not new, they are first"
    )
    fusion.add("dense", ["c", "d"])
    assert moves.see(fusion.snapshot()) == {"c": "▲2", "a": "▼1", "b": "▼1"}
    fusion.add("graph", ["d", "a"])
    assert moves.see(fusion.snapshot()) == {"a": "", "d": "new", "c": ""}, "b is gone, c where it was first"
    assert moves.see(fusion.snapshot()) == {"a": "", "d": "", "c": ""}
