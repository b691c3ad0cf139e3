"""Thousands of queries with good arms and bad: each answer right, nothing left behind, memory flat.

Query model: see `mix.py`. 100 queries run at a time; each has 3 to 20 arms, half of them drawn from
those that misbehave, options and a reader drawn too. Every snapshot is checked against `fuse` of what
had arrived: as the fusion tells it, and as the arms' known rankings have it. Every fourth goes through the
`Pipeline` of its service, with a breaker and hedging that are quick to act.
Before it, as a warm-up, the same queries are asked by turns with `fuse_arms` and as one writes it by
hand: a task for each arm, `asyncio.wait` with a timeout, the late ones cancelled, and the naive loop over
what has arrived by then; on trio a nursery inside `move_on_after`. There all arms have a window of 100
and no options of their own, and nobody stops early; what arms do after the answer is charged to whoever
cancelled them.
Run: `python tests/benchmarks/soak.py`, with `--short` for some seconds of it, with `--seed N` for other
queries. Exits with 1 if a snapshot is wrong, if anything is left behind, or if memory has grown. Never
because of a time.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Unpack

import anyio
from by_hand import by_hand_on_asyncio, by_hand_on_trio, settle
from harness import BACKENDS, heading, run_each
from mix import Query, Source, draw, is_right

from rrf_stream import (
    Arm,
    Breaker,
    Fusion,
    FusionOptions,
    Hedging,
    Pipeline,
    Snapshot,
    drain,
    fuse,
    fuse_arms,
    open_fusion,
)
from rrf_stream.errors import ArmError
from rrf_stream.testing import assert_no_leaks

AT_ONCE = 100
GROWTH = 1.05
"""What the resident memory may be after the soak, as a multiple of before."""
SLACK = 2000
"""How many more blocks of memory Python may hold: some more tables in a cache. A leak costs many a query."""
MOST_ROUNDS = 3
"""A leak grows in every round. What grows once is a peak: a machine that was busier had more arms alive."""
LEAST_WARM_UP = 200
"""Queries before the first look at the memory, at the least, so that caches are full. In the long run there
are as many as are measured, so that arms which outlive their queries are as many as they get."""

EVERY = 4
"""One query in so many goes through a pipeline."""
BREAKER = Breaker(failures=2, cooldown=0.1)
HEDGING = Hedging(after=0.005, most=0.5)

Ask = Callable[[Query], Awaitable[object]]


class Stopwatch:
    """Adds up the CPU time of what is no part of the queries: drawing them, and checking their snapshots."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time() - self._start


APART = Stopwatch()


class Soak:
    """What came of the queries."""

    def __init__(self) -> None:
        self.snapshots = 0
        self.wrong: list[int] = []
        self.arms = 0
        self.outcomes: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.health: Counter[str] = Counter()
        self._pipelines: dict[int, Pipeline] = {}

    def check(self, query: Query, snapshot: Snapshot, fusion: Fusion | None = None) -> None:
        """Take note of a snapshot."""
        with APART:
            self.snapshots += 1
            if not is_right(query, snapshot, None if fusion is None else fusion.rankings()):
                self.wrong.append(query.number)

    def finish(self, query: Query, final: Snapshot, fusion: Fusion | None = None) -> None:
        """Take note of a final snapshot, and of how it ended, once for each query."""
        self.check(query, final, fusion)
        with APART:
            self.outcomes[str(final.outcome)] += 1
            self.statuses.update(str(report.status) for report in final.coverage.arms)

    async def ask(self, query: Query) -> None:
        """Ask a query as its reader does."""
        self.arms += len(query.arms)
        entrance = self._pipeline(query) if query.number % EVERY == 0 else Direct
        with suppress(ArmError, LookupError):
            if query.reader == "fuse_arms":
                self.finish(query, await entrance.search(query, **query.options))
            elif query.reader == "drops":
                fusion = entrance.open(query, **query.options)
                async for snapshot in fusion:
                    self.check(query, snapshot, fusion)
                    break
            else:
                fusion = entrance.open(query, **query.options)
                try:
                    async with fusion:
                        await self._read(query, fusion)
                finally:
                    with suppress(ArmError):  # also of one that was left there is a final snapshot
                        self.finish(query, await fusion.final(), fusion)

    def forget(self) -> None:
        """Let go of the pipelines, which know ever more until they know of a thousand queries."""
        for pipeline in self._pipelines.values():
            for stats in pipeline.stats().values():
                self.health["skipped"] += stats.skipped
                self.health["hedged"] += stats.hedged
                self.health["won by the second attempt"] += stats.second_won
        self._pipelines.clear()

    def _pipeline(self, query: Query) -> Pipeline:
        """Return the pipeline of the service of a query, which is told by how many arms it has."""
        number = len(query.arms)
        if number not in self._pipelines:
            arms = [Arm(arm.name, partial(retrieve, at), **arm.options) for at, arm in enumerate(query.arms)]
            self._pipelines[number] = Pipeline(arms, breaker=BREAKER, hedging=HEDGING)
        return self._pipelines[number]

    async def _read(self, query: Query, fusion: Fusion) -> None:
        if query.reader == "final":
            await fusion.final()
            return
        async for snapshot in fusion:
            self.check(query, snapshot, fusion)
            match query.reader:
                case "slow":
                    await anyio.sleep(0.01)
                case "breaks":
                    break
                case "stops":
                    fusion.stop()
                case "raises":
                    raise LookupError


async def retrieve(at: int, query: Query) -> object:
    """Return what one of the arms of a query is to read."""
    return query.arms[at].source()


class Direct:
    """Asks as a pipeline does, without one."""

    @staticmethod
    def open(query: Query, **options: Unpack[FusionOptions]) -> Fusion:
        """Open the fusion of a query."""
        return open_fusion([arm.arm(plain=False) for arm in query.arms], **options)

    @staticmethod
    async def search(query: Query, **options: Unpack[FusionOptions]) -> Snapshot:
        """Return the final snapshot of a query."""
        return await fuse_arms([arm.arm(plain=False) for arm in query.arms], **options)


async def by_library(query: Query) -> object:
    """Ask for the final snapshot only."""
    return await fuse_arms([arm.arm(plain=True) for arm in query.arms], timeout=query.budget)


async def ask_all(seed: int, numbers: range, ask: Ask) -> float:
    """Ask queries, `AT_ONCE` at a time; return the seconds of CPU time that took until all arms had ended."""
    gc.collect()
    start, apart = time.process_time(), APART.seconds
    waiting = iter(numbers)

    async def work() -> None:
        for number in waiting:
            with APART:
                query = draw(seed, number)
                if number % AT_ONCE == 0:
                    gc.collect()  # so that memory tells what is held, not when Python last looked
            await ask(query)

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(work)
    await settle()
    gc.collect()  # stops fusions that were dropped
    await anyio.sleep(0.01)
    await drain(10)
    return time.process_time() - start - (APART.seconds - apart)


def resident() -> float:
    """Return the megabytes of memory that the process has; where that is not told, the most it had."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 2**20
    )


def memory() -> tuple[float, int]:
    """Return the resident megabytes, and the blocks that Python holds, without garbage."""
    for number in range(1, 33):  # `fuse` keeps what it has tabulated for the last few forms of calls
        fuse([["id"]], rank_constant=number)
    for _ in range(3):
        gc.collect()
    return resident(), sys.getallocatedblocks()


class Complaints(logging.Handler):
    """Keeps what the event loop has logged."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message of a record."""
        self.heard.append(record.getMessage())


async def main(*, name: str, queries: int, turns: int, seed: int) -> int:
    """Print what came of it; return the exit code."""
    complaints = Complaints()
    logging.getLogger("asyncio").addHandler(complaints)
    by_hand = by_hand_on_trio if name == "trio" else by_hand_on_asyncio
    pairs = []
    for turn in range(turns):
        numbers = range(queries * turn // turns, queries * (turn + 1) // turns)
        pairs.append((await ask_all(seed, numbers, by_library), await ask_all(seed, numbers, by_hand)))

    warm_up = Soak()
    await ask_all(seed, range(queries, queries + max(queries, LEAST_WARM_UP)), warm_up.ask)
    warm_up.forget()
    soak = Soak()
    seconds = 0.0
    held = [memory()]
    while len(held) == 1 or (grown(held[-2], held[-1]) and len(held) <= MOST_ROUNDS):
        seconds += await ask_all(seed, range(queries), soak.ask)
        soak.forget()
        held.append(memory())
    failures = await failures_of(soak, held, complaints.heard)

    ours, hand = (queries / sum(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(ours / hand for ours, hand in pairs)
    asked = queries * (len(held) - 1)
    print(f"\n{name}: {asked} queries, {soak.arms} arms, seed {seed}")
    print(f"  outcomes   {of(soak.outcomes)}")
    print(f"  statuses   {of(soak.statuses)}")
    print(f"  pipelines  {of(soak.health)}")
    print(f"  snapshots  {soak.snapshots} checked, {len(soak.wrong)} wrong")
    sizes = ", ".join(f"{megabytes:.1f}" for megabytes, _ in held)
    print(f"  memory     {sizes} MB before and after;", end=" ")
    print(f"{(held[-1][1] - held[-2][1]) / queries:+.2f} blocks a query")
    print(f"  queries per CPU-second: {asked / seconds:.0f} as the readers read;", end=" ")
    print(f"final only: fuse_arms {ours:.0f}, by hand {hand:.0f}, ratio of the times {ratio:.2f}")
    for failure in failures:
        print(f"  FAILED: {failure}")
    return int(bool(failures))


def grown(before: tuple[float, int], after: tuple[float, int]) -> bool:
    """Return whether more memory is held than before."""
    return after[0] > before[0] * GROWTH or after[1] > before[1] + SLACK


async def failures_of(soak: Soak, held: list[tuple[float, int]], complaints: list[str]) -> list[str]:
    """Return what is wrong, in words."""
    failures = []
    if soak.wrong:
        failures.append(f"wrong snapshots of the queries {sorted(set(soak.wrong))}")
    try:
        await assert_no_leaks(within=10)
    except AssertionError as left:
        failures.append(str(left))
    if Source.open:
        failures.append(f"{Source.open} sources were never closed")
    if complaints:
        failures.append(f"{len(complaints)} lines logged by the event loop, the first: {complaints[0]}")
    if grown(held[-2], held[-1]):
        failures.append(f"memory has grown in each of {MOST_ROUNDS} rounds")
    return failures


def of(counts: Counter[str]) -> str:
    """Put counts into words."""
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="100 queries instead of 2,000")
    parser.add_argument("--seed", type=int, default=17, help="which queries (default: %(default)s)")
    parser.add_argument("--backend", choices=BACKENDS, help="one event loop only, in this process")
    given = parser.parse_args()
    if given.backend is None:
        print(heading(), flush=True)
        sys.exit(run_each(__file__, "--seed", str(given.seed), *(["--short"] if given.short else [])))
    size = {"queries": 100, "turns": 1} if given.short else {"queries": 2000, "turns": 5}
    run = partial(main, name=given.backend, seed=given.seed, **size)
    sys.exit(anyio.run(run, **BACKENDS[given.backend]))
