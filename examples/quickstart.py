"""Two retrievers, one ranking: print the fused top 3 each time something changes.

Both search the same few titles, one by whole words, one by parts of words, and
hand out what they find hit by hit, as if each took time to find. The fused
ranking is there with the first hit and gets better until both have ended.

Run it with `python examples/quickstart.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rrf_stream import open_fusion

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TITLES = {
    "timeouts": "Timeouts in asyncio",
    "cancel": "How a task is cancelled",
    "groups": "Task groups and their errors",
    "queues": "Queues between tasks",
    "sockets": "Reading from a socket with a timeout",
    "threads": "Running blocking code in threads",
}


def words(text: str) -> set[str]:
    """Return the words of a text."""
    return set(text.lower().split())


def trigrams(text: str) -> set[str]:
    """Return all runs of three letters within the words of a text."""
    return {word[start : start + 3] for word in words(text) for start in range(len(word) - 2)}


async def by_words(query: str) -> AsyncIterator[str]:
    """Find titles by the words that they share with the query, most first."""
    shared = {id_: len(words(query) & words(title)) for id_, title in TITLES.items()}
    for id_ in sorted(TITLES, key=lambda id_: -shared[id_]):
        if shared[id_]:
            await asyncio.sleep(0.05)
            yield id_


async def by_trigrams(query: str) -> AsyncIterator[str]:
    """Find titles by the runs of three letters that they share with the query, most first."""
    shared = {id_: len(trigrams(query) & trigrams(title)) for id_, title in TITLES.items()}
    for id_ in sorted(TITLES, key=lambda id_: -shared[id_]):
        if shared[id_]:
            await asyncio.sleep(0.12)
            yield id_


async def main() -> None:
    """Search, and print what is known at each moment."""
    query = "task timeouts"
    print(f"query: {query}")
    arms = {"words": by_words(query), "trigrams": by_trigrams(query)}
    async with open_fusion(arms, top_k=3, timeout=2.0) as fusion:
        async for snapshot in fusion:
            arms_now = ", ".join(f"{arm.name} {arm.status}" for arm in snapshot.coverage.arms)
            print(f"{snapshot.elapsed:.2f} s  {' '.join(snapshot.ids):<24} {arms_now}")
    print("\nfinal:")
    for hit in snapshot.hits:
        print(f"{hit.rank}. {TITLES[hit.id]}  (score {hit.score:.5f}, ranks {dict(hit.ranks)})")


if __name__ == "__main__":
    asyncio.run(main())
