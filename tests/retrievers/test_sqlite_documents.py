"""Documents go in, come out equal, are replaced wholly, and leave without a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlite_kit import NOTES, ids, read

from rrf_stream.retrievers import _wordllama
from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_a_document_comes_back_equal(tmp_path: Path) -> None:
    odd = Document(
        id="\0 é 🚀",
        text="after \0 a NUL",
        title="T",
        links=("nowhere", "\0 é 🚀", "nowhere"),
        metadata={"nested": {"list": [1, 2.5, None, True, "ü"]}, "": "\ud800"},
    )
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        assert await index.add([odd, *NOTES]) == 1 + 3
        assert await index.get(odd.id) == odd
        assert await index.get("cats") == NOTES[2]
        assert await index.get("dogs") is None
        assert await index.count() == 4
        assert ids(await read(index.lexical("nul"))) == [odd.id]
    async with SQLiteIndex.open(str(tmp_path / "i.db")) as index:
        assert await index.get(odd.id) == odd


async def test_async_iterables_are_added_and_closed(tmp_path: Path) -> None:
    closed = []

    async def stream() -> AsyncIterator[Document]:
        try:
            for note in NOTES:
                yield note
        finally:
            closed.append(True)

    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        assert await index.add(stream(), batch_size=2) == 3
        assert closed == [True]
        with pytest.raises(RuntimeError, match="enough"):
            await index.add(stream(), batch_size=1, on_progress=_fail)
        assert closed == [True, True]


def _fail(_: int) -> None:
    raise RuntimeError("enough")


async def test_adding_a_known_id_replaces_text_vector_links_and_metadata(tmp_path: Path) -> None:
    old = Document(id="a", text="old apples", title="old", links=("b",), metadata={"v": 1})
    new = Document(id="a", text="new bananas", links=("c",))
    others = [Document(id="b", text="boat"), Document(id="c", text="castle")]
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add([old, *others])
        await index.add([new])
        assert await index.count() == 3
        assert await index.get("a") == new
        assert ids(await read(index.lexical("old apples"))) == []
        assert ids(await read(index.lexical("bananas"))) == ["a"]
        assert ids(await read(index.graph("bananas"))) == ["c"]
        (hit,) = (await read(index.dense("new bananas")))[0][:1]
        assert hit.id == "a"
        assert hit.score == pytest.approx(1.0)  # the same text has the same vector


async def test_a_document_that_becomes_blank_loses_its_vector(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add([Document(id="a", text="apples"), Document(id="b", text="boats")])
        await index.add([Document(id="a", text=" \n\t ")])
        assert ids(await read(index.dense("apples"))) == ["b"]
        assert await index.count() == 2


async def test_of_equal_ids_in_one_call_the_last_one_stays(tmp_path: Path) -> None:
    twice = [Document(id="a", text=f"version {number}") for number in range(5)]
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        assert await index.add(twice, batch_size=3) == 5
        assert await index.count() == 1
        assert await index.get("a") == twice[-1]


async def test_removing_reports_what_was_there_and_leaves_no_trace(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(NOTES)
        assert await index.remove(["rrf", "unknown", "rrf", "cats"]) == 2
        assert await index.remove([]) == 0
        assert await index.count() == 1
        assert ids(await read(index.lexical("fusion sofa rarity"))) == ["bm25"]
        assert ids(await read(index.dense("fusion sofa rarity"))) == ["bm25"]
        assert ids(await read(index.graph("rarity"))) == []
        await index.add([NOTES[0]])  # the link that led nowhere leads somewhere again
        assert ids(await read(index.graph("rarity"))) == ["rrf"]


async def test_progress_is_told_after_each_batch(tmp_path: Path) -> None:
    told: list[int] = []
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        many = [Document(id=str(number), text="") for number in range(7)]
        assert await index.add(many, batch_size=3, on_progress=told.append) == 7
        assert await index.add([], on_progress=told.append) == 0
    assert told == [3, 6, 7]


async def test_equal_documents_are_not_embedded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[str] = []

    async def embed(texts: Sequence[str]) -> list[bytes | None]:
        embedded.extend(texts)
        return [None] * len(texts)

    monkeypatch.setattr(_wordllama, "embed", embed)
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(NOTES)
        assert len(embedded) == 3
        assert await index.add([*NOTES, Document(id="new", text="new")]) == 4
        assert embedded[3:] == ["new"]


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ("text", TypeError, "must be Document objects, not str"),
        (Document(id="x", text="\ud800"), ValueError, "document 'x': text must be valid Unicode"),
        (Document(id="\udfff", text=""), ValueError, "id must be valid Unicode"),
        (Document(id="x", text="", title=b"t"), TypeError, "title must be a str, not bytes"),  # type: ignore[arg-type] # on purpose
        (Document(id="x", text="", links="ab"), TypeError, "links must be a tuple of ids, not str"),  # type: ignore[arg-type] # on purpose
        (Document(id="x", text="", links=(1,)), TypeError, "every link must be a str"),  # type: ignore[arg-type] # on purpose
        (Document(id="x", text="", links=("\ud800",)), ValueError, "every link must be valid Unicode"),
        (Document(id="x", text="", metadata={"n": float("nan")}), ValueError, "metadata must be JSON"),
        (Document(id="x", text="", metadata={"o": object()}), ValueError, "metadata must be JSON"),  # type: ignore[dict-item] # on purpose
        (Document(id="x", text="", metadata={1: 2}), TypeError, "metadata must be a mapping with str keys"),  # type: ignore[dict-item] # on purpose
        (Document(id="x", text="", metadata=[1]), TypeError, "metadata must be a mapping"),  # type: ignore[arg-type] # on purpose
    ],
)
async def test_a_bad_document_is_named_and_costs_the_open_batch_only(
    tmp_path: Path, bad: Any, error: type[Exception], message: str
) -> None:
    good = [Document(id=str(number), text="") for number in range(5)]
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        with pytest.raises(error, match=message):
            await index.add([*good, bad], batch_size=2)
        assert await index.count() == 4  # two batches of two; the fifth shared a batch with the bad one
        await index.add(good)
        assert await index.count() == 5


async def test_arguments_are_checked_at_the_call(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="readers must be at least 1, not 0"):
        SQLiteIndex.create(tmp_path / "i.db", readers=0)
    for bad in (None, 3, b"i.db"):
        with pytest.raises(TypeError, match=f"path must be a str or a path, not {type(bad).__name__}"):
            SQLiteIndex.open(bad)  # type: ignore[arg-type] # on purpose
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        with pytest.raises(ValueError, match="batch_size must be at least 1, not 0"):
            await index.add([], batch_size=0)
        with pytest.raises(TypeError, match="ids must be an iterable of ids, not one str"):
            await index.remove("rrf")
        with pytest.raises(TypeError, match="every id must be a str, not int"):
            await index.remove([1])  # type: ignore[list-item] # on purpose
        for nothing in (None, 3):
            named = f"not {type(nothing).__name__}"
            with pytest.raises(TypeError, match=f"documents must be a sync or async iterable .*, {named}"):
                await index.add(nothing)  # type: ignore[arg-type] # on purpose
            with pytest.raises(TypeError, match=f"documents must be a sync or async iterable .*, {named}"):
                await index.replace_origin("o", "d", nothing)  # type: ignore[arg-type] # on purpose
            with pytest.raises(TypeError, match=f"ids must be an iterable of ids, {named}"):
                await index.remove(nothing)  # type: ignore[arg-type] # on purpose
        with pytest.raises(
            TypeError, match=r"documents must be a sync or async iterable .*, not one Document"
        ):
            await index.add(NOTES[0])  # type: ignore[arg-type] # on purpose
        with pytest.raises(TypeError, match="on_progress must be a callable or None, not int"):
            await index.add([], on_progress=3)  # type: ignore[arg-type] # on purpose
        with pytest.raises(TypeError, match="origin must be a str, not NoneType"):
            await index.remove_origin(None)  # type: ignore[arg-type] # on purpose
        with pytest.raises(TypeError, match="digest must be a str, not NoneType"):
            await index.replace_origin("o", None, [])  # type: ignore[arg-type] # on purpose
        with pytest.raises(TypeError, match="id must be a str"):
            await index.get(1)  # type: ignore[arg-type] # on purpose
        for retriever in (index.lexical, index.dense, index.graph):
            with pytest.raises(TypeError, match="query must be a str, not bytes"):
                retriever(b"q")  # type: ignore[arg-type] # on purpose
            with pytest.raises(ValueError, match="limit must be at least 1, not 0"):
                retriever("q", limit=0)
            with pytest.raises(TypeError, match="limit must be an int, not float"):
                retriever("q", limit=1.5)  # type: ignore[arg-type] # on purpose
        with pytest.raises(ValueError, match="seeds must be at least 1, not -1"):
            index.graph("q", seeds=-1)


def test_a_document_is_frozen_and_hashable() -> None:
    document = Document(id="a", text="b", metadata={"c": []})
    assert len({document, Document(id="a", text="b", metadata={"c": []})}) == 1
    with pytest.raises(AttributeError):
        document.text = "c"  # type: ignore[misc] # on purpose
