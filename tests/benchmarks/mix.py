"""Queries drawn from a seeded mix of arms, good and bad, that say what must come of them.

A query goes to one of a few services, each with arms of its own, as the queries of a program do;
what each of its arms does this time is drawn anew.

Every arm delivers a known list of ids in a known order, however it misbehaves otherwise. So
the number of results that a snapshot reports for each arm is enough to tell what it must show.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from rrf_stream import Arm, FusedHit, FusionOptions, Page, Snapshot, fuse, in_thread
from rrf_stream.testing import Script

__all__ = ["BLOCKS", "ArmPlan", "Query", "Source", "blocking", "draw", "is_right"]

POOL = 400
BLOCKS = "blocks in a thread"
SIZES = (3, 5, 8, 12, 16, 20)
"""How many arms each service has."""
READERS = ("final", "every", "slow", "breaks", "drops", "stops", "raises", "fuse_arms")
"""What readers do: want the final snapshot only; every one; every one, slowly; leave after the first,
with and without a context; call `stop()`; raise; use `fuse_arms`."""


class Source(Script):
    """A scripted source that counts those of its kind which nobody has closed."""

    open = 0

    def __init__(self, *steps: Any, **options: Any) -> None:
        super().__init__(*steps, **options)
        Source.open += 1

    async def aclose(self) -> None:
        """Clean up, counted once."""
        if self.closed_by is None:
            Source.open -= 1
        await super().aclose()


@dataclass(frozen=True)
class ArmPlan:
    """One arm: what it is, what it delivers, and the times it keeps."""

    name: str
    kind: str
    first: int
    stride: int
    distinct: int
    """After how many ids it repeats itself."""
    delay: float
    """Seconds: a few milliseconds."""
    budget: float
    """Seconds that the query has; some arms aim at it."""
    options: dict[str, Any] = field(default_factory=dict)

    def ids(self, start: int, stop: int) -> list[str]:
        """Return the ids from one position in its ranking up to another."""
        return [f"doc{(self.first + at % self.distinct * self.stride) % POOL}" for at in range(start, stop)]

    def source(self) -> Any:
        """Return a new source of this arm."""
        return KINDS[self.kind](self)

    def arm(self, *, plain: bool) -> Arm:
        """Return the arm, with the options it was drawn with or without any."""
        return Arm(self.name, self.source(), **({} if plain else self.options))


def spaced(arm: ArmPlan, count: int, delay: float) -> list[Any]:
    """Return steps that deliver one by one, and wait between."""
    return [step for id_ in arm.ids(0, count) for step in (id_, delay)]


async def later(arm: ArmPlan) -> list[str]:
    """Return everything at once, after a while."""
    steps = Source(arm.delay, Page(arm.ids(0, 50)))
    try:
        return [id_ for page in [await anext(steps)] for id_ in page]
    finally:
        await steps.aclose()


def broken() -> None:
    """Raise, as a connection does that is gone."""
    raise OSError("gone")


def blocking(arm: ArmPlan) -> Iterator[str]:
    """Yield a few results, keep a thread for a while, and yield more."""
    yield from arm.ids(0, 5)
    time.sleep(arm.delay * 10)
    yield from arm.ids(5, 10)


GOOD: dict[str, Callable[[ArmPlan], Any]] = {
    "is there at once": lambda arm: arm.ids(0, 50),
    "is a generator, and so read in a thread": lambda arm: iter(arm.ids(0, 50)),
    "answers later": later,
    "answers in one page": lambda arm: Source(arm.delay, Page(arm.ids(0, 50))),
    "answers in pages": lambda arm: Source(
        *(step for at in range(0, 50, 10) for step in (arm.delay, Page(arm.ids(at, at + 10))))
    ),
    "streams": lambda arm: Source(*spaced(arm, 20, 0.0)),
    "streams slowly": lambda arm: Source(*spaced(arm, 8, arm.delay)),
    "has nothing": lambda arm: Source(arm.delay),
}
BAD: dict[str, Callable[[ArmPlan], Any]] = {
    "hangs": lambda _: Source(hang=True),
    "stalls": lambda arm: Source(*arm.ids(0, 5), hang=True),
    "swallows its cancellation": lambda arm: Source(
        *arm.ids(0, 5), arm.budget * 2, *arm.ids(5, 10), swallow=20
    ),
    "cleans up slowly": lambda arm: Source(*arm.ids(0, 5), hang=True, cleanup=arm.delay * 10),
    "shields its clean-up": lambda arm: Source(
        *arm.ids(0, 5), hang=True, cleanup=arm.delay * 10, shield=True
    ),
    "ends with a slow clean-up": lambda arm: Source(*arm.ids(0, 5), cleanup=arm.delay * 10, shield=True),
    "raises at once": lambda _: Source(fail=OSError("down")),
    "raises late": lambda arm: Source(*arm.ids(0, 5), arm.delay * 4, fail=OSError("down")),
    "raises in its clean-up": lambda arm: Source(*arm.ids(0, 5), arm.delay, on_close=broken),
    "raises when it is cancelled": lambda arm: Source(*arm.ids(0, 5), hang=True, on_close=broken),
    "ends around the deadline": lambda arm: Source(
        *arm.ids(0, 5), arm.budget + arm.delay - 0.006, *arm.ids(5, 9)
    ),
    "delivers for ever": lambda arm: Source(*spaced(arm, 200, 0.003), hang=True),
    "never suspends": lambda arm: Source(*arm.ids(0, 2000)),
    BLOCKS: lambda arm: in_thread(partial(blocking, arm)),
    "sends what is no id": lambda arm: Source(*arm.ids(0, 5), ["no", "id"], *arm.ids(5, 9)),
}
KINDS = GOOD | BAD


@dataclass(frozen=True)
class Query:
    """One query: its arms, its options, and what its reader does."""

    number: int
    arms: list[ArmPlan]
    options: FusionOptions
    reader: str

    @property
    def budget(self) -> float:
        """Seconds that it has."""
        return self.options["timeout"] or 0.0

    def fused(self, rankings: dict[str, list[str]]) -> list[FusedHit]:
        """Return what a snapshot must show of these rankings."""
        weights = {arm.name: arm.options["weight"] for arm in self.arms}
        options = self.options
        return fuse(rankings, weights=weights, top_k=options["top_k"], repeats=options["repeats"])


def service(seed: int, number: int) -> list[dict[str, Any]]:
    """Return the options of the arms of one service: the same for the same numbers, on any machine."""
    chance = random.Random(f"{seed}/service {number}")
    return [
        {
            "weight": chance.choice([1.0, 1.0, 0.5, 2.0, 0.0]),
            "window": chance.choice([100, 100, 10, None]),
            "timeout": chance.choice([None, None, None, 0.05]),
            "idle_timeout": chance.choice([None, None, None, 0.02]),
            "required": chance.random() < 0.02,
        }
        for _ in range(SIZES[number])
    ]


def draw(seed: int, number: int) -> Query:
    """Return a query: the same for the same numbers, on any machine."""
    chance = random.Random(f"{seed}/{number}")
    budget = chance.choice([0.2, 0.4, 0.8])
    arms = [
        ArmPlan(
            name=f"arm {at}",
            kind=chance.choice(list(chance.choice([GOOD, BAD]))),
            first=chance.randrange(POOL),
            stride=chance.choice([1, 3, 7, 9]),
            distinct=chance.choice([POOL, POOL, POOL, 7]),
            delay=chance.uniform(0.002, 0.01),
            budget=budget,
            options=options,
        )
        for at, options in enumerate(service(seed, chance.randrange(len(SIZES))))
    ]
    repeats: list[Literal["consume", "skip"]] = ["consume", "skip"]
    options: FusionOptions = {
        "timeout": budget,
        "top_k": chance.choice([3, 10, 50]),
        "repeats": chance.choice(repeats),
        "min_interval": chance.choice([0.0, 0.0, 0.005]),
        "quorum": chance.choice([None, None, None, 0.8]),
        "patience": chance.choice([0.0, 0.005]),
        "grace": chance.choice([0.0, 0.005, 0.05]),
    }
    return Query(number, arms, options, chance.choice(READERS))


def is_right(query: Query, snapshot: Snapshot, rankings: dict[str, list[str]] | None = None) -> bool:
    """Return whether a snapshot shows the fusion of what it says has arrived.

    Args:
        query: What was asked.
        snapshot: What came of it.
        rankings: What the fusion said at that moment that it had; None if it cannot be asked.
    """
    arrived = {arm.name: arm.ids(0, snapshot.coverage[arm.name].received) for arm in query.arms}
    shown = rows(snapshot.hits)
    return shown == rows(query.fused(arrived)) and (
        rankings is None or (shown == rows(query.fused(rankings)) and is_in_order(rankings, arrived))
    )


def is_in_order(rankings: dict[str, list[str]], arrived: dict[str, list[str]]) -> bool:
    """Return whether rankings are what has arrived, with repeats or without."""
    return all(ids in (arrived[name], list(dict.fromkeys(arrived[name]))) for name, ids in rankings.items())


def rows(hits: list[FusedHit] | tuple[FusedHit, ...]) -> list[tuple[Any, ...]]:
    """Return what must be the same, bit for bit."""
    return [(hit.id, hit.rank, hit.score.hex(), dict(hit.ranks)) for hit in hits]
