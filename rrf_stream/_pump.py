"""One arm while it is read: its state, and the task that reads it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from time import perf_counter
from typing import Any, TypeAlias

import anyio.lowlevel

from rrf_stream._arm import Arm
from rrf_stream._arm_state import ArmState
from rrf_stream._coverage import ArmStatus
from rrf_stream._hit import Page
from rrf_stream._source import close_stream, close_unread, discard, open_stream
from rrf_stream._tasks import Backend, Detached, Done
from rrf_stream.errors import ThreadLimitError

__all__ = ["ArmRun", "discard_unread", "pump"]

Deliver: TypeAlias = "Callable[[ArmRun, Any], bool]"
Close: TypeAlias = "Callable[[ArmRun, ArmStatus, BaseException | None], None]"

_SLICE = 0.001
"""Seconds after which a pump gives way to other tasks, as its source may never suspend."""


class ArmRun(Detached):
    """One arm while it is read; where it is hedged, one of the two attempts at that.

    Attributes:
        arm: What was asked for.
        source: What to read.
        state: Where the arm stands.
        abandoned: Whether nobody waits for it to clean up any more.
        due: When its timeout is over, on the clock of the event loop.
        hedge_at: When it gets a second attempt, if nothing has arrived by then.
        last: When it last delivered, be it an empty page.
        last_hit: When it last delivered a result.
        late: Results that arrived after it was closed.
        rival: The other attempt, while it is open which of them counts.
        hedged: Whether there were two attempts.
        attempt: Which of them it is: 1, or 2.
        first_error: What the other attempt raised, if it did.
    """

    __slots__ = (
        "abandoned",
        "arm",
        "attempt",
        "due",
        "first_error",
        "hedge_at",
        "hedged",
        "last",
        "last_hit",
        "late",
        "rival",
        "source",
        "state",
    )

    def __init__(self, arm: Arm, source: Any, state: ArmState) -> None:
        super().__init__(f"rrf:{arm.name}")
        self.arm = arm
        self.source = source
        self.state = state
        self.abandoned = False
        self.due = math.inf
        self.hedge_at = math.inf
        self.last = 0.0
        self.last_hit = 0.0
        self.late = 0
        self.rival: ArmRun | None = None
        self.hedged = False
        self.attempt = 1
        self.first_error: BaseException | None = None

    def set_clock(self, now: float) -> None:
        """Let its time begin."""
        self.last = now
        timeout = self.arm.timeout
        if timeout is not None:
            self.due = now + timeout

    @property
    def expiry(self) -> float:
        """When something is to be done about it if it delivers nothing until then."""
        due = min(self.due, self.hedge_at)
        idle = self.arm.idle_timeout
        return due if idle is None else min(due, self.last + idle)


async def pump(arm: ArmRun, deliver: Deliver, close: Close) -> None:
    """Read one arm to its end.

    Args:
        arm: What to read.
        deliver: Takes what the source yields; returns whether to go on.
        close: Takes note that the arm ended by itself, before it cleans up.
    """
    stream: AsyncIterator[Any] | Page[Any] = Page()
    try:
        try:
            stream = await open_stream(arm.source)
            if type(stream) is Page:
                deliver(arm, stream)
            else:
                await _read(arm, stream, deliver)
        except (Exception, SystemExit) as error:  # whatever an arm raises is its report
            if arm.closed:  # so is this, as an answer to its cancellation: it failed to clean up
                raise
            rejected = isinstance(error, ThreadLimitError)
            close(arm, ArmStatus.REJECTED if rejected else ArmStatus.FAILED, error)
        else:
            close(arm, ArmStatus.EXHAUSTED, None)
    finally:  # the arm is closed by now, so that nobody waits for its clean-up
        if type(stream) is not Page:
            await close_stream(stream)


async def _read(arm: ArmRun, stream: AsyncIterator[Any], deliver: Deliver) -> None:
    give_way_at = perf_counter() + _SLICE
    async for element in stream:
        if not deliver(arm, element):
            break
        if perf_counter() > give_way_at:
            await anyio.lowlevel.checkpoint()
            give_way_at = perf_counter() + _SLICE


def discard_unread(arm: ArmRun, backend: Backend, done: Done) -> None:
    """Close the source of an arm that nobody has begun to read, in a task of the arm if that takes one."""
    stream = discard(arm.source)
    if stream is not None:
        backend.spawn(arm, done, close_unread, stream)
