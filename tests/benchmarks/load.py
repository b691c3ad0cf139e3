"""The server under load: 200 streams at once, beside an endpoint that sends the same bytes without searching.

Query model: three arms answer after 10, 30 and 60 ms, with a page of 50 results each, of which many are the
same; a stream is some snapshots of 10 hits with items. The other endpoint has recorded the events of one such
stream, and sends them at the same times with sse-starlette, as one writes that by hand. Each server is a
process of its own; a third process is the client, on the loopback interface: it opens 200 connections, then
asks over all of them at once, by turns of one server and the other. Then it fills the server with searches
that wait, and asks on: how long a refusal with 429 takes is measured inside the server, from the call of the
application to the end of its answer.
Run: `python tests/benchmarks/load.py`, with `--short` for some seconds of it. Exits with 1 if a stream is
lost, broken off, or not what it should be. Never because of a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from harness import Row, heading, percentile, show
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.routing import Route

from rrf_stream import Hit, Page, Pipeline
from rrf_stream.web import Limits, create_app

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from starlette.requests import Request

STREAMS = 200
PATIENCE = 60.0
"""Seconds after which a stream counts as lost."""
TARGET = "/search/stream?q=load&timeout_ms=10000"
DELAYS = {"lexical": 0.01, "dense": 0.03, "graph": 0.06}


# --- the servers ------------------------------------------------------------------------------------------


def arm(delay: float, first: int) -> Callable[[str], AsyncIterator[Any]]:
    """Return a retriever that answers after some time, or waits long where the query wants that."""

    async def retrieve(query: str) -> AsyncIterator[Any]:
        await asyncio.sleep(60 if query == "hold" else delay)
        items = {n: {"title": f"Document {n}", "text": "words " * 20} for n in range(first, first + 50)}
        yield Page([Hit(f"doc-{n:03}", item=item) for n, item in items.items()])

    return retrieve


def searching() -> Any:
    """Return the application that is measured."""
    arms = {name: arm(delay, 20 * at) for at, (name, delay) in enumerate(DELAYS.items())}
    limits = Limits(searches=2 * STREAMS, searches_per_client=STREAMS, timeout=60)
    return create_app(Pipeline(arms), limits=limits)


def bare(recorded: str) -> Any:
    """Return the application that it is held against."""
    events = json.loads(Path(recorded).read_text("utf-8"))

    async def send(_: Request) -> EventSourceResponse:
        async def body() -> AsyncIterator[ServerSentEvent]:
            started = time.monotonic()
            for at, event in events:
                await asyncio.sleep(at - (time.monotonic() - started))
                yield ServerSentEvent(**event)

        return EventSourceResponse(body())

    return Starlette(routes=[Route("/search/stream", send)])


class Measured:
    """An application around another one, which tells what that costs."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._refusals: list[float] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer `/cost` itself, and note how long refusals take."""
        if scope["type"] == "http" and scope["path"] == "/cost":
            cost = {"cpu": time.process_time(), "refusals": self._refusals}
            await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
            await send({"type": "http.response.body", "body": json.dumps(cost).encode()})
            return
        status = 0

        async def send_on(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        started = time.perf_counter()
        await self._app(scope, receive, send_on)
        if status == 429:
            self._refusals.append(time.perf_counter() - started)


def serve(app: Any) -> None:
    """Serve until the parent says that it is enough."""
    with socket.create_server(("127.0.0.1", 0), backlog=2 * STREAMS) as listener:
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(Measured(app), log_level="error", timeout_graceful_shutdown=1)
        signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn repeats what it has obeyed
        uvicorn.Server(config).run(sockets=[listener])


# --- the client -------------------------------------------------------------------------------------------


@dataclass
class Turn:
    """What came of asking one server once over all connections.

    Attributes:
        firsts: Seconds to the first event of each stream.
        wholes: Seconds to the end of each.
        lost: Streams that did not end as they should.
        cpu: CPU seconds of the server.
    """

    firsts: list[float] = field(default_factory=list)
    wholes: list[float] = field(default_factory=list)
    lost: int = 0
    cpu: float = 0.0


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def ask(port: int, target: str, connection: Connection | None = None) -> AsyncGenerator[bytes, None]:
    """Ask, and give what comes until the server closes the connection."""
    reader, writer = connection or await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
        while some := await reader.read(2**16):
            yield some
    finally:
        writer.close()


async def body_of(port: int, target: str) -> bytes:
    """Return the whole answer without its head."""
    return b"".join([some async for some in ask(port, target)]).partition(b"\r\n\r\n")[2]


async def cost_of(port: int) -> dict[str, Any]:
    """Ask a server what it has cost so far."""
    answer = await body_of(port, "/cost")
    cost: dict[str, Any] = json.loads(answer[answer.index(b"{") : answer.rindex(b"}") + 1])
    return cost


async def read(port: int, connection: Connection, turn: Turn) -> None:
    """Read one stream to its end."""
    started = time.perf_counter()
    got = b""
    try:
        async with asyncio.timeout(PATIENCE):
            async for some in ask(port, TARGET, connection):
                if b"event: snapshot" not in got and b"event: snapshot" in got + some:
                    turn.firsts.append(time.perf_counter() - started)
                got += some
    except (OSError, TimeoutError):
        turn.lost += 1
        return
    turn.wholes.append(time.perf_counter() - started)
    is_whole = got.endswith(b"\r\n0\r\n\r\n") and got.count(b'"final":true') == got.count(b"event: done") == 1
    turn.lost += not is_whole


async def take_turn(port: int) -> Turn:
    """Ask over all connections at once."""
    turn = Turn()
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(STREAMS)]
    before = (await cost_of(port))["cpu"]
    await asyncio.gather(*[read(port, connection, turn) for connection in connections])
    turn.cpu = (await cost_of(port))["cpu"] - before
    return turn


async def refused(port: int, times: int) -> list[float]:
    """Fill the server, ask on, and return how long its refusals took inside of it."""
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(STREAMS)]
    streams = [ask(port, "/search/stream?q=hold", one) for one in held]
    await asyncio.gather(*map(anext, streams))  # the head of each: it was let in
    for _ in range(times):
        await body_of(port, TARGET)
    for stream in streams:
        await stream.aclose()
    times_taken: list[float] = (await cost_of(port))["refusals"]
    return times_taken


async def record(port: int, path: str) -> None:
    """Write down the events of one stream, and when they came."""
    started = time.monotonic()
    events = []
    got = b""
    async for some in ask(port, TARGET):
        got += some
        while b"\r\n\r\n" in got:
            block, _, got = got.partition(b"\r\n\r\n")
            lines = [line.split(": ", 1) for line in block.decode().split("\r\n")]
            fields = {line[0]: line[1] for line in lines if line[0] in {"id", "event", "data"}}
            if fields:
                events.append((round(time.monotonic() - started, 3), fields))
    await asyncio.to_thread(Path(path).write_text, json.dumps(events), "utf-8")


def report(ours: list[Turn], theirs: list[Turn], refusals: list[float]) -> int:
    """Print what was measured; return 1 if a stream was lost."""

    def pairs(of: Callable[[Turn], float]) -> list[tuple[float, float]]:
        return [(of(one) * 1e6, of(other) * 1e6) for one, other in zip(ours, theirs, strict=True)]

    other = "sse-starlette, the same bytes"
    rows = [
        Row.of(f"{STREAMS} streams: first event, {name}", pairs(of), bar="", against=other)
        for name, of in [
            ("p50", lambda turn: percentile(turn.firsts, 0.5)),
            ("p99", lambda turn: percentile(turn.firsts, 0.99)),
        ]
    ]
    whole = pairs(lambda turn: percentile(turn.wholes, 0.5))
    rows.append(Row.of(f"{STREAMS} streams: last event, p50", whole, bar="", against=other))
    cpu = pairs(lambda turn: turn.cpu / STREAMS)
    rows.append(Row.of("CPU time of the server for a stream", cpu, bar="", against=other))
    show(rows)
    if not refusals:
        print("nobody was refused")
        return 1
    lost = sum(turn.lost for turn in ours)
    print(
        f"\nstreams: {len(ours) * STREAMS}, lost: {lost}; of the other: {sum(turn.lost for turn in theirs)}"
        f"\na refusal with 429, inside of the server ({len(refusals)}): "
        f"median {percentile(refusals, 0.5) * 1e6:.0f} us, p99 {percentile(refusals, 0.99) * 1e6:.0f} us"
        f" of wall clock, while {STREAMS} searches are under way; bar: 1000 us"
    )
    return int(lost > 0)


async def measure(ours: int, theirs: int, *, turns: int, refusals: int) -> int:
    """Ask both servers by turns."""
    for port in (ours, theirs):
        await take_turn(port)  # a warm-up
    taken: tuple[list[Turn], list[Turn]] = [], []
    for _ in range(turns):
        for port, of in zip((ours, theirs), taken, strict=True):
            of.append(await take_turn(port))
    return report(*taken, await refused(ours, refusals))


def main() -> int:
    """Start the servers and the client, and wait for what it finds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="some seconds of it")
    parser.add_argument("--role", nargs="+", help="what this process is to be; for the program itself")
    options = parser.parse_args()
    match options.role:
        case ["searching"]:
            serve(searching())
        case ["bare", recorded]:
            serve(bare(recorded))
        case ["record", port, path]:
            asyncio.run(record(int(port), path))
        case ["client", ours, theirs]:
            turns, refusals = (2, 200) if options.short else (8, 1000)
            return asyncio.run(measure(int(ours), int(theirs), turns=turns, refusals=refusals))
        case _:
            return run(["--short"] if options.short else [])
    return 0


def run(options: list[str]) -> int:
    """Run all processes."""
    print(heading())
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        recorded = os.path.join(folder, "events.json")  # noqa: PTH118 - it goes to a command line

        def command(*role: str) -> list[str]:
            return [sys.executable, __file__, *options, "--role", *role]

        def start(*role: str) -> str:
            server = stack.enter_context(
                subprocess.Popen(command(*role), stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
            )
            stack.callback(server.terminate)
            assert server.stdout is not None
            return server.stdout.readline().strip()

        ours = start("searching")
        subprocess.run(command("record", ours, recorded), check=True)  # noqa: S603 - our own
        theirs = start("bare", recorded)
        return subprocess.run(command("client", ours, theirs), check=False).returncode  # noqa: S603 - our own


if __name__ == "__main__":
    sys.exit(main())
