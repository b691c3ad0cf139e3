"""Where answers go when nobody watches them move: lines for a pipe, JSON for a program."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from typing import TextIO, TypeAlias

from rrf_stream import Snapshot
from rrf_stream.cli import _words as words

__all__ = ["Show", "is_watched", "json_line", "note", "nothing", "plain_lines", "write"]

Show: TypeAlias = Callable[[Snapshot], None]
"""Shows a snapshot in place of the one before."""


def write(line: str = "") -> None:
    """Write a line of the answer to standard output, at once."""
    print(line, file=sys.stdout, flush=True)  # noqa: T201 - this is where the command prints


def note(line: str) -> None:
    """Write a line for people, beside the answer, to standard error, unless that is closed."""
    if sys.stderr is not None:  # else print would take standard output
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - and this is the other place


def nothing() -> None:
    """Show nothing, where progress is not watched."""


def is_watched(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that can move its cursor."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}


def plain_lines(aside: Callable[[str], None]) -> Show:
    """Return what writes the final answer, a line a hit: rank, score, id, title and ranks between tabs.

    Args:
        aside: Gets a line for each arm, and one on the whole answer.
    """

    def show(snapshot: Snapshot) -> None:
        if not snapshot.final:
            return
        for hit in snapshot.hits:
            what = (words.visible(str(hit.id)), words.title_of(hit), words.ranks(hit))
            write("\t".join((f"{hit.rank}", f"{hit.score:.5f}", *what)))
        for arm in snapshot.coverage.arms:
            aside(f"{arm.name}: {words.arm_state(arm)}")
        aside(words.closing(snapshot))

    return show


def json_line(snapshot: Snapshot) -> None:
    """Write a snapshot as one line of JSON; if it is a degraded answer, say so beside it.

    All arms return copies of one index, so `items`, the copy of each arm, is left empty.
    """
    hits = tuple(hit._replace(items={}) for hit in snapshot.hits)
    write(json.dumps(dataclasses.replace(snapshot, hits=hits).to_dict()))
    if snapshot.final and snapshot.coverage.degraded:
        note(words.closing(snapshot))
