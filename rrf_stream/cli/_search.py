"""`rrf-stream search`: ask the arms of an index and show the answer while it gets better."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rrf_stream import Accumulator, Arm, open_fusion
from rrf_stream.cli import _screens as screens
from rrf_stream.cli import _words as words
from rrf_stream.cli._files import opened
from rrf_stream.cli._live import live_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rrf_stream import Snapshot
    from rrf_stream.cli._screens import Show
    from rrf_stream.retrievers.sqlite import SQLiteIndex

__all__ = ["DEPTH", "Question", "arms_of", "ask", "before", "retrievers_of", "screen", "search"]


DEPTH = 100
"""How many hits an arm gives, unless more are to be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What `search` is asked to do.

    Attributes:
        query: Any words.
        weights: The arms to ask, with their weights.
        top_k: Hits to show at most.
        timeout: Seconds for all arms together; None waits for all.
        settle: Leading positions that are enough once nothing can change them, at most `top_k`; None
            asks for every arm.
        output: "json" for one snapshot a line, "text" for people.
        explain: Whether to say where each score comes from.
    """

    query: str
    weights: Mapping[str, float]
    top_k: int
    timeout: float | None
    settle: int | None
    output: Literal["text", "json"]
    explain: bool


async def search(question: Question, *, db: Path) -> int:
    """Show the answer to a question; return 1 if it is empty because arms did not answer, else 0."""
    as_json = question.output == "json"
    async with opened(db) as index:
        if "dense" in question.weights:
            await index.prepare()
        depth = max(question.top_k, DEPTH)
        arms = arms_of(index, question.query, question.weights, depth=depth)
        with nullcontext(screens.json_line) if as_json else screen(aside=screens.note) as show:
            if not as_json:
                show(before(arms))
            final, _ = await ask(
                arms, show, top_k=question.top_k, budget=question.timeout, settle=question.settle
            )
    if question.explain and not as_json:
        screens.write()
        for line in words.explanation(final):
            screens.write(line)
    return int(final.coverage.degraded and not final.hits)


def arms_of(index: SQLiteIndex, query: str, weights: Mapping[str, float], *, depth: int = DEPTH) -> list[Arm]:
    """Return an arm for each of the index's retrievers that has a weight.

    Args:
        index: The index to ask.
        query: Any words.
        weights: By the names of `ARMS`.
        depth: How many hits each arm gives at most.
    """
    retrievers = retrievers_of(index)
    return [
        Arm(name, retrievers[name](query, limit=depth), weight=weight, window=depth)
        for name, weight in weights.items()
    ]


def retrievers_of(index: SQLiteIndex) -> dict[str, Any]:
    """Return all retrievers of an index, by the names of `ARMS`, each giving `DEPTH` hits at most."""
    return {"lexical": index.lexical, "dense": index.dense, "graph": index.graph}


def screen(*, aside: Callable[[str], None]) -> AbstractContextManager[Show]:
    """Return where an answer for people goes: a live table on a terminal, plain lines elsewhere.

    Args:
        aside: Gets the plain lines that are no hits.
    """
    return live_table() if screens.is_watched(sys.stdout) else nullcontext(screens.plain_lines(aside))


def before(arms: Sequence[Arm]) -> Snapshot:
    """Return what there is to show before arms are asked; the first picture is best drawn by then."""
    return Accumulator(arms).snapshot()


async def ask(
    arms: Sequence[Arm], show: Show, *, top_k: int, budget: float | None, settle: int | None = None
) -> tuple[Snapshot, Mapping[str, list[Any]]]:
    """Show every snapshot; return the final one, and the ids that each arm delivered.

    Args:
        arms: Whom to ask.
        show: Called with every snapshot.
        top_k: Hits at most.
        budget: Seconds for all arms together; None waits for all.
        settle: Leading positions that are enough once nothing can change them; None asks for every arm.
    """
    until: Literal["complete", "settled"] = "complete" if settle is None else "settled"
    async with open_fusion(arms, top_k=top_k, timeout=budget, until=until, settle=settle) as fusion:
        async for snapshot in fusion:
            show(snapshot)
        return await fusion.final(), fusion.rankings()
