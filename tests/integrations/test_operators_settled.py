"""`settled_hits`: every hit once, in order, no sooner and no later than its position is certain."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from aiostream import StreamEmpty, pipe, stream
from bounds_states import large
from hypothesis import given, settings
from hypothesis import strategies as st
from operators_kit import items_of

from rrf_stream import Arm, Outcome, open_fusion
from rrf_stream.errors import ArmError
from rrf_stream.operators import fuse, settled_hits
from rrf_stream.testing import VIRTUAL_BACKENDS, assert_no_leaks, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from rrf_stream import FusedHit, Snapshot

pytestmark = pytest.mark.usefixtures("no_hang", "untouched")


def run(main: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine function in virtual time, and look for what it has left."""
    backend, options = VIRTUAL_BACKENDS["asyncio"]()

    async def all_of_it() -> Any:
        result = await main()
        await assert_no_leaks(within=0)
        return result

    return anyio.run(all_of_it, backend=backend, backend_options=options)


def seen(hits: list[FusedHit] | tuple[FusedHit, ...]) -> list[tuple[Any, int]]:
    return [(hit.id, hit.rank) for hit in hits]


# --- the promise ------------------------------------------------------------------------------------------


def snapshots_of(seed: int) -> list[Snapshot]:
    """Return those of a random fusion, up to the final one."""
    every = [accumulator.snapshot() for accumulator, _ in large(Random(seed)).run("settled")]
    last = next(place for place, snapshot in enumerate(every) if snapshot.final)
    return every[: last + 1]


def given_after(snapshots: list[Snapshot]) -> list[list[FusedHit]]:
    """Return the hits that have been given when the next snapshot is asked for."""
    hits: list[FusedHit] = []
    after: list[list[FusedHit]] = []

    async def one_by_one() -> AsyncIterator[Snapshot]:
        for snapshot in snapshots:
            yield snapshot
            after.append([*hits])

    async def read() -> None:
        async with settled_hits(one_by_one()).stream() as streamer:
            async for hit in streamer:
                hits.append(hit)  # noqa: PERF401 - it is looked at while it grows

    asyncio.run(read())
    return after


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_hits_come_once_in_order_and_as_soon_as_they_are_certain(seed: int) -> None:
    """After each snapshot exactly its settled positions have been given, and they are those of the end."""
    snapshots = snapshots_of(seed)
    final = snapshots[-1]
    for snapshot, hits in zip(snapshots, given_after(snapshots), strict=True):
        assert seen(hits) == seen(final.hits)[: snapshot.settled]


def test_most_fusions_give_hits_before_their_end() -> None:
    """The claim above is not empty."""
    early = 0
    for seed in range(50):
        early += any(given_after(snapshots_of(seed))[:-1])
    assert early > 25


ENDS: list[dict[str, Any]] = [{}, {}, {"hang": True}, {"fail": OSError("down")}]


@st.composite
def scripts(draw: st.DrawFn) -> dict[str, tuple[list[Any], dict[str, Any]]]:
    """Draw what some arms do."""
    wait = st.sampled_from([0.0, 0.01, 0.05, 0.3])
    ids = st.permutations("abcdefg").flatmap(lambda all_: st.integers(0, 7).map(lambda count: all_[:count]))
    return {
        name: ([step for id_ in draw(ids) for step in (draw(wait), id_)], draw(st.sampled_from(ENDS)))
        for name in draw(st.sampled_from(["pq", "pqr"]))
    }


@settings(max_examples=100, deadline=None)
@given(arms=scripts(), timeout=st.sampled_from([0.03, 0.4, 5.0]), pause=st.sampled_from([0.0, 0.02]))
def test_whatever_the_arms_do_the_hits_are_those_of_the_final_snapshot(
    arms: dict[str, tuple[list[Any], dict[str, Any]]], timeout: float, pause: float
) -> None:
    """Arms that are late, fail or hang, and readers that are slow, change when hits come, and no position."""
    snapshots: list[Snapshot] = []

    async def main() -> list[FusedHit]:
        sources = {name: script(*steps, **end) for name, (steps, end) in arms.items()}
        xs: Any = fuse(sources, top_k=4, timeout=timeout) | pipe.action(snapshots.append)
        return await items_of(xs | settled_hits.pipe() | pipe.spaceout(pause))

    assert seen(run(main)) == seen(snapshots[-1].hits)
    assert snapshots[-1].final


# --- the edges --------------------------------------------------------------------------------------------


def arms() -> dict[str, Any]:
    """Return two arms of which the first is certain after 0.1 s to be best, and the others after 0.4 s."""
    return {"p": script("a", "b", 0.1, "c", 0.3), "q": script(0.1, "a", 0.3, "d")}


def has_settled(snapshot: Any) -> bool:
    return bool(snapshot.settled)


def times(**options: Any) -> list[tuple[Any, float]]:
    """Return when which hit comes."""

    async def main() -> list[tuple[Any, float]]:
        loop = asyncio.get_running_loop()
        hits: list[tuple[Any, float]] = []
        async with (fuse(arms(), **options) | settled_hits.pipe()).stream() as streamer:
            async for hit in streamer:
                hits.append((hit.id, round(loop.time(), 3)))  # noqa: PERF401 - the time is the point
        return hits

    result: list[tuple[Any, float]] = run(main)
    return result


def test_a_hit_comes_at_the_moment_in_which_it_is_certain() -> None:
    """What the second arm says of the best hit decides it; the rest waits for the ends of the arms."""
    assert times() == [("a", 0.1), ("b", 0.4), ("d", 0.4), ("c", 0.4)]


def test_without_bounds_all_hits_come_at_the_end() -> None:
    """`bounds="off"` does not tell before the final snapshot what is certain."""
    assert {at for _, at in times(bounds="off")} == {0.4}
    assert [id_ for id_, _ in times(bounds="off")] == [id_ for id_, _ in times()]


def test_a_deadline_makes_all_positions_final() -> None:
    """What is cut off comes no more, so all that there is, is given at the deadline."""
    assert times(timeout=0.2) == [("a", 0.1), ("b", 0.2), ("c", 0.2)]


def test_scores_are_those_of_the_moment() -> None:
    """The position of a hit is final before its score is: it may still gain, as its upper bound says."""

    async def main() -> tuple[FusedHit, FusedHit]:
        xs = fuse({"p": script("a"), "q": script("a")}, Arm("weak", script(0.1, "a"), weight=0.1))
        snapshots: list[Snapshot] = []
        recorded: Any = xs | pipe.action(snapshots.append)
        hits = await items_of(recorded | settled_hits.pipe())
        return hits[0], snapshots[-1].hits[0]

    given_hit, final_hit = run(main)
    assert given_hit.score < final_hit.score == given_hit.upper
    assert (given_hit.id, given_hit.rank) == (final_hit.id, final_hit.rank)


def test_a_stream_that_ends_before_its_final_snapshot_gives_what_was_certain() -> None:
    """Nothing is made up for positions that were open when somebody else ended the fusion."""

    async def main() -> list[Any]:
        xs: Any = fuse(arms()) | pipe.until(has_settled)
        return [hit.id for hit in await items_of(xs | settled_hits.pipe())]

    assert run(main) == ["a"]


def test_an_open_fusion_can_be_read_and_is_closed() -> None:
    """A `Fusion` is a stream of snapshots like any other, and left when the hits are."""

    async def main() -> tuple[list[Any], Snapshot]:
        async with open_fusion(arms()) as fusion:
            hits = await items_of(settled_hits(fusion) | pipe.take(1))
            return [hit.id for hit in hits], await fusion.final()

    ids, final = run(main)
    assert ids == ["a"]
    assert (final.outcome, final.elapsed) == (Outcome.STOPPED, pytest.approx(0.1))


def test_the_failure_of_a_required_arm_comes_after_the_hits() -> None:
    """What had arrived is given, and then the error is raised."""

    async def main() -> list[Any]:
        hits: list[Any] = []
        required = Arm("must", script(0.1, fail=OSError("down")), required=True)
        xs: Any = fuse(["a", "b"], required) | settled_hits.pipe() | pipe.action(hits.append)
        with pytest.raises(ArmError):
            await xs
        return [hit.id for hit in hits]

    assert run(main) == ["a", "b"]


def test_a_fusion_without_hits_gives_none() -> None:
    """Awaiting an empty stream raises, as everywhere in aiostream."""

    async def main() -> None:
        assert await items_of(fuse([]) | settled_hits.pipe()) == []
        with pytest.raises(StreamEmpty):
            await (fuse([]) | settled_hits.pipe())

    run(main)


def test_settled_hits_are_the_arm_of_another_fusion() -> None:
    """They come in rank order, so that a fusion can be one arm of the next, and start it early."""

    async def main() -> list[tuple[float | None, list[Any]]]:
        inner = fuse(arms()) | settled_hits.pipe() | pipe.map(lambda hit, *_: hit.id)
        outer = fuse({"inner": inner, "other": ["d"]}, top_k=2)
        return [(snapshot.elapsed, snapshot.ids) for snapshot in await (outer | pipe.list())]

    rows = run(main)
    assert (pytest.approx(0.1), ["a", "d"]) in rows
    assert rows[-1][1] == ["d", "a"]


TWO: dict[str, Callable[[Any], Any]] = {
    "one cut off by the other": lambda queries: queries | pipe.spaceout(0.1) | pipe.switchmap(searched),
    "one after the other": lambda queries: queries | pipe.concatmap(searched),
    "two at the same time": lambda queries: queries | pipe.flatmap(searched),
    "answers only": lambda queries: queries | pipe.concatmap(searched) | pipe.filter(is_final),
    "the later part of the second": lambda queries: (
        queries | pipe.spaceout(0.1) | pipe.switchmap(searched) | pipe.filter(is_later)
    ),
}
"""Streams of the snapshots of two fusions, given a stream of two queries."""


def searched(query: str, *_: Any) -> Any:
    """Return a fusion whose first hit is certain before the second query comes, and the others are not."""
    return fuse({"p": script(query, 0.06, f"about {query}", 0.06), "q": script(query, 0.12)})


def is_final(snapshot: Any) -> bool:
    return bool(snapshot.final)


def is_later(snapshot: Any) -> bool:
    """Leave out what the second fusion gives before it has given as many snapshots as the first."""
    return bool(snapshot.ids[:1] == ["b"] or snapshot.seq > 2)


@pytest.mark.parametrize("name", TWO)
def test_the_snapshots_of_two_fusions_are_refused(name: str) -> None:
    """Their hits would make one ranking of two queries; the first fusion's are given, and then it raises."""

    async def main() -> list[Any]:
        hits: list[Any] = []
        xs = TWO[name](stream.iterate(["b", "be"])) | settled_hits.pipe() | pipe.action(hits.append)
        with pytest.raises(ValueError, match="must yield the snapshots of one fusion"):
            await xs
        return [hit.id for hit in hits]

    assert run(main) in (["b"], ["b", "about b"])


@pytest.mark.parametrize(
    "places", [("short", -1, "long", -1), ("long", 1, "long", 0), ("long", 0, "long", 0)]
)
def test_snapshots_of_two_fusions_that_agree_are_refused_too(places: tuple[str, int, str, int]) -> None:
    """Nothing follows a final snapshot, and numbers only grow, whatever the hits are."""

    async def main() -> None:
        every = {
            "short": await items_of(fuse(["a"])),
            "long": await items_of(fuse(script("a", 0.1, "b", 0.1, "c", 0.1))),
        }
        assert every["short"][-1].seq < every["long"][-1].seq
        first, at, second, then = places
        xs: Any = settled_hits(stream.iterate([every[first][at], every[second][then]]))
        with pytest.raises(ValueError, match="must yield the snapshots of one fusion"):
            await xs

    run(main)


def test_hits_of_one_query_after_the_other_are_those_of_a_fusion_each() -> None:
    """Inside `switchmap` each query has a ranking of its own, which begins at the first rank."""

    async def main() -> list[tuple[Any, int]]:
        queries = stream.iterate(["b", "be"]) | pipe.spaceout(0.1)
        xs: Any = queries | pipe.switchmap(lambda query, *_: settled_hits(searched(query)))
        return seen(await items_of(xs))

    assert run(main) == [("b", 1), ("be", 1), ("about be", 2)]


@pytest.mark.parametrize("item", [1, None, "snapshot"])
def test_what_is_no_snapshot_is_refused(item: Any) -> None:
    """A stream of hits or ids is taken for no fusion."""

    async def main() -> None:
        with pytest.raises(TypeError, match=f"must yield snapshots of a fusion, not {item!r}"):
            await (stream.iterate([item]) | settled_hits.pipe())

    run(main)
