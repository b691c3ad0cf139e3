"""The log of commands that serve: what the library reports goes to standard error, a line an event."""

from __future__ import annotations

import logging
import sys

import structlog

__all__ = ["log_to_stderr"]


def log_to_stderr(level: str) -> None:
    """Log events from a level on, such as "warning"; values are written as in Python's source."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
