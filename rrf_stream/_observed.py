"""A fusion that is watched: whatever its journal is told goes to the observers, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from rrf_stream._arm_state import ArmState
from rrf_stream._coverage import ArmReport, Coverage, in_words
from rrf_stream._log import Journal
from rrf_stream._observers import FusionObserver, FusionStart, Observer, observers
from rrf_stream._options import Settings
from rrf_stream._pump import ArmRun
from rrf_stream._snapshot import Outcome, Snapshot
from rrf_stream._tasks import Spawn

__all__ = ["journal_of"]


def journal_of(states: Sequence[ArmState], settings: Settings) -> Journal:
    """Return the journal of a fusion that starts, and have those told who watch fusions.

    Args:
        states: Where its arms stand.
        settings: Its options.
    """
    watching = observers()
    return ObservedJournal(watching, states, settings) if watching else Journal()


class ObservedJournal(Journal):
    """What is reported of one fusion, and told to those who watch it."""

    __slots__ = ("_all_shown", "_closed", "_observers", "_states", "watched")

    def __init__(self, watching: Sequence[Observer], states: Sequence[ArmState], settings: Settings) -> None:
        super().__init__()
        self._states = states
        self._closed: list[tuple[ArmReport, int]] = []
        self._all_shown = False
        self._observers: list[FusionObserver] = []
        arms = tuple([state.report(None) for state in states])
        start = FusionStart(number=self.number, arms=arms, options=settings.as_options())
        for observer in watching:
            try:
                one = observer.fusion_started(start)
            except Exception as error:  # noqa: BLE001 - as below
                self._report(error)
            else:
                self._observers += [] if one is None else [one]
        self.watched = bool(self._observers)

    def spawning(self, spawn: Spawn) -> Spawn:
        return partial(self._spawn, spawn)

    def _spawn(self, spawn: Spawn, task: ArmRun, *args: Any) -> None:
        context = copy_context()  # the arm's own: what observers set there must not stay with the caller
        context.run(self._arm_started, task)
        context.run(spawn, task, *args)

    def _arm_started(self, task: ArmRun) -> None:
        report = task.state.report(None)
        self._tell(lambda observer: observer.arm_started(report, task.attempt))

    def arm_closed(self, report: ArmReport, attempt: int) -> None:
        super().arm_closed(report, attempt)
        self._closed.append((report, attempt))

    def flush(self) -> None:
        super().flush()
        while self._closed:
            self._tell_closed(*self._closed.pop(0))

    def _tell_closed(self, report: ArmReport, attempt: int) -> None:
        self._tell(lambda observer: observer.arm_closed(report, attempt))

    def attempt_failed(self, arm: str, attempt: int, error: BaseException | None) -> None:
        super().attempt_failed(arm, attempt, error)
        self._tell(lambda observer: observer.attempt_failed(arm, attempt, error))

    def fusion_closed(self, outcome: Outcome, arms: int, elapsed: float) -> None:
        super().fusion_closed(outcome, arms, elapsed)
        coverage = Coverage(tuple([state.final for state in self._states if state.final is not None]))
        self._tell(lambda observer: observer.fusion_ended(outcome, coverage, elapsed))

    def shown(self, snapshot: Snapshot) -> None:
        if self.watched and not self._all_shown:  # the final one may be asked for again, or after leaving
            self._all_shown = snapshot.final
            self._tell(lambda observer: observer.snapshot_shown(snapshot))

    def left(self) -> None:
        if self.watched:
            self.watched = False
            self._tell(lambda observer: observer.fusion_left())

    def _tell(self, call: Callable[[FusionObserver], None]) -> None:
        for observer in self._observers:
            try:
                call(observer)
            except Exception as error:  # noqa: BLE001 - it is the application's code; the search goes on
                self._report(error)

    def _report(self, error: Exception) -> None:
        self._emit("observer_failed", warning=True, error=in_words(error))

    def _added(self, arm: str | None) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for observer in self._observers:
            with suppress(Exception):  # it is the event that matters
                fields.update(observer.log_fields(arm))
        return fields
