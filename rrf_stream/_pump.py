"""One arm while it is read: its state, and the task that reads it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from inspect import iscoroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio.lowlevel

from rrf_stream._arm import Arm
from rrf_stream._coverage import ArmStatus
from rrf_stream._source import close_stream, open_stream

if TYPE_CHECKING:
    from rrf_stream._tasks import Backend, Detached

__all__ = ["ArmRun", "discard", "have_quorum", "pump"]

Deliver: TypeAlias = "Callable[[ArmRun, Any], bool]"
Close: TypeAlias = "Callable[[ArmRun, ArmStatus, BaseException | None], None]"

_NEARLY_ALL = 1 - 1e-12  # 7 arms of 10 are a quorum of .7, whatever floats make of it
_SLICE = 0.001
"""Seconds after which a pump gives way to other tasks, as its source may never suspend."""


class ArmRun:
    """One arm while it is read.

    Attributes:
        abandoned: Whether nobody waits for it to clean up any more.
        arm: What was asked for.
        source: What to read.
        closed: Whether nothing more counts.
        started: Whether its task has begun to read the source.
        due: When its timeout is over, on the clock of the event loop.
        last: When it last delivered.
        late: Results that arrived after it was closed.
        task: Its task, once there is one.
    """

    __slots__ = ("abandoned", "arm", "closed", "due", "last", "late", "source", "started", "task")

    def __init__(self, arm: Arm, source: Any) -> None:
        self.arm = arm
        self.source = source
        self.abandoned = False
        self.closed = False
        self.started = False
        self.due = math.inf
        self.last = 0.0
        self.late = 0
        self.task: Detached | None = None

    def set_clock(self, now: float) -> None:
        """Let its time begin."""
        self.last = now
        self.due = math.inf if self.arm.timeout is None else now + self.arm.timeout

    def begin(self, task: Detached) -> None:
        """Take note of its task, which an eager event loop may already have run."""
        self.task = task
        task.is_over = self.closed

    def close(self) -> None:
        """Let nothing more count."""
        self.closed = True
        if self.task is not None:
            self.task.is_over = True

    def cancel(self) -> None:
        """Cancel its task, if it has one."""
        if self.task is not None:
            self.task.cancel()

    @property
    def expiry(self) -> float:
        """When it is to be closed if it delivers nothing until then."""
        idle = self.arm.idle_timeout
        return self.due if idle is None else min(self.due, self.last + idle)


async def pump(arm: ArmRun, deliver: Deliver, close: Close) -> None:
    """Read one arm to its end.

    Args:
        arm: What to read.
        deliver: Takes what the source yields; returns whether to go on.
        close: Takes note that the arm ended by itself, before it cleans up.
    """
    arm.started = True
    try:
        stream = await open_stream(arm.source)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever an arm raises is its report
        close(arm, ArmStatus.FAILED, error)
        return
    try:
        try:
            give_way_at = perf_counter() + _SLICE
            async for element in stream:
                if not deliver(arm, element):
                    break
                if perf_counter() > give_way_at:
                    await anyio.lowlevel.checkpoint()
                    give_way_at = perf_counter() + _SLICE
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            close(arm, ArmStatus.FAILED, error)
        else:
            close(arm, ArmStatus.EXHAUSTED, None)
    finally:  # the arm is closed by now, so that nobody waits for its clean-up
        await close_stream(stream)


def discard(arm: ArmRun, backend: Backend | None) -> None:
    """Close the source of an arm that nobody has begun to read, as far as that goes without a backend."""
    if iscoroutine(arm.source):
        arm.source.close()  # or Python warns that it was never awaited
    elif backend is not None and isinstance(arm.source, AsyncIterator):
        arm.begin(backend.spawn(close_stream, arm.source, name=f"rrf:{arm.arm.name}", done=lambda _: None))


def have_quorum(arms: list[ArmRun], quorum: float | None) -> bool:
    """Return whether arms with a share of the weight of at least `quorum` are closed."""
    if quorum is None:
        return False
    weight = math.fsum(arm.arm.weight for arm in arms)
    closed = math.fsum(arm.arm.weight for arm in arms if arm.closed)
    return weight > 0 and closed >= quorum * weight * _NEARLY_ALL
