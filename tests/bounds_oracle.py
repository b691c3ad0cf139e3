"""What can still change, by the book: nothing is kept, everything is tried.

Written from the rules, not from the library, and for one purpose only: to be obviously right.

- An arm that is open may yet deliver any number of results within its window: ids that others have listed,
  ids nobody has seen, and where they use up ranks its own ids again. Or it may stop here.
- For what is `settled` the arms that still run are open; for what is `exact` those too that closed short.
- A statement is sound if no ending contradicts it, and complete if endings contradict all that say more.

`by_trying` goes through every ending of a small state; what judges large ones is in `bounds_pairs`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

UNIT = 2**96
STEP = 2**32
"""Units in one step of the score that ids are sorted by."""

Worth: TypeAlias = "Callable[[Fraction, int], int]"
"""What a rank is worth at a weight, in units; it never rises with the rank, nor falls below 0."""
Place: TypeAlias = "tuple[int, tuple[int, int]]"
"""What ids are sorted by, smaller is better: minus the rounded score, then first arm and rank there."""
Target: TypeAlias = Literal["settled", "exact"]

NOWHERE: Place = (1, (0, 0))
"""Behind every place there is."""


class Fresh(NamedTuple):
    """An id that nobody has seen yet."""

    number: int


@dataclass(frozen=True)
class Line:
    """One arm: what it has delivered, repeats and all, never past its window; and how it stands."""

    ids: tuple[Any, ...]
    weight: Fraction = Fraction(1)
    window: int | None = None
    running: bool = True
    short: bool = False
    """Whether it was closed before it had delivered all."""


@dataclass(frozen=True)
class Truth:
    """The right answers about one state."""

    settled: int
    exact: int
    settled_set: int
    exact_set: int
    contenders: list[Any]
    """In the order of now."""
    unseen_possible: bool
    upper: dict[Any, int]
    """In units."""
    best: dict[Any, int]


@dataclass(frozen=True)
class State:
    """One moment of a fusion."""

    lines: tuple[Line, ...]
    worth: Worth
    top_k: int
    skip: bool = False
    """Whether a repeat leaves its rank to the next id."""
    _worths: dict[tuple[int, int], int] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def ranks(self) -> list[dict[Any, int]]:
        """The rank of the first of each id, by arm."""
        ranks: list[dict[Any, int]] = [{} for _ in self.lines]
        for line, ranked in zip(self.lines, ranks, strict=True):
            for position, id_ in enumerate(line.ids, 1):
                ranked.setdefault(id_, len(ranked) + 1 if self.skip else position)
        return ranks

    @cached_property
    def used(self) -> list[int]:
        """How many ranks each arm has used up."""
        return [
            len(ranks if self.skip else line.ids) for ranks, line in zip(self.ranks, self.lines, strict=True)
        ]

    @cached_property
    def table(self) -> dict[Any, dict[int, int]]:
        """What is listed: the ranks of each id by the number of the arm, arms of weight zero left out."""
        table: dict[Any, dict[int, int]] = {}
        for arm, line in enumerate(self.lines):
            if line.weight > 0:
                for id_, rank in self.ranks[arm].items():
                    table.setdefault(id_, {})[arm] = rank
        return table

    @cached_property
    def now(self) -> dict[Any, Place]:
        """The place of each listed id, best first."""
        places = {id_: self.place(ranks) for id_, ranks in self.table.items()}
        return dict(sorted(places.items(), key=lambda item: item[1]))

    @property
    def shown(self) -> list[Any]:
        return [*self.now][: self.top_k]

    def open(self, target: Target) -> list[int]:
        """Return the numbers of the arms that may yet list an id."""
        return [
            arm
            for arm, line in enumerate(self.lines)
            if line.weight > 0
            and (line.running or (line.short and target == "exact"))
            and (line.window is None or self.used[arm] < line.window)
        ]

    def units(self, arm: int, rank: int) -> int:
        """Return what a rank of an arm is worth."""
        if (arm, rank) not in self._worths:
            self._worths[arm, rank] = self.worth(self.lines[arm].weight, rank)
        return self._worths[arm, rank]

    def score(self, ranks: Mapping[int, int]) -> int:
        """Return the score of a document of these ranks, in units."""
        return sum(self.units(arm, rank) for arm, rank in ranks.items())

    def place(self, ranks: Mapping[int, int]) -> Place:
        """Return what a document of these ranks is sorted by."""
        return -nearest_step(self.score(ranks)), min(ranks.items())


def nearest_step(units: int) -> int:
    return (units + STEP // 2) // STEP


# --- every ending -----------------------------------------------------------------------------------------

Ending: TypeAlias = "dict[Any, dict[int, int]]"
"""The ranks of each id by arm, when all is over."""


def endings(state: State, target: Target) -> Iterator[Ending]:
    """Give every ending, up to the names of ids that nobody has seen. All windows must be limited."""
    return _endings(state, state.open(target), state.table, 0)


def _endings(state: State, arms: Sequence[int], table: Ending, fresh: int) -> Iterator[Ending]:
    if not arms:
        yield table
        return
    arm, others = arms[0], arms[1:]
    window = state.lines[arm].window
    if window is None:
        raise ValueError("without a limit there is no end of endings")
    ways = [(table, state.used[arm], fresh)]
    for so_far, rank, unknown in ways:  # which grow in number on the way
        yield from _endings(state, others, so_far, unknown)  # it stops here
        if rank == window:
            continue
        for id_ in [*so_far, Fresh(unknown)]:
            ranks = so_far.get(id_, {})
            if arm not in ranks:
                longer = {**so_far, id_: {**ranks, arm: rank + 1}}
                ways.append((longer, rank + 1, unknown + (id_ == Fresh(unknown))))
        if rank and not state.skip:
            ways.append((so_far, rank + 1, unknown))  # one of its own again


def by_trying(state: State) -> tuple[Truth, dict[Any, int]]:
    """Return what holds in every ending, and no more; and the worst rank of each listed id."""
    now = [*state.now]
    shown = now[: state.top_k]
    upper, best, worst = (dict.fromkeys(now, value) for value in (0, len(now), 0))
    entered: set[Any] = set()
    prefix: dict[Target, int] = {}
    sets: dict[Target, set[int]] = {}
    for target in ("settled", "exact"):
        prefix[target], sets[target] = len(shown), set(range(len(shown) + 1))
        for ending in endings(state, target):
            order = sorted(ending, key=lambda id_: state.place(ending[id_]))
            same = 0
            while same < prefix[target] and order[same] == shown[same]:
                same += 1
            prefix[target] = same
            sets[target] = {size for size in sets[target] if {*order[:size]} == {*shown[:size]}}
            if target == "settled":
                entered.update(order[: state.top_k])
                for rank, id_ in enumerate(order, 1):
                    if id_ in state.table:
                        best[id_], worst[id_] = min(best[id_], rank), max(worst[id_], rank)
                        upper[id_] = max(upper[id_], state.score(ending[id_]))
    truth = Truth(
        settled=prefix["settled"],
        exact=prefix["exact"],
        settled_set=max(sets["settled"]),
        exact_set=max(sets["exact"]),
        contenders=[id_ for id_ in now[state.top_k :] if id_ in entered],
        unseen_possible=any(id_ not in state.table for id_ in entered),
        upper=upper,
        best=best,
    )
    return truth, worst
