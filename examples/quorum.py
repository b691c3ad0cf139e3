"""Two of three arms are enough: end by a quorum, by `stop()`, or by leaving.

`text` and `vectors` have 2 parts of the weight each, `remote` has 1 and takes its
time. With a quorum of 0.8 the fusion needs the first two; then it is patient with
`remote` for 0.22 seconds more, in which one more of its hits arrives and changes the
order. A reader that decides for itself calls `stop()` and gets a final snapshot at
once, with `remote` STOPPED as well; the outcome tells the two apart. A reader that
just leaves has `remote` CANCELLED.

Run it with `python examples/quorum.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rrf_stream import Arm, Snapshot, fuse_arms, open_fusion

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def hits(seconds: float, *ids: str) -> AsyncIterator[str]:
    """Need so many seconds for each hit."""
    for id_ in ids:
        await asyncio.sleep(seconds)
        yield id_


def arms() -> list[Arm]:
    """Return the arms of one query."""
    return [
        Arm("text", hits(0.03, "parsing", "tokens", "syntax"), weight=2),
        Arm("vectors", hits(0.06, "syntax", "parsing", "streams"), weight=2),
        Arm("remote", hits(0.17, "grammar", "syntax", "trees", "lexing"), weight=1),
    ]


def is_enough(snapshot: Snapshot) -> bool:
    """Return whether two documents were found by two arms."""
    return sum(len(hit.ranks) >= 2 for hit in snapshot.hits) >= 2


async def by_stopping() -> Snapshot:
    """Read until there is enough, and then ask for the final snapshot."""
    async with open_fusion(arms(), top_k=3) as fusion:
        async for snapshot in fusion:
            if is_enough(snapshot):
                fusion.stop()
        return await fusion.final()


async def by_leaving() -> Snapshot:
    """Read until there is enough, and then leave; a fusion that was left can still be asked."""
    async with open_fusion(arms(), top_k=3) as fusion:
        async for snapshot in fusion:
            if is_enough(snapshot):
                break
    return await fusion.final()


async def main() -> None:
    """Print how the same query ends in four ways."""
    endings = {
        "wait for all": fuse_arms(arms(), top_k=3),
        "quorum": fuse_arms(arms(), top_k=3, quorum=0.8, patience=0.22),
        "stop()": by_stopping(),
        "leave": by_leaving(),
    }
    for name, ending in endings.items():
        final = await ending
        print(f"{name:<13} {final.elapsed:.1f} s, {final.outcome}: {' '.join(final.ids)}")
        for report in final.coverage.arms:
            print(f"    {report.name:<9} {report.status} after {report.received} hits")
        answered = ", ".join(final.coverage.answered)
        print(f"    answered: {answered}, {final.coverage.weight_fraction:.1f} of the weight")


if __name__ == "__main__":
    asyncio.run(main())
