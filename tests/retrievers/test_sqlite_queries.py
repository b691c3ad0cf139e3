"""A query is data: no string is ever read as syntax, and none is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlite_kit import NOTES, database, ids, read, record_of

from rrf_stream.retrievers import _sqlite_store as store
from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

if TYPE_CHECKING:
    from pathlib import Path

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
PIECES = [
    '"',
    "*",
    "NEAR",
    "NEAR(",
    ")",
    "-",
    "+",
    "AND",
    "OR",
    "NOT",
    "c++",
    "foo:bar",
    "^",
    "{",
    "}",
    "title",
]
SYNTAX = st.lists(
    st.sampled_from([*PIECES, ":", ",", "'", ";", "--", "word", " ", "\0", "\ud800"]), max_size=12
).map("".join)


@settings(deadline=None, max_examples=300)
@given(ANY_TEXT | SYNTAX)
def test_no_string_is_a_syntax_error(query: str) -> None:
    with database() as db:
        store.add(db, [record_of("a", "word")], {"a": None})
        if expression := store.match(query):
            store.lexical(db, expression, 5)


@settings(deadline=None, max_examples=40)
@given(st.lists(ANY_TEXT | SYNTAX, min_size=1, max_size=10))
def test_no_string_is_refused_by_any_arm(queries: list[str]) -> None:
    async def main() -> None:
        folder = await anyio.mkdtemp()
        async with SQLiteIndex.create(anyio.Path(folder, "i.db")) as index:
            await index.add(NOTES)
            for query in queries:
                for retriever in (index.lexical, index.dense, index.graph):
                    assert len(ids(await read(retriever(query)))) <= len(NOTES)
        await anyio.Path(folder, "i.db").unlink()
        await anyio.Path(folder).rmdir()

    anyio.run(main)


@settings(deadline=None, max_examples=100)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_a_document_is_found_by_its_own_words(text: str) -> None:
    with database() as db:
        store.add(db, [record_of("a", text)], {"a": None})
        words = [word for word in text.split() if word.isascii() and word.isalnum()]
        for word in words:
            assert [key for key, _ in store.lexical(db, store.match(word), 5)] == [1]


@pytest.mark.anyio
@pytest.mark.parametrize("query", ["", " \t\n", "\0", '"', "*-+()", "\ud800", "🚀", "..."])
async def test_without_words_the_word_arms_are_empty(tmp_path: Path, query: str) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add([*NOTES, Document(id="odd", text=query.replace("\ud800", ""))])
        assert await read(index.lexical(query)) == []
        assert await read(index.graph(query)) == []


@pytest.mark.anyio
@pytest.mark.parametrize("query", ["", " \t\n\u2003", "\ud800", "\udfff \ud800"])
async def test_a_blank_query_has_no_vector(tmp_path: Path, query: str) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(NOTES)
        assert await read(index.dense(query)) == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    "query", ["x " * 5000 + "sofa", " ".join(f"w{n}" for n in range(999)) + " sofa", "z" * 10_000 + " sofa"]
)
async def test_a_very_long_query_is_answered(tmp_path: Path, query: str) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add([*NOTES, Document(id="sofas", text="", links=("cats",))])
        assert ids(await read(index.lexical(query))) == ["cats"]
        assert ids(await read(index.graph(query))) == ["sofas"]
        assert len(ids(await read(index.dense(query)))) == 3


def test_a_query_is_cut_to_its_first_distinct_words() -> None:
    query = " ".join(f"w{n} W{n}" for n in range(5000))
    assert store.match(query).count(" OR ") == store.MOST_TERMS - 1
