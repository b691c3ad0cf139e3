"""Vectors depend on the text alone, and blank text has none."""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlite_kit import ids, read

from rrf_stream.retrievers import _wordllama as embedding
from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = st.lists(st.text(st.characters(exclude_categories=()), max_size=50), max_size=12)


@settings(deadline=None, max_examples=60)
@given(TEXTS)
def test_every_text_has_a_unit_vector_or_none_whatever_is_embedded_with_it(texts: list[str]) -> None:
    async def main() -> None:
        together = await embedding.embed(texts)
        for text, vector in zip(texts, together, strict=True):
            assert (await embedding.embed([text])) == [vector]
            if not text.strip():
                assert vector is None
            if vector is not None:
                numbers = struct.unpack(f"{embedding.DIMENSIONS}f", vector)
                assert sum(number * number for number in numbers) == pytest.approx(1, abs=1e-4)

    anyio.run(main)


@given(st.lists(st.integers(0, embedding.LONGEST_TEXT), max_size=100))
def test_no_call_pads_to_more_than_its_budget(lengths: list[int]) -> None:
    texts = ["x" * length for length in lengths]
    calls = list(embedding._calls(texts))
    assert sorted(place for call in calls for place in call) == [n for n, text in enumerate(texts) if text]
    for call in calls:
        assert len(call) <= embedding.CALL_TEXTS
        assert len(call) * max(len(texts[place]) for place in call) <= embedding.CALL_CHARACTERS


def test_a_vector_that_is_no_number_is_none() -> None:
    """Blank text never gets this far; what the model cannot embed must not be stored all the same."""
    import numpy as np  # noqa: PLC0415 - a second, and only here

    class Broken:
        @staticmethod
        def embed(texts: list[str], *, norm: bool) -> object:
            assert norm
            return np.array([[np.nan] * 2, [0.6, 0.8], [np.nan, 0.6], [0, 0]], dtype=np.float32)[: len(texts)]

    embedder = embedding.Embedder()
    embedder._model = Broken
    assert embedder.embed(["a", "b", "c", "d"]) == [None, struct.pack("2f", 0.6, 0.8), None, None]


@pytest.mark.anyio
async def test_a_long_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "LONGEST_TEXT", 12)
    assert await embedding.embed(["a few words, and many more"]) == await embedding.embed(["a few words,"])


@pytest.mark.anyio
async def test_many_tasks_share_one_model_in_one_thread(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add([Document(id="a", text="apples and pears"), Document(id="b", text="bridges")])
        found: list[list[str]] = []

        async def search(query: str) -> None:
            found.append(ids(await read(index.dense(query))))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(index.prepare)
                group.start_soon(search, "pears")
        assert found == [["a", "b"]] * 20
    assert [thread.name for thread in threading.enumerate()].count("rrf-stream-embedder") == 1


@pytest.mark.anyio
async def test_waiting_for_the_model_blocks_no_other_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db", readers=1) as index:
        await index.add([Document(id="a", text="apples")])
        monkeypatch.setattr(embedding, "embed", _never)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(read, index.dense("apples"))
            await anyio.lowlevel.checkpoint()
            with anyio.fail_after(5):
                assert ids(await read(index.lexical("apples"))) == ["a"]
            group.cancel_scope.cancel()


async def _never(_: list[str]) -> list[bytes | None]:
    await anyio.sleep_forever()
    return []
