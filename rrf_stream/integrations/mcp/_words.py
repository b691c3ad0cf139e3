"""What is said about an answer: which arms are missing, what is certain, how far a search is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rrf_stream import ArmStatus
from rrf_stream.integrations.mcp._text import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rrf_stream import ArmReport, Snapshot

__all__ = ["called", "failure", "missing", "note", "progress"]

_LONGEST_NAME = 40
_LONGEST_TITLE = 80
_MOST_ARMS = 5  # that are named one by one


def called(arm: str, names: Mapping[str, str]) -> str:
    """Return how an arm is called in a sentence: `the vector index`, or its name in quotes."""
    return cut(one_line(names.get(arm, repr(arm))), _LONGEST_NAME)


def missing(snapshot: Snapshot, names: Mapping[str, str]) -> list[str]:
    """Return a sentence, without its full stop, for each arm that did not answer in full."""
    short = [report for report in snapshot.coverage.arms if report.status.is_short]
    said = [f"{called(report.name, names)} {_state(report)}" for report in short[:_MOST_ARMS]]
    rest = len(short) - len(said)
    return [*said, f"{rest} more did not answer in full"] if rest else said


def _state(report: ArmReport) -> str:
    """Return what an arm did instead of answering in full.

    What an error says stays out of it: it is meant for those who run the server.
    """
    number = report.received
    results = f"{number:,} result{'' if number == 1 else 's'}"
    match report.status:
        case ArmStatus.TIMED_OUT | ArmStatus.DEADLINE | ArmStatus.IDLE:
            within = "in time" if report.elapsed is None else f"within {_duration(report.elapsed)}"
            return f"gave only {results} {within}" if number else f"did not answer {within}"
        case ArmStatus.FAILED:
            after = f" after {results}" if number else ""
            return f"failed{after} ({cut(type(report.error).__name__, _LONGEST_NAME)})"
        case ArmStatus.SKIPPED:
            return f"was not asked, as it failed before; it is tried again in {_duration(report.retry_after)}"
        case ArmStatus.REJECTED:
            return "could not be asked, as too many searches are running"
        case _:
            return f"was not waited for, and gave {results}" if number else "was not waited for"


def note(snapshot: Snapshot, *, sentences: Sequence[str], complete: bool, certain: int, omitted: int) -> str:
    """Return what to tell about the completeness of an answer; nothing if all is well.

    Args:
        snapshot: The final one.
        sentences: What `missing` gave.
        complete: Whether a complete search would have found the same.
        certain: How many leading hits are shown that are certain.
        omitted: How many hits are not shown for lack of room.
    """
    parts = []
    if sentences and complete:
        parts.append(f"{_capital('; '.join(sentences))}, but that could not have changed these hits.")
    elif sentences:
        parts += [f"Results may be incomplete: {'; '.join(sentences)}.", _certainty(snapshot, certain)]
    if omitted:
        hits = "1 more hit was" if omitted == 1 else f"{omitted} more hits were"
        parts.append(f"{hits} left out for lack of room; a smaller top_k leaves more room for each.")
    return " ".join(parts)


def _certainty(snapshot: Snapshot, certain: int) -> str:
    number = len(snapshot.hits)
    if not number:
        return "That nothing was found does not mean that there is nothing."
    if not certain:
        return "Even the first hit might be another one in a complete search."
    if certain == number:
        return f"{'The hit is' if number == 1 else 'These hits are'} certain, but there may be more."
    first = "The first hit is" if certain == 1 else f"The first {certain} hits are"
    return f"{first} certain; what follows might change in a complete search."


def failure(snapshot: Snapshot, arm: str, names: Mapping[str, str]) -> str:
    """Return why there is no answer: an arm that every answer needs has failed."""
    return (
        f"there is no answer: {called(arm, names)}, which every answer needs, "
        f"{_state(snapshot.coverage[arm])}. This says nothing about what the documents hold; try again later."
    )


def progress(snapshot: Snapshot, *, names: Mapping[str, str], best: str) -> str:
    """Return how far a search is, on one line.

    Args:
        snapshot: One that is not final.
        names: How arms are called.
        best: The title of the first hit; empty if there is none.
    """
    number = len(snapshot.hits)
    parts = [f"{number} hit{'' if number == 1 else 's'} so far"]
    if sure := snapshot.settled or 0:
        parts.append("the first is certain" if sure == 1 else f"the first {sure} are certain")
    waiting = [called(report.name, names) for report in snapshot.coverage.arms if report.status.is_open]
    if waiting:
        more = ["..."] if len(waiting) > _MOST_ARMS else []
        parts.append(f"waiting for {', '.join([*waiting[:_MOST_ARMS], *more])}")
    if best:
        parts.append(f"best: {cut(best, _LONGEST_TITLE)}")
    return "; ".join(parts)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "a while"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
