"""States of a fusion, for the tests of bounds: how the oracle has them, and how the library gets there."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from bounds_oracle import UNIT, Fresh, Line, State, Worth

from rrf_stream import Accumulator, Arm, ArmStatus, InverseSquareRank, RankBiased

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from bounds_oracle import Truth

    from rrf_stream import Snapshot

NAMES = "pqrstuvw"
ENDS = (ArmStatus.STREAMING, ArmStatus.EXHAUSTED, ArmStatus.TIMED_OUT, ArmStatus.FAILED, ArmStatus.DEADLINE)
"""How an arm may stand; one that has delivered its window stands there, whatever is asked for."""


@dataclass(frozen=True)
class Listed:
    """A kernel that gives these units by rank, and the last of them for ever after."""

    values: tuple[int, ...]

    def units(self, weight: Fraction, ranks: range) -> list[int]:
        """Return the share that the weight has of each value, floored."""
        return [self.worth(weight, rank) for rank in ranks]

    def worth(self, weight: Fraction, rank: int) -> int:
        """Return the same for one rank."""
        return math.floor(weight * self.values[min(rank, len(self.values)) - 1])


def reciprocal(constant: int) -> Worth:
    """Return the worth of a rank by the standard kernel."""
    return lambda weight, rank: math.floor(UNIT * weight / (constant + rank))


def rank_biased(persistence: float) -> Worth:
    """Return the worth of a rank by rank-biased centroids."""
    phi = Fraction(persistence)
    return lambda weight, rank: math.floor(UNIT * weight * (1 - phi) * phi ** (rank - 1))


FLAT = Listed(tuple(UNIT // 8 * (10 - rank // 2) for rank in range(2, 20)))
"""Two ranks are worth the same, and a few pairs of them as much as other pairs: ties wherever one looks."""
LEVEL = Listed((UNIT // 4,))
"""Counts arms: the tie rule decides nearly everything."""
HALVES = Listed(tuple(UNIT >> rank for rank in range(1, 98)))
"""Each rank is worth as much as all below it together."""
SPENT = Listed((3 * UNIT // 4, UNIT // 4, 0))
"""Worth nothing after the second rank, and yet listed."""
GRAINS = Listed((5 << 30, 3 << 30, 3 << 30, 1 << 31, 1 << 30, 1))
"""Worth about one step of 2**-64, so that rounding decides."""

KERNELS: dict[str, tuple[dict[str, Any], Worth]] = {
    "k=60": ({}, reciprocal(60)),
    "k=1": ({"rank_constant": 1}, reciprocal(1)),
    "rank-biased": ({"kernel": RankBiased(0.875)}, rank_biased(0.875)),
    "inverse square": (
        {"kernel": InverseSquareRank()},
        lambda weight, rank: math.floor(UNIT * weight / rank**2),
    ),
    "flat": ({"kernel": FLAT}, FLAT.worth),
    "halves": ({"kernel": HALVES}, HALVES.worth),
    "level": ({"kernel": LEVEL}, LEVEL.worth),
    "spent": ({"kernel": SPENT}, SPENT.worth),
    "grains": ({"kernel": GRAINS}, GRAINS.worth),
}
"""For each kernel the options that ask for it, and what a rank is worth by it."""
WORTH = {name: cache(worth) for name, (_, worth) in KERNELS.items()}


@dataclass(frozen=True)
class Moment:
    """One moment of a fusion: what was asked for, what the arms have delivered, and how they stand."""

    ids: tuple[tuple[Any, ...], ...]
    weights: tuple[float, ...]
    windows: tuple[int | None, ...]
    ends: tuple[ArmStatus, ...]
    kernel: str = "k=60"
    top_k: int = 10
    repeats: Literal["consume", "skip"] = "consume"

    @property
    def state(self) -> State:
        """The same as the oracle has it."""
        lines = tuple(
            Line(ids, Fraction(weight), window, running=end.is_open, short=end.is_short)
            for ids, weight, window, end in zip(self.ids, self.weights, self.windows, self.ends, strict=True)
        )
        return State(lines, WORTH[self.kernel], self.top_k, self.repeats == "skip")

    def empty(self, bounds: Literal["settled", "ranks"] = "ranks") -> Accumulator:
        """Return an accumulator for this fusion in which nothing has arrived."""
        arms = [
            Arm(name, (), weight=weight, window=window)
            for name, weight, window in zip(NAMES, self.weights, self.windows, strict=False)
        ]
        options = KERNELS[self.kernel][0]
        return Accumulator(arms, top_k=self.top_k, repeats=self.repeats, bounds=bounds, **options)

    def snapshot(self, bounds: Literal["settled", "ranks"] = "ranks") -> Snapshot:
        """Return what the library says, each arm having delivered in one page."""
        accumulator = self.empty(bounds)
        for name, ids, end in zip(NAMES, self.ids, self.ends, strict=False):
            accumulator.add(name, ids)
            if not end.is_open:
                accumulator.close(name, end)
        return accumulator.snapshot()


CERTIFICATES = ("settled", "exact", "settled_set", "exact_set", "contenders", "unseen_possible")


def says(snapshot: Snapshot) -> dict[str, Any]:
    """Return what a snapshot says of the future, of positions and ids."""
    said = {name: getattr(snapshot, name) for name in CERTIFICATES}
    return said | {"contenders": [*(snapshot.contenders or ())]}


def right(truth: Truth) -> dict[str, Any]:
    """Return what it ought to say."""
    return {name: getattr(truth, name) for name in CERTIFICATES}


# --- random moments ---------------------------------------------------------------------------------------


def small(random: Random, most: int = 2000) -> Moment:
    """Return a moment of few arms and ids, whose endings can all be tried: about so many at most."""
    while True:
        arms = random.choice((1, 2, 2, 2, 3, 3))
        pool = "abcdef"[: random.randint(1, 6)]
        windows = [random.choice((1, 2, 2, 3, 3, 4)) for _ in range(arms)]
        delivered = [random.choices(pool, k=random.choice((0, *range(window)))) for window in windows]
        if random.random() < 0.7:
            delivered = [[*dict.fromkeys(ids)] for ids in delivered]
        moment = Moment(
            ids=tuple(map(tuple, delivered)),
            weights=tuple(random.choice((1, 1, 1, 1, 0.5, 0.25, 2, 0, 3e-27)) for _ in range(arms)),
            windows=tuple(windows),
            ends=tuple(random.choice((*ENDS[:1] * 4, *ENDS)) for _ in range(arms)),
            kernel=random.choice([*KERNELS]),
            top_k=random.choice((1, 2, 3, 4, 10)),
            repeats=random.choice(("consume", "skip")),
        )
        if ways(moment.state) <= most:
            return moment


def ways(state: State) -> int:
    """Return about how many endings there are."""
    ways, known = 1, len(state.table)
    for arm in state.open("exact"):
        left = (state.lines[arm].window or 0) - state.used[arm]
        ways *= sum((known + 1) ** length for length in range(left + 1))
        known += left
    return ways


@dataclass(frozen=True)
class Play:
    """A whole fusion of any size: what is asked for, what each arm has to deliver, and how it ends."""

    start: Moment
    rankings: tuple[list[Any], ...]
    """Not past the windows."""
    cuts: tuple[int, ...]
    """How many results each arm gets to deliver; the rest is what a cut-off arm would have delivered."""
    events: tuple[tuple[int, int], ...]
    """Which arm delivers next, and how many results; when it has no more, it closes."""

    def run(self, bounds: Literal["settled", "ranks"]) -> Iterator[tuple[Accumulator, State]]:
        """Play the events, and pause before the first and after each."""
        accumulator, state = self.start.empty(bounds), self.start.state
        yield accumulator, state
        for arm, size in self.events:
            line = state.lines[arm]
            page = self.rankings[arm][len(line.ids) : self.cuts[arm]][:size]
            if page:
                accumulator.add(NAMES[arm], iter(page))
                line = replace(line, ids=(*line.ids, *page))
            else:
                end = ENDS[1] if self.cuts[arm] == len(self.rankings[arm]) else ENDS[2 + arm % 3]
                accumulator.close(NAMES[arm], end)
                line = replace(line, running=False, short=end.is_short)
            state = replace(state, lines=(*state.lines[:arm], line, *state.lines[arm + 1 :]))
            yield accumulator, state


def large(random: Random, pages: int = 8) -> Play:
    """Return a fusion of up to six arms and some hundreds of ids, in about so many pages.

    The arms agree more or less, deliver at different speeds, some not before the others have ended, and
    one in four is cut off.
    """
    arms = random.choice((1, 2, 2, 3, 3, 4, 5, 6))
    repeats: Literal["consume", "skip"] = random.choice(("consume", "consume", "skip"))
    windows = [random.choice((2, 10, 30, 100, 100, None)) for _ in range(arms)]
    if random.random() < 0.5:
        windows = windows[:1] * arms
    known, noise, again = (
        random.choice((10, 60, 200, 500)),
        random.choice((0.3, 2, 10, 100)),
        random.random() < 0.3,
    )
    rankings, cuts = [], []
    for window in windows:
        ids = sorted(range(known), key=lambda id_: random.gauss(id_, noise))[
            : window or random.choice((40, 500))
        ]
        ids = ids[: random.choice((None, None, None, random.randint(0, len(ids))))]
        if again:
            ids = [
                random.choice(ids[:position] or [id_]) if random.random() < 0.2 else id_
                for position, id_ in enumerate(ids)
            ]
        rankings.append(ids)
        cuts.append(random.randint(0, len(ids)) if random.random() < 0.25 else len(ids))
    size = 1 + sum(cuts) // pages
    events = [(arm, random.randint(1, 2 * size)) for arm, cut in enumerate(cuts) for _ in range(cut // size)]
    random.shuffle(events)
    silent = random.choice((None, None, 0, random.randrange(arms)))
    events.sort(key=lambda event: event[0] == silent)
    order = random.sample(range(arms), arms)
    events += [(arm, size) for arm in order for size in (known, 1)]
    return Play(
        start=Moment(
            ids=((),) * arms,
            weights=tuple(random.choice((1, 1, 1, 1, 0.5, 0.1, 2, 0, 3e-27)) for _ in windows)
            if random.random() < 0.6
            else (1,) * arms,
            windows=tuple(windows),
            ends=(ArmStatus.STREAMING,) * arms,
            kernel=random.choice(("k=60", "k=60", *KERNELS)),
            top_k=random.choice((1, 3, 10, 10, 1000)),
            repeats=repeats,
        ),
        rankings=tuple(rankings),
        cuts=tuple(cuts),
        events=tuple(events),
    )


def attacked(state: State, id_: Any, random: Random) -> Iterator[State]:
    """Give endings that are bad for an id: all that the open arms still deliver goes to its rivals."""
    now = [*state.now]
    behind = now[now.index(id_) + 1 :]
    strangers = [Fresh(number) for number in range(30)]
    for rivals in (
        [*behind, *strangers],
        [*strangers, *behind],
        random.sample(behind, len(behind)) + strangers,
    ):
        lines = list(state.lines)
        for arm in state.open("settled"):
            line, ranked = lines[arm], state.ranks[arm]
            room = None if line.window is None else line.window - state.used[arm]
            more = [rival for rival in rivals if rival not in ranked][:room]
            lines[arm] = replace(line, ids=(*line.ids, *more), running=False)
        yield replace(state, lines=tuple(lines))
