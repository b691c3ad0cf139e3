"""The arms of an index, slowed down: on one machine they are quicker than the eye."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import anyio

from rrf_stream import Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from rrf_stream import Hit
    from rrf_stream.retrievers.sqlite import Source

__all__ = ["NOTE", "slowed"]

NOTE = "The arms are slowed down on purpose, so that you can watch the list settle."


class _Pace(NamedTuple):
    """Seconds before the first hits of an arm, hits at a time, and seconds between such."""

    before: float
    at_once: int
    between: float


_PACES = {
    "lexical": _Pace(0.05, 10, 0.03),
    "dense": _Pace(0.25, 10, 0.06),
    "graph": _Pace(0.15, 5, 0.12),
}


def slowed(retrievers: Mapping[str, Callable[[str], Source]]) -> dict[str, Callable[[str], object]]:
    """Return retrievers that take their time."""
    return {name: partial(_slowly, retriever, _PACES[name]) for name, retriever in retrievers.items()}


async def _slowly(retriever: Callable[[str], Source], pace: _Pace, query: str) -> AsyncIterator[Page[Hit]]:
    await anyio.sleep(pace.before)
    source = retriever(query)
    try:
        async for page in source:
            for start in range(0, len(page), pace.at_once):
                yield Page(page[start : start + pace.at_once])
                await anyio.sleep(pace.between)
    finally:
        await source.aclose()
