"""Eager tasks, which take their first step while they are made: asyncio's own from Python 3.12 on."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from itertools import groupby
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from engine_kit import assert_is_batch, read, received, statuses

from rrf_stream import Arm, ArmStatus, Outcome, Page, fuse_arms, open_fusion
from rrf_stream.errors import ArmError
from rrf_stream.testing import VirtualEventLoop, assert_no_leaks, capture_events, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator

T = TypeVar("T")


@coroutine
def resume(started: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Go on with a coroutine that has already taken its first step."""
    while True:
        try:
            step = partial(started.send, (yield waits_for))
        except BaseException as error:  # noqa: BLE001 - a cancellation is the coroutine's to handle
            step = partial(started.throw, error)
        try:
            waits_for = step()
        except StopIteration as stop:
            result: T = stop.value
            return result


async def go_on(started: Coroutine[Any, Any, T], waits_for: Any) -> T:
    return await resume(started, waits_for)


async def returns(value: T) -> T:
    return value


async def raises(error: BaseException) -> Any:
    raise error


class Begun(asyncio.Task[Any]):
    """A task that has taken its first step, so that a cancellation finds it waiting."""

    def cancel(self, msg: object = None) -> bool:
        self.get_loop().call_soon(super().cancel, msg)
        return not self.done()


def eager(loop: asyncio.AbstractEventLoop, main: Any, **options: Any) -> asyncio.Task[Any]:
    """A task factory that does what Python 3.12's does, on any Python, as far as our arms can tell."""
    try:
        waits_for = main.send(None)
    except StopIteration as stop:
        rest: Coroutine[Any, Any, Any] = returns(stop.value)
    except BaseException as error:  # noqa: BLE001 - it is the task's result
        rest = raises(error)
    else:
        rest = go_on(main, waits_for)
    return Begun(rest, loop=loop, **options)


def asyncios_own() -> Any:
    if sys.version_info < (3, 12):
        pytest.skip("needs Python 3.12 for eager tasks; the imitation is tested instead")
    return asyncio.eager_task_factory


@pytest.fixture(params=["imitation", "asyncio's own"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Runs a coroutine function in virtual time, where all tasks made in it are eager."""
    factory: Any = eager if request.param == "imitation" else asyncios_own()

    def run(main: Callable[[], Awaitable[None]]) -> None:
        async def eagerly() -> None:
            loop = asyncio.get_running_loop()
            loop.set_task_factory(factory)
            try:
                await main()
                await assert_no_leaks(within=5)
            finally:
                loop.set_task_factory(None)  # what closes the loop makes tasks where none can run yet

        with asyncio.Runner(loop_factory=VirtualEventLoop) as runner:
            runner.run(eagerly())

    return run


async def plain(*results: Any, then: float = 0) -> AsyncIterator[Any]:
    for result in results:
        yield result
    if then:
        await asyncio.sleep(then)


def test_arms_that_need_no_waiting_have_ended_at_the_start(run: Any) -> None:
    """A fusion of eager arms is complete before it is read, with one snapshot."""

    async def main() -> None:
        async with open_fusion({"a": plain("x", "y"), "b": ["y"]}) as fusion:
            assert fusion.rankings() == {"a": ["x", "y"], "b": ["y"]}
            (final,) = [snapshot async for snapshot in fusion]
            assert_is_batch(final, fusion)
        assert (final.outcome, final.elapsed) == (Outcome.COMPLETE, 0)

    run(main)


def test_arms_that_wait_go_on_as_usual(run: Any) -> None:
    """Mixed with arms that suspend, everything comes as it does without eager tasks."""

    async def main() -> None:
        snapshots = await read(open_fusion({"a": script("x", 1.0, "y"), "b": plain("y", then=0.5)}))
        shown = [(snapshot.elapsed, snapshot.ids) for snapshot in snapshots]
        assert [one for one, _ in groupby(shown)] == [  # a slow machine may look twice at one instant
            (0, ["x", "y"]),
            (0.5, ["x", "y"]),
            (1.0, ["y", "x"]),
        ]
        final = await fuse_arms({"a": script("x", hang=True), "b": plain("y", then=8)}, timeout=1)
        assert (final.ids, final.elapsed, final.outcome) == (["x", "y"], 1, Outcome.DEADLINE)

    run(main)


def test_windows_and_failures_at_the_first_step(run: Any) -> None:
    """An arm may be full, or fail, while its task is being made."""

    async def main() -> None:
        arms = [
            Arm("full", plain(1, 2, 3), window=2),
            Arm("bad", script("x", fail=OSError("down"))),
            Arm("c", ["y"]),
        ]
        final = await fuse_arms(arms)
        assert statuses(final) == {
            "full": ArmStatus.WINDOW_FULL,
            "bad": ArmStatus.FAILED,
            "c": ArmStatus.EXHAUSTED,
        }
        assert received(final) == {"full": 2, "bad": 1, "c": 1}

    run(main)


@pytest.mark.parametrize("ending", ["required", "quorum"])
def test_arms_that_never_start_are_closed(run: Any, ending: str) -> None:
    """When the first arm ends the fusion before the others are started, their sources are closed."""

    async def main() -> None:
        source = script("never")

        async def never() -> list[str]:
            return ["never"]

        first = Arm("first", script("x", fail=OSError("down")), required=ending == "required", weight=9)
        arms = [first, Arm("b", source), Arm("c", never()), Arm("d", never)]
        fusion = open_fusion(arms, quorum=0.5 if ending == "quorum" else None)
        await fusion.__aenter__()
        if ending == "required":
            with pytest.raises(ArmError):
                await fusion.final()
        else:
            assert (await fusion.final()).outcome is Outcome.QUORUM
        await fusion.aclose()
        assert source.closed

    run(main)


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_a_key_may_stop_the_fusion(run: Any, at: int) -> None:
    """Whatever the caller's functions do with the fusion while it starts, it ends once, as it is then."""

    async def main() -> None:
        calls = 0

        def key(result: str) -> str:
            nonlocal calls
            calls += 1
            if calls == at:
                fusion.stop()
            return result

        sources = {
            "a": plain(Page(["x", "y"]), "v"),
            "b": script("z", hang=True),
            "c": script("w", hang=True),
        }
        fusion = open_fusion(sources, key=key)
        (final,) = await read(fusion)
        assert (final.outcome, final.final, final.elapsed) == (Outcome.STOPPED, True, 0)
        assert_is_batch(final, fusion)
        assert received(final) == {name: len(ids) for name, ids in fusion.rankings().items()}
        assert asyncio.get_running_loop().time() == 0

    run(main)


def test_an_arm_that_is_closed_in_its_own_first_step_is_cancelled(run: Any) -> None:
    """Its task is not made yet when that happens; it is cancelled all the same, within the grace."""

    async def main() -> None:
        def key(result: str) -> str:
            fusion.stop()
            return result

        async def goes_on() -> AsyncIterator[str]:
            try:
                yield "x"
            finally:  # so it waits in its first step, after it was closed
                await asyncio.sleep(8)

        with capture_events() as events:
            fusion = open_fusion({"a": goes_on()}, key=key)
            assert [snapshot.outcome for snapshot in await read(fusion)] == [Outcome.STOPPED]
        assert asyncio.get_running_loop().time() == 0
        assert [event["event"] for event in events if "abandoned" in event["event"]] == []

    run(main)
