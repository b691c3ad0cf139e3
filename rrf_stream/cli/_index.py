"""`rrf-stream index`: bring an index up to date with files and with Python's own documentation."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from rrf_stream.cli import _screens as screens
from rrf_stream.cli import _words as words
from rrf_stream.cli._files import CommandError, companions, opened_or_made, reason_of
from rrf_stream.cli._live import progress_bar
from rrf_stream.corpus import PYTHON_DOCS, Problem, UnreadableError, python_docs, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rrf_stream.corpus import Origin, PythonModule
    from rrf_stream.retrievers.sqlite import SQLiteIndex

__all__ = ["bring_up_to_date", "index_paths", "modules_of_python", "progress", "vanished_modules"]

# Lines of one file that are named; a file of another kind altogether would fill the screen.
_NAMED_LINES = 20


@dataclass(slots=True)
class Changes:
    """What a run did: `read`, `unchanged` and `gone` count origins, the next three documents."""

    read: int = 0
    unchanged: int = 0
    gone: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    problems: list[Problem] = field(default_factory=list)


async def index_paths(paths: Collection[Path], *, db: Path, with_python_docs: bool) -> int:
    """Index files, folders and Python's documentation; return 1 if anything was skipped, else 0."""
    found = survey(paths, leave_out=companions(db))
    modules = modules_of_python() if with_python_docs else []
    anything = bool(found.origins or found.folders or modules)
    if not anything and not (found.missing and await anyio.Path(db).exists()):
        raise _nothing(found.problems)
    async with opened_or_made(db) as index:
        known = await index.origins()
        vanished = found.vanished(known)
        if not anything and not vanished:
            raise _nothing(found.problems)
        for given, number in found.gone(vanished).items():
            files = "1 file" if number == 1 else f"{number} files"
            screens.note(f"{words.visible(given)} is gone: what the index had of it is removed ({files})")
        problems = found.problems_but_for(vanished)
        if with_python_docs:
            vanished += vanished_modules(known, modules)
        origins = [*found.origins, *modules]
        with progress(len(origins), "indexing") as advance:
            changes = await bring_up_to_date(index, origins, vanished=vanished, advance=advance)
        documents = await index.count()
    problems += changes.problems
    _name(problems)
    files = (
        f"{changes.read} files read, {changes.unchanged} unchanged, {changes.gone} gone, "
        f"{len(problems)} skipped"
    )
    screens.write(
        f"{words.visible(str(db))}: {documents} documents ({changes.added} added, {changes.changed} changed, "
        f"{changes.removed} removed); {files}, {found.ignored} of other kinds"
    )
    return int(bool(problems))


async def bring_up_to_date(
    index: SQLiteIndex, origins: Iterable[Origin], *, vanished: Iterable[str], advance: Callable[[], None]
) -> Changes:
    """Index what is new or has changed, an origin at a time; whatever is done stays when this is cut off.

    Args:
        index: The index.
        origins: All that is to be in it.
        vanished: Names of origins that are to be removed first.
        advance: Called after each origin.
    """
    changes = Changes()
    for name in vanished:
        changes.removed += await index.remove_origin(name)
        changes.gone += 1
    known = await index.origins()
    conflicts: list[Origin] = []
    for origin in origins:
        try:
            await _read(index, origin, known, changes)
        except ValueError:
            # It has an id that another origin has; a later one of this run may give it up.
            conflicts.append(origin)
        advance()
    for origin in conflicts:
        try:
            await _read(index, origin, known, changes)
        except ValueError as error:
            changes.problems.append(Problem(origin.name, str(error)))
    return changes


async def _read(
    index: SQLiteIndex, origin: Origin, known: Mapping[str, str | None], changes: Changes
) -> None:
    try:
        inspection = origin.inspect()
        if known.get(origin.name) == inspection.digest:
            changes.unchanged += 1
        else:
            update = await index.replace_origin(origin.name, inspection.digest, origin.documents())
            changes.read += 1
            changes.added += update.added
            changes.changed += update.changed
            changes.removed += update.removed
    except (UnreadableError, OSError) as error:
        changes.problems.append(Problem(origin.name, reason_of(error)))
    else:
        changes.problems += inspection.problems[:_NAMED_LINES]
        if (more := len(inspection.problems) - _NAMED_LINES) > 0:
            changes.problems.append(Problem(origin.name, f"{more} more lines that cannot be read"))


def modules_of_python() -> list[PythonModule]:
    """Return the modules of the standard library.

    Raises:
        CommandError: There is no source to read.
    """
    try:
        return python_docs()
    except UnreadableError as error:
        raise CommandError(str(error), code=1) from error


def vanished_modules(known: Iterable[str], modules: Iterable[PythonModule]) -> list[str]:
    """Return the names, of those known, of modules that Python does not have any more."""
    names = {module.name for module in modules}
    return [name for name in known if name.startswith(PYTHON_DOCS) and name not in names]


def progress(total: int, what: str) -> AbstractContextManager[Callable[[], None]]:
    """Return a bar on a terminal, and nothing elsewhere."""
    return progress_bar(total, what) if screens.is_watched(sys.stderr) else nullcontext(screens.nothing)


def _nothing(problems: Iterable[Problem]) -> CommandError:
    _name(problems)
    return CommandError("nothing to index", code=1)


def _name(problems: Iterable[Problem]) -> None:
    for problem in problems:
        screens.note(f"skipped {words.visible(problem.where)}: {words.one_line(problem.reason)}")
