"""What is on the screen, in words."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrf_stream import Accumulator, Arm, ArmReport, ArmStatus, Hit, Outcome, Snapshot
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


# What arms delivered of their windows, how they closed, and what is said of the top 3.
ENDED, LATE, STOPPED = ArmStatus.EXHAUSTED, ArmStatus.DEADLINE, ArmStatus.STOPPED
STATES: list[tuple[dict[str, tuple[str, int, ArmStatus | None]], str]] = [
    ({"lexical": ("", 9, None), "dense": ("", 9, None)}, ""),
    ({"lexical": ("", 9, ENDED), "dense": ("", 9, LATE)}, ""),
    (
        {"lexical": ("ab", 9, None), "dense": ("", 9, None), "graph": ("", 9, None)},
        "none is final yet: 1 waits for lexical, dense and graph",
    ),
    (
        {"lexical": ("abc", 9, ENDED), "dense": ("a", 9, None), "graph": ("a", 9, ENDED)},
        "the first is final; 2-3 may still change: 2 waits for dense",
    ),
    (
        {"lexical": ("abc", 3, ENDED), "dense": ("ab", 3, None), "graph": ("abd", 3, None)},
        "the first 2 are final; 3 may still change: 3 waits for dense",
    ),
    (
        {"lexical": ("ab", 2, ENDED), "dense": ("ab", 9, None), "graph": ("ab", 9, None)},
        "the first 2 are final; more may follow: 3 waits for dense and graph",
    ),
    (
        {"lexical": ("abc", 3, ENDED), "dense": ("abc", 9, None)},
        "the first 3 are final, whatever is still to come",
    ),
    ({"lexical": ("abc", 9, ENDED), "dense": ("ab", 9, ENDED)}, ""),
    (
        {"lexical": ("abc", 9, ENDED), "dense": ("ad", 9, LATE)},
        "the first would be the same had every arm delivered its whole window",
    ),
    (
        {"lexical": ("abc", 9, ENDED), "dense": ("abc", 9, STOPPED)},
        "the first 3 would be the same had every arm delivered its whole window",
    ),
    (
        {"lexical": ("abc", 9, ENDED), "dense": ("", 9, LATE)},
        "even the first might be another had every arm delivered its whole window",
    ),
]


@pytest.mark.parametrize(("arms", "said"), STATES)
def test_what_is_certain_is_said_in_words(
    arms: dict[str, tuple[str, int, ArmStatus | None]], said: str
) -> None:
    """While it grows, of the stream; in the end, of what arms that were cut short could have changed."""
    assert words.promise(grown(arms)) == said
    assert words.promise(grown(arms, bounds="off")) == ""


def grown(arms: dict[str, tuple[str, int, ArmStatus | None]], **options: Any) -> Snapshot:
    """The top 3 of arms that are given by the ids they delivered, their window, and how they closed."""
    fusion = Accumulator(
        [Arm(name, [], window=window) for name, (_, window, _) in arms.items()], top_k=3, **options
    )
    for name, (ids, _, status) in arms.items():
        fusion.add(name, [*ids])
        if status is not None:
            fusion.close(name, status)
    return fusion.snapshot()


arm_states = st.tuples(
    st.permutations("abcdef").flatmap(
        lambda ids: st.integers(0, 4).map(lambda size: "".join(ids[:size])),
    ),
    st.integers(4, 6),
    st.sampled_from([None, ENDED, LATE, ArmStatus.FAILED, STOPPED]),
)


@given(arms=st.fixed_dictionaries(dict.fromkeys(("lexical", "dense", "graph"), arm_states)))
def test_words_and_marks_say_the_same(arms: dict[str, tuple[str, int, ArmStatus | None]]) -> None:
    """As many are marked as the words count, never more than the snapshot knows of, and an end never
    counts what only this stream has settled."""
    snapshot = grown(arms)
    marked, said = words.certain(snapshot), words.promise(snapshot)
    assert snapshot.exact is not None
    assert marked == (snapshot.exact if snapshot.final else snapshot.settled)
    if said:
        counted = re.match(r"the first (?:(\d+) (?:are|would)|(?:is|would))", said)
        assert marked == (int(counted[1] or 1) if counted else 0)
        assert ("final" in said) is not snapshot.final
    else:
        assert not snapshot.hits or (snapshot.final and marked == len(snapshot.hits))
    for name in re.findall(r"lexical|dense|graph", said):
        assert snapshot.coverage[name].status.is_open, "nobody waits for an arm that is closed"


def test_an_answer_that_was_to_be_spared_the_rest_is_settled_and_not_degraded() -> None:
    """Unless an arm was cut short for another reason, too."""
    arms = {"lexical": 1.0, "dense": 1.0, "graph": 1.0}
    for status, how in ((ENDED, "settled"), (ArmStatus.FAILED, "degraded")):
        fusion = Accumulator(arms)
        for name, closed in (("lexical", ENDED), ("dense", STOPPED), ("graph", status)):
            fusion.add(name, ["a", "b"])
            fusion.close(name, closed)
        ended = fusion.snapshot(at=0.3, outcome=Outcome.SETTLED)
        assert words.closing(ended).startswith(f"{how} after 300 ms: 2 hits; dense stopped after 2 hits: no")
        assert words.is_as_wanted(ended) is (how == "settled")
    stopped = grown({"lexical": ("a", 9, STOPPED)})
    assert words.closing(stopped).startswith("degraded"), "stopped, but not because enough was settled"


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
