"""Servers that are asked to end, and waited for, when the call that runs them is cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["run_until_cancelled"]


async def run_until_cancelled(run: Callable[[], Awaitable[Any]], end: Callable[[], object]) -> None:
    """Run a server until it ends; if this is cancelled, ask it to end and wait for that.

    Args:
        run: Runs the server, in a task of its own, which is not cancelled.
        end: Asks it to end; called once, also if it has.
    """
    failures: list[Exception] = []

    async def served() -> None:
        with anyio.CancelScope(shield=True):
            try:
                await run()
            except Exception as error:  # noqa: BLE001 - raised below, without the group around it
                failures.append(error)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served)
        try:
            await anyio.sleep_forever()
        finally:
            end()
    if failures:
        raise failures[0]
