"""Indexes that cannot be written: they open for reading, and say so when they are written to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import apsw
import pytest
from sqlite_kit import NOTES, run_child

from rrf_stream.retrievers.sqlite import SQLiteIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Opens the index, reads and writes it in every way, and prints what came of it.
USER = """
import sys, anyio
from rrf_stream.retrievers.sqlite import DatabaseError, Document, SQLiteIndex

async def ids(source):
    return [hit.id async for page in source for hit in page]

async def main():
    async with SQLiteIndex.open(sys.argv[1]) as index:
        print(repr(index).rpartition(": ")[2])
        print(await ids(index.lexical("frequency")), await ids(index.dense("frequency", limit=1)))
        print(await ids(index.graph("frequency")), await index.count(), await index.origins())
        for write in (
            index.add([Document(id="new", text="")]),
            index.remove(["rrf"]),
            index.replace_origin("o", "d", []),
            index.remove_origin("o"),
        ):
            try:
                print(await write)
            except DatabaseError as error:
                print(error)

try:
    anyio.run(main)
except DatabaseError as error:
    print(error)
"""


@pytest.fixture(scope="session")
def bound() -> tuple[str, ...]:
    """What to put before a command so that permissions bind it; they do not bind root."""
    if sys.platform == "win32":
        pytest.skip("needs folders that permissions make read-only")
    if os.geteuid():
        return ()
    setpriv = shutil.which("setpriv")
    prefix = (setpriv or "", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")
    if setpriv is None or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:  # noqa: S603 - fixed
        pytest.skip("needs a user whom permissions bind, or setpriv to become one")
    return prefix


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Path]:
    """An index in a folder of its own, whose permissions are given back afterwards."""

    async def make() -> None:
        async with SQLiteIndex.create(path) as index:
            await index.add(NOTES)

    # Characters that mean something in a URI: SQLite is given one.
    path = tmp_path / "a?b#c%20 é" / "i.db"
    path.parent.mkdir()
    anyio.run(make)
    yield path
    path.parent.chmod(0o755)


def used(path: Path, bound: tuple[str, ...], *, folder: int, file: int) -> list[str]:
    """The lines that `USER` prints, where the folder and the files in it have these permissions."""
    for beside in path.parent.iterdir():
        beside.chmod(file)
    path.parent.chmod(folder)
    printed, _ = run_child(USER, str(path), prefix=bound)
    return printed.splitlines()


@pytest.mark.parametrize(
    ("folder", "file"), [(0o555, 0o444), (0o555, 0o644), (0o755, 0o444)], ids=["both", "folder", "file"]
)
def test_what_cannot_be_written_is_read_and_says_so(
    index: Path, bound: tuple[str, ...], folder: int, file: int
) -> None:
    """With the folder, the file or both read-only, every retriever answers and every write is refused."""
    before = index.read_bytes()
    refused = f"{index}: the index is read-only: the file or its folder cannot be written"
    assert used(index, bound, folder=folder, file=file) == [
        "open, read-only>",
        "['bm25'] ['bm25']",
        "['rrf'] 3 {}",
        *[refused] * 4,
    ]
    assert index.read_bytes() == before


def test_an_empty_log_in_a_read_only_folder_is_no_obstacle(index: Path, bound: tuple[str, ...]) -> None:
    """An empty log beside the file has nothing that the file lacks."""
    index.with_name("i.db-wal").touch()
    assert used(index, bound, folder=0o555, file=0o444)[:2] == ["open, read-only>", "['bm25'] ['bm25']"]


def leave_a_log(path: Path) -> None:
    """Commit the removal of a document to the log, and leave the log as a crash would."""
    kept = path.parent.parent
    connection = apsw.Connection(str(path))
    connection.execute("delete from documents where id = 'cats'")
    for suffix in ("-wal", "-shm"):
        shutil.copy(f"{path}{suffix}", kept / f"kept{suffix}")
    before = path.read_bytes()  # closing moves the log into the file
    connection.close()
    path.write_bytes(before)
    for suffix in ("-wal", "-shm"):
        shutil.copy(kept / f"kept{suffix}", f"{path}{suffix}")


def test_a_log_with_its_index_is_read_too(index: Path, bound: tuple[str, ...]) -> None:
    """In a read-only folder, a commit that is only in the log counts, as it does anywhere."""
    leave_a_log(index)
    assert used(index, bound, folder=0o555, file=0o444)[2] == "['rrf'] 2 {}"


def test_a_log_that_cannot_be_read_is_not_passed_over(index: Path, bound: tuple[str, ...]) -> None:
    """Where SQLite cannot read the log, opening fails rather than give what was true before it."""
    leave_a_log(index)
    index.with_name("i.db-shm").unlink()
    (said,) = used(index, bound, folder=0o555, file=0o444)
    assert said == (
        f"{index}: its folder is read-only, and i.db-wal beside it may hold what the file lacks: "
        "open the index once where the folder can be written"
    )
