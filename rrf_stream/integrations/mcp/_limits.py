"""What a call may ask for, and the words that refuse what it may not."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Limits", "Places", "RefusedError"]

_LEAST_CHARS = 2_000  # room for what must be said, whatever documents hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a server, all of them checked; `create_server` says what each means.

    Raises:
        ValueError: A number is out of its range.
        TypeError: Something is no number.
    """

    timeout: float
    max_timeout: float
    max_top_k: int
    max_query_chars: int
    max_chars: int
    max_fetch_chars: int
    max_calls: int
    progress_interval: float

    def __post_init__(self) -> None:
        for name in ("max_timeout", "timeout", "progress_interval"):
            _check_seconds(name, getattr(self, name))
        if self.timeout > self.max_timeout:
            raise ValueError(
                f"timeout must be at most max_timeout, {self.max_timeout!r}, not {self.timeout!r}"
            )
        for name in ("max_top_k", "max_query_chars", "max_calls"):
            _check_count(name, getattr(self, name), least=1)
        for name in ("max_chars", "max_fetch_chars"):
            _check_count(name, getattr(self, name), least=_LEAST_CHARS)

    @property
    def default_ms(self) -> int:
        """Milliseconds that a search has if the call does not say."""
        return round(self.timeout * 1000)

    @property
    def most_ms(self) -> int:
        """Milliseconds that a call can have at most."""
        return round(self.max_timeout * 1000)

    def budget(self, timeout_ms: int | None) -> float:
        """Return the seconds that a call has."""
        return self.timeout if timeout_ms is None else min(timeout_ms, self.max_timeout * 1000) / 1000

    def refusal(self, query: str, *, top_k: int, timeout_ms: int | None) -> str:
        """Return why a search is refused; nothing if it is not."""
        if not query.strip():
            return "query must not be blank; ask with the words that matter"
        if len(query) > self.max_query_chars:
            most, given = f"{self.max_query_chars:,}", f"{len(query):,}"
            return f"query must have at most {most} characters, not {given}; ask with the words that matter"
        if not 1 <= top_k <= self.max_top_k:
            return f"top_k must be 1 to {self.max_top_k}, not {top_k}"
        if timeout_ms is not None and timeout_ms < 1:
            return f"timeout_ms must be at least 1, not {timeout_ms}"
        return ""


class RefusedError(Exception):
    """A call has no answer; the message is for the model."""


class Places:
    """The calls that may be under way.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self._left = most

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take a place, or raise `RefusedError`."""
        if not self._left:
            raise RefusedError("too many calls are under way; try again later")
        self._left -= 1
        try:
            yield
        finally:
            self._left += 1


def _check_seconds(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be more than 0 seconds and finite, not {value!r}")


def _check_count(name: str, value: int, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least:,}, not {value!r}")
