"""The commands that serve: options in, exit code out."""

# No `from __future__ import annotations`: typer reads the annotations of commands while it runs.
import os
from functools import partial
from pathlib import Path
from typing import Annotated

from rrf_stream.cli import _help as help_
from rrf_stream.cli import _options as options
from rrf_stream.cli._mcp import Service, Transport
from rrf_stream.cli._mcp import serve as serve_mcp
from rrf_stream.cli._serve import serve as run_serve
from rrf_stream.cli._serving import Serving
from rrf_stream.cli._typer import Argument, BadParameter, Option, app, finish, finish_async, parser

__all__ = ["mcp", "serve"]

Host = Annotated[str, Option(metavar="ADDRESS", help="The address to listen at.")]
Port = Annotated[int, Option(min=0, max=65535, help="The port; 0 for a free one.")]
AllowedHosts = Annotated[
    list[str] | None,
    Option(
        metavar="NAME",
        help="A name by which clients call this machine, beside those that it knows. Repeat it for several.",
    ),
]


@app.command(
    help=help_.SERVE,
    epilog=f"Exit codes: 0 it was told to end; 1 the port is taken; 3 it could not start; {help_.CODES}",
)
def serve(
    *,
    target: Annotated[str | None, Argument(metavar="MODULE:NAME", help="A pipeline.")] = None,
    db: Annotated[Path | None, Option("--db", metavar="FILE", help="An index to serve instead.")] = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Annotated[int, Option(min=1, metavar="N", help="How many processes.")] = 1,
    timeout: Annotated[
        float | None,
        Option(
            metavar="DURATION",
            parser=parser(options.seconds),
            help="How long a search may take at most.",
            show_default="10s",
        ),
    ] = None,
    searches: Annotated[int, Option(min=1, metavar="N", help="How many searches may be under way.")] = 64,
    searches_per_client: Annotated[
        int, Option(min=1, metavar="N", help="How many of them may be of one client.")
    ] = 8,
    token_file: Annotated[
        Path | None, Option(metavar="FILE", help="Requests must have the token in this file.")
    ] = None,
    allow_host: AllowedHosts = None,
    cors_origin: Annotated[
        list[str] | None,
        Option(metavar="ORIGIN", help="An origin whose pages may read the answers. Repeat it for several."),
    ] = None,
    behind_proxy: Annotated[
        bool, Option("--behind-proxy", help="A proxy on this machine says who the clients are.")
    ] = False,
    title: Annotated[str, Option(help="What the page is called.")] = "Search",
    log_level: Annotated[
        options.LogLevel, Option(help="What is logged on standard error; info has every request.")
    ] = options.LogLevel.WARNING,
) -> None:
    """Serve searches."""
    if (target is None) == (db is None):
        raise BadParameter("give a pipeline as MODULE:NAME, or an index with --db")
    try:
        token = options.token_in(token_file, os.environ)
    except ValueError as error:
        raise BadParameter(str(error), param_hint="'--token-file'") from None
    serving = Serving(
        db=None if db is None else str(db),
        target=target,
        host=host,
        port=port,
        workers=workers,
        timeout=10.0 if timeout is None else timeout,
        searches=searches,
        searches_per_client=searches_per_client,
        token=token,
        hosts=tuple(allow_host or ()),
        origins=tuple(cors_origin or ()),
        behind_proxy=behind_proxy,
        title=title,
        log_level=log_level,
    )
    finish(partial(run_serve, serving))


@app.command(
    help=help_.MCP,
    epilog=f"Exit codes: 0 the client left; 1 the port is taken, or a library is missing; {help_.CODES}",
)
def mcp(
    *,
    db: Annotated[Path, Option("--db", metavar="FILE", help="The index: one SQLite file.")],
    transport: Annotated[
        Transport,
        Option(help="stdio serves the program that starts this one; http serves any over the network."),
    ] = Transport.STDIO,
    host: Annotated[
        str | None,
        Option(metavar="ADDRESS", help="The address to listen at, for http.", show_default="127.0.0.1"),
    ] = None,
    port: Annotated[
        int | None,
        Option(min=0, max=65535, help="The port, for http; 0 for a free one.", show_default="8000"),
    ] = None,
    allow_host: AllowedHosts = None,
    timeout: Annotated[
        float | None,
        Option(
            metavar="DURATION",
            parser=parser(options.seconds),
            help="How long a search may take if its call does not say.",
            show_default="5s",
        ),
    ] = None,
    about: Annotated[
        str, Option(metavar="TEXT", help="What there is to find, for the model: 'the handbook of ...'.")
    ] = "",
) -> None:
    """Serve an index to language models."""
    given = {"--host": host, "--port": port, "--allow-host": allow_host}
    if transport is not Transport.HTTP and (needless := [name for name in given if given[name] is not None]):
        raise BadParameter(f"only --transport http takes {' and '.join(needless)}")
    service = Service(
        transport=transport,
        host="127.0.0.1" if host is None else host,
        port=8000 if port is None else port,
        allowed_hosts=tuple(allow_host or ()),
        timeout=timeout or 5.0,
        about=about,
    )
    finish_async(partial(serve_mcp, service, db=db))
