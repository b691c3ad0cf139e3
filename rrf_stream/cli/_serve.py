"""`rrf-stream serve`: a pipeline behind HTTP, until the process is told to end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio

from rrf_stream.cli import _screens as screens
from rrf_stream.cli import _words as words
from rrf_stream.cli._cache import python_index
from rrf_stream.cli._files import CommandError, opened, reason_of
from rrf_stream.cli._logging import log_to_stderr
from rrf_stream.cli._paced import NOTE
from rrf_stream.cli._serving import IN_WORKER, Serving, app_of, handed_down

__all__ = ["serve", "serve_demo"]


def serve(serving: Serving) -> int:
    """Serve until the process is told to end; return 0.

    Raises:
        CommandError: There is nothing to serve, or no listening at that address.
        MissingExtraError: A library of the extra `web` is not installed.
    """
    from rrf_stream import web  # noqa: PLC0415 - only who serves needs its libraries

    if serving.db is not None:
        anyio.run(_check, Path(serving.db))
    app: Any = app_of(serving)
    if not serving.is_local and serving.token is None:
        screens.note(f"rrf-stream: there is no token, so whoever can reach {serving.host} can search")
    log_to_stderr(serving.log_level)
    with ExitStack() as stack:
        if serving.workers > 1:
            app = IN_WORKER
            stack.enter_context(handed_down(serving))
        try:
            web.serve(
                app,
                host=serving.host,
                port=serving.port,
                workers=serving.workers,
                behind_proxy=serving.behind_proxy,
                log_level=serving.log_level,
                on_start=lambda url: screens.write(f"{url} is open; Ctrl-C ends it"),
            )
        except OSError as error:
            where = words.visible(f"{serving.host}:{serving.port}")
            reason = reason_of(error).partition(" (while")[0]  # the rest is the address again
            raise CommandError(f"cannot listen at {where}: {reason}", code=1) from error
    return 0


def serve_demo(port: int, token: str | None) -> int:
    """Serve the documentation of Python, by arms that are slow enough to be watched; return 0.

    Raises:
        CommandError: As for `serve`; or there is no folder to keep the index in.
        MissingExtraError: As for `serve`.
    """
    db = str(anyio.run(_demo_index))
    title = "Python's documentation"
    return serve(Serving(db=db, is_paced=True, port=port, token=token, title=title, note=NOTE))


async def _check(db: Path) -> None:
    """Open an index and close it: what is wrong with it is best said before anything is served."""
    async with opened(db):
        pass


async def _demo_index() -> Path:
    async with python_index() as index:
        return index.path
