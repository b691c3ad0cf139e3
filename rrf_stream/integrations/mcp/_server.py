"""The server with its tools, and how it is served. The only module that imports mcp."""

# No `from __future__ import annotations`: the annotations of the tools are made while the server is.
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any

from rrf_stream import Pipeline, __version__
from rrf_stream.errors import MissingExtraError
from rrf_stream.integrations.mcp._answer import Style, answer_of, document_of
from rrf_stream.integrations.mcp._ending import open_while_running, run_until_told
from rrf_stream.integrations.mcp._fetch import Fetch, document_by, unreadable
from rrf_stream.integrations.mcp._limits import Limits, Places, RefusedError
from rrf_stream.integrations.mcp._models import (
    FetchedDocument,
    SearchAnswer,
    argument,
    strict,
    why_refused,
)
from rrf_stream.integrations.mcp._progress import answered
from rrf_stream.integrations.mcp._stdin import stdin_that_ends
from rrf_stream.integrations.mcp._text import Describe, forgiving
from rrf_stream.integrations.mcp._text import describe as describe_usual
from rrf_stream.integrations.mcp._tools import fetch_description, instructions, search_description

try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.tools import Tool
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.types import CallToolResult, TextContent, ToolAnnotations
except ImportError as error:
    raise MissingExtraError("mcp", extra="mcp") from error

__all__ = ["create_server", "serve_http", "serve_stdio"]

_WORDING = 0.01  # seconds of a call, at most, that are kept for wording its answer
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
    max_calls: int = 64,
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
        fetch: Gives a document by its id, for the tool `fetch`; a plain function runs in a thread, which
            counts for `set_thread_limit`. It is asked for the id as text and, if that finds nothing and is
            JSON, for what it says.
        describe: Gives the title and text of what an arm returned as item, or `fetch` as document; by
            default the attributes or keys that most libraries use. A hit on which it fails is shown by its
            id alone.
        arm_names: How arms are called in sentences, by their names: `{"dense": "the vector index"}`.
        timeout: Seconds that a search has if the call does not say; more than 0.
        max_timeout: Seconds that a call can have at most; more is taken for that.
        max_top_k: Hits that can be asked for at most, at least 1.
        max_query_chars: Characters of a query at most, at least 1.
        max_chars: Characters of an answer of `search` at most, as text and as JSON; at least 2,000.
        max_fetch_chars: The same for `fetch`, which gives longer documents in parts.
        max_calls: Calls that may be under way, at least 1; more are refused.
        progress_interval: Seconds between two notifications of one search at the least; more than 0.
        lifespan: Opens what retrievers need: entered before the first call and left when the server ends.
            Over HTTP it is entered once, in memory and over standard input once for each client.

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
        max_calls=max_calls,
        progress_interval=progress_interval,
    )
    style = Style(
        names=dict(arm_names),
        describe=forgiving(describe),
        max_chars=max_chars,
        can_fetch=fetch is not None,
    )
    places = Places(max_calls)

    async def search(
        query: Annotated[str, argument("What to look for.", minLength=1, maxLength=max_query_chars)],
        ctx: Context[Any, Any],
        top_k: Annotated[int, argument("Hits at most.", minimum=1, maximum=max_top_k)] = min(10, max_top_k),
        timeout_ms: Annotated[
            int | None, argument(f"Milliseconds until the answer; {limits.default_ms} if null.", minimum=1)
        ] = None,
    ) -> Annotated[CallToolResult, SearchAnswer]:
        if refused := limits.refusal(query, top_k=top_k, timeout_ms=timeout_ms):
            raise ToolError(refused)
        budget = limits.budget(timeout_ms)
        # Arms clean up in the background: the answer does not wait for them.
        fusion = pipeline.open(
            query,
            top_k=top_k,
            settle=None,
            timeout=budget - min(_WORDING, budget / 10),
            min_interval=progress_interval,
            grace=0.0,
        )
        try:
            with places.taken():
                snapshot = await answered(fusion, ctx.report_progress, budget=budget, style=style)
        except RefusedError as error:
            raise ToolError(str(error)) from error
        answer = answer_of(snapshot, query=query, top_k=top_k, style=style)
        return _result(answer.text, answer.data)

    async def fetch_document(
        id: Annotated[str, argument("The id of a hit of search, unchanged.")],  # noqa: A002
        start: Annotated[int, argument("The character to start at.", minimum=0)] = 0,
    ) -> Annotated[CallToolResult, FetchedDocument]:
        if start < 0:
            raise ToolError(f"start must be at least 0, not {start}")
        try:
            with places.taken():
                document = await document_by(fetch, id, within=max_timeout) if fetch else None
        except RefusedError as error:
            raise ToolError(str(error)) from error
        if document is None:
            raise ToolError("there is no document with this id; give the id of a hit of search, unchanged")
        try:
            found = document_of(document, start=start, describe=describe, most=max_fetch_chars)
        except Exception as error:
            raise ToolError(str(unreadable(error))) from error
        return _result(found.text, found.data)

    searching = search_description(
        about, default_ms=limits.default_ms, most_ms=limits.most_ms, can_fetch=style.can_fetch
    )
    tools = [_tool(search, "search", title="Search", description=searching)]
    if fetch is not None:
        reading = fetch_description(about)
        tools.append(_tool(fetch_document, "fetch", title="Fetch a document", description=reading))
    return _Server(
        name,
        version=__version__,
        instructions=instructions(about, can_fetch=style.can_fetch),
        tools=tools,
        lifespan=partial(open_while_running, lifespan),
        log_level="WARNING",
    )


class _Server(MCPServer[Any]):
    """A server that refuses arguments in words of ours; those of Pydantic are for programmers."""

    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        """Call a tool, as the server of the SDK does."""
        try:
            return await super().call_tool(*args, **kwargs)
        except ToolError as error:
            if why := why_refused(error.__cause__):
                raise ToolError(why) from error.__cause__
            raise


def _tool(function: Callable[..., Any], name: str, *, title: str, description: str) -> Tool:
    tool = Tool.from_function(function, name, title, description, annotations=_READS)
    tool.fn_metadata.arg_model = strict(tool.fn_metadata.arg_model)
    tool.parameters = tool.fn_metadata.arg_model.model_json_schema(by_alias=True)
    return tool


async def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve one client over standard input and output, until it leaves or is left.

    That is when SIGTERM comes, if the application has no handler of its own, or the call is cancelled.
    Whatever is printed meanwhile goes to standard error. Unlike `server.run("stdio")`, it ends while the
    client says nothing, and what is around the call is closed.

    Args:
        server: What `create_server` gave.

    Raises:
        OSError: Standard input or output is closed.
    """
    with stdin_that_ends() as end:
        await run_until_told(server.run_stdio_async, end)


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
        ValueError: `host` is every address of the machine, and no name is allowed; or one is no name.
        TypeError: `allowed_hosts` is one text.
        OSError: The port is taken, or the address is none of this machine.
    """
    # Only here, as whoever serves by other means does not need it.
    from rrf_stream.integrations.mcp._http import hosts_of, serve  # noqa: PLC0415

    hosts = hosts_of(host, allowed_hosts)
    forms = [form for name in hosts for form in (name, f"{name}:*")]
    app = server.streamable_http_app(
        host=host,
        transport_security=TransportSecuritySettings(
            allowed_hosts=forms,
            allowed_origins=[f"{scheme}://{form}" for form in forms for scheme in ("http", "https")],
        ),
    )

    def ready(chosen: int) -> None:
        if on_ready is not None:
            on_ready(f"http://{hosts[0]}:{chosen}/mcp")

    await serve(app, host=host, port=port, on_ready=ready)


def _result(text: str, data: SearchAnswer | FetchedDocument) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=data.model_dump(mode="json")
    )
