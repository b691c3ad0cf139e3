"""What `rrf-stream serve` serves, and the application made of it, in this process or in a worker."""

from __future__ import annotations

import dataclasses
import importlib
import ipaddress
import json
import os
import sys
import tempfile
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rrf_stream import Pipeline
from rrf_stream.cli import _words as words
from rrf_stream.cli._files import CommandError, opened
from rrf_stream.cli._logging import log_to_stderr
from rrf_stream.cli._paced import slowed
from rrf_stream.cli._search import retrievers_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from rrf_stream import FusedHit

__all__ = ["IN_WORKER", "Serving", "app_in_worker", "app_of", "handed_down"]

IN_WORKER = f"{__name__}:app_in_worker"
"""Where a worker process finds what makes its application."""
_HANDED_DOWN = "RRF_STREAM_SERVING"
_COUNTS = "PROMETHEUS_MULTIPROC_DIR"
_BUDGET = 1.0
"""Seconds that a search of an index takes at most, unless its client says otherwise."""
_EXCERPT = 400
"""Characters of a document's text that are sent with a hit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What `serve` is asked to do.

    Attributes:
        db: The index to serve.
        target: The pipeline to serve instead, as "package.module:name".
        is_paced: Whether the arms of the index are slowed down, to be watched.
        host: The address to listen at.
        port: The port; 0 for a free one.
        workers: Processes.
        timeout: Seconds that a search may take at most.
        searches: Searches under way at most.
        searches_per_client: The same of one client.
        token: What every request must have; None for nothing.
        hosts: Names under which the server answers, beside local ones at a local address.
        origins: Origins whose pages may read the answers.
        behind_proxy: Whether a proxy on this machine says who the clients are.
        title: What the page is called.
        note: A sentence for the users of the page.
        log_level: What is logged on standard error, as uvicorn has it.
    """

    db: str | None = None
    target: str | None = None
    is_paced: bool = False
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    timeout: float = 10.0
    searches: int = 64
    searches_per_client: int = 8
    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    behind_proxy: bool = False
    title: str = "Search"
    note: str = ""
    log_level: str = "warning"

    @property
    def is_local(self) -> bool:
        """Whether nobody but this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names under which it answers; None for any."""
        if self.is_local:
            return (*self.hosts, "localhost", "127.0.0.1", "[::1]", self.host)
        return self.hosts or None


def app_of(serving: Serving) -> Any:
    """Return the application.

    Raises:
        CommandError: The target is no pipeline, or something cannot be served as it is asked for.
        MissingExtraError: A library of the extra `web` is not installed.
    """
    from rrf_stream import web  # noqa: PLC0415 - only who serves needs its libraries

    if serving.target is None:
        index = partial(_pipeline_of, Path(serving.db or ""), is_paced=serving.is_paced)
        create = partial(web.create_app, index, present=_with_excerpt)
    else:
        create = partial(web.create_app, _named(serving.target))
    try:
        return create(
            limits=web.Limits(
                timeout=serving.timeout,
                searches=serving.searches,
                searches_per_client=serving.searches_per_client,
            ),
            token=serving.token,
            hosts=serving.names,
            cors_origins=serving.origins,
            title=serving.title,
            note=serving.note,
        )
    except (TypeError, ValueError) as error:
        raise CommandError(words.visible(str(error)), code=2) from error


@contextmanager
def handed_down(serving: Serving) -> Iterator[None]:
    """Tell the worker processes that this one starts in the block what they serve, and where to count."""
    with ExitStack() as stack:
        told = {_HANDED_DOWN: json.dumps(dataclasses.asdict(serving))}
        if _COUNTS not in os.environ:  # without it each worker would count for itself
            told[_COUNTS] = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ.update(told)
        try:
            yield
        finally:
            for name in told:
                del os.environ[name]


def app_in_worker() -> Any:
    """Return the application of a worker process; what the process starts does not inherit the token."""
    serving = Serving(**json.loads(os.environ.pop(_HANDED_DOWN)))
    log_to_stderr(serving.log_level)
    return app_of(serving)


@asynccontextmanager
async def _pipeline_of(db: Path, *, is_paced: bool) -> AsyncIterator[Pipeline]:
    """Open an index for as long as it is served."""
    async with opened(db) as index:
        await index.prepare()
        retrievers = retrievers_of(index)
        yield Pipeline(slowed(retrievers) if is_paced else retrievers, timeout=_BUDGET)


def _with_excerpt(hit: FusedHit) -> FusedHit:
    """Return a hit with the beginning of its document, and once: every arm returns the same one."""
    document = hit.item
    item = {"title": document.title, "text": words.one_line(document.text, _EXCERPT)}
    if isinstance(url := document.metadata.get("url"), str):
        item["url"] = url
    return hit._replace(item=item, items={})


def _named(target: str) -> Any:
    """Return what "package.module:name" names; modules are looked for in the current folder too.

    Raises:
        CommandError: There is no such module, or no such name in it.
    """
    shown = words.visible(target)
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise CommandError(f"{shown} must name a pipeline as package.module:name", code=2)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks another
        raise CommandError(f"{shown}: there is no module {words.visible(error.name)}", code=2) from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise CommandError(f"{shown}: there is no {words.visible(name)}", code=2) from None
    return found
