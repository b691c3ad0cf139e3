"""`rrf-stream demo`: Python's own documentation, asked in ways on which the arms disagree."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from rrf_stream import Page
from rrf_stream.cli import _screens as screens
from rrf_stream.cli import _words as words
from rrf_stream.cli._cache import python_index
from rrf_stream.cli._options import ARMS
from rrf_stream.cli._search import arms_of, ask, before, screen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from rrf_stream import Hit, Snapshot
    from rrf_stream.retrievers.sqlite import Source, SQLiteIndex

__all__ = ["demo"]

_TOP_K = 7
_WEIGHTS = dict.fromkeys(ARMS, 1.0)
# Seconds for all arms together.
_BUDGET = 1.0
_SHORT_BUDGET = 0.3
# Seconds for each snapshot on a terminal.
_SLOW_MOTION = 0.3
# What the arm that is held back delivers before it falls silent.
_HELD_ARM = "dense"
_HELD_HITS = 2

# Queries, and why they are worth a look.
_EXAMPLES = {
    "compress a file": """\
Each arm has a first choice of its own: lexical what has these words most, dense what means
them, graph what belongs to lexical's finds. First comes what all of them have near the top.""",
    "mersenne twister": """\
One docstring has these words: lexical finds it, and graph what belongs to it. Dense does not
know them and guesses, and as ranks do not say how sure an arm is, its guesses stand among the
rest. A weight would put them last: see --arm dense=0.5 at the end.""",
    "copy a file with its permissions": """\
Here agreement counts: what all three arms rank, even low, passes what only one or two of
them rank high.""",
}


async def demo() -> int:
    """Run the tour; return 0."""
    async with python_index() as index:
        await index.prepare()
        if screens.is_watched(sys.stdout):
            screens.write("The first answers are shown in slow motion; the times are those of the arms.")
        for number, (query, why) in enumerate(_EXAMPLES.items(), start=1):
            screens.write(f"\n== {number}. {query} ==\n{why}")
            arms = arms_of(index, query, _WEIGHTS)
            seen = [before(arms)]
            full, rankings = await ask(arms, seen.append, top_k=_TOP_K, budget=_BUDGET)
            await _replay(seen)
            for arm, ranking in rankings.items():
                screens.write(f"{arm} alone begins with {', '.join(map(str, ranking[:2])) or 'nothing'}")
        await _degraded(index, query, full)
    _next_steps(index.path)
    return 0


async def _degraded(index: SQLiteIndex, query: str, full: Snapshot) -> None:
    """Ask once more with one arm held back, and compare with the full answer."""
    screens.write(f"\n== {len(_EXAMPLES) + 1}. {query}, with {_HELD_ARM} held back on purpose ==")
    screens.write(
        f"After {_HELD_HITS} hits this demo keeps {_HELD_ARM} silent, as a server in trouble would be.\n"
        f"The answer comes at its deadline all the same, after {words.duration(_SHORT_BUDGET)}, "
        "and says what it lacks and how much of it is certain."
    )
    arms = [
        replace(arm, source=_held_back(arm.source)) if arm.name == _HELD_ARM else arm
        for arm in arms_of(index, query, _WEIGHTS)
    ]
    with screen(aside=screens.write) as show:
        show(before(arms))
        short, _ = await ask(arms, show, top_k=_TOP_K, budget=_SHORT_BUDGET)
    coverage = short.coverage
    screens.write(
        f"Coverage: {' and '.join(coverage.answered) or 'no arm'} answered in full, which is "
        f"{coverage.weight_fraction:.0%} of the weight."
    )
    change = full.delta(short)
    missing = [f"{id_} (was {full.ids.index(id_) + 1})" for id_ in change.entered]
    screens.write(f"Missing against the full answer: {', '.join(missing) or 'nothing'}.")
    screens.write(f"Here only because of that: {', '.join(map(str, change.left)) or 'nothing'}.")


async def _held_back(source: Source) -> AsyncIterator[Page[Hit]]:
    try:
        async for page in source:
            yield Page(page[:_HELD_HITS])
            await anyio.sleep_forever()
    finally:
        await source.aclose()


async def _replay(snapshots: Iterable[Snapshot]) -> None:
    """Show how an answer came about; an index on this machine is quicker than the eye."""
    with screen(aside=screens.write) as show:
        for snapshot in snapshots:
            show(snapshot)
            if screens.is_watched(sys.stdout) and not snapshot.final:
                await anyio.sleep(_SLOW_MOTION)


def _next_steps(db: Path) -> None:
    """Write commands to try, such that they work as they stand."""
    program, index = _command(), shlex.quote(str(db))
    screens.write("\n== Try next ==")
    for query, options in (
        ("read a csv file", ""),
        ("read a csv file", " --explain"),
        ("stop waiting for a slow task", " --timeout 50ms"),
        ("stop waiting for a slow task", " --until settled --settle 3"),
        ("heap invariant", " --arm dense=0.5"),
        ("heap invariant", " --arm lexical --arm graph --json"),
    ):
        screens.write(f"  {program} search '{query}' --db {index}{options}")
    screens.write("With text, Markdown and .jsonl files of your own, below the current folder:")
    screens.write(f"  {program} index . --db my-files.db")


def _command() -> str:
    """Return how this program is called: by its name if the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which("rrf-stream")
    if found is not None and Path(found).resolve() == called.resolve():
        return "rrf-stream"
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m rrf_stream"
    return shlex.quote(str(called.absolute()))
