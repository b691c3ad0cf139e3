"""One set of retrievers for code of both kinds: asynchronous, and code that waits for its answer.

Code that waits gets an event loop of its own for each search, so there the retrievers are asked without
one, in threads: an asynchronous client is often bound to the event loop that it first met.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, Unpack

from anyio.from_thread import start_blocking_portal

from rrf_stream import Arm, Breaker, FusionOptions, Hedging, Hit, Pipeline, Snapshot

T = TypeVar("T")


def wait_for(search: Callable[[], Awaitable[T]]) -> T:
    """Return what a search gives, in code that waits for it; an event loop that runs there is held up.

    The search has an event loop in a thread of its own: one may run here, and if none does, asyncio's
    state stays as it is. It sees the context variables of the caller.
    """
    with start_blocking_portal("asyncio", name="rrf_stream.wait_for") as portal:
        return portal.call(search)


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

    A copy, also one by pickle, is made of the same arguments, and has not seen any searches.

    Args:
        ways: The retrievers by arm name, at least one. They give complete lists, which are read to the end.
        weights: By arm name; 1 if not given. Not all are 0.
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
        if not ways:
            raise ValueError("retrievers must have at least one")
        self._made_of = {"ways": ways, "weights": weights, "breaker": breaker, "hedging": hedging, **options}
        weights = {} if weights is None else weights
        for name in weights:
            if name not in ways:
                raise ValueError(f"weights must be for retrievers, {', '.join(ways)}, not for {name!r}")
        arms = [
            Arm(name, each.answer, weight=weights.get(name, 1.0), window=None) for name, each in ways.items()
        ]
        self._pipeline = Pipeline(arms, breaker=breaker, hedging=hedging, **options)
        if not any(arm.weight for arm in arms):
            raise ValueError(f"the weights of the retrievers must not all be 0, as are {weights!r}")

    def __getstate__(self) -> dict[str, Any]:
        return self._made_of

    def __setstate__(self, made_of: dict[str, Any]) -> None:
        TwoWayPipeline.__init__(self, **made_of)

    async def search(self, query: Any, **options: Unpack[FusionOptions]) -> Snapshot:
        """Return the final snapshot of one query; errors as for `Pipeline.search`."""
        return await self._pipeline.search(Question(query=query, waits=False), **options)

    def search_and_wait(self, query: Any, **options: Unpack[FusionOptions]) -> Snapshot:
        """Do the same in code that is not asynchronous; an event loop that runs in its thread is held up."""
        return wait_for(partial(self._pipeline.search, Question(query=query, waits=True), **options))
