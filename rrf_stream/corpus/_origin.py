"""What every reader of this package offers, and how it says that something cannot be read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rrf_stream.errors import RRFStreamError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rrf_stream.retrievers.sqlite import Document

__all__ = ["Inspection", "Origin", "Problem", "UnreadableError", "digest_of"]

# Part of every digest: raise it when a reader makes other documents of the same bytes.
_READERS = "2"


class UnreadableError(RRFStreamError):
    """Something on the way to a document cannot be read; the message says why, without its name."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that was skipped.

    Attributes:
        where: A path, or `path:line`.
        reason: Why, in words for the person who can mend it.
    """

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a look at an origin found, before any document is made.

    Attributes:
        digest: Changes whenever the documents would.
        problems: Parts of it that `documents()` will leave out.
    """

    digest: str
    problems: tuple[Problem, ...] = ()


class Origin(Protocol):
    """What documents come from: a file, a module."""

    @property
    def name(self) -> str:
        """What the index knows it by; no two origins share one."""

    def inspect(self) -> Inspection:
        """Return its digest, and what is wrong with parts of it.

        Raises:
            UnreadableError: Nothing in it can be read.
            OSError: The file system says no.
        """

    def documents(self) -> Iterable[Document]:
        """Return its documents.

        Raises:
            UnreadableError: As `inspect`.
            OSError: As `inspect`.
        """


def digest_of(kind: str, *parts: bytes) -> str:
    """Return a digest of the parts that a new version of the readers changes too, so that they read again."""
    content = hashlib.blake2b(digest_size=20)
    for part in parts:
        content.update(len(part).to_bytes(8, "big"))
        content.update(part)
    return f"{kind}-{_READERS}:{content.hexdigest()}"
