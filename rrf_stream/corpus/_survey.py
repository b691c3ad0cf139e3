"""Find the files to index, and which ones are gone."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rrf_stream.corpus._jsonl import JSONLinesFile
from rrf_stream.corpus._origin import Problem
from rrf_stream.corpus._text import MarkdownFile, TextFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rrf_stream.corpus._origin import Origin

__all__ = ["Survey", "survey"]

_MARKDOWN = frozenset({".md", ".markdown"})
_JSON_LINES = frozenset({".jsonl", ".ndjson"})
# Kinds that no folder is without and no text search reads; anything else that is no text is a problem.
_NOT_TEXT = (
    frozenset({".avif", ".bmp", ".gif", ".heic", ".ico", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
    | frozenset({".avi", ".flac", ".m4a", ".mkv", ".mov", ".mp3", ".mp4", ".ogg", ".wav", ".webm"})
    | frozenset({".eot", ".otf", ".ttf", ".woff", ".woff2"})
    | frozenset({".7z", ".bz2", ".gz", ".jar", ".lz4", ".rar", ".tar", ".tgz", ".whl", ".xz", ".zip", ".zst"})
    | frozenset({".doc", ".docx", ".odp", ".ods", ".odt", ".pdf", ".ppt", ".pptx", ".xls", ".xlsx"})
    | frozenset({".class", ".dll", ".dylib", ".exe", ".o", ".pyc", ".pyd", ".so"})
    | frozenset(
        {".db", ".db-shm", ".db-wal", ".npy", ".npz", ".parquet", ".safetensors", ".sqlite", ".sqlite3"}
    )
)


@dataclass(frozen=True, slots=True)
class Survey:
    """The files under some paths.

    Attributes:
        origins: One a file, in the order of the paths, sorted by name within a folder.
        problems: Paths that do not exist or cannot be looked at.
        ignored: How many files were passed over as being of a kind that is not text.
        folders: The folders that were searched, as absolute paths.
        unknown: Folders below them that could not be looked at.
        missing: The paths that do not exist, as they were given, with their absolute ones.
    """

    origins: tuple[Origin, ...]
    problems: tuple[Problem, ...]
    ignored: int
    folders: tuple[str, ...]
    unknown: tuple[str, ...]
    missing: Mapping[str, str]

    def vanished(self, known: Iterable[str]) -> list[str]:
        """Return the names, of those known, that are at a path or in a folder given, and not there any more.

        Below a folder that could not be looked at nothing counts as gone.
        """
        found = {origin.name for origin in self.origins}
        places = (*self.folders, *self.missing.values())
        return [
            name
            for name in known
            if name not in found and _is_below(name, places) and not _is_below(name, self.unknown)
        ]

    def gone(self, vanished: Iterable[str]) -> dict[str, int]:
        """Return the missing paths, as they were given, that explain some of `vanished`: how many."""
        names = list(vanished)
        counts = {
            given: sum(_is_below(name, (path,)) for name in names) for given, path in self.missing.items()
        }
        return {given: count for given, count in counts.items() if count}

    def problems_but_for(self, vanished: Iterable[str]) -> list[Problem]:
        """Return the problems; that a path is missing is none if it explains some of `vanished`."""
        gone = self.gone(vanished)
        return [problem for problem in self.problems if problem.where not in gone]


def survey(paths: Iterable[Path], *, leave_out: Collection[Path] = ()) -> Survey:
    """Find the files that can be indexed; none is opened.

    A path that is a folder stands for all files below it, without hidden files
    and folders (a dot in front) and without symbolic links, so that no loop can
    arise. A file that is given itself is always taken, whatever its name, and a
    path that is given may be a link.

    Args:
        paths: Files and folders. Where they overlap, a file counts once.
        leave_out: Files that are not to be found, such as the index itself.
    """
    search = _Search(seen={os.path.realpath(path) for path in leave_out})
    for path in paths:
        search.add(path)
    return Survey(
        origins=tuple(search.origins),
        problems=tuple(search.problems),
        ignored=search.ignored,
        folders=tuple(search.folders),
        unknown=tuple(search.unknown),
        missing=search.missing,
    )


@dataclass(slots=True)
class _Search:
    """What a survey has found so far."""

    seen: set[str]
    origins: list[Origin] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    ignored: int = 0
    folders: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, given: Path) -> None:
        try:
            path = given.resolve(strict=True)
            mode = path.stat().st_mode
        except (OSError, RuntimeError, ValueError) as error:
            # A link that leads nowhere is there; what it led to may be on a disk that is not, today.
            if isinstance(error, FileNotFoundError | NotADirectoryError) and not given.is_symlink():
                self.missing[str(given)] = str(given.resolve())
            self._skip(str(given), error)
            return
        if stat.S_ISDIR(mode):
            self.folders.append(str(path))
            self._add_folder(path)
        elif stat.S_ISREG(mode):
            self._add_file(path, root=path.parent)
        else:
            self.problems.append(Problem(str(given), "neither a file nor a folder"))

    def _add_folder(self, root: Path) -> None:
        pending = [str(root)]
        while pending:
            folder = pending.pop()
            try:
                with os.scandir(folder) as entries:
                    visible = sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name)
            except OSError as error:
                self.unknown.append(folder)
                self._skip(folder, error)
                continue
            for entry in visible:
                if entry.is_file(follow_symlinks=False) and Path(entry.name).suffix.lower() not in _NOT_TEXT:
                    self._add_file(Path(entry.path), root=root)
                elif not entry.is_dir(follow_symlinks=False):
                    self.ignored += not entry.is_symlink()
            folders = [entry.path for entry in visible if entry.is_dir(follow_symlinks=False)]
            pending.extend(reversed(folders))

    def _add_file(self, path: Path, *, root: Path) -> None:
        name = str(path)
        if name in self.seen:
            return
        self.seen.add(name)
        try:
            name.encode()
        except UnicodeEncodeError:
            self.problems.append(Problem(name, "its name is not UTF-8"))
            return
        suffix = path.suffix.lower()
        if suffix in _MARKDOWN:
            self.origins.append(MarkdownFile(path, root))
        elif suffix in _JSON_LINES:
            self.origins.append(JSONLinesFile(path))
        else:
            self.origins.append(TextFile(path))

    def _skip(self, where: str, error: Exception) -> None:
        self.problems.append(Problem(where, getattr(error, "strerror", None) or str(error)))


def _is_below(name: str, folders: Iterable[str]) -> bool:
    return any(Path(name).is_relative_to(folder) for folder in folders)
