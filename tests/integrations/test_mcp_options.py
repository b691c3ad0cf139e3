"""What a server cannot be made of, and how it may be called over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_kit import Asked

from rrf_stream import Pipeline
from rrf_stream.integrations.mcp import create_server
from rrf_stream.integrations.mcp._http import hosts_of

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - nobody listens there


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"timeout": 0}, ValueError, "timeout must be more than 0 seconds and finite, not 0"),
        ({"timeout": 31.0}, ValueError, "timeout must be at most max_timeout, 30.0, not 31.0"),
        ({"max_timeout": float("nan")}, ValueError, "max_timeout must be more than 0 seconds"),
        ({"progress_interval": True}, TypeError, "progress_interval must be a number of seconds"),
        ({"max_top_k": 0}, ValueError, "max_top_k must be at least 1, not 0"),
        ({"max_calls": 0}, ValueError, "max_calls must be at least 1, not 0"),
        ({"max_chars": 1_999}, ValueError, "max_chars must be at least 2,000, not 1999"),
        ({"max_fetch_chars": 2.5e4}, TypeError, "max_fetch_chars must be a whole number, not 25000.0"),
        ({"fetch": "a"}, TypeError, "fetch must be callable, not 'a'"),
        ({"lifespan": 1}, TypeError, "lifespan must be callable, not 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception], said: str) -> None:
    """When the server is made, not in the first call."""
    with pytest.raises(error, match=said):
        create_server(Pipeline({"lexical": Asked("a")}), **options)


def test_only_a_pipeline_can_be_served() -> None:
    """Arms alone know no query."""
    wrong: Any = {"lexical": ["a"]}
    with pytest.raises(TypeError, match="pipeline must be a Pipeline"):
        create_server(wrong)


@pytest.mark.parametrize(
    ("host", "allowed", "names"),
    [
        ("127.0.0.1", [], ["127.0.0.1", "localhost", "[::1]"]),
        ("127.0.0.1", ["[::1]", "MyBox.local"], ["127.0.0.1", "[::1]", "mybox.local", "localhost"]),
        ("::1", [], ["[::1]", "127.0.0.1", "localhost"]),
        ("10.0.0.7", ["search.lan"], ["10.0.0.7", "search.lan", "127.0.0.1", "localhost", "[::1]"]),
        (EVERY_ADDRESS, ["search.lan"], ["search.lan", "127.0.0.1", "localhost", "[::1]"]),
    ],
)
def test_a_server_is_called_by_known_names(host: str, allowed: list[str], names: list[str]) -> None:
    """By its address, by those that are allowed, and by those of the loopback."""
    assert hosts_of(host, allowed) == names


@pytest.mark.parametrize("name", ["search.example:8443", "http://x", "*", "", "a b", "[search.example]"])
def test_what_is_no_name_is_refused(name: str) -> None:
    """No request would be made by it, so that a server would refuse all its clients without a word."""
    with pytest.raises(ValueError, match="without scheme and port, not"):
        hosts_of("127.0.0.1", [name])


@pytest.mark.parametrize("host", ["", EVERY_ADDRESS, "::"])
def test_every_address_needs_a_name(host: str) -> None:
    """Else no request could be told from one that a foreign web page makes."""
    with pytest.raises(ValueError, match="allowed_hosts must name this machine as clients do"):
        hosts_of(host, [])


def test_names_are_several() -> None:
    """One text would be taken for its letters."""
    with pytest.raises(TypeError, match="allowed_hosts must be several names"):
        hosts_of("127.0.0.1", "search.lan")
