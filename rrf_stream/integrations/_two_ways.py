"""One set of retrievers for code of both kinds: asynchronous, and code that waits for its answer.

Code that waits gets an event loop of its own for each search, so there the retrievers are asked without
one, in threads: an asynchronous client is often bound to the event loop that it first met.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from anyio.from_thread import start_blocking_portal

from rrf_stream import Arm, Breaker, FusionOptions, Hedging, Hit, Pipeline, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and by whom.

    Attributes:
        query: What the retrievers are called with.
        waits: Whether the code that asks waits for the answer.
    """

    query: Any
    waits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoWays:
    """A retriever as both kinds of code call it.

    Attributes:
        blocking: Takes the query, and may block its thread.
        asynchronous: The same on an event loop; None for a retriever that has no way of its own for that.
    """

    blocking: Callable[[Any], list[Hit]]
    asynchronous: Callable[[Any], Awaitable[list[Hit]]] | None

    @property
    def retriever(self) -> Callable[[Any], Any]:
        """What a `Pipeline` takes; what blocks runs in a thread there."""
        return self.asynchronous or self.blocking

    async def answer(self, question: Question) -> Any:
        """Return the hits, or what gives them when it is called in a thread."""
        if question.waits or self.asynchronous is None:
            return partial(self.blocking, question.query)
        return await self.asynchronous(question.query)


class TwoWayPipeline:
    """A pipeline that both kinds of code search with, so that what it knows of its arms is all in one place.

    Args:
        ways: The retrievers by arm name. They give complete lists, which are read to their ends.
        weights: By arm name; 1 if not given.
        breaker: As for `Pipeline`.
        hedging: As for `Pipeline`.
        options: As for `Pipeline`, without `key`.

    Raises:
        ValueError: An option is out of its range, or for an arm that there is not.
        TypeError: An option is of the wrong type, or there is no such option.
    """

    def __init__(
        self,
        ways: Mapping[str, TwoWays],
        *,
        weights: Mapping[str, float] | None = None,
        breaker: Breaker | Mapping[str, Breaker] | None = None,
        hedging: Hedging | Mapping[str, Hedging] | None = None,
        **options: Unpack[FusionOptions],
    ) -> None:
        if "key" in options:
            raise TypeError("key must not be given: results are told apart by the ids of the framework")
        weights = {} if weights is None else weights
        for name in weights:
            if name not in ways:
                raise ValueError(f"weights must be for retrievers, {', '.join(ways)}, not for {name!r}")
        arms = [
            Arm(name, each.answer, weight=weights.get(name, 1.0), window=None) for name, each in ways.items()
        ]
        self._pipeline = Pipeline(arms, breaker=breaker, hedging=hedging, **options)

    async def search(self, query: Any, **options: Unpack[FusionOptions]) -> Snapshot:
        """Return the final snapshot of one query; errors as for `Pipeline.search`."""
        return await self._pipeline.search(Question(query=query, waits=False), **options)

    def search_and_wait(self, query: Any, **options: Unpack[FusionOptions]) -> Snapshot:
        """Do the same in code that is not asynchronous; an event loop that runs in its thread is held up."""
        search = partial(self._pipeline.search, Question(query=query, waits=True), **options)
        with start_blocking_portal("asyncio", name="rrf_stream.search_and_wait") as portal:
            return portal.call(search)
