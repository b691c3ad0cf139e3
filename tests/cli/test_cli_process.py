"""What only a process of its own shows: terminals, signals, pipes, and libraries that are missing."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cli_process import COMMAND, finish, on_a_terminal, run, start

if TYPE_CHECKING:
    from cli_kit import CLI

pytest_plugins = ["cli_kit"]


@pytest.fixture
def searched(cli: CLI, docs: Path) -> Path:
    """The corpus `docs` and a hostile record, with the index `x.db` beside it."""
    record = {"id": "evil", "title": "\x1b[31mred\x1b]0;x\x07 [bold]title[/bold]", "text": "setup"}
    (docs / "evil.jsonl").write_text(json.dumps(record) + "\n")
    assert cli("index", "docs", "--db", "x.db").code == 0
    return docs


# -- terminals -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("searched")
def test_on_a_terminal_a_table_is_drawn_again_and_again_and_stays() -> None:
    code, written = on_a_terminal("search", "setup", "--db", "x.db")
    assert code == 0
    assert written.count("moved") >= 2, "the heading of at least two pictures"
    assert "waiting" in written, "the first picture is drawn before the arms are asked"
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written[written.rindex("moved") :])
    assert re.findall(r"^  (\w+) +done in \d+ ms, \d hits?\r$", last, re.MULTILINE) == [
        "lexical",
        "dense",
        "graph",
    ]
    assert "complete after" in last
    rows = re.findall(r"^ (\d) +(✓?)", last, re.MULTILINE)
    assert len(rows) >= 3
    assert all(mark for _, mark in rows), "a full answer is certain"


@pytest.mark.usefixtures("searched")
def test_a_title_cannot_command_the_terminal() -> None:
    _, written = on_a_terminal("search", "setup", "--db", "x.db", "--explain")
    assert "\\x1b[31mred\\x1b]0;x\\x07 [bold]title[/bold]" in written
    assert "\x07" not in written
    assert "\x1b]" not in written


@pytest.mark.usefixtures("searched")
def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines() -> None:
    code, written = on_a_terminal("search", "dog", "--db", "x.db", TERM="dumb")
    assert code == 0
    assert "\x1b" not in written
    assert written.startswith("1\t")


@pytest.mark.usefixtures("searched")
def test_json_is_json_on_a_terminal_too() -> None:
    _, written = on_a_terminal("search", "dog", "--db", "x.db", "--json")
    assert [json.loads(line)["final"] for line in written.splitlines()][-1] is True


def test_indexing_shows_a_bar_on_a_terminal(docs: Path) -> None:
    (docs / "bad.txt").write_bytes(b"\xff")
    code, written = on_a_terminal("index", "docs", "--db", "new.db", COLUMNS="200")
    assert code == 1
    assert "indexing" in written
    assert "/5" in written
    assert f"skipped {docs}/bad.txt: not UTF-8 text" in written
    assert "new.db: 5 documents" in written


# -- pipes and signals -----------------------------------------------------------------------------


@pytest.mark.usefixtures("searched")
def test_a_reader_that_leaves_is_no_error() -> None:
    process = start(*COMMAND, "search", "setup", "--db", "x.db", "--json")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    assert finish(process) == (141, "", "")


@pytest.mark.usefixtures("searched")
def test_a_search_with_the_model_prints_nothing_but_its_answer() -> None:
    """wordllama, left alone, would send everybody's logs to standard error."""
    done = run(*COMMAND, "search", "setup", "--db", "x.db")
    assert done.code == 0
    assert all(re.match(r"\d+\t", line) for line in done.out.splitlines())
    assert [re.split(r":| after", line)[0] for line in done.err.splitlines()] == [
        "lexical",
        "dense",
        "graph",
        "complete",
    ]


@pytest.mark.usefixtures("searched")
@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell that closes streams")
def test_with_standard_error_closed_there_are_hits_only() -> None:
    """How the arms did has nowhere to go then; it does not go among the hits."""
    done = run("/bin/sh", "-c", 'exec "$0" "$@" 2>&-', *COMMAND, "search", "setup", "--db", "x.db")
    assert done.code == 0
    assert done.out
    assert all(re.match(r"\d+\t", line) for line in done.out.splitlines())


@pytest.mark.usefixtures("searched")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_full_disk_is_a_message() -> None:
    with Path("/dev/full").open("w") as full:
        done = run(*COMMAND, "search", "setup", "--db", "x.db", stdout=full)
    assert done == (1, "", "rrf-stream: [Errno 28] No space left on device\n")


def test_an_interrupted_run_keeps_what_it_has_and_says_nothing(cli: CLI, here: Path) -> None:
    process = start(*COMMAND, "index", "--python-docs", "--db", "x.db")
    deadline = time.monotonic() + 30
    while not (here / "x.db-wal").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, "", "")
    (here / "note.txt").write_text("words\n")
    assert cli("index", "note.txt", "--db", "x.db").code == 0, "the index is whole"


# -- missing libraries -----------------------------------------------------------------------------


def without(library: str, *arguments: str) -> tuple[int, str, str]:
    code = f"import sys; sys.modules[{library!r}] = None; from rrf_stream.cli import main; main()"
    return run(sys.executable, "-c", code, *arguments)


@pytest.mark.parametrize(("library", "extra"), [("typer", "cli"), ("rich", "cli"), ("apsw", "sqlite")])
def test_a_missing_library_is_a_message_that_names_the_extra(library: str, extra: str) -> None:
    code, out, err = without(library, "search", "x", "--db", "x.db")
    assert (code, out) == (1, "")
    assert err == (
        f"rrf-stream: {library} is not installed; the extra '{extra}' brings it: "
        f"pip install 'rrf-stream[{extra}]'\n"
    )


def test_without_markdown_it_and_wordllama_the_message_is_the_same(docs: Path) -> None:
    for library, extra in (("markdown_it", "cli"), ("wordllama", "sqlite")):
        code, _, err = without(library, "index", str(docs), "--db", f"{library}.db")
        assert code == 1
        assert f"is not installed; the extra '{extra}' brings it" in err
        assert "Traceback" not in err
