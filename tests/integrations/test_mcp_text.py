"""Text and ids made fit for a model: one line, bounded, nothing invisible, and ids that lead back."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrf_stream.integrations.mcp._text import cut, describe, id_text, ids_meant, one_line, passage

#: Any text, lone surrogates included.
anything = st.text(st.characters(codec=None))


@given(anything)
def test_one_line_is_one_line_of_what_people_see(text: str) -> None:
    """Nothing that breaks a line, is invisible or turns the reading direction is left."""
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert line.replace("\u200c", "").replace("\u200d", "").isprintable()


def test_one_line_drops_what_hides() -> None:
    """Escapes, marks that turn the reading direction, and letters of the invisible alphabet go."""
    assert one_line("a\x1b[31m b\u202e\n\n  c\U000e0041\u200b") == "a[31m b c"


@given(anything, st.integers(0, 50))
def test_cut_keeps_the_limit(text: str, limit: int) -> None:
    """What is cut has at most so many characters, and short text is as it was."""
    short = cut(text, limit)
    assert len(short) <= limit
    assert short == text or len(text) > limit


def test_cut_cuts_between_words() -> None:
    """A word that does not fit is left out, with an ellipsis in its place; a long one is cut itself."""
    assert cut("one two three", 9) == "one two…"
    assert cut("one two three", 8) == "one two…"
    assert cut("incomprehensibilities", 8) == "incompr…"


@given(anything, anything, st.integers(0, 80))
def test_a_passage_keeps_the_limit(text: str, query: str, limit: int) -> None:
    """Whatever is in the text or the query, a passage is one line of at most so many characters."""
    found = passage(text, query, limit)
    assert len(found) <= limit
    assert len(found.splitlines()) <= 1


def test_a_passage_shows_the_words_of_the_query() -> None:
    """It is about the longest of them, which is the rarest as a rule, and has text before and after."""
    text = f"{'filler ' * 99}a budget for us {'filler ' * 99}how deadlines limit a budget {'filler ' * 9}"
    found = passage(text, "deadline budget", 60)
    assert "deadlines limit a budget" in found
    assert found.startswith("… filler")
    assert found.endswith("…")


def test_a_passage_without_any_word_of_the_query_is_the_beginning() -> None:
    """Arms that go by meaning find such documents."""
    assert passage("one two three four five", "zebra", 12) == "one two…"


def test_a_passage_of_a_text_without_blanks_shows_the_words_too() -> None:
    """Not every language has them between its words."""
    assert "needle" in passage("天" * 500 + "needle" + "天" * 500, "needle", 60)


def test_a_long_text_is_looked_at_in_part() -> None:
    """A document of some megabytes takes no more than a page, and its end is not shown."""
    found = passage("word " * 2_000_000 + "needle", "needle", 100)
    assert found.startswith("word word")
    assert found.endswith("…")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a/b c.md", "a/b c.md"),
        ("7", "7"),
        (7, "7"),
        (None, "null"),
        (True, "true"),
        ((1, "a", (2.5, None)), '[1, "a", [2.5, null]]'),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        ("\ud800", "?"),
    ],
)
def test_ids_are_text(value: Any, text: str) -> None:
    """A string is as it is, what JSON knows is JSON, and the rest is what Python calls it."""
    assert id_text(value) == text


ids = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
)


@given(ids)
def test_ids_lead_back(value: Any) -> None:
    """One of the ids that a text may mean is the one that was shown, if it is of a kind that ids are."""
    assert value in list(ids_meant(id_text(value)))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a", ["a"]),
        ("7", ["7", 7]),
        ('"a"', ['"a"', "a"]),
        ("{}", ["{}"]),
        ("true", ["true"]),
        ("1.0", ["1.0"]),
        ("07 ", ["07 "]),
        ("[" * 9999, ["[" * 9999]),
    ],
)
def test_a_text_comes_before_what_it_says(text: str, meant: list[Any]) -> None:
    """Documents are looked for under the text itself first; a mapping is no id."""
    assert list(ids_meant(text)) == meant


@dataclass
class Page:
    title: object
    body: str


@pytest.mark.parametrize(
    ("item", "found"),
    [
        (None, ("", "")),
        ("text", ("", "text")),
        ({"title": "t", "content": "c"}, ("t", "c")),
        ({"name": 5, "text": None, "page_content": "c"}, ("", "c")),
        (Page("t", "b"), ("t", "b")),
        (Page(5, "b"), ("", "b")),
    ],
)
def test_documents_are_described_as_most_libraries_name_their_parts(
    item: Any, found: tuple[str, str]
) -> None:
    """Mappings, objects, plain text and nothing; what is no text counts as missing."""
    assert describe(item) == found
