"""What the tests of the operators share."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rrf_stream.testing import Script, assert_no_leaks, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

#: Runs a test marked `anyio` on the event loops that aiostream is for.
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio", "uvloop", "asyncio-virtual"], indirect=True)
#: The same in virtual time only, where times are exact.
in_virtual_time = pytest.mark.parametrize("anyio_backend", ["asyncio-virtual"], indirect=True)


class Scripts:
    """Hands out a new script for each reading of an arm, and keeps them all."""

    def __init__(self) -> None:
        self.all: list[Script] = []

    def arm(self, *steps: Any, **options: Any) -> Callable[[], Awaitable[Script]]:
        """Return a source that can be read again."""

        async def source() -> Script:  # asynchronous, so that it is not called in a thread
            self.all.append(script(*steps, **options))
            return self.all[-1]

        return source

    def ticking(self) -> Callable[[], Awaitable[Script]]:
        """Return a source that gives ten hits, one every few milliseconds, and then hangs."""
        return self.arm(*(step for number in range(10) for step in (number, 0.004)), hang=True)

    @property
    def closed(self) -> list[bool]:
        return [source.closed for source in self.all]


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Assert that the body leaves no task behind: the library's, aiostream's or any other."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before
    assert left == set()
    await assert_no_leaks(within=0)


async def items_of(stream: Any) -> list[Any]:
    """Return all items of a stream, having entered and left it."""
    async with stream.stream() as streamer:
        return [item async for item in streamer]
