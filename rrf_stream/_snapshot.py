"""What users hold: an immutable view of one moment of a fusion.

Rows, of which a snapshot holds many, are named tuples: one is made in a third
of the time that a frozen dataclass takes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral
from typing import Any, NamedTuple, Protocol

from rrf_stream._coverage import Coverage
from rrf_stream._fields import (
    Fields,
    a_count,
    a_flag,
    a_name,
    a_number,
    as_id,
    coverage_from,
    hits_from,
    list_of,
    maybe,
    one_of,
)
from rrf_stream._plain import coverage_to, plain
from rrf_stream.errors import DegradedError

__all__ = ["FIRST_BOUND", "Delta", "FusedHit", "Outcome", "Snapshot"]


class Outcome(StrEnum):
    """Why a fusion ended."""

    COMPLETE = "complete"
    """Every arm had closed: in full, or by its own timeout or failure."""
    DEADLINE = "deadline"
    """The time budget was spent."""
    SETTLED = "settled"
    """Nothing that was still to come could change the top."""
    QUORUM = "quorum"
    """Arms with enough of the weight had ended, and the patience for the others was over."""
    STOPPED = "stopped"
    """The reader called `stop()`, or left."""
    FAILED = "failed"
    """A required arm failed, or was not read: rejected or skipped."""


class FusedHit(NamedTuple):  # noqa: PLW1641 - its ranks have no hash either
    """One document of the fused ranking.

    Two hits are equal if all but the bounds `upper`, `best_rank` and `worst_rank` are: so what `fuse`
    gives, which knows of no future, equals what a snapshot shows.

    Attributes:
        id: The id, as the first-declared arm that ranked the document gave it.
        rank: Position in the fused ranking, from 1.
        score: Sum of the contributions, correct to one part in 10**15 or 1e-15.
        normalized: `score` over what all configured arms together could give at rank 1:
            0..1, and it does not grow when an arm is missing.
        item: The copy shown: that of the first-declared arm that returned one; None if none did.
        items: The copy of each arm that returned one, in the order of the arms; not to be changed.
        ranks: The rank in each arm that ranked the document, in the order of the arms; a
            read-only mapping, of which `dict` makes a dictionary.
        upper: Highest score the document can still reach in this fusion; None with `bounds="off"`.
        best_rank: Best rank the document can still reach in it; None unless `bounds="ranks"`.
        worst_rank: A rank below which the document cannot fall in it, the tightest one while a single
            arm is open; None unless `bounds="ranks"`.
    """

    id: Any
    rank: int
    score: float
    normalized: float
    item: Any
    items: Mapping[str, Any]
    ranks: Mapping[str, int]
    upper: float | None = None
    best_rank: int | None = None
    worst_rank: int | None = None

    def certainly_within(self, n: int) -> bool:
        """Return whether the document is among the first `n` at the end, whatever is still to come.

        What arms that were cut off might have delivered does not come any more; `exact` speaks of that.

        Args:
            n: A rank, at least 1.

        Raises:
            ValueError: `n` is below 1, or the hit has no bounds on its rank.
            TypeError: `n` is no whole number.
        """
        if not isinstance(n, Integral):
            raise TypeError(f"n must be a whole number of at least 1, not {n!r}")
        if n < 1:
            raise ValueError(f"n must be a whole number of at least 1, not {n!r}")
        if self.worst_rank is None:
            raise ValueError("certainly_within needs a hit of a fusion with bounds='ranks'")
        return self.worst_rank <= n

    def __eq__(self, other: object) -> bool:
        """Return whether another hit shows the same, whatever is said of the future of either."""
        if isinstance(other, FusedHit):
            return self[:FIRST_BOUND] == other[:FIRST_BOUND]
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        """Return whether another hit shows something else."""
        return not self == other


FIRST_BOUND = FusedHit._fields.index("upper")
"""From here on the fields of a hit speak of the future."""


@dataclass(frozen=True, slots=True)
class Delta:
    """How the top-k changed between two snapshots. False if it did not.

    Attributes:
        entered: Ids that are new, best first.
        left: Ids that are gone, in the order they had.
        moved: The ranks before and after, for ids whose rank changed, best first.
    """

    entered: tuple[Any, ...]
    left: tuple[Any, ...]
    moved: Mapping[Any, tuple[int, int]]

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.entered or self.left or self.moved)


class Outside(Protocol):
    """Knows of the documents outside the top, as they were at the moment of a snapshot."""

    @property
    def contenders(self) -> tuple[Any, ...]:
        """Ids that may still enter the top-k, in order."""

    @property
    def theta(self) -> float:
        """The highest score that one of them can reach, over the lowest score inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The fused top-k at one moment, exact for what had arrived by then.

    Attributes:
        hits: The top-k, best first.
        seq: Number of this snapshot in its stream, from 1.
        elapsed: Seconds since the start of the fusion; None without a clock.
        final: Whether this is the last snapshot; exactly one of a stream is.
        outcome: Why the fusion ended; None while it goes on.
        coverage: Which arms answered, and why the others did not.
        settled: Leading positions that no further event of this fusion can change. At its end that
            is all of them, whatever was cut off.
        exact: Leading positions that would be the same had every arm delivered its whole window,
            also those that were cut off, failed or never answered; never more than `settled`.
        settled_set: Leading positions of which that holds in any order: the greatest number of hits
            that no further event can drive out of that many first positions; at least `settled`.
        exact_set: The same had every arm delivered its whole window; at least `exact`.
        unseen_possible: Whether an id that no arm with a weight has ranked may still enter the top-k.
        blocking_arms: Arms that the first position which is not settled waits for, in the order of
            the arms; an empty position waits for every arm that is open.

    What speaks of the future, from `settled` on, is None with `bounds="off"`.
    """

    hits: tuple[FusedHit, ...]
    seq: int
    elapsed: float | None
    final: bool
    outcome: Outcome | None
    coverage: Coverage
    settled: int | None = None
    exact: int | None = None
    settled_set: int | None = None
    exact_set: int | None = None
    unseen_possible: bool | None = None
    blocking_arms: tuple[str, ...] | None = None
    _outside: Outside | None = field(default=None, repr=False, compare=False)

    @property
    def contenders(self) -> tuple[Any, ...] | None:
        """Ids outside the top-k that may still enter it, in their present order; None with `bounds="off"`.

        There may be many. They are found when first asked for, as they were at this moment.
        """
        return None if self._outside is None else self._outside.contenders

    @property
    def theta(self) -> float | None:
        """Highest score that a document outside the hits can reach, over the lowest score of a hit.

        No document that is missing will beat the last hit by more than this factor. At least 0; infinite
        where there is no hit with a score to compare with; None with `bounds="off"`. Found when first
        asked for, as `contenders` are.
        """
        return None if self._outside is None else self._outside.theta

    @property
    def ids(self) -> list[Any]:
        """The ids of the hits, best first."""
        return [hit.id for hit in self.hits]

    def delta(self, previous: Snapshot | None) -> Delta:
        """Return what changed since an earlier snapshot, or since nothing if there is none."""
        before = {} if previous is None else {hit.id: hit.rank for hit in previous.hits}
        after = {hit.id: hit.rank for hit in self.hits}
        return Delta(
            entered=tuple(id_ for id_ in after if id_ not in before),
            left=tuple(id_ for id_ in before if id_ not in after),
            moved={
                id_: (before[id_], rank)
                for id_, rank in after.items()
                if id_ in before and before[id_] != rank
            },
        )

    def raise_for_coverage(self) -> None:
        """Raise if an arm closed short, like an HTTP client's `raise_for_status()`.

        Raises:
            DegradedError: The message names each such arm; its `__cause__` is the first arm's
                own error, if one raised.
        """
        if not self.coverage.degraded:
            return
        short = [report for report in self.coverage.arms if report.status.is_short]
        named = ", ".join(f"{report.name} ({report.status} after {report.received} hits)" for report in short)
        cause = next((report.error for report in short if report.error is not None), None)
        raise DegradedError(f"arms that did not answer in full: {named}", coverage=self.coverage) from cause

    def to_dict(self) -> dict[str, Any]:
        """Return the snapshot in plain JSON types.

        Items are converted as far as JSON goes: mappings, sequences, arrays and dataclasses by
        their parts, numbers that JSON lacks to None, everything else by `str`, keys too.
        """
        names = [one.name for one in dataclasses.fields(self) if one.repr]
        fields = {name: getattr(self, name) for name in (*names, "contenders", "theta")}
        fields["hits"] = [hit._asdict() for hit in self.hits]
        fields["coverage"] = coverage_to(self.coverage)
        converted: dict[str, Any] = plain(fields)
        return converted

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Snapshot:
        """Return the snapshot that `to_dict` told of, here or elsewhere, after JSON or before.

        Its own `to_dict` gives the same again. Items and ids stay as JSON has them, but in an id lists
        are tuples, and dictionaries are read-only mappings, so that every id is hashable. The error of
        an arm is a `ReportedError` of the same words.

        Args:
            data: What `to_dict` returned. Further fields, as of a later version, are ignored; what
                speaks of the future may be missing.

        Raises:
            ValueError: A field is missing, or is not what it must be; the message names it.
        """
        fields = Fields(data)
        contenders = fields.read("contenders", maybe(list_of(as_id)), None)
        theta = fields.read("theta", maybe(a_number), None)
        return cls(
            hits=tuple(FusedHit(**hit) for hit in hits_from(fields)),
            seq=fields.read("seq", a_count),
            elapsed=fields.read("elapsed", maybe(a_number)),
            final=fields.read("final", a_flag),
            outcome=fields.read("outcome", maybe(one_of(Outcome))),
            coverage=coverage_from(fields.object("coverage")),
            **{name: fields.read(name, maybe(a_count), None) for name in _POSITIONS},
            unseen_possible=fields.read("unseen_possible", maybe(a_flag), None),
            blocking_arms=fields.read("blocking_arms", maybe(list_of(a_name)), None),
            _outside=None if contenders is None else _Told(contenders, math.inf if theta is None else theta),
        )


_POSITIONS = ("settled", "exact", "settled_set", "exact_set")


class _Told(NamedTuple):
    """What was told of the documents outside the top; JSON has no infinity, so null stands for it."""

    contenders: tuple[Any, ...]
    theta: float
