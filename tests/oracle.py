"""Rank fusion by the book: exact fractions, everything worked out anew for every question.

Written from the rules, not from the library, and for one purpose only: to be obviously right.

- A contribution is weight / (rank constant + rank), floored to whole units of 2**-96; a score is their sum.
- Scores compare as multiples of 2**-64, rounded to the nearest.
- Equal scores go by first sight in batch order: the lowest arm of positive weight that ranked the id, then
  the rank there.
- An arm of weight zero lists nothing and decides nothing; what it said about listed ids is still reported.
- The first of equal ids in one arm counts. A repeat uses up a rank ("consume") or does not ("skip").
- The id and the copy shown are those of the lowest arm that has one, whoever came first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

UNIT = 2**96
STEP = 2**32
"""Units in one step of the score that ids are sorted by."""


@dataclass(frozen=True)
class Entry:
    """One result of an arm as the rules see it: an id, and the copy that came with it if one did."""

    id: Any
    item: Any = None
    has_item: bool = False


@dataclass(frozen=True)
class Expected:
    """One row of the right answer."""

    id: Any
    rank: int
    units: int
    best_possible: Fraction
    item: Any
    items: dict[str, Any]
    ranks: dict[str, int]

    @property
    def score(self) -> float:
        return self.units / UNIT


def contribution(weight: float, rank_constant: float, rank: int) -> int:
    return math.floor(UNIT * Fraction(weight) / (Fraction(rank_constant) + rank))


def nearest_step(units: int) -> int:
    return math.floor(Fraction(units, STEP) + Fraction(1, 2))


def ranked(entries: Sequence[Entry], *, repeats: str, window: int | None) -> list[tuple[int, Entry]]:
    """Return what counts of one arm: (rank, entry) of each first occurrence, as deep as the window."""
    counted: list[tuple[int, Entry]] = []
    for position, entry in enumerate(entries, 1):
        new = all(entry.id != other.id for _, other in counted)
        rank = position if repeats == "consume" else len(counted) + 1
        if new and (window is None or rank <= window):
            counted.append((rank, entry))
    return counted


def within(entries: Sequence[Entry], *, repeats: str, window: int | None) -> list[Entry]:
    """Return the results that an arm may deliver before its window is full."""
    read: list[Entry] = []
    for entry in entries:
        used = len(read) if repeats == "consume" else len(ranked(read, repeats=repeats, window=None))
        if window is not None and used >= window:
            break
        read.append(entry)
    return read


def expected_fusion(
    rankings: Mapping[str, Sequence[Entry]],
    *,
    weights: Mapping[str, float],
    rank_constant: float = 60,
    top_k: int | None = None,
    repeats: str = "consume",
    window: int | None = None,
    representative: Callable[[list[Any]], Any] | None = None,
) -> list[Expected]:
    """Return the rows that the rules demand for these rankings."""
    counted = {arm: ranked(entries, repeats=repeats, window=window) for arm, entries in rankings.items()}
    ids: list[Any] = []
    for arm in rankings:
        if weights[arm] > 0:
            ids += [entry.id for _, entry in counted[arm] if entry.id not in ids]

    def places(id_: Any) -> dict[str, tuple[int, Entry]]:
        return {arm: (rank, entry) for arm in rankings for rank, entry in counted[arm] if entry.id == id_}

    def units(id_: Any) -> int:
        return sum(contribution(weights[arm], rank_constant, rank) for arm, (rank, _) in places(id_).items())

    def first_seen(id_: Any) -> tuple[int, int]:
        return min(
            (index, places(id_)[arm][0])
            for index, arm in enumerate(rankings)
            if weights[arm] > 0 and arm in places(id_)
        )

    def copies(id_: Any) -> dict[str, list[Entry]]:
        return {
            arm: [
                entry
                for entry in within(entries, repeats=repeats, window=window)
                if entry.id == id_ and entry.has_item
            ]
            for arm, entries in rankings.items()
        }

    def shown(id_: Any) -> Any:
        found = [entry.item for entries in copies(id_).values() for entry in entries]
        if representative is not None and found:
            return representative(found)
        return found[0] if found else None

    order = sorted(ids, key=lambda id_: (-nearest_step(units(id_)), first_seen(id_)))
    best_possible = sum(
        (Fraction(weight) / (Fraction(rank_constant) + 1) for weight in weights.values()), Fraction(0)
    )
    rows = []
    for rank, id_ in enumerate(order[:top_k], 1):
        seen = places(id_)
        rows.append(
            Expected(
                id=next(entry.id for _, entry in seen.values()),
                rank=rank,
                units=units(id_),
                best_possible=best_possible,
                item=shown(id_),
                items={arm: entries[0].item for arm, entries in copies(id_).items() if entries},
                ranks={arm: place for arm, (place, _) in seen.items()},
            )
        )
    return rows
