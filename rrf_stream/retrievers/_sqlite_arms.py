"""What a retriever of the index returns: sources that hold nothing between two pages.

Each page is one call in a reader thread, and no statement stays open after it. So a source that is
dropped or left half read leaks nothing, and any number of them can be open over a few connections.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import anyio

from rrf_stream import Hit, Page
from rrf_stream.retrievers import _sqlite_store as store
from rrf_stream.retrievers import _wordllama as embedding
from rrf_stream.retrievers._checks import check_number

if TYPE_CHECKING:
    from collections.abc import Callable

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

    Args:
        connections: Of the index, which must be open.
        query: Any string.
        limit: How many documents at most, at least 1.
    """

    def __init__(self, connections: Connections, query: str, *, limit: int = 100) -> None:
        if not isinstance(query, str):
            raise TypeError(f"query must be a str, not {type(query).__name__}")
        check_number("limit", limit)
        connections.check()
        self._connections = connections
        self._query = query
        self._limit = limit
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
    """A ranking made by one statement; its documents are loaded page by page."""

    _ranking: store.Ranking | None = None

    @abc.abstractmethod
    async def _prepare(self) -> Rank | None:
        """What ranks the index, or None if nothing can match."""

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


class LexicalSource(RankedSource):
    """Documents that contain any word of the query."""

    async def _prepare(self) -> Rank | None:
        expression = store.match(self._query)
        return (lambda db: store.lexical(db, expression, self._limit)) if expression else None


class DenseSource(RankedSource):
    """Documents whose vectors are nearest to the query's."""

    async def _prepare(self) -> Rank | None:
        (vector,) = await embedding.embed([self._query])
        return (lambda db: store.dense(db, vector, self._limit)) if vector is not None else None


class GraphSource(Source):
    """Documents by their distance, in links, from the seeds.

    Args:
        seeds: How many documents to start from at most, at least 1.
    """

    def __init__(self, connections: Connections, query: str, *, limit: int = 100, seeds: int = 5) -> None:
        super().__init__(connections, query, limit=limit)
        check_number("seeds", seeds)
        expression = store.match(query)
        self._walk = _Walk(expression, limit=limit, seeds=seeds) if expression else None

    async def _read(self, size: int) -> Page[Hit]:
        page: Page[Hit] = Page()
        while not page and self._walk is not None and not self._walk.ended:
            page = await self._connections.read(partial(self._walk.step, size=size))
        return page


class Retriever(Protocol):
    """What `lexical` and `dense` are."""

    def __call__(self, query: str, *, limit: int = 100) -> Source:
        """Return the hits of a query."""


class GraphRetriever(Protocol):
    """What `graph` is."""

    def __call__(self, query: str, *, limit: int = 100, seeds: int = 5) -> Source:
        """Return the hits of a query."""


class _Arrival(NamedTuple):
    """That the walk came to a document on its way from a seed."""

    key: int
    seed: int
    distance: int


class _Walk:
    """A breadth-first walk that can be continued; the first step finds the seeds.

    A document is found when the walk first comes to it; a seed, where the walk begins, when it comes
    there from another seed. As the way to that one may lead through what the seed itself reached
    first, a second walk follows the first one, until every seed is found.
    """

    def __init__(self, expression: str, *, limit: int, seeds: int) -> None:
        self._expression = expression
        self._limit = limit
        self._seeds = seeds
        self._lost: set[int] | None = None  # seeds that were not found yet
        self._reached: dict[int, list[int]] = {}  # by key: the seeds it was reached from, two at most
        self._queue: list[_Arrival] = []
        self._followed = 0
        self._found: store.Ranking = []

    @property
    def ended(self) -> bool:
        if self._lost is None:
            return False
        return self._followed == len(self._queue) or len(self._found) >= self._limit

    def step(self, db: Database, *, size: int) -> Page[Hit]:
        """Go on until about `size` more are found, never more than one distance at a time."""
        start = len(self._found)
        if self._lost is None:
            seeds = [key for key, _ in store.lexical(db, self._expression, self._seeds)]
            self._lost = set(seeds)
            self._reached = {key: [key] for key in seeds}
            self._queue = [_Arrival(key, key, 0) for key in seeds]
        level = None
        while not self.ended and len(self._found) - start < size:
            arrival = self._queue[self._followed]
            if level not in {None, arrival.distance}:
                break
            level = arrival.distance
            self._followed += 1
            # Of so many neighbours, as many as the limit are no seeds.
            for neighbour in store.neighbours(db, arrival.key, self._limit + self._seeds):
                self._reach(neighbour, arrival, self._lost)
        del self._found[self._limit :]
        return _load(self._found[start:], db)

    def _reach(self, key: int, last: _Arrival, lost: set[int]) -> None:
        seeds = self._reached.setdefault(key, [])
        if last.seed in seeds or len(seeds) > 1 or (seeds and not lost):
            return
        distance = last.distance + 1
        if not seeds or key in lost:
            lost.discard(key)
            self._found.append((key, 1 / (1 + distance)))
        seeds.append(last.seed)
        self._queue.append(_Arrival(key, last.seed, distance))


def _rank_and_load(rank: Rank, size: int, db: Database) -> tuple[store.Ranking, Page[Hit]]:
    ranking = rank(db)
    return ranking[size:], _load(ranking[:size], db)


def _load(ranking: store.Ranking, db: Database) -> Page[Hit]:
    documents = store.documents(db, [key for key, _ in ranking])
    return Page(
        Hit(documents[key].id, score=score, item=documents[key]) for key, score in ranking if key in documents
    )
