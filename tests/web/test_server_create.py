"""Making an application: what is refused at once, and where it may be put."""

from __future__ import annotations

import math
import socket
from typing import TYPE_CHECKING, Any

import pytest
from server_kit import ByHand, Watched, asking, events_in, letters, nothing_left
from starlette.applications import Starlette
from starlette.routing import Mount

from rrf_stream import Pipeline
from rrf_stream.web import Limits, create_app, serve

if TYPE_CHECKING:
    pass

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
    ("ping", 30.5),
    ("ping", math.inf),
    ("stall", 0.0),
    ("stall", math.inf),
    ("grace", -0.1),
    ("grace", math.nan),
    ("grace", math.inf),
    ("pipeline", Pipeline({})),
    ("pipeline", Pipeline({"a": Watched().source, "b,c": Watched().source})),
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
    (ValueError, "grace", math.inf),
    (TypeError, "grace", None),
    (TypeError, "behind_proxy", "yes"),
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


@pytest.mark.asyncio
async def test_no_path_leads_to_another() -> None:
    """A slash too many is 404, and no redirect to an address that the client has made up."""
    async with asking(create_app(letters())) as client:
        answer = await client.get("/search/?q=x", headers={"Host": "other.example"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert "location" not in answer.headers
