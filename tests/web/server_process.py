"""A server as a program of its own, for tests of what only a process shows.

Run it with the number of workers, and what it does beside: `again` serves a second time after the first,
`at once` is told to end as soon as it listens. It writes its address, and `ended` after that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from rrf_stream import Pipeline
from rrf_stream.web import Limits, create_app, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def quick(query: str) -> list[str]:
    return list(query)


async def slow(_: str) -> AsyncIterator[str]:
    yield "slow"
    await asyncio.sleep(60)


def make() -> Any:
    """Return the application; its note tells which process it is in."""
    pipeline = Pipeline({"quick": quick, "slow": slow})
    limits = Limits(timeout=60, searches_per_client=64)
    return create_app(pipeline, limits=limits, note=str(os.getpid()))


def main() -> None:
    """Serve until a signal comes."""
    workers, manner = int(sys.argv[1]), sys.argv[2]

    def started(url: str) -> None:
        print(url, flush=True)
        if manner == "at once":
            os.kill(os.getpid(), signal.SIGTERM)

    handlers = [signal.getsignal(one) for one in signal.valid_signals()]
    for _ in range(2 if manner == "again" else 1):
        app = "server_process:make" if workers > 1 else make()
        serve(app, port=0, workers=workers, grace=3, log_level="error", on_start=started)
    assert [signal.getsignal(one) for one in signal.valid_signals()] == handlers
    print("ended", flush=True)


if __name__ == "__main__":
    main()
