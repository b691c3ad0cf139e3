"""The command `rrf-stream`: try it, index files, search them."""

from __future__ import annotations

import sys

from rrf_stream.errors import MissingExtraError

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments of the process, and leave the process with its exit code."""
    try:
        # Only here, so that a missing library is one line on the screen.
        from rrf_stream.cli._app import run  # noqa: PLC0415
    except MissingExtraError as error:
        sys.exit(f"rrf-stream: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    run()
