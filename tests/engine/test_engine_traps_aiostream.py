"""A fusion inside aiostream's operators, which read it from tasks of their own; on asyncio, like them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiostream
import pytest
from aiostream import pipe, stream
from engine_kit import hanging, on

from rrf_stream import Arm, Fusion, Snapshot, drain, open_fusion
from rrf_stream.errors import ArmError
from rrf_stream.testing import Script, script

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.anyio, on("asyncio", "uvloop", "asyncio-virtual")]


def ticking(sources: list[Script]) -> Fusion:
    """Open a fusion that gives four snapshots, one every few milliseconds, and then hangs."""
    sources.append(script(*(step for number in range(4) for step in (number, 0.004)), hang=True))
    return open_fusion({"ticks": sources[-1]})


def library_tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("rrf:")]


async def later(snapshot: Snapshot, *_: Any) -> list[Any]:
    await asyncio.sleep(0.001)
    return snapshot.ids


def shows_three(snapshot: Any) -> bool:
    return len(snapshot.hits) == 3


async def keep(snapshots: Any, seen: list[Snapshot]) -> None:
    async with snapshots.stream() as streamer:
        async for snapshot in streamer:
            seen.append(snapshot)  # noqa: PERF401 - a comprehension would lose them all to the error


LATER: Any = later  # aiostream's annotations reject it, and a list of streams of two kinds
OTHER: Any = stream.just("other")
OPERATORS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "take": (lambda xs: xs | pipe.take(2), 2),
    "take and spaceout": (lambda xs: xs | pipe.spaceout(0.001) | pipe.take(2), 2),
    "takelast": (lambda xs: xs | pipe.take(3) | pipe.takelast(2), 2),
    "until": (lambda xs: xs | pipe.until(shows_three), 3),
    "map": (lambda xs: xs | pipe.map(lambda snapshot, *_: snapshot.ids) | pipe.take(2), 2),
    "map, asynchronous": (lambda xs: xs | pipe.map(LATER) | pipe.take(2), 2),
    "timeout": (lambda xs: xs | pipe.timeout(5) | pipe.take(2), 2),
    "chunks": (lambda xs: xs | pipe.chunks(2) | pipe.take(1), 1),
    "merge": (lambda xs: stream.merge(xs, OTHER) | pipe.take(3), 3),
    "flatten": (lambda xs: stream.flatten(stream.iterate([xs, OTHER])) | pipe.take(3), 3),
    "zip": (lambda xs: stream.zip(xs, stream.count()) | pipe.take(2), 2),
}


@pytest.mark.parametrize("name", OPERATORS)
async def test_an_operator_that_is_left_early_leaves_no_task(name: str) -> None:
    """When the context of the stream is left, the fusion inside has closed its arms, and nothing runs."""
    build, count = OPERATORS[name]
    sources: list[Script] = []
    async with build(stream.iterate(ticking(sources))).stream() as streamer:
        items = [item async for item in streamer]
    assert len(items) == count
    assert await drain(5) == []
    assert library_tasks() == []
    assert sources[0].closed


async def test_a_timeout_that_fires_ends_the_fusion_with_its_stream() -> None:
    """aiostream's `timeout` destroys its source when it expires: the arms are stopped then."""
    arms = hanging("x")
    seen: list[Snapshot] = []
    with pytest.raises(asyncio.TimeoutError):
        await keep(stream.iterate(open_fusion(arms)) | pipe.timeout(0.02), seen)
    assert [snapshot.ids for snapshot in seen] == [["x"]]
    assert await drain(5) == []
    assert library_tasks() == []
    assert arms["hangs"].closed


async def test_two_fusions_may_be_merged() -> None:
    """`merge` advances them from tasks of its own, in any order; both end with their final snapshot."""
    fusions = [open_fusion({"a": script(0.002, at, 0.004, -at)}) for at in (1, 2)]
    merged = stream.merge(*(stream.iterate(fusion) for fusion in fusions))
    async with merged.stream() as streamer:
        snapshots = [snapshot async for snapshot in streamer]
    assert sorted(snapshot.ids for snapshot in snapshots if snapshot.final) == [[1, -1], [2, -2]]
    assert library_tasks() == []


async def test_two_merged_fusions_may_be_left_early() -> None:
    """Leaving the merged stream stops the arms of both."""
    sources: list[Script] = []
    merged = stream.merge(*(stream.iterate(ticking(sources)) for _ in range(2))) | pipe.take(3)
    async with merged.stream() as streamer:
        assert len([snapshot async for snapshot in streamer]) == 3
    assert await drain(5) == []
    assert library_tasks() == []
    assert [source.closed for source in sources] == [True, True]


async def test_the_last_item_of_a_stream_is_the_final_snapshot() -> None:
    """Awaiting a stream gives its last item, as aiostream does with any source."""
    final: Any = await stream.iterate(open_fusion({"a": script("x", 0.002, "y")}))
    assert (final.final, final.ids) == (True, ["x", "y"])
    last = stream.iterate(open_fusion({"a": script("x", hang=True)}, timeout=0.02)) | pipe.takelast(1)
    assert [snapshot.final for snapshot in await (last | pipe.list())] == [True]


async def test_an_error_in_the_loop_over_a_stream_stops_the_arms() -> None:
    """The error comes out as it is; aiostream finds no `athrow` on a fusion, which is no generator."""
    arms = hanging("x")

    async def reader() -> None:
        async with stream.iterate(open_fusion(arms)).stream() as streamer:
            async for _ in streamer:
                raise LookupError

    with pytest.raises(LookupError):
        await reader()
    assert not hasattr(Fusion, "athrow")
    assert await drain(5) == []
    assert library_tasks() == []
    assert arms["hangs"].closed


async def test_a_required_arms_failure_passes_the_operators() -> None:
    """An operator function that opens a fusion hands on its final snapshot and then its error."""

    @aiostream.operator
    def fused(*arms: Arm) -> Any:
        return open_fusion(arms)

    seen: list[Snapshot] = []
    with pytest.raises(ArmError):
        await keep(fused(Arm("must", script(fail=OSError("down")), required=True)), seen)
    assert [snapshot.final for snapshot in seen] == [True]
    assert library_tasks() == []
