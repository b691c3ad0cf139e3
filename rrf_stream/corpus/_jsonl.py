"""JSON Lines: one document a line."""

from __future__ import annotations

import codecs
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rrf_stream.corpus._origin import Inspection, Problem, UnreadableError, digest_of
from rrf_stream.retrievers.sqlite import Document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

__all__ = ["JSONLinesFile"]

MAX_LINE_BYTES = 2 * 2**20


@dataclass(frozen=True, slots=True)
class JSONLinesFile:
    """A file with one JSON object a line: `id` and `text`, and if there are `title` and `links`.

    `id` is a string or a whole number, `links` a list of ids; other fields are
    left out. A line that is none of this is a problem of its own, and so is an id
    that an earlier line has; blank lines are none. The file is read line by line,
    so it may be of any size; a line may have 2 MiB.

    Attributes:
        path: The file; absolute.
    """

    path: Path

    @property
    def name(self) -> str:
        """The path, as it is."""
        return str(self.path)

    def inspect(self) -> Inspection:
        """Return the digest of the content and what is wrong with single lines; see `Origin.inspect`."""
        with self.path.open("rb") as file:
            content = hashlib.file_digest(file, hashlib.blake2b).digest()
        problems = tuple(
            Problem(f"{self.path}:{number}", str(found))
            for number, found in self._records()
            if isinstance(found, UnreadableError)
        )
        return Inspection(digest_of("jsonl", content), problems)

    def documents(self) -> Iterator[Document]:
        """Yield a document for every line that holds one; see `Origin.documents`."""
        return (found for _, found in self._records() if isinstance(found, Document))

    def _records(self) -> Iterator[tuple[int, Document | UnreadableError]]:
        """Yield the number of every line that is not blank, and its document or what is wrong with it."""
        first_lines: dict[str, int] = {}
        with self.path.open("rb") as file:
            for number, line in enumerate(_lines(file), start=1):
                if not line.strip():
                    continue
                try:
                    document = _document(line)
                except UnreadableError as error:
                    yield number, error
                    continue
                first = first_lines.setdefault(document.id, number)
                yield (
                    number,
                    document if first == number else UnreadableError(f"line {first} has the same id"),
                )


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines without a byte order mark; of one that is too long only so much as shows it."""
    start = codecs.BOM_UTF8
    while line := file.readline(MAX_LINE_BYTES + 1):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES)
        yield line.removeprefix(start)
        start = b""


def _document(line: bytes) -> Document:
    if len(line) > MAX_LINE_BYTES:
        raise UnreadableError(f"larger than {MAX_LINE_BYTES // 2**20} MiB, the limit for one line")
    try:
        record = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8 text ({error.reason} at offset {error.start})") from None
    except json.JSONDecodeError as error:
        raise UnreadableError(f"not JSON ({error.msg} at column {error.colno})") from None
    except (ValueError, RecursionError):
        raise UnreadableError("not JSON that can be read (nested too deeply, or too long a number)") from None
    if not isinstance(record, dict):
        raise UnreadableError("not a JSON object")
    links = record.get("links")
    if not isinstance(links, list | None):
        raise UnreadableError("'links' must be a list of ids")
    return Document(
        id=_id(record.get("id"), "'id'"),
        title=_text(record.get("title", "") or "", "'title'"),
        text=_text(record.get("text"), "'text'"),
        links=tuple(dict.fromkeys(_id(link, "each of 'links'") for link in links or ())),
    )


def _id(value: Any, what: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise UnreadableError(f"{what} must be a string that is not empty, or a whole number")
    return _text(value, what)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise UnreadableError(f"{what} must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnreadableError(f"{what} has half a surrogate pair, which is no character") from None
    return value
