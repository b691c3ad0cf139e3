"""What is on the screen, in words: pure functions, shared by the live table and by plain lines."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rrf_stream import ArmStatus, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rrf_stream import ArmReport, FusedHit, Snapshot

__all__ = [
    "Moves",
    "arm_state",
    "certain",
    "closing",
    "duration",
    "ending",
    "explanation",
    "is_as_wanted",
    "one_line",
    "place_of",
    "promise",
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
    return "; ".join(filter(None, (ending(snapshot), promise(snapshot))))


def ending(snapshot: Snapshot) -> str:
    """Return how an answer ended: what there is, and which arms did not answer in full."""
    number = len(snapshot.hits)
    hits = "no hits" if not number else "1 hit" if number == 1 else f"{number} hits"
    coverage = snapshot.coverage
    if not coverage.degraded:
        return f"complete after {duration(snapshot.elapsed)}: {hits}, every arm answered in full"
    how = "settled" if is_as_wanted(snapshot) else "degraded"
    short = ", ".join(f"{arm.name} {arm_state(arm)}" for arm in coverage.arms if arm.status.is_short)
    return f"{how} after {duration(snapshot.elapsed)}: {hits}; {short}"


def is_as_wanted(snapshot: Snapshot) -> bool:
    """Return whether a final answer lacks nothing but what it was to be spared, as enough was settled."""
    return all(
        arm.status is ArmStatus.STOPPED and snapshot.outcome is Outcome.SETTLED
        for arm in snapshot.coverage.arms
        if arm.status.is_short
    )


def certain(snapshot: Snapshot) -> int:
    """Return how many leading hits are certain.

    While the answer grows, these are the ones that nothing can change that is still to come. In the
    end that is all of them, so then they are those that an arm cut short could not have changed.
    """
    return (snapshot.exact if snapshot.final else snapshot.settled) or 0


def promise(snapshot: Snapshot) -> str:
    """Return what is certain of an answer, and what the rest waits for; nothing if that goes without saying.

    As `certain` has it: in the end it says what would be the same had no arm been cut short.
    """
    number = len(snapshot.hits)
    if not number or snapshot.settled is None:
        return ""
    sure = certain(snapshot)
    first = "the first" if sure == 1 else f"the first {sure}"
    if snapshot.final:
        if not snapshot.coverage.degraded:
            return ""
        if not sure:
            return "even the first might be another had every arm delivered its whole window"
        return f"{first} would be the same had every arm delivered its whole window"
    final = f"{first} {'is' if sure == 1 else 'are'} final"
    if not snapshot.blocking_arms:
        return f"{final}, whatever is still to come"
    following = sure + 1
    # Only of the first place that is open is it known whom it waits for.
    waits = f"{following} waits for {_listed(snapshot.blocking_arms)}"
    if not sure:
        return f"none is final yet: {waits}"
    if sure == number:
        return f"{final}; more may follow: {waits}"
    rest = f"{number}" if following == number else f"{following}-{number}"
    return f"{final}; {rest} may still change: {waits}"


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


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
