"""Chaos: whatever arms, readers and clocks do, step by step, the engine does as a plain model says."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import ExitStack
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest
from anyio.pytest_plugin import get_runner
from engine_chaos import FusionModel, Mode, Read, enclosing
from engine_chaos_arms import APART, NEVER, TICK, ArmModel, arms, ends, options, steps
from engine_chaos_fusions import Living
from engine_kit import turns
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from rrf_stream import Page, drain
from rrf_stream.testing import VIRTUAL_BACKENDS, assert_no_leaks, capture_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

EVENT = ("event", "arm", "status", "outcome", "arms", "received", "elapsed_ms", "log_level")
PATIENCE = 30
"""Seconds of real time after which one example counts as hung."""
LAST_READS: tuple[Mode, ...] = ("final", "final", "next")
READS: tuple[Mode, ...] = ("next", "rest", "final", "final")
which = st.integers(0, 5)
outer = st.none() | st.integers(-3, 20)
"""In how many ticks the answer is due because of an enclosing deadline."""


class Chaos(RuleBasedStateMachine):
    """Up to three fusions at a time on one virtual clock, and all that can be done to them.

    The event loop runs while a rule acts, until all that is due has happened, and is still between rules.
    """

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.all: list[Living] = []
        self.now = 0.0
        self.sound = True
        self._stack = ExitStack()
        self.events = self._stack.enter_context(capture_events())
        self._runner = self._stack.enter_context(get_runner(*VIRTUAL_BACKENDS[backend]()))
        self._group: TaskGroup
        self.act(self._enter)

    async def _enter(self) -> None:
        self._group = await anyio.create_task_group().__aenter__()

    def act(self, call: Callable[..., Any], *args: Any) -> None:
        """Do something in the event loop, and compare what has come of it with the models."""

        async def acting() -> None:
            done = call(*args)
            if iscoroutine(done):
                await done
            await turns(15)
            assert anyio.current_time() == self.now

        self.sound = False
        self._runner.run_fixture(acting, {})
        for living in self.all:
            living.model.happen(self.now)
            living.check()
        told = Counter(tuple(event[key] for key in EVENT if key in event) for event in self.events)
        expected = Counter(event for living in self.all for event in living.model.events)
        assert (told - expected, expected - told) == (Counter(), Counter())
        self.sound = True

    # --- which are there ---

    @property
    def held(self) -> list[Living]:
        """The fusions whose handle is still held."""
        return [living for living in self.all if living.fusion is not None]

    @property
    def listening(self) -> list[tuple[Living, int]]:
        """The arms that are being read, whether they are open or not."""
        return [
            (living, number)
            for living in self.all
            for number, arm in enumerate(living.model.arms)
            if arm.task == "reads"
        ]

    @property
    def limits(self) -> list[float]:
        return sorted(
            {when for living in self.all for when in living.model.limits() if self.now < when < NEVER}
        )

    # --- opening ---

    @precondition(lambda self: len(self.held) < 3)
    @rule(
        drawn=st.lists(arms, min_size=1, max_size=4),
        options=options,
        how=st.sampled_from(["entered"] * 9 + ["unentered", "stopped at once", "left at once"]),
        outer=outer,
        mode=st.none() | st.none() | st.sampled_from(READS),
    )
    def open(
        self,
        drawn: list[dict[str, Any]],
        options: dict[str, Any],
        how: str,
        outer: int | None,
        mode: Mode | None,
    ) -> None:
        """Open a fusion, and perhaps read it; an arm that is stopped before it may be read is to obey."""
        obey = {"defies": False} if how.endswith("at once") else {}
        named = [
            ArmModel(name=f"{len(self.all)}/{number}", **{**arm, **obey}) for number, arm in enumerate(drawn)
        ]
        model = FusionModel(named, **options)
        model.clock = self.now
        living = Living(model)
        self.all.append(living)
        if how != "unentered":
            deadline = self.enclosing(outer)
            model.start(self.now, deadline)
            if how == "stopped at once":
                model.stop("stopped", "stopped", self.now, unread=True)
            elif how == "left at once":
                model.leave(self.now, unread=True)
            self.act(living.open, deadline, how, self._group)
        if mode is not None:
            self.begin(living, Read(mode), NEVER)

    def enclosing(self, outer: int | None) -> float:
        return NEVER if outer is None else enclosing(self.now + outer * TICK)

    # --- arms ---

    @precondition(lambda self: self.listening)
    @rule(steps=st.lists(st.tuples(which, steps), min_size=1, max_size=6))
    def command_arms(self, steps: list[tuple[int, Any]]) -> None:
        """Let arms yield a result or a page, end, or fail, one after the other, in time or too late."""
        for which, step in steps:
            if self.listening:
                self.command(which, step)

    @precondition(lambda self: self.listening)
    @rule(which=which)
    def repeat(self, which: int) -> None:
        """Let an arm yield all that it has delivered once more."""
        living, number = self.listening[which % len(self.listening)]
        self.command(which, Page(living.model.arms[number].taken))

    @precondition(lambda self: self.listening)
    @rule(which=which, step=ends)
    def end(self, which: int, step: Any) -> None:
        """Let an arm end or fail."""
        self.command(which, step)

    def command(self, which: int, step: Any) -> None:
        living, number = self.listening[which % len(self.listening)]
        living.model.command(living.model.arms[number], step, self.now)
        self.act(living.puppets[number].send, step)

    # --- time ---

    @precondition(lambda self: self.all)
    @rule(by=st.integers(1, 10))
    def wait(self, by: int) -> None:
        """Let time pass, past whatever is due."""
        self.advance(self.now + by * TICK)

    @precondition(lambda self: self.limits)
    @rule(which=which)
    def wait_for_a_limit(self, which: int) -> None:
        """Let time pass up to the moment when an arm or a fusion is up."""
        limits = self.limits
        self.advance(limits[min(which, 2) % len(limits)])

    def advance(self, until: float) -> None:
        self.now = until
        self.act(anyio.sleep_until, until)

    # --- readers ---

    @precondition(lambda self: self.held)
    @rule(which=which, mode=st.sampled_from(READS), outer=outer)
    def read(self, which: int, mode: Mode, outer: int | None) -> None:
        """Read a fusion in a task of its own, perhaps under a deadline; a second reader is refused."""
        living = self.held[which % len(self.held)]
        if living.is_read:
            self.act(living.read_beside, mode)
            return
        read = Read(mode)
        deadline = self.enclosing(outer)
        if outer is not None and living.model.running and mode != "final":
            deadline = read.until = self.now + abs(outer) * TICK + APART
        self.begin(living, read, deadline)

    def begin(self, living: Living, read: Read, deadline: float) -> None:
        living.model.begin(read, self.now, deadline)
        self.act(self._group.start_soon, living.begin(read, deadline).run)

    # --- ending ---

    @precondition(lambda self: self.held)
    @rule(which=which, how=st.sampled_from(["cancel", "cancel", "stop", "leave", "drop"]))
    def finish(self, which: int, how: str) -> None:
        """Cancel a reader, who reads on and lost nothing; leave or stop a fusion, or drop its handle."""
        living = self.held[which % len(self.held)]
        if how == "cancel" and living.is_read:
            cancelled = living.readings[-1]
            cancelled.read.end = "cancelled"
            self.act(cancelled.scope.cancel)
            self.begin(living, Read(cancelled.read.mode), NEVER)
        elif how == "leave" and not living.leaving:
            self.leave(living)
        elif how == "drop" and living.is_free:
            living.model.drop(self.now)
            self.act(living.drop)
        elif how == "stop":
            living.model.stop("stopped", "stopped", self.now)
            self.act(living.stop)

    def leave(self, living: Living) -> None:
        """Leave a fusion, in a task of its own, as that may take the grace."""
        living.model.leave(self.now)
        self.act(self._group.start_soon, living.leave)

    # --- the end ---

    def teardown(self) -> None:
        """Leave everything, and assert that nothing is left and nothing has changed afterwards."""
        with self._stack:
            try:
                if self.sound:
                    self.end_well()
            finally:
                self._runner.run_fixture(self._exit, {})

    def end_well(self) -> None:
        for living in self.held:
            if not living.leaving:
                self.leave(living)
        while self.listening:
            self.command(0, StopAsyncIteration())
        self.advance(self.now + 128 * TICK)
        for living in self.held:
            for mode in LAST_READS:
                self.begin(living, Read(mode), NEVER)
            living.check_the_stream()
        self.act(self._nothing_is_left)
        for living in self.all:
            living.check_the_sources()

    @staticmethod
    async def _nothing_is_left() -> None:
        assert await drain() == []
        await assert_no_leaks()

    async def _exit(self) -> None:
        for living in self.all:
            living.release()
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)


@pytest.mark.parametrize("backend", VIRTUAL_BACKENDS)
def test_whatever_happens_the_engine_does_as_its_model(backend: str) -> None:
    """Statuses, counts, rankings, snapshots, ends, events, tasks, sources: step by step, and to the end."""

    def machine() -> Chaos:
        signal.setitimer(signal.ITIMER_REAL, PATIENCE, 5)  # anew for each, as shrinking takes long
        return Chaos(backend)

    run_state_machine_as_test(cast("Any", machine), settings=settings(stateful_step_count=30, deadline=None))
