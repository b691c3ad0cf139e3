"""How late an answer is after a deadline of 50 ms, beside what the event loop does by itself.

Query model: four arms. One delivers a result and hangs, so that it is the deadline that ends the query;
three deliver one result at once and then misbehave, all in the same way: for 50 ms after they were
cancelled, or 0.5 s where they clean up, if not for ever. 1 and 100 queries at a time.
What it is held against is measured by turns in the same run. On asyncio, `asyncio.wait` with a timeout
over tasks that read the same arms, which then cancels the late ones. On trio, a nursery inside
`move_on_after` whose arms hang and obey: a nursery cannot be left before arms that do not, and would say
nothing about the event loop. The same on asyncio for arms that never suspend, as nobody who just reads
them is ever heard of again. Blocking arms run in threads on both sides, as many as want to.
Run: `python tests/benchmarks/lateness.py`, some ten minutes, or with `--short` to see only that it runs.
Exits with 1 if an answer is wrong or anything is left behind. Never because of a time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

import anyio
from harness import BACKENDS, heading, percentile, run_each

from rrf_stream import Arm, ArmStatus, Outcome, Snapshot, drain, fuse_arms, in_thread, set_thread_limit
from rrf_stream.testing import assert_no_leaks, script

ARMS = 3
MOST = 100
"""Queries at a time, at the most."""
BUDGET = 0.05
AFTER = 0.05
"""Seconds that an arm misbehaves after its cancellation."""
CLEANUP = 0.5
"""Seconds that an arm cleans up after it."""
BLOCKS = "blocks in a thread"
STATUSES = {ArmStatus.DEADLINE}
FAILS = STATUSES | {ArmStatus.FAILED}
ENDS = STATUSES | {ArmStatus.EXHAUSTED}


def blocking() -> Iterator[int]:
    """Block the thread that reads it."""
    yield 1
    time.sleep(BUDGET + AFTER)


async def endless(pause: float | None) -> AsyncIterator[int]:
    """Deliver for ever, with pauses of so many seconds, or without any."""
    while True:
        yield 1
        if pause is not None:
            await anyio.sleep(pause)


@dataclass(frozen=True)
class Kind:
    """One way to misbehave.

    Attributes:
        source: Makes an arm that does.
        statuses: How such an arm may have ended by the deadline.
        most: How many results it delivers at most; None for any number.
        obeys: Whether who just reads it is heard of again.
        turns: How often it is measured, one query at a time.
    """

    source: Callable[[], Any]
    statuses: set[ArmStatus] = field(default_factory=STATUSES.copy)
    _: KW_ONLY
    most: int | None = 1
    obeys: bool = True
    turns: int = 60


KINDS: dict[str, Kind] = {
    "hangs": Kind(lambda: script(1, hang=True)),
    "delivers before any waiting": Kind(lambda: [1], ENDS),
    "delivers for ever": Kind(lambda: endless(0.001), most=None),
    "never suspends": Kind(lambda: endless(None), most=None, obeys=False),
    "raises at once": Kind(lambda: script(fail=OSError("down")), FAILS),
    "raises late": Kind(lambda: script(1, BUDGET - 0.01, fail=OSError("down")), FAILS),
    "ends as the time is up": Kind(lambda: script(1, BUDGET), ENDS),
    "swallows its cancellation": Kind(lambda: script(1, BUDGET + AFTER, swallow=100)),
    "cleans up for long": Kind(lambda: script(1, hang=True, cleanup=CLEANUP), turns=20),
    "shields its clean-up": Kind(lambda: script(1, hang=True, cleanup=CLEANUP, shield=True), turns=20),
    "raises when it is cancelled": Kind(lambda: script(1, hang=True, on_close=[].pop)),
    BLOCKS: Kind(lambda: in_thread(blocking)),
}
HANGS = KINDS["hangs"]


class Ours:
    """What the library does."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.wrong = 0

    async def ask(self) -> None:
        """Ask one query."""
        kind = KINDS[self.kind]
        arms = [Arm(f"{number}", kind.source(), window=None) for number in range(ARMS)]
        final = await fuse_arms([Arm("hangs", HANGS.source()), *arms], timeout=BUDGET)
        self.wrong += not is_right(final, kind)

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
        kinds = [HANGS, *[KINDS[self.kind]] * ARMS]
        tasks = [asyncio.create_task(self._read(kind)) for kind in kinds]
        done, late = await asyncio.wait(tasks, timeout=BUDGET)
        for task in done:
            task.exception()
        for task in late:
            task.cancel()
        self._late |= late

    async def settle(self) -> None:
        """Wait until nothing of the query runs any more."""
        if self._late:
            await asyncio.gather(*self._late, return_exceptions=True)
            self._late.clear()
        await asyncio.sleep(AFTER if self.kind == BLOCKS else 0)

    async def _read(self, kind: Kind) -> None:
        if kind is KINDS[BLOCKS]:
            await asyncio.get_running_loop().run_in_executor(self._threads, list, blocking())
        else:
            await read(kind if kind.obeys else HANGS)


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
                nursery.start_soon(read, HANGS)
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
            await read(HANGS)


async def read(kind: Kind) -> None:
    """Read an arm to its end."""
    source = kind.source()
    if isinstance(source, list):
        return
    async with aclosing(source):
        async for _ in source:
            pass


def is_right(final: Snapshot, kind: Kind) -> bool:
    """Return whether an answer shows what has arrived, and says why there is no more.

    On a machine that is so busy that the deadline comes late, an arm may have ended by itself before it.
    """
    hangs, *arms = final.coverage.arms
    ranks = {arm.name: 1 for arm in (hangs, *arms) if arm.received}
    ended = (final.elapsed or 0.0) >= BUDGET + AFTER
    return (
        [dict(hit.ranks) for hit in final.hits] == ([ranks] if ranks else [])
        and (final.outcome, hangs.status) == (Outcome.DEADLINE, ArmStatus.DEADLINE)
        and all(arm.status in kind.statuses or ended for arm in arms)
        and all(kind.most is None or arm.received <= kind.most for arm in arms)
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


async def measure(kind: str, by_hand: type[OnAsyncio | OnTrio], count: int, turns: int, warm_up: int) -> int:
    """Print one row; return how many answers were wrong."""
    ours, theirs = Ours(kind), by_hand(kind)
    late: tuple[list[float], list[float]] = ([], [])
    gc.collect()  # not before each query, which would begin with cold caches
    for turn in range(warm_up + turns):
        for who, found in zip((ours, theirs), late, strict=True):
            milliseconds = await ask_at_once(who.ask, count)
            await who.settle()
            if turn >= warm_up:
                found.extend(milliseconds)
    (median, worst), (usual, raw) = ((statistics.median(found), percentile(found, 0.99)) for found in late)
    figures = (f"{one:>9.2f}" for one in (median, usual, worst, raw, worst - raw))
    print(f"{count:>4}  {kind:<28}", *figures, flush=True)
    return ours.wrong


async def main(*, backend: str, short: bool) -> int:
    """Print one table; return the exit code."""
    by_hand = OnTrio if backend == "trio" else OnAsyncio
    columns = ("median", "by hand", "p99", "by hand", "more")
    print(
        f"\n{backend + ', milliseconds late':<34}",
        *(f"{column:>9}" for column in columns),
        "  bar: <= 3 more",
    )
    set_thread_limit(MOST * ARMS)
    wrong = 0
    for count in (20,) if short else (1, MOST):
        for name, kind in KINDS.items():
            turns = 1 if short else kind.turns if count == 1 else 10
            wrong += await measure(name, by_hand, count, turns, warm_up=not short)
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
    run = partial(main, backend=given.backend, short=given.short)
    sys.exit(anyio.run(run, **BACKENDS[given.backend]))
