"""The handle that a reader holds: an asynchronous iterator of ever better snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

import anyio

from rrf_stream._arm import Arm
from rrf_stream._coverage import ArmStatus
from rrf_stream._leaving import abandon, clean_up, let_go
from rrf_stream._options import FusionOptions, prepare
from rrf_stream._run import Run
from rrf_stream._snapshot import Outcome, Snapshot
from rrf_stream.errors import FusionClosedError

__all__ = ["Fusion", "fuse_arms", "open_fusion"]


class Fusion:
    """A fusion of arms, read as a stream of snapshots; made by `open_fusion` or a `Pipeline`.

    Every snapshot is the exact fusion of what has arrived, and newer than the one before: a
    slow reader skips to the newest. The last one, and only that, is final. It comes when every
    arm has ended or the time budget is spent, and it is on time whatever an arm does, except
    block the event loop.

    Use it as an asynchronous context manager, so that leaving it stops the arms::

        async with open_fusion(arms, timeout=0.3) as fusion:
            async for snapshot in fusion:
                ...

    The clock and the arms start on entering it, or else with the first read. It is no generator
    and keeps no cancel scope open between two reads, so it may be read inside other streams and
    from different tasks, one at a time. Dropping it stops the arms too.
    """

    __slots__ = ("__weakref__", "_left", "_next_at", "_one_reader", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._left = False
        self._next_at = 0.0
        self._one_reader = _OneReader()

    async def __aenter__(self) -> Self:
        """Start the clock and the arms.

        Raises:
            FusionClosedError: It was entered or read before.
        """
        if self._run.running:
            raise FusionClosedError("a fusion can be entered once, before it is read")
        self._run.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the arms; what the body raised goes on unchanged."""
        await self.aclose()

    def __aiter__(self) -> Self:
        """Return itself: there is one stream of snapshots."""
        return self

    async def __anext__(self) -> Snapshot:
        """Wait for the next snapshot.

        Raises:
            StopAsyncIteration: The final snapshot is out, or the fusion was left.
            ArmError: A required arm failed; raised once, after the final snapshot.
            RuntimeError: Another task is reading.
        """
        with self._one_reader:
            run = self._run
            if run.final is not None or self._left:
                run.raise_failure()
                raise StopAsyncIteration
            if not run.running:
                run.start()
            while not run.ended:
                if self._next_at > run.elapsed:
                    with anyio.CancelScope(deadline=anyio.current_time() + self._next_at - run.elapsed):
                        await run.news(until_end=True)
                elif (snapshot := run.refresh()) is not None:
                    if run.settings.min_interval:
                        self._next_at = run.elapsed + run.settings.min_interval
                    run.journal.shown(snapshot)
                    return snapshot
                else:
                    await run.news()
            return _final(run)

    async def final(self) -> Snapshot:
        """Wait for the final snapshot, and return it without the ones before.

        It is due, at the latest, just before an anyio deadline around this call fires.

        Raises:
            ArmError: A required arm failed, or was not read; raised once, then the snapshot is returned.
            RuntimeError: Another task is reading.
        """
        with self._one_reader:
            return await _answer(self._run)

    def stop(self) -> None:
        """End now with what has arrived: the next snapshot is the final one."""
        self._run.stop(ArmStatus.STOPPED, Outcome.STOPPED)

    async def aclose(self) -> None:
        """Leave: close the open arms as CANCELLED and let them clean up, for at most `grace` seconds.

        Arms that take longer are left behind in the background; `drain` waits for them.
        """
        self._left = True
        await clean_up(self._run)

    def rankings(self) -> dict[str, list[Any]]:
        """Return the ids that each arm has delivered so far, best first.

        `fuse` of them, with the weights, rank constant or kernels, repeats and top-k of this fusion,
        gives the ids, scores and ranks of a snapshot taken now. (Copies are not in them.) Where the
        kernel of an arm goes by scores, they are `Hit` objects with these.
        """
        return self._run.accumulator.rankings()

    def __repr__(self) -> str:
        run = self._run
        state = str(run.outcome) if run.ended else "running" if run.running else "not started"
        return f"<Fusion {state}: {run.accumulator.describe()}, {len(run.arms.running)} tasks alive>"

    def __del__(self) -> None:
        abandon(self._run)


class _OneReader:
    """Refuses a second reader while one waits: each would get only some of the snapshots."""

    __slots__ = ("_busy",)

    def __init__(self) -> None:
        self._busy = False

    def __enter__(self) -> None:
        if self._busy:
            raise RuntimeError("another task is reading this fusion; only one can at a time")
        self._busy = True

    def __exit__(self, *_: object) -> None:
        self._busy = False


def open_fusion(arms: Mapping[str, Any] | Iterable[Arm], **options: Unpack[FusionOptions]) -> Fusion:
    """Fuse arms while they arrive; see `Fusion` for how to read it.

    Args:
        arms: Sources by arm name, or `Arm` objects for arms with options of their own. Their
            order decides ties.
        options: See `FusionOptions`.

    Raises:
        ValueError: An option is out of its range, or two arms have one name.
        TypeError: Something is of the wrong type, or there is no such option.
    """
    return Fusion(_run_of(arms, options))


async def fuse_arms(arms: Mapping[str, Any] | Iterable[Arm], **options: Unpack[FusionOptions]) -> Snapshot:
    """Fuse arms and return the final snapshot only.

    It returns on time even if an arm ignores its cancellation: arms that still clean up are
    not waited for, but left to do so in the background.

    Args:
        arms: Sources by arm name, or `Arm` objects for arms with options of their own. Their
            order decides ties.
        options: See `FusionOptions`.

    Raises:
        ArmError: A required arm failed.
        ValueError: An option is out of its range, or two arms have one name.
        TypeError: Something is of the wrong type, or there is no such option.
    """
    return await answer(_run_of(arms, options))


def _run_of(arms: Mapping[str, Any] | Iterable[Arm], options: FusionOptions) -> Run:
    prepared, sources = prepare(arms, options)
    return Run(prepared.arms, sources, prepared.settings, prepared.plan)


async def answer(run: Run) -> Snapshot:
    """Return the final snapshot of a fusion, and let its arms clean up in the background."""
    try:
        return await _answer(run)
    finally:
        if run.running:
            let_go(run)


async def _answer(run: Run) -> Snapshot:
    if run.running:
        run.hurry()
    else:
        run.start()
    while not run.ended:
        await run.news(until_end=True)
    final = _final(run)
    run.raise_failure()
    return final


def _final(run: Run) -> Snapshot:
    final = run.finish()
    run.journal.shown(final)
    return final
