"""The ASGI application: which path is answered by what. The only module that imports Starlette."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from rrf_stream import Pipeline, drain
from rrf_stream.errors import MissingExtraError
from rrf_stream.web._arguments import check_names, check_seconds, check_text, check_token
from rrf_stream.web._endpoint import FinalAnswer, SearchEndpoint
from rrf_stream.web._events import EventStream
from rrf_stream.web._guards import SAFE, CountedProblems, HostGuard, SafeHeaders, TokenGuard
from rrf_stream.web._limits import Limits
from rrf_stream.web._metrics import MEDIA_TYPE as METRICS
from rrf_stream.web._openapi import document
from rrf_stream.web._payload import Errors, Payload, Present, in_json
from rrf_stream.web._problems import MEDIA_TYPE as PROBLEM
from rrf_stream.web._problems import Refused, problem
from rrf_stream.web._service import Service

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware
    from starlette.requests import Request
    from starlette.responses import FileResponse, Response
    from starlette.routing import BaseRoute, Mount, Route
    from starlette.staticfiles import StaticFiles
except ImportError as error:
    raise MissingExtraError("starlette", extra="web") from error

__all__ = ["create_app"]

Opened: TypeAlias = Callable[[], AbstractAsyncContextManager[Pipeline]]

_STATIC = Path(__file__).parent / "static"
_LONGEST_PING = 30.0
"""Seconds; clients take a server that is silent for longer for dead, `rrf_stream.web.client` after 45."""
_WORDS = {404: "there is nothing here; /openapi.json tells what there is", 405: "only GET is answered here"}


def create_app(
    pipeline: Pipeline | Opened,
    *,
    limits: Limits | None = None,
    present: Present | None = None,
    errors: Errors = "type",
    probe: Any = None,
    token: str | None = None,
    hosts: Sequence[str] | None = None,
    cors_origins: Sequence[str] = (),
    title: str = "Search",
    note: str = "",
    ping: float = 15.0,
    stall: float = 5.0,
    grace: float = 5.0,
) -> Starlette:
    """Return an ASGI application that searches a pipeline: as a page, as JSON and as server-sent events.

    `/` is the page, `/search` gives the final snapshot and `/search/stream` every better one;
    `/healthz`, `/readyz` and `/metrics` are for whoever keeps it running, and `/openapi.json` describes all
    of it. The application keeps nothing between requests, so several workers may serve it.

    Args:
        pipeline: Whom to ask; or a callable that returns an asynchronous context manager of it, which
            is entered when the server starts, and left when it ends.
        limits: What clients may ask for; `Limits()`.
        present: Gives a hit as clients may see it, such as with a shorter item; they see all of it.
        errors: What clients are told of the error of an arm: "type", its type, or "full", what it says too.
        probe: A query that `/readyz` asks the required arms, once in 5 seconds at most. Without it, an
            arm can answer unless its breaker is open.
        token: What every request but `/healthz` must have as bearer token, or as password of any
            user, at least 16 characters; nothing.
        hosts: The names under which the server answers, without ports; any. Give them also to a server
            for this machine alone: else pages of other sites can make a name of theirs lead to it.
        cors_origins: Origins whose pages may read the answers; none.
        title: What the page is called.
        note: A sentence for the users of the page; none.
        ping: Seconds between comments that keep a silent stream open, above 0 and at most 30.
        stall: Seconds for a client to take what it is sent, above 0; then it is given up. No answer takes
            longer than its time budget and that.
        grace: Seconds for searches and their arms to end when the server does, at least 0.

    Raises:
        ValueError: An argument is out of its range, or the pipeline has no arms, or one with a comma in
            its name, by which nobody could ask for it.
        TypeError: An argument is of the wrong type.
        MissingExtraError: A library of the extra `web` is not installed.
    """
    if not isinstance(pipeline, Pipeline) and not callable(pipeline):
        raise TypeError(f"pipeline must be a Pipeline, or a callable that opens one, not {pipeline!r}")
    limits = Limits() if limits is None else limits
    _check(limits=limits, present=present, errors=errors, token=token)
    hosts = None if hosts is None else check_names("hosts", hosts)
    cors_origins = check_names("cors_origins", cors_origins)
    check_text("title", title)
    check_text("note", note)
    check_seconds("ping", ping, above=0, most=_LONGEST_PING)
    check_seconds("stall", stall, above=0)
    check_seconds("grace", grace, least=0)
    known = pipeline if isinstance(pipeline, Pipeline) else None
    service = Service(known, limits=limits, probe=probe)
    payload = Payload(present=present, errors=errors)
    stream = EventStream(payload=payload, ping=ping, grace=grace, on_exit=service.close)
    endpoint = partial(SearchEndpoint, service, stall=stall, origins=cors_origins)
    around = _Around(service, title=title, note=note, has_token=token is not None)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            opened = pipeline
            if not isinstance(opened, Pipeline):
                opened = await stack.enter_async_context(opened())
            if not isinstance(opened, Pipeline):
                raise TypeError(f"pipeline must be a callable that opens a Pipeline, not {opened!r}")
            service.start(opened)
            stream.start()
            try:
                yield
            finally:
                service.close()
                await drain(timeout=grace)
                service.pipeline = known

    app = Starlette(
        routes=[
            _only_get("/search", endpoint(FinalAnswer(payload))),
            _only_get("/search/stream", endpoint(stream)),
            *around.routes(),
        ],
        middleware=[
            Middleware(CountedProblems, count=service.metrics.refused),
            *_guards(token=token, hosts=hosts, cors_origins=cors_origins),
        ],
        exception_handlers={Refused: _refused, HTTPException: _unrouted, Exception: around.broken},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # it would lead to whatever the client says that this host is
    app.state.close = service.close
    return app


class _Around:
    """All that is answered beside searches: the page, what it must know, and what keeps a server running."""

    def __init__(self, service: Service, *, title: str, note: str, has_token: bool) -> None:
        self._service = service
        self._title = title
        self._note = note
        self._has_token = has_token

    def routes(self) -> list[BaseRoute]:
        """Return what is answered where."""
        return [
            Route("/", self.page),
            Mount("/static", StaticFiles(directory=_STATIC)),
            Route("/page.json", self.facts),
            Route("/healthz", self.alive),
            Route("/readyz", self.ready),
            Route("/metrics", self.metrics),
            Route("/openapi.json", self.described),
        ]

    async def page(self, _: Request) -> Response:
        return FileResponse(_STATIC / "index.html")

    async def facts(self, _: Request) -> Response:
        return _json(self._service.facts() | {"title": self._title, "note": self._note})

    async def alive(self, _: Request) -> Response:
        return _json({"status": "alive"})

    async def ready(self, _: Request) -> Response:
        if unable := await self._service.unable():
            raise Refused(503, f"required arms cannot answer: {', '.join(unable)}", arms=unable)
        return _json({"status": "ready"})

    async def metrics(self, _: Request) -> Response:
        return Response(self._service.metrics.text(), media_type=METRICS)

    async def described(self, request: Request) -> Response:
        described = document(
            title=self._title,
            limits=self._service.limits,
            defaults=self._service.defaults,
            has_token=self._has_token,
            root=request.scope.get("root_path", ""),
        )
        return _json(described)

    async def broken(self, _: Request, __: Exception) -> Response:
        """Return the answer to a request that broke, which is sent from outside of the guards."""
        self._service.metrics.refused(500)
        safe = {name.decode(): value.decode() for name, value in SAFE}
        body = problem(500, "the server could not answer this request")
        return Response(in_json(body), 500, {"Cache-Control": "no-cache", **safe}, PROBLEM)


# Were these no coroutines, they would run in threads.


async def _refused(_: Request, error: Any) -> Response:
    return Response(in_json(error.body), error.status, error.headers, PROBLEM)


async def _unrouted(_: Request, error: Any) -> Response:
    body = problem(error.status_code, _WORDS.get(error.status_code, error.detail))
    return Response(in_json(body), error.status_code, error.headers, PROBLEM)


def _only_get(path: str, endpoint: SearchEndpoint) -> Route:
    route = Route(path, endpoint, methods=["GET"])
    route.methods = {"GET"}  # HEAD would search, and throw the answer away
    return route


def _check(*, limits: Any, present: Any, errors: Any, token: Any) -> None:
    if not isinstance(limits, Limits):
        raise TypeError(f"limits must be Limits, not {limits!r}")
    if present is not None and not callable(present):
        raise TypeError(f"present must be callable, not {present!r}")
    if errors not in ("type", "full"):
        raise ValueError(f"errors must be 'type' or 'full', not {errors!r}")
    if token is not None:
        check_token(token)


def _guards(
    *, token: str | None, hosts: Sequence[str] | None, cors_origins: Sequence[str]
) -> list[Middleware]:
    """Return what a request passes, from the outside in."""
    guards = [Middleware(SafeHeaders)]
    if hosts is not None:
        guards.append(Middleware(HostGuard, hosts=hosts))
    if cors_origins:
        # Outside of the token: browsers ask beforehand whether they may send one, without it.
        guards.append(
            Middleware(
                CORSMiddleware,
                allow_origins=cors_origins,
                allow_methods=["GET"],
                allow_headers=["Authorization", "Last-Event-ID"],
                expose_headers=["RRF-Coverage", "Retry-After"],
            )
        )
    if token is not None:
        guards.append(Middleware(TokenGuard, token=token))
    return guards


def _json(plain: Any) -> Response:
    return Response(in_json(plain), media_type="application/json")
