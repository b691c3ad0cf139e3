"""What can still change, by the worst ending for each pair of ids: the oracle of large states.

Beside any two ids there is one ending that is the worst for the one: the other comes next in every open arm
that has not ranked it, and the one appears nowhere else. The tests hold all this against `by_trying`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from bounds_oracle import NOWHERE, STEP, Place, State, Target, Truth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Rivals:
    """The best place that each id can come to, if all open arms rank it next and do nothing else."""

    state: State
    target: Target

    @cached_property
    def next(self) -> dict[int, int]:
        """The next rank of each open arm."""
        return {arm: self.state.used[arm] + 1 for arm in self.state.open(self.target)}

    @cached_property
    def ranks(self) -> dict[Any, dict[int, int]]:
        """The ranks that each listed id has then."""
        return {id_: self.next | ranks for id_, ranks in self.state.table.items()}

    @cached_property
    def places(self) -> dict[Any, Place]:
        """The place of each listed id then, in the order of now."""
        return {id_: self.state.place(self.ranks[id_]) for id_ in self.state.now}

    @cached_property
    def unseen(self) -> Place:
        """The same of an id that nobody has seen."""
        return self.state.place(self.next) if self.next else NOWHERE

    @cached_property
    def best_behind(self) -> list[Place]:
        """For each number of leading ids, the best place that any other id can come to."""
        return [*accumulate([self.unseen, *reversed(self.places.values())], min)][::-1]

    @cached_property
    def safe(self) -> list[bool]:
        """For each position shown, whether its id stays ahead of all ids that are behind it."""
        places = self.state.now.values()
        return [place < rival for place, rival in zip(places, self.best_behind[1:], strict=True)][
            : self.state.top_k
        ]

    @property
    def prefix(self) -> int:
        """How many leading positions are certain."""
        return [*self.safe, False].index(False)

    @property
    def set(self) -> int:
        """The size of the largest leading set that is certain."""
        return max((size for size, safe in enumerate(self.safe, 1) if safe), default=0)

    def best_rank(self, place: Place) -> int:
        """Return the rank of an id that comes to this place while all others stay where they are."""
        return 1 + bisect_left([*self.state.now.values()], place)


def by_pairs(state: State) -> Truth:
    """Return what `by_trying` does, of states of any size."""
    settled, exact = Rivals(state, "settled"), Rivals(state, "exact")
    best = {id_: settled.best_rank(place) for id_, place in settled.places.items()}
    return Truth(
        settled=settled.prefix,
        exact=exact.prefix,
        settled_set=settled.set,
        exact_set=exact.set,
        contenders=[id_ for id_ in [*best][state.top_k :] if best[id_] <= state.top_k],
        unseen_possible=settled.unseen != NOWHERE and settled.best_rank(settled.unseen) <= state.top_k,
        upper={id_: state.score(ranks) for id_, ranks in settled.ranks.items()},
        best=best,
    )


def blocking(state: State) -> tuple[set[int], set[int]]:
    """Return the arms through which an id may gain and pass the first position that is not settled.

    And those through which it may pass at all: by the tie rule a rank that is worth nothing can do that.
    A position that is still empty waits for every open arm; what is beyond the top waits for none.
    """
    rivals = Rivals(state, "settled")
    if rivals.prefix == len(state.now):
        arms = {*rivals.next} if rivals.prefix < state.top_k else set()
        return arms, arms
    if rivals.prefix == state.top_k:
        return set(), set()
    id_, *behind = [*state.now][rivals.prefix :]
    place = state.now[id_]
    lifted = [{*rivals.next} - {*state.table[other]} for other in behind if rivals.places[other] < place]
    if rivals.unseen < place:
        lifted.append({*rivals.next})
    arms = {*chain(*lifted)}
    return {arm for arm in arms if state.units(arm, rivals.next[arm]) > 0}, arms


def theta(state: State) -> float:
    """Return the highest score that anything outside the top can reach, over the score of the last in it.

    Nothing that can score is 0 of anything.
    """
    rivals = Rivals(state, "settled")
    outside = [rivals.next, *(rivals.ranks[id_] for id_ in [*state.now][state.top_k :])]
    last = state.score(state.table[state.shown[-1]]) if state.shown else 0
    highest = max(map(state.score, outside))
    if not highest:
        return 0.0
    return highest / last if last else math.inf


# --- worst ranks ------------------------------------------------------------------------------------------

DEEPEST = 2000
"""How far an arm without a limit is looked into."""


def worst_ranks(state: State, ids: Iterable[Any]) -> dict[Any, int | None]:
    """Return the ranks that documents cannot fall below, as each unread rank goes to one document only.

    That of a document is its rank if all pass it that can, as far as there are ranks for them. Exact if one
    arm is open. None if it cannot be told because an arm has no limit.
    """
    rivals = Rivals(state, "settled")
    places, now = rivals.places, [*state.now]
    ranks_left = {
        arm: range(rank, 1 + (state.lines[arm].window or DEEPEST)) for arm, rank in rivals.next.items()
    }
    endless = [state.units(arm, DEEPEST) for arm in ranks_left if state.lines[arm].window is None]
    slots = sorted(state.units(arm, rank) for arm, ranks in ranks_left.items() for rank in ranks)

    def needs(ranks: Mapping[int, int], place: Place, own: Place) -> tuple[int, int]:
        """Return what a rival must gain to pass, and how many ranks are worth enough to help it."""
        least = -own[0] if place[1] < own[1] else 1 - own[0]
        gain = max(0, least * STEP - STEP // 2 - state.score(ranks))
        arms = len(rivals.next.keys() - ranks)
        return gain, len(slots) - bisect_left(slots, -(-gain // arms))

    worst: dict[Any, int | None] = {}
    for id_ in ids:
        own, ahead = state.now[id_], now.index(id_)
        behind = [other for other in now[ahead + 1 :] if places[other] < own]
        pairs = [needs(state.table[other], places[other], own) for other in behind]
        told = True
        if rivals.unseen < own:
            gain, room = needs({}, rivals.unseen, own)
            pairs += [(gain, room)] * room
            told = all(units * len(rivals.next) < gain for units in endless)
        by_slot = min(
            (room + sum(other > room for _, other in pairs) for room in {0, *(room for _, room in pairs)}),
            default=0,
        )
        gains = sorted(gain for gain, _ in pairs)
        by_mass = len(gains) if endless else sum(total <= sum(slots) for total in accumulate(gains))
        worst[id_] = 1 + ahead + min(by_slot, by_mass) if told else None
    return worst
