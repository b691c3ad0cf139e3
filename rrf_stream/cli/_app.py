"""The command line as a whole."""

# No `from __future__ import annotations`: typer reads the annotations of commands while it runs.
import io
import sys
from typing import Annotated

from rrf_stream import __version__
from rrf_stream.cli import _commands, _servers  # noqa: F401 - they add their commands, in this order
from rrf_stream.cli import _screens as screens
from rrf_stream.cli._typer import Exit, Option, app

__all__ = ["run"]


def run() -> None:
    """Run the command with the arguments of the process; it ends in SystemExit."""
    for stream in (sys.stdout, sys.stderr):
        # A title may have characters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="rrf-stream")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        screens.write(f"rrf-stream {__version__}")
        raise Exit


@app.callback(epilog="Each command has its own --help.")
def common(
    *,
    version: Annotated[
        bool, Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
) -> None:
    """Hybrid search that gives its best answer at any moment, and always in time."""
