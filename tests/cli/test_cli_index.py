"""`rrf-stream index`: what is indexed, what is skipped, and what is said about it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from rrf_stream.cli import _files, _index
from rrf_stream.corpus import python_docs
from rrf_stream.retrievers.sqlite import DatabaseError, Document, SQLiteIndex

if TYPE_CHECKING:
    from cli_kit import CLI

pytest_plugins = ["cli_kit"]


def stored(*ids: str, db: str = "x.db") -> list[Document | None]:
    async def read() -> list[Document | None]:
        async with SQLiteIndex.open(db) as index:
            return [await index.get(id_) for id_ in ids]

    return anyio.run(read)


def test_files_of_every_kind_become_documents(cli: CLI, docs: Path) -> None:
    code, out, err = cli("index", "docs", "--db", "x.db")
    assert (code, err) == (0, "")
    assert out == (
        "x.db: 5 documents (5 added, 0 changed, 0 removed); "
        "4 files read, 0 unchanged, 0 gone, 0 skipped, 0 of other kinds\n"
    )
    start, dogs = stored(str(docs / "start.md"), "r1")
    assert start is not None
    assert (start.title, start.links) == ("Start here", (str(docs / "install.md"),))
    assert dogs == Document(id="r1", title="Dogs", text="a dog barks", links=("r2",))


def test_a_second_run_reads_only_what_changed(cli: CLI, docs: Path) -> None:
    cli("index", "docs", "--db", "x.db")
    assert (
        "(0 added, 0 changed, 0 removed); 0 files read, 4 unchanged"
        in cli("index", "docs", "--db", "x.db").out
    )
    (docs / "note.txt").write_text("another note\n")
    one, _ = (docs / "records.jsonl").read_text().splitlines()
    (docs / "records.jsonl").write_text(one + '\n{"id": "r3", "text": "new"}\n')
    (docs / "install.md").unlink()
    (docs / "sub").mkdir()
    (docs / "sub" / "more.txt").write_text("more\n")
    result = cli("index", "docs", "--db", "x.db")
    # Added: r3 and more.txt; changed: note.txt; removed: r2 and install.md.
    assert "5 documents (2 added, 1 changed, 2 removed); 3 files read, 1 unchanged, 1 gone" in result.out
    assert result.code == 0
    assert stored("r2", str(docs / "install.md")) == [None, None]


def test_what_cannot_be_read_is_named_and_the_rest_is_indexed(cli: CLI, docs: Path) -> None:
    (docs / "latin.txt").write_bytes(b"caf\xe9\n")
    (docs / "blob").write_bytes(b"\x00\x01")
    with (docs / "records.jsonl").open("a") as file:
        file.write("oops\n")
    (docs / "picture.png").write_bytes(b"\x89PNG\x00")
    result = cli("index", "docs", "missing", "--db", "x.db")
    assert result.err.splitlines() == [
        "skipped missing: No such file or directory",
        f"skipped {docs}/blob: not a text file (a zero byte at offset 0)",
        f"skipped {docs}/latin.txt: not UTF-8 text (invalid continuation byte at offset 3)",
        f"skipped {docs}/records.jsonl:3: not JSON (Expecting value at column 1)",
    ]
    assert "5 documents (5 added" in result.out
    assert "4 files read, 0 unchanged, 0 gone, 4 skipped, 1 of other kinds" in result.out
    assert result.code == 1
    again = cli("index", "docs", "missing", "--db", "x.db")
    assert (again.code, again.err) == (1, result.err), "a file that did not change is still bad"


def test_a_file_of_bad_lines_does_not_fill_the_screen(cli: CLI, here: Path) -> None:
    (here / "bad.jsonl").write_text("x\n" * 100)
    result = cli("index", "bad.jsonl", "--db", "x.db")
    assert len(result.err.splitlines()) == 20 + 1
    assert result.err.splitlines()[-1] == f"skipped {here}/bad.jsonl: 80 more lines that cannot be read"
    assert result.code == 1


def test_what_an_index_held_of_a_file_stays_when_it_cannot_be_read_any_more(cli: CLI, docs: Path) -> None:
    cli("index", "docs", "--db", "x.db")
    (docs / "note.txt").write_bytes(b"\xff")
    result = cli("index", "docs", "--db", "x.db")
    assert (result.code, "5 documents (0 added, 0 changed, 0 removed)" in result.out) == (1, True)
    (note,) = stored(str(docs / "note.txt"))
    assert note is not None


def test_an_id_of_another_file_is_a_problem_of_the_whole_file(cli: CLI, docs: Path) -> None:
    (docs / "twin.jsonl").write_text('{"id": "r1", "text": "another"}\n{"id": "r9", "text": "innocent"}\n')
    result = cli("index", "docs", "--db", "x.db")
    assert result.code == 1
    assert result.err.startswith(f"skipped {docs}/twin.jsonl: document 'r1' ")
    assert stored("r9") == [None]


def test_an_id_may_move_from_one_file_to_an_earlier_one(cli: CLI, docs: Path) -> None:
    cli("index", "docs", "--db", "x.db")
    one, two = (docs / "records.jsonl").read_text().splitlines()
    (docs / "a.jsonl").write_text(one + "\n")
    (docs / "records.jsonl").write_text(two + "\n")
    result = cli("index", "docs", "--db", "x.db")
    assert (result.code, result.err) == (0, "")
    assert "5 documents" in result.out


@pytest.mark.usefixtures("docs")
def test_the_index_may_lie_in_the_folder_it_is_of(cli: CLI) -> None:
    for _ in range(2):
        result = cli("index", "docs", "--db", "docs/data.index")
        assert (result.code, result.err) == (0, "")
        assert "5 documents" in result.out


def test_hostile_names_and_lines_are_written_out(cli: CLI, here: Path) -> None:
    (here / "a\x1b[31m\nb.txt").write_bytes(b"\xff")
    result = cli("index", ".", "--db", "x.db")
    assert (
        result.err == f"skipped {here}/a\\x1b[31m\\nb.txt: not UTF-8 text (invalid start byte at offset 0)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '--db'"),
        (("--db", "x.db"), "give at least one PATH, or --python-docs"),
        (("docs", "--db"), "Option '--db' requires an argument"),
        (("docs", "--db", "docs"), "docs: "),
        (("docs", "--db", "no/x.db"), "no/x.db: No such file or directory"),
        (("docs", "--db", "docs/note.txt"), "docs/note.txt is not an index: it is not an SQLite file"),
    ],
)
def test_wrong_arguments_are_one_message(
    cli: CLI, docs: Path, arguments: tuple[str, ...], message: str
) -> None:
    before = sorted(docs.parent.rglob("*"))
    result = cli("index", *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err
    assert sorted(docs.parent.rglob("*")) == before
    assert (docs / "note.txt").read_text() == "setup of the cat door\n"


def test_python_docs_come_and_go_with_the_python(
    cli: CLI, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = python_docs()[:20]
    monkeypatch.setattr(_index, "python_docs", lambda: modules)
    first = cli("index", "docs", "--python-docs", "--db", "x.db")
    assert (first.code, "24 files read" in first.out) == (0, True)
    del modules[-1]
    second = cli("index", "--python-docs", "--db", "x.db")
    assert "0 files read, 19 unchanged, 1 gone, 0 skipped" in second.out, (
        "the files of docs are not its business"
    )
    third = cli("index", "docs", "--db", "x.db")
    assert "0 files read, 4 unchanged, 0 gone, 0 skipped" in third.out, "nor the other way round"
    assert (docs / "note.txt").exists()


def test_a_path_that_is_gone_takes_its_documents_along(cli: CLI, docs: Path) -> None:
    cli("index", "docs", "--db", "x.db")
    (docs / "records.jsonl").unlink()
    file = cli("index", "docs/records.jsonl", "missing", "--db", "x.db")
    assert file.err.splitlines() == [
        "docs/records.jsonl is gone: what the index had of it is removed (1 file)",
        "skipped missing: No such file or directory",
    ]
    assert file.code == 1
    assert (
        "3 documents (0 added, 0 changed, 2 removed); 0 files read, 0 unchanged, 1 gone, 1 skip" in file.out
    )
    shutil.rmtree(docs)
    folder = cli("index", "docs", "--db", "x.db")
    assert folder.err == "docs is gone: what the index had of it is removed (3 files)\n"
    assert "0 documents (0 added, 0 changed, 3 removed)" in folder.out
    assert folder.code == 0
    again = cli("index", "docs", "--db", "x.db")
    assert again[::2] == (1, "skipped docs: No such file or directory\nrrf-stream: nothing to index\n")


def test_an_empty_file_is_no_index_and_nobody_waits_for_it(
    cli: CLI, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one that was made just now may become an index, in the hands of another process."""
    looks: list[str] = []
    create = SQLiteIndex.create

    def look(path: Path) -> SQLiteIndex:
        looks.append(str(path))
        return create(path)

    monkeypatch.setattr(SQLiteIndex, "create", look)
    monkeypatch.setattr(_files, "_PAUSE", 0.001)
    empty = docs.parent / "empty"
    message = f"rrf-stream: {empty} is an empty file, not an index\n"
    for made, expected in ((1e9, 1), (time.time() + 60, 40)):
        empty.touch()
        os.utime(empty, (made, made))
        looks.clear()
        assert cli("index", "docs", "--db", "empty") == (2, "", message)
        assert len(looks) == expected
        assert cli("search", "x", "--db", "empty") == (2, "", message)
    assert empty.stat().st_size == 0


def test_an_index_that_another_process_writes_to_is_a_message(
    cli: CLI, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("index", "docs", "--db", "x.db")
    (docs / "note.txt").write_text("other words\n")

    async def refuse(*_: object) -> None:
        raise DatabaseError("x.db: database is locked")

    monkeypatch.setattr(SQLiteIndex, "replace_origin", refuse)
    assert cli("index", "docs", "--db", "x.db") == (1, "", "rrf-stream: x.db: database is locked\n")


def test_nothing_is_made_when_there_is_nothing_to_index(cli: CLI, here: Path) -> None:
    result = cli("index", "mispelt", "--db", "x.db")
    assert result == (
        1,
        "",
        "skipped mispelt: No such file or directory\nrrf-stream: nothing to index\n",
    )
    assert not (here / "x.db").exists()


def test_an_empty_folder_is_an_empty_index(cli: CLI, here: Path) -> None:
    (here / "empty").mkdir()
    result = cli("index", "empty", "--db", "x.db")
    assert (result.code, "0 documents" in result.out) == (0, True)
