"""Incremental indexing: an origin has exactly the documents it gave last, and says so honestly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlite_kit import ids, read

from rrf_stream.retrievers import _wordllama
from rrf_stream.retrievers.sqlite import Document, OriginUpdate, SQLiteIndex

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.anyio

A, B, C = (Document(id=name, text=f"text of {name}") for name in "abc")


async def test_replacing_an_origin_adds_changes_keeps_and_removes(tmp_path: Path) -> None:
    new_b = Document(id="b", text="rewritten")
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        assert await index.origins() == {}
        first = await index.replace_origin("file", "v1", [A, B])
        assert first == OriginUpdate(added=2, changed=0, unchanged=0, removed=0)
        second = await index.replace_origin("file", "v2", [new_b, C])
        assert second == OriginUpdate(added=1, changed=1, unchanged=0, removed=1)
        third = await index.replace_origin("file", "v3", [new_b, C])
        assert third == OriginUpdate(added=0, changed=0, unchanged=2, removed=0)
        assert await index.origins() == {"file": "v3"}
        assert await index.get("a") is None
        assert ids(await read(index.lexical("rewritten"))) == ["b"]
    async with SQLiteIndex.open(tmp_path / "i.db") as index:
        assert await index.origins() == {"file": "v3"}


async def test_only_changed_documents_are_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[str] = []

    async def embed(texts: Sequence[str]) -> list[bytes | None]:
        embedded.extend(texts)
        return [None] * len(texts)

    monkeypatch.setattr(_wordllama, "embed", embed)
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.replace_origin("file", "v1", [A, B])
        await index.replace_origin("file", "v2", [A, B, C])
    assert embedded == ["text of a", "text of b", "text of c"]


async def test_an_origin_may_be_empty_and_removing_it_forgets_it(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.replace_origin("empty", "v1", [])
        await index.replace_origin("full", "v1", [A, B])
        assert await index.origins() == {"empty": "v1", "full": "v1"}
        assert await index.remove_origin("full") == 2
        assert await index.remove_origin("empty") == 0
        assert await index.remove_origin("unknown") == 0
        assert await index.origins() == {}
        assert await index.count() == 0


@pytest.mark.parametrize("touch", ["add", "remove"])
async def test_touching_a_document_by_id_makes_its_origin_stale_until_it_is_replaced(
    tmp_path: Path, touch: str
) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.replace_origin("file", "v1", [A, B])
        await index.replace_origin("other", "v1", [C])
        if touch == "add":
            await index.add([Document(id="a", text="by hand")])
        else:
            await index.remove(["a"])
        assert await index.origins() == {"file": None, "other": "v1"}
        update = await index.replace_origin("file", "v1", [A, B])
        restored = {"changed": 1, "added": 0} if touch == "add" else {"changed": 0, "added": 1}
        assert update == OriginUpdate(unchanged=1, removed=0, **restored)
        assert await index.get("a") == A
        assert await index.origins() == {"file": "v1", "other": "v1"}


async def test_adding_an_equal_document_leaves_it_with_its_origin(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.replace_origin("file", "v1", [A])
        await index.add([A])
        assert await index.origins() == {"file": "v1"}
        assert await index.remove_origin("file") == 1


async def test_an_origin_takes_over_documents_that_have_none(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add([A, B])
        update = await index.replace_origin("file", "v1", [A, Document(id="b", text="other")])
        assert update == OriginUpdate(added=0, changed=1, unchanged=1, removed=0)
        assert await index.remove_origin("file") == 2


async def test_two_origins_cannot_give_the_same_id(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.replace_origin("one", "v1", [A, B])
        with pytest.raises(ValueError, match="document 'b' of origin 'two' belongs to origin 'one' already"):
            await index.replace_origin("two", "v1", [C, B])
        assert await index.origins() == {"one": "v1"}
        assert await index.count() == 2  # C was not stored either


async def test_a_bad_document_leaves_the_origin_as_it_was(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.replace_origin("file", "v1", [A])
        with pytest.raises(ValueError, match="origin 'file' has two documents with the id 'b'"):
            await index.replace_origin("file", "v2", [B, B])
        with pytest.raises(ValueError, match="valid Unicode"):
            await index.replace_origin("file", "v2", [Document(id="x", text="\ud800")])
        with pytest.raises(TypeError, match="digest must be a str, not int"):
            await index.replace_origin("file", 2, [B])  # type: ignore[arg-type] # on purpose
        assert await index.origins() == {"file": "v1"}
        assert await index.get("a") == A
