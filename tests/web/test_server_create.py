"""Making an application: what is refused at once, where its pipeline comes from, and where it may be put."""

from __future__ import annotations

import asyncio
import math
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from server_kit import ByHand, Watched, asking, events_in, letters, nothing_left, until
from starlette.applications import Starlette
from starlette.routing import Mount

from rrf_stream import Pipeline
from rrf_stream.web import Limits, create_app, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN = "a token of some length"  # noqa: S105 - for the test

WRONG_TYPES: list[tuple[str, Any]] = [
    ("pipeline", {"a": letters}),
    ("pipeline", None),
    ("limits", {"top_k": 3}),
    ("present", "title"),
    ("token", b"bytes are no token at all"),
    ("token", 10**20),
    ("hosts", "localhost"),
    ("hosts", [b"localhost"]),
    ("hosts", 3),
    ("cors_origins", "https://example.org"),
    ("cors_origins", [None]),
    ("cors_origins", None),
    ("title", None),
    ("title", b"Search"),
    ("note", 3),
    ("ping", "15"),
    ("ping", None),
    ("ping", True),
    ("stall", [5]),
    ("grace", None),
    ("grace", "5"),
]
WRONG_VALUES: list[tuple[str, Any]] = [
    ("errors", "none"),
    ("errors", ["type"]),
    ("token", ""),
    ("token", "fifteen chars.."),
    ("token", " with blanks around it "),
    ("token", "with an end\r\nof the line"),
    ("token", "with a lone surrogate \ud800"),
    ("ping", 0),
    ("ping", -1.0),
    ("ping", math.nan),
    ("stall", 0.0),
    ("grace", -0.1),
    ("grace", math.nan),
]


@pytest.mark.parametrize(("name", "value"), WRONG_TYPES)
def test_a_wrong_type_is_refused_by_its_name(name: str, value: Any) -> None:
    """The TypeError names the parameter, when the application is made and not with the first request."""
    with pytest.raises(TypeError, match=rf"^{name} must be"):
        create_app(**({"pipeline": letters()} | {name: value}))


@pytest.mark.parametrize(("name", "value"), WRONG_VALUES)
def test_a_value_out_of_range_is_refused_by_its_name(name: str, value: Any) -> None:
    """The ValueError names the parameter, and never tells a token."""
    with pytest.raises(ValueError, match=rf"^{name} must ") as refused:
        create_app(**({"pipeline": letters()} | {name: value}))
    assert name != "token" or not value or value not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["query_length", "top_k", "timeout", "arms", "searches", "searches_per_client"]
)
def test_limits_are_checked_by_name(name: str) -> None:
    """Zero, less and no number are ValueErrors; text, flags and None are TypeErrors, but for `arms`."""
    for value in (0, -1):
        with pytest.raises(ValueError, match=rf"^{name} must be"):
            Limits(**{name: value})
    for value in (
        "3",
        True,
        [3],
        *(() if name == "arms" else (None,)),
        *((1.5,) if name != "timeout" else ()),
    ):
        with pytest.raises(TypeError, match=rf"^{name} must be"):
            Limits(**{name: value})
    if name == "timeout":
        for seconds in (math.inf, math.nan, 0.0004):
            with pytest.raises(ValueError, match=r"^timeout must be"):
                Limits(timeout=seconds)
    assert getattr(Limits(**{name: 3}), name) == 3


SERVE: list[tuple[type[Exception], str, Any]] = [
    (ValueError, "workers", 0),
    (TypeError, "workers", "2"),
    (TypeError, "workers", True),
    (ValueError, "grace", -1.0),
    (TypeError, "grace", None),
    (ValueError, "port", -1),
    (ValueError, "port", 65_536),
    (TypeError, "port", "8000"),
]


@pytest.mark.parametrize(("error", "name", "value"), SERVE)
def test_serve_refuses_what_it_cannot(error: type[Exception], name: str, value: Any) -> None:
    """Before anything is listened at, the error names the parameter."""
    with pytest.raises(error, match=rf"^{name} must be"):
        serve(create_app(letters()), **({"port": 0} | {name: value}))


def test_an_address_that_is_taken_is_an_error() -> None:
    """Serving where somebody serves already raises, and does not wait."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        serve(create_app(letters()), port=taken.getsockname()[1])


def test_several_workers_want_the_name_of_what_makes_an_application() -> None:
    """An application itself cannot go to another process; the error says what can."""
    with pytest.raises(TypeError, match=r'^app must be "package\.module:name"'):
        serve(create_app(letters()), port=0, workers=2)


# --- a pipeline that is opened ----------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_an_opened_pipeline_lives_as_long_as_the_server() -> None:
    """It is entered at the start and left at the end, after the arms; requests outside of that get 503."""
    told: list[str] = []
    arm = Watched("a", wait=True)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Pipeline]:
        told.append("open")
        yield Pipeline({"arm": arm.source})
        told.append(f"left after {len(arm.closed)}")

    app = create_app(opened)
    client = ByHand("/search/stream?q=x")
    async with asking(app) as asker:

        async def status(path: str) -> int:
            answer = await asker.get(path, params={"q": "x"} if path.startswith("/search") else {})
            assert answer.status_code == 200 or answer.headers["retry-after"] == "1"
            return answer.status_code

        paths = [
            "/search",
            "/search/stream",
            "/page.json",
            "/openapi.json",
            "/readyz",
            "/healthz",
            "/metrics",
        ]
        assert [await status(path) for path in paths] == [503] * 5 + [200] * 2
        assert not told
        async with app.router.lifespan_context(app):
            assert told == ["open"]
            assert [await status(path) for path in paths[2:]] == [200] * 5
            answering = asyncio.create_task(app(client.scope, client.receive, client.send))
            await until(lambda: "event: snapshot" in client.body)
        assert told == ["open", "left after 1"]
        await answering
        assert events_in(client.body)[-1].data["outcome"] == "stopped"
        assert [await status(path) for path in paths] == [503] * 5 + [200] * 2


@pytest.mark.asyncio
@pytest.mark.parametrize("is_opened", [True, False])
async def test_an_application_can_be_started_again(*, is_opened: bool) -> None:
    """After its end it starts as at first: tests and reloading servers do that."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Pipeline]:
        yield letters()

    app = create_app(opened if is_opened else letters())
    async with asking(app) as client:
        for _ in range(2):
            async with app.router.lifespan_context(app):
                assert (await client.get("/search", params={"q": "x"})).status_code == 200
                assert (await client.get("/readyz")).status_code == 200
            assert (await client.get("/search", params={"q": "x"})).status_code == 503


@pytest.mark.asyncio
async def test_what_opens_no_pipeline_stops_the_start() -> None:
    """A callable that gives something else is told at the start, not to the first client."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        yield {"a": letters}

    app = create_app(opened)
    with pytest.raises(TypeError, match=r"^pipeline must be"):
        async with app.router.lifespan_context(app):
            pass


@pytest.mark.asyncio
async def test_a_failed_opening_stops_the_start() -> None:
    """What the opener raises is not lost."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Pipeline]:
        raise OSError("no index")
        yield

    app = create_app(opened)
    with pytest.raises(OSError, match="no index"):
        async with app.router.lifespan_context(app):
            pass


@pytest.mark.asyncio
async def test_the_end_waits_for_arms_that_clean_up() -> None:
    """At the end of the server, arms get `grace` seconds to end what they do, also those left before."""
    ended: list[str] = []

    async def careful(query: str) -> Any:
        try:
            yield "a"
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            ended.append(query)

    app = create_app(Pipeline({"careful": careful}, grace=0))
    async with asking(app) as client:
        async with app.router.lifespan_context(app):
            answer = await client.get("/search", params={"q": "x", "timeout_ms": 10})
            assert answer.json()["outcome"] == "deadline"
        assert ended == ["x"]


@pytest.mark.asyncio
async def test_the_end_waits_no_longer_than_the_grace() -> None:
    """An arm that never ends is left behind."""
    let_go = asyncio.Event()

    async def stuck(_: str) -> Any:
        try:
            yield "a"
            await asyncio.Event().wait()
        finally:
            await let_go.wait()

    app = create_app(Pipeline({"stuck": stuck}, grace=0), grace=0.05)
    async with asking(app) as client:
        async with asyncio.timeout(10), app.router.lifespan_context(app):
            await client.get("/search", params={"q": "x", "timeout_ms": 10})
        let_go.set()


# --- below a path -----------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_an_application_can_be_mounted_below_a_path() -> None:
    """Everything works below it, `healthz` wants no token, and the description says where it is."""
    inner = create_app(letters(), token=TOKEN, title="Inner")
    app = Starlette(routes=[Mount("/inner", inner)])
    async with asking(app, auth=("anybody", TOKEN)) as client:
        assert (await client.get("/inner/search", params={"q": "abc"})).json()["final"]
        assert (
            events_in((await client.get("/inner/search/stream", params={"q": "a"})).text)[-1].kind == "done"
        )
        assert (await client.get("/inner/")).headers["content-type"].startswith("text/html")
        assert (await client.get("/inner/static/page.js")).status_code == 200
        assert (await client.get("/inner/page.json")).json()["title"] == "Inner"
        assert (await client.get("/inner/openapi.json")).json()["servers"] == [{"url": "/inner"}]
        assert (await client.get("/inner/healthz", auth=None)).status_code == 200
        for path in ("/inner/search?q=x", "/inner/metrics", "/inner/healthz/", "/inner/healthz/../metrics"):
            assert (await client.get(path, auth=None)).status_code == 401, path
        wrong = await client.get("/inner/search", params={"q": "x", "nothing": ""})
        assert (wrong.status_code, wrong.json()["parameter"]) == (400, "nothing")


@pytest.mark.asyncio
async def test_a_server_on_no_network_has_one_client() -> None:
    """Where there is no address of a client, as on a socket in a file, all are one."""
    app = create_app(letters())
    client = ByHand("/search?q=x", client=None)
    async with nothing_left():
        await app(client.scope, client.receive, client.send)
    assert client.status == 200
