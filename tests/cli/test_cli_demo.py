"""`rrf-stream demo`: the tour, and the index that it keeps."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from cli_process import COMMAND, finish, run, start

from rrf_stream.cli import _cache, _index, main
from rrf_stream.corpus import python_docs
from rrf_stream.retrievers.sqlite import SQLiteIndex

# The demo with time enough for every arm that answers at all, however busy the machine is.
PATIENT = """
import runpy
from rrf_stream.cli import _demo
_demo._BUDGET, _demo._SHORT_BUDGET = 60.0, 3.0
runpy.run_module("rrf_stream", run_name="__main__", alter_sys=True)
"""


class Demo(NamedTuple):
    """Runs with one cache folder: two first ones at once, and a second, patient one after them."""

    environment: dict[str, str]
    first: tuple[str, str]
    second: str


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("cache") / "with a blank"
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    one, another = [start(*COMMAND, "demo", env=environment) for _ in range(2)]
    runs = [finish(one), finish(another), run(sys.executable, "-c", PATIENT, "demo", env=environment)]
    assert [(done.code, done.err) for done in runs] == [(0, "")] * 3
    return Demo(environment, (runs[0].out, runs[1].out), runs[2].out)


def test_python_is_indexed_once_even_by_two_runs_at_once(tour: Demo) -> None:
    for first in tour.first:
        assert first.startswith("Indexing the documentation of Python ")
        assert re.search(r"^[4-6],\d{3} docstrings of Python 3\.\d+\.\d+, indexed in ", first, re.MULTILINE)
        assert "Try next" in first
    assert "Indexing" not in tour.second
    assert ", indexed before, in " in tour.second.splitlines()[0]


def test_an_index_that_another_run_is_making_is_waited_for(tour: Demo) -> None:
    """Half made, it looks like one that nobody can read; were it removed for that, both would be spoilt."""
    (db,) = Path(tour.environment["XDG_CACHE_HOME"], "rrf-stream").glob("*.db")
    with db.with_name(f"{db.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = start(*COMMAND, "demo", env=tour.environment)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2.5)
    assert (finish(process).code, db.exists()) == (0, True)


def test_three_queries_are_answered_in_full_and_one_is_not(tour: Demo) -> None:
    verdicts = re.findall(r"^(complete|degraded) after", tour.second, re.MULTILINE)
    assert verdicts == ["complete", "complete", "complete", "degraded"]
    assert re.findall(r"^== (\d)\.", tour.second, re.MULTILINE) == ["1", "2", "3", "4"]


def test_the_arms_disagree(tour: Demo) -> None:
    begins = re.findall(r"^(\w+) alone begins with (.+)$", tour.second, re.MULTILINE)
    assert [arm for arm, _ in begins] == ["lexical", "dense", "graph"] * 3
    for lexical, dense in ((begins[0], begins[1]), (begins[3], begins[4]), (begins[6], begins[7])):
        assert lexical[1] != dense[1]


def test_what_is_said_of_the_examples_is_so(tour: Demo) -> None:
    first, second, third = (
        [(line.split("\t")[2], line.split("\t")[4]) for line in part.splitlines() if "\t" in line]
        for part in re.split(r"^== \d\..*$", tour.second, flags=re.MULTILINE)[1:4]
    )
    begins = [line.split(", ") for line in re.findall(r"alone begins with (.+)$", tour.second, re.MULTILINE)]
    assert len({firsts[0] for firsts in begins[:3]}) == 3, "a first choice of its own"
    assert re.findall(r"\w+(?= \d+)", first[0][1]) == ["lexical", "dense", "graph"]
    assert max(map(int, re.findall(r"\d+", first[0][1]))) <= 10, "near the top"
    assert ("random", "lexical 1") in second
    assert [ranks for _, ranks in second if re.fullmatch(r"dense \d+", ranks)], "guesses among the rest"
    part = tour.second[tour.second.index("== 2.") : tour.second.index("== 3.")]
    (others,) = re.findall(r"^graph: done in .*, (\d+) hits$", part, re.MULTILINE)
    assert 1 / (60 + int(others)) > 0.5 / 61, "half a weight puts them behind all that graph finds"
    assert third[0][1].count(",") == 2
    shown = [id_ for id_, ranks in third if ranks.count(",") == 2]
    assert begins[6][0] not in shown, "what lexical ranks first is passed"


def test_the_arm_that_is_held_back_is_told_with_what_it_costs(tour: Demo) -> None:
    last = tour.second[tour.second.index("== 4.") :]
    assert "with dense held back on purpose" in last
    assert re.search(r"^dense: timed out after 2 hits, \d\.\d s$", last, re.MULTILINE)
    assert "Coverage: lexical and graph answered in full, which is 67% of the weight." in last
    missing = re.search(r"^Missing against the full answer: (.+)\.$", last, re.MULTILINE)
    assert missing is not None
    assert re.match(r"[\w.]+ \(was \d\)", missing[1])
    third = tour.second[tour.second.index("== 3.") : tour.second.index("== 4.")]
    assert re.findall(r"[\w.]+(?= \(was)", missing[1])[0] in third
    said = re.search(r"(even )?the first (?:(\d+) )?(?:might|would) be", last)
    assert said, "how much is certain"
    sure = 0 if said[1] else int(said[2] or 1)
    short, full = (
        [line.split("\t")[2] for line in part.splitlines() if "\t" in line] for part in (last, third)
    )
    assert short[:sure] == full[:sure], "and it is so"


def test_the_commands_to_try_work_as_they_are_printed(tour: Demo, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("words\n")
    steps = tour.second[tour.second.index("== Try next ==") :]
    commands = [line.strip() for line in steps.splitlines() if line.startswith("  ")]
    assert len(commands) == 7
    for command in commands:
        done = run("/bin/sh", "-c", command, env=tour.environment, cwd=tmp_path)
        # 1: on a machine this slow, no arm answers in the 50 ms of one of them.
        assert done.code == 0 or (done.code == 1 and "--timeout" in command), done.err
        assert done.out or done.code


def test_a_run_that_is_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for signal_number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        process = start(*COMMAND, "demo", env=environment)
        wait_for_origins(tmp_path, more_than=indexed(tmp_path))
        process.send_signal(signal_number)
        done = finish(process)
        assert (done.code, done.err) == (code, "")
    before = indexed(tmp_path)
    assert before > 0
    done = run(*COMMAND, "demo", env=environment)
    assert (done.code, done.err) == (0, "")
    assert "Try next" in done.out
    assert indexed(tmp_path) > before


def indexed(cache: Path) -> int:
    """How many modules the demo's index has."""

    async def count() -> int:
        for db in (cache / "rrf-stream").glob("*.db"):
            try:
                async with SQLiteIndex.open(db) as index:
                    return len(await index.origins())
            except ValueError:
                return 0  # it is being made
        return 0

    return anyio.run(count)


def wait_for_origins(cache: Path, *, more_than: int) -> None:
    deadline = time.monotonic() + 120  # the process may be long in starting
    while indexed(cache) <= more_than:
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -- where the index is kept -----------------------------------------------------------------------


def demo_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["rrf-stream", "demo"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("cache", "home", "where"),
    [
        ("/abs/cache", "/home/me", "/abs/cache/rrf-stream"),
        ("", "/home/me", "/home/me/.cache/rrf-stream"),
        ("rel/cache", "/home/me", "/home/me/.cache/rrf-stream"),
    ],
)
def test_the_cache_folder_follows_the_xdg_convention(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: str, home: str, where: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}{cache}" if cache.startswith("/") else cache)
    monkeypatch.setenv("HOME", f"{tmp_path}{home}")
    assert str(_cache.cache_folder()) == f"{tmp_path}{where}"
    assert _cache.cache_folder().is_dir()


def test_a_cache_folder_that_cannot_be_made_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    code, out, err = demo_here(capsys, monkeypatch)
    assert (code, out) == (1, "")
    assert err == (
        f"rrf-stream: cannot make the folder {tmp_path}/file/rrf-stream: Not a directory; "
        "set XDG_CACHE_HOME to the absolute path of a folder that can be written\n"
    )


def test_an_index_of_another_version_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tour: Demo
) -> None:
    (db,) = (Path(tour.environment["XDG_CACHE_HOME"]) / "rrf-stream").glob("*.db")
    (tmp_path / "rrf-stream").mkdir()
    stale = tmp_path / "rrf-stream" / db.name
    stale.write_bytes(b"from another time\n" * 100)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # A few modules are enough to see it.
    monkeypatch.setattr(_index, "python_docs", lambda: python_docs()[:30])
    code, out, err = demo_here(capsys, monkeypatch)
    assert (code, err) == (0, "")
    assert out.startswith("Indexing the documentation of Python ")
    assert indexed(tmp_path) == 30
