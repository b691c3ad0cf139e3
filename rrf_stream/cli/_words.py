"""What is on the screen, in words: pure functions, shared by the live table and by plain lines."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rrf_stream import ArmStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rrf_stream import ArmReport, FusedHit, Snapshot

__all__ = [
    "Moves",
    "arm_state",
    "closing",
    "duration",
    "explanation",
    "one_line",
    "place_of",
    "ranks",
    "title_of",
    "visible",
]

# Invisible, but part of how words and emoji are written.
_JOINERS = "\u200c\u200d"
_RANK_CONSTANT = 60


def visible(text: str) -> str:
    """Return text that a terminal shows as it is and never obeys.

    Control characters, and with them escape sequences and line ends, are written out as in Python's
    source, and so are marks that turn the reading direction.
    """
    return "".join(
        char if char.isprintable() or char in _JOINERS else char.encode("unicode_escape").decode()
        for char in text
    )


def one_line(text: str, limit: int = 160) -> str:
    """Return the beginning of a text as one line: `visible`, with every white space as one blank."""
    words = " ".join(text[: 10 * limit].split())
    return visible(words if len(words) <= limit else f"{words[: limit - 1].rstrip()}…")


def duration(seconds: float | None) -> str:
    """Return a duration for people: `12 ms`, `1.3 s`."""
    if seconds is None:
        return "unknown time"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def title_of(hit: FusedHit) -> str:
    """Return the title of a hit's document, or its id, on one line."""
    return one_line(getattr(hit.item, "title", "") or str(hit.id))


def place_of(hit: FusedHit) -> str:
    """Return the id of a hit if it says more than the title; a path, as seen from the current folder."""
    name = str(hit.id)
    if name == (getattr(hit.item, "title", "") or name):
        return ""
    if Path(name).is_absolute():
        with suppress(OSError, ValueError):
            name = str(Path(name).relative_to(Path.cwd()))
    return visible(name)


def ranks(hit: FusedHit) -> str:
    """Return which arms ranked a hit and where: `lexical 1, dense 3`."""
    return ", ".join(f"{arm} {rank}" for arm, rank in hit.ranks.items())


def arm_state(report: ArmReport) -> str:
    """Return what an arm is doing or has done."""
    hits = "1 hit" if report.received == 1 else f"{report.received} hits"
    match report.status:
        case ArmStatus.WAITING:
            return "waiting"
        case ArmStatus.STREAMING:
            return f"streaming, {hits} so far"
        case ArmStatus.EXHAUSTED | ArmStatus.WINDOW_FULL:
            return f"done in {duration(report.elapsed)}, {hits}"
        case ArmStatus.TIMED_OUT | ArmStatus.DEADLINE:
            return f"timed out after {hits}, {duration(report.elapsed)}"
        case ArmStatus.IDLE:
            return f"gone quiet after {hits}, {duration(report.elapsed)}"
        case ArmStatus.FAILED:
            error = report.error
            return f"failed after {hits}: {type(error).__name__}: {one_line(str(error))}"
        case ArmStatus.REJECTED:
            return "not started: no thread was free"
        case ArmStatus.SKIPPED:
            return f"not asked: tried again in {duration(report.retry_after)}"
        case ArmStatus.STOPPED:
            return f"stopped after {hits}: no more was needed"
        case ArmStatus.CANCELLED:
            return f"cancelled after {hits}"


def closing(snapshot: Snapshot) -> str:
    """Return what a final answer is worth, in one line."""
    number = len(snapshot.hits)
    hits = "no hits" if not number else "1 hit" if number == 1 else f"{number} hits"
    coverage = snapshot.coverage
    if not coverage.degraded:
        return f"complete after {duration(snapshot.elapsed)}: {hits}, every arm answered in full"
    short = ", ".join(f"{arm.name} {arm_state(arm)}" for arm in coverage.arms if arm.status.is_short)
    line = f"degraded after {duration(snapshot.elapsed)}: {hits}; {short}"
    if snapshot.exact is not None:
        line += f"; the first {snapshot.exact} would be the same had every arm answered"
    return line


def explanation(snapshot: Snapshot) -> Iterator[str]:
    """Yield, for each hit, lines that say where its score comes from and what it is."""
    weights = {arm.name: arm.weight for arm in snapshot.coverage.arms}
    for hit in snapshot.hits:
        yield f"{hit.rank}. {title_of(hit)}"
        parts = [
            f"{'' if weights[arm] == 1 else f'{weights[arm]:g} * '}1/({_RANK_CONSTANT}+{rank}) {arm}"
            for arm, rank in hit.ranks.items()
        ]
        yield f"   {hit.score:.5f} = {' + '.join(parts)}"
        if place := place_of(hit):
            yield f"   {place}"
        if excerpt := one_line(getattr(hit.item, "text", "")):
            yield f"   {excerpt}"


class Moves:
    """What became of every hit since it entered: what is new, what rose and what fell.

    Feed it every snapshot that is shown, in order.
    """

    def __init__(self) -> None:
        self._entered: dict[object, int] = {}
        self._first = True

    def see(self, snapshot: Snapshot) -> dict[object, str]:
        """Return a word for each hit: `new`, `▲2` if it rose by two places, `▼1`, or nothing."""
        known, self._entered = self._entered, {}
        words: dict[object, str] = {}
        for hit in snapshot.hits:
            before = self._entered[hit.id] = known.get(hit.id, hit.rank)
            if hit.id not in known:
                words[hit.id] = "" if self._first else "new"
            elif before == hit.rank:
                words[hit.id] = ""
            else:
                words[hit.id] = f"{'▲' if hit.rank < before else '▼'}{abs(before - hit.rank)}"
        self._first = self._first and not snapshot.hits
        return words
