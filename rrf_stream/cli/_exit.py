"""From what a command does to its exit code: what its user can mend is one line, not a traceback."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rrf_stream.cli import _screens as screens
from rrf_stream.cli import _words as words
from rrf_stream.cli._files import CommandError, is_foreseen
from rrf_stream.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["exit_code"]


def exit_code(call: Callable[[], int]) -> int:
    """Run a command, say what went wrong if something did, and return its exit code."""
    try:
        return call()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Else the interpreter would try to write what is left, and complain, on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except CommandError as error:
        screens.note(f"rrf-stream: {error}")
        return error.code
    except MissingExtraError as error:
        screens.note(f"rrf-stream: {error}")
        return 1
    except Exception as error:
        if not is_foreseen(error):
            raise
        screens.note(f"rrf-stream: {words.visible(str(error))}")
        return 1
