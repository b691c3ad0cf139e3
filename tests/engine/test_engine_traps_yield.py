"""Traps of scopes that are held across a `yield` (PEP 789): a fusion holds none, so none of them opens."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import ended, hanging, on, statuses, turns, virtual_time

from rrf_stream import Arm, ArmStatus, Outcome, Snapshot, open_fusion
from rrf_stream.errors import ArmError
from rrf_stream.testing import Script, script

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

pytestmark = pytest.mark.anyio


async def relay(arms: Any, **options: Any) -> AsyncGenerator[Snapshot, None]:
    """Hand on the snapshots of a fusion that stays open between two of them."""
    async with open_fusion(arms, **options) as fusion:
        async for snapshot in fusion:
            yield snapshot  # noqa: ASYNC119 - that this is safe is what the tests show


async def bare(arms: Any, **options: Any) -> AsyncGenerator[Snapshot, None]:
    """Do the same without a context."""
    async for snapshot in open_fusion(arms, **options):
        yield snapshot


every_form = pytest.mark.parametrize("form", [relay, bare, open_fusion])


@virtual_time
@every_form
async def test_a_timeout_that_fires_while_the_consumer_sleeps_disturbs_nobody(
    form: Callable[..., Any],
) -> None:
    """The fusion's own deadline is not the consumer's: its sleep goes on, and the next read is the end."""
    seen = []
    async for snapshot in form({"a": script("x", hang=True)}, timeout=1):
        seen.append((snapshot.final, snapshot.elapsed, anyio.current_time()))
        await anyio.sleep(4)
    assert seen == [(False, 0, 0), (True, 1, 4)]
    assert anyio.current_time() == 8


@virtual_time
@every_form
@pytest.mark.parametrize("required", [False, True])
async def test_an_arm_that_raises_while_the_consumer_sleeps_disturbs_nobody(
    form: Callable[..., Any],
    required: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Its error waits for the reader; a required arm's comes after the final snapshot, unwrapped."""
    arms = [Arm("bad", script(1.0, fail=OSError("down")), required=required), Arm("b", script("x", 2.0))]
    seen: list[Snapshot] = []

    async def consume() -> None:
        async for snapshot in form(arms):
            seen.append(snapshot)
            await anyio.sleep(4)

    if required:
        with pytest.raises(ArmError):
            await consume()
    else:
        await consume()
    assert anyio.current_time() == 8
    assert [snapshot.final for snapshot in seen] == [False, True]
    assert ended(seen[-1]) == {"bad": ("failed", 1), "b": ("stopped", 1) if required else ("exhausted", 2)}
    assert seen[-1].outcome is (Outcome.FAILED if required else Outcome.COMPLETE)


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # trio says that it should be closed
@every_form
async def test_a_break_without_closing_leaves_nothing(
    form: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A loop that is left early cancels nobody, and what the garbage collector finds stops its arms."""
    arms: dict[str, Script] = hanging("x")
    async for snapshot in form(arms):
        assert snapshot.ids == ["x"]
        break
    await turns()
    del snapshot
    gc.collect()
    await turns(10)
    assert arms["hangs"].closed
    assert [record for record in caplog.records if record.name != "rrf_stream"] == []


@virtual_time
@every_form
async def test_a_consumers_own_scope_around_each_read_ends_only_the_read_or_all_of_it(
    form: Callable[..., Any],
) -> None:
    """Giving up on a read leaves a fusion as it was; a generator around it is over, with its arms."""
    source = script("x", 2.0, "y", hang=True)
    stream = form({"a": source}, timeout=4)
    assert (await anext(stream)).ids == ["x"]
    with anyio.move_on_after(1) as scope:
        await anext(stream)
    assert scope.cancelled_caught
    rest = [snapshot async for snapshot in stream]
    assert [snapshot.ids for snapshot in rest] == ([["x", "y"]] * 2 if form is open_fusion else [])
    gc.collect()
    await turns(10)
    assert source.closed


@on("asyncio-virtual", "trio-virtual")
async def test_each_step_of_a_stream_may_be_taken_in_a_scope_of_its_own() -> None:
    """A scope may be open across reads of two fusions, and be gone at the next ones."""
    first = open_fusion({"a": script("x", 1.0, "y")})
    second = open_fusion({"a": script("p", 1.0, "q")})
    async with first, second:
        with anyio.move_on_after(8):
            await anext(first)
            await anext(second)
        with anyio.move_on_after(8):
            finals = [await second.final(), await first.final()]
    assert [final.ids for final in finals] == [["p", "q"], ["x", "y"]]
    assert [statuses(final) for final in finals] == [{"a": ArmStatus.EXHAUSTED}] * 2
