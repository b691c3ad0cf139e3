"""Text of documents and ids of hits, made fit for a model: one line, bounded, nothing invisible."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "LONGEST_ID",
    "Describe",
    "cut",
    "describe",
    "described",
    "encodable",
    "forgiving",
    "id_text",
    "ids_meant",
    "one_line",
    "passage",
    "visible",
]

Describe: TypeAlias = Callable[[Any], tuple[str, str]]
"""Gives the title and the text of a document."""

LONGEST_ID = 512
"""Characters of an id that are shown at most."""
_SEARCHED = 4_000  # characters of a text in which a passage is looked for
# Invisible, but part of how words and emoji are written.
_JOINERS = "\u200c\u200d"
_WORD = re.compile(r"\w{3,}")
_TITLES = ("title", "name")
_TEXTS = ("text", "content", "page_content", "body", "snippet")
_logger = logging.getLogger("rrf_stream.mcp")


def encodable(text: str) -> str:
    """Return text that UTF-8 has: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def visible(text: str) -> str:
    """Return text without what people do not see, which could tell a model something else than them.

    Spaces and line ends stay.
    """
    hidden = {ord(c): None for c in set(text) if not (c.isprintable() or c.isspace() or c in _JOINERS)}
    return text.translate(hidden)


def one_line(text: str) -> str:
    """Return text on one line, without anything invisible: no document can forge the lines around it."""
    line = " ".join(text.split())
    return line if line.isprintable() else " ".join(visible(line).split())


def cut(text: str, limit: int) -> str:
    """Return text of at most `limit` characters, cut between words, with an ellipsis if it was longer."""
    if len(text) <= limit:
        return text
    if limit < 2:
        return "…"[:limit]
    head, blank, _ = text[:limit].rpartition(" ")
    return f"{head.rstrip() if blank and len(head) >= limit // 2 else text[: limit - 1]}…"


def passage(text: str, query: str, limit: int) -> str:
    """Return the passage of a text around the longest word of a query that it has; else its beginning.

    Args:
        text: The text, of which the beginning is looked at.
        query: What was searched.
        limit: Characters at most.
    """
    line = one_line(text[:_SEARCHED])
    if len(text) > _SEARCHED:
        line += " …"
    if len(line) <= limit or limit < 3:
        return cut(line, limit)
    folded = line.lower()
    words = sorted(_WORD.findall(query.lower()), key=len, reverse=True)
    found = next((at for word in words if (at := folded.find(word)) >= 0), 0)
    lead = found - limit // 5
    start = line.find(" ", lead, found) + 1 or found if lead > 0 else 0
    return f"… {cut(line[start:], limit - 2)}" if start else cut(line, limit)


def id_text(value: Any) -> str:
    """Return an id as text: a string as it is, what JSON knows as JSON, everything else by its `str`."""
    if isinstance(value, str):
        text = str.__str__(value)
    elif value is None or isinstance(value, bool | int | float | tuple):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value)
    return encodable(text)


def ids_meant(text: str) -> Iterator[Any]:
    """Yield the ids that a text may stand for: itself, and what it says if it is JSON as ids are shown.

    Not `true` or `1.0`, which a dictionary takes for 1.
    """
    yield text
    try:
        value = _hashable(json.loads(text))
    except (ValueError, RecursionError):
        return
    if isinstance(value, str) or (not isinstance(value, bool | float | Mapping) and id_text(value) == text):
        yield value


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def describe(item: Any) -> tuple[str, str]:
    """Return the title and the text of a document, as most libraries call them; empty where there is none."""
    if isinstance(item, str):
        return "", item
    return _first_text(item, _TITLES), _first_text(item, _TEXTS)


def _first_text(item: Any, names: tuple[str, ...]) -> str:
    values = (item.get(name) if isinstance(item, Mapping) else getattr(item, name, None) for name in names)
    return next((value for value in values if isinstance(value, str)), "")


def described(describe: Describe, item: Any) -> tuple[str, str]:
    """Return the title and text of a document.

    Raises:
        TypeError: `describe` gives something else than two texts.
        Exception: What it raises.
    """
    title, text = describe(item)
    if isinstance(title, str) and isinstance(text, str):
        return title, text
    raise TypeError(f"describe must give two texts, not {type(title).__name__} and {type(text).__name__}")


def forgiving(describe: Describe) -> Describe:
    """Return what describes as `describe` does, but has no words for a document on which that fails.

    So one document does not cost the answer. The first failure is logged.
    """
    is_told = False

    def forgiven(item: Any) -> tuple[str, str]:
        nonlocal is_told
        try:
            return described(describe, item)
        except Exception as error:  # noqa: BLE001 - whatever it is, the hit has an id and a rank
            if not is_told:
                is_told = True
                _logger.warning("rrf_stream.describe_failed: %r", error)
            return "", ""

    return forgiven
