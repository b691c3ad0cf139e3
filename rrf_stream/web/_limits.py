"""What one server does for its clients at most."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from rrf_stream.web._arguments import check_count, check_seconds
from rrf_stream.web._problems import Refused

__all__ = ["Admission", "Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request may ask for, and how many may be served at once.

    Attributes:
        query_length: Characters of a query at most.
        top_k: Hits at most.
        timeout: Seconds that a search may take at most, finite and at least 0.001; every search has a time
            budget.
        arms: Arms that a search may ask at most; one that names none asks the first so many. None for all.
        searches: Searches under way at most, of all clients; more are refused with 503.
        searches_per_client: Searches under way of one client at most; more are refused with 429.

    Raises:
        ValueError: A limit is out of its range.
        TypeError: A limit is of the wrong type.
    """

    query_length: int = 1000
    top_k: int = 100
    timeout: float = 10.0
    arms: int | None = None
    searches: int = 64
    searches_per_client: int = 8

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "timeout":
                check_seconds("timeout", value, least=0.001)  # clients count milliseconds
            elif not (field.name == "arms" and value is None):
                check_count(field.name, value)

    @property
    def timeout_ms(self) -> int:
        """Milliseconds that a search may take at most."""
        return round(self.timeout * 1000)


class Admission:
    """Who may search now. Asked as soon as a request is read, and before any arm is: refusals cost little."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._under_way: list[tuple[str, float]] = []
        self._of_client: Counter[str] = Counter()
        self.is_closed = False

    def check_open(self) -> None:
        """Refuse everybody once the server is about to end.

        Raises:
            Refused: It is.
        """
        if self.is_closed:
            raise Refused(503, "the server is shutting down", headers={"Retry-After": "1"})

    @contextmanager
    def admit(self, client: str, *, now: float, timeout: float) -> Iterator[None]:
        """Let a search in until the block is left.

        Args:
            client: Who asks.
            now: Seconds on any clock, the same for all calls.
            timeout: Seconds that the search may take.

        Raises:
            Refused: There is no room, or the server is about to end. It says when there will be room:
                when the first of the searches that take it has spent its time, unless its client is slow.
        """
        self.check_open()
        if len(self._under_way) >= self._limits.searches:
            ends = [end for _, end in self._under_way]
            raise Refused(
                503, f"{len(ends)} searches are under way, as many as may", headers=_after(ends, now)
            )
        if self._of_client[client] >= self._limits.searches_per_client:
            ends = [end for other, end in self._under_way if other == client]
            detail = f"{len(ends)} searches of this client are under way, as many as may"
            raise Refused(429, detail, headers=_after(ends, now))
        entry = client, now + timeout
        self._under_way.append(entry)
        self._of_client[client] += 1
        try:
            yield
        finally:
            self._under_way.remove(entry)
            self._of_client[client] -= 1
            if not self._of_client[client]:
                del self._of_client[client]


def _after(ends: list[float], now: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(min(ends) - now)))}
