"""Who watches fusions: what a telemetry of whatever kind is told, and the register of those that are."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rrf_stream._coverage import ArmReport, Coverage
    from rrf_stream._options import FusionOptions
    from rrf_stream._snapshot import Outcome, Snapshot

__all__ = [
    "FusionObserver",
    "FusionStart",
    "Observer",
    "add_observer",
    "fields_now",
    "observers",
    "remove_observer",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionStart:
    """What is known of a fusion when it starts.

    Attributes:
        number: Tells it from every other fusion of the process; the field `fusion` of its events.
        arms: One report an arm, in the order of the arms; all are open, and none has delivered.
        options: All of them, those included that were not given.
    """

    number: int
    arms: tuple[ArmReport, ...]
    options: FusionOptions


class FusionObserver:
    """Watches one fusion. Its methods do nothing, so that others override what they need only.

    They are called on the event loop of the fusion, in the middle of it: none may block. What one of
    them raises is reported as the event `observer_failed`, and does no harm to the fusion.

    `fusion_left` is the last call, but for `log_fields`: an arm that still cleans up may make events. It does
    not come if the event loop ends before the fusion is left.
    """

    __slots__ = ()

    def arm_started(self, arm: ArmReport, attempt: int) -> None:
        """Learn that an arm is about to be read.

        It is called in the context in which the arm's own code is going to run, a copy of that in which the
        fusion started. A context variable that is set here is seen by this attempt at the arm, in
        threads too, and by nobody else.

        Args:
            arm: Its report, as it stands now.
            attempt: 1, or 2 if the arm is hedged and asked again.
        """

    def attempt_failed(self, arm: str, attempt: int, error: BaseException | None) -> None:
        """Learn that one of two attempts at an arm failed, and that the other goes on."""

    def arm_closed(self, arm: ArmReport, attempt: int) -> None:
        """Learn how an arm ended; once an arm, also if it was skipped and never started.

        It may be cleaning up still. When its first result arrived is in the report.

        Args:
            arm: Its final report.
            attempt: Which of the attempts at it counted.
        """

    def snapshot_shown(self, snapshot: Snapshot) -> None:
        """Learn that the reader is given a snapshot: the final one, if it is, after `fusion_ended`."""

    def fusion_ended(self, outcome: Outcome, coverage: Coverage, elapsed: float) -> None:
        """Learn that every arm is closed, so that the next snapshot is the final one.

        Args:
            outcome: Why it ended.
            coverage: The final report of every arm.
            elapsed: Seconds from its start.
        """

    def fusion_left(self) -> None:
        """Learn that nobody reads the fusion any more: it was left, or dropped."""

    def log_fields(self, arm: str | None) -> Mapping[str, Any]:
        """Return fields to be added to an event of this fusion, for the log.

        Args:
            arm: The name of the arm that the event is about; None if it is about the whole fusion.
        """
        del arm
        return {}


class Observer:
    """Watches all fusions of the process. Override what is needed; see `FusionObserver` for the rules."""

    __slots__ = ()

    def fusion_started(self, fusion: FusionStart) -> FusionObserver | None:
        """Return what is to watch a fusion that starts; None for nothing.

        It is called in the context of whoever starts it: who enters it, or reads it first.
        """
        del fusion
        return None

    def log_fields(self) -> Mapping[str, Any]:
        """Return fields to be added to an event of no fusion, for the log; called wherever that happens."""
        return {}


_lock = Lock()
_registered: tuple[Observer, ...] = ()


def add_observer(observer: Observer) -> None:
    """Have all fusions watched that start from now on, unless they are by this one already.

    Raises:
        TypeError: `observer` is no `Observer`.
    """
    global _registered  # noqa: PLW0603 - there is one register, for the whole process
    if not isinstance(observer, Observer):
        raise TypeError(f"observer must be an Observer, not {observer!r}")
    with _lock:
        if observer not in _registered:
            _registered = (*_registered, observer)


def remove_observer(observer: Observer) -> None:
    """Have no more fusions watched, if they were; those that run are watched to their end."""
    global _registered  # noqa: PLW0603 - as above
    with _lock:
        _registered = tuple(one for one in _registered if one is not observer)


def observers() -> tuple[Observer, ...]:
    """Return who watches fusions now, in the order in which they were added."""
    return _registered


def fields_now() -> dict[str, Any]:
    """Return what observers add to an event of no fusion; nothing of one that raises."""
    fields: dict[str, Any] = {}
    for observer in _registered:
        with suppress(Exception):  # it is the event that matters
            fields.update(observer.log_fields())
    return fields
