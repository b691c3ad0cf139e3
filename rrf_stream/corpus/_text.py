"""Text and Markdown files: one document a file."""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rrf_stream.corpus._origin import Inspection, UnreadableError, digest_of
from rrf_stream.retrievers.sqlite import Document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["MAX_TEXT_BYTES", "MarkdownFile", "TextFile"]

MAX_TEXT_BYTES = 2 * 2**20
"""A text or Markdown file above this size is skipped: as one document it would be of no use in a ranking."""

# What a link to a folder may mean; links without a file at their other end cost nothing.
_FOLDER_PAGES = ("README.md", "index.md")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A UTF-8 text file as one document: its path is the id, its file name the title.

    Attributes:
        path: The file; absolute.
    """

    path: Path

    @property
    def name(self) -> str:
        """The path, as it is."""
        return str(self.path)

    def inspect(self) -> Inspection:
        """Return the digest of the content; see `Origin.inspect`."""
        return Inspection(digest_of("text", _read(self.path).encode()))

    def documents(self) -> list[Document]:
        """Return the one document; see `Origin.documents`."""
        return [Document(id=self.name, title=self.path.name, text=_read(self.path))]


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """A Markdown file as one document: its first heading is the title, links to files are links.

    A target is taken relative to the file, one that starts with a slash relative
    to `root`. Links need no file at their other end; those with a scheme, such as
    `https:`, are left out.

    Attributes:
        path: The file; absolute.
        root: The folder that was indexed; absolute.
    """

    path: Path
    root: Path

    @property
    def name(self) -> str:
        """The path, as it is."""
        return str(self.path)

    def inspect(self) -> Inspection:
        """Return the digest of the content and of the root; see `Origin.inspect`."""
        return Inspection(digest_of("markdown", _read(self.path).encode(), str(self.root).encode()))

    def documents(self) -> list[Document]:
        """Return the one document; see `Origin.documents`."""
        # Only who reads Markdown needs the library for it.
        from rrf_stream.corpus._markdown import parse  # noqa: PLC0415

        parsed = parse(_read(self.path))
        links = dict.fromkeys(path for target in parsed.targets for path in self._linked_paths(target))
        links.pop(self.name, None)
        title = parsed.title or self.path.name
        return [Document(id=self.name, title=title, text=parsed.text, links=tuple(links))]

    def _linked_paths(self, target: str) -> Iterator[str]:
        try:
            parts = urlsplit(target)
        except ValueError:
            return
        path = unquote(parts.path)
        if parts.scheme or parts.netloc or not path or "\0" in path:
            return
        base = self.root if path.startswith("/") else self.path.parent
        for page in _FOLDER_PAGES if path.endswith("/") else ("",):
            yield os.path.normpath(base / path.lstrip("/") / page)


def _read(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_TEXT_BYTES + 1)
    if len(content) > MAX_TEXT_BYTES:
        raise UnreadableError(f"larger than {MAX_TEXT_BYTES // 2**20} MiB, the limit for one document")
    if (at := content.find(b"\0")) >= 0:
        raise UnreadableError(f"not a text file (a zero byte at offset {at})")
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8 text ({error.reason} at offset {error.start})") from None
