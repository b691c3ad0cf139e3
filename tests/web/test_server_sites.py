"""Other sites: whose pages may read the answers, and that no other starts a search."""

from __future__ import annotations

import pytest
from server_kit import Watched, asking, letters

from rrf_stream import Pipeline
from rrf_stream.web import create_app

pytestmark = pytest.mark.asyncio

TOKEN = "a token of some length"  # noqa: S105 - for the test
PATHS = ["/", "/search?q=x", "/search/stream?q=x", "/page.json", "/readyz", "/metrics", "/openapi.json"]


# --- reading ----------------------------------------------------------------------------------------------


async def test_other_origins_read_nothing_unless_they_are_named() -> None:
    """There is no header of CORS without `cors_origins`, and preflights are refused."""
    origin = {"Origin": "https://page.example"}
    async with asking(create_app(letters())) as client:
        for path in [*PATHS, "/nowhere"]:
            answer = await client.get(path, headers=origin)
            assert not [name for name in answer.headers if name.startswith("access-control")]
        ahead = await client.options("/search", headers=origin | {"Access-Control-Request-Method": "GET"})
        assert ahead.status_code == 405


async def test_origins_that_are_named_may_read() -> None:
    """They, whole, and no other; preflights need no token, answers do, and problems can be read too."""
    app = create_app(letters(), cors_origins=["https://page.example"], token=TOKEN)
    key = {"Authorization": f"Bearer {TOKEN}"}
    async with asking(app) as client:
        origin = {"Origin": "https://page.example"}
        ahead = await client.options(
            "/search/stream",
            headers=origin
            | {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization"},
        )
        assert ahead.status_code == 200
        for path, headers, status in [
            ("/search?q=x", key, 200),
            ("/search?q=", key, 400),
            ("/search?q=x", {}, 401),
        ]:
            answer = await client.get(path, headers=origin | headers)
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == "https://page.example"
            assert "access-control-allow-credentials" not in answer.headers
        for other in ("https://page.exampl", "https://page.example.evil", "http://page.example", "null"):
            answer = await client.get("/search?q=x", headers={"Origin": other, **key})
            assert "access-control-allow-origin" not in answer.headers


# --- searching --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/search", "/search/stream"])
async def test_pages_of_other_sites_start_no_search(path: str) -> None:
    """A browser says where a request comes from; from another site it is 403, and asks no arm."""
    arm = Watched("a")
    async with asking(create_app(Pipeline({"arm": arm.source}))) as client:
        for origin in ({}, {"Origin": "https://page.example"}):
            headers = origin | {"Sec-Fetch-Site": "cross-site"}
            answer = await client.get(path, params={"q": "x"}, headers=headers)
            assert answer.status_code == answer.json()["status"] == 403
        assert not arm.asked
        assert (await client.get("/?q=x", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 200
        for site in ("same-origin", "same-site", "none"):
            headers = {"Sec-Fetch-Site": site}
            assert (await client.get(path, params={"q": "x"}, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("allowed", "origin", "status"),
    [
        ("https://page.example", "https://page.example", 200),
        ("https://page.example", "https://other.example", 403),
        ("https://page.example", None, 403),
        ("*", "https://other.example", 200),
        ("*", None, 200),
    ],
)
async def test_pages_that_may_read_may_search(allowed: str, origin: str | None, status: int) -> None:
    """Origins in `cors_origins` are let in from other sites; what names no origin is none of them."""
    async with asking(create_app(letters(), cors_origins=[allowed])) as client:
        headers = {"Sec-Fetch-Site": "cross-site"} | ({} if origin is None else {"Origin": origin})
        assert (await client.get("/search?q=x", headers=headers)).status_code == status
