"""Haystack: fusion as two of its components, and its retrievers as arms of a fusion.

The only importer of haystack. Documents are the same if their ids are equal, whatever their text.
"""

# No `from __future__ import annotations`: Haystack makes sockets of the annotations of `run`.
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self, Unpack

from rrf_stream import Breaker, FusedHit, FusionOptions, Hedging, Snapshot, fuse
from rrf_stream.errors import MissingExtraError
from rrf_stream.integrations._haystack_arms import from_haystack, two_ways
from rrf_stream.integrations._two_ways import TwoWayPipeline

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.core.component.types import Variadic
    from haystack.core.serialization import component_from_dict, component_to_dict, import_class_by_name
except ImportError as error:
    raise MissingExtraError("haystack-ai", extra="haystack") from error

__all__ = ["FusionJoiner", "FusionRetriever", "from_haystack"]


@component
class FusionJoiner:
    """Joins lists of documents by reciprocal rank, in place of `DocumentJoiner`.

    It gives the order of `DocumentJoiner(join_mode="reciprocal_rank_fusion")`, on copies: `score` is the
    sum of the contributions, and `meta["rrf"]` has the `rank`, the `ranks` by list (`list_0` is the first
    that came), and `normalized`, the score that `DocumentJoiner` would give.

    In `Pipeline.run_async` Haystack hands over the lists in the order in which they arrive, to
    `DocumentJoiner` too, so whose the first weight is, depends on who is first. Use `FusionRetriever` there.

    Args:
        weights: One for each list, at least 0 and not all 0; 1 for each if there are none. With 0 a list
            adds no documents.
        top_k: How many documents to return, at least 1; None for all.
        rank_constant: A finite number above 0.

    Raises:
        ValueError: A number is out of its range.
        TypeError: A value is of the wrong type.
    """

    def __init__(
        self, *, weights: Sequence[float] | None = None, top_k: int | None = None, rank_constant: float = 60
    ) -> None:
        self.weights = list(weights or ()) or None
        lists: list[list[Document]] = [[] for _ in self.weights or ()]
        fuse(lists, weights=self.weights, top_k=top_k, rank_constant=rank_constant)  # refuses what is wrong
        if self.weights and not any(self.weights):
            raise ValueError(f"weights must not all be 0, as are {weights!r}")
        self.top_k = top_k
        self.rank_constant = rank_constant

    @component.output_types(documents=list[Document])
    def run(self, documents: Variadic[list[Document]], top_k: int | None = None) -> dict[str, Any]:
        """Join lists of documents.

        Args:
            documents: The lists, each best first.
            top_k: How many documents to return, at least 0; that of the constructor if None.

        Returns:
            `documents`, best first.

        Raises:
            ValueError: `top_k` is below 0, or there are not as many lists as weights.
            TypeError: `top_k` is no whole number.
        """
        most = self.top_k if top_k is None else top_k
        if most == 0:
            return {"documents": []}
        hits = fuse(documents, weights=self.weights, top_k=most, rank_constant=self.rank_constant, key=_id_of)
        return {"documents": [_fused(hit) for hit in hits]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, documents: Variadic[list[Document]], top_k: int | None = None
    ) -> dict[str, Any]:
        """Do the same as `run`, which waits for nothing."""
        result: dict[str, Any] = self.run(documents, top_k)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return what a saved pipeline holds of it."""
        return default_to_dict(self, weights=self.weights, top_k=self.top_k, rank_constant=self.rank_constant)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the component that `to_dict` was called on."""
        return default_from_dict(cls, data)


@component
class FusionRetriever:
    """Asks several retrievers at the same time, and fuses what they give by reciprocal rank.

    A retriever that fails, or is late where there is a `timeout`, costs its own documents only; `coverage`
    and `degraded` say so. If none answered and there are no documents, `DegradedError` is raised.

    Documents are copies: `score` is the sum of the contributions, and `meta["rrf"]` has the `rank`, the
    `ranks` by retriever, and `normalized`, the score as a share of the highest possible.

    `run_async` asks a retriever that has a `run_async` on the event loop, and any other in a thread. `run`
    asks all of them in threads, by their own `run`. It may be called where an event loop runs, which it
    then holds up. Both warm up the retrievers first, which those that are warm must not mind.

    Args:
        retrievers: By arm name, at least one; components, or anything that has a `run` with a `query`, and
            maybe a `run_async`, that give `{"documents": [...]}`, best first. Their order decides ties.
        weights: At least 0 and not all 0, by arm name; 1 if not given.
        breaker: When a retriever that fails again and again is left alone; see `Pipeline`. Neither this
            nor hedging can be saved with a pipeline of Haystack.
        hedging: When a retriever that is late is asked a second time; see `Pipeline`.
        options: Such as `top_k`, 10 if not given, `timeout` or `quorum`; see `FusionOptions`. `key`, which
            is the id of the document, is not among them.

    Raises:
        ValueError: A value is out of its range, or for a retriever that there is not.
        TypeError: A value is of the wrong type, or there is no such option.
    """

    def __init__(
        self,
        retrievers: Mapping[str, Any],
        *,
        weights: Mapping[str, float] | None = None,
        breaker: Breaker | Mapping[str, Breaker] | None = None,
        hedging: Hedging | Mapping[str, Hedging] | None = None,
        **options: Unpack[FusionOptions],
    ) -> None:
        if not isinstance(retrievers, Mapping):
            raise TypeError(f"retrievers must be a mapping of names to retrievers, not {retrievers!r}")
        self._retrievers = dict(retrievers)
        self._pipeline = TwoWayPipeline(
            {name: two_ways(retriever, dict) for name, retriever in self._retrievers.items()},
            weights=weights,
            breaker=breaker,
            hedging=hedging,
            **options,
        )
        policies = {"breaker": breaker, "hedging": hedging}
        self._parameters: dict[str, Any] = {
            "weights": None if weights is None else dict(weights),
            **{name: policy for name, policy in policies.items() if policy is not None},
            **options,
        }

    @property
    def retrievers(self) -> Mapping[str, Any]:
        """The retrievers by arm name, to be read only: the fusion is made of them."""
        return MappingProxyType(self._retrievers)

    @component.output_types(documents=list[Document], coverage=dict[str, Any], degraded=bool)
    def run(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k_per_retriever: int | None = None,
        top_k: int | None = None,
    ) -> dict[str, Any]:
        """Ask the retrievers, and wait for the answer.

        Args:
            query: What all of them are asked.
            filters: Given to each of them, unless None.
            top_k_per_retriever: Given to each of them as `top_k`, unless None.
            top_k: How many documents to return, at least 1; that of the constructor if None.

        Returns:
            `documents`, best first; `coverage`, how far each retriever got, in plain JSON types;
            `degraded`, whether one of them did not answer in full.

        Raises:
            DegradedError: No retriever answered, and there are no documents.
            ValueError: `top_k` is below 1.
            TypeError: `top_k` is no whole number.
        """
        self.warm_up()
        asked = _asked(query, filters, top_k_per_retriever)
        return _answer(self._pipeline.search_and_wait(asked, **_limit(top_k)))

    @component.output_types(documents=list[Document], coverage=dict[str, Any], degraded=bool)
    async def run_async(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k_per_retriever: int | None = None,
        top_k: int | None = None,
    ) -> dict[str, Any]:
        """Do the same as `run` on the event loop."""
        await self.warm_up_async()
        asked = _asked(query, filters, top_k_per_retriever)
        return _answer(await self._pipeline.search(asked, **_limit(top_k)))

    def warm_up(self) -> None:
        """Warm up the retrievers that can be."""
        for retriever in self.retrievers.values():
            if hasattr(retriever, "warm_up"):
                retriever.warm_up()

    async def warm_up_async(self) -> None:
        """Warm up the retrievers that can be, on the event loop where they have a way for that."""
        await self._each("warm_up")

    def close(self) -> None:
        """Close the retrievers that can be."""
        for retriever in self.retrievers.values():
            if hasattr(retriever, "close"):
                retriever.close()

    async def close_async(self) -> None:
        """Close the retrievers that can be, on the event loop where they have a way for that."""
        await self._each("close")

    async def _each(self, what: str) -> None:
        for retriever in self.retrievers.values():
            if hasattr(retriever, f"{what}_async"):
                await getattr(retriever, f"{what}_async")()
            elif hasattr(retriever, what):
                getattr(retriever, what)()

    def to_dict(self) -> dict[str, Any]:
        """Return what a saved pipeline holds of it; Haystack refuses what is not plain, such as a kernel."""
        retrievers = {name: component_to_dict(retriever, name) for name, retriever in self.retrievers.items()}
        return default_to_dict(self, retrievers=retrievers, **self._parameters)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the component that `to_dict` was called on."""
        parameters = deepcopy(data.get("init_parameters", {}))  # as retrievers may change what they read
        parameters["retrievers"] = {
            name: component_from_dict(import_class_by_name(each["type"]), each, name)
            for name, each in parameters.get("retrievers", {}).items()
        }
        return default_from_dict(cls, {**data, "init_parameters": parameters})


def _asked(query: str, filters: dict[str, Any] | None, top_k: int | None) -> dict[str, Any]:
    given = {"filters": filters, "top_k": top_k}
    return {"query": query, **{name: value for name, value in given.items() if value is not None}}


def _limit(top_k: int | None) -> FusionOptions:
    return {} if top_k is None else {"top_k": top_k}


def _id_of(document: Document) -> str:
    return document.id


def _fused(hit: FusedHit) -> Document:
    about = {"rank": hit.rank, "ranks": dict(hit.ranks), "normalized": hit.normalized}
    document: Document = hit.item
    return replace(document, score=hit.score, meta={**document.meta, "rrf": about})


def _answer(final: Snapshot) -> dict[str, Any]:
    if not final.hits and not final.coverage.answered:  # nobody can see in an empty list what is missing
        final.raise_for_coverage()
    told = replace(final, hits=()).to_dict()
    return {
        "documents": [_fused(hit) for hit in final.hits],
        "coverage": told["coverage"],
        "degraded": final.coverage.degraded,
    }
