"""Replays complete rankings as streams, and tells when the top was certain.

Raises AssertionError where a certificate is wrong: what was certain is not what the complete fusion
has, or did not stay certain.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, zip_longest

from rrf_stream import Accumulator, Arm, ArmStatus, Kernel, Outcome, Page, Snapshot, fuse, open_fusion
from rrf_stream.testing import Script

__all__ = ["GOALS", "Goal", "Rankings", "by_turns", "in_full", "moments", "share_of_time"]

Rankings = Mapping[str, list[str]]


@dataclass(frozen=True)
class Goal:
    """What is to be certain: the first `size` hits, in order or as a set."""

    name: str
    size: int
    ordered: bool = True

    @property
    def top_k(self) -> int:
        """How many hits a snapshot must show to tell."""
        return 10 if self.ordered else self.size

    def reached(self, snapshot: Snapshot) -> bool:
        """Return whether it is certain."""
        certain = snapshot.settled if self.ordered else snapshot.settled_set
        return certain is not None and certain >= self.size

    def check(self, ids: Sequence[str], final: Sequence[str]) -> None:
        """Check that the complete fusion has the same hits."""
        ours, theirs = ids[: self.size], final[: self.size]
        assert ours == theirs if self.ordered else set(ours) == set(theirs), f"{self}: {ids}, not {final}"


GOALS = [
    Goal("top 1", 1),
    Goal("set 3", 3, ordered=False),
    Goal("order 3", 3),
    Goal("set 10", 10, ordered=False),
    Goal("order 10", 10),
]


def by_turns(rankings: Rankings) -> list[str]:
    """Return the arms whose results come one after the other, at one pace."""
    rounds = zip_longest(*([arm] * len(ids) for arm, ids in rankings.items()))
    return [arm for one in rounds for arm in one if arm is not None]


def in_full(rankings: Rankings, kernel: Kernel, weights: Mapping[str, float] | None = None) -> list[str]:
    """Return the ten best of the complete fusion."""
    return [hit.id for hit in fuse(rankings, top_k=10, kernel=kernel, weights=weights)]


def moments(
    rankings: Rankings,
    order: Sequence[str],
    *,
    window: int,
    kernel: Kernel,
    weights: Mapping[str, float] | None = None,
) -> list[int]:
    """Return how many results have arrived when each of the goals is certain.

    What is certain stays so: the moment is found by bisection, and that claim is probed at another one.

    Args:
        rankings: The ids of each arm.
        order: From which arm each result comes, in their order of arrival.
        window: How many ranks an arm is read to.
        kernel: What a rank is worth.
        weights: By arm, where they are not 1.
    """
    weighted = {arm: (weights or {}).get(arm, 1.0) for arm in rankings}

    @cache
    def after(count: int, top_k: int) -> Snapshot:
        accumulator = Accumulator(weighted, window=window, kernel=kernel, top_k=top_k, bounds="settled")
        arrived = Counter(order[:count])
        for arm, ids in rankings.items():
            accumulator.add(arm, ids[: arrived[arm]])
            if arrived[arm] == len(ids):
                accumulator.close(arm, ArmStatus.EXHAUSTED)
        return accumulator.snapshot()

    def certain(goal: Goal, count: int) -> bool:
        return goal.reached(after(count, goal.top_k))

    final = in_full(rankings, kernel, weights)
    chance = random.Random(len(order))
    found = []
    for goal in GOALS:
        moment = bisect_left(range(len(order)), x=True, key=partial(certain, goal))
        goal.check(after(moment, goal.top_k).ids, final)
        probe = chance.randrange(len(order))
        assert certain(goal, probe) == (probe >= moment), f"{goal}: certain after {moment}, but {probe}?"
        found.append(moment)
    return found


async def share_of_time(rankings: Rankings, *, factor: int, page: int, kernel: Kernel, goal: Goal) -> float:
    """Return the time until the top is certain, over the time until all is there.

    Args:
        rankings: The ids of each arm; all but one take a second a result, and send each at once.
        factor: How many times longer the other takes, which is drawn at random.
        page: How many results it sends at a time.
        kernel: What a rank is worth.
        goal: What must be certain, in order.
    """
    slow = random.Random(repr(rankings)).choice([*rankings])
    arms = []
    for arm, ids in rankings.items():
        size, pace = (page, factor) if arm == slow else (1, 1)
        pages = [Page(ids[start : start + size]) for start in range(0, len(ids), size)]
        steps = chain.from_iterable((float(len(one) * pace), one) for one in pages)
        arms.append(Arm(arm, Script(*steps), window=max(map(len, rankings.values()))))
    async with open_fusion(arms, kernel=kernel, until="settled", settle=goal.size) as fusion:
        final = await fusion.final()
    goal.check(final.ids, in_full(rankings, kernel))
    everything = max(len(ids) * (factor if arm == slow else 1) for arm, ids in rankings.items())
    assert final.elapsed is not None
    assert final.outcome is Outcome.SETTLED or final.elapsed == everything, f"{final}"
    return final.elapsed / everything
