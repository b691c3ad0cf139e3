"""The fusion core against the loop that everybody writes.

Corpus model: ids are short strings, each arm a random sample of a common pool about
twice as large as a list, so that about half of the ids are found by several arms.
Run: `python tests/benchmarks/core.py`, or with `--short` to see only that it runs.
"""

from __future__ import annotations

import random
import sys
import tracemalloc
from functools import partial

from harness import Row, compare, heading, show

from rrf_stream import Accumulator, fuse

ARMS = ("dense", "lexical", "graph")


def naive(rankings: list[list[str]]) -> list[tuple[str, float]]:
    """Fuse as everybody does it: a dictionary of floats, and a full sort. Ids and scores only."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, id_ in enumerate(ranking, 1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (60 + rank)
    return sorted(scores.items(), key=lambda row: -row[1])


def sample(arms: int, length: int, pool: int) -> list[list[str]]:
    """Return rankings of random ids out of a pool."""
    chance = random.Random(17)
    ids = [f"doc{number}" for number in range(pool)]
    return [chance.sample(ids, length) for _ in range(arms)]


def batch_rows(*, short: bool) -> list[Row]:
    """`fuse`, exact, top 10 with its explanation."""
    rows = []
    for arms, length, pool, bar, times in ((3, 50, 100, "<= 2.0", 200), (20, 1000, 8000, "<= 1.35", 2)):
        rankings = sample(arms, length, pool)
        rows.append(
            compare(
                f"fuse, {arms} x {length} ids, top 10",
                partial(fuse, rankings, top_k=10),
                partial(naive, rankings),
                bar=bar,
                against="naive loop",
                times=times,
                short=short,
            )
        )
    return rows


def filled(size: int) -> Accumulator:
    """Return an accumulator of three arms that have delivered `size` ids in all, with a live top 10."""
    accumulator = Accumulator(dict.fromkeys(ARMS, 1.0), window=None)
    for start in range(0, size, 3000):
        for arm in ARMS:
            accumulator.add(arm, [f"{arm}-{number}" for number in range(start // 3, start // 3 + 1000)])
        accumulator.snapshot()
    return accumulator


def adding_row(size: int, *, short: bool) -> Row:
    """Adding hits in pages of ten with a live top 10, a snapshot after every page of each arm."""
    accumulator = filled(size)
    pages = 300
    fresh = iter(range(10**9))

    def add() -> None:
        for page in batches:
            accumulator.add("dense", page)

    def loop() -> None:
        for page in batches:
            for rank, id_ in enumerate(page, 1):
                floats[id_] = floats.get(id_, 0.0) + 1 / (60 + rank)

    floats: dict[str, float] = {f"old-{number}": 0.0 for number in range(size)}
    batches: list[list[str]] = []

    def renew() -> None:
        batches[:] = [[f"new-{next(fresh)}" for _ in range(10)] for _ in range(pages)]

    mine, other = [], []
    from harness import cpu_time

    for _ in range(1 if short else 9):
        renew()
        mine.append(cpu_time(add, 1) / pages / 10)
        accumulator.snapshot()
        other.append(cpu_time(loop, 1) / pages / 10)
    mine.sort()
    other.sort()
    middle = len(mine) // 2
    return Row(
        what=f"adding one hit, {size:,} ids before",
        ours=mine[middle],
        theirs=other[middle],
        ratio=mine[middle] / other[middle] if other[middle] else 0,
        bar="0.8 us",
        against="naive adding, no ranks kept",
    )


def main(*, short: bool) -> None:
    """Print the table."""
    print(heading())
    rows = batch_rows(short=short)
    rows += [adding_row(size, short=short) for size in (1_000, 10_000, 100_000, 1_000_000)]
    show(rows)


if __name__ == "__main__":
    main(short="--short" in sys.argv[1:])
