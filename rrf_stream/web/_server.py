"""Runs an application until it is told to end. The only module that imports uvicorn."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from rrf_stream.errors import MissingExtraError
from rrf_stream.web._arguments import check_count, check_flag, check_seconds
from rrf_stream.web._asgi import CLOSE

try:
    import uvicorn
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
    from uvicorn.supervisors import Multiprocess
except ImportError as error:
    raise MissingExtraError("uvicorn", extra="web") from error

__all__ = ["serve"]


def serve(
    app: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    grace: float = 5.0,
    behind_proxy: bool = False,
    log_level: str = "warning",
    on_start: Callable[[str], object] | None = None,
) -> None:
    """Serve an application of `create_app` until SIGINT or SIGTERM.

    Then nobody is let in any more, searches under way give their final snapshot with what has arrived,
    and this returns. Call it in the main thread: it blocks, and handles signals.

    Args:
        app: The application; with several workers, "package.module:name" of a callable that makes it.
        host: The address to listen at. Only this machine can reach the default.
        port: The port; 0 for a free one.
        workers: Processes, at least 1.
        grace: Seconds for what is under way when the server ends, at least 0.
        behind_proxy: Whether a proxy on this machine tells who the clients are, by `X-Forwarded-For`. Else
            whoever can reach the server could call itself as it likes, and so be any number of clients.
        log_level: Of the log of requests and of the server, as uvicorn has it.
        on_start: Called with the URL once connections are accepted there; they are answered soon.

    Raises:
        OSError: The address cannot be listened at.
        SystemExit: With code 3, if the application cannot be started, which the log tells of.
        ValueError: A number is out of its range.
        TypeError: An argument is of the wrong type.
    """
    check_count("port", port, least=0, most=65_535)
    check_count("workers", workers)
    check_seconds("grace", grace, least=0)
    check_flag("behind_proxy", behind_proxy)
    if workers > 1 and not isinstance(app, str):
        raise TypeError(f'app must be "package.module:name" with several workers, not {app!r}')
    config = uvicorn.Config(
        app,
        http=_Connection,
        workers=workers,
        factory=isinstance(app, str),
        log_level=log_level,
        proxy_headers=behind_proxy,
        lifespan="on",
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=config.backlog) as listener, _ended():
        if on_start is not None:
            named = f"[{host}]" if ":" in host else host
            on_start(f"http://{named}:{listener.getsockname()[1]}")
        if workers == 1:
            uvicorn.Server(config).run(sockets=[listener])
        else:
            listener.set_inheritable(True)
            supervisor = Multiprocess(config, sockets=[listener])
            supervisor.run()
            if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
                sys.exit(STARTUP_FAILURE)  # as with one worker


class _Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection that ends the searches of the application once the server wants to end.

    Each process of several workers has a server that uvicorn makes, so this is where all of them can be told.
    """

    def shutdown(self) -> None:
        """Be told that the server ends: what is under way here gives its last answer now."""
        if self.cycle is not None and (close := self.cycle.scope["state"].get(CLOSE)) is not None:
            close()
        super().shutdown()


@contextmanager
def _ended() -> Iterator[None]:
    """Leave the block, and this is all, where a signal comes that ends a server.

    uvicorn takes the signals while it serves, and repeats them when it is done; they may come before, too.
    What it takes in a process with workers it does not give back.
    """
    usual = {one: signal.getsignal(one) for one in signal.valid_signals()}
    signal.signal(signal.SIGTERM, _end)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        for one, handler in usual.items():
            if handler is not None and signal.getsignal(one) is not handler:
                signal.signal(one, handler)


def _end(*_: object) -> NoReturn:
    raise KeyboardInterrupt
