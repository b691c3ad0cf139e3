"""What the tests of the client share: servers on a real socket, in threads, and answers made by hand."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import anyio
import uvicorn

from rrf_stream import Accumulator, ArmStatus
from rrf_stream.web._payload import in_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

SOON = 30
"""Seconds within which anything happens that happens at all."""


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an application from a thread, on a free port of this machine; give its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", lifespan="auto", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="server")
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        assert server.started
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(SOON)
        listening.close()
        assert not thread.is_alive()


def nobody() -> str:
    """Return an address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as once:
        return f"http://127.0.0.1:{once.getsockname()[1]}"


def wait_until(condition: Callable[[], bool]) -> None:
    """Block until something is so."""
    until = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)


class Gate:
    """Something that coroutines of any event loop wait for, and any thread opens."""

    def __init__(self) -> None:
        self._is_open = threading.Event()

    def open(self) -> None:
        self._is_open.set()

    async def wait(self) -> None:
        """Wait until it is open, or for no longer than anything takes."""
        with anyio.fail_after(SOON):
            while not self._is_open.is_set():  # noqa: ASYNC110 - an event of anyio is of one event loop
                await anyio.sleep(0.002)


@dataclass
class Gated:
    """A retriever that delivers its results one by one, each when its gate is open; tells when it is left."""

    results: list[Any]
    gates: list[Gate] = field(default_factory=list)
    left_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gates = [Gate() for _ in range(len(self.results) + 1)]

    def open(self, until: int | None = None) -> None:
        """Open the first gates; all of them, the one to the end included, if no number is given."""
        for gate in self.gates[:until]:
            gate.open()

    @property
    def retriever(self) -> Callable[[str], AsyncIterator[Any]]:
        """The retriever itself, a function that is asynchronous by its form."""

        async def gated(_: str) -> AsyncIterator[Any]:
            try:
                for gate, result in zip(self.gates, self.results, strict=False):
                    await gate.wait()
                    yield result
                await self.gates[-1].wait()
            finally:
                self.left_at.append(time.monotonic())

        return gated


@dataclass
class Answers:
    """An application that answers each request by hand, in the chunks that it is given.

    Attributes:
        chunks: The body.
        status: The status.
        kind: The type of the content.
        headers: Further headers.
        then: What follows: the end of the body, a connection that breaks, or silence.
        requests: The scopes of the requests so far.
        gone_at: When a client went away that was waited with.
    """

    chunks: Iterable[bytes] = ()
    status: int = 200
    kind: str = "text/event-stream; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    then: str = "end"
    requests: list[Any] = field(default_factory=list)
    gone_at: list[float] = field(default_factory=list)

    @property
    def asked(self) -> dict[str, list[str]]:
        """The parameters of the last request."""
        return parse_qs(self.requests[-1]["query_string"].decode(), strict_parsing=True)

    def header(self, name: str) -> str | None:
        """Return a header of the last request."""
        return dict(self.requests[-1]["headers"]).get(name.encode(), b"").decode() or None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.requests.append(scope)
        given = {"content-type": self.kind, **self.headers}
        headers = [(name.encode(), value.encode()) for name, value in given.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        for chunk in self.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)
        if self.then == "break":
            raise ConnectionError("by the test")
        if self.then == "silence":
            while (await receive())["type"] != "http.disconnect":
                pass
            self.gone_at.append(time.monotonic())
        else:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def event(kind: str, data: str) -> bytes:
    """Return an event as it is sent."""
    return f"event: {kind}\r\nid: 1\r\ndata: {data}\r\n\r\n".encode()


def snapshots(*ids: Any, final: bool = True) -> list[dict[str, Any]]:
    """Return what a server tells while one arm delivers some ids, one by one; its end at last."""
    accumulator = Accumulator({"only": 1.0})
    told = []
    for id_ in ids:
        accumulator.add("only", [id_])
        told.append(accumulator.snapshot().to_dict())
    if final:
        accumulator.close("only", ArmStatus.EXHAUSTED)
        told.append(accumulator.snapshot().to_dict())
    return told


def told(*plain: Any) -> list[bytes]:
    """Return the events of some snapshots."""
    return [event("snapshot", in_json(one)) for one in plain]


DONE = event("done", '{"seq": 1, "outcome": "complete", "elapsed": 0.1}')
