"""The circuit breaker of an arm: after failures in a row it is not asked for a while.

Whether an arm may be asked and what came of it are told apart in time, as the
outcome may come from a timer. Nothing here waits, locks or knows an event loop.
"""

from __future__ import annotations

import asyncio
import random as _random
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeAlias

from rrf_stream._checks import check_count
from rrf_stream._kernels import exact

__all__ = ["Breaker", "BreakerState", "Circuit"]

BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True)
class Breaker:
    """When an arm of a `Pipeline` is left alone, and for how long.

    Holds no state: one may serve any number of arms and pipelines.

    Attributes:
        failures: How many queries in a row an arm must fail or be too late in to be left alone, at least 1.
        cooldown: Seconds until it is tried again, above 0 and finite.
        jitter: By which share of itself each cool-down is longer or shorter, at random, at least 0
            and below 1: so that not all who gave up together come back together.
        ignore: Types of errors that say nothing of the arm, such as ValueError where a query may be wrong.
        clock: Gives the time in seconds. It must go on steadily in every thread and on every event
            loop where the pipeline is used, which the clock of one event loop does not.
        random: Gives random numbers of at least 0 and below 1.

    Raises:
        ValueError: A number is out of its range.
        TypeError: A value is of the wrong type.
    """

    failures: int = 5
    cooldown: float = 30.0
    jitter: float = 0.1
    _: KW_ONLY
    ignore: tuple[type[BaseException], ...] = ()
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = _random.random  # noqa: S311 - nothing here is secret

    def __post_init__(self) -> None:
        check_count("failures", self.failures)
        if exact("cooldown", self.cooldown) <= 0:
            raise ValueError(f"cooldown must be a finite number of seconds above 0, not {self.cooldown!r}")
        if not 0 <= exact("jitter", self.jitter) < 1:
            raise ValueError(f"jitter must be a number of at least 0 and below 1, not {self.jitter!r}")
        if not isinstance(self.ignore, tuple) or not all(
            isinstance(one, type) and issubclass(one, BaseException) for one in self.ignore
        ):
            raise TypeError(f"ignore must be a tuple of exception classes, not {self.ignore!r}")
        for name in ("clock", "random"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be callable, not {getattr(self, name)!r}")

    def pause(self) -> float:
        """Return the seconds of one cool-down."""
        return self.cooldown * (1 + self.jitter * (2 * self.random() - 1))


class Circuit:
    """The breaker of one arm: closed, open, or half-open while it tries the arm.

    Every outcome comes with the ticket of its query, the number of openings when it was admitted.
    While the breaker is open only trials get the current one, so that what queries from before say
    of the arm neither closes it nor prolongs the cool-down.

    Attributes:
        ticket: How often it has opened.
        failures: How many failures in a row it has seen, those of trials included.
        says_nothing: Types of errors that are no failures of the arm.
        is_open: Whether it is open or half-open.
    """

    __slots__ = ("_due", "_policy", "_trial", "failures", "is_open", "says_nothing", "ticket")

    def __init__(self, policy: Breaker) -> None:
        self.ticket = 0
        self.failures = 0
        self._policy = policy
        # Whoever ends the event loop cancels the arms, too.
        self.says_nothing = (*policy.ignore, asyncio.CancelledError)
        self.is_open = False
        self._trial = False
        self._due = 0.0

    def admit(self) -> float | None:
        """Let a query ask the arm, and return None; or return the seconds until one may, above 0.

        When a cool-down is over, one query may, as a trial. If it is not heard of for as long as
        another cool-down, there is another trial: it may have gone down with its event loop.
        """
        if not self.is_open:
            return None
        now = self._policy.clock()
        if now < self._due:
            return self._due - now
        self._due = now + self._policy.pause()
        self._trial = True
        return None

    def failed(self, ticket: int) -> bool:
        """Take note that the arm failed or was too late; return whether that opened the breaker."""
        if ticket != self.ticket:
            return False
        # Never too few with a trial, as only answers start the count anew.
        if self.failures + 1 >= self._policy.failures:
            self._due = (
                self._policy.clock() + self._policy.pause()
            )  # first, as it is the caller's: it may raise
            self.ticket += 1
            self.is_open = True
            self._trial = False
        self.failures += 1
        return self.is_open

    def answered(self, ticket: int) -> bool:
        """Take note that the arm answered in full; return whether that closed the breaker."""
        if ticket != self.ticket:
            return False
        closed = self.is_open
        self.failures = 0
        self.is_open = self._trial = False
        return closed

    def undecided(self, ticket: int) -> None:
        """Take note that a query ended without showing how the arm is; if a trial, the next may be one."""
        if ticket == self.ticket and self.is_open:
            self._due = self._policy.clock()

    @property
    def retry_after(self) -> float | None:
        """Seconds until the arm is tried again at the latest, at least 0; None while it is closed."""
        return max(0.0, self._due - self._policy.clock()) if self.is_open else None

    @property
    def state(self) -> BreakerState:
        """Where it stands: half-open as soon as the next query may be a trial, or one is under way."""
        if not self.is_open:
            return "closed"
        return "half_open" if self._trial or self._policy.clock() >= self._due else "open"
