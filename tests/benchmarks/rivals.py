"""The fusion core against the fusion steps of other libraries, on the same lists.

What is timed: one query at a time, and of it the fusion call alone. Ours is `fuse(rankings, top_k=10)` on
lists of ids: exact, with the ranks of each hit to read. Theirs is the call that each library makes once its
retrievers have answered, on documents, nodes or runs of its own that were made before the clock starts.

What is fair about it: those objects hold the very ids that our lists hold, in the same order, and no other
text, so that those who tell documents apart by their text have little to hash. LlamaIndex overwrites the
scores it is given, so each call gets wrappers of its own, likewise made before. ranx is compiled before
(which takes the most of a run), has one thread, and is asked for no normalisation. The rank constant is 60
or 61 and the first rank 0 or 1, which changes scores and not costs: before the clock starts, the ten best of
each library are checked to be ours, up to the order of equal scores.

What is not: LangChain, LlamaIndex and Haystack read a field of every document, and ours is given ids. On
documents, with a `key`, `fuse` would read one too and take about twice as long as here, for 3 x 50 longer
than LangChain. And ranx is made for the many queries of an experiment at once, which share its cost of
starting; a search has one query.

Needed: `pip install -e ".[rivals]"`, or any of these libraries; those that are missing are skipped.
Run: `python tests/benchmarks/rivals.py`, or with `--short` to see only that it runs.
"""

from __future__ import annotations

import gc
import math
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

from core import sample
from harness import Row, cpu_time, heading, show

from rrf_stream import fuse

Rankings = list[list[str]]

TOP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """The fusion step of a library, ready for some rankings.

    Attributes:
        call: Takes what `given` returns; this is timed.
        given: Returns what one call is given; this is not.
        ids: Reads the ids out of an answer, best first.
        constant: The rank constant that gives the library's order when ranks are from 1.
    """

    call: Callable[[Any], Any]
    given: Callable[[], object]
    ids: Callable[[Any], Iterable[str]]
    constant: int = 60

    def check(self, rankings: Rankings) -> None:
        """Raise if the ten best are others than ours: then the work is not the same."""
        ours = fuse(rankings, rank_constant=self.constant)
        scores = {hit.id: hit.score for hit in ours}
        theirs = [scores[id_] for id_ in [*self.ids(self.call(self.given()))][:TOP]]
        if len(theirs) != TOP or not all(map(math.isclose, theirs, (hit.score for hit in ours))):
            raise RuntimeError(f"the ten best differ: {theirs} instead of {ours[:TOP]}")


def langchain(rankings: Rankings) -> Rival:
    """Return `EnsembleRetriever.weighted_reciprocal_rank`, which gives all documents, best first."""
    from langchain_classic.retrievers import EnsembleRetriever  # noqa: PLC0415 - optional
    from langchain_core.documents import Document  # noqa: PLC0415 - optional
    from langchain_core.runnables import RunnableLambda  # noqa: PLC0415 - optional

    def unasked(_query: str) -> list[Document]:
        return []

    ensemble = EnsembleRetriever(
        retrievers=[RunnableLambda(unasked) for _ in rankings], weights=[1.0] * len(rankings)
    )
    lists = [[Document(page_content=id_) for id_ in ids] for ids in rankings]
    return Rival(
        call=ensemble.weighted_reciprocal_rank,
        given=lambda: lists,
        ids=lambda answer: (document.page_content for document in answer),
    )


def llamaindex(rankings: Rankings) -> Rival:
    """Return what `QueryFusionRetriever` does in the mode `reciprocal_rerank`, cut to ten."""
    from llama_index.core.llms import MockLLM  # noqa: PLC0415 - optional
    from llama_index.core.retrievers import QueryFusionRetriever  # noqa: PLC0415 - optional
    from llama_index.core.schema import NodeWithScore, TextNode  # noqa: PLC0415 - optional

    retriever = QueryFusionRetriever([], llm=MockLLM(), retriever_weights=[1.0] * len(rankings))
    nodes = [[TextNode(id_=id_, text=id_) for id_ in ids] for ids in rankings]
    return Rival(
        call=lambda results: retriever._reciprocal_rerank_fusion(results)[:TOP],
        given=lambda: {
            ("query", number): [NodeWithScore(node=node, score=1 / rank) for rank, node in enumerate(each, 1)]
            for number, each in enumerate(nodes)
        },
        ids=lambda answer: (hit.node.text for hit in answer),
        constant=59,
    )


def haystack(rankings: Rankings) -> Rival:
    """Return `DocumentJoiner.run` in the mode `reciprocal_rank_fusion`, cut to ten."""
    os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "false")  # it is read once, by the import
    from haystack import Document  # noqa: PLC0415 - optional
    from haystack.components.joiners import DocumentJoiner  # noqa: PLC0415 - optional

    joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=TOP)
    lists = [
        [Document(id=id_, content=id_, score=1 / rank) for rank, id_ in enumerate(ids, 1)] for ids in rankings
    ]
    return Rival(
        call=joiner.run,
        given=lambda: lists,
        ids=lambda answer: (document.id for document in answer["documents"]),
    )


def ranx(rankings: Rankings) -> Rival:
    """Return `ranx.fuse` by "rrf", which gives all documents of a run, best first."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # CPU time counts all threads
    from ranx import Run  # noqa: PLC0415 - optional
    from ranx import fuse as fuse_runs  # noqa: PLC0415 - optional

    runs = [Run({"query": {id_: 1 / rank for rank, id_ in enumerate(ids, 1)}}) for ids in rankings]
    return Rival(
        call=partial(fuse_runs, norm=None, method="rrf"),
        given=lambda: runs,
        ids=lambda answer: answer.run["query"],
    )


#: By the distribution: the library, and how many times as fast we want to be on each size.
RIVALS: dict[str, tuple[Callable[[Rankings], Rival], tuple[float, float]]] = {
    "langchain-classic": (langchain, (1.5, 2.5)),
    "llama-index-core": (llamaindex, (4, 8)),
    "haystack-ai": (haystack, (10, 8)),
    "ranx": (ranx, (20, 5)),
}

#: Arms, ids of each, ids in the pool, calls a turn: the sizes of the fusion core's own table.
SIZES = ((3, 50, 100, 100), (20, 1000, 8000, 2))


def row(what: str, rankings: Rankings, rival: Rival, *, wanted: float, times: int, turns: int) -> Row:
    """Measure ours and theirs by turns; the other's column tells how many times as fast we are."""
    gc.collect()
    gc.freeze()  # else every collection, before each turn and within, walks over all that was imported
    pairs = []
    for _ in range(turns):
        answers = map(rival.call, [rival.given() for _ in range(times)])
        pairs.append(
            (
                cpu_time(partial(fuse, rankings, top_k=TOP), times),
                cpu_time(partial(next, answers), times),
            )
        )
    found = Row.of(what, pairs, bar=f"<= {1 / wanted:.3f}", against="")
    return replace(found, against=f"{1 / found.ratio:.2f} times as fast, wanted {wanted:g}")


def main(*, short: bool) -> None:
    """Print the table, and what is not in it."""
    print(heading())
    rows = []
    for name, (make, wanted) in RIVALS.items():
        try:
            for (arms, length, pool, times), factor in zip(SIZES, wanted, strict=True):
                rankings = sample(arms, length, pool)
                rival = make(rankings)
                rival.check(rankings)
                rows.append(
                    row(
                        f"{arms} x {length} ids, {name} {version(name)}",
                        rankings,
                        rival,
                        wanted=factor,
                        times=1 if short else times,
                        turns=1 if short else 15,
                    )
                )
        except ModuleNotFoundError as error:
            print(f"skipped {name}: {error.name} is not installed")
    show(rows)


if __name__ == "__main__":
    main(short="--short" in sys.argv[1:])
