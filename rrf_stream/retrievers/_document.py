"""What an index holds: documents as users see them, and as a table stores them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, final

from rrf_stream.retrievers._checks import check_text

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of an index.

    Attributes:
        id: Names the document in its index; a document added under a known id replaces that one.
        text: What is searched. Blank text is fine: such a document has no vector unless it has a title.
        title: Searched too, and weighted more than the text.
        links: Ids of the documents it points to; they need not exist, or not yet.
        metadata: Anything JSON can hold; stored and handed back, never searched.
    """

    id: str
    text: str
    title: str = ""
    links: tuple[str, ...] = ()
    metadata: Mapping[str, JSON] = field(default_factory=dict, hash=False)


class Record(NamedTuple):
    """A checked document, as its row stores it."""

    id: str
    title: str
    text: str
    links: str
    metadata: str

    @property
    def prose(self) -> str:
        """What is embedded; blank if there is nothing to embed."""
        return "\n".join(part for part in (self.title, self.text) if part.strip())

    @property
    def targets(self) -> list[str]:
        """The ids that the document links to, in its order."""
        targets: list[str] = json.loads(self.links)
        return targets

    def document(self) -> Document:
        """The document again."""
        return Document(
            id=self.id,
            text=self.text,
            title=self.title,
            links=tuple(self.targets),
            metadata=json.loads(self.metadata),
        )


def record(document: object) -> Record:
    """Check a document and make it a record.

    Raises:
        TypeError: It is not a Document, or a field has the wrong type.
        ValueError: A string holds a lone surrogate, or the metadata is no JSON.
    """
    if not isinstance(document, Document):
        raise TypeError(f"documents must be Document objects, not {type(document).__name__}")
    where = f"document {document.id!r}"
    for name in ("id", "title", "text"):
        check_text(getattr(document, name), f"{where}: {name}")
    if not isinstance(document.links, tuple):
        raise TypeError(f"{where}: links must be a tuple of ids, not {type(document.links).__name__}")
    for target in document.links:
        check_text(target, f"{where}: every link")
    if not isinstance(document.metadata, Mapping) or not all(
        isinstance(key, str) for key in document.metadata
    ):
        raise TypeError(f"{where}: metadata must be a mapping with str keys")
    try:
        metadata = json.dumps(dict(document.metadata), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{where}: metadata must be JSON: {error}") from error
    return Record(document.id, document.title, document.text, json.dumps(document.links), metadata)
