"""Many queries at once, and readers beside a writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest
from sqlite_kit import NOTES, ids, read

from rrf_stream.retrievers import _sqlite_store as store
from rrf_stream.retrievers import _wordllama
from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rrf_stream.retrievers._document import Record
    from rrf_stream.retrievers._sqlite_db import Database

pytestmark = pytest.mark.anyio


async def test_many_queries_run_at_once_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db", readers=3) as index:
        await index.add(Document(id=str(n), text=f"common word{n}", links=(str(n + 1),)) for n in range(40))
        answers: dict[tuple[str, int], list[str]] = {}

        async def ask(arm: str, n: int) -> None:
            answers[arm, n] = ids(await read(getattr(index, arm)(f"word{n}", limit=2)))

        async with anyio.create_task_group() as group:
            for n in range(40):
                for arm in ("lexical", "dense", "graph"):
                    group.start_soon(ask, arm, n)
        assert all(answers["lexical", n] == [str(n)] for n in range(40))
        assert all(answers["graph", n] == [str(n + 1), str(n - 1)] for n in range(1, 39))
        assert (answers["graph", 0], answers["graph", 39]) == (["1", "2"], ["38", "37"])
        assert all(len(answers["dense", n]) == 2 for n in range(40))


async def test_more_open_sources_than_connections_cannot_block_each_other(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db", readers=1) as index:
        await index.add(Document(id=str(n), text="word") for n in range(20))
        sources = [index.lexical("word") for _ in range(5)]
        with anyio.fail_after(5):
            first = [await anext(source) for source in sources]
            second = [await anext(source) for source in sources]
        assert {len(page) for page in first} == {8}
        assert {len(page) for page in second} == {12}


async def test_readers_see_whole_batches_while_a_writer_adds(tmp_path: Path) -> None:
    counts: list[int] = []
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        done = anyio.Event()

        async def watch() -> None:
            while not done.is_set():
                found = len(ids(await read(index.lexical("word", limit=1000))))
                held = await index.count()
                counts.append(held)
                assert found % 7 == 0
                assert found <= held

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await index.add((Document(id=str(n), text="word") for n in range(210)), batch_size=7)
            done.set()
        assert await index.count() == 210
    assert counts == sorted(counts)
    assert all(held % 7 == 0 for held in counts)
    assert len(set(counts)) > 2  # it did read in between


async def test_writers_in_two_tasks_do_not_mix_their_batches(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        async with anyio.create_task_group() as group:
            for start in (0, 100):
                documents = [Document(id=str(n), text=f"word{n}") for n in range(start, start + 100)]
                group.start_soon(index.add, documents)
        assert await index.count() == 200
        assert ids(await read(index.lexical("word150"))) == ["150"]


async def test_a_document_that_changes_while_another_is_embedded_is_embedded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`add` embeds only "new", as it finds NOTES unchanged; then "cats" changes and needs a vector too."""
    embed = _wordllama.embed
    calls: list[list[str]] = []

    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(NOTES)

        async def racing(texts: Sequence[str]) -> list[bytes | None]:
            calls.append(list(texts))
            if len(calls) == 1:

                def race(db: Database) -> None:
                    other: Record = store._stored(db, "cats")[2]._replace(text="dogs now")  # type: ignore[index] # it is there
                    store.add(db, [other], {"cats": None})

                await index._connections.write(race)
            return await embed(texts)

        monkeypatch.setattr(_wordllama, "embed", racing)
        await index.add([*NOTES, Document(id="new", text="new")])
        assert calls == [["new"], ["Cats\nThey sleep on the sofa most of the day."]]
        assert await index.get("cats") == NOTES[2]
        assert ids(await read(index.lexical("dogs"))) == []
        assert set(ids(await read(index.dense("sofa")))) == {"rrf", "bm25", "cats", "new"}


async def test_two_indexes_of_one_file_see_each_other(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as one, SQLiteIndex.open(tmp_path / "i.db") as two:
        await one.add(NOTES)
        assert await two.count() == 3
        await two.remove(["cats"])
        assert await one.get("cats") is None
        await anyio.lowlevel.checkpoint()
