"""A server as a program of its own, for tests of what only a process shows.

Run it with the number of workers, and what it does beside: `again` serves a second time after the first,
`at once` is told to end as soon as it listens, `mounted` and `wrapped` put another application around it,
`behind proxy` believes a proxy, too. It writes its address, and `ended` after that; the file that `ASKED`
names gets a line with the process for each search that waits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.routing import Mount

from rrf_stream import Pipeline
from rrf_stream.web import Limits, create_app, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def quick(query: str) -> list[str]:
    return list(query)


async def slow(_: str) -> AsyncIterator[str]:
    yield "slow"
    if asked := os.environ.get("ASKED"):
        with Path(asked).open("a") as lines:  # noqa: ASYNC230 - it is one line
            lines.write(f"{os.getpid()}\n")
    await asyncio.sleep(60)


def make() -> Any:
    """Return the application; its note tells which process it is in."""
    pipeline = Pipeline({"quick": quick, "slow": slow})
    limits = Limits(timeout=60, searches_per_client=64)
    return create_app(pipeline, limits=limits, note=str(os.getpid()))


def wrapped(app: Any) -> Any:
    """Return an application that tells clients at `/who` who they are, and passes on the rest."""

    async def wrapping(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") == "/who":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": scope["client"][0].encode()})
        else:
            await app({**scope}, receive, send)

    return wrapping


def app_of(workers: int, manner: str) -> Any:
    """Return what is to be served."""
    if workers > 1:
        return "server_process:make"
    if manner == "mounted":
        return Starlette(routes=[Mount("/inner", make())])
    return wrapped(make()) if manner in {"wrapped", "behind proxy"} else make()


def main() -> None:
    """Serve until a signal comes."""
    workers, manner = int(sys.argv[1]), sys.argv[2]

    def started(url: str) -> None:
        print(url, flush=True)
        if manner == "at once":
            os.kill(os.getpid(), signal.SIGTERM)

    handlers = [signal.getsignal(one) for one in signal.valid_signals()]
    for _ in range(2 if manner == "again" else 1):
        serve(
            app_of(workers, manner),
            port=0,
            workers=workers,
            grace=3,
            behind_proxy=manner == "behind proxy",
            log_level="error",
            on_start=started,
        )
    assert [signal.getsignal(one) for one in signal.valid_signals()] == handlers
    print("ended", flush=True)


if __name__ == "__main__":
    main()
