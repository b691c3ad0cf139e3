"""A pipeline behind HTTP: results as server-sent events, as JSON, and as a page that fills in live.

    app = create_app(pipeline)          # an ASGI application; run it with uvicorn

`rrf_stream.web.client` reads such a server, and makes it an arm of another fusion.
"""

from rrf_stream.web._app import create_app
from rrf_stream.web._limits import Limits
from rrf_stream.web._server import serve

__all__ = ["Limits", "create_app", "serve"]
