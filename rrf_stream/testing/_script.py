"""A source that does what it is told."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any, Self

import anyio

__all__ = ["Script", "script"]


class Script:
    """A source that does what it is told and says what was done to it; also called `script`.

    It is an asynchronous iterator, so it can be read once: write a new one for every fusion. In
    a `Pipeline` that is `lambda query: script(...)`.

    Args:
        steps: What it does, in order. A `float` is slept, in seconds on the clock of the event
            loop; anything else is yielded: ids, `Hit` objects, a `Page`. (To yield a float as an
            id, write `Hit(0.5)`.)
        fail: What it raises after the last step; None to end.
        hang: Whether it sleeps for ever after the last step, instead of ending.
        swallow: How many cancellations it ignores, at least 0, before it obeys one. asyncio
            delivers a cancellation once, so 1 makes an arm there that finishes its script; trio
            delivers it at every checkpoint until it is obeyed.
        cleanup: Seconds that closing it takes, at least 0.
        shield: Whether its clean-up is shielded from cancellation.
        on_close: Called when its clean-up is over; may raise.

    Attributes:
        read_by: The task that read it first; None before that.
        closed_by: The task that closed it; None before that.
        closed: Whether its clean-up ran to the end.
        swallowed: How many cancellations it ignored so far.

    Raises:
        ValueError: A number is out of its range.
    """

    def __init__(
        self,
        *steps: Any,
        fail: BaseException | None = None,
        hang: bool = False,
        swallow: int = 0,
        cleanup: float = 0.0,
        shield: bool = False,
        on_close: Callable[[], object] | None = None,
    ) -> None:
        if swallow < 0:
            raise ValueError(f"swallow must be at least 0, not {swallow!r}")
        for seconds in (cleanup, *(step for step in steps if type(step) is float)):
            if not seconds >= 0:
                raise ValueError(f"steps and cleanup must be at least 0 seconds, not {seconds!r}")
        self.read_by: anyio.TaskInfo | None = None
        self.closed_by: anyio.TaskInfo | None = None
        self.closed = False
        self.swallowed = 0
        self._busy = False
        self._steps = _play(steps, fail, hang=hang)
        self._swallow = swallow
        self._cleanup = cleanup
        self._shield = shield
        self._on_close = on_close

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Any:
        """Go on to the next step that yields; like a generator, it is over once this raised."""
        self._claim()
        self.read_by = self.read_by or anyio.get_current_task()
        self._busy = True
        try:
            return await self._next()
        except BaseException:
            self._steps.close()
            raise
        finally:
            self._busy = False

    async def aclose(self) -> None:
        """Clean up; the second time there is nothing to do.

        Raises:
            RuntimeError: It is being read, as with a generator.
        """
        self._claim()
        if self.closed_by is not None:
            return
        self.closed_by = anyio.get_current_task()
        self._steps.close()
        with anyio.CancelScope(shield=self._shield):
            if self._cleanup:
                await self._sleep(self._cleanup)
        self.closed = True
        if self._on_close is not None:
            self._on_close()

    async def _next(self) -> Any:
        for step in self._steps:
            if type(step) is not float:
                return step
            await self._sleep(step)
        raise StopAsyncIteration

    def _claim(self) -> None:
        if self._busy:
            raise RuntimeError("this script is being read")

    async def _sleep(self, seconds: float) -> None:
        until = anyio.current_time() + seconds
        while True:
            try:
                return await anyio.sleep_until(until)
            except anyio.get_cancelled_exc_class():
                if self.swallowed == self._swallow:
                    raise
                self.swallowed += 1


def _play(steps: tuple[Any, ...], fail: BaseException | None, *, hang: bool) -> Generator[Any, None, None]:
    yield from steps
    if hang:
        yield math.inf
    if fail is not None:
        raise fail


script = Script
"""Writes a `Script`."""
