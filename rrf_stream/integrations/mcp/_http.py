"""An ASGI application on a port, ended gracefully by a signal or by cancelling it.

The only module that imports uvicorn.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from rrf_stream.errors import MissingExtraError
from rrf_stream.integrations.mcp._ending import run_until_told

try:
    import uvicorn
except ImportError as error:
    raise MissingExtraError("uvicorn", extra="mcp") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["hosts_of", "serve"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - named to be told apart
_NAME = re.compile(r"[a-zA-Z0-9_.-]+")
_GRACE = 2  # seconds that answers under way have when the server is to end


def hosts_of(host: str, allowed: Iterable[str]) -> list[str]:
    """Return the names by which clients may call a server, as they stand in a URL; the first is for people.

    Args:
        host: The address it listens on.
        allowed: Names to allow, beside that address and those of the loopback.

    Raises:
        ValueError: It listens on every address, and no name is allowed; or one is no name.
        TypeError: `allowed` is one text.
    """
    if isinstance(allowed, str):
        raise TypeError(f"allowed_hosts must be several names, not {allowed!r}")
    names = [*allowed]
    if host not in _EVERYWHERE:
        names.insert(0, host)
    elif not names:
        raise ValueError(f"allowed_hosts must name this machine as clients do, as the host is {host!r}")
    return list(dict.fromkeys(map(_in_url, (*names, *_LOOPBACK))))


def _in_url(name: str) -> str:
    """Return a name as it stands in a URL, in lower case, as clients write it there."""
    if _NAME.fullmatch(name):
        return name.lower()
    try:
        return f"[{ipaddress.IPv6Address(name.strip('[]')).compressed}]"
    except ValueError:
        raise ValueError(
            f"allowed_hosts must be names or addresses, without scheme and port, not {name!r}"
        ) from None


async def serve(app: Any, *, host: str, port: int, on_ready: Callable[[int], object]) -> None:
    """Serve an application until a signal comes or the call is cancelled. On asyncio only.

    Args:
        app: The application.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        on_ready: Called with the port, once connections are taken.

    Raises:
        OSError: The port is taken, or the address is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        config = uvicorn.Config(
            partial(_completed, app),
            # Logging is the application's own business, and a request a line belongs nowhere.
            log_config=None,
            access_log=False,
            ws="none",
            interface="asgi3",  # it cannot see that in a partial
            lifespan="on",
            timeout_graceful_shutdown=_GRACE,
        )
        server = uvicorn.Server(config)

        def end() -> None:
            server.should_exit = True

        async def run() -> None:
            on_ready(listener.getsockname()[1])
            await server.serve(sockets=[listener])

        await run_until_told(run, end)


async def _completed(app: Any, scope: Any, receive: Any, send: Any) -> None:
    """Complete the responses that an application leaves open, as streams do when the server ends."""
    is_open = False

    async def watched(message: Any) -> None:
        nonlocal is_open
        is_open = message["type"] == "http.response.start" or message.get("more_body", False)
        await send(message)

    await app(scope, receive, watched)
    if is_open:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
