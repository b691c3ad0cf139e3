"""Real rankings, replayed: six runs of the Robust track of TREC 2003, in random orders of arrival."""

from __future__ import annotations

import gzip
import os
from collections import defaultdict
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from bounds_watch import Watch, exact_in

from rrf_stream import Accumulator, ArmStatus, fuse

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(os.environ.get("RRF_STREAM_DATA") or Path(__file__).parents[2] / "shared" / "data")
RUNS = ("InexpC2", "THUIRr0301", "aplrob03a", "uic0301", "UIUC03Rd1", "rutcor03100")
WINDOW = 100

pytestmark = pytest.mark.skipif(
    not (DATA / "robust03").is_dir(),
    reason="needs the runs of TREC 2003, in ../shared/data/robust03 or the folder that RRF_STREAM_DATA names",
)


@cache
def topics(run: str) -> dict[str, list[str]]:
    """Return what a run ranks for each topic, as deep as the window; the order of lines is the rank."""
    ranked = defaultdict(list)
    with gzip.open(DATA / "robust03" / f"{run}.d200.gz", "rt", encoding="ascii") as lines:
        for line in lines:
            topic, _, document, *_ = line.split()
            ranked[topic].append(document)
    return {topic: documents[:WINDOW] for topic, documents in ranked.items()}


def arrivals(rankings: dict[str, list[str]], silent: str, random: Random) -> Iterator[tuple[str, list[str]]]:
    """Give pages of the arms in random order and at random speeds; the silent arm comes after all others."""
    speeds = {arm: random.choice((1, 1, 3, 10)) for arm in rankings}
    left = {arm: iter(ids) for arm, ids in rankings.items()}
    while left:
        arms = [arm for arm in left if arm != silent] or [silent]
        arm = random.choices(arms, [speeds[arm] for arm in arms])[0]
        page = [*islice(left[arm], random.choice((1, 10, 25, 50)))]
        if page:
            yield arm, page
        else:
            del left[arm]


@pytest.mark.parametrize(
    "options", [{}, {"rank_constant": 10}, {"rank_constant": 1}], ids=["k=60", "k=10", "k=1"]
)
@pytest.mark.parametrize("lost", [False, True], ids=["late", "lost"])
def test_no_promise_about_real_rankings_is_broken(options: dict[str, Any], lost: bool) -> None:  # noqa: FBT001
    """One hundred topics, two to five runs each, one of them silent until the others are complete.

    Then it delivers late, or is lost: cut off at the deadline, perhaps after a few results.
    """
    random = Random(repr((options, lost)))
    settled_early = exact_early = checked = 0
    for topic in topics(RUNS[0]):
        arms = random.sample(RUNS, random.choice((2, 3, 3, 4, 5)))
        rankings = {arm: topics(arm)[topic] for arm in arms}
        in_full = [hit.id for hit in fuse(rankings, top_k=10, **options)]
        silent = random.choice(arms)
        accumulator = Accumulator(dict.fromkeys(arms, 1.0), window=WINDOW, bounds="ranks", **options)
        watch = Watch()
        for arm, page in arrivals(rankings, silent, random):
            if lost and arm == silent and random.random() < 0.5:
                accumulator.close(silent, ArmStatus.DEADLINE)
            else:
                accumulator.add(arm, page)
            snapshot = accumulator.snapshot()
            watch.see(snapshot, {id_ for ids in accumulator.rankings().values() for id_ in ids})
            exact_in(snapshot, in_full)
            checked += 1
            if snapshot.final:
                break
        final = watch.snapshots[-1]
        assert final.final
        assert lost or final.ids == in_full
        settled_early += watch.promised > 0
        exact_early += bool(final.exact)
    assert checked > 1000
    assert settled_early > 10
