"""Fusions that a test drives step by step, in the flesh, and what can be seen of them."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_chaos import FusionModel, Mode, Read
from engine_chaos_arms import NEVER, Puppet

from rrf_stream import Arm, Fusion, Snapshot, open_fusion
from rrf_stream.errors import ArmError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


class Reading:
    """A task that reads a fusion; it refers to it for as long as it does so."""

    def __init__(self, fusion: Fusion, read: Read, deadline: float) -> None:
        self.read = read
        self.got: list[Snapshot] = []
        self.end: str | None = None
        self.scope = anyio.CancelScope(deadline=deadline)
        self._fusion: Fusion | None = fusion

    async def run(self) -> None:
        with self.scope:
            try:
                await self._read()
                self.end = "done"
            except StopAsyncIteration:
                self.end = "over"
            except ArmError as error:
                self.end = f"{error.arm} failed"
            except Exception as error:  # noqa: BLE001 - it is compared with what is expected
                self.end = repr(error)
            finally:
                self._fusion = None
        self.end = self.end or "cancelled"

    async def _read(self) -> None:
        assert self._fusion is not None
        if self.read.mode == "next":
            self.got.append(await anext(self._fusion))
        elif self.read.mode == "final":
            self.got.append(await self._fusion.final())
        else:
            async for snapshot in self._fusion:
                self.got.append(snapshot)


def view(snapshot: Snapshot) -> Any:
    reports = [
        (
            report.name,
            str(report.status),
            report.received,
            report.first_hit_after,
            report.elapsed,
            None if report.error is None else type(report.error),
        )
        for report in snapshot.coverage.arms
    ]
    outcome = None if snapshot.outcome is None else str(snapshot.outcome)
    return (snapshot.seq, snapshot.elapsed, snapshot.final, outcome, list(snapshot.hits), reports)


class Living:
    """A fusion, its arms' sources, its readers so far, and its model."""

    def __init__(self, model: FusionModel) -> None:
        self.model = model
        self.puppets = [
            Puppet(defies=arm.defies, cleanup=arm.cleanup, spoils=arm.spoils) for arm in model.arms
        ]
        given = [
            Arm(
                arm.name,
                puppet,
                weight=arm.weight,
                window=arm.window,
                timeout=arm.timeout,
                idle_timeout=arm.idle,
                required=arm.required,
            )
            for arm, puppet in zip(model.arms, self.puppets, strict=True)
        ]
        # What is certain has proofs of its own; here a snapshot is news only if it shows something else.
        self.fusion: Fusion | None = open_fusion(given, bounds="off", **model.options)
        self.readings: list[Reading] = []
        self.leaving = False

    @property
    def handle(self) -> Fusion:
        assert self.fusion is not None
        return self.fusion

    @property
    def is_read(self) -> bool:
        return self.model.read is not None and self.model.read.end is None

    @property
    def is_free(self) -> bool:
        """Whether nothing else refers to the handle.

        On trio an arm that cleans up has the traceback of what cancelled it, which goes up to the handle.
        """
        held_by_arms = self.model.outcome == "stopped" and self.model.tasks
        return not (self.is_read or self.leaving or held_by_arms)

    # --- what is done to it ---

    async def open(self, deadline: float, how: str, group: TaskGroup) -> None:
        with anyio.CancelScope(deadline=deadline):
            await self.handle.__aenter__()
        if how == "stopped at once":
            self.stop()
        elif how == "left at once":
            group.start_soon(self.leave)

    def begin(self, read: Read, deadline: float) -> Reading:
        self.readings.append(Reading(self.handle, read, deadline))
        return self.readings[-1]

    async def read_beside(self, mode: Mode) -> None:
        """Be refused, as there is a reader."""
        with pytest.raises(RuntimeError, match="another task is reading"):
            await (self.handle.final() if mode == "final" else anext(self.handle))

    def stop(self) -> None:
        self.handle.stop()

    async def leave(self) -> None:
        self.leaving = True
        await self.handle.aclose()
        self.leaving = False

    def drop(self) -> None:
        handle = weakref.ref(self.handle)
        self.fusion = None
        if handle() is not None:
            gc.collect()
        assert handle() is None

    # --- what can be seen of it ---

    def check(self) -> None:
        """Assert that it is as the model says, as far as can be seen from outside."""
        model = self.model
        for reading in self.readings:
            assert reading.end == reading.read.end
            assert [view(snapshot) for snapshot in reading.got] == reading.read.got
        for arm, puppet in zip(model.arms, self.puppets, strict=True):
            assert arm.cancels is None or puppet.cancels == arm.cancels
            assert (puppet.closes, puppet.closed) == (arm.task in {"cleans", "over"}, arm.task == "over")
        if self.fusion is not None:
            assert self.leaving is (model.left and model.let_go_at < NEVER)
            assert self.fusion.rankings() == {arm.name: arm.ranked for arm in model.arms}
            state = model.outcome or ("running" if model.running else "not started")
            told = ", ".join(f"{arm.name} {arm.status} {len(arm.taken)}" for arm in model.arms)
            said = repr(self.fusion)
            assert said.startswith(f"<Fusion {state}: ")
            assert said.endswith(f" {model.seq} snapshots; {told}, {len(model.tasks)} tasks alive>")

    def check_the_stream(self) -> None:
        """Assert what holds for the snapshots of any fusion, whatever its model says."""
        seen = {snapshot.seq: snapshot for reading in self.readings for snapshot in reading.got}
        assert list(seen) == list(range(1, len(seen) + 1))
        assert [snapshot.final for snapshot in seen.values()] == [False] * (len(seen) - 1) + [True]
        for before, after in pairwise(seen.values()):
            for was, report in zip(before.coverage, after.coverage, strict=True):
                assert was.status.is_open or was == report

    def check_the_sources(self) -> None:
        """Assert that each source was closed once, in the task that read it, unless nothing was started."""
        for arm, puppet in zip(self.model.arms, self.puppets, strict=True):
            assert (puppet.closes, puppet.closed) == (self.model.running, self.model.running)
            if puppet.closed_by is not None:
                assert puppet.closed_by.name == f"rrf:{arm.name}"
                assert puppet.read_by in {None, puppet.closed_by}

    def release(self) -> None:
        """Let no arm resist the end of the event loop."""
        for puppet in self.puppets:
            puppet.defies = False
            puppet.send(StopAsyncIteration())
