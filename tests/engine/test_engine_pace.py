"""How often a reader gets a snapshot, in virtual time."""

from __future__ import annotations

import anyio
import pytest
from engine_kit import read, virtual_time

from rrf_stream import Page, open_fusion
from rrf_stream.testing import script

pytestmark = [pytest.mark.anyio, virtual_time]
MARGIN = 0.005
"""What the final snapshot is ahead of an enclosing deadline."""


async def test_a_prompt_reader_sees_every_change() -> None:
    """One snapshot for each arrival, at its time, and one for each arm that closes."""
    snapshots = await read(open_fusion({"a": script(1.0, "x", 1.0, "y", 0.5), "b": script(1.5, "y", 1.0)}))
    assert [(snapshot.elapsed, snapshot.ids) for snapshot in snapshots] == [
        (1.0, ["x"]),
        (1.5, ["x", "y"]),
        (2.0, ["y", "x"]),
        (2.5, ["y", "x"]),
    ]


async def test_nothing_visible_changed_is_no_snapshot() -> None:
    """Results below the top, repeats and empty pages are not worth a snapshot."""
    source = script("x", 1.0, "below", 1.0, "x", 1.0, Page(), 1.0, "y", 1.0)
    snapshots = await read(open_fusion({"a": source, "b": script("y", 2.5)}, top_k=1))
    assert [(snapshot.elapsed, snapshot.ids) for snapshot in snapshots] == [
        (0.0, ["x"]),
        (2.5, ["x"]),  # b has ended
        (4.0, ["y"]),
        (5.0, ["y"]),
    ]


async def test_a_slow_reader_skips_to_the_newest() -> None:
    """Arrivals every quarter second, a reader who takes a second: four arrivals at a time, none twice."""
    source = script(*(step for number in range(12) for step in (number, 0.25)), hang=True)
    seen = []
    async with open_fusion({"a": source}, top_k=50, timeout=4) as fusion:
        async for snapshot in fusion:
            seen.append((snapshot.seq, len(snapshot.hits), snapshot.final))
            await anyio.sleep(0.96875)
    assert seen == [(1, 1, False), (2, 4, False), (3, 8, False), (4, 12, False), (5, 12, True)]


async def test_min_interval_holds_back_all_but_the_final_snapshot() -> None:
    """Two snapshots are a second apart; what arrives between shows in the next; the end does not wait."""
    source = script("p", 0.25, "q", 0.25, "r", 1.0, "s", 0.125)
    snapshots = await read(open_fusion({"a": source}, min_interval=1))
    assert [(snapshot.elapsed, len(snapshot.hits), snapshot.final) for snapshot in snapshots] == [
        (0.0, 1, False),
        (1.0, 3, False),
        (1.625, 4, True),
    ]


async def test_min_interval_does_not_delay_what_comes_after_a_pause() -> None:
    """An arrival long after the last snapshot is shown at once."""
    snapshots = await read(open_fusion({"a": script("p", 4.0, "q", 4.0)}, min_interval=1))
    assert [snapshot.elapsed for snapshot in snapshots] == [0, 4, 8]


async def test_min_interval_beyond_the_deadline_leaves_the_final_snapshot() -> None:
    """However long the interval, the deadline is kept."""
    source = script("p", 0.25, "q", hang=True)
    snapshots = await read(open_fusion({"a": source}, min_interval=60, timeout=2))
    assert [(snapshot.elapsed, len(snapshot.hits)) for snapshot in snapshots] == [(0, 1), (2, 2)]


async def test_a_fusion_without_changes_wakes_nobody() -> None:
    """An hour of waiting gives one snapshot, the final one."""
    (final,) = await read(open_fusion({"a": script(hang=True)}, timeout=3600, min_interval=0.25))
    assert (final.seq, final.final, final.elapsed) == (1, True, 3600)
