"""A server with a fast, a slow and a failing arm, for a process of its own; it logs and prints what it can.

Its argument is `stdio` or `http`.
"""

from __future__ import annotations

import sys

import anyio
import structlog
from mcp_kit import NAMES, Asked, hits

from rrf_stream import Pipeline
from rrf_stream.integrations.mcp import create_server, serve_http, serve_stdio

CLOSED = "the slow arm is closed"


def on_close() -> None:
    print(CLOSED, file=sys.stderr, flush=True)
    # Not flushed, as programs do, and after the last event: it waits in a buffer until the very end.
    print("an arm prints")


async def main() -> None:
    # As an application might: events go to standard output, line by line.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory())
    slow = Asked(0.05, hits("a"), hang=True, on_close=on_close)
    pipeline = Pipeline(
        {
            "lexical": Asked(hits("a", "c", "b")),
            "dense": slow,
            "graph": Asked(fail=ConnectionError("no route")),
        }
    )
    server = create_server(pipeline, fetch={"a": "All of it."}.get, arm_names=NAMES, progress_interval=0.02)
    if sys.argv[1] == "stdio":
        await serve_stdio(server)
    else:
        await serve_http(server, port=0, on_ready=lambda url: print(url, file=sys.stderr, flush=True))


if __name__ == "__main__":
    anyio.run(main)
