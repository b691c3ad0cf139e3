"""A fusion as a retriever of LangChain."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rrf_stream import Arm, fuse_arms, in_thread, open_fusion
from rrf_stream.integrations._two_ways import wait_for
from rrf_stream.integrations.langchain._arms import IdKey, blocking, from_langchain, search_of
from rrf_stream.integrations.langchain._core import (
    AsyncCallbackManager,
    AsyncCallbackManagerForRetrieverRun,
    BaseRetriever,
    CallbackManagerForRetrieverRun,
    ConfigurableFieldSpec,
    Document,
    RetrieverLike,
    RunnableConfig,
    ensure_config,
    get_unique_config_specs,
    patch_config,
)

if TYPE_CHECKING:
    from rrf_stream import FusedHit, FusionOptions, Snapshot

__all__ = ["FusionRetriever"]


class FusionRetriever(BaseRetriever, extra="forbid"):
    """Fuses the answers of retrievers by reciprocal rank, on time; put it where an `EnsembleRetriever` was.

    Documents are copies: their `metadata["rrf"]` tells, in plain JSON types, the `score`, `rank` and
    `normalized` score, the rank in each arm (`ranks`), whether this would be the document here had every
    retriever answered in full (`exact`), and which retrievers did (`coverage`).

    A retriever that fails or is late does not fail the answer. `DegradedError` is raised only if none
    answered and there is no document, or where `raise_on_degraded` asks for it.

    `ainvoke` and `astream` await retrievers that are asynchronous themselves, and run others in threads.
    `invoke` asks each by its `invoke`, in a thread; it may be called where an event loop runs, which it
    blocks meanwhile.

    Attributes:
        retrievers: At least one; each a retriever, or another `Runnable` that returns documents.
        weights: One number a retriever, finite and at least 0; all equal and 1 together, if there are none.
        c: The constant that is added to each rank, a finite number above 0.
        id_key: What tells documents apart: a key of their metadata, a function that gives a
            document's id, or None for their text.
        timeout: Seconds until the answer, with what has arrived by then; None for no limit.
        top_k: How many documents are returned at most; None for all.
        names: What the retrievers are called in `metadata["rrf"]`; `retriever_1` and so on.
        raise_on_degraded: Whether to raise if any retriever did not answer in full.

    Raises:
        ValueError: A value is out of its range, or of another type, or for a field that there is not.
    """

    retrievers: Sequence[RetrieverLike]
    weights: Sequence[float] | None = None
    c: float = 60
    id_key: IdKey = None
    timeout: float | None = None
    top_k: int | None = None
    names: Sequence[str] | None = None
    raise_on_degraded: bool = False

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What can be configured in the retrievers."""
        return get_unique_config_specs(spec for each in self.retrievers for spec in each.config_specs)

    def model_post_init(self, context: Any, /) -> None:
        """Check the values, also those that only the fusion knows the range of."""
        super().model_post_init(context)
        self.weights = _weights(self.weights, len(self.retrievers))
        open_fusion(self._arms(lambda *_: ()), **self._options())

    def invoke(
        self,
        input: str,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return the fused documents, best first.

        Raises:
            DegradedError: No retriever answered, or not all in full with `raise_on_degraded`.
        """
        return super().invoke(input, config, **kwargs, inherited=config)

    async def ainvoke(
        self,
        input: str,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return the fused documents, best first.

        Raises:
            DegradedError: No retriever answered, or not all in full with `raise_on_degraded`.
        """
        return await super().ainvoke(input, config, **kwargs, inherited=config)

    async def astream(
        self,
        input: str,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[list[Document]]:
        """Yield documents, best first, as soon as nothing that is still to come can change their place.

        The lists add up to what `ainvoke` returns, but for what is not settled yet with a document's place:
        its score, its ranks, and which retriever's copy is shown. They are those of the moment. A subclass
        that has an `_aget_relevant_documents` of its own gives all in one list.

        Raises:
            DegradedError: No retriever answered, or not all in full with `raise_on_degraded`.
        """
        if search_of(type(self)) is not search_of(FusionRetriever):
            yield await self.ainvoke(input, config, **kwargs)
            return
        run = await self._started(input, config, **kwargs)
        told: list[Document] = []
        try:
            fusion = open_fusion(self._arms(_asking(input, run, config, self.id_key)), **self._options())
            try:
                async for snapshot in fusion:
                    if snapshot.final:
                        self._check(snapshot)
                    settled = _documents(snapshot, snapshot.hits[len(told) : snapshot.settled])
                    # An empty answer is one too: a chain would not go on without.
                    if settled or (snapshot.final and not told):
                        told += settled
                        yield settled
            finally:
                await fusion.aclose()
        except GeneratorExit:  # the reader has enough
            await run.on_retriever_end(told)
            raise
        except BaseException as error:
            await run.on_retriever_error(error)
            raise
        else:
            await run.on_retriever_end(told)

    async def _started(
        self, query: str, config: RunnableConfig | None, **kwargs: Any
    ) -> AsyncCallbackManagerForRetrieverRun:
        """Tell the callbacks of a run, as `ainvoke` does, and return what tells them the rest."""
        config = ensure_config(config)
        manager = AsyncCallbackManager.configure(
            config.get("callbacks"),
            verbose=kwargs.get("verbose", False),
            inheritable_tags=config.get("tags"),
            local_tags=self.tags,
            inheritable_metadata={**(config.get("metadata") or {}), **self._get_ls_params(**kwargs)},
            local_metadata=self.metadata,
        )
        name = config.get("run_name") or self.get_name()
        # `astream_events` finds the run by the id in the config, and stops reading where there is none.
        run_id = kwargs.get("run_id") or config.get("run_id")
        return await manager.on_retriever_start(None, query, name=name, run_id=run_id)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        inherited: RunnableConfig | None = None,
        **_: Any,
    ) -> list[Document]:
        arms = self._arms(_asking(query, run_manager, inherited, self.id_key, arm_of=_invoking))
        return wait_for(partial(self._search, arms))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        inherited: RunnableConfig | None = None,
        **_: Any,
    ) -> list[Document]:
        return await self._search(self._arms(_asking(query, run_manager, inherited, self.id_key)))

    async def _search(self, arms: list[Arm]) -> list[Document]:
        final = await fuse_arms(arms, **self._options())
        self._check(final)
        return _documents(final, final.hits)

    def _arms(self, source_of: Callable[[RetrieverLike, int], Any]) -> list[Arm]:
        """Return the arms, without a window: all that a retriever returns counts."""
        count = len(self.retrievers)
        names = self.names or [f"retriever_{number}" for number in range(1, count + 1)]
        if len(names) != count or len({*names}) != count:
            raise ValueError(f"names must have one of its own for each of {count} retrievers, not {names!r}")
        return [
            Arm(name, source_of(retriever, number), weight=weight, window=None)
            for number, (name, retriever, weight) in enumerate(
                zip(names, self.retrievers, _weights(self.weights, count), strict=True), 1
            )
        ]

    def _options(self) -> FusionOptions:
        if not (math.isfinite(self.c) and self.c > 0):
            raise ValueError(f"c must be a finite number above 0, not {self.c!r}")
        top_k = sys.maxsize if self.top_k is None else self.top_k
        return {"top_k": top_k, "rank_constant": self.c, "timeout": self.timeout}

    def _check(self, final: Snapshot) -> None:
        """Refuse an answer that lacks too much: nobody can see in an empty list what is missing."""
        if self.raise_on_degraded or not (final.hits or final.coverage.answered):
            final.raise_for_coverage()


def _weights(given: Sequence[float] | None, count: int) -> list[float]:
    """Return one weight for each of some retrievers."""
    if not count:
        raise ValueError("retrievers must have at least one")
    if not given:
        return [1 / count] * count
    if len(given) != count:
        raise ValueError(f"weights must have one number for each of the {count} retrievers, not {given!r}")
    if not all(math.isfinite(weight) and weight >= 0 for weight in given) or not any(given):
        raise ValueError(f"weights must be finite and at least 0, and one above 0, not {given!r}")
    return [*given]


def _asking(
    query: str,
    run: AsyncCallbackManagerForRetrieverRun | CallbackManagerForRetrieverRun,
    config: RunnableConfig | None,
    id_key: IdKey,
    *,
    arm_of: Callable[..., Callable[[str], Any]] = from_langchain,
) -> Callable[[RetrieverLike, int], Any]:
    """Return what makes the source of the retriever with a number, whose run is a child of this one."""

    def source_of(retriever: RetrieverLike, number: int) -> Any:
        # Given, not left to the context: that knows the run around the fusion, but not the fusion's own.
        own = patch_config(config, callbacks=run.get_child(tag=f"retriever_{number}"))
        return partial(arm_of(retriever, id_key=id_key, config=own), query)

    return source_of


def _invoking(retriever: RetrieverLike, **options: Any) -> Callable[[str], Any]:
    return in_thread(blocking(retriever, **options))


def _documents(snapshot: Snapshot, hits: Iterable[FusedHit]) -> list[Document]:
    """Return copies of the documents of some hits of a snapshot that tell how they came to their places."""
    coverage = snapshot.coverage
    return [
        hit.item.model_copy(
            update={
                "metadata": {
                    **hit.item.metadata,
                    "rrf": {
                        "score": hit.score,
                        "rank": hit.rank,
                        "normalized": hit.normalized,
                        "ranks": dict(hit.ranks),
                        "exact": hit.rank <= (snapshot.exact or 0),
                        "coverage": {
                            "full": coverage.full,
                            "degraded": coverage.degraded,
                            "reasons": [reason.value for reason in coverage.reasons],
                            "answered": [*coverage.answered],
                            "weight_fraction": coverage.weight_fraction,
                            "arms": {report.name: report.status.value for report in coverage.arms},
                        },
                    },
                }
            }
        )
        for hit in hits
    ]
