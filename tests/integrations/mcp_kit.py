"""What the tests of the MCP server share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from rrf_stream import Hit, Page
from rrf_stream.integrations.mcp import SearchAnswer
from rrf_stream.testing import Script, script

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

in_virtual_time = pytest.mark.parametrize("anyio_backend", ["asyncio-virtual", "trio-virtual"], indirect=True)
NAMES = {"dense": "the vector index", "lexical": "the full-text index"}
PATIENCE = 60
"""Seconds that a process or a socket may take, on a machine that is busy."""

Retriever = Callable[[str], Script]


def hits(*ids: Any, text: str = "words") -> Page[Hit]:
    """Return a page of hits whose documents have a title and a text."""
    return Page(Hit(id_, item={"title": f"Title of {id_}", "text": f"{text} of {id_}"}) for id_ in ids)


class Asked:
    """A retriever that plays the same script for every query, and keeps what it played."""

    def __init__(self, *steps: Any, **options: Any) -> None:
        self.played: list[Script] = []
        self._steps, self._options = steps, options

    async def __call__(self, query: str) -> Script:
        """Answer a query."""
        del query
        self.played.append(script(*self._steps, **self._options))
        return self.played[-1]


class Told(NamedTuple):
    """One notification of progress."""

    progress: float
    total: float | None
    message: str


def text_of(result: CallToolResult) -> str:
    """Return the text of a result, which has one part."""
    (part,) = result.content
    assert part.type == "text"
    return part.text


async def search(client: Client, query: str = "words", **arguments: Any) -> tuple[SearchAnswer, str]:
    """Call the tool, which must answer; return the answer as data and as text."""
    result = await client.call_tool("search", {"query": query, **arguments})
    assert not result.is_error, text_of(result)
    return SearchAnswer.model_validate(result.structured_content), text_of(result)


async def refusal(client: Client, tool: str = "search", **arguments: Any) -> str:
    """Call a tool, which must refuse; return its words."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert result.structured_content is None
    return text_of(result).removeprefix(f"Error executing tool {tool}: ")
