"""A query as one writes it by hand: read the arms until the time is up, then fuse in a loop what is there."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from inspect import iscoroutine

import anyio
from core import naive
from mix import BLOCKS, ArmPlan, Query, Source, blocking

from rrf_stream import Page

__all__ = ["by_hand_on_asyncio", "by_hand_on_trio", "settle"]

WINDOW = 100
_late: set[asyncio.Task[None]] = set()


async def collect(arm: ArmPlan, found: list[str]) -> None:
    """Read an arm as far as its window; what it raises costs only what it did not deliver."""
    with suppress(Exception):
        if arm.kind == BLOCKS:
            found.extend(await anyio.to_thread.run_sync(list, blocking(arm), abandon_on_cancel=True))
            return
        source = arm.source()
        if isinstance(source, Source):
            async with aclosing(source):
                async for element in source:
                    if type(element) is Page:
                        found.extend(element)
                    else:
                        hash(element)  # what is no id fails its arm here, not the fusion
                        found.append(element)
                    if len(found) >= WINDOW:
                        break
        else:
            found.extend(await source if iscoroutine(source) else source)


async def by_hand_on_asyncio(query: Query) -> object:
    """Wait for a task for each arm, cancel the late ones, and fuse what is there."""
    found: list[list[str]] = [[] for _ in query.arms]
    tasks = [asyncio.create_task(collect(*pair)) for pair in zip(query.arms, found, strict=True)]
    _, late = await asyncio.wait(tasks, timeout=query.budget)
    for task in late:
        task.cancel()
    _late.update(late)
    return naive(found)[:10]


async def by_hand_on_trio(query: Query) -> object:
    """Give a nursery that long, and fuse what is there. It waits for arms that clean up or go on."""
    import trio  # noqa: PLC0415 - only where it is measured

    found: list[list[str]] = [[] for _ in query.arms]
    with trio.move_on_after(query.budget):
        async with trio.open_nursery() as nursery:
            for pair in zip(query.arms, found, strict=True):
                nursery.start_soon(collect, *pair)
    return naive(found)[:10]


async def settle() -> None:
    """Wait for the arms that were late."""
    if _late:
        await asyncio.wait(_late)
        _late.clear()
