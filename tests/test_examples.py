"""Each example runs as a program of its own, with warnings as errors, and prints what it is there to show."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"
MOST_SECONDS = 60
"""Far more than any example takes, for machines that are busy."""


def output_of(name: str) -> str:
    """Run an example from another folder, as users do, and return what it printed."""
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        cwd=EXAMPLES.parent.parent,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=MOST_SECONDS,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return ran.stdout


def test_quickstart_shows_a_ranking_that_gets_better() -> None:
    """The stream starts before the arms have ended; the final ranking is explained by rank and arm."""
    live, final = output_of("quickstart").split("\n\nfinal:\n")
    first, *_, last = live.splitlines()[1:]
    assert re.fullmatch(r"\d+\.\d\d s  timeouts .*words streaming, trigrams (waiting|streaming)", first)
    assert re.fullmatch(r"\d+\.\d\d s  timeouts cancel groups +words exhausted, trigrams exhausted", last)
    titles = "Timeouts in asyncio", "How a task is cancelled", "Task groups and their errors"
    assert final.splitlines() == [
        f"{i}. {title}  (score {1 / (60 + n) + 1 / (60 + m):.5f}, ranks {{'words': {n}, 'trigrams': {m}}})"
        for i, title, n, m in zip((1, 2, 3), titles, (1, 2, 3), (1, 3, 4), strict=True)
    ]


def test_slow_arm_answers_at_the_deadline_and_says_what_is_missing() -> None:
    """The fast arm is complete, the slow one cut off with what it had, the hanging one with nothing."""
    live, end = output_of("slow_arm").split("\n\n")
    assert live.splitlines()[0].split()[2:] == ["parsing", "tokens", "syntax", "grammar"]
    assert "grammar 4->" in live
    assert "because of: deadline" in end
    assert "titles: exhausted after 4 hits" in end
    slow = re.search(r"vectors: deadline after ([12]) hits", end)  # on time it is 2
    assert slow
    assert "remote: deadline after 0 hits" in end
    seconds = re.search(r"final after (\d+\.\d) s", end)
    assert seconds
    assert 0.5 <= float(seconds[1]) < MOST_SECONDS
    assert f"DegradedError: arms that did not answer in full: vectors (deadline after {slow[1]} hits)" in end


def test_batch_explains_its_scores() -> None:
    """Weights, ranks and scores add up as printed, and the weight decides between the single finds."""
    weighted, longest, plain = output_of("batch").split("\n\n")
    assert f"1. /sorting  {1 / 61 + 0.5 / 63:.6f}  Sorting how-to" in weighted
    assert f"vectors: rank 3 gives 0.5 / (60 + 3) = {0.5 / 63:.6f}" in weighted
    assert f"2. /bisect   {1 / 63 + 0.5 / 62:.6f}" in weighted
    assert f"3. /heapq    {1 / 62:.6f}" in weighted
    assert "1. /sorting  Sort lists with list.sort or sorted" in longest
    assert [line.split()[0] for line in plain.splitlines()[1:]] == ["/sorting", "/bisect", "/queue", "/heapq"]
    assert "/queue    {'full text': None, 'vectors': 1}" in plain


def test_breaker_leaves_an_arm_alone_and_tries_it_again() -> None:
    """Three failures open the breaker, two queries skip the arm, and after the cool-down it answers again."""
    live, end = output_of("breaker").split("\n\n")
    queries = re.findall(r"^(\w+) +called (\d), (\d) hits in \d\.\d s, remote (\w+)", live, re.MULTILINE)
    assert queries == [
        ("one", "1", "1", "failed"),
        ("two", "1", "1", "failed"),
        ("three", "1", "1", "failed"),
        ("four", "0", "1", "skipped"),
        ("five", "0", "1", "skipped"),
        ("six", "1", "2", "exhausted"),
        ("seven", "1", "2", "exhausted"),
    ]
    waits = re.findall(r"skipped, tried again in (\d\.\d) s", live)
    assert len(waits) == 2
    assert all(0 < float(wait) <= 1 for wait in waits)
    assert "the breaker is half_open" in live
    assert "titles: of 7 answered 7, failed 0, skipped 0" in end
    assert "remote: of 7 answered 2, failed 3, skipped 2" in end


def test_blocking_retriever_answers_on_time_with_a_stuck_call() -> None:
    """With a connection every arm is complete; without it the others are, and a thread is left."""
    lines = output_of("blocking_retriever").splitlines()
    found = re.fullmatch(r"beetles: (\d+\.\d) s, complete", lines[0])
    stuck = re.fullmatch(r"birds: (\d+\.\d) s, deadline", lines[3])
    assert found
    assert stuck
    assert 0.2 <= float(found[1]) < 0.5 <= float(stuck[1]) < MOST_SECONDS
    assert lines[1:3] == [
        "  beetles at a glance, a history of beetles, beetles in depth",
        "  titles exhausted, database exhausted, catalogue exhausted",
    ]
    assert lines[4:] == [
        "  birds at a glance, a history of birds, birds for children",
        "  titles exhausted, database deadline, catalogue exhausted",
        "still running: rrf:thread:database",
    ]


def test_quorum_tells_three_ways_to_end_early_apart() -> None:
    """A quorum and `stop()` leave arms STOPPED and differ in outcome; leaving has them CANCELLED."""
    arm = r" {4}\w+ +(\w+ after \d) hits\n"
    ending = rf"(.+?) +\d\.\d s, (\w+: .+)\n{arm * 3} {{4}}answered: (.+), (\d\.\d) of the weight\n"
    late, early = "syntax parsing tokens", "parsing syntax tokens"
    whole, all_three = "exhausted after 3", "text, vectors, remote"
    assert re.findall(ending, output_of("quorum")) == [
        ("wait for all", f"complete: {late}", whole, whole, "exhausted after 4", all_three, "1.0"),
        ("quorum", f"quorum: {late}", whole, whole, "stopped after 2", "text, vectors", "0.8"),
        ("stop()", f"stopped: {early}", whole, "stopped after 2", "stopped after 0", "text", "0.4"),
        ("leave", f"stopped: {early}", whole, "cancelled after 2", "cancelled after 0", "text", "0.4"),
    ]


def test_every_example_is_tested_here_and_says_what_it_shows() -> None:
    """Each program in the folder is run above, opens with a docstring, and tells how to start it."""
    programs = {path.stem: ast.parse(path.read_text("utf-8")) for path in EXAMPLES.glob("*.py")}
    here = Path(__file__).read_text("utf-8")
    assert [name for name in programs if f'output_of("{name}")' not in here] == []
    assert [
        name
        for name, tree in programs.items()
        if f"python examples/{name}.py" not in (ast.get_docstring(tree) or "")
    ] == []
