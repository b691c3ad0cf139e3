"""Text of documents and ids of hits, made fit for a model: one line, bounded, nothing invisible."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LONGEST_ID", "cut", "describe", "encodable", "id_text", "ids_meant", "one_line", "passage"]

LONGEST_ID = 512
"""Characters of an id that are shown at most."""
_SEARCHED = 8_000  # characters of a text in which a passage is looked for
_STEM = 5  # characters by which words are taken for forms of one
# Invisible, but part of how words and emoji are written.
_JOINERS = "\u200c\u200d"
_WORD = re.compile(r"\w+")
_TITLES = ("title", "name")
_TEXTS = ("text", "content", "page_content", "body", "snippet")


def encodable(text: str) -> str:
    """Return text that UTF-8 has: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """Return text on one line, without anything invisible.

    So no document can forge the lines around it, nor tell a model what people do not see.
    """
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(c for c in line if c.isprintable() or c in _JOINERS)


def cut(text: str, limit: int) -> str:
    """Return text of at most `limit` characters, cut between words, with an ellipsis if it was longer."""
    if len(text) <= limit:
        return text
    if limit < 2:
        return "…"[:limit]
    head, blank, _ = text[:limit].rpartition(" ")
    return f"{head.rstrip() if blank and len(head) >= limit // 2 else text[: limit - 1]}…"


def passage(text: str, query: str, limit: int, *, title: str = "") -> str:
    """Return the passage of a text that has the most words of a query.

    Args:
        text: The text, of which the beginning is looked at.
        query: What was searched.
        limit: Characters at most.
        title: What is shown beside it, and need not be said again.
    """
    line = one_line(text[:_SEARCHED]).removeprefix(title).lstrip()
    if len(text) > _SEARCHED:
        line += " …"
    if len(line) <= limit or limit < 3:
        return cut(line, limit)
    start = _best_start(line, query, limit)
    return f"… {cut(line[start:], limit - 2)}" if start else cut(line, limit)


def _best_start(line: str, query: str, limit: int) -> int:
    """Return where the passage starts: at a word, a little before the first of those that count."""
    wanted = {_stem(word) for word in _WORD.findall(query) if len(word) > 2}
    found = [(match.start(), _stem(match[0])) for match in _WORD.finditer(line)]
    found = [(at, stem) for at, stem in found if stem in wanted]
    lead = limit // 5
    best, best_at = 0, 0
    inside: Counter[str] = Counter()
    end = 0
    for at, stem in found:
        while end < len(found) and found[end][0] < at + limit - 2 * lead:
            inside[found[end][1]] += 1
            end += 1
        if len(inside) > best:
            best, best_at = len(inside), at
        inside[stem] -= 1
        if not inside[stem]:
            del inside[stem]
    start = best_at - lead
    return 0 if start <= 0 else line.find(" ", start, best_at) + 1 or best_at


def _stem(word: str) -> str:
    return word.casefold()[:_STEM]


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
    """Yield the ids that a text may stand for: itself, and what it says if it is JSON."""
    yield text
    try:
        value = _hashable(json.loads(text))
    except (ValueError, RecursionError):
        return
    if not isinstance(value, Mapping):
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
