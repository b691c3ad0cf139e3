"""A model's search tool: it answers in the time that the call gives, and says in words what is missing.

Run it with `python examples/mcp_server.py`; it needs the extra `mcp`. It is server and client at
once: it starts itself as a server on standard input and output, as the programs that run tools do,
and asks it. To give the server to such a program, let it run this file with the argument `serve`.

The word arm is quick. The vector arm has one result at once and takes 3 s for the others, as on a bad day.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from mcp import Client, StdioServerParameters

from rrf_stream import Hit, Page, Pipeline
from rrf_stream.integrations.mcp import create_server, serve_stdio

PAGES = {
    "leave": {"title": "Taking leave", "text": "Ask your lead before you take more than three days."},
    "sick": {"title": "If you are ill", "text": "Call before nine. After three days, send a doctor's note."},
    "travel": {"title": "Travel costs", "text": "Keep the receipts. You get the money back within a month."},
}


async def words(query: str) -> Page[Hit]:
    """Rank the pages by how many words of the query they have."""
    wanted = set(query.lower().split())
    found = {id_: len(wanted & set(page["text"].lower().split())) for id_, page in PAGES.items()}
    best = sorted((id_ for id_ in found if found[id_]), key=found.__getitem__, reverse=True)
    return Page(Hit(id_, item=PAGES[id_]) for id_ in best)


async def vectors(query: str) -> AsyncIterator[Hit]:
    """Give what is near to the query, and take too long for it."""
    del query  # a real arm embeds it
    yield Hit("leave", item=PAGES["leave"])
    await asyncio.sleep(3)
    yield Hit("sick", item=PAGES["sick"])


async def fetch(page: str) -> dict[str, str] | None:
    """Give a whole page."""
    return PAGES.get(page)


async def serve() -> None:
    """Be the server."""
    server = create_server(
        Pipeline({"words": words, "vectors": vectors}),
        about="the handbook of the company",
        fetch=fetch,
        arm_names={"words": "the word index", "vectors": "the vector index"},
    )
    await serve_stdio(server)


async def tell(progress: float, total: float | None, message: str | None) -> None:
    """Show how far the search is."""
    del progress, total
    print(f"progress: {message}")


async def ask() -> None:
    """Be the program that runs tools, with a model that asks one question."""
    async with Client(StdioServerParameters(command=sys.executable, args=[__file__, "serve"])) as client:
        arguments = {"query": "more than three days", "timeout_ms": 500}
        result = await client.call_tool("search", arguments, progress_callback=tell)
        print()
        for part in result.content:
            if part.type == "text":
                print(part.text)
        answer = result.structured_content or {}
        print(f"\ncomplete: {answer['complete']}, certain: the first {answer['certain_first_n']}")
        page = await client.call_tool("fetch", {"id": answer["hits"][0]["id"]})
        print(f"fetched: {(page.structured_content or {})['text']}")


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1:] == ["serve"] else ask())
