"""A pipeline as tools of the Model Context Protocol: search within a time limit, and fetch a document.

server = create_server(pipeline, about="the handbook", fetch=index.get)
server.run("stdio")
"""

from rrf_stream.integrations.mcp._fetch import Fetch
from rrf_stream.integrations.mcp._models import FetchedDocument, SearchAnswer, SearchHit
from rrf_stream.integrations.mcp._server import create_server, serve_http, serve_stdio
from rrf_stream.integrations.mcp._text import Describe

__all__ = [
    "Describe",
    "Fetch",
    "FetchedDocument",
    "SearchAnswer",
    "SearchHit",
    "create_server",
    "serve_http",
    "serve_stdio",
]
