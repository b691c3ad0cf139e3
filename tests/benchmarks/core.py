"""The fusion core against the loop that everybody writes.

Corpus model: ids are short strings; for batches each arm is a random sample of a common pool about
twice as large as a list, so that about half of the ids are found by several arms; for streams each arm
delivers ids of its own, which is the worst case for memory.
Run: `python tests/benchmarks/core.py`, or with `--short` to see only that it runs.
"""

from __future__ import annotations

import gc
import random
import sys
import time
import tracemalloc
from functools import partial
from typing import Literal

from harness import Row, compare, cpu_time, heading, show

from rrf_stream import Accumulator, fuse

ARMS = ("dense", "lexical", "graph")
PAGE = 10


def naive(rankings: list[list[str]]) -> list[tuple[str, float]]:
    """Fuse as everybody does it: a dictionary of floats, and a full sort. Ids and scores only."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(ranking, 1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (60 + rank)
    return sorted(scores.items(), key=lambda row: -row[1])


def explained(rankings: list[list[str]]) -> list[object]:
    """Fuse, and read the score and the ranks of each of the ten best."""
    return [(hit.id, hit.score, *hit.ranks.items()) for hit in fuse(rankings, top_k=10)]


def sample(arms: int, length: int, pool: int) -> list[list[str]]:
    """Return rankings of random ids out of a pool."""
    chance = random.Random(17)
    ids = [f"doc{number}" for number in range(pool)]
    return [chance.sample(ids, length) for _ in range(arms)]


def batch_rows(*, short: bool) -> list[Row]:
    """Compare `fuse`, exact, top 10 with its explanation, with the naive loop."""
    rows = []
    for arms, length, pool, bar, times in ((3, 50, 100, "<= 2.0", 200), (20, 1000, 8000, "<= 1.35", 2)):
        rankings = sample(arms, length, pool)
        for what, ours in (("fuse", partial(fuse, rankings, top_k=10)), ("fuse, all read", explained)):
            rows.append(
                compare(
                    f"{what}, {arms} x {length} ids, top 10",
                    ours if isinstance(ours, partial) else partial(ours, rankings),
                    partial(naive, rankings),
                    bar=bar,
                    against="naive loop",
                    times=1 if short else times,
                    turns=1 if short else 25,
                )
            )
    return rows


def filled(size: int) -> Accumulator:
    """Return an accumulator with a live top 10, whose arms have delivered `size` ids in all."""
    accumulator = Accumulator(dict.fromkeys(ARMS, 1.0), window=None, bounds="off")
    each = size // len(ARMS)
    for arm in ARMS:
        for start in range(0, each, 1000):
            accumulator.add(arm, [f"{arm}-{number}" for number in range(start, min(start + 1000, each))])
            accumulator.snapshot()
    return accumulator


def adding_rows(*, short: bool) -> list[Row]:
    """Measure adding hits in pages of ten with a live top 10, a snapshot now and then, by size."""
    rows = []
    for size in (1_000, 10_000) if short else (1_000, 10_000, 100_000, 1_000_000):
        accumulator = filled(size)
        scores = {f"{arm}-{number}": 0.0 for arm in ARMS for number in range(size // len(ARMS))}
        pairs = []
        for turn in range(1 if short else 25):
            pages = [[f"{turn}-{page}-{hit}" for hit in range(PAGE)] for page in range(300)]

            def add(pages: list[list[str]] = pages, accumulator: Accumulator = accumulator) -> None:
                for page in pages:
                    accumulator.add("dense", page)

            def loop(pages: list[list[str]] = pages, scores: dict[str, float] = scores) -> None:
                for page in pages:
                    for rank, id_ in enumerate(page, 1):
                        scores[id_] = scores.get(id_, 0.0) + 1 / (60 + rank)

            hits = len(pages) * PAGE
            pairs.append((cpu_time(add, 1) / hits, cpu_time(loop, 1) / hits))
            accumulator.snapshot()
        what = f"adding one hit to {size:,} ids"
        rows.append(Row.of(what, pairs, bar="<= 0.8 us", against="naive adding, no ranks"))
    return rows


def snapshot_rows(*, short: bool) -> list[Row]:
    """Measure a snapshot of the top 10 when something was added, by size, beside the naive full sort."""
    rows = []
    for size in (300, 3_000) if short else (300, 3_000, 30_000):
        accumulator = filled(size)
        rankings = [[f"{arm}-{number}" for number in range(size // len(ARMS))] for arm in ARMS]
        rows.append(
            compare(
                f"one snapshot, top 10 of {size:,} ids",
                accumulator.snapshot,
                partial(naive, rankings),
                bar="<= 15 us",
                against="naive loop over all",
                times=1 if short else 20,
                turns=1 if short else 25,
            )
        )
    return rows


def snapshots(bounds: Literal["off", "settled"], rankings: list[list[str]], last: int) -> float:
    """Return the CPU time in microseconds of a snapshot, after each of the last pages of ten.

    Args:
        bounds: What a snapshot says of the future.
        rankings: What the arms deliver, by turns.
        last: How many ids of each arm come in these pages; those before come a thousand at a time.
    """
    names = [f"arm{number}" for number in range(len(rankings))]
    accumulator = Accumulator(dict.fromkeys(names, 1.0), window=None, bounds=bounds)
    turns = list(zip(names, rankings, strict=True))
    before = len(rankings[0]) - last
    for start in range(0, before, 1000):
        for name, ranking in turns:
            accumulator.add(name, ranking[start : min(start + 1000, before)])
        accumulator.snapshot()
    gc.collect()
    gc.disable()
    spent = taken = 0
    for start in range(before, before + last, PAGE):
        for name, ranking in turns:
            accumulator.add(name, ranking[start : start + PAGE])
            began = time.process_time_ns()
            accumulator.snapshot()
            spent += time.process_time_ns() - began
            taken += 1
    gc.enable()
    return spent / taken / 1000


def certified_rows(*, short: bool) -> list[Row]:
    """Measure a snapshot with `settled` and `exact`, beside one without, by arms and size."""
    cases = [(3, 100, "<= 80 us"), (8, 100, "<= 1000 us"), (64, 100, "")]
    cases += [(3, size // 3, "no growth") for size in (1_000, 10_000, 100_000)]
    rows = []
    for arms, length, bar in cases[:3] if short else cases:
        rankings = sample(arms, length, 2 * length)
        last = min(length, 300) // PAGE * PAGE
        pairs = [
            (snapshots("settled", rankings, last), snapshots("off", rankings, last))
            for _ in range(1 if short else 3 if arms > 8 else 9)
        ]
        what = f"one snapshot, certified, {arms} arms of {length:,}"
        rows.append(Row.of(what, pairs, bar=bar, against='bounds="off"'))
    return rows


def memory_row(*, short: bool) -> Row:
    """Measure the bytes that an id costs which one arm delivers, beside those of the naive dictionary."""
    size = 3_000 if short else 300_000
    ids = [[f"{arm}-{number}" for number in range(size // len(ARMS))] for arm in ARMS]
    gc.collect()
    tracemalloc.start()
    accumulator = Accumulator(dict.fromkeys(ARMS, 1.0), window=None, bounds="off")
    for arm, results in zip(ARMS, ids, strict=True):
        for start in range(0, len(results), 1000):
            accumulator.add(arm, results[start : start + 1000])
    accumulator.snapshot()
    ours, _ = tracemalloc.get_traced_memory()
    scores = {id_: 1 / (60 + rank) for results in ids for rank, id_ in enumerate(results, 1)}
    both, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    pair = (ours / size, (both - ours) / len(scores))
    return Row.of(f"bytes an id, {size:,} ids", [pair], bar="<= 300", against="dict of floats")


def main(*, short: bool) -> None:
    """Print the table."""
    print(heading())
    show(
        [
            *batch_rows(short=short),
            *adding_rows(short=short),
            *snapshot_rows(short=short),
            *certified_rows(short=short),
            memory_row(short=short),
        ]
    )


if __name__ == "__main__":
    main(short="--short" in sys.argv[1:])
