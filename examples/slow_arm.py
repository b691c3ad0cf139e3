"""One arm is slow, one never answers: the answer comes on time, and says what is missing.

Three arms are read for half a second. `titles` answers at once. `vectors` needs
0.2 seconds for each hit, so two of its five hits are in when the time is up; they
count. `remote` hangs. The final snapshot names both as cut off by the deadline.

Run it with `python examples/slow_arm.py`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from rrf_stream import open_fusion
from rrf_stream.errors import DegradedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def titles() -> AsyncIterator[str]:
    """Answer at once."""
    for id_ in ("parsing", "tokens", "syntax", "grammar"):
        yield id_


async def vectors() -> AsyncIterator[str]:
    """Need 0.2 seconds for each hit."""
    for id_ in ("grammar", "parsing", "lexing", "syntax", "trees"):
        await asyncio.sleep(0.2)
        yield id_


async def remote() -> AsyncIterator[str]:
    """Wait for a reply that never comes."""
    await asyncio.Event().wait()
    yield "never reached"


async def main() -> None:
    """Print every snapshot, what changed in it, and at the end how each arm did."""
    started = time.perf_counter()
    arms = {"titles": titles(), "vectors": vectors(), "remote": remote()}
    previous = None
    async with open_fusion(arms, top_k=4, timeout=0.5) as fusion:
        async for snapshot in fusion:
            change = snapshot.delta(previous)
            moves = [f"{id_} {before}->{after}" for id_, (before, after) in change.moved.items()]
            print(f"{snapshot.elapsed:.1f} s  {' '.join(snapshot.ids)}")
            print(f"       new: {' '.join(change.entered) or '-'}; moved: {', '.join(moves) or '-'}")
            previous = snapshot

    print(f"\nfinal after {time.perf_counter() - started:.1f} s, because of: {snapshot.outcome}")
    for report in snapshot.coverage.arms:
        print(f"  {report.name}: {report.status} after {report.received} hits")
    try:
        snapshot.raise_for_coverage()
    except DegradedError as error:
        print(f"DegradedError: {error}")


if __name__ == "__main__":
    asyncio.run(main())
