"""What a search needs of Markdown: its words, its title and where it points.

The only module that imports markdown-it-py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from rrf_stream.errors import MissingExtraError

try:
    from markdown_it import MarkdownIt
except ImportError as error:
    raise MissingExtraError("markdown-it-py", extra="cli") from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

__all__ = ["Parsed", "parse"]

# A block of metadata before the page, which Markdown itself would read as a heading.
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?P<fields>.*?\n)??(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE_FIELD = re.compile(r"^title:[ \t]*(?P<quote>[\"']?)(?P<title>.+?)(?P=quote)[ \t]*$", re.MULTILINE)
# Tags whose content is not for reading.
_UNREAD_TAGS = frozenset({"script", "style"})


@dataclass(slots=True)
class Parsed:
    """One page: `title` is empty if it has no heading, `targets` are links as they are written."""

    title: str = ""
    text: str = ""
    targets: list[str] = field(default_factory=list)


def parse(source: str) -> Parsed:
    """Read one Markdown page; every text is valid Markdown, so this never fails."""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    parsed = Parsed()
    if front := _FRONT_MATTER.match(source):
        source = source[front.end() :]
        if title := _TITLE_FIELD.search(front["fields"] or ""):
            parsed.title = title["title"].strip()
    blocks: list[str] = []
    heading = ""
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        match token.type:
            case "heading_open":
                heading = token.tag
            case "inline":
                words = _inline(token.children or (), parsed.targets)
                blocks.append(words)
                if heading and not parsed.title:
                    parsed.title = " ".join(words.split())
                heading = ""
            case "fence" | "code_block":
                blocks.append(token.content)
            case "html_block":
                blocks.append(_html(token.content, parsed))
    parsed.text = "\n".join(block.strip() for block in blocks if block.strip())
    return parsed


def _inline(tokens: Sequence[Token], targets: list[str]) -> str:
    words: list[str] = []
    for token in tokens:
        match token.type:
            case "text" | "code_inline" | "text_special":
                words.append(token.content)
            case "softbreak" | "hardbreak":
                words.append("\n")
            case "image":
                words.append(_inline(token.children or (), targets))
            case "link_open":
                targets.append(str(token.attrGet("href") or ""))
            case "html_inline":
                tag = Parsed()
                words.append(_html(token.content, tag))
                targets.extend(tag.targets)
    return "".join(words)


def _html(source: str, parsed: Parsed) -> str:
    reader = _HTMLWords()
    reader.feed(source)
    reader.close()
    parsed.targets.extend(reader.targets)
    parsed.title = parsed.title or " ".join("".join(reader.heading).split())
    return "".join(reader.words)


class _HTMLWords(HTMLParser):
    """The words, the link targets and the first heading of a piece of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.heading: list[str] = []
        self.targets: list[str] = []
        self._open: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.targets.extend(value for name, value in attrs if name == "href" and value)
        if tag in _UNREAD_TAGS or (tag == "h1" and not self.heading):
            self._open = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._open == "h1":
            self.heading.append(data)
        if self._open not in _UNREAD_TAGS:
            self.words.append(data)
