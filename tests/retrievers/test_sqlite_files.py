"""Making and opening index files: nothing is overwritten, nothing foreign is touched."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import anyio
import apsw
import pytest
from sqlite_kit import NOTES, ids, read

from rrf_stream.errors import RRFStreamError
from rrf_stream.retrievers import _sqlite_db
from rrf_stream.retrievers.sqlite import DatabaseError, Document, SQLiteIndex

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


async def test_create_makes_one_tidy_file_and_refuses_an_existing_one(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    async with SQLiteIndex.create(path) as index:
        await index.add(NOTES)
    assert names(tmp_path) == ["i.db"]  # no log left beside it
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        await SQLiteIndex.create(path).__aenter__()
    assert path.read_bytes() == before
    async with SQLiteIndex.open(path) as index:
        assert await index.count() == 3


async def test_open_refuses_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.db"):
        await SQLiteIndex.open(tmp_path / "missing.db").__aenter__()
    assert names(tmp_path) == []


async def test_open_refuses_foreign_files_and_leaves_them_as_they_are(tmp_path: Path) -> None:
    foreign = {
        "text.db": "not an SQLite file",
        "other.db": "not an index",
        "empty.db": "is an empty file, not an index",
    }
    (tmp_path / "text.db").write_bytes(b"hello" * 1000)
    (tmp_path / "empty.db").touch()
    connection = apsw.Connection(str(tmp_path / "other.db"))
    connection.execute("create table t(x)")
    connection.close()
    for name, message in foreign.items():
        before = (tmp_path / name).read_bytes()
        with pytest.raises(ValueError, match=message):
            await SQLiteIndex.open(tmp_path / name).__aenter__()
        assert (tmp_path / name).read_bytes() == before
    assert names(tmp_path) == sorted(foreign)


async def test_open_refuses_another_schema_version(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db"):
        pass
    connection = apsw.Connection(str(tmp_path / "i.db"))
    connection.execute("pragma user_version = 99")
    connection.close()
    with pytest.raises(ValueError, match="index of version 99, and this library reads version 1"):
        await SQLiteIndex.open(tmp_path / "i.db").__aenter__()


async def test_a_failed_creation_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sqlite_db, "SCHEMA", "create table wrong(;")
    with pytest.raises(DatabaseError, match="syntax error"):
        await SQLiteIndex.create(tmp_path / "i.db").__aenter__()
    assert names(tmp_path) == []


async def test_whatever_sqlite_refuses_is_one_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=re.escape(str(tmp_path))) as caught:
        await SQLiteIndex.open(tmp_path).__aenter__()  # a folder
    assert isinstance(caught.value.__cause__, apsw.Error)
    path = tmp_path / "i.db"
    async with SQLiteIndex.create(path) as index:
        await index.add(Document(id=str(n), text=f"words {n}") for n in range(50))
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xaa" * (len(content) - 4096))
    with pytest.raises(DatabaseError, match=re.escape(str(path))) as caught:
        async with SQLiteIndex.open(path) as index:
            await read(index.lexical("words"))
    assert isinstance(caught.value.__cause__, apsw.Error)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own bytes


async def test_a_path_is_never_a_uri_or_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "file:x?mode=memory"):
        async with SQLiteIndex.create(name) as index:
            await index.add(NOTES[:1])
            assert index.path == tmp_path / name
        assert (tmp_path / name).stat().st_size > 0


async def test_the_index_says_what_state_it_is_in(tmp_path: Path) -> None:
    index = SQLiteIndex.create(tmp_path / "i.db")
    assert repr(index) == f"<SQLiteIndex '{tmp_path / 'i.db'}': not entered>"
    with pytest.raises(ValueError, match="not open: use it inside `async with`"):
        await index.count()
    async with index:
        assert repr(index).endswith("open>")
        with pytest.raises(ValueError, match="is open, and cannot be entered again"):
            await index.__aenter__()
    assert repr(index).endswith("closed>")
    await index.aclose()  # again does nothing
    for retriever in (index.lexical, index.dense, index.graph):
        with pytest.raises(ValueError, match="is closed"):
            retriever("q")
    for call in (index.count, index.origins, index.prepare):
        with pytest.raises(ValueError, match="is closed"):
            await call()
    with pytest.raises(ValueError, match="is closed"):
        await index.add(NOTES)
    with pytest.raises(ValueError, match="closed, and cannot be entered again"):
        await index.__aenter__()


CRASH = """
import sys, anyio
from rrf_stream.retrievers.sqlite import DatabaseError, Document, SQLiteIndex

async def main():
    async with SQLiteIndex.create(sys.argv[1]) as index:
        documents = (Document(id=str(n), text=f"number {n}") for n in range(1_000_000))
        await index.add(documents, batch_size=10, on_progress=lambda n: print(n, flush=True))

anyio.run(main)
"""


def kill_while_it_adds(path: Path) -> int:
    """The number of documents that the child said it had added."""
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", CRASH, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as child:
        assert child.stdout is not None
        told = 0
        while told < 100:
            told = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().splitlines(keepends=True)
    return max([told, *(int(line) for line in rest if line.endswith("\n"))])


async def test_a_killed_writer_loses_the_open_batch_at_most(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    told = kill_while_it_adds(path)
    async with SQLiteIndex.open(path) as index:
        stored = await index.count()
        assert stored % 10 == 0
        assert stored >= told  # what it was told is stored, and perhaps a batch it did not live to tell
        assert ids(await read(index.lexical("99"))) == ["99"]
        assert await index._connections.read(lambda db: db.rows("pragma integrity_check")) == [("ok",)]
        assert await index.add([Document(id="after", text="the crash")]) == 1


async def test_writers_of_two_processes_take_turns_and_a_cancelled_one_stops_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        other = apsw.Connection(str(index.path))
        other.execute("begin immediate")
        started = time.monotonic()
        with anyio.move_on_after(0.05) as scope:
            await index.remove(["x"])
        assert scope.cancelled_caught
        assert time.monotonic() - started < 5  # LOCK_PATIENCE is 10 s
        assert await index.count() == 0  # readers do not wait

        monkeypatch.setattr(_sqlite_db, "LOCK_PATIENCE", 0.02)
        with pytest.raises(DatabaseError, match=r"i\.db: .*database is locked") as caught:
            await index.remove(["x"])
        assert isinstance(caught.value, RRFStreamError)
        assert isinstance(caught.value.__cause__, apsw.BusyError)
        monkeypatch.setattr(_sqlite_db, "LOCK_PATIENCE", 10.0)
        async with anyio.create_task_group() as group:
            group.start_soon(index.add, [Document(id="a", text="")])
            await anyio.sleep(0.05)  # another process holds the lock: only real time shows that we wait
            assert await index.count() == 0
            other.execute("commit")
        assert await index.count() == 1
        other.close()


async def test_a_writer_does_not_wait_for_a_long_read(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(NOTES)
        reader = apsw.Connection(str(index.path))
        rows = reader.execute("select id from documents order by key")
        assert next(rows) == ("rrf",)  # a read transaction is open from here on
        with anyio.fail_after(5):
            assert await index.remove(["cats"]) == 1
        assert list(rows) == [("bm25",), ("cats",)]  # and sees the index as it was
        reader.close()
