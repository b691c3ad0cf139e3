"""A route that streams: each snapshot is one line of JSON, and a client that leaves stops the arms.

`GET /search?q=...` answers with NDJSON, by `StreamingResponse`: the first line after some
milliseconds, a line for each better ranking, and the final one within a second, whatever `remote`
does; or within `&seconds=...`. A client that reads slowly gets fewer lines, never old ones. When a
client goes away, its request is cancelled, and with it the fusion: the arms stop, and nobody
searches for nobody. The pipeline is one for all requests, and at shutdown arms that still clean
up are waited for.

The program serves itself on a free port, is its own client twice, and stops. To serve it for
real: `uvicorn --app-dir examples fastapi_stream:app`.

Run it with `python examples/fastapi_stream.py`.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import httpx
import uvicorn
from fastapi import FastAPI, Query
from fastapi.responses import StreamingResponse

from rrf_stream import Pipeline, drain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

stopped: asyncio.Queue[str] = asyncio.Queue()
"""The queries for which `remote` was stopped before its end."""


async def full_text(query: str) -> list[str]:
    """Answer at once."""
    return [f"{query} in brief", f"{query} explained"]


async def vectors(query: str) -> AsyncIterator[str]:
    """Take 0.1 seconds for each hit."""
    for id_ in (f"{query} explained", f"{query} in practice"):
        await asyncio.sleep(0.1)
        yield id_


async def remote(query: str) -> AsyncIterator[str]:
    """Give a hit after 0.3 seconds, and look for more for a long time; note when it is stopped."""
    try:
        await asyncio.sleep(0.3)
        yield f"{query} in practice"
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        stopped.put_nowait(query)
        raise


hybrid = Pipeline({"full text": full_text, "vectors": vectors, "remote": remote}, top_k=3, min_interval=0.05)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Wait at shutdown for arms that still clean up."""
    yield
    await drain(timeout=5.0)


app = FastAPI(lifespan=lifespan)


async def lines(query: str, seconds: float) -> AsyncIterator[str]:
    """Give each snapshot of a search as a line of JSON."""
    async with hybrid.open(query, timeout=seconds) as fusion:
        async for snapshot in fusion:
            yield json.dumps(snapshot.to_dict()) + "\n"  # noqa: ASYNC119 - a fusion has no scope open here


@app.get("/search")
async def search(
    q: Annotated[str, Query(min_length=1, max_length=200)],
    seconds: Annotated[float, Query(gt=0, le=60)] = 1.0,
) -> StreamingResponse:
    """Stream the snapshots of a search."""
    return StreamingResponse(lines(q, seconds), media_type="application/x-ndjson")


async def read(client: httpx.AsyncClient, query: str, *, seconds: float, most: int) -> None:
    """Print so many lines of an answer at most, and leave."""
    print(f"{query}:")
    async with client.stream("GET", "/search", params={"q": query, "seconds": seconds}) as response:
        response.raise_for_status()
        count = 0
        async for line in response.aiter_lines():
            snapshot = json.loads(line)
            print("  " + ", ".join(hit["id"] for hit in snapshot["hits"]))
            if snapshot["final"]:
                arms = (f"{arm['name']} {arm['status']}" for arm in snapshot["coverage"]["arms"])
                print("  final: " + ", ".join(arms))
            count += 1
            if count == most:
                break


async def main() -> None:
    """Serve, read one answer to its end and leave another one early, and stop."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    host, port = listening.getsockname()
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=30, trust_env=False) as client:
        await read(client, "beetles", seconds=1, most=100)
        print("stopped at the deadline:", await stopped.get())
        await read(client, "birds", seconds=60, most=2)
        print("stopped as the client left:", await asyncio.wait_for(stopped.get(), 20))
        refused = await client.get("/search", params={"q": ""})
        print("a query without words:", refused.status_code)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
