"""A search as server-sent events. The only module that imports sse-starlette."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import anyio

from rrf_stream.errors import ArmError, MissingExtraError
from rrf_stream.web._payload import Payload, in_json
from rrf_stream.web._problems import problem

try:
    from sse_starlette import EventSourceResponse, ServerSentEvent
    from sse_starlette.sse import AppStatus
except ImportError as error:
    raise MissingExtraError("sse-starlette", extra="web") from error

if TYPE_CHECKING:
    from rrf_stream.web._asgi import Receive, Scope, Send
    from rrf_stream.web._service import Search

__all__ = ["EventStream", "failure"]


def failure(error: ArmError) -> dict[str, object]:
    """Return the problem of a search that failed because a required arm did."""
    return problem(502, f"arm {error.arm!r} is required, and did not answer", arm=error.arm)


class EventStream:
    """Sends the snapshots of searches as they come; a client that reads slowly skips to the newest.

    Args:
        payload: What is sent of a snapshot.
        ping: Seconds between comments that keep a silent connection open.
        grace: Seconds for a search to be brought to its end when the server ends.
        on_exit: Called when the server is about to end, to end the searches under way.
    """

    is_taken_up = True

    def __init__(self, *, payload: Payload, ping: float, grace: float, on_exit: Callable[[], None]) -> None:
        self._payload = payload
        self._ping = ping
        self._grace = grace
        self._on_exit = on_exit

    @staticmethod
    def start() -> None:
        """Forget that a server of this process ended before: sse-starlette would end later streams, too."""
        AppStatus.should_exit = False

    async def send(self, search: Search, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a search to its end, or until the client is gone, which stops its arms at once.

        Raises:
            Exception: The search broke in a way that no arm may; its client was told that it did.
        """
        exiting = anyio.Event()
        broken: list[Exception] = []

        async def end_with_server() -> None:
            await exiting.wait()
            self._on_exit()

        response = EventSourceResponse(
            self._events(search, broken),
            ping=self._ping,
            shutdown_event=exiting,
            shutdown_grace_period=self._grace,
            data_sender_callable=end_with_server,
        )
        async with search:
            await response(scope, receive, send)
            if broken:
                raise broken[0]  # for the log of the server: the client has all that it gets

    async def _events(self, search: Search, broken: list[Exception]) -> AsyncIterator[ServerSentEvent]:
        # A browser that is cut off without an id would search again by itself.
        yield ServerSentEvent(id="0")
        try:
            async for snapshot in search.snapshots():
                plain = self._payload.of(snapshot)
                if snapshot.final:
                    search.has_ended(snapshot)
                yield ServerSentEvent(in_json(plain), event="snapshot", id=str(snapshot.seq))
        except ArmError as error:
            yield ServerSentEvent(in_json(failure(error)), event="error")
        except Exception as error:  # noqa: BLE001 - it is raised again once the client was told
            broken.append(error)
            detail = "the server could not go on with this search"
            yield ServerSentEvent(in_json(problem(500, detail)), event="error")
        else:
            last = {name: plain[name] for name in ("seq", "outcome", "elapsed")}
            yield ServerSentEvent(in_json(last), event="done")
