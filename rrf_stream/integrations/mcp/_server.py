"""The server with its tools, and how it is served. The only module that imports mcp."""

# No `from __future__ import annotations`: the annotations of the tools are made while the server is.
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any

import anyio

from rrf_stream import Fusion, Pipeline, Snapshot, __version__, drain
from rrf_stream.errors import ArmError, MissingExtraError
from rrf_stream.integrations.mcp import _words as words
from rrf_stream.integrations.mcp._answer import Describe, Style, answer_of, document_of, progress_of
from rrf_stream.integrations.mcp._fetch import Fetch, FetchError, document_by
from rrf_stream.integrations.mcp._limits import Limits
from rrf_stream.integrations.mcp._models import FetchedDocument, SearchAnswer, described
from rrf_stream.integrations.mcp._stdin import stdin_that_ends
from rrf_stream.integrations.mcp._text import describe as describe_usual
from rrf_stream.integrations.mcp._tools import fetch_description, instructions, search_description
from rrf_stream.integrations.mcp._until_cancelled import run_until_cancelled

try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.types import CallToolResult, TextContent, ToolAnnotations
except ImportError as error:
    raise MissingExtraError("mcp", extra="mcp") from error

__all__ = ["create_server", "serve_http", "serve_stdio"]

_DRAIN = 1.0  # seconds that arms have to clean up when the server ends
_READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def create_server(
    pipeline: Pipeline,
    *,
    name: str = "rrf-stream",
    about: str = "the documents of this server",
    fetch: Fetch | None = None,
    describe: Describe = describe_usual,
    arm_names: Mapping[str, str] = MappingProxyType({}),
    timeout: float = 5.0,
    max_timeout: float = 30.0,
    max_top_k: int = 50,
    max_query_chars: int = 2_000,
    max_chars: int = 8_000,
    max_fetch_chars: int = 40_000,
    progress_interval: float = 0.25,
    lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
) -> MCPServer[Any]:
    """Return a server of the Model Context Protocol with the tool `search`, and with `fetch` if it can.

    It takes more tools, and runs, as every `MCPServer` of the SDK; `serve_stdio` and `serve_http` are for
    event loops that run already. Logging goes to standard error, if the application has not configured it.

    `search(query, top_k, timeout_ms)` answers within `timeout_ms`, with a `SearchAnswer` and as text. Each
    better snapshot is told as progress. Cancelling the call cancels the arms.

    Args:
        pipeline: What is asked. Its own `top_k`, `settle` and `timeout` do not count here.
        name: The name of the server.
        about: What there is to find, for the descriptions of the tools: "the handbook of the company".
        fetch: Gives a document by its id, for the tool `fetch`; a plain function runs in a thread. It is
            asked for the id as text and, if that finds nothing and is JSON, for what it says.
        describe: Gives the title and text of what an arm returned as item, or `fetch` as document; by
            default the attributes or keys that most libraries use.
        arm_names: How arms are called in sentences, by their names: `{"dense": "the vector index"}`.
        timeout: Seconds that a search has if the call does not say; more than 0.
        max_timeout: Seconds that a call can have at most; more is taken for that.
        max_top_k: Hits that can be asked for at most, at least 1.
        max_query_chars: Characters of a query at most, at least 1.
        max_chars: Characters of an answer of `search` at most, as text and as JSON; at least 2,000.
        max_fetch_chars: The same for `fetch`, which gives longer documents in parts.
        progress_interval: Seconds between two notifications of one search at the least; more than 0.
        lifespan: Entered when the server starts, and left when it ends: opens what retrievers need.

    Raises:
        ValueError: A number is out of its range.
        TypeError: Something is of the wrong type.
    """
    if not isinstance(pipeline, Pipeline):
        raise TypeError(f"pipeline must be a Pipeline, not {pipeline!r}")
    for called, function in (("fetch", fetch), ("describe", describe), ("lifespan", lifespan)):
        if function is not None and not callable(function):
            raise TypeError(f"{called} must be callable, not {function!r}")
    limits = Limits(
        timeout=timeout,
        max_timeout=max_timeout,
        max_top_k=max_top_k,
        max_query_chars=max_query_chars,
        max_chars=max_chars,
        max_fetch_chars=max_fetch_chars,
        progress_interval=progress_interval,
    )
    style = Style(names=dict(arm_names), describe=describe, max_chars=max_chars, can_fetch=fetch is not None)
    server: MCPServer[Any] = MCPServer(
        name,
        version=__version__,
        instructions=instructions(about, can_fetch=style.can_fetch),
        lifespan=partial(_running, lifespan),
        log_level="WARNING",
    )

    async def search(
        query: Annotated[str, described("What to look for.", minLength=1, maxLength=max_query_chars)],
        ctx: Context[Any, Any],
        top_k: Annotated[int, described("Hits at most.", minimum=1, maximum=max_top_k)] = min(10, max_top_k),
        timeout_ms: Annotated[
            int | None, described(f"Milliseconds until the answer; {limits.default_ms} if null.", minimum=1)
        ] = None,
    ) -> Annotated[CallToolResult, SearchAnswer]:
        if refused := limits.refusal(query, top_k=top_k, timeout_ms=timeout_ms):
            raise ToolError(refused)
        # Arms clean up in the background: the answer does not wait for them.
        fusion = pipeline.open(
            query,
            top_k=top_k,
            settle=None,
            timeout=limits.budget(timeout_ms),
            min_interval=progress_interval,
            grace=0.0,
        )
        snapshot = await _answered(fusion, ctx, budget=limits.budget(timeout_ms), style=style)
        answer = answer_of(snapshot, query=query, top_k=top_k, style=style)
        return _result(answer.text, answer.data)

    async def fetch_document(
        id: Annotated[str, described("The id of a hit of search, unchanged.")],  # noqa: A002
        start: Annotated[int, described("The character to start at.", minimum=0)] = 0,
    ) -> Annotated[CallToolResult, FetchedDocument]:
        if start < 0:
            raise ToolError(f"start must be at least 0, not {start}")
        try:
            document = await document_by(fetch, id, within=max_timeout) if fetch else None
        except FetchError as error:
            raise ToolError(str(error)) from error
        if document is None:
            raise ToolError("there is no document with this id; give the id of a hit of search, unchanged")
        found = document_of(document, start=start, describe=describe, most=max_fetch_chars)
        return _result(found.text, found.data)

    server.add_tool(
        search,
        title="Search",
        description=search_description(
            about,
            default_ms=limits.default_ms,
            most_ms=limits.most_ms,
            can_fetch=style.can_fetch,
        ),
        annotations=_READS,
    )
    if fetch is not None:
        server.add_tool(
            fetch_document,
            name="fetch",
            title="Fetch a document",
            description=fetch_description(about),
            annotations=_READS,
        )
    return server


async def _answered(fusion: Fusion, ctx: Context[Any, Any], *, budget: float, style: Style) -> Snapshot:
    """Return the final snapshot, and tell of those before.

    Raises:
        ToolError: A required arm failed.
    """
    snapshot: Snapshot | None = None
    try:
        async with fusion:
            async for snapshot in fusion:
                if not snapshot.final:
                    elapsed = snapshot.elapsed or 0.0
                    # A client that is slow to take it must not hold up the answer.
                    with anyio.move_on_after(budget - elapsed):
                        await ctx.report_progress(
                            round(elapsed * 1000, 3), budget * 1000, progress_of(snapshot, style=style)
                        )
            return await fusion.final()
    except ArmError as error:
        raise ToolError(words.failure(snapshot, error.arm, style.names)) from error


async def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve one client over standard input and output, until it leaves or the call is cancelled.

    Whatever is printed meanwhile goes to standard error. Unlike `server.run("stdio")`, it ends on Ctrl-C
    while the client says nothing.

    Args:
        server: What `create_server` gave.
    """
    with stdin_that_ends() as end:
        await run_until_cancelled(server.run_stdio_async, end)


async def serve_http(
    server: MCPServer[Any],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    allowed_hosts: Iterable[str] = (),
    on_ready: Callable[[str], object] | None = None,
) -> None:
    """Serve over streamable HTTP, until Ctrl-C or SIGTERM comes or the call is cancelled; on asyncio only.

    Who can reach the port can search. Requests that name another host than is allowed are refused, so no
    web page can have a browser search here under its own name.

    Args:
        server: What `create_server` gave.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        allowed_hosts: The names by which clients call this machine, without a port, beside `host` and
            those of the loopback.
        on_ready: Called with the URL of the server, once connections are taken.

    Raises:
        ValueError: `host` is every address of the machine, and no name is allowed.
        TypeError: `allowed_hosts` is one text.
        OSError: The port is taken, or the address is none of this machine.
    """
    # Only here, as whoever serves by other means does not need it.
    from rrf_stream.integrations.mcp._http import hosts_of, serve  # noqa: PLC0415

    hosts = hosts_of(host, allowed_hosts)
    app = server.streamable_http_app(
        host=host,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[form for name in hosts for form in (name, f"{name}:*")],
            allowed_origins=[f"{scheme}://{name}:*" for name in hosts for scheme in ("http", "https")],
        ),
    )

    def ready(chosen: int) -> None:
        if on_ready is not None:
            on_ready(f"http://{hosts[0]}:{chosen}/mcp")

    await serve(app, host=host, port=port, on_ready=ready)


@asynccontextmanager
async def _running(
    given: Callable[[], AbstractAsyncContextManager[Any]] | None, _: MCPServer[Any]
) -> AsyncIterator[Any]:
    """Hold open what the retrievers need; let arms clean up before it closes."""
    async with nullcontext() if given is None else given() as state:
        try:
            yield state
        finally:
            with anyio.CancelScope(shield=True):
                await drain(_DRAIN)
            # While a client is served over standard output, prints lead to standard error; what waits in
            # the buffer must go there as well, and not to the client afterwards.
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()


def _result(text: str, data: SearchAnswer | FetchedDocument) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=data.model_dump(mode="json")
    )
