"""How servers end: asked to, and waited for, with what they hold open closed last."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import anyio

from rrf_stream import drain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

__all__ = ["open_while_running", "run_until_told"]

_DRAIN = 1.0  # seconds that arms have to clean up when the server ends


async def run_until_told(run: Callable[[], Awaitable[Any]], end: Callable[[], object]) -> None:
    """Run a server until it ends. If SIGTERM comes, or this is cancelled, ask it to end and wait for that.

    SIGTERM is nobody else's then, so the program goes on behind this call, and can clean up.

    Args:
        run: Runs the server, in a task of its own, which is not cancelled.
        end: Asks it to end; called at least once, also if it has.
    """
    failures: list[Exception] = []

    async def served() -> None:
        with anyio.CancelScope(shield=True):
            try:
                await run()
            except Exception as error:  # noqa: BLE001 - raised below, without the group around it
                failures.append(error)
        tasks.cancel_scope.cancel()

    with _at_sigterm(end):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served)
            try:
                await anyio.sleep_forever()
            finally:
                end()
    if failures:
        raise failures[0]


@contextmanager
def _at_sigterm(end: Callable[[], object]) -> Iterator[None]:
    """Call `end` at SIGTERM, unless the application heeds it itself, or this is no thread that can."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: end())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@asynccontextmanager
async def open_while_running(
    given: Callable[[], AbstractAsyncContextManager[Any]] | None, _: object
) -> AsyncIterator[Any]:
    """Hold open what the retrievers need; let arms clean up before it closes."""
    async with nullcontext() if given is None else given() as state:
        try:
            yield state
        finally:
            with anyio.CancelScope(shield=True):
                await drain(_DRAIN)
            # While a client is served over standard output, prints lead to standard error; what waits in
            # the buffer must go there as well, and not to the client afterwards.
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
