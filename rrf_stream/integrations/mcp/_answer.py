"""From snapshots and documents to what the tools return, both as data and as text, and both bounded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rrf_stream.integrations.mcp import _words as words
from rrf_stream.integrations.mcp._models import FetchedDocument, SearchAnswer, SearchHit
from rrf_stream.integrations.mcp._text import (
    LONGEST_ID,
    Describe,
    cut,
    described,
    id_text,
    one_line,
    passage,
    visible,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rrf_stream import FusedHit, Snapshot

__all__ = ["Answer", "Document", "Style", "answer_of", "document_of", "progress_of"]

_SNIPPETS = (300, 150, 80, 0)  # characters, the longest first that leave room for all hits
_LONGEST_TITLE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How answers are worded.

    Attributes:
        names: How arms are called in sentences, by their names.
        describe: Gives the title and the text of a document.
        max_chars: Characters of an answer at most, as text and as JSON.
        can_fetch: Whether whole documents can be had.
    """

    names: Mapping[str, str]
    describe: Describe
    max_chars: int
    can_fetch: bool


class Answer(NamedTuple):
    """The hits, as data and as text."""

    data: SearchAnswer
    text: str


class Document(NamedTuple):
    """A document, as data and as text."""

    data: FetchedDocument
    text: str


def answer_of(snapshot: Snapshot, *, query: str, top_k: int, style: Style) -> Answer:
    """Return the answer for a final snapshot: as much of every hit as there is room for.

    Args:
        snapshot: The final one.
        query: What was searched, for snippets that show it.
        top_k: How many hits were asked for.
        style: How it is worded.
    """
    rows = [_row(hit, query, style.describe) for hit in snapshot.hits]
    for limit in _SNIPPETS:
        fitted = [row.model_copy(update={"snippet": cut(row.snippet, limit)}) for row in rows]
        answer = _answer(snapshot, fitted, top_k, style)
        if _fits(answer, style.max_chars):
            return answer
    while fitted and not _fits(answer, style.max_chars):
        fitted.pop()
        answer = _answer(snapshot, fitted, top_k, style)
    return answer


def _row(hit: FusedHit, query: str, describe: Describe) -> SearchHit:
    title, text = describe(hit.item)
    return SearchHit(
        rank=hit.rank,
        id=cut(id_text(hit.id), LONGEST_ID),
        title=_title(title),
        snippet=passage(text, query, _SNIPPETS[0]),
        score=float(f"{hit.score:.6g}"),
        arms=dict(hit.ranks),
    )


def _title(given: str) -> str:
    return cut(one_line(given[: 10 * _LONGEST_TITLE]), _LONGEST_TITLE)


def _answer(snapshot: Snapshot, rows: list[SearchHit], top_k: int, style: Style) -> Answer:
    missing = words.missing(snapshot, style.names)
    degraded = snapshot.coverage.degraded
    exact = snapshot.exact or 0
    certain = min(exact if degraded else len(snapshot.hits), len(rows))
    complete = not degraded or exact >= top_k
    omitted = len(snapshot.hits) - len(rows)
    data = SearchAnswer(
        hits=rows,
        complete=complete,
        certain_first_n=certain,
        missing_arms=missing,
        note=words.note(snapshot, sentences=missing, complete=complete, certain=certain, omitted=omitted),
        omitted_hits=omitted,
        elapsed_ms=round((snapshot.elapsed or 0) * 1000),
    )
    return Answer(data, _text(data, can_fetch=style.can_fetch))


def _text(answer: SearchAnswer, *, can_fetch: bool) -> str:
    number = len(answer.hits) + answer.omitted_hits
    head = f"{number} hit{'' if number == 1 else 's'}." if number else "Nothing was found."
    lines = [f"{head} {answer.note}".rstrip()]
    for hit in answer.hits:
        # An id that is no plain line is shown as JSON, which fetch takes too.
        name = hit.id if hit.id.isprintable() else json.dumps(hit.id)
        found = ", ".join(f"{one_line(arm)} {rank}" for arm, rank in hit.arms.items())
        lines += ["", f"{hit.rank}. {hit.title or name}", f"   id: {name} | ranks: {found}"]
        if hit.snippet:
            lines.append(f"   {hit.snippet}")
    if answer.hits and can_fetch:
        lines += ["", "To read a whole document, call fetch with its id."]
    return "\n".join(lines)


def _fits(answer: Answer | Document, most: int) -> bool:
    return len(answer.text) <= most and len(answer.data.model_dump_json()) <= most


def progress_of(snapshot: Snapshot, *, style: Style) -> str:
    """Return how far a search is, on one line."""
    best = ""
    if snapshot.hits:
        first = snapshot.hits[0]
        best = _title(style.describe(first.item)[0]) or one_line(id_text(first.id))
    return words.progress(snapshot, names=style.names, best=best)


def document_of(document: Any, *, start: int, describe: Describe, most: int) -> Document:
    """Return a document from a character on, as much of it as there is room for.

    Args:
        document: What the index holds.
        start: A character of its text, from 0; at its end or behind it there is no text left.
        describe: Gives its title and text.
        most: Characters at most, as text and as JSON.

    Raises:
        TypeError: `describe` gives something else than two texts.
        Exception: What it raises.
    """
    title, text = described(describe, document)
    length = most
    while True:
        end = start + length
        data = FetchedDocument(
            title=_title(title),
            text=visible(text[start:end]),
            start=start,
            total_chars=len(text),
            next_start=end if end < len(text) else None,
        )
        found = Document(data, _document_text(data))
        if length < 2 or _fits(found, most):
            return found
        # Characters that JSON escapes take up to six times their room.
        length = min(length, len(text) - start) * 9 // 10


def _document_text(document: FetchedDocument) -> str:
    titled = document.title and not document.text.lstrip("# ").startswith(document.title)
    lines = [document.title, "", document.text] if titled else [document.text]
    if document.start or document.next_start is not None:
        end = document.total_chars if document.next_start is None else document.next_start
        lines += ["", f"(Characters {document.start} to {end} of {document.total_chars}."]
        lines[-1] += f" Go on with start={end}.)" if document.next_start is not None else " This is the end.)"
    return "\n".join(lines)
