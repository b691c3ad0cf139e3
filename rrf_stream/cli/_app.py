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
from rrf_stream.cli import _options as options
from rrf_stream.cli import _screens as screens
from rrf_stream.cli import _words as words
from rrf_stream.cli._demo import demo as run_demo
from rrf_stream.cli._files import CommandError, is_foreseen
from rrf_stream.cli._index import index_paths
from rrf_stream.cli._search import Question
from rrf_stream.cli._search import search as run_search
from rrf_stream.errors import MissingExtraError

try:
    import typer
except ImportError as error:
    raise MissingExtraError("typer", extra="cli") from error

__all__ = ["run"]

T = TypeVar("T")

_CODES = (
    "2 wrong arguments, or a file that is no index; 130 interrupted; 141 nobody reads the output any more."
)

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


def _finish(call: Callable[[], Awaitable[int]]) -> NoReturn:
    """Run a command to its exit code; what its user can mend is one line, not a traceback."""
    try:
        code = anyio.run(call)
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # Else the interpreter would try to write what is left, and complain, on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except CommandError as error:
        screens.note(f"rrf-stream: {error}")
        code = error.code
    except MissingExtraError as error:
        screens.note(f"rrf-stream: {error}")
        code = 1
    except Exception as error:
        if not is_foreseen(error):
            raise
        screens.note(f"rrf-stream: {words.visible(str(error))}")
        code = 1
    raise typer.Exit(code)


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


@app.command(epilog=f"Exit codes: 0 done; 1 no folder to keep the index in; {_CODES}")
def demo() -> None:
    """Take a tour through Python's own documentation.

    Three arms search it at once, in ways on which they disagree, and once with one arm held back.
    The first run indexes the docstrings of the standard library into the cache folder, in some
    seconds ($XDG_CACHE_HOME/rrf-stream, or ~/.cache/rrf-stream). Nothing is downloaded.
    """
    _finish(run_demo)


@app.command(epilog=f"Exit codes: 0 done; 1 something was skipped, and is named; {_CODES}")
def index(
    *,
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH", help="Files and folders.")] = None,
    db: Database,
    python_docs: Annotated[
        bool, typer.Option("--python-docs", help="Index the docstrings of Python's standard library too.")
    ] = False,
) -> None:
    """Bring an index up to date with files and folders.

    The index is made if it does not exist; what did not change since the last time is skipped.

    A Markdown file is one document (links between files become graph links), and so is any other
    UTF-8 text file; both may have 2 MiB. A .jsonl file has a document on each line, of which title
    and links may be missing: {"id": ..., "title": ..., "text": ..., "links": [ids]}.

    In a folder, hidden files and folders, symbolic links and files that are no text by their name
    (pictures, archives, programs, ...) are passed over. Whatever else cannot be read is named and
    skipped; what the index held of it stays. Files that are gone from a folder go from the index,
    and so do all files of a PATH that is gone itself.

    The run can be interrupted at any time: what is indexed by then stays.
    """
    if not paths and not python_docs:
        raise typer.BadParameter("give at least one PATH, or --python-docs")
    _finish(partial(index_paths, paths or [], db=db, with_python_docs=python_docs))


@app.command(
    epilog="Exit codes: 0 an answer, even if it is degraded or nothing was found; 1 no answer, because arms "
    f"failed or were too late; {_CODES}"
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
    """Search an index: lexical, dense and graph at once.

    The arm lexical goes by words, dense by meaning, and graph follows links from what lexical finds.

    On a terminal a table gets better while the arms answer, and a ✓ marks the places that are
    certain. In a pipe there is a line for each hit, with tabs between rank, score, id, title and
    ranks; how the arms did goes to standard error.
    With --json each hit has its document as item; it has no items, the copies of each arm, as all
    arms return the same document.

    What is certain is counted from the first place on. While arms answer: the places that nothing
    that is still to come can change (in JSON settled). In the end, if an arm was cut short: those
    that would be the same had every arm delivered its whole window (in JSON exact).

    The time that is shown and limited begins when the arms are asked. Starting Python, opening the
    index and, for the dense arm, loading its model (about a second in all) come before and are not
    in it.
    """
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
    _finish(partial(run_search, question, db=db))
