"""What snapshots say of the future against the worst ending for each pair of ids, in states of any size."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from bounds_oracle import UNIT
from bounds_pairs import blocking, by_pairs, theta, worst_ranks
from bounds_states import NAMES, attacked, large, right, says

if TYPE_CHECKING:
    from bounds_oracle import State

    from rrf_stream import Snapshot


@pytest.mark.parametrize("seed", range(20))
def test_ten_thousand_states_say_what_the_worst_ending_leaves(seed: int) -> None:
    """Up to six arms and hundreds of ids: each seed judges 500 snapshots of whole streams."""
    random = Random(seed)
    judged = 0
    while judged < 500:
        late = random.random() < 0.5  # what is outside of a snapshot is found when asked for, perhaps later
        looks = []
        for accumulator, state in large(random).run("settled"):
            looks.append((accumulator.snapshot(), state))
            if not late:
                judge(*looks[-1])
        for snapshot, state in looks:
            judge(snapshot, state)
        judged += len(looks)


def judge(snapshot: Snapshot, state: State) -> None:
    """Assert that a snapshot says what is so in a state."""
    assert snapshot.ids == state.shown
    assert says(snapshot) == right(by_pairs(state))
    assert snapshot.theta == pytest.approx(theta(state), rel=1e-12)
    gaining, passing = ({NAMES[arm] for arm in arms} for arms in blocking(state))
    blocked_by = snapshot.blocking_arms or ()
    assert gaining <= {*blocked_by} <= passing
    assert [*blocked_by] == sorted(blocked_by)


@pytest.mark.parametrize("seed", range(10))
def test_ranks_of_large_states_lie_within_their_intervals(seed: int) -> None:
    """Also if rivals get all that is left: the upper score and the best rank are exact, the worst is safe.

    It is no worse than rank by rank bookkeeping allows, and exact if one arm is open.
    """
    random = Random(seed)
    for _ in range(8):
        for accumulator, state in large(random).run("ranks"):
            snapshot = accumulator.snapshot()
            truth = by_pairs(state)
            assert says(snapshot) == right(truth)
            assert [hit.upper for hit in snapshot.hits] == [truth.upper[id_] / UNIT for id_ in snapshot.ids]
            assert [hit.best_rank for hit in snapshot.hits] == [truth.best[id_] for id_ in snapshot.ids]
            hits = random.sample(snapshot.hits, min(3, len(snapshot.hits)))
            limits = worst_ranks(state, [hit.id for hit in hits])
            for hit in hits:
                worst, limit = hit.worst_rank, limits[hit.id]
                if limit is not None:
                    assert worst is not None
                    assert hit.rank <= worst <= limit
                    assert worst == limit or len(state.open("settled")) > 1
                for ending in attacked(state, hit.id, random):
                    after = [*ending.now].index(hit.id) + 1
                    assert truth.best[hit.id] <= after
                    assert worst is None or after <= worst
                    assert ending.shown[: truth.settled] == snapshot.ids[: truth.settled]
