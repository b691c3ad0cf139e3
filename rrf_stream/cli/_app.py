"""The command line: options in, exit code out.

The only module that imports typer.
"""

# No `from __future__ import annotations`: typer reads the annotations of commands while it runs.
import io
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import anyio

from rrf_stream import __version__
from rrf_stream.cli import _help as help_
from rrf_stream.cli import _options as options
from rrf_stream.cli import _screens as screens
from rrf_stream.cli._demo import demo as run_demo
from rrf_stream.cli._exit import exit_code
from rrf_stream.cli._index import index_paths
from rrf_stream.cli._search import Question
from rrf_stream.cli._search import search as run_search
from rrf_stream.cli._serve import serve as run_serve
from rrf_stream.cli._serve import serve_demo
from rrf_stream.cli._serving import Serving
from rrf_stream.errors import MissingExtraError

try:
    import typer
except ImportError as error:
    raise MissingExtraError("typer", extra="cli") from error

__all__ = ["run"]

T = TypeVar("T")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Help and messages quote what the user wrote; markup would swallow parts of it.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Database = Annotated[Path, typer.Option("--db", metavar="FILE", help="The index: one SQLite file.")]


def run() -> None:
    """Run the command with the arguments of the process; it ends in SystemExit."""
    for stream in (sys.stdout, sys.stderr):
        # A title may have characters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="rrf-stream")


def _finish(call: Callable[[], int]) -> NoReturn:
    raise typer.Exit(exit_code(call))


def _finish_async(call: Callable[[], Awaitable[int]]) -> NoReturn:
    _finish(partial(anyio.run, call))


def _parser(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Make a parser's ValueError a usage error that keeps its message."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parsed


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        screens.write(f"rrf-stream {__version__}")
        raise typer.Exit


@app.callback(epilog="Each command has its own --help.")
def common(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
) -> None:
    """Hybrid search that gives its best answer at any moment, and always in time."""


@app.command(help=help_.DEMO, epilog=f"Exit codes: 0 done; 1 no folder to keep the index in; {help_.CODES}")
def demo(
    *,
    on_page: Annotated[
        bool,
        typer.Option("--serve", help="Serve a page to search it yourself, with arms slow enough to watch."),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With --serve: where; 0 for a free port.")
    ] = 8000,
) -> None:
    """Take the tour."""
    if on_page:
        _finish(partial(serve_demo, port))
    _finish_async(run_demo)


@app.command(
    help=help_.INDEX, epilog=f"Exit codes: 0 done; 1 something was skipped, and is named; {help_.CODES}"
)
def index(
    *,
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH", help="Files and folders.")] = None,
    db: Database,
    python_docs: Annotated[
        bool, typer.Option("--python-docs", help="Index the docstrings of Python's standard library too.")
    ] = False,
) -> None:
    """Bring an index up to date."""
    if not paths and not python_docs:
        raise typer.BadParameter("give at least one PATH, or --python-docs")
    _finish_async(partial(index_paths, paths or [], db=db, with_python_docs=python_docs))


@app.command(
    help=help_.SEARCH,
    epilog="Exit codes: 0 an answer, even if it is degraded or nothing was found; 1 no answer, because arms "
    f"failed or were too late; {help_.CODES}",
)
def search(
    *,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="Any words; nothing in it is syntax. After -- if a dash begins it."
        ),
    ],
    db: Database,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=_parser(options.seconds),
            help="How long to wait for the arms: 300ms, 0.3s, 2s, or seconds. Without it: for all of them.",
        ),
    ] = None,
    top_k: Annotated[
        int, typer.Option("--top-k", "-k", min=1, metavar="N", help="How many hits to show.")
    ] = 10,
    until: Annotated[
        options.Until,
        typer.Option(
            help="End when every arm has ended, or as soon as nothing that is still to come can change "
            "the hits that are shown."
        ),
    ] = options.Until.COMPLETE,
    settle: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="With --until settled: only the first N matter."),
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=WEIGHT]",
            help="Weigh an arm: dense=0.5 leaves the others at 1, dense=0 asks without it. Or select: "
            "a name alone asks only the arms that are named. Repeat it for several.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write every snapshot as a line of JSON; the last has final: true.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say where each score comes from. JSON holds it anyway.")
    ] = False,
) -> None:
    """Search an index."""
    if not query.strip():
        raise typer.BadParameter("QUERY must not be blank")
    try:
        weights = options.arm_weights(arm or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--arm'") from None
    try:
        enough = options.settle_of(until, settle, top_k)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--settle'") from None
    question = Question(
        query=query,
        weights=weights,
        top_k=top_k,
        timeout=timeout,
        settle=enough,
        output="json" if as_json else "text",
        explain=explain,
    )
    _finish_async(partial(run_search, question, db=db))


@app.command(help=help_.SERVE, epilog=f"Exit codes: 0 it was told to end; 1 the port is taken; {help_.CODES}")
def serve(
    *,
    target: Annotated[str | None, typer.Argument(metavar="MODULE:NAME", help="A pipeline.")] = None,
    db: Annotated[
        Path | None, typer.Option("--db", metavar="FILE", help="An index to serve instead.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="How many processes.")] = 1,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=_parser(options.seconds),
            help="How long a search may take at most.",
            show_default="10s",
        ),
    ] = None,
    searches: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many searches may be under way.")
    ] = 64,
    searches_per_client: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of them may be of one client.")
    ] = 8,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Requests must have the token in this file.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A name under which it answers. Repeat it for several."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="An origin whose pages may read the answers. Repeat it for several."
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="What the page is called.")] = "Search",
    log_level: Annotated[
        options.LogLevel, typer.Option(help="What is logged on standard error; info has every request.")
    ] = options.LogLevel.WARNING,
) -> None:
    """Serve searches."""
    if (target is None) == (db is None):
        raise typer.BadParameter("give a pipeline as MODULE:NAME, or an index with --db")
    try:
        token = options.token_in(token_file, os.environ)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--token-file'") from None
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
        hosts=tuple(name or ()),
        origins=tuple(cors_origin or ()),
        title=title,
        log_level=log_level,
    )
    _finish(partial(run_serve, serving))
