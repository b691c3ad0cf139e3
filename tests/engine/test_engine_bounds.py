"""Certainty while arms run, in virtual time: promises are kept, and `until="settled"` ends in time."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from bounds_watch import Watch, exact_in
from engine_kit import read, statuses, virtual_time

from rrf_stream import Arm, ArmStatus, Outcome, Page, Snapshot, fuse, fuse_arms, open_fusion
from rrf_stream.testing import script

pytestmark = [pytest.mark.anyio, virtual_time]

TICK = 2.0**-8
"""Seconds; sums of it are exact."""


@dataclass(frozen=True)
class Scene:
    """Arms that can be played again and again, and the options they are fused with."""

    steps: dict[str, list[Any]]
    windows: dict[str, int]
    weights: dict[str, float]
    top_k: int
    rank_constant: float

    @property
    def options(self) -> dict[str, Any]:
        """How they are fused."""
        return {"top_k": self.top_k, "rank_constant": self.rank_constant}

    def arms(self) -> list[Arm]:
        """Return the arms, with sources that have not been read."""
        return [
            Arm(name, script(*steps), window=self.windows[name], weight=self.weights[name])
            for name, steps in self.steps.items()
        ]

    def in_full(self) -> list[Any]:
        """Return the answer if every arm has the time it wants."""
        rankings = {
            name: [id_ for step in steps if type(step) is Page for id_ in step][: self.windows[name]]
            for name, steps in self.steps.items()
        }
        hits = fuse(rankings, weights=self.weights, **self.options)
        return [hit.id for hit in hits]


def scene(seed: int) -> Scene:
    """Return two to four arms that agree more or less, of which no two ever do anything at the same time."""
    random = Random(seed)
    names = "pqrs"[: random.randint(2, 4)]
    noise = random.choice((0.3, 1, 5))
    pace = {name: random.choice((1, 1, 4, 30)) for name in names}
    steps: dict[str, list[Any]] = {}
    for number, name in enumerate(names, 1):
        steps[name] = [number * TICK / 16]
        ids = sorted(range(random.choice((5, 12, 20))), key=lambda id_: random.gauss(id_, noise))
        while ids:
            size = random.randint(1, 3)
            steps[name] += [pace[name] * random.randint(1, 3) * TICK, Page(ids[:size])]
            del ids[:size]
        steps[name].append(TICK)
    return Scene(
        steps=steps,
        windows={name: random.choice((5, 12, 100)) for name in names},
        weights={name: random.choice((1, 1, 1, 0.5, 0)) for name in names},
        top_k=random.choice((1, 3, 5, 10)),
        rank_constant=random.choice((60, 10, 1)),
    )


@pytest.mark.parametrize("seed", range(25))
async def test_no_promise_of_a_stream_is_broken(seed: int) -> None:
    """What is settled is so in the answer, and what is exact would be so without the deadline."""
    played = scene(seed)
    in_full = played.in_full()
    for timeout in (None, 40 * TICK):
        fusion = open_fusion(played.arms(), **played.options, bounds="ranks", timeout=timeout)
        watch = Watch()
        listed: set[Any] = set()
        async with fusion:
            async for snapshot in fusion:
                for name, ids in fusion.rankings().items():
                    listed.update(ids if played.weights[name] else ())
                watch.see(snapshot, listed)
                exact_in(snapshot, in_full)
        final = watch.snapshots[-1]
        assert final.final
        if timeout is None:
            assert final.ids == in_full
            assert final.exact == len(in_full)


def is_certain(snapshot: Snapshot, wanted: int) -> bool:
    """Return whether so many positions are settled, or nothing that lists anything runs."""
    runs = any(report.weight and report.status.is_open for report in snapshot.coverage)
    return (snapshot.settled or 0) >= wanted or not runs


@pytest.mark.parametrize("seed", range(40))
async def test_settled_ends_as_soon_as_it_can_with_the_answer_of_waiting(seed: int) -> None:
    """The first n ids are those of waiting for everything, and it ends as soon as they are certain.

    What still runs then is stopped.
    """
    played = scene(seed)
    everything = await read(open_fusion(played.arms(), **played.options))
    wanted = Random(seed).randint(1, played.top_k)
    settle: dict[str, Any] = {} if wanted == played.top_k else {"settle": wanted}
    answer = await fuse_arms(played.arms(), **played.options, until="settled", **settle)
    certain = next(s for s in everything if is_certain(s, wanted))
    assert answer.ids[:wanted] == everything[-1].ids[:wanted]
    assert answer.elapsed == certain.elapsed
    assert answer.outcome is (Outcome.COMPLETE if certain.final else Outcome.SETTLED)
    assert statuses(answer) == {
        name: ArmStatus.STOPPED if status.is_open else status for name, status in statuses(certain).items()
    }
    assert answer.settled == len(answer.hits)
    exact_in(answer, played.in_full())
    assert (answer.exact or 0) >= min(wanted, len(answer.hits))


async def test_a_few_of_many_scenes_end_early() -> None:
    """The claim above is not empty: fusions end as settled, long before everything has arrived."""
    early = 0
    for seed in range(40):
        played = scene(seed)
        answer = await fuse_arms(played.arms(), **played.options, until="settled", settle=1)
        early += answer.outcome is Outcome.SETTLED
    assert early >= 15


async def test_a_reader_sees_the_settled_end() -> None:
    """At 2 s two arms agree on their first ids, which the third, of little weight, cannot change."""
    arms = [
        Arm("p", script("a", "b", "c", 1.0)),
        Arm("q", script("a", 2.0, "b", "d", 4.0)),
        Arm("slow", script(3.0, "c", hang=True), weight=0.01, window=10),
    ]
    snapshots = await read(open_fusion(arms, until="settled", settle=2, rank_constant=1, timeout=60))
    final = snapshots[-1]
    assert (final.outcome, final.elapsed, final.ids[:2]) == (Outcome.SETTLED, 2, ["a", "b"])
    assert statuses(final) == {"p": "exhausted", "q": "stopped", "slow": "stopped"}
    assert [snapshot.final for snapshot in snapshots].count(True) == 1
