"""What a client asks for: the parameters of a search, read strictly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import parse_qsl

from rrf_stream.web._limits import Limits
from rrf_stream.web._problems import Refused

__all__ = ["Asked", "Defaults"]

_PARAMETERS = ("q", "timeout_ms", "top_k", "arms")
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a search is when a client does not say.

    Attributes:
        timeout: Seconds.
        top_k: Hits.
        arms: The names of all arms there are.
    """

    timeout: float
    top_k: int
    arms: tuple[str, ...]

    @property
    def timeout_ms(self) -> int:
        """Milliseconds, as clients would ask for them."""
        return max(1, round(self.timeout * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One search as a client asks for it.

    Attributes:
        query: What to search for.
        timeout: Seconds from the start to the final snapshot.
        top_k: Hits at most.
        arms: The names of the arms to ask.
    """

    query: str
    timeout: float
    top_k: int
    arms: tuple[str, ...]

    @classmethod
    def read(cls, query_string: bytes, *, limits: Limits, defaults: Defaults) -> Asked:
        """Read the part of a URL behind its question mark.

        Raises:
            Refused: With status 400 and the name of the parameter that is wrong.
        """
        _check_size(query_string, limits=limits, defaults=defaults)
        given = _parameters(query_string)
        timeout_ms = _number("timeout_ms", given, most=limits.timeout_ms)
        top_k = _number("top_k", given, most=limits.top_k)
        return cls(
            query=_query(given, most=limits.query_length),
            timeout=defaults.timeout if timeout_ms is None else timeout_ms / 1000,
            top_k=defaults.top_k if top_k is None else top_k,
            arms=_arms(given, known=defaults.arms, most=limits.arms),
        )


def _wrong(parameter: str, detail: str) -> NoReturn:
    raise Refused(400, f"{parameter} {detail}", parameter=parameter)


def _check_size(query_string: bytes, *, limits: Limits, defaults: Defaults) -> None:
    """Refuse what no search needs before it is read, which takes time for each byte and each parameter."""
    characters = limits.query_length + sum(len(name) + 1 for name in defaults.arms)
    longest = 12 * characters + 1000  # four bytes of UTF-8 each, escaped; then names and numbers
    most = 2 * len(_PARAMETERS)  # a few too many can be named as what they are
    if len(query_string) > longest or query_string.count(b"&") >= most:
        raise Refused(400, f"the query string must have at most {longest} bytes and {most} parameters")


def _parameters(query_string: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise Refused(400, "the query string must be UTF-8, percent-encoded") from None
    given: dict[str, str] = {}
    for name, value in pairs:
        if name not in _PARAMETERS:
            _wrong(name[:100], f"is no parameter here; there are {', '.join(_PARAMETERS)}")
        if name in given:
            _wrong(name, "must be given once")
        given[name] = value
    return given


def _query(given: dict[str, str], *, most: int) -> str:
    query = given.get("q", "")
    if not query.strip():
        _wrong("q", "must be given, and not be blank")
    if len(query) > most:
        _wrong("q", f"must have at most {most} characters, not {len(query)}")
    return query


def _number(name: str, given: dict[str, str], *, most: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
        _wrong(name, f"must be a whole number from 1 to {most}")
    return int(text)


def _arms(given: dict[str, str], *, known: Sequence[str], most: int | None) -> tuple[str, ...]:
    text = given.get("arms")
    if text is None:
        return tuple(known[:most])
    names = text.split(",")
    there_are = f"there are {', '.join(known)}"
    for name in names:
        if name not in known:
            _wrong("arms", f"must be names of arms, with commas between them; {there_are}")
    if len(set(names)) < len(names):
        _wrong("arms", "must name each arm once")
    if most is not None and len(names) > most:
        _wrong("arms", f"must name at most {most}; {there_are}")
    return tuple(names)
