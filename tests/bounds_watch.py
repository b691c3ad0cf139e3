"""Holds what snapshots say of the future against the future."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rrf_stream import FusedHit, Snapshot


class Watch:
    """Takes every snapshot of a stream, and asserts that none breaks what an earlier one has said.

    Attributes:
        snapshots: Those seen so far.
    """

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self._listed: Collection[Any] = ()
        self._last_seen: dict[Any, FusedHit] = {}

    def see(self, snapshot: Snapshot, listed: Collection[Any]) -> None:
        """Take the next snapshot.

        Args:
            snapshot: Of the same stream as those before.
            listed: The ids that arms of positive weight have delivered so far.
        """
        if self.snapshots:
            kept(self.snapshots[-1], snapshot, self._listed)
        shown = {hit.id: hit for hit in snapshot.hits}
        for id_, hit in self._last_seen.items():
            if hit.best_rank is not None:
                interval_kept(hit, shown.get(id_), len(shown))
        if snapshot.final:
            nothing_left(snapshot)
        self.snapshots.append(snapshot)
        self._listed = frozenset(listed)
        self._last_seen |= shown

    @property
    def promised(self) -> int:
        """How many positions were settled while something could still arrive, summed over the snapshots."""
        return sum(given(snapshot.settled) for snapshot in self.snapshots if not snapshot.final)


def given(value: int | None) -> int:
    """Return a value that must be there."""
    assert value is not None
    return value


def kept(before: Snapshot, after: Snapshot, known: Collection[Any]) -> None:
    """Assert that a later snapshot of a stream keeps what an earlier one has said."""
    positions, members = given(before.settled), given(before.settled_set)
    assert after.ids[:positions] == before.ids[:positions]
    assert {*after.ids[:members]} == {*before.ids[:members]}
    assert positions <= given(after.settled) <= given(after.settled_set)
    assert members <= given(after.settled_set)
    assert given(before.exact) <= positions
    assert before.contenders is not None
    for id_ in {*after.ids} - {*before.ids}:
        assert id_ in before.contenders or (before.unseen_possible and id_ not in known)


def interval_kept(before: FusedHit, after: FusedHit | None, shown: int) -> None:
    """Assert that a document went where it may go, and that its interval has not grown."""
    best, worst = given(before.best_rank), given(before.worst_rank)
    assert best <= before.rank <= worst
    if after is None:
        assert worst > shown
        return
    assert best <= given(after.best_rank) <= after.rank <= given(after.worst_rank) <= worst
    assert before.upper is not None
    assert after.upper is not None
    assert after.score <= after.upper <= before.upper


def nothing_left(final: Snapshot) -> None:
    """Assert that a final snapshot knows that it is."""
    size = len(final.hits)
    assert (final.settled, final.settled_set) == (size, size)
    assert (final.contenders, final.unseen_possible, final.blocking_arms) == ((), False, ())
    for hit in final.hits:
        if hit.best_rank is not None:
            assert (hit.best_rank, hit.worst_rank, hit.upper) == (hit.rank, hit.rank, hit.score)


def exact_in(snapshot: Snapshot, complete: Sequence[Any]) -> None:
    """Assert that what is exact is so: the same as in the ranking that all arms in full would have given."""
    positions, members = given(snapshot.exact), given(snapshot.exact_set)
    assert snapshot.ids[:positions] == complete[:positions]
    assert {*snapshot.ids[:members]} == {*complete[:members]}
