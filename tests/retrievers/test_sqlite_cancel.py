"""A query stops when nobody waits for it any more, and the connection answers the next one at once.

Threads and SQLite are the subject, so these tests sleep for real, briefly.
"""

from __future__ import annotations

import gc
import time
import weakref
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from sqlite_kit import NOTES, database, endless, idle_readers, ids, read, record_of

from rrf_stream.retrievers import _sqlite_store as store
from rrf_stream.retrievers._sqlite_db import Database
from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: "Within milliseconds", on a machine that does other things too.
SOON = 0.5


async def settles(index: SQLiteIndex) -> None:
    """Wait until the reader threads are idle, which must be soon."""
    with anyio.fail_after(SOON):
        while not idle_readers(index):  # noqa: ASYNC110 - threads set no event for it
            await anyio.sleep(0.001)


@pytest.fixture
def runaway(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Every lexical query runs for ever, until the fixture is undone."""
    with monkeypatch.context() as patch:
        patch.setattr(store, "lexical", endless)
        yield patch


@pytest.mark.anyio
@pytest.mark.parametrize("arm", ["lexical", "graph"])
async def test_a_deadline_ends_a_runaway_query(tmp_path: Path, runaway: pytest.MonkeyPatch, arm: str) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db", readers=1) as index:
        await index.add(NOTES)
        source = getattr(index, arm)("sofa")
        started = time.perf_counter()
        with anyio.move_on_after(0.05) as scope:
            await anext(source)
        assert scope.cancelled_caught
        assert 0.04 < time.perf_counter() - started < 0.05 + SOON
        await settles(index)
        runaway.undo()
        with anyio.fail_after(SOON):  # on the only connection
            assert ids(await read(index.lexical("sofa"))) == ["cats"]
        assert await read(source) == []  # a cancelled source has ended


@pytest.mark.anyio
async def test_a_heavy_search_is_interrupted_inside_full_text_search(tmp_path: Path) -> None:
    words = " ".join(f"w{n}" for n in range(1000))
    records = [record_of(str(n), words) for n in range(600)]
    async with SQLiteIndex.create(tmp_path / "i.db", readers=1) as index:
        await index._connections.write(lambda db: store.add(db, records, {one.id: None for one in records}))
        started = time.perf_counter()
        with anyio.move_on_after(0.02) as scope:
            await read(index.lexical(words))
        assert scope.cancelled_caught
        await settles(index)
        cut = time.perf_counter() - started
        started = time.perf_counter()
        assert len(await read(index.lexical(words))) == 3
        assert cut < (time.perf_counter() - started) / 2  # ended long before it would have been done


@pytest.mark.anyio
async def test_cancelling_the_task_ends_the_query(tmp_path: Path, runaway: pytest.MonkeyPatch) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db", readers=2) as index:
        await index.add(NOTES)
        async with anyio.create_task_group() as group:
            for _ in range(6):  # two run, four wait for a connection
                group.start_soon(read, index.lexical("sofa"))
            await anyio.sleep(0.03)
            group.cancel_scope.cancel()
        await settles(index)
        runaway.undo()
        assert ids(await read(index.lexical("sofa"))) == ["cats"]


@pytest.mark.asyncio
async def test_a_plain_asyncio_cancel_ends_the_query(tmp_path: Path, runaway: pytest.MonkeyPatch) -> None:
    import asyncio  # noqa: PLC0415 - only here

    async with SQLiteIndex.create(tmp_path / "i.db", readers=1) as index:
        await index.add(NOTES)
        task = asyncio.create_task(read(index.lexical("sofa")))
        await asyncio.sleep(0.03)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await settles(index)
        runaway.undo()
        assert ids(await read(index.lexical("sofa"))) == ["cats"]


@pytest.mark.anyio
async def test_closing_a_source_ends_a_read_in_another_task(
    tmp_path: Path, runaway: pytest.MonkeyPatch
) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(NOTES)
        source = index.lexical("sofa")
        pages: list[Any] = []

        async def consume() -> None:
            pages.extend(await read(source))

        with anyio.fail_after(SOON + 0.03):
            async with anyio.create_task_group() as group:
                group.start_soon(consume)
                await anyio.sleep(0.03)
                with pytest.raises(RuntimeError, match="being read already"):
                    await anext(source)
                await source.aclose()
        assert pages == []
        await settles(index)
        runaway.undo()
        await source.aclose()
        assert await read(source) == []


@pytest.mark.anyio
async def test_closing_the_index_ends_what_runs_and_what_waits_with_a_clear_error(
    tmp_path: Path, runaway: pytest.MonkeyPatch
) -> None:
    assert runaway
    index = SQLiteIndex.create(tmp_path / "i.db", readers=1)
    failures: list[str] = []

    async def consume() -> None:
        with pytest.raises(ValueError, match="is closed") as caught:
            await read(index.lexical("sofa"))
        failures.append(str(caught.value))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group, index:
            await index.add(NOTES)
            for _ in range(3):
                group.start_soon(consume)
            await anyio.sleep(0.03)
    assert failures == [f"the index '{index.path}' is closed"] * 3
    with pytest.raises(ValueError, match="is closed"):
        await index.count()


@pytest.mark.anyio
async def test_a_source_may_be_left_half_read(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db", readers=1) as index:
        await index.add(Document(id=str(n), text="word", links=("99",)) for n in range(100))
        halves = [index.lexical("word"), index.dense("word"), index.graph("word")]
        for source in halves * 2:
            async for _ in source:
                break
        await settles(index)  # nothing is held between two pages
        await index.add([Document(id="more", text="word")])
        assert await index.count() == 101


@pytest.mark.anyio
async def test_an_idle_thread_keeps_nothing_alive(tmp_path: Path) -> None:
    class Result:
        pass

    async with SQLiteIndex.create(tmp_path / "i.db", readers=1) as index:
        result = weakref.ref(await index._connections.read(lambda _: Result()))
        with anyio.fail_after(5):
            while result() is not None:
                await anyio.sleep(0.001)
                gc.collect()


@pytest.mark.anyio
async def test_a_cancelled_add_is_undone_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = store.write

    def write(db: Database, *arguments: Any) -> Any:
        slow(db, *arguments)
        endless(db)

    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(NOTES)
        monkeypatch.setattr(store, "write", write)
        with anyio.move_on_after(0.05) as scope:
            await index.add([Document(id="x", text="")])
        assert scope.cancelled_caught
        monkeypatch.undo()
        with anyio.fail_after(SOON):
            assert await index.add([Document(id="y", text="")]) == 1
        assert await index.get("x") is None
        assert await index.count() == 4


@pytest.mark.anyio
async def test_a_cancelled_add_that_can_no_longer_be_stopped_has_ended_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = store.write

    def write(db: Database, *arguments: Any) -> Any:
        whole(db, *arguments)
        time.sleep(0.1)  # no statement runs, so there is nothing to interrupt

    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        monkeypatch.setattr(store, "write", write)
        with anyio.move_on_after(0.03) as scope:
            await index.add([Document(id="x", text="")])
        assert scope.cancelled_caught
        at_return = await index.count()
        await anyio.sleep(0.15)
        assert await index.count() == at_return


@pytest.mark.anyio
async def test_the_event_loop_keeps_running_during_queries_and_embedding(tmp_path: Path) -> None:
    gaps: list[float] = []

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await anyio.sleep(0.005)
            gaps.append(time.perf_counter() - last)
            last = time.perf_counter()

    async with SQLiteIndex.create(tmp_path / "i.db") as index, anyio.create_task_group() as group:
        await index.prepare()
        group.start_soon(tick)
        await index.add(Document(id=str(n), text=f"some words about number {n} " * 5) for n in range(600))
        with anyio.move_on_after(0.5):
            await index._connections.read(endless)
        group.cancel_scope.cancel()
    assert max(gaps) < 0.4  # the query alone would have stopped it for 0.5 s


def test_an_interrupt_that_comes_too_early_for_sqlite_is_not_lost() -> None:
    """SQLite forgets an interrupt that falls between two statements; the next one must stop all the same."""
    with database() as db:
        db.interrupt()
        started = time.perf_counter()
        with pytest.raises(Exception, match="interrupted"):
            endless(db)
        assert time.perf_counter() - started < SOON
        db.resume()
        assert db.rows("select 1") == [(1,)]
