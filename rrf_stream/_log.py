"""Structured events, silent unless the application configured structlog or logging.

Where structlog is configured, events go its way. Otherwise they go to the logger
`rrf_stream` of the standard library, which no handler of ours makes heard:
structlog would print them if asked without being configured.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import structlog

from rrf_stream._coverage import ArmReport, ArmStatus, in_words
from rrf_stream._snapshot import Outcome

__all__ = ["emit", "log_arm_closed", "log_cleanup_failed", "log_fusion_closed"]

_NAME = "rrf_stream"
_standard = logging.getLogger(_NAME)
_standard.addHandler(logging.NullHandler())
_route: Any = structlog.wrap_logger(
    _standard,
    wrapper_class=structlog.stdlib.BoundLogger,
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
)


def emit(event: str, *, warning: bool = False, **fields: Any) -> None:
    """Report an event; a log that is broken breaks no search.

    Args:
        event: Its name, without the prefix `rrf_stream.`.
        warning: Whether somebody should look at it; else it is for information.
        fields: What to know about it. None may be called `name`, `msg`, `args`, `module` or `message`.
    """
    with suppress(Exception):
        if _is_heard(warning=warning):
            logger = structlog.get_logger(_NAME) if structlog.is_configured() else _route
            (logger.warning if warning else logger.info)(f"{_NAME}.{event}", **fields)


def log_arm_closed(fusion: int, report: ArmReport) -> None:
    """Report that an arm is closed, as a warning if it failed."""
    failed = report.status is ArmStatus.FAILED
    if _is_heard(warning=failed):
        emit(
            "arm_closed",
            warning=failed,
            fusion=fusion,
            arm=report.name,
            status=str(report.status),
            received=report.received,
            elapsed_ms=None if report.elapsed is None else round(report.elapsed * 1000, 3),
            error=in_words(report.error),
        )


def log_fusion_closed(fusion: int, outcome: Outcome, arms: int, elapsed: float) -> None:
    """Report that a fusion has ended, as a warning if a required arm failed."""
    emit(
        "fusion_closed",
        warning=outcome is Outcome.FAILED,
        fusion=fusion,
        outcome=str(outcome),
        arms=arms,
        elapsed_ms=round(elapsed * 1000, 3),
    )


def log_cleanup_failed(fusion: int, arm: str, error: BaseException) -> None:
    """Report that an arm raised after it was closed: its report is made, and stays as it is."""
    emit("arm_cleanup_failed", warning=True, fusion=fusion, arm=arm, error=in_words(error))


def _is_heard(*, warning: bool) -> bool:
    return structlog.is_configured() or _standard.isEnabledFor(logging.WARNING if warning else logging.INFO)
