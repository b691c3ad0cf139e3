"""Structured events, silent unless the application configured structlog or logging.

Where structlog is configured, events go its way. Otherwise they go to the logger
`rrf_stream` of the standard library, which no handler of ours makes heard:
structlog would print them if asked without being configured.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import count
from typing import Any

import structlog

from rrf_stream._coverage import ArmReport, ArmStatus, in_words
from rrf_stream._observers import fields_now
from rrf_stream._snapshot import Outcome, Snapshot
from rrf_stream._tasks import Spawn

__all__ = ["Journal", "emit"]

_NAME = "rrf_stream"
_standard = logging.getLogger(_NAME)
_standard.addHandler(logging.NullHandler())
_route: Any = structlog.wrap_logger(
    _standard,
    wrapper_class=structlog.stdlib.BoundLogger,
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
)
_WARNED_OF = (ArmStatus.FAILED, ArmStatus.REJECTED)
_numbers = count(1)


def emit(event: str, *, warning: bool = False, **fields: Any) -> None:
    """Report an event; a log that is broken breaks no search.

    Args:
        event: Its name, without the prefix `rrf_stream.`.
        warning: Whether somebody should look at it; else it is for information.
        fields: What to know about it. None may be called `name`, `msg`, `args`, `module` or `message`.
            They come before what observers add to every event.
    """
    with suppress(Exception):
        if _is_heard(warning=warning):
            logger = structlog.get_logger(_NAME) if structlog.is_configured() else _route
            (logger.warning if warning else logger.info)(f"{_NAME}.{event}", **fields_now() | fields)


class Journal:
    """What is reported of one fusion.

    Reports of closed arms are kept back until `flush`: a log may take its time, or raise anything.

    Whether anybody wants to know more than warnings is asked once, at the start.

    Attributes:
        number: Tells the fusion from every other one of the process.
        watched: Whether somebody is still to be told that the reader has left.
    """

    __slots__ = ("_heard", "_reports", "number")

    watched: bool = False

    def __init__(self) -> None:
        self.number = next(_numbers)
        self._reports: list[ArmReport] = []
        self._heard = _is_heard(warning=False)

    def spawning(self, spawn: Spawn) -> Spawn:
        """Return what starts the tasks of arms, given what starts tasks."""
        return spawn

    def arm_closed(self, report: ArmReport, _attempt: int) -> None:
        """Take note that an arm is closed: a warning if it failed or was rejected."""
        if self._heard or report.status in _WARNED_OF:
            self._reports.append(report)

    def flush(self) -> None:
        """Report the arms that were closed, in that order."""
        while self._reports:
            report = self._reports.pop(0)
            self._emit(
                "arm_closed",
                report.name,
                warning=report.status in _WARNED_OF,
                status=str(report.status),
                received=report.received,
                elapsed_ms=None if report.elapsed is None else round(report.elapsed * 1000, 3),
                error=in_words(report.error),
            )

    def fusion_closed(self, outcome: Outcome, arms: int, elapsed: float) -> None:
        """Report that the fusion has ended, after its arms; as a warning if a required arm failed."""
        self.flush()
        failed = outcome is Outcome.FAILED
        if self._heard or failed:
            elapsed_ms = round(elapsed * 1000, 3)
            self._emit(
                "fusion_closed", warning=failed, outcome=str(outcome), arms=arms, elapsed_ms=elapsed_ms
            )

    def attempt_failed(self, arm: str, attempt: int, error: BaseException | None) -> None:
        """Report that one of two attempts at an arm failed, and the other goes on."""
        self._emit("attempt_failed", arm, warning=True, attempt=attempt, error=in_words(error))

    def late_hits(self, arm: str, attempt: int, received: int) -> None:
        """Report how many results arrived after an arm was closed."""
        self._emit("late_hits", arm, attempt=attempt, received=received)

    def cleanup_failed(self, arm: str, attempt: int, error: BaseException) -> None:
        """Report that an arm raised after it was closed: its report is made, and stays as it is."""
        self._emit("arm_cleanup_failed", arm, warning=True, attempt=attempt, error=in_words(error))

    def abandoned(self, arm: str, attempt: int) -> None:
        """Report that nobody waits any more for an arm that still cleans up, or ignores its cancellation."""
        self._emit("arm_abandoned", arm, warning=True, attempt=attempt)

    def shown(self, snapshot: Snapshot) -> None:
        """Take note that the reader is given a snapshot."""

    def left(self) -> None:
        """Take note that the reader has left."""

    def _emit(self, event: str, arm: str | None = None, *, warning: bool = False, **fields: Any) -> None:
        about = {} if arm is None else {"arm": arm}
        emit(event, warning=warning, fusion=self.number, **about, **fields, **self._added(arm))

    def _added(self, _arm: str | None) -> dict[str, Any]:
        """Return what observers add to an event, about an arm or about all of the fusion."""
        return {}


def _is_heard(*, warning: bool) -> bool:
    return structlog.is_configured() or _standard.isEnabledFor(logging.WARNING if warning else logging.INFO)
