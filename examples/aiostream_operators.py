"""Search as one types, with operators of aiostream: old queries are dropped, and hits come once certain.

The letters arrive as a stream of queries. `switchmap` opens a fusion for each and leaves the
one before, whose arms are stopped at that moment: only the query that was last ever answers in
full. Both arms are built with operators themselves. Then the last query is asked again for its
two best hits: `settled_hits` gives each one once, as soon as nothing can change its position any
more, and `take(2)` stops the arms without waiting for the slow one.

It needs the extra `aiostream`, a library that is GPL-3.0-or-later.

Run it with `python examples/aiostream_operators.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

from aiostream import pipe, stream

from rrf_stream.operators import fuse, settled_hits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiostream import Stream

    from rrf_stream import Snapshot

TITLES = [
    "Tables of a database",
    "Tasks and timeouts",
    "Tests of tasks",
    "Timeouts in asyncio",
    "Waiting for tasks",
]
fate: Counter[str] = Counter()


def by_prefix(query: str) -> Stream[str]:
    """Find titles that begin with the query, one every 0.02 seconds."""
    found = [title for title in TITLES if title.lower().startswith(query)]
    return stream.iterate(found) | pipe.spaceout(0.02)


def by_words(query: str) -> Stream[str]:
    """Find titles that have a word like the query, slowly; note how the search ended."""

    async def titles() -> AsyncIterator[str]:
        try:
            for title in TITLES:
                await asyncio.sleep(0.06)
                if any(word.startswith(query) for word in title.lower().split()):
                    yield title
            fate["read to their end"] += 1
        except (asyncio.CancelledError, GeneratorExit):
            fate["stopped"] += 1
            raise

    return stream.iterate(titles())


def search(query: str, *_: object) -> Stream[Snapshot]:
    """Return the stream of snapshots for a query; nothing runs until it is iterated."""
    return fuse({"prefix": by_prefix(query), "words": by_words(query)}, top_k=3, timeout=2.0)


async def main() -> None:
    """Type a query, and then ask for the two best hits only."""
    typed = stream.iterate(["t", "ta", "tas", "task"]) | pipe.spaceout(0.1)
    last: dict[int, list[str]] = {}
    async with (typed | pipe.switchmap(search) | pipe.enumerate()).stream() as shown:
        async for number, snapshot in shown:
            last[number] = snapshot.ids
    print(f"{len(last)} snapshots, the last one:")
    print("\n".join(f"  {title}" for title in last[max(last)]))
    print("searches by words:", ", ".join(f"{count} {how}" for how, count in sorted(fate.items())))

    fate.clear()
    started = time.perf_counter()
    async with (search("task") | settled_hits.pipe() | pipe.take(2)).stream() as hits:
        async for hit in hits:
            print(f"certain after {time.perf_counter() - started:.1f} s: {hit.rank}. {hit.id}")
    print("searches by words:", ", ".join(f"{count} {how}" for how, count in sorted(fate.items())))


if __name__ == "__main__":
    asyncio.run(main())
