"""Parameters of a search: what is read, and that what is wrong is refused by its name, and asks no arm."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_kit import ByHand, Watched, asking

from rrf_stream import Pipeline
from rrf_stream.web import Limits, create_app
from rrf_stream.web._asked import Asked, Defaults
from rrf_stream.web._problems import Refused

LIMITS = Limits(query_length=20, top_k=50, timeout=2.0, arms=2)
DEFAULTS = Defaults(timeout=1.0, top_k=10, arms=("a", "b", "\N{SNOWMAN}"))

WRONG: dict[str, tuple[str, str]] = {
    "nothing": ("", "q"),
    "no query": ("arms=a", "q"),
    "an empty query": ("q=&arms=a", "q"),
    "a blank query": ("q=%20%09%0A&arms=a", "q"),
    "a query without a value": ("q&arms=a", "q"),
    "a query that is too long": (f"q={'x' * 21}&arms=a", "q"),
    "two queries": ("q=x&q=y&arms=a", "q"),
    "no number": ("q=x&arms=a&top_k=many", "top_k"),
    "no hits": ("q=x&arms=a&top_k=0", "top_k"),
    "fewer than none": ("q=x&arms=a&top_k=-1", "top_k"),
    "too many hits": ("q=x&arms=a&top_k=51", "top_k"),
    "a part of a hit": ("q=x&arms=a&top_k=1.5", "top_k"),
    "a power": ("q=x&arms=a&top_k=1e1", "top_k"),
    "a number with underscores": ("q=x&arms=a&top_k=1_0", "top_k"),
    "a number with blanks": ("q=x&arms=a&top_k=%201", "top_k"),
    "a number with a sign": ("q=x&arms=a&top_k=%2B1", "top_k"),
    "a number of another script": (f"q=x&arms=a&top_k={quote('٣')}", "top_k"),
    "a number without an end": (f"q=x&arms=a&top_k={'9' * 500}", "top_k"),
    "an empty number": ("q=x&arms=a&top_k=", "top_k"),
    "a flag": ("q=x&arms=a&top_k=true", "top_k"),
    "no time": ("q=x&arms=a&timeout_ms=0", "timeout_ms"),
    "too much time": ("q=x&arms=a&timeout_ms=2001", "timeout_ms"),
    "all time": ("q=x&arms=a&timeout_ms=inf", "timeout_ms"),
    "two times": ("q=x&arms=a&timeout_ms=1&timeout_ms=1", "timeout_ms"),
    "no arm": ("q=x&arms=", "arms"),
    "an unknown arm": ("q=x&arms=c", "arms"),
    "a known and an unknown arm": ("q=x&arms=a,c", "arms"),
    "an arm with a blank": ("q=x&arms=a,%20b", "arms"),
    "an arm in capitals": ("q=x&arms=A", "arms"),
    "an arm twice": ("q=x&arms=a,a", "arms"),
    "too many arms": ("q=x&arms=a,b,%E2%98%83", "arms"),
    "a parameter that there is not": ("q=x&arms=a&limit=3", "limit"),
    "a parameter in capitals": ("Q=x&arms=a", "Q"),
    "a parameter without a name": ("q=x&arms=a&=3", ""),
    "a parameter as of lists": ("q=x&arms[]=a", "arms[]"),
    "an option of the pipeline": ("q=x&arms=a&until=settled", "until"),
}


@pytest.mark.parametrize(("query_string", "parameter"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_refused_by_its_name(query_string: str, parameter: str) -> None:
    """The problem has status 400, and the name of the parameter for a program and in the words."""
    with pytest.raises(Refused) as refused:
        Asked.read(query_string.encode(), limits=LIMITS, defaults=DEFAULTS)
    body = refused.value.body
    assert (refused.value.status, body["status"], body["parameter"]) == (400, 400, parameter)
    assert parameter in body["detail"]


@pytest.mark.parametrize(
    "query_string",
    [b"q=%FF&arms=a", b"q=%ED%A0%80&arms=a", b"q=x&arms=a&%C3%28=1", b"q=\xff&arms=a", b"q=\xe2\x98\x83"],
)
def test_what_is_no_text_is_refused(query_string: bytes) -> None:
    """Escapes that are not UTF-8, surrogates, and bytes that are not escaped at all are no query string."""
    with pytest.raises(Refused, match="UTF-8") as refused:
        Asked.read(query_string, limits=LIMITS, defaults=DEFAULTS)
    assert refused.value.status == 400


@pytest.mark.parametrize("query_string", ["q=x" + "&a" * 20, f"q=x&{'a' * 5000}", f"q={'%41' * 5000}"])
def test_what_no_search_needs_is_not_read(query_string: str) -> None:
    """A query string that is longer than the limits allow, or has many parameters, is refused unread."""
    with pytest.raises(Refused, match=r"at most [0-9]+ bytes and [0-9]+ parameters") as refused:
        Asked.read(query_string.encode(), limits=LIMITS, defaults=DEFAULTS)
    assert refused.value.status == 400
    assert "parameter" not in refused.value.body


def test_the_longest_search_is_read() -> None:
    """The bound of the whole leaves room for all that the limits allow, with every character escaped."""
    escaped = "".join(f"%{byte:02X}" for byte in ("\N{GRINNING FACE}" * 20).encode())
    names = "".join(f"%{byte:02X}" for byte in "\N{SNOWMAN},a".encode())
    text = f"q={escaped}&timeout_ms=%32%30%30%30&top_k=%35%30&arms={names}&"
    asked = Asked.read(text.encode(), limits=LIMITS, defaults=DEFAULTS)
    assert (asked.query, asked.arms) == ("\N{GRINNING FACE}" * 20, ("\N{SNOWMAN}", "a"))


def test_what_is_right_is_read() -> None:
    """Limits themselves are allowed, text is decoded, and what is not given has its default."""
    text = f"q={quote('+ü ' * 6)}{quote('&=')}&timeout_ms=2000&top_k=50&arms=%E2%98%83,a"
    asked = Asked.read(text.encode(), limits=LIMITS, defaults=DEFAULTS)
    assert asked == Asked(query="+ü " * 6 + "&=", timeout=2.0, top_k=50, arms=("\N{SNOWMAN}", "a"))
    asked = Asked.read(b"q=a+b&arms=b", limits=LIMITS, defaults=DEFAULTS)
    assert asked == Asked(query="a b", timeout=1.0, top_k=10, arms=("b",))
    asked = Asked.read(b"q=x", limits=LIMITS, defaults=DEFAULTS)
    assert asked.arms == ("a", "b"), "no more than two may be asked"
    asked = Asked.read(b"q=%00&", limits=Limits(), defaults=DEFAULTS)
    assert (asked.query, asked.arms) == ("\x00", DEFAULTS.arms)


@pytest.mark.parametrize("timeout", [0.001, 0.07, 0.29, 1.001, 4.35, 8.2, 16.1])
def test_the_longest_timeout_is_allowed(timeout: float) -> None:
    """A limit of so many milliseconds can be asked for to the last one, whatever fractions make of it."""
    most = round(timeout * 1000)
    limits = Limits(timeout=timeout)
    asked = Asked.read(f"q=x&timeout_ms={most}".encode(), limits=limits, defaults=DEFAULTS)
    assert asked.timeout == most / 1000
    with pytest.raises(Refused, match=f"from 1 to {most}$"):
        Asked.read(f"q=x&timeout_ms={most + 1}".encode(), limits=limits, defaults=DEFAULTS)


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: quote(text, safe="=&%,").encode()))
def test_any_bytes_are_read_or_refused(query_string: bytes) -> None:
    """There is no query string that breaks the reader, and nothing gets past the limits."""
    with suppress(Refused):
        asked = Asked.read(query_string, limits=LIMITS, defaults=DEFAULTS)
        assert 0 < len(asked.query) <= 20
        assert 0 < asked.timeout <= 2
        assert 1 <= asked.top_k <= 50
        assert 1 <= len(asked.arms) <= 2
        assert {*asked.arms} <= {*DEFAULTS.arms}


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/search", "/search/stream"])
async def test_a_refusal_is_a_problem_and_asks_no_arm(path: str) -> None:
    """The answer is RFC 9457 JSON, of the type it says it is, and nobody was searched for it."""
    arms = {name: Watched("x") for name in "ab"}
    app = create_app(Pipeline({name: arm.source for name, arm in arms.items()}), limits=LIMITS)
    async with asking(app) as client:
        for query_string, parameter in WRONG.values():
            if "%E2" in query_string:
                continue  # this server has two arms
            answer = await client.get(f"{path}?{query_string}")
            assert answer.status_code == 400, query_string
            assert answer.headers["content-type"] == "application/problem+json"
            problem: dict[str, Any] = answer.json()
            assert problem["type"] == "about:blank"
            assert (problem["title"], problem["status"]) == ("Bad Request", 400)
            assert problem["parameter"] == parameter
    assert not arms["a"].asked + arms["b"].asked


@pytest.mark.asyncio
async def test_bytes_that_no_client_library_sends_are_refused() -> None:
    """A query string of raw bytes is refused with 400, as is one of thousands of parameters."""
    arm = Watched("x")
    app = create_app(Pipeline({"a": arm.source}))
    for query in ("q=\xff\xfe", "q=x" + "&a" * 20_000, "q=" + "x" * 100_000, "%00=%00", "q=%", "q=%zz%1"):
        client = ByHand(f"/search?{query}")
        async with asking(app):
            await app(client.scope, client.receive, client.send)
        assert client.status == (200 if query in {"q=%", "q=%zz%1"} else 400), query[:20]
        assert len(client.body) < 2000
    assert arm.asked == ["%", "%zz%1"]
