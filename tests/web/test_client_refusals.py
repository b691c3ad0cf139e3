"""What the client refuses, before it asks anybody."""

from __future__ import annotations

from typing import Any

import pytest

from rrf_stream.web.client import remote_arm, stream_search

URL = "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("url", "options", "error", "message"),
    [
        (None, {}, TypeError, "url must be an address like"),
        ("127.0.0.1:8000", {}, ValueError, "url must be an address like"),
        ("ftp://127.0.0.1", {}, ValueError, "not 'ftp://127.0.0.1'"),
        ("http://", {}, ValueError, "url must be"),
        ("http://127.0.0.1:port", {}, ValueError, "url must be"),
        ("http://a b", {}, ValueError, "url must be"),
        (f"{URL}/?q=1", {}, ValueError, "nothing but a path after it"),
        (URL, {"timeout": 0}, ValueError, "timeout must be a finite number of seconds above 0"),
        (URL, {"timeout": float("inf")}, ValueError, "timeout must be"),
        (URL, {"timeout": "1"}, TypeError, "timeout must be"),
        (URL, {"timeout": True}, TypeError, "timeout must be"),
        (URL, {"top_k": 0}, ValueError, "top_k must be a whole number of at least 1"),
        (URL, {"top_k": 1.5}, TypeError, "top_k must be"),
        (URL, {"arms": "dense"}, TypeError, "arms must be some names of arms"),
        (URL, {"arms": [1]}, TypeError, "arms must be"),
        (URL, {"arms": ["a,b"]}, ValueError, "not 'a,b'"),
        (URL, {"arms": []}, ValueError, "None is for all of them"),
        (URL, {"token": "a\nb"}, ValueError, "token must be of printable ASCII characters"),
        (URL, {"token": ""}, ValueError, "token must be"),
        (URL, {"token": b"a"}, TypeError, "token must be text"),
        (URL, {"client": URL}, TypeError, "client must be an httpx.AsyncClient"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    url: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Both functions name the parameter, and what is wanted, before anything is read."""
    with pytest.raises(error, match=message):
        stream_search(url, "q", **options)
    with pytest.raises(error, match=message):
        remote_arm(url, **options)


def test_the_query_is_text() -> None:
    """A server can be asked nothing else."""
    query: Any = {"text": "q"}
    with pytest.raises(TypeError, match="q must be text"):
        stream_search(URL, query)


def test_degraded_is_one_of_two_words() -> None:
    """Anything else is refused by name."""
    word: Any = "ignore"
    with pytest.raises(ValueError, match="degraded must be 'fail' or 'accept', not 'ignore'"):
        remote_arm(URL, degraded=word)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2",
        "http://u:hunter2@\u2100.example",
        "http://u:hunter2@host:port",
        "http://u:hunter2@[::1",
        "http://u:hunter2@",
        "http://u:12?hunter2@host",
        "ftp://u:hunter2@host",
        "u:hunter2@host",
        b"http://u:hunter2@host",
    ],
)
def test_an_address_that_is_refused_shows_no_password(url: Any) -> None:
    """Neither the error nor what it came of tells it, whatever is wrong with the address."""
    with pytest.raises((ValueError, TypeError), match="url must be an address") as caught:
        stream_search(url, "q")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_token_that_is_refused_is_not_shown() -> None:
    """What is wrong with it is said without it."""
    with pytest.raises(ValueError, match="token") as caught:
        remote_arm(URL, token="sécret")  # noqa: S106
    assert "cret" not in str(caught.value)
