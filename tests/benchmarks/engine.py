"""One query through the engine against what one writes by hand.

Corpus model: three arms of 50 ids each in one page, about half of the ids found by several;
each arm suspends once, as one that waits for a socket does.
Run: `python tests/benchmarks/engine.py`, or with `--short` to see only that it runs.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

from core import naive, sample
from harness import Row, heading, show

from rrf_stream import Pipeline, fuse_arms, open_fusion

RANKINGS = sample(3, 50, 100)
NAMES = ("dense", "lexical", "graph")


async def ask(arm: int) -> list[str]:
    """Answer as a remote index would: later, and all at once."""
    await asyncio.sleep(0)
    return RANKINGS[arm]


def arms() -> dict[str, Awaitable[list[str]]]:
    """Return the sources of one query."""
    return {name: ask(arm) for arm, name in enumerate(NAMES)}


async def by_hand() -> object:
    """Wait for three tasks with a timeout, then fuse what is there in a loop."""
    tasks = [asyncio.create_task(ask(arm)) for arm in range(3)]
    done, late = await asyncio.wait(tasks, timeout=1.0)
    for task in late:
        task.cancel()
    return naive([task.result() for task in tasks if task in done])[:10]


async def once() -> object:
    """Fuse the arms, and take the final snapshot only."""
    return await fuse_arms(arms(), timeout=1.0)


async def every_snapshot() -> object:
    """Fuse the arms, and read every snapshot on the way."""
    async with open_fusion(arms(), timeout=1.0) as fusion:
        return [snapshot async for snapshot in fusion]


async def retrieve(arm: int, _query: str) -> list[str]:
    """Answer any query."""
    return await ask(arm)


PIPELINE = Pipeline({name: partial(retrieve, arm) for arm, name in enumerate(NAMES)}, timeout=1.0)
BLOCKING = [partial(RANKINGS.__getitem__, arm) for arm in range(len(NAMES))]


async def by_pipeline() -> object:
    """Do the same with retrievers and options that were checked before."""
    return await PIPELINE.search("query")


async def in_threads() -> object:
    """Fuse what functions return that may block, so that each is called in a thread."""
    return await fuse_arms(dict(zip(NAMES, BLOCKING, strict=True)), timeout=1.0)


async def in_threads_by_hand() -> object:
    """Do so with the threads of asyncio, then fuse what is there in a loop."""
    tasks = [asyncio.create_task(asyncio.to_thread(call)) for call in BLOCKING]
    done, late = await asyncio.wait(tasks, timeout=1.0)
    for task in late:
        task.cancel()
    return naive([task.result() for task in tasks if task in done])[:10]


async def cpu_time(query: Callable[[], Awaitable[object]], times: int) -> float:
    """Return the CPU time of one query in microseconds."""
    start = time.process_time_ns()
    for _ in range(times):
        await query()
    return (time.process_time_ns() - start) / times / 1000


async def query_rows(*, short: bool) -> list[Row]:
    """Measure each way of asking by turns with the one by hand."""
    times, turns = (2, 1) if short else (200, 15)
    rows = []
    for what, query, rival, bar in (
        ("one query, fuse_arms", once, by_hand, "<= 1.5"),
        ("one query, Pipeline.search", by_pipeline, by_hand, "<= 1.5"),
        ("one query, every snapshot", every_snapshot, by_hand, "<= 2.0"),
        ("one query, functions in threads", in_threads, in_threads_by_hand, "none"),
    ):
        pairs = []
        for _ in range(turns):
            ours = await cpu_time(query, times)
            pairs.append((ours, await cpu_time(rival, times)))
        against = "asyncio.wait, naive loop" if rival is by_hand else "the same with asyncio.to_thread"
        rows.append(Row.of(what, pairs, bar=bar, against=against))
    return rows


async def main(*, short: bool) -> None:
    """Print the table."""
    print(heading())
    show(await query_rows(short=short))


if __name__ == "__main__":
    asyncio.run(main(short="--short" in sys.argv[1:]))
