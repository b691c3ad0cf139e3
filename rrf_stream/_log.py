"""Structured events, silent unless the application configured structlog or logging.

Where structlog is configured, events go its way. Otherwise they go to the logger
`rrf_stream` of the standard library, which no handler of ours makes heard:
structlog would print them if asked without being configured.
"""

from __future__ import annotations

import logging
from typing import Any

import structlog

from rrf_stream._coverage import ArmReport, ArmStatus

__all__ = ["emit", "log_arm_closed"]

_NAME = "rrf_stream"
_standard = logging.getLogger(_NAME)
_standard.addHandler(logging.NullHandler())
_route: Any = structlog.wrap_logger(
    _standard,
    wrapper_class=structlog.stdlib.BoundLogger,
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
)


def emit(event: str, *, warning: bool = False, **fields: Any) -> None:
    """Report an event.

    Args:
        event: Its name, without the prefix `rrf_stream.`.
        warning: Whether somebody should look at it; else it is for information.
        fields: What to know about it. None may be called `name`, `msg`, `args`, `module` or `message`.
    """
    if structlog.is_configured():
        logger = structlog.get_logger(_NAME)
    elif _standard.isEnabledFor(logging.WARNING if warning else logging.INFO):
        logger = _route
    else:
        return
    (logger.warning if warning else logger.info)(f"{_NAME}.{event}", **fields)


def log_arm_closed(fusion: int, report: ArmReport) -> None:
    """Report that an arm is closed, as a warning if it failed."""
    emit(
        "arm_closed",
        warning=report.status is ArmStatus.FAILED,
        fusion=fusion,
        arm=report.name,
        status=str(report.status),
        received=report.received,
        elapsed_ms=None if report.elapsed is None else round(report.elapsed * 1000, 3),
        error=None if report.error is None else repr(report.error),
    )
