"""What a retriever of the index returns: sources that hold nothing between two pages.

Each page is one call in a reader thread, and no statement stays open after it. So a source that is
dropped or left half read leaks nothing, and any number of them can be open over a few connections.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

import anyio

from rrf_stream import Hit, Page
from rrf_stream.retrievers import _sqlite_store as store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rrf_stream.retrievers._sqlite_db import Database
    from rrf_stream.retrievers._sqlite_threads import Connections

    Rank = Callable[[Database], store.Ranking]

#: The first page is small so that it comes soon; each later one is larger, so that all come cheaply.
FIRST_PAGE = 8
PAGE_GROWTH = 4
LARGEST_PAGE = 512


class Source(AsyncIterator[Page[Hit]], abc.ABC):
    """The hits of one query, page by page, best first.

    It ends for good after the last page, after an error, when its reading is cancelled, and when it
    is closed; closing it also ends a read that is under way in another task.
    """

    def __init__(self) -> None:
        self._size = FIRST_PAGE
        self._closed = False
        self._reading: anyio.CancelScope | None = None

    async def __anext__(self) -> Page[Hit]:
        if self._reading is not None:
            raise RuntimeError("this source is being read already")
        if self._closed:
            raise StopAsyncIteration
        page: Page[Hit] = Page()
        try:
            with anyio.CancelScope() as self._reading:
                page = await self._read(self._size)
        except BaseException:
            self._closed = True
            raise
        finally:
            self._reading = None
        self._size = min(self._size * PAGE_GROWTH, LARGEST_PAGE)
        if self._closed or not page:
            self._closed = True
            raise StopAsyncIteration
        return page

    async def aclose(self) -> None:
        """End the source, and its query if one is running; never waits."""
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()

    @abc.abstractmethod
    async def _read(self, size: int) -> Page[Hit]:
        """About `size` hits more; an empty page ends the source."""


class RankedSource(Source):
    """A ranking made by one statement; its documents are loaded page by page.

    Args:
        connections: Of the index.
        prepare: Gives what ranks the index, or None if nothing can match.
    """

    def __init__(self, connections: Connections, prepare: Callable[[], Awaitable[Rank | None]]) -> None:
        super().__init__()
        self._connections = connections
        self._prepare = prepare
        self._ranking: store.Ranking | None = None

    async def _read(self, size: int) -> Page[Hit]:
        page: Page[Hit] = Page()
        if self._ranking is None:
            if (rank := await self._prepare()) is None:
                return page
            self._ranking, page = await self._connections.read(partial(_rank_and_load, rank, size))
        while self._ranking and not page:  # a page is empty if all its documents were removed meanwhile
            first, self._ranking = self._ranking[:size], self._ranking[size:]
            page = await self._connections.read(partial(_load, first))
        return page


class GraphSource(Source):
    """Documents by their distance, in links, from the seeds.

    Args:
        connections: Of the index.
        expression: The FTS5 expression that finds the seeds; empty for no seeds.
        limit: How many documents at most.
        seeds: How many of them are seeds at most.
    """

    def __init__(self, connections: Connections, expression: str, *, limit: int, seeds: int) -> None:
        super().__init__()
        self._connections = connections
        self._walk = _Walk(expression, limit=limit, seeds=seeds) if expression else None

    async def _read(self, size: int) -> Page[Hit]:
        page: Page[Hit] = Page()
        while not page and self._walk is not None and not self._walk.ended:
            page = await self._connections.read(partial(self._walk.step, size=size))
        return page


class _Walk:
    """A breadth-first walk that can be continued; the first step finds the seeds."""

    def __init__(self, expression: str, *, limit: int, seeds: int) -> None:
        self._expression = expression
        self._limit = limit
        self._seeds = min(seeds, limit)
        self._distances: dict[int, int] | None = None  # by key, in the order of discovery
        self._queue: list[int] = []
        self._expanded = 0

    @property
    def ended(self) -> bool:
        if self._distances is None:
            return False
        return self._expanded == len(self._queue) or len(self._queue) >= self._limit

    def step(self, db: Database, *, size: int) -> Page[Hit]:
        """Go on until about `size` more are found, never more than one distance at a time."""
        start = len(self._queue)
        if self._distances is None:
            seeds = store.lexical(db, self._expression, self._seeds)
            self._distances = {key: 0 for key, _ in seeds}
            self._queue = [key for key, _ in seeds]
            return self._page(db, start)
        level = self._distances[self._queue[self._expanded]]
        while not self.ended and len(self._queue) - start < size:
            key = self._queue[self._expanded]
            if self._distances[key] != level:
                break
            self._expanded += 1
            for neighbour in store.neighbours(db, key, self._limit):
                if neighbour not in self._distances and len(self._queue) < self._limit:
                    self._distances[neighbour] = level + 1
                    self._queue.append(neighbour)
        return self._page(db, start)

    def _page(self, db: Database, start: int) -> Page[Hit]:
        distances = self._distances or {}
        return _load([(key, 1 / (1 + distances[key])) for key in self._queue[start:]], db)


def _rank_and_load(rank: Rank, size: int, db: Database) -> tuple[store.Ranking, Page[Hit]]:
    ranking = rank(db)
    return ranking[size:], _load(ranking[:size], db)


def _load(ranking: store.Ranking, db: Database) -> Page[Hit]:
    documents = store.documents(db, [key for key, _ in ranking])
    return Page(
        Hit(documents[key].id, score=score, item=documents[key]) for key, score in ranking if key in documents
    )
