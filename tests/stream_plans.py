"""Random fusions for the property tests: what each arm ranks, and how its pages arrive."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import strategies as st
from oracle import Entry, within

from rrf_stream import Accumulator, ArmStatus, FusedHit, Hit, Snapshot, fuse

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping, Sequence

Form = Literal["plain", "hits", "mixed", "keyed", "represented"]
FORMS: tuple[Form, ...] = ("plain", "hits", "mixed", "keyed", "represented")


class Text(str):
    """Text of a type of its own, equal to plain text, as the members of a `StrEnum` are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Text({super().__repr__()})"


#: Equal ids of three types, falsy ids, ids that no sort can compare.
ODD_IDS: tuple[Any, ...] = (
    0,
    0.0,
    False,
    1,
    1.0,
    True,
    "",
    None,
    "0",
    "None",
    (),
    (1, "x"),
    frozenset(),
    2**70,
    b"0",
)
PLAIN_IDS = ("a", "b", "c", "d", "e", "f")
TEXT_IDS = ("a", Text("a"), "b", Text("b"), "c", Text("c"), "d")
WEIGHTS = (0, 0.0, 1, 1.0, 0.5, 2, 0.1, 1 / 3, 1e-9, 3e-27, 1e-28, 1e-300, 5e-324, 1e6, 1e15, 1e200)
RANK_CONSTANTS = (60, 60.0, 1, 0.5, 2.5, 1 / 3, 1e-9, 1000, 2**31, 2**33, 1e18)


@dataclass(frozen=True)
class Plan:
    """A whole fusion: its options, what each arm delivers, and in which pieces it arrives."""

    rankings: dict[str, list[Any]]
    weights: dict[str, float]
    steps: list[tuple[str, int]]
    """The arm that delivers next, and how many results; what is left over comes last, arm by arm."""
    rank_constant: float
    top_k: int
    window: int
    repeats: Literal["consume", "skip"]
    form: Form

    def hit(self, arm: str, position: int) -> Any:
        """Return the object that an arm delivers at a position."""
        id_ = self.rankings[arm][position]
        match self.form:
            case "plain":
                return id_
            case "hits":
                return Hit(id_, score=0.5, item=f"{arm}#{position}")
            case "mixed":
                return id_ if position % 2 else Hit(id_, item=f"{arm}#{position}")
            case "keyed" | "represented":
                return {"id": id_, "at": f"{arm}#{position}"}

    def entry(self, arm: str, position: int) -> Entry:
        """Return the same as the rules see it."""
        id_ = self.rankings[arm][position]
        match self.form:
            case "plain":
                return Entry(id_)
            case "hits":
                return Entry(id_, f"{arm}#{position}", has_item=True)
            case "mixed":
                return Entry(id_) if position % 2 else Entry(id_, f"{arm}#{position}", has_item=True)
            case "keyed" | "represented":
                return Entry(id_, self.hit(arm, position), has_item=True)

    def prefixes(self, counts: Mapping[str, int]) -> dict[str, list[Any]]:
        """Return what the arms have delivered after so many results each, within the window."""
        return {
            arm: [self.hit(arm, position) for position in range(len(entries))]
            for arm, entries in self.entries(counts).items()
        }

    def entries(self, counts: Mapping[str, int]) -> dict[str, list[Entry]]:
        """Return the same as the rules see it."""
        return {
            arm: within(
                [self.entry(arm, position) for position in range(counts[arm])],
                repeats=self.repeats,
                window=self.window,
            )
            for arm in self.rankings
        }

    @property
    def all(self) -> dict[str, int]:
        """How many results each arm has to deliver."""
        return {arm: len(ids) for arm, ids in self.rankings.items()}

    @property
    def representative(self) -> Callable[[list[Any]], Any] | None:
        """Shows all copies at once, so that a wrong one, or a wrong order, is seen."""
        return tuple if self.form == "represented" else None

    @property
    def options(self) -> dict[str, Any]:
        """The options that batch and stream share."""
        return {
            "rank_constant": self.rank_constant,
            "top_k": self.top_k,
            "repeats": self.repeats,
            "key": operator.itemgetter("id") if self.form in {"keyed", "represented"} else None,
            "representative": self.representative,
        }

    def batch(self, counts: Mapping[str, int] | None = None) -> list[FusedHit]:
        """Fuse what has been delivered, all at once."""
        return fuse(self.prefixes(counts or self.all), weights=self.weights, **self.options)

    def accumulator(self) -> Accumulator:
        """Return an empty accumulator for this plan."""
        return Accumulator(self.weights, window=self.window, bounds="off", **self.options)

    def pages(self) -> Iterator[tuple[str, range]]:
        """Give the positions of each page, in order of arrival."""
        delivered = dict.fromkeys(self.rankings, 0)
        for arm, size in [*self.steps, *((arm, len(ids)) for arm, ids in self.rankings.items())]:
            start = delivered[arm]
            delivered[arm] = min(start + size, len(self.rankings[arm]))
            yield arm, range(start, delivered[arm])

    def run(self, accumulator: Accumulator) -> Iterator[dict[str, int]]:
        """Feed the accumulator, and pause after each page with the number of results delivered."""
        counts = dict.fromkeys(self.rankings, 0)
        open_arms = set(self.rankings)
        for arm, positions in self.pages():
            counts[arm] = positions.stop
            if arm in open_arms:
                page = [self.hit(arm, position) for position in positions]
                if not accumulator.add(arm, page):
                    open_arms.remove(arm)
                page.clear()  # a page is the caller's again as soon as it was added
            yield counts

    def final(self) -> Snapshot:
        """Return the last snapshot of a stream that nobody looked at before."""
        accumulator = self.accumulator()
        for _ in self.run(accumulator):
            pass
        return closed(accumulator)


def closed(accumulator: Accumulator) -> Snapshot:
    """Close what is open, and return the last snapshot."""
    for arm in accumulator.rankings():
        accumulator.close(arm, ArmStatus.EXHAUSTED)
    return accumulator.snapshot()


def in_full(hits: Sequence[FusedHit]) -> list[tuple[Any, ...]]:
    """Return all that hits say, down to the bits of scores, the types of ids and the order of arms."""
    return [
        (
            type(hit.id),
            hit.id,
            hit.rank,
            hit.score.hex(),
            hit.normalized.hex(),
            hit.item,
            list(hit.items.items()),
            list(hit.ranks.items()),
            hit.upper,
            hit.best_rank,
            hit.worst_rank,
        )
        for hit in hits
    ]


@st.composite
def plans(draw: st.DrawFn, *, forms: Sequence[Form] = FORMS, ids: Sequence[Any] | None = None) -> Plan:
    """Draw a small plan with many ties, repeats and full windows."""
    pool = draw(st.sampled_from([PLAIN_IDS, ODD_IDS, TEXT_IDS])) if ids is None else ids
    arms = draw(st.lists(st.sampled_from("zyxw"), min_size=1, max_size=4, unique=True))
    weight = st.sampled_from(WEIGHTS) | st.just(1) | st.floats(0, 1e200, allow_subnormal=True)
    return Plan(
        rankings={arm: draw(st.lists(st.sampled_from(pool), max_size=9)) for arm in arms},
        weights={arm: draw(weight) for arm in arms},
        steps=draw(st.lists(st.tuples(st.sampled_from(arms), st.integers(0, 4)), max_size=12)),
        rank_constant=draw(
            st.just(60)
            | st.sampled_from(RANK_CONSTANTS)
            | st.floats(0, 1e12, exclude_min=True, allow_nan=False)
        ),
        top_k=draw(st.integers(1, 4) | st.just(100)),
        window=draw(st.integers(1, 5) | st.just(100)),
        repeats=draw(st.sampled_from(["consume", "skip"])),
        form=draw(st.sampled_from(forms)),
    )


def feed(accumulator: Accumulator, rankings: Mapping[str, Sequence[Any]], chance: random.Random) -> None:
    """Add long rankings, each to its end or that of its window, in random pages of random arms."""
    taken = dict.fromkeys(rankings, 0)
    open_arms = list(rankings)
    while open_arms:
        arm = chance.choice(open_arms)
        page = rankings[arm][taken[arm] : taken[arm] + chance.randrange(1, 400)]
        taken[arm] += len(page)
        if not accumulator.add(arm, page) or taken[arm] == len(rankings[arm]):
            open_arms.remove(arm)
