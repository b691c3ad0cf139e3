"""Whatever is left open, the interpreter exits, and what was committed stays.

Each test runs programs in interpreters of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlite_kit import run_child

if TYPE_CHECKING:
    from pathlib import Path

PRELUDE = """
import gc, sys, threading, time
import anyio
from rrf_stream.retrievers import _sqlite_store as store
from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

path, backend = sys.argv[1:]
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"

def run(main):
    options = {"use_uvloop": True} if backend == "uvloop" else {}
    anyio.run(main, backend="trio" if backend == "trio" else "asyncio", backend_options=options)

def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("rrf:")]
"""

PROGRAMS = {
    "an index that is never closed": """
        index = SQLiteIndex.create(path)
        async def main():
            await index.__aenter__()
            await index.add([Document(id="a", text="alpha")])
            assert len(threads()) == 5
        run(main)
        """,
    "an index that is dropped": """
        async def main():
            index = await SQLiteIndex.create(path).__aenter__()
            await index.add([Document(id="a", text="alpha")])
            source = index.lexical("alpha")
            async for page in source:
                break
            del index
            gc.collect()
            assert len(threads()) == 5  # the source still needs them
            del source
            gc.collect()
            with anyio.fail_after(5):
                while threads():
                    await anyio.sleep(0.01)
            print("threads ended")
        run(main)
        """,
    "an index opened under a cancelled scope": """
        async def main():
            with anyio.CancelScope() as scope:
                scope.cancel()
                async with SQLiteIndex.create(path) as index:
                    assert len(threads()) == 5
                    await index.add([Document(id="lost", text="")])
            assert not threads()
            async with SQLiteIndex.open(path) as index:
                assert await index.count() == 0
        run(main)
        """,
    "an index opened and closed under an expired deadline": """
        async def main():
            with anyio.move_on_after(0):
                await anyio.sleep(0.01)
            with anyio.move_on_after(-1):
                async with SQLiteIndex.create(path):
                    await anyio.sleep(1)
            assert not threads()
        run(main)
        """,
    "an arm that is left half read": """
        async def main():
            async with SQLiteIndex.create(path) as index:
                await index.add([Document(id=str(n), text="alpha") for n in range(50)])
                for arm in (index.lexical, index.dense, index.graph):
                    async for page in arm("alpha"):
                        break
            assert not threads()
        run(main)
        """,
    "queries that still run": """
        index = SQLiteIndex.create(path)
        async def forever():
            await index._connections.read(lambda db: db.rows(ENDLESS))
        async def main():
            await index.__aenter__()
            await index.add([Document(id="a", text="alpha")])
            async with anyio.create_task_group() as group:
                for _ in range(9):
                    group.start_soon(forever)
                await anyio.sleep(0.05)
                raise SystemExit(0)
        try:
            run(main)
        except BaseException as error:
            print(type(error).__name__)
        """,
    "two loops, one after the other": """
        index = SQLiteIndex.create(path)
        async def first():
            await index.__aenter__()
            await index.add([Document(id="a", text="alpha")])
        async def second():
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(index.count)
            assert [hit.id for hit in await anext(index.dense("alpha"))] == ["a"]
            await index.aclose()
            assert not threads()
        run(first)
        run(second)
        """,
}


@pytest.mark.parametrize("backend", ["asyncio", "uvloop", "trio"])
@pytest.mark.parametrize("what", PROGRAMS)
def test_the_interpreter_exits_whatever_is_left_open(tmp_path: Path, what: str, backend: str) -> None:
    path = str(tmp_path / "i.db")
    program = PRELUDE + "\n" + _dedent(PROGRAMS[what])
    _, seconds = run_child(program, path, backend, timeout=30)
    assert seconds < 15
    check = PRELUDE + _dedent("""
        async def main():
            async with SQLiteIndex.open(path) as index:
                print(await index.count())
        run(main)
        """)
    assert int(run_child(check, path, "asyncio")[0]) in {0, 1, 50}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_whose_event_loop_is_gone_is_not_cut_off_by_the_exit(tmp_path: Path, backend: str) -> None:
    program = PRELUDE + _dedent("""
        from rrf_stream.retrievers._jobs import Job

        index = SQLiteIndex.create(path)

        def slow(db):
            time.sleep(0.2)
            print("ended", flush=True)

        async def main():
            await index.__aenter__()
            # Straight into the queue, so that nobody waits for it and nobody cancels it.
            index._connections._threads[1]._queue.put(Job(slow))

        run(main)
        """)
    output, _ = run_child(program, str(tmp_path / "i.db"), backend, timeout=30)
    assert output == "ended\n"


def _dedent(program: str) -> str:
    return "\n".join(line.removeprefix("        ") for line in program.splitlines())
