"""What is asked of a search server, checked before anything is sent."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

__all__ = ["Question"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Whom to ask, and how; the query is all that is missing.

    Attributes:
        url: Where the stream of snapshots is.
        options: Parameters beside the query.
        headers: Headers of the request.
        shown: The address that was given, as errors show it: without a password.
        is_local: Whether that is this machine.
    """

    url: str = field(repr=False)
    options: dict[str, str]
    headers: dict[str, str] = field(repr=False)
    shown: str
    is_local: bool

    @classmethod
    def of(
        cls,
        url: str,
        *,
        timeout: float | None,
        top_k: int | None,
        arms: Iterable[str] | None,
        token: str | None,
    ) -> Question:
        """Check what is to be asked; errors as for `stream_search`."""
        base, shown, host = _checked_url(url)
        options: dict[str, str] = {}
        if timeout is not None:
            options["timeout_ms"] = str(_milliseconds(timeout))
        if top_k is not None:
            if not isinstance(top_k, int) or isinstance(top_k, bool):
                raise TypeError(f"top_k must be a whole number of at least 1, or None, not {top_k!r}")
            if top_k < 1:
                raise ValueError(f"top_k must be a whole number of at least 1, or None, not {top_k!r}")
            options["top_k"] = str(top_k)
        if arms is not None:
            options["arms"] = _checked_arms(arms)
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
        if token is not None:
            if not isinstance(token, str):
                raise TypeError("token must be text, or None")  # and is not shown, whatever it is
            if not (token and token.isascii() and token.isprintable()):
                raise ValueError("token must be of printable ASCII characters")
            headers["Authorization"] = f"Bearer {token}"
        return cls(
            url=f"{base}/search/stream",
            options=options,
            headers=headers,
            shown=shown,
            is_local=_is_local(host),
        )


def _checked_url(url: str) -> tuple[str, str, str]:
    """Return an address without a slash at its end, the same without a password, and its host."""
    wanted = "url must be an address like 'http://127.0.0.1:8000'"
    if not isinstance(url, str):
        raise TypeError(f"{wanted}, not of type {type(url).__name__}")
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        raise ValueError(wanted) from None  # it quotes the address, perhaps with a password
    if not parts.netloc:
        raise ValueError(wanted)  # any part of it may be one
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    clean = url.isprintable() and not any(map(str.isspace, url))
    if parts.scheme not in {"http", "https"} or not host or not clean:
        raise ValueError(f"{wanted}, not {shown!r}")
    if parts.query or parts.fragment:
        raise ValueError(f"{wanted}, with nothing but a path after it")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", shown, host


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _milliseconds(timeout: float) -> int:
    wanted = "timeout must be a finite number of seconds above 0, or None"
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise TypeError(f"{wanted}, not {timeout!r}")
    if not 0 < timeout < math.inf:
        raise ValueError(f"{wanted}, not {timeout!r}")
    return max(1, round(timeout * 1000))


def _checked_arms(arms: Iterable[str]) -> str:
    wanted = "arms must be some names of arms, without commas"
    if isinstance(arms, str):
        raise TypeError(f"{wanted}, not {arms!r}")
    names = [*arms]
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{wanted}, not {name!r}")
        if "," in name:
            raise ValueError(f"{wanted}, not {name!r}: the server could not tell it from two")
    if not names:
        raise ValueError(f"{wanted}; None is for all of them")
    return ",".join(names)
