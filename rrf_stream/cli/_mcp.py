"""`rrf-stream mcp`: an index as tools for models."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rrf_stream import Pipeline
from rrf_stream.cli import _screens as screens
from rrf_stream.cli._files import CommandError, opened
from rrf_stream.cli._search import retrievers_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Service", "Transport", "serve"]

_NAMES = {"lexical": "the full-text index", "dense": "the vector index", "graph": "the link graph"}


class Transport(StrEnum):
    """How clients are served."""

    STDIO = "stdio"
    HTTP = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How an index is served.

    Attributes:
        transport: To the program that started this one, or to any over HTTP.
        host: The address to listen on, for HTTP.
        port: The port; 0 takes a free one.
        allowed_hosts: Names by which clients call this machine, beside `host`.
        timeout: Seconds that a search has if the call does not say.
        about: What there is to find; empty for the name of the file.
    """

    transport: Transport
    host: str
    port: int
    allowed_hosts: tuple[str, ...]
    timeout: float
    about: str


async def serve(service: Service, *, db: Path) -> int:
    """Serve an index until its client leaves, or SIGTERM comes; return 0.

    Raises:
        CommandError: There is no index, or it cannot be opened; or clients would call it by no fit name.
        OSError: The port is taken, or standard input or output is closed.
        MissingExtraError: The library mcp is not installed, or wordllama.
    """
    # Only here, as it takes a second to import, and the other commands do not need it.
    from rrf_stream.integrations.mcp import create_server, serve_http, serve_stdio  # noqa: PLC0415

    async with opened(db) as index:
        await index.prepare()
        server = create_server(
            Pipeline(retrievers_of(index)),
            about=service.about or f"the documents of {db.name}",
            fetch=index.get,
            arm_names=_NAMES,
            timeout=service.timeout,
            max_timeout=max(30.0, service.timeout),
        )
        what = f"rrf-stream: serving {await index.count():,} documents"
        if service.transport is Transport.STDIO:
            screens.note(f"{what} over standard input and output")
            await serve_stdio(server)
            return 0
        try:
            await serve_http(
                server,
                host=service.host,
                port=service.port,
                allowed_hosts=service.allowed_hosts,
                on_ready=lambda url: screens.note(f"{what} at {url}; Ctrl-C ends it"),
            )
        except ValueError as error:
            raise CommandError(f"--host and --allow-host: {error}", code=2) from error
    return 0
