"""Arms that a test commands step by step: their sources, random ones, and a model of one.

All times are whole ticks of 2**-10 s, which floating-point numbers add exactly. What need not be put in order
with anything else has a small part of its own beside the ticks: the grace, the least time between snapshots,
and deadlines of readers.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import anyio
from hypothesis import strategies as st

from rrf_stream import Hit, Page

TICK = 2.0**-10
APART = TICK / 2
"""What is due between two ticks."""
A_BIT = TICK / 1024
NEVER = math.inf


class Puppet:
    """A source that does what it is sent: it yields it, or raises it if it is an exception.

    Args:
        defies: Whether it goes on after it was cancelled.
        cleanup: Seconds that closing it takes.
        spoils: Whether its clean-up fails.
    """

    def __init__(self, *, defies: bool, cleanup: float, spoils: bool) -> None:
        self.defies = defies
        self.cancels = 0
        self.closes = 0
        self.closed = False
        self.read_by: anyio.TaskInfo | None = None
        self.closed_by: anyio.TaskInfo | None = None
        self._cleanup = cleanup
        self._spoils = spoils
        self._mail: deque[Any] = deque()
        self._wake: anyio.Event | None = None

    def send(self, step: Any) -> None:
        self._mail.append(step)
        if self._wake is not None:
            self._wake.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        self.read_by = self.read_by or anyio.get_current_task()
        while not self._mail:
            await self._wait()
        step = self._mail.popleft()
        if isinstance(step, BaseException):
            raise type(step)(*step.args)  # a new one, as it comes to hold the frames that it leaves
        return step

    async def _wait(self) -> None:
        self._wake = anyio.Event()
        try:
            with anyio.CancelScope(shield=self.cancels > 0):  # trio would cancel it again at once
                await self._wake.wait()
        except anyio.get_cancelled_exc_class():
            self.cancels += 1
            if not self.defies:
                raise

    async def aclose(self) -> None:
        self.closes += 1
        self.closed_by = anyio.get_current_task()
        with anyio.CancelScope(shield=self.cancels > 0):  # else it is not to be cancelled
            await anyio.sleep(self._cleanup)
        self.closed = True
        if self._spoils:
            raise OSError("spoilt")


@dataclass
class ArmModel:
    """One arm: what it is allowed, how it behaves, and how far it got."""

    name: str
    weight: float
    window: int | None
    timeout: float | None
    idle: float | None
    required: bool
    defies: bool
    cleanup: float
    spoils: bool
    taken: list[Hit] = field(default_factory=list)
    ranked: list[Any] = field(default_factory=list)
    status: str = "waiting"
    last: float = NEVER
    first_hit_after: float | None = None
    closed_after: float | None = None
    error: type[BaseException] | None = None
    task: Literal["none", "reads", "cleans", "over"] = "none"
    cleans_until: float = NEVER
    cancels: int | None = 0
    """How often it was cancelled while it was read; None if it may not have come to be read."""
    late: int = 0
    abandoned: bool = False

    @property
    def is_open(self) -> bool:
        return self.status in {"waiting", "streaming"}

    @property
    def is_full(self) -> bool:
        return len(self.ranked) == self.window

    @property
    def due(self) -> tuple[float, str]:
        """When it is closed if it delivers nothing until then, and as what; times are since the start."""
        timeout = NEVER if self.timeout is None else self.timeout
        idle = NEVER if self.idle is None else self.last + self.idle
        return (timeout, "timed_out") if timeout <= idle else (idle, "idle")

    def take(self, results: list[Hit], elapsed: float, *, skip: bool) -> None:
        """Take what fits into the window."""
        self.last = elapsed  # an empty page is a sign of life, too
        for hit in results:
            if not self.is_full:
                self.taken.append(hit)
                if not (skip and hit.id in self.ranked):
                    self.ranked.append(hit.id)
        if self.taken and self.status == "waiting":
            self.status, self.first_hit_after = "streaming", elapsed

    def report(self, elapsed: float) -> tuple[Any, ...]:
        closed_after = elapsed if self.closed_after is None else self.closed_after
        return (self.name, self.status, len(self.taken), self.first_hit_after, closed_after, self.error)


# --- random ones ------------------------------------------------------------------------------------------


def ticks(most: int, part: float = 0.0) -> st.SearchStrategy[float]:
    return st.integers(0, most).map(lambda count: count * TICK + part)


def optional(strategy: st.SearchStrategy[float]) -> st.SearchStrategy[float | None]:
    return st.none() | st.none() | strategy


ids = st.integers(0, 7)
results = ids | st.builds(Hit, ids, item=st.sampled_from("xyz"))
pages = st.lists(results, max_size=4).map(Page)
ends = st.sampled_from(
    [StopAsyncIteration()] * 3 + [OSError("down"), SystemExit(1), TimeoutError(), Page([[], "no id"])]
)
steps = st.one_of(results, results, pages, pages, pages, ends)
arms = st.fixed_dictionaries(
    {
        "weight": st.sampled_from([1.0, 1.0, 2.0, 0.5, 0.0]),
        "window": st.none() | st.integers(1, 8),
        "timeout": optional(ticks(60)),
        "idle": st.none() | ticks(24),
        "required": st.sampled_from([False, False, True]),
        "defies": st.sampled_from([False, False, True]),
        "cleanup": st.sampled_from([0.0, 0.0, 3 * TICK, 40 * TICK]),
        "spoils": st.sampled_from([False, False, True]),
    }
)
options = st.fixed_dictionaries(
    {
        "top_k": st.integers(1, 6),
        "repeats": st.sampled_from(["consume", "skip"]),
        "timeout": optional(ticks(100)),
        "deadline": optional(ticks(300)),
        "quorum": st.none() | st.sampled_from([0.25, 0.25, 0.5, 0.75, 1.0]),
        "patience": st.just(0.0) | ticks(20),
        "min_interval": st.just(0.0) | ticks(6, A_BIT),
        "grace": ticks(20, APART),
    }
)
