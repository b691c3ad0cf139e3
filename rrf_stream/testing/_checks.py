"""What tests look at: the events of the library, and what it has left behind."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import anyio
import anyio.lowlevel
import structlog

from rrf_stream import drain

__all__ = ["assert_no_leaks", "capture_events"]


@contextmanager
def capture_events() -> Iterator[list[dict[str, Any]]]:
    """Collect the events that this library reports, as dictionaries, while the context is open.

    Each has the keys `event`, `log_level` and the fields of the event. structlog is configured
    anew for that time, so the application's own events are dropped; afterwards it is as it was
    before, unconfigured if it was.
    """
    events: list[dict[str, Any]] = []

    def keep(_: Any, method: str, event: Any) -> NoReturn:
        if str(event["event"]).startswith("rrf_stream."):
            events.append({**event, "log_level": method})
        raise structlog.DropEvent

    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(
        processors=[keep],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        context_class=dict,
        logger_factory=structlog.testing.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )
    try:
        yield events
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)


async def assert_no_leaks(*, within: float = 1.0) -> None:
    """Collect garbage, and assert that nothing of this library is alive on the running event loop.

    Args:
        within: Seconds, on the clock of the event loop, that arms get to end which were left
            behind while they cleaned up; at least 0.

    Raises:
        AssertionError: A task, thread or registered arm is left; the message names them all.
    """
    gc.collect()
    await _turns()  # a dropped fusion stops its arms
    left = set(await drain(within))
    await _turns()  # the timers of a fusion end after its arms
    names = [task.name for task in anyio.get_running_tasks()]
    names += [thread.name for thread in threading.enumerate()]
    left.update(name for name in names if name is not None and name.startswith("rrf:"))
    if left:
        raise AssertionError(f"still alive: {', '.join(sorted(left))}")


async def _turns() -> None:
    for _ in range(3):
        await anyio.lowlevel.checkpoint()
