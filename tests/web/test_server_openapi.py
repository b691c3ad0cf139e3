"""The description that a server gives of itself is what it does, for requests that fit it and for others."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from server_kit import asking, letters

from rrf_stream import Arm, Pipeline
from rrf_stream.web import Limits, create_app

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of what it is built on
    import schemathesis
    from schemathesis import GenerationMode

if TYPE_CHECKING:
    from starlette.applications import Starlette

TOKEN = "a token of some length"  # noqa: S105 - for the test
EXAMPLES = 15


async def failing(_: str) -> list[str]:
    raise ConnectionError


async def quick(query: str) -> list[str]:
    return list(dict.fromkeys(query))


APPS: dict[str, Starlette] = {
    "open": create_app(letters()),
    "with a token": create_app(letters(), token=TOKEN, hosts=["testserver", "localhost"]),
    "with limits": create_app(
        Pipeline({"a": quick, "b": quick, "\N{SNOWMAN} c": quick}, timeout=0.0),
        limits=Limits(query_length=7, top_k=3, timeout=0.05, arms=2),
    ),
    "degraded": create_app(Pipeline({"good": quick, "broken": failing}, bounds="ranks")),
    "broken": create_app(Pipeline([Arm("good", quick), Arm("broken", failing, required=True)], bounds="off")),
}


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("name", APPS)
def test_the_server_does_what_it_describes(name: str, mode: GenerationMode) -> None:
    """Every check of schemathesis holds: statuses, types, headers, schemas, what is refused and what not."""
    key = {"Authorization": f"Bearer {TOKEN}"} if name == "with a token" else {}
    schema: Any = schemathesis.openapi.from_asgi("/openapi.json", APPS[name], headers=key)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert {operation.path for operation in operations} >= {
        "/search",
        "/search/stream",
        "/healthz",
        "/readyz",
    }
    # A search whose required arm failed is a 502, as described: no mistake, as one of the checks has it.
    excluded = [schemathesis.checks.not_a_server_error] if name == "broken" else []
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not operation.query:
            continue

        @settings(
            deadline=None,
            max_examples=EXAMPLES,
            database=None,
            derandomize=True,
            suppress_health_check=[*HealthCheck],
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case: Any) -> None:
            case.call_and_validate(headers=key, excluded_checks=excluded)

        holds()


@pytest.mark.asyncio
async def test_the_description_follows_the_server() -> None:
    """Limits, names of arms, defaults and the title are in it."""
    app = create_app(
        letters(top_k=7, timeout=0.5),
        title="Letters",
        limits=Limits(query_length=9, top_k=8, timeout=1.001, arms=1),
    )
    async with asking(app) as client:
        described = (await client.get("/openapi.json")).json()
        facts = (await client.get("/page.json")).json()
    assert described["info"]["title"] == facts["title"] == "Letters"
    parameters = {one["name"]: one for one in described["paths"]["/search"]["get"]["parameters"]}
    schemas = {name: one["schema"] for name, one in parameters.items()}
    assert schemas["q"]["maxLength"] == facts["query_length"] == 9
    assert schemas["top_k"] == {"type": "integer", "minimum": 1, "maximum": 8, "default": 7}
    assert facts["top_k"] == {"default": 7, "most": 8}
    assert schemas["timeout_ms"] == {"type": "integer", "minimum": 1, "maximum": 1001, "default": 500}
    assert facts["timeout_ms"] == {"default": 500, "most": 1001}
    assert (
        schemas["arms"]["items"]["enum"]
        == [arm["name"] for arm in facts["arms"]]
        == ["forwards", "backwards"]
    )
    assert (schemas["arms"]["maxItems"], parameters["arms"]["required"]) == (1, False)
    assert parameters["arms"]["description"].endswith("without it the first 1.")
    assert "security" not in described


@pytest.mark.asyncio
async def test_only_a_server_with_a_token_describes_one() -> None:
    """Then each operation but `/healthz` may be refused, and says so."""
    async with asking(create_app(letters(), token=TOKEN), auth=("x", TOKEN)) as client:
        described = (await client.get("/openapi.json")).json()
    assert described["security"] == [{"bearer": []}, {"basic": []}]
    wanting = {path for path, one in described["paths"].items() if "401" in one["get"]["responses"]}
    assert wanting == described["paths"].keys() - {"/healthz"}
