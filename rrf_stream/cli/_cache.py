"""The index of Python's documentation that the demo keeps in the cache folder of its user."""

from __future__ import annotations

import os
import platform
import sys
import time
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

from rrf_stream.cli import _screens as screens
from rrf_stream.cli import _words as words
from rrf_stream.cli._files import CommandError, companions, opened_or_made, reason_of
from rrf_stream.cli._index import bring_up_to_date, modules_of_python, progress, vanished_modules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from rrf_stream.retrievers.sqlite import SQLiteIndex

__all__ = ["python_index"]


@asynccontextmanager
async def python_index() -> AsyncIterator[SQLiteIndex]:
    """The index of the running Python's documentation, made or brought up to date where that is needed.

    Every module is a transaction of its own, so a run that was cut off is gone on with, and two
    runs at once only do work twice. An index that this version cannot read is made anew.

    Raises:
        CommandError: The cache folder cannot be written.
    """
    db = cache_folder() / f"{sys.implementation.name}-{platform.python_version()}.db"
    modules = modules_of_python()
    async with AsyncExitStack() as stack:
        with _one_at_a_time(db):
            try:
                index = await stack.enter_async_context(opened_or_made(db))
            except CommandError as error:
                if not isinstance(error.__cause__, ValueError):
                    raise
                for file in companions(db):
                    file.unlink(missing_ok=True)
                index = await stack.enter_async_context(opened_or_made(db))
        known = await index.origins()
        is_new = any(module.name not in known for module in modules)
        if is_new:
            screens.write(f"Indexing the documentation of Python {platform.python_version()}, once ...")
        started = time.perf_counter()
        with progress(len(modules), "indexing") if is_new else nullcontext(screens.nothing) as advance:
            changes = await bring_up_to_date(
                index, modules, vanished=vanished_modules(known, modules), advance=advance
            )
        for problem in changes.problems:
            screens.note(f"skipped {words.visible(problem.where)}: {words.one_line(problem.reason)}")
        took = f"indexed in {time.perf_counter() - started:.1f} s" if changes.read else "indexed before"
        docstrings = f"{await index.count():,} docstrings of Python {platform.python_version()}"
        screens.write(f"{docstrings}, {took}, in {words.visible(str(db))}")
        yield index


@contextmanager
def _one_at_a_time(db: Path) -> Iterator[None]:
    """Let other processes wait that want to open the index, where the system has such locks.

    One that is being made looks like one that nobody can read, and must not be removed for that.
    """
    with ExitStack() as stack:
        with suppress(OSError):  # where nothing can be written, nothing is made or removed either
            file = stack.enter_context(db.with_name(f"{db.name}.lock").open("a"))
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cache_folder() -> Path:
    """Make and return the folder, by the XDG convention: $XDG_CACHE_HOME, if it is absolute, or ~/.cache."""
    try:
        given = Path(os.environ.get("XDG_CACHE_HOME", ""))
        folder = (given if given.is_absolute() else Path.home() / ".cache") / "rrf-stream"
        folder.mkdir(parents=True, exist_ok=True)
    except RuntimeError:
        raise CommandError(
            f"there is no home directory to keep the demo's index in; {_WAY_OUT}", code=1
        ) from None
    except OSError as error:
        where = words.visible(str(folder))
        raise CommandError(
            f"cannot make the folder {where}: {reason_of(error)}; {_WAY_OUT}", code=1
        ) from error
    return folder


_WAY_OUT = "set XDG_CACHE_HOME to the absolute path of a folder that can be written"
