"""A fusion read to its end, with progress on the way that holds nobody up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from rrf_stream.errors import ArmError
from rrf_stream.integrations.mcp import _words as words
from rrf_stream.integrations.mcp._answer import progress_of
from rrf_stream.integrations.mcp._limits import RefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rrf_stream import Fusion, Snapshot
    from rrf_stream.integrations.mcp._answer import Style

__all__ = ["answered"]


async def answered(
    fusion: Fusion, tell: Callable[[float, float, str], Awaitable[None]], *, budget: float, style: Style
) -> Snapshot:
    """Return the final snapshot, and tell of those before.

    A client that is slow to be told learns of the newest next, and holds up neither those nor the answer.

    Args:
        fusion: What is searched.
        tell: Takes milliseconds, of how many, and what there is by then.
        budget: Seconds that the call has.
        style: How progress is worded.

    Raises:
        RefusedError: A required arm failed.
    """
    newest: Snapshot | None = None
    news = anyio.Event()
    failure: ArmError | None = None

    async def tell_the_newest() -> None:
        nonlocal news
        while True:
            await news.wait()
            news = anyio.Event()
            if newest is not None:
                elapsed = round((newest.elapsed or 0.0) * 1000, 3)
                await tell(elapsed, budget * 1000, progress_of(newest, style=style))

    async with anyio.create_task_group() as telling:
        telling.start_soon(tell_the_newest)
        async with fusion:
            try:
                async for snapshot in fusion:
                    if not snapshot.final:
                        newest = snapshot
                        news.set()
            except ArmError as error:
                failure = error  # raised below, without the group around it
            final = await fusion.final()
        telling.cancel_scope.cancel()
    if failure is not None:
        raise RefusedError(words.failure(final, failure.arm, style.names)) from failure
    return final
