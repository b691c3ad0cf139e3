"""What the tests of the server share: arms that tell what became of them, servers on real sockets, events."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn
from sse_starlette.sse import AppStatus

from rrf_stream import Hit, Pipeline
from rrf_stream.testing import assert_no_leaks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence

SOON = 20.0
"""Seconds of real time after which something counts as never coming; the machine may be busy."""

AT_ONCE = 0.1
"""Seconds within which arms are stopped once nobody waits for them."""


class Watched:
    """A retriever that yields its results, then waits if it is told to; tells who asked and when it closed.

    Args:
        results: What it yields for every query.
        wait: Whether it waits for ever afterwards, until it is cancelled.
        pause: Seconds before each result.
    """

    def __init__(self, *results: Any, wait: bool = False, pause: float = 0.0) -> None:
        self._results = results
        self._wait = wait
        self._pause = pause
        self.asked: list[Any] = []
        self.closed: list[float] = []
        self.idle = asyncio.Event()
        """Whether it has yielded all it has for some query."""

    @property
    def source(self) -> Callable[[Any], AsyncIterator[Any]]:
        """The retriever, a function that is asynchronous by its form."""

        async def watched(query: Any) -> AsyncIterator[Any]:
            self.asked.append(query)
            try:
                for result in self._results:
                    await asyncio.sleep(self._pause)
                    yield result
                self.idle.set()
                if self._wait:
                    await asyncio.Event().wait()
            finally:
                self.closed.append(time.monotonic())

        return watched

    async def has_closed(self, times: int = 1) -> float:
        """Wait until it was closed so many times, and return when that was last."""
        await until(lambda: len(self.closed) >= times)
        return self.closed[-1]


def letters(**options: Any) -> Pipeline:
    """Return a pipeline of two quick arms, `forwards` and `backwards`, over the letters of the query."""

    async def forwards(query: str) -> list[Hit]:
        return [Hit(letter, item={"letter": letter}) for letter in dict.fromkeys(query)]

    async def backwards(query: str) -> list[str]:
        return list(reversed(dict.fromkeys(query)))

    return Pipeline({"forwards": forwards, "backwards": backwards}, **options)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(SOON):
        while not holds():  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0.005)


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Assert that a block leaves no task, arm or word to end; the watcher of sse-starlette is ended."""
    before = asyncio.all_tasks()
    yield
    for task in asyncio.all_tasks() - before:
        if "_shutdown_watcher" in repr(task.get_coro()):  # it polls as long as its event loop runs
            task.cancel()
    await assert_no_leaks(within=5)
    await until(lambda: asyncio.all_tasks() <= before)
    assert not AppStatus.should_exit


@asynccontextmanager
async def asking(app: Any, *, client: str = "127.0.0.1", **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of an application without any socket: it gets answers when they are complete."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(client, 1234))
    async with (
        nothing_left(),
        httpx.AsyncClient(transport=transport, base_url="http://server", **options) as asker,
    ):
        yield asker


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[int]:
    """Serve an application on a real socket, in the event loop of the test; give its port."""
    async with nothing_left():
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        await until(lambda: server.started or running.done())
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await asyncio.wait_for(running, SOON)
            listener.close()


@asynccontextmanager
async def connection(
    port: int, target: str, *headers: str, room: int | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Ask for a target over a socket of one's own.

    Args:
        port: Where the server is.
        target: The path and the query string.
        headers: Further lines of the head.
        room: Bytes that the system and the reader hold at most of what is not read; as usual if None.
    """
    raw = socket.socket()
    raw.setblocking(False)  # noqa: FBT003 - a socket's own signature
    if room is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=raw, limit=room or 2**16)
    head = [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers]
    writer.write("".join(f"{line}\r\n" for line in [*head, ""]).encode("latin-1"))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def read_until(reader: asyncio.StreamReader, words: bytes) -> bytes:
    """Read from a connection until some words have come, or it ends."""
    got = b""
    async with asyncio.timeout(SOON):
        while words not in got and (some := await reader.read(2**16)):
            got += some
    assert words in got, got
    return got


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    kind: str
    id: str | None
    data: Any


def events_in(text: str) -> list[Event]:
    """Return the events of a stream, and insist on its form: known fields, CRLF, one line of JSON each.

    A block of an id alone is none, as browsers see it.
    """
    events = []
    assert text.endswith("\r\n\r\n")
    for block in text.removesuffix("\r\n\r\n").split("\r\n\r\n"):
        lines = block.split("\r\n")
        if all(line.startswith(":") for line in lines):
            continue
        fields = dict(line.split(": ", 1) for line in lines)
        assert len(fields) == len(lines)
        if fields.keys() == {"id"}:
            continue
        assert fields.keys() <= {"id", "event", "data"}
        events.append(Event(fields["event"], fields.get("id"), json.loads(fields["data"])))
    return events


def comments_in(text: str) -> int:
    """Return how many comments are in a stream."""
    return sum(line.startswith(":") for line in text.split("\r\n"))


@dataclass
class ByHand:
    """A client that is called by an application itself, so that a test decides how it takes what it is sent.

    Attributes:
        path: What it asks for, with the query string.
        headers: What it sends beside.
        client: Its address; None for none.
        root_path: The path that the application is mounted below.
        sent: What it was sent.
        gone: Is set when it goes away.
        has_asked: Whether the application knows that the request has no body.
    """

    path: str
    headers: Sequence[tuple[bytes, bytes]] = ()
    client: tuple[str, int] | None = ("127.0.0.1", 1234)
    root_path: str = ""
    sent: list[MutableMapping[str, Any]] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    has_asked: bool = False

    @property
    def scope(self) -> dict[str, Any]:
        """What the application is told of the request."""
        path, _, query = self.path.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": self.root_path,
            "query_string": query.encode("latin-1"),
            "headers": [(b"host", b"server"), *self.headers],
            "client": self.client,
            "server": ("server", 80),
        }

    async def receive(self) -> MutableMapping[str, Any]:
        """Give the request, and then that it went away once it has."""
        if not self.has_asked:
            self.has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Take what is sent at once."""
        self.sent.append(message)

    @property
    def status(self) -> int:
        """The status it got."""
        return int(self.sent[0]["status"])

    @property
    def body(self) -> str:
        """The body so far."""
        return b"".join(message.get("body", b"") for message in self.sent).decode()
