"""The commands that index and search: options in, exit code out."""

# No `from __future__ import annotations`: typer reads the annotations of commands while it runs.
import os
from functools import partial
from pathlib import Path
from typing import Annotated

from rrf_stream.cli import _help as help_
from rrf_stream.cli import _options as options
from rrf_stream.cli._demo import demo as run_demo
from rrf_stream.cli._index import index_paths
from rrf_stream.cli._search import Question
from rrf_stream.cli._search import search as run_search
from rrf_stream.cli._serve import serve_demo
from rrf_stream.cli._typer import Argument, BadParameter, Option, app, finish, finish_async, parser

__all__ = ["demo", "index", "search"]

Database = Annotated[Path, Option("--db", metavar="FILE", help="The index: one SQLite file.")]


@app.command(help=help_.DEMO, epilog=f"Exit codes: 0 done; 1 no folder to keep the index in; {help_.CODES}")
def demo(
    *,
    on_page: Annotated[
        bool,
        Option("--serve", help="Serve a page to search it yourself, with arms slow enough to watch."),
    ] = False,
    port: Annotated[
        int | None,
        Option(min=0, max=65535, help="With --serve: where; 0 for a free port.", show_default="8000"),
    ] = None,
) -> None:
    """Take the tour."""
    if on_page:
        finish(lambda: serve_demo(8000 if port is None else port, options.token_in(None, os.environ)))
    if port is not None:
        raise BadParameter("it needs --serve", param_hint="'--port'")
    finish_async(run_demo)


@app.command(
    help=help_.INDEX, epilog=f"Exit codes: 0 done; 1 something was skipped, and is named; {help_.CODES}"
)
def index(
    *,
    paths: Annotated[list[Path] | None, Argument(metavar="PATH", help="Files and folders.")] = None,
    db: Database,
    python_docs: Annotated[
        bool, Option("--python-docs", help="Index the docstrings of Python's standard library too.")
    ] = False,
) -> None:
    """Bring an index up to date."""
    if not paths and not python_docs:
        raise BadParameter("give at least one PATH, or --python-docs")
    finish_async(partial(index_paths, paths or [], db=db, with_python_docs=python_docs))


@app.command(
    help=help_.SEARCH,
    epilog="Exit codes: 0 an answer, even if it is degraded or nothing was found; 1 no answer, because arms "
    f"failed or were too late; {help_.CODES}",
)
def search(
    *,
    query: Annotated[
        str,
        Argument(metavar="QUERY", help="Any words; nothing in it is syntax. After -- if a dash begins it."),
    ],
    db: Database,
    timeout: Annotated[
        float | None,
        Option(
            metavar="DURATION",
            parser=parser(options.seconds),
            help="How long to wait for the arms: 300ms, 0.3s, 2s, or seconds. Without it: for all of them.",
        ),
    ] = None,
    top_k: Annotated[int, Option("--top-k", "-k", min=1, metavar="N", help="How many hits to show.")] = 10,
    until: Annotated[
        options.Until,
        Option(
            help="End when every arm has ended, or as soon as nothing that is still to come can change "
            "the hits that are shown."
        ),
    ] = options.Until.COMPLETE,
    settle: Annotated[
        int | None,
        Option(min=1, metavar="N", help="With --until settled: only the first N matter."),
    ] = None,
    arm: Annotated[
        list[str] | None,
        Option(
            metavar="NAME[=WEIGHT]",
            help="Weigh an arm: dense=0.5 leaves the others at 1, dense=0 asks without it. Or select: "
            "a name alone asks only the arms that are named. Repeat it for several.",
        ),
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Write every snapshot as a line of JSON; the last has final: true.")
    ] = False,
    explain: Annotated[
        bool, Option("--explain", help="Say where each score comes from. JSON holds it anyway.")
    ] = False,
) -> None:
    """Search an index."""
    if not query.strip():
        raise BadParameter("QUERY must not be blank")
    try:
        weights = options.arm_weights(arm or ())
    except ValueError as error:
        raise BadParameter(str(error), param_hint="'--arm'") from None
    try:
        enough = options.settle_of(until, settle, top_k)
    except ValueError as error:
        raise BadParameter(str(error), param_hint="'--settle'") from None
    question = Question(
        query=query,
        weights=weights,
        top_k=top_k,
        timeout=timeout,
        settle=enough,
        output="json" if as_json else "text",
        explain=explain,
    )
    finish_async(partial(run_search, question, db=db))
