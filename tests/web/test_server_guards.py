"""Safe by default: tokens, names of the server, and headers of every answer."""

from __future__ import annotations

import asyncio
import base64
import hmac
import re
from typing import TYPE_CHECKING, Any, NoReturn

import httpx
import pytest
from server_kit import Watched, asking, letters, serving

from rrf_stream import Pipeline
from rrf_stream.web import Limits, create_app

if TYPE_CHECKING:
    from rrf_stream import FusedHit

pytestmark = pytest.mark.asyncio

TOKEN = "tr\u00e8s secret: 0123456789"  # noqa: S105 - for the test
PATHS = ["/", "/search?q=x", "/search/stream?q=x", "/page.json", "/readyz", "/metrics", "/openapi.json"]


def basic(user: str, password: str, encoding: str = "utf-8") -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode(encoding)).decode()}"


def says(value: str) -> Any:
    """Return the header with a value in UTF-8, which the client library would refuse as text."""
    return {"Authorization": value.encode()}


# --- the token --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PATHS, "/static/page.js", "/nowhere"])
async def test_everything_but_healthz_wants_the_token(path: str) -> None:
    """Without it the answer is 401, a problem that offers both ways; no arm is asked."""
    arm = Watched("a")
    async with asking(create_app(Pipeline({"arm": arm.source}), token=TOKEN)) as client:
        answer = await client.get(path)
        assert answer.status_code == 401
        assert answer.json()["status"] == 401
        assert answer.headers["content-type"] == "application/problem+json"
        assert [line.partition(" ")[0] for line in answer.headers.get_list("www-authenticate")] == [
            "Bearer",
            "Basic",
        ]
        assert TOKEN not in answer.text
        assert (await client.get("/healthz")).status_code == 200
        allowed = await client.get(path, headers=says(f"Bearer {TOKEN}"))
        assert allowed.status_code == (404 if path == "/nowhere" else 200)
    assert len(arm.asked) == ("search" in path)


@pytest.mark.parametrize(
    "given",
    [
        f"Bearer {TOKEN}",
        f"bearer  {TOKEN} ",
        basic("", TOKEN),
        basic("anybody", TOKEN),
        basic("na\u00efve", TOKEN),
        basic("x", TOKEN).replace("Basic", "BASIC"),
    ],
)
async def test_the_token_comes_as_bearer_or_as_a_password(given: str) -> None:
    """Both schemes are known, in any case, with any user."""
    async with asking(create_app(letters(), token=TOKEN)) as client:
        answer = await client.get("/page.json", headers=says(given))
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Digest {TOKEN}",
        "Basic",
        "Basic ====",
        "Basic \u00e9",
        f"Basic {TOKEN}",
        basic(TOKEN, ""),
        basic("x", f"{TOKEN} "),
        basic("x", TOKEN, "latin-1"),
        f"Basic {base64.b64encode(TOKEN.encode()).decode()}x",
    ],
)
async def test_what_is_not_the_token_is_refused(given: str) -> None:
    """Parts of it, other schemes, and what is no base64 are 401 and never a fault of the server."""
    async with asking(create_app(letters(), token=TOKEN)) as client:
        answer = await client.get("/page.json", headers=says(given))
    assert answer.status_code == 401


async def test_two_tokens_are_none() -> None:
    """A request that says twice who it is may be seen differently by a proxy before it, and is refused."""
    right: Any = ("Authorization", f"Bearer {TOKEN}".encode())
    async with asking(create_app(letters(), token=TOKEN)) as client:
        for headers in ([right, right], [right, ("Authorization", b"Bearer no")]):
            assert (await client.get("/page.json", headers=headers)).status_code == 401


async def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is the one that the standard library has for it, over the bytes of both."""
    compared: list[Any] = []

    def digests(one: bytes, other: bytes) -> bool:
        compared.append({one, other})
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", digests)
    async with asking(create_app(letters(), token=TOKEN)) as client:
        await client.get("/page.json", headers={"Authorization": "Bearer no"})
        await client.get("/page.json", headers={"Authorization": basic("x", TOKEN)})
    assert compared == [{b"no", TOKEN.encode()}, {TOKEN.encode()}]


async def test_the_token_is_wanted_before_there_is_room() -> None:
    """Who has no token takes no place, and is told nothing of how busy the server is."""
    arm = Watched("a", wait=True)
    app = create_app(Pipeline({"arm": arm.source}), token=TOKEN, limits=Limits(searches=1))
    async with asking(app) as client:
        searching = asyncio.create_task(
            client.get("/search?q=x&timeout_ms=300", headers={"Authorization": basic("", TOKEN)})
        )
        await arm.idle.wait()
        assert (await client.get("/search", params={"q": "x"})).status_code == 401
        assert (await client.get("/search", params={"q": ""})).status_code == 401
        assert (await searching).status_code == 200


# --- names of the server ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("search.example", 200),
        ("SEARCH.example:8000", 200),
        ("[::1]:80", 200),
        ("search.example:", 200),
        ("other.example", 421),
        ("search.example.evil.example", 421),
        ("evil-search.example", 421),
        ("search.example:80:80", 421),
        ("search.example@evil.example", 421),
        ("", 421),
    ],
)
async def test_the_server_answers_under_its_names_only(host: str, status: int) -> None:
    """Names count whole, without their port and in any case; only `/healthz` is for probes by address."""
    app = create_app(letters(), hosts=["Search.Example", "[::1]"])
    async with asking(app) as client:
        answer = await client.get("/search", params={"q": "x"}, headers={"Host": host})
        assert (await client.get("/healthz", headers={"Host": host})).status_code == 200
    assert answer.status_code == status
    assert status == 200 or answer.json()["status"] == status
    assert "content-security-policy" in answer.headers


async def test_without_names_any_will_do() -> None:
    """A server that was told of no name answers under each."""
    async with asking(create_app(letters())) as client:
        assert (await client.get("/page.json", headers={"Host": "anything"})).status_code == 200


# --- every answer -----------------------------------------------------------------------------------------


async def test_every_answer_has_a_strict_policy() -> None:
    """Also problems, and those of the guards and of a server that broke: nothing from outside or inline."""

    def present(_: FusedHit) -> NoReturn:
        raise LookupError

    app = create_app(letters(), token=TOKEN, hosts=["server"], present=present)
    key = says(f"Bearer {TOKEN}")
    seen = set()
    async with asking(app) as client:
        answers = [await client.get(path, headers=key) for path in [*PATHS, "/static/page.js", "/nowhere"]]
        answers += [await client.get("/"), await client.get("/", headers={"Host": "other"})]
        answers += [await client.post("/search", headers=key), await client.get("/search?q=", headers=key)]
        answers += [await client.get("/search/stream?q=x", headers=key | {"Last-Event-ID": "1"})]
    for answer in answers:
        seen.add(answer.status_code)
        policy = dict(
            part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert {*policy.values()} == {"'none'", "'self'"}
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] in {"no-cache", "no-store"}
        assert len(answer.headers.get_list("content-security-policy")) == 1
    assert seen == {200, 204, 400, 401, 404, 405, 421, 500}


async def test_the_page_has_nothing_inline_and_nothing_from_outside() -> None:
    """It has no inline script, style or handler, no address of another host, and all it links to is there."""
    async with asking(create_app(letters())) as client:
        page = (await client.get("/")).text
        assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
        assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []
        linked = re.findall(r"""(?:src|href)=["']([^"'#]+)""", page)
        assert linked
        for link in linked:
            assert not re.match(r"\w+:|//", link), link
            answer = await client.get(f"/{link.lstrip('./')}")
            assert answer.status_code == 200, link
            outside = re.findall(r"(?:url\(|import\(?\s*|from\s+)[\"']?(?:https?:)?//[^\"')\s]+", answer.text)
            assert outside == [], link


async def test_nothing_but_the_page_is_given_of_the_files() -> None:
    """Paths that lead out of the folder are answered with 404; over a socket, as clients rewrite them."""
    async with serving(create_app(letters())) as port:
        out = [f"/static/{way}_app.py" for way in ("../", "%2e%2e/", "..%2f", "%2e%2e%5c")]
        for path in [
            *out,
            "/static/",
            "/static",
            "/static//etc/passwd",
            "/static/%00",
            "/static/" + "x" * 5000,
        ]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            assert answer.split(b" ")[1] in {b"404", b"307"}, path
            assert b"create_app" not in answer


async def test_a_request_that_is_no_http_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """A blank in the target, NUL in a header or a query without an end is 400, and searched by nobody."""
    arm = Watched("a")
    async with serving(create_app(Pipeline({"arm": arm.source}))) as port:
        for head in (
            b"GET /search?q=a b HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /search?q=x HTTP/1.1\r\nX: \x00\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head)
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            writer.close()
            await writer.wait_closed()
        async with httpx.AsyncClient(trust_env=False) as client:
            long = await client.get(f"http://127.0.0.1:{port}/search", params={"q": "x" * 60_000})
    assert long.status_code == 400
    assert "query string" in long.json()["detail"]
    assert not arm.asked
    assert "Traceback" not in caplog.text
