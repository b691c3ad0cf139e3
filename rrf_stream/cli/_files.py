"""Index files as the command opens them, and what it says when it cannot."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from rrf_stream.cli import _words as words
from rrf_stream.retrievers.sqlite import DatabaseError, SQLiteIndex

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["CommandError", "companions", "is_foreseen", "opened", "opened_or_made", "reason_of"]

# Another process may be making the file: how many looks that is worth, and the seconds between them.
_LOOKS = 40
_PAUSE = 0.05


class CommandError(Exception):
    """The command cannot go on: a message for its user, and the exit code.

    Attributes:
        code: 1 if the world is to blame, 2 if the arguments are.
    """

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


def is_foreseen(error: Exception) -> bool:
    """Return whether an error is one that files and disks are known for, rather than a mistake in here."""
    return isinstance(error, OSError | DatabaseError)


def reason_of(error: BaseException) -> str:
    """Return what an error says, without the path and number that OSError adds."""
    return words.one_line(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def companions(db: Path) -> list[Path]:
    """Return an index file and the files that SQLite may keep beside it."""
    return [db, *(db.with_name(db.name + suffix) for suffix in ("-wal", "-shm", "-journal"))]


@asynccontextmanager
async def opened(db: Path) -> AsyncIterator[SQLiteIndex]:
    """An index that exists.

    Raises:
        CommandError: There is none, or it cannot be opened.
    """
    async with AsyncExitStack() as stack:
        try:
            index = await stack.enter_async_context(SQLiteIndex.open(db))
        except FileNotFoundError:
            raise CommandError(
                f"no index at {words.visible(str(db))}; make one: rrf-stream index PATH... --db FILE", code=2
            ) from None
        except Exception as error:
            raise _refusal(db, error) from error
        yield index


@asynccontextmanager
async def opened_or_made(db: Path) -> AsyncIterator[SQLiteIndex]:
    """An index that exists, or else a new one; two processes may do this at once.

    Raises:
        CommandError: It can neither be opened nor made.
    """
    async with AsyncExitStack() as stack:
        try:
            index = await _open_or_make(stack, db)
        except Exception as error:
            raise _refusal(db, error) from error
        yield index


def _refusal(db: Path, error: Exception) -> Exception:
    """Return what to raise for an error on opening an index."""
    if isinstance(error, ValueError | DatabaseError):
        return CommandError(reason_of(error), code=2)  # it names the file
    if is_foreseen(error):
        return CommandError(f"{words.visible(str(db))}: {reason_of(error)}", code=2)
    return error


async def _open_or_make(stack: AsyncExitStack, db: Path) -> SQLiteIndex:
    for _ in range(_LOOKS):
        try:
            return await stack.enter_async_context(SQLiteIndex.create(db))
        except FileExistsError:
            pass
        try:
            return await stack.enter_async_context(SQLiteIndex.open(db))
        except ValueError:
            # An empty file may be one that another process has made just now.
            file = await anyio.Path(db).stat()
            if file.st_size > 0 or time.time() - file.st_mtime > _LOOKS * _PAUSE:
                raise
        await anyio.sleep(_PAUSE)
    return await stack.enter_async_context(SQLiteIndex.open(db))
