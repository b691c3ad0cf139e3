"""A server with a fast, a slow and a failing arm, for a process of its own; it logs and prints what it can.

Its argument is `stdio` or `http`.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import structlog
from mcp_kit import NAMES, Asked, hits

from rrf_stream import Pipeline
from rrf_stream.integrations.mcp import create_server, serve_http, serve_stdio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rrf_stream.testing import Script

ASKED = "the slow arm is asked"
CLOSED = "the slow arm is closed"
AROUND = "what is around the server is closed"
INSIDE = "what the server holds open is closed"


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def on_close() -> None:
    say(CLOSED)
    # Not flushed, as programs do, and after the last event: it waits in a buffer until the very end.
    print("an arm prints")


@asynccontextmanager
async def closing(words: str) -> AsyncIterator[None]:
    try:
        yield
    finally:
        say(words)


async def main() -> None:
    # As an application might: events go to standard output, line by line.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory())
    slow = Asked(0.05, hits("a"), hang=True, on_close=on_close)

    async def dense(query: str) -> Script:
        say(ASKED)
        return await slow(query)

    pipeline = Pipeline(
        {
            "lexical": Asked(hits("a", "c", "b")),
            "dense": dense,
            "graph": Asked(fail=ConnectionError("no route")),
        }
    )
    server = create_server(
        pipeline,
        fetch={"a": "All of it."}.get,
        arm_names=NAMES,
        max_timeout=3_600,
        progress_interval=0.02,
        lifespan=lambda: closing(INSIDE),
    )
    async with closing(AROUND):
        if sys.argv[1] == "stdio":
            await serve_stdio(server)
        else:
            await serve_http(server, port=0, on_ready=say)


if __name__ == "__main__":
    anyio.run(main)
