"""What of ASGI is used here, and the plainest way to answer by it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

import anyio

from rrf_stream.web._payload import in_json

__all__ = ["CLOSE", "ASGIApp", "Message", "Receive", "Scope", "Send", "StalledError", "in_time", "send_json"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

CLOSE = "rrf_stream.close"
"""Where in the state of a request its server finds what ends the searches of the application.

All that is between the two hands the state on, whatever it does to the application.
"""


async def send_json(
    send: Send,
    plain: Any,
    *,
    status: int = 200,
    media_type: str = "application/json",
    headers: Iterable[tuple[str, str]] = (),
) -> None:
    """Answer with plain types as JSON.

    Args:
        send: Takes the messages of the answer.
        plain: What `in_json` takes.
        status: The HTTP status.
        media_type: What kind of JSON it is.
        headers: To be sent with it.
    """
    body = in_json(plain).encode()
    named = (("content-type", media_type), ("content-length", str(len(body))), *headers)
    raw = [(name.encode(), value.encode()) for name, value in named]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


class StalledError(Exception):
    """A client takes nothing of what it is sent any more."""


def in_time(send: Send, *, timeout: float, stall: float) -> Send:
    """Return what sends the same, and raises `StalledError` where the client is too slow for that.

    Args:
        send: Takes the messages of the answer.
        timeout: Seconds from now after which the last message is there to be sent.
        stall: Seconds that a message may wait to be taken, and the last ones after the timeout.
    """
    latest = anyio.current_time() + timeout + stall

    async def send_in_time(message: Message) -> None:
        with anyio.CancelScope(deadline=min(latest, anyio.current_time() + stall)) as waiting:
            await send(message)
        if waiting.cancelled_caught:
            raise StalledError

    return send_in_time
