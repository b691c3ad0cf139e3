"""Reading server-sent events out of a body that arrives in pieces; what `sse.js` does, in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import page_kit
import pytest

if TYPE_CHECKING:
    from playwright.async_api import Page as Tab

pytest_plugins = ["page_fixtures"]
pytestmark = pytest.mark.asyncio(loop_scope="session")

READ = """async ({chunks, broken}) => {
  const { readEvents } = await import('/static/sse.js');
  const body = new ReadableStream({
    pull(control) {
      const next = chunks.shift();
      if (next) control.enqueue(new Uint8Array(next));
      else if (broken) control.error(new TypeError('gone'));
      else control.close();
    },
  });
  const all = [];
  try {
    for await (const events of readEvents(body)) all.push(...events);
  } catch (error) {
    all.push(error.message);
  }
  return all;
}"""


async def read(tab: Tab, served: page_kit.Server, chunks: list[bytes], *, broken: bool = False) -> Any:
    """Return the events in a body of these pieces, as event and data."""
    if not tab.url.startswith(served.url):
        await tab.goto(f"{served.url}static/icon.svg")
    given = {"chunks": [list(chunk) for chunk in chunks], "broken": broken}
    found = await tab.evaluate(READ, given)
    return [one if isinstance(one, str) else (one["event"], one["data"]) for one in found]


CASES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "one": ("event: snapshot\r\nid: 1\r\ndata: {}\r\n\r\n", [("snapshot", "{}")]),
    "line feeds": ("event: done\ndata: 1\n\ndata: 2\n\n", [("done", "1"), ("message", "2")]),
    "carriage returns": ("data: 1\r\rdata: 2\r\r: end\n", [("message", "1"), ("message", "2")]),
    "comments": (": ping\r\n\r\n:\r\ndata: 1\r\n: x\r\n\r\n", [("message", "1")]),
    "lines of data": ("data: a\r\ndata:\r\ndata:  b\r\n\r\n", [("message", "a\n\n b")]),
    "no data": ("event: lost\r\n\r\ndata: 1\r\n\r\n", [("message", "1")]),
    "fields without colon": (
        "data\r\n\r\ndata\r\ndata\r\n\r\n",
        [("message", ""), ("message", "\n")],
    ),
    "colons in data": ("data: a:b: c\r\n\r\n", [("message", "a:b: c")]),
    "an id alone": ("id: 0\r\n\r\nid: 1\r\ndata: 1\r\n\r\n", [("message", "1")]),
    "unknown fields": ("retry: 5\r\nother: x\r\ndata: 1\r\n\r\n", [("message", "1")]),
    "a mark in front": ("\ufeffdata: 1\r\n\r\n", [("message", "1")]),
    "letters of all sizes": ("data: aé€😀\r\n\r\n", [("message", "aé€😀")]),
    "cut short": ("data: 1\r\n\r\ndata: 2\r\n", [("message", "1")]),
    "nothing": ("", []),
}


async def test_events_are_read_however_they_are_cut(tab: Tab, served: page_kit.Server) -> None:
    """In one piece, byte by byte, and in two pieces cut anywhere, a body holds the same events."""
    for name, (text, events) in CASES.items():
        body = text.encode()
        cuts = [[body], [bytes([byte]) for byte in body]]
        cuts += [[body[:place], body[place:]] for place in range(1, len(body))]
        for chunks in cuts:
            found = await read(tab, served, [chunk for chunk in chunks if chunk])
            assert found == events, (name, chunks)


async def test_a_stream_that_breaks_is_no_end(tab: Tab, served: page_kit.Server) -> None:
    """What had arrived is given, then the error of the connection."""
    assert await read(tab, served, [b"data: 1\n\nda"], broken=True) == [("message", "1"), "gone"]
