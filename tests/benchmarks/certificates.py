"""How early the top is certain, how much waiting that saves, and what early kernels cost in quality.

Data: see `judged.py`. Queries, and the runs of robust03 that answer each, are drawn from a fixed seed; every
kernel gets the same ones. All arms weigh the same, unless a row says otherwise. "Set" is what `settled_set`
tells of a top-k of that size, "order" is `settled`: what `until="settled"` waits for. Shares are given as
median (mean). Times are virtual. How rankings are replayed: see `replay.py`.
Run: `python tests/benchmarks/certificates.py`, some two minutes, or with `--short` to see only that it runs.
Exits with 1 if a certificate is wrong, or if there are no data (not with `--short`).
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from judged import DATA, RUNS, Collection, cranfield, ndcg, robust03
from replay import GOALS, Goal, Rankings, by_turns, in_full, moments, share_of_time

from rrf_stream import Kernel, RankBiased, ReciprocalRank
from rrf_stream.testing import VirtualEventLoop

KERNELS: dict[str, Kernel] = {
    "k = 60": ReciprocalRank(60),
    "k = 10": ReciprocalRank(10),
    "k = 1": ReciprocalRank(1),
    "RankBiased .9": RankBiased(0.9),
}
BEST = "best five"
"""The runs of robust03 without the one that is far worse than all others."""
MIXES: dict[str, list[tuple[str, ...]]] = {
    "robust03": [
        ("uic0301", "UIUC03Rd1"),
        ("UIUC03Rd1", "rutcor03100"),
        ("InexpC2", "THUIRr0301", "aplrob03a"),
        RUNS[:5],
        RUNS,
    ],
    "cranfield": [("lexical", "dense"), ("lexical", "dense", "4-grams")],
}
"""The arms that the quality of kernels is measured with."""


class Shape(NamedTuple):
    """What a row of a table is about: how many arms of a collection, and how deep they are read."""

    data: str
    arms: int
    window: int
    weight: float = 1.0
    """Of the arm that is silent."""


SHAPES = [
    Shape("robust03", 2, 100),
    Shape("robust03", 3, 50),
    Shape("robust03", 3, 100),
    Shape("robust03", 3, 200),
    Shape("robust03", 5, 100),
    Shape(BEST, 3, 100),
    Shape("cranfield", 2, 100),
    Shape("cranfield", 3, 100),
]
SILENT = [
    Shape("robust03", 2, 100),
    Shape("robust03", 3, 100),
    Shape("robust03", 3, 100, 0.25),
    Shape("robust03", 3, 100, 0.1),
    Shape("robust03", 5, 100),
    Shape("cranfield", 3, 100),
]
SLOW = [Shape("robust03", 3, 100), Shape("cranfield", 3, 100)]
PACES = [("4 times slower", 4, 5), ("10 times slower", 10, 5), ("10 times later, all at once", 10, 100)]
"""How much longer one arm takes than the others, and how many of its results come at once."""
ORDERS = [goal for goal in GOALS if goal.ordered]


class Study:
    """The tables over some collections.

    Args:
        collections: By name.
        sample: How many queries a row has.
    """

    def __init__(self, collections: Mapping[str, Collection], sample: int) -> None:
        self._collections = collections
        self._sample = sample

    def lockstep(self) -> None:
        """Print how much must be read while the arms deliver by turns, one result each."""
        print("\nShare of all results read until it is certain, all arms at one pace")
        _print_head([goal.name for goal in GOALS], "needs all of them, over .9: " + _names(ORDERS))
        for shape in SHAPES:
            mixes = [(rankings, by_turns(rankings)) for rankings in self.drawn(shape)]
            for name, kernel in KERNELS.items():
                shares = []
                for rankings, order in mixes:
                    counts = moments(rankings, order, window=shape.window, kernel=kernel)
                    shares.append([count / len(order) for count in counts])
                columns = [*zip(*shares, strict=True)]
                late = [late_of(columns[GOALS.index(goal)]) for goal in ORDERS]
                _print_row(shape, name, [*map(middle, columns)], late)

    def silent(self) -> None:
        """Print how much is needed of an arm that is silent until all others are complete."""
        print("\nResults needed of the last arm, after all others are complete: median (mean)")
        _print_head([goal.name for goal in GOALS], "needs none of them: " + _names(GOALS))
        for shape in SILENT:
            mixes = []
            for rankings in self.drawn(shape):
                *others, last = random.Random(repr(rankings)).sample([*rankings], len(rankings))
                before = by_turns({arm: rankings[arm] for arm in rankings if arm in others})
                order = [*before, *[last] * len(rankings[last])]
                mixes.append((rankings, order, len(before), {last: shape.weight}))
            for name, kernel in KERNELS.items():
                needed = []
                for rankings, order, others_end, weights in mixes:
                    counts = moments(rankings, order, window=shape.window, kernel=kernel, weights=weights)
                    needed.append([max(0, count - others_end) for count in counts])
                columns = [*zip(*needed, strict=True)]
                early = [f"{column.count(0) / len(column):.0%}" for column in columns]
                cells = [f"{statistics.median(one):.0f} ({statistics.mean(one):.0f})" for one in columns]
                _print_row(shape, name, cells, early)

    async def waiting(self) -> None:
        """Print how long fusions take that end when the top is certain, while one arm is slow."""
        print('\nTime until the answer of until="settled", as a share of the time until all is there')
        print(f"{'data':<10} {'arms':>4}  {'one arm is':<28} {'kernel':<14}", end="")
        _print_cells(
            [f"settle={goal.size}" for goal in ORDERS], ["never earlier, over .9: " + _names(ORDERS)]
        )
        for shape in SLOW:
            drawn = [*self.drawn(shape)][: -(-self._sample // 2)]
            for words, factor, page in PACES:
                for name, kernel in KERNELS.items():
                    columns = [
                        [
                            await share_of_time(one, factor=factor, page=page, kernel=kernel, goal=goal)
                            for one in drawn
                        ]
                        for goal in ORDERS
                    ]
                    print(f"{shape.data:<10} {shape.arms:>4}  {words:<28} {name:<14}", end="")
                    _print_cells([*map(middle, columns)], [*map(late_of, columns)])

    def quality(self) -> None:
        """Print what the complete fusion is worth with each kernel."""
        print("\nnDCG@10 of the complete fusion, window 100: with k = 60, and what other kernels change")
        print("(+- the standard error of the change over the queries)")
        first, *others = KERNELS
        print(f"{'data':<10} {'arms':<52} {first:>7}" + "".join(f"{name:>18}" for name in others))
        for data, mixes in MIXES.items():
            collection = self._collections[data]
            for arms in mixes:
                by_kernel = [
                    [
                        ndcg(in_full(collection.of(query, arms, 100), kernel), collection.relevant[query])
                        for query in collection.queries
                    ]
                    for kernel in KERNELS.values()
                ]
                usual, *rest = by_kernel
                row = f"{data:<10} {', '.join(arms) if len(arms) < 5 else named(arms):<52}"
                row += f" {statistics.mean(usual):>7.4f}"
                for values in rest:
                    change = [value - before for value, before in zip(values, usual, strict=True)]
                    error = statistics.stdev(change) / math.sqrt(len(change))
                    row += f"{f'{statistics.mean(change):+.4f} +-{error:.3f}':>18}"
                print(row, flush=True)

    def drawn(self, shape: Shape) -> Iterator[Rankings]:
        """Give what arms rank for queries, drawn if there are more, and always the same for equal shapes."""
        data, arms, window, _ = shape
        collection = self._collections[data]
        chance = random.Random(f"{data} {arms} {window}")
        queries = collection.queries
        for query in chance.sample(queries, min(self._sample, len(queries))):
            chosen = collection.arms[:arms]
            if len(collection.arms) > 3:
                chosen = chance.sample(collection.arms, arms)
            yield collection.of(query, chosen, window)


def middle(values: Sequence[float]) -> str:
    """Return median and mean in two digits."""
    return f"{statistics.median(values):.2f} ({statistics.mean(values):.2f})".replace("0.", ".")


def late_of(shares: Sequence[float]) -> str:
    """Return which part of the shares, in per cent, is the whole, and which is above nine tenths."""
    whole, nearly = shares.count(1.0), sum(share > 0.9 for share in shares)
    return f"{whole / len(shares):.0%}, {nearly / len(shares):.0%}"


def named(arms: Sequence[str]) -> str:
    """Return many arms in words."""
    return "all six" if len(arms) == len(RUNS) else f"all but {', '.join(set(RUNS).difference(arms))}"


def _names(goals: Sequence[Goal]) -> str:
    return " / ".join(goal.name for goal in goals)


def _print_head(columns: Sequence[str], last: str) -> None:
    print(f"{'data':<10} {'arms':>4} {'window':>6}  {'kernel':<14}", end="")
    _print_cells(columns, [last])


def _print_row(shape: Shape, kernel: str, cells: Sequence[str], last: Sequence[str]) -> None:
    data, arms, window, weight = shape
    print(f"{data:<10} {arms:>4} {window:>6}  {kernel:<14}", end="")
    _print_cells(cells, last if weight == 1 else [*last, f"(of weight {weight})"])


def _print_cells(cells: Sequence[str], last: Sequence[str]) -> None:
    print("".join(f"{cell:>12}" for cell in cells), "", " / ".join(last), flush=True)


def main(*, short: bool) -> int:
    """Print the tables; return the exit code."""
    missing = [name for name in ("robust03", "cranfield") if not (DATA / name).is_dir()]
    if missing:
        print(f"Nothing measured: there is no {' and no '.join(missing)} in {DATA}.")
        print("The environment variable RRF_STREAM_DATA may name another folder.")
        return 0 if short else 1
    runs, papers = robust03(), asyncio.run(cranfield(most=5 if short else None))
    best = Collection(BEST, {run: runs.rankings[run] for run in RUNS[:5]}, runs.relevant)
    by_name = {one.name: one for one in (runs, best, papers)}
    study = Study(by_name, sample=4 if short else 100)
    study.lockstep()
    study.silent()
    with asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
        runner.run(study.waiting())
    study.quality()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="only see that it runs")
    sys.exit(main(short=parser.parse_args().short))
