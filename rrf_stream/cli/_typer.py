"""The command line that commands are added to, and how they end. The only module that imports typer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NoReturn, TypeVar

import anyio

from rrf_stream.cli._exit import exit_code
from rrf_stream.errors import MissingExtraError

try:
    from typer import Argument, BadParameter, Exit, Option, Typer
except ImportError as error:
    raise MissingExtraError("typer", extra="cli") from error

__all__ = ["Argument", "BadParameter", "Exit", "Option", "app", "finish", "finish_async", "parser"]

T = TypeVar("T")

app = Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Help and messages quote what the user wrote; markup would swallow parts of it.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def finish(call: Callable[[], int]) -> NoReturn:
    """End a command with the exit code of what it does."""
    raise Exit(exit_code(call))


def finish_async(call: Callable[[], Awaitable[int]]) -> NoReturn:
    """End a command with the exit code of what it does on an event loop."""
    finish(partial(anyio.run, call))


def parser(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Make a parser's ValueError a usage error that keeps its message."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise BadParameter(str(error)) from None

    return parsed
