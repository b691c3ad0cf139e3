"""What of ASGI is used here, and the plainest way to answer by it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

import anyio

from rrf_stream.web._payload import in_json

__all__ = ["ASGIApp", "Message", "Receive", "Scope", "Send", "StalledError", "in_time", "send_json"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


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


def in_time(send: Send, *, stall: float) -> Send:
    """Return what sends the same, and raises `StalledError` where that takes longer than `stall` seconds."""

    async def send_in_time(message: Message) -> None:
        with anyio.move_on_after(stall) as waiting:
            await send(message)
        if waiting.cancelled_caught:
            raise StalledError

    return send_in_time
