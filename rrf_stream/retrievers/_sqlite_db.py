"""One connection to an index file: how it is made, checked, opened and interrupted.

The only importer of apsw, and the only user of sqlite-vec, of which just the extension that SQLite
loads is needed: importing its Python package would import numpy.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rrf_stream.errors import MissingExtraError, RRFStreamError
from rrf_stream.retrievers._wordllama import DIMENSIONS

try:
    import apsw
except ImportError as error:
    raise MissingExtraError("apsw", extra="sqlite") from error
if (_sqlite_vec := importlib.util.find_spec("sqlite_vec")) is None or _sqlite_vec.origin is None:
    raise MissingExtraError("sqlite-vec", extra="sqlite")

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Value = None | int | float | bytes | str

#: Marks our files (SQLite's application_id): "RRFs" in ASCII.
APPLICATION_ID = 0x52524673
#: Changes with the tables, the tokenizer, or the embedding model.
SCHEMA_VERSION = 1
#: SQLite adds the platform's own suffix.
VECTOR_EXTENSION = Path(_sqlite_vec.origin).with_name("vec0")
#: How long a writer waits for another process that writes, in seconds.
LOCK_PATIENCE = 10.0
#: SQLite steps between two looks at the stop flag. `sqlite3_interrupt` acts sooner, but is forgotten
#: when it falls between two statements; this catches the statement that then starts.
STEPS_PER_LOOK = 20_000

SCHEMA = f"""
create table documents(
    key integer primary key, id text not null unique, origin text,
    title text not null, text text not null, links text not null, metadata text not null);
create index documents_by_origin on documents(origin) where origin is not null;
create table origins(origin text primary key, digest text) without rowid;
create table links(
    source integer, position integer, target text, primary key(source, position)) without rowid;
create index links_by_target on links(target, source);
create virtual table lexicon using fts5(
    title, text, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2');
create virtual table vectors using vec0(embedding float[{DIMENSIONS}] distance_metric=cosine);
pragma application_id = {APPLICATION_ID};
pragma user_version = {SCHEMA_VERSION};
"""


class DatabaseError(RRFStreamError):
    """SQLite failed: the file is damaged or locked for long, the disk is full, it is read-only, and the like.

    The message begins with the file; SQLite's own error, if there is one, is `__cause__`.
    """


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise DatabaseError(f"{path}: {error}") from error


class Database:
    """A connection that one thread uses and any thread may interrupt.

    Args:
        path: An existing index file, absolute, so that it is never taken for a URI or ":memory:".
        readonly: Whether the connection is for reading only.

    Attributes:
        writable: Whether it can write; False also where the file or its folder does not allow it.

    Raises:
        ValueError: The file is not an index, or one of another version.
        DatabaseError: SQLite cannot open it. Each method raises it too, when SQLite fails.
    """

    def __init__(self, path: Path, *, readonly: bool) -> None:
        self._stopped = False
        self._path = path
        with _translated(path):
            try:
                flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE
                self._connection = self._connect(path, str(path), flags)
            except (apsw.ReadOnlyError, apsw.CantOpenError) as error:
                if not _in_readonly_folder(path):
                    raise
                if left := _unfinished(path):
                    raise DatabaseError(
                        f"{path}: its folder is read-only, and {left.name} beside it may hold what the file"
                        " lacks: open the index once where the folder can be written"
                    ) from error
                # The log and its index cannot be made there. With no log there is nothing in them, and
                # whoever could write the folder is taken to be away: nothing is locked or looked at again.
                flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
                self._connection = self._connect(path, f"{path.as_uri()}?immutable=1", flags)
            self.writable = not readonly and not self._connection.readonly("main")

    def _connect(self, path: Path, name: str, flags: int) -> apsw.Connection:
        connection = apsw.Connection(name, flags=flags)
        try:
            connection.set_progress_handler(lambda: self._stopped, STEPS_PER_LOOK)
            connection.set_busy_handler(self._wait_for_lock)
            _check(connection, path)
            _load_vectors(connection)
            if not connection.readonly("main"):
                # Commits survive a power cut, and readers never wait for the writer.
                connection.execute("pragma journal_mode = wal; pragma synchronous = full").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def rows(self, sql: str, bindings: tuple[Value, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement; no cursor stays open."""
        with _translated(self._path):
            return self._connection.execute(sql, bindings).fetchall()

    def many(self, sql: str, bindings: Iterable[tuple[Value, ...]]) -> None:
        """Run a statement that returns no rows, once for each tuple."""
        with _translated(self._path):
            self._connection.executemany(sql, bindings)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything in the block, or nothing."""
        self.rows("begin immediate")
        try:
            yield
            self.rows("commit")
        except BaseException:
            if self._connection.in_transaction:  # some errors roll back by themselves
                self.rows("rollback")
            raise

    def resume(self) -> None:
        """Work again after `interrupt`."""
        self._stopped = False

    def interrupt(self) -> None:
        """Make the running statement fail, and every later one until `resume`."""
        self._stopped = True
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection; the last one of a process tidies the file."""
        with _translated(self._path):
            self._connection.close()

    def _wait_for_lock(self, attempts: int) -> bool:
        if self._stopped or attempts * 0.005 > LOCK_PATIENCE:
            return False
        time.sleep(0.005)
        return True


def create_file(path: Path) -> None:
    """Make an empty index.

    Raises:
        FileExistsError: There is something at `path` already; it is left alone.
        OSError: The file cannot be made.
        DatabaseError: SQLite cannot write it; it is removed again.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
    try:
        flags = apsw.SQLITE_OPEN_READWRITE
        with _translated(path), contextlib.closing(apsw.Connection(str(path), flags=flags)) as connection:
            _load_vectors(connection)
            connection.execute(f"begin immediate; {SCHEMA} commit").fetchall()
    except BaseException:
        path.unlink()
        raise


def _in_readonly_folder(path: Path) -> bool:
    effective = os.access in os.supports_effective_ids
    return path.is_file() and not os.access(path.parent, os.W_OK, effective_ids=effective)


def _unfinished(path: Path) -> Path | None:
    """The first file beside an index that shows a writer at work, or one that never finished."""
    log, undo, shared = (path.with_name(path.name + suffix) for suffix in ("-wal", "-journal", "-shm"))
    for file in (log, undo):
        if file.exists() and file.stat().st_size:
            return file
    return shared if shared.exists() else None


def _load_vectors(connection: apsw.Connection) -> None:
    connection.enable_load_extension(enable=True)
    connection.load_extension(str(VECTOR_EXTENSION))
    connection.enable_load_extension(enable=False)


def _check(connection: apsw.Connection, path: Path) -> None:
    try:
        application_id = connection.pragma("application_id")
        version = connection.pragma("user_version")
    except apsw.NotADBError as error:
        raise ValueError(f"{path} is not an index: it is not an SQLite file") from error
    if not path.stat().st_size:
        raise ValueError(f"{path} is an empty file, not an index")
    if application_id != APPLICATION_ID:
        raise ValueError(f"{path} is an SQLite file, but not an index made by SQLiteIndex")
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"{path} is an index of version {version}, and this library reads version {SCHEMA_VERSION}:"
            " index the documents again"
        )
