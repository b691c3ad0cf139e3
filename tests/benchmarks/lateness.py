"""How late an answer is after a deadline of 50 ms, beside what the event loop does by itself.

Query model: three arms, each of which delivers one result at once and then misbehaves, all in the same
way; for 50 ms after it was cancelled, where it does not hang for ever. 1 and 100 queries at a time.
What it is held against is measured by turns in the same run. On asyncio, `asyncio.wait` with a timeout
over tasks that read the same arms, which then cancels the late ones. On trio, a nursery inside
`move_on_after` whose arms hang and obey: a nursery cannot be left before arms that do not, and would say
nothing about the event loop. Blocking arms run in threads on both sides, as many as want to.
Run: `python tests/benchmarks/lateness.py`, some minutes, or with `--short` to see only that it runs.
Exits with 1 if an answer is wrong or anything is left behind. Never because of a time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
from harness import BACKENDS, heading, percentile, run_each

from rrf_stream import ArmStatus, Snapshot, drain, fuse_arms, in_thread, set_thread_limit
from rrf_stream.testing import assert_no_leaks, script

ARMS = 3
MOST = 100
"""Queries at a time, at the most."""
BUDGET = 0.05
AFTER = 0.05
"""Seconds that an arm misbehaves after its cancellation."""
BLOCKS = "blocks in a thread"


def blocking() -> Iterator[int]:
    """Block the thread that reads it."""
    yield 1
    time.sleep(BUDGET + AFTER)


KINDS: dict[str, Callable[[], Any]] = {
    "hangs": lambda: script(1, hang=True),
    "swallows its cancellation": lambda: script(1, BUDGET + AFTER, swallow=100),
    "cleans up for long": lambda: script(1, hang=True, cleanup=AFTER),
    "shields its clean-up": lambda: script(1, hang=True, cleanup=AFTER, shield=True),
    "raises when it is cancelled": lambda: script(1, hang=True, on_close=[].pop),
    BLOCKS: lambda: in_thread(blocking),
}


class Ours:
    """What the library does."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.wrong = 0

    async def ask(self) -> None:
        """Ask one query."""
        final = await fuse_arms({f"{arm}": KINDS[self.kind]() for arm in range(ARMS)}, timeout=BUDGET)
        self.wrong += not is_right(final)

    async def settle(self) -> None:
        """Wait until nothing of the query runs any more."""
        await drain()


class OnAsyncio:
    """What one writes by hand on asyncio."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._late: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(MOST * ARMS)

    async def ask(self) -> None:
        """Ask one query."""
        tasks = [asyncio.create_task(self._read()) for _ in range(ARMS)]
        _, late = await asyncio.wait(tasks, timeout=BUDGET)
        for task in late:
            task.cancel()
        self._late |= late

    async def settle(self) -> None:
        """Wait until nothing of the query runs any more."""
        if self._late:
            await asyncio.gather(*self._late, return_exceptions=True)
            self._late.clear()
        await asyncio.sleep(AFTER if self.kind == BLOCKS else 0)

    async def _read(self) -> None:
        if self.kind == BLOCKS:
            await asyncio.get_running_loop().run_in_executor(self._threads, list, blocking())
        else:
            async with aclosing(KINDS[self.kind]()) as source:
                async for _ in source:
                    pass


class OnTrio:
    """What one writes by hand on trio."""

    def __init__(self, kind: str) -> None:
        import trio  # noqa: PLC0415 - only where it is measured

        self.kind = kind
        self._trio = trio
        self._threads = trio.CapacityLimiter(MOST * ARMS)

    async def ask(self) -> None:
        """Ask one query."""
        trio = self._trio
        with trio.move_on_after(BUDGET):
            async with trio.open_nursery() as nursery:
                for _ in range(ARMS):
                    nursery.start_soon(self._read)

    async def settle(self) -> None:
        """Wait until nothing of the query runs any more."""
        await self._trio.sleep(AFTER if self.kind == BLOCKS else 0)

    async def _read(self) -> None:
        if self.kind == BLOCKS:
            run = self._trio.to_thread.run_sync
            await run(list, blocking(), abandon_on_cancel=True, limiter=self._threads)
        else:
            async with aclosing(KINDS["hangs"]()) as source:
                async for _ in source:
                    pass


def is_right(final: Snapshot) -> bool:
    """Return whether an answer shows what has arrived, and says why there is no more.

    On a machine that is so busy that the deadline comes late, an arm may have ended by itself before it.
    """
    arms = final.coverage.arms
    ranks = {arm.name: 1 for arm in arms if arm.received}
    ended = (final.elapsed or 0.0) >= BUDGET + AFTER
    return [dict(hit.ranks) for hit in final.hits] == ([ranks] if ranks else []) and all(
        arm.received <= 1 and (arm.status is ArmStatus.DEADLINE or ended) for arm in arms
    )


async def ask_at_once(ask: Callable[[], Awaitable[None]], count: int) -> list[float]:
    """Ask queries at the same time; return how many milliseconds late each answer was."""
    late = []

    async def one() -> None:
        start = time.perf_counter()
        await ask()
        late.append((time.perf_counter() - start - BUDGET) * 1000)

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)
    return late


async def measure(kind: str, by_hand: type[OnAsyncio | OnTrio], count: int, turns: int) -> int:
    """Print one row; return how many answers were wrong."""
    ours, theirs = Ours(kind), by_hand(kind)
    late: tuple[list[float], list[float]] = ([], [])
    gc.collect()  # not before each query, which would begin with cold caches
    for turn in range(turns + 1):
        for who, found in zip((ours, theirs), late, strict=True):
            milliseconds = await ask_at_once(who.ask, count)
            await who.settle()
            if turn:  # the first is to warm up
                found.extend(milliseconds)
    (median, worst), (usual, raw) = ((statistics.median(found), percentile(found, 0.99)) for found in late)
    figures = (f"{one:>9.2f}" for one in (median, usual, worst, raw, worst - raw))
    print(f"{count:>4}  {kind:<28}", *figures, flush=True)
    return ours.wrong


async def main(*, name: str, short: bool) -> int:
    """Print one table; return the exit code."""
    by_hand = OnTrio if name == "trio" else OnAsyncio
    columns = ("median", "by hand", "p99", "by hand", "more")
    print(
        f"\n{name + ', milliseconds late':<34}", *(f"{column:>9}" for column in columns), "  bar: <= 3 more"
    )
    set_thread_limit(MOST * ARMS)
    wrong = 0
    for count, turns in ((1, 1), (20, 1)) if short else ((1, 100), (MOST, 10)):
        for kind in KINDS:
            wrong += await measure(kind, by_hand, count, turns)
    if wrong:
        print(f"FAILED: {wrong} wrong answers")
    try:
        await assert_no_leaks(within=10)
    except AssertionError as left:
        print(f"FAILED: {left}")
        return 1
    return int(wrong > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="only see that it runs")
    parser.add_argument("--backend", choices=BACKENDS, help="one event loop only, in this process")
    given = parser.parse_args()
    if given.backend is None:
        print(heading(), flush=True)
        sys.exit(run_each(__file__, *(["--short"] if given.short else [])))
    run = partial(main, name=given.backend, short=given.short)
    sys.exit(anyio.run(run, **BACKENDS[given.backend]))
