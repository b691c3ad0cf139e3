"""The connections of one open index, each in its thread: one that writes, several that read."""

from __future__ import annotations

import errno
import os
import weakref
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from rrf_stream.retrievers._sqlite_db import Database, DatabaseError, create_file
from rrf_stream.retrievers._workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")


class Connections:
    """The threads of an index, from its opening to its end.

    No thread refers to this object, so a dropped one is collected and lets its threads end.

    Args:
        path: The file, absolute.
        create: Whether to make the file.
        readers: How many threads read.
    """

    def __init__(self, path: Path, *, create: bool, readers: int) -> None:
        self._path = path
        self._create = create
        self._reader_count = readers
        self._threads: tuple[Workers[Database], Workers[Database]] | None = None  # writer, readers
        self._writable = True
        self._closed = False

    @property
    def state(self) -> str:
        """What `repr` says of the index."""
        if self._closed:
            return "closed"
        if self._threads is None:
            return "not entered"
        return "open" if self._writable else "open, read-only"

    async def open(self) -> None:
        """Open the file, unhurried by the caller's deadlines: a half-made file would help nobody.

        Raises:
            ValueError: It was opened before, or the file is no index of this version.
            FileExistsError: The file is to be made, and exists.
            FileNotFoundError: The file is to be opened, and does not exist.
            DatabaseError: SQLite cannot open or make it.
        """
        if self.state != "not entered":
            raise ValueError(f"the index is {self.state}, and cannot be entered again: make a new one")
        owner = f"the index {str(self._path)!r}"
        with anyio.CancelScope(shield=True):
            open_writer = partial(_open_writer, self._path, create=self._create)
            writer = Workers(open_writer, count=1, name="rrf:index-writer", owner=owner)
            await writer.ready()
            self._writable = await writer.run(lambda db: db.writable)
            open_reader = partial(Database, self._path, readonly=True)
            readers = Workers(open_reader, count=self._reader_count, name="rrf:index-reader", owner=owner)
            self._threads = writer, readers
            # For an index that is dropped; at the interpreter's exit threads are stopped by other means.
            weakref.finalize(self, _dismiss, writer, readers).atexit = False
            try:
                await readers.ready()
            except BaseException:
                await self.aclose()
                raise

    async def read(self, call: Callable[[Database], T]) -> T:
        """Run a call that reads; a cancelled one is interrupted and not waited for."""
        _, readers = self._opened()
        return await readers.run(call)

    async def write(self, call: Callable[[Database], T]) -> T:
        """Run a call that writes; a cancelled one is interrupted and waited for."""
        self.check_writable()
        writer, _ = self._opened()
        return await writer.run(call, settle=True)

    def check(self) -> None:
        """Refuse to work before `open` and after `aclose`.

        Raises:
            ValueError: The index is not open.
        """
        self._opened()

    def check_writable(self) -> None:
        """Refuse to write where that cannot be done, before any work goes into what to write.

        Raises:
            ValueError: The index is not open.
            DatabaseError: It is open for reading only.
        """
        self._opened()
        if not self._writable:
            raise DatabaseError(
                f"{self._path}: the index is read-only: the file or its folder cannot be written"
            )

    async def aclose(self) -> None:
        """Interrupt what runs and end every thread; later calls do nothing."""
        self._closed = True
        if self._threads is not None:
            writer, readers = self._threads
            await readers.aclose()
            await writer.aclose()  # last, because it can move the log into the file

    def _opened(self) -> tuple[Workers[Database], Workers[Database]]:
        if self._closed:
            raise ValueError(f"the index {str(self._path)!r} is closed")
        if self._threads is None:
            raise ValueError(f"the index {str(self._path)!r} is not open: use it inside `async with`")
        return self._threads


def _open_writer(path: Path, *, create: bool) -> Database:
    if create:
        create_file(path)
    elif not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return Database(path, readonly=False)


def _dismiss(writer: Workers[Database], readers: Workers[Database]) -> None:
    readers.dismiss()
    writer.dismiss()
