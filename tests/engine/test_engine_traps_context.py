"""Traps of context variables and of loggers: what is bound around a fusion, and who gets to see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
import structlog
from engine_kit import hanging, turns
from structlog.contextvars import bind_contextvars, bound_contextvars, clear_contextvars, get_contextvars

from rrf_stream import Arm, Page, drain, fuse_arms, in_thread, open_fusion
from rrf_stream.testing import capture_events, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture
def heard() -> Iterator[list[dict[str, Any]]]:
    """The events of an application that merges its context variables into them."""
    events: list[dict[str, Any]] = []

    def keep(_: Any, __: str, event: Any) -> Any:
        events.append(dict(event))
        raise structlog.DropEvent

    structlog.configure(processors=[structlog.contextvars.merge_contextvars, keep])
    clear_contextvars()
    yield events
    clear_contextvars()
    structlog.reset_defaults()


def bound() -> Iterator[str]:
    """A source that answers what is bound where it runs."""
    yield str(get_contextvars().get("request"))


async def bound_later() -> AsyncIterator[str]:
    await anyio.sleep(0.001)
    yield str(get_contextvars().get("request"))
    bind_contextvars(request="the arm's own")


async def test_what_structlog_has_bound_reaches_the_arms_and_nothing_comes_back() -> None:
    """On the event loop, in a thread, and in a thread with a loop of its own; what they bind is theirs."""
    with bound_contextvars(request="r1"):
        arms = {"loop": bound_later(), "thread": bound, "own loop": in_thread(bound_later)}
        final = await fuse_arms(arms)
        assert final.coverage.full
        assert final.ids == ["r1"]
        assert get_contextvars() == {"request": "r1"}
    assert get_contextvars() == {}


@pytest.mark.parametrize(
    "ending", ["complete", "deadline", "timeout", "idle", "stopped", "left", "quorum", "abandoned", "late"]
)
async def test_every_event_has_what_the_caller_has_bound(ending: str, heard: list[dict[str, Any]]) -> None:
    """Whoever reports it, the reader, an arm or a timer: an event belongs to the request that asked."""
    hangs = script("y", hang=True)
    if ending == "abandoned":
        hangs = script("y", hang=True, cleanup=0.05, shield=True)
    if ending == "late":
        hangs = script("y", 0.02, Page(["late", "later"]), swallow=1)
    limits: dict[str, Any] = {"timeout": {"timeout": 0.01}, "idle": {"idle_timeout": 0.01}}
    arms = [Arm("a", ["x"]), Arm("b", ["x"] if ending == "complete" else hangs, **limits.get(ending, {}))]
    options: dict[str, Any] = {"quorum": {"quorum": 0.5, "patience": 0.01}}
    if ending in {"deadline", "abandoned", "late"}:
        options[ending] = {"timeout": 0.01}
    with bound_contextvars(request="r1"):
        async with open_fusion(arms, grace=0.005, **options.get(ending, {})) as fusion:
            await anext(fusion)
            if ending == "stopped":
                fusion.stop()
            if ending != "left":
                await fusion.final()
    assert await drain(5) == []
    assert [event["event"] for event in heard].count("rrf_stream.fusion_closed") == 1
    assert [event for event in heard if event.get("request") != "r1"] == []


async def test_a_binding_around_a_yield_of_the_reader_is_the_readers_affair() -> None:
    """Arms have what was bound when the fusion started, whatever the reader binds between two snapshots."""
    seen = []

    async def arm() -> AsyncIterator[str]:
        for number in range(3):
            seen.append(get_contextvars().get("request"))
            yield f"{number}"
            await anyio.sleep(0.002)

    bind_contextvars(request="r1")
    fusion = open_fusion({"a": arm()})
    async for snapshot in fusion:
        bind_contextvars(request=f"snapshot {snapshot.seq}")
    clear_contextvars()
    assert seen == ["r1"] * 3


async def test_an_application_may_freeze_its_loggers_and_configure_anew() -> None:
    """With `cache_logger_on_first_use` a logger that was used keeps its configuration: ours is not kept."""
    first: list[str] = []

    def keep(_: Any, __: str, event: Any) -> Any:
        first.append(event["event"])
        raise structlog.DropEvent

    structlog.configure(processors=[keep], cache_logger_on_first_use=True)
    try:
        await fuse_arms({"a": ["x"]})
        with capture_events() as events:
            await fuse_arms({"a": ["x"]})
        await fuse_arms({"a": ["x"]})
    finally:
        structlog.reset_defaults()
    names = ["rrf_stream.arm_closed", "rrf_stream.fusion_closed"]
    assert [event["event"] for event in events] == names
    assert first == names * 2


async def test_results_are_no_events() -> None:
    """A hundred results, read as they come, are no more events than one."""
    with capture_events() as events:
        async with open_fusion({"a": script(*range(100)), **hanging("x")}) as fusion:
            await anext(fusion)
            await turns()
            fusion.stop()
    assert [event["event"] for event in events] == ["rrf_stream.arm_closed"] * 2 + [
        "rrf_stream.fusion_closed"
    ]
