"""What every request passes on its way in, and every answer on its way out; plain ASGI."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Iterable

from rrf_stream.web._asgi import ASGIApp, Message, Receive, Scope, Send, send_json
from rrf_stream.web._problems import MEDIA_TYPE, problem

__all__ = ["SAFE", "CountedProblems", "HostGuard", "SafeHeaders", "TokenGuard"]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SAFE = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every answer. They forbid browsers what the page does not need."""

_PUBLIC = "/healthz"
"""Whoever keeps the server running asks this by its address, and without a token."""


class CountedProblems:
    """Tells of every answer that is a problem, by its status."""

    def __init__(self, app: ASGIApp, *, count: Callable[[int], None]) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                types = [value for name, value in message.get("headers", ()) if name == b"content-type"]
                if types == [MEDIA_TYPE.encode()]:
                    self._count(message["status"])
            await send(message)

        await self._app(scope, receive, send_counted)


class SafeHeaders:
    """Adds `SAFE` to every answer, and that it is to be asked for anew where it says nothing of caches."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *SAFE]
                if all(name.lower() != b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-cache"))
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_safely)


class HostGuard:
    """Answers only under names that the server is meant to have.

    Without it, a page of another site could make its own name lead here, and read what is answered.
    Under any name everybody may ask whether the server is alive.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_free = scope["type"] != "http" or _path_in(scope) == _PUBLIC
        if is_free or _host_in(scope["headers"]) in self._hosts:
            await self._app(scope, receive, send)
        else:
            await _refuse(send, 421, "this server does not answer under that name")


class TokenGuard:
    """Asks for a token, as a bearer token or as the password that a browser asks its user for.

    Everybody may ask whether the server is alive.
    """

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _path_in(scope) == _PUBLIC or self._knows(scope["headers"]):
            await self._app(scope, receive, send)
        else:
            detail = "a token is wanted, as a bearer token or as the password of any user"
            await _refuse(send, 401, detail, *_CHALLENGES)

    def _knows(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        given = [value for name, value in headers if name == b"authorization"]
        # Each comparison takes the same time, wherever the two differ first.
        return len(given) == 1 and hmac.compare_digest(_token_in(given[0]), self._token)


_CHALLENGES = (
    ("www-authenticate", 'Bearer realm="search"'),
    ("www-authenticate", 'Basic realm="search", charset="UTF-8"'),
)


async def _refuse(send: Send, status: int, detail: str, *headers: tuple[str, str]) -> None:
    await send_json(send, problem(status, detail), status=status, media_type=MEDIA_TYPE, headers=headers)


def _path_in(scope: Scope) -> str:
    """Return the path below that at which the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _host_in(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the name in the header `Host`, without a port, in small letters."""
    host = next((value for name, value in headers if name == b"host"), b"").decode("latin-1").lower()
    return re.sub(r":[0-9]*\Z", "", host)


def _token_in(authorization: bytes) -> bytes:
    """Return the token in the value of a header; nothing if there is none."""
    scheme, _, credentials = authorization.partition(b" ")
    match scheme.lower():
        case b"bearer":
            return credentials.strip()
        case b"basic":
            try:
                return base64.b64decode(credentials.strip(), validate=True).partition(b":")[2]
            except binascii.Error:
                return b""
        case _:
            return b""
