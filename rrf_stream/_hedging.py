"""Hedging: an arm that is later than usual is asked a second time, and the first to deliver wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from rrf_stream._checks import check_count, check_seconds
from rrf_stream._kernels import exact

__all__ = ["Hedge", "Hedging", "quantile_of"]

_SAVED = 10
"""Second attempts that an arm may save up for when many are needed at once."""
_NEARLY = 1e-9  # .07 of 100 is 7, whatever floats make of it
_RELEARN = 20
"""The time to wait is learnt anew when a share of one in so many of the latencies is new."""


@dataclass(frozen=True, slots=True)
class Hedging:
    """When an arm of a `Pipeline` that has delivered nothing is asked a second time.

    Holds no state: one may serve any number of arms and pipelines. The retriever is called twice
    with one query, so that must do no harm.

    Attributes:
        quantile: The share of an arm's recent queries, above 0 and below 1, that had their first
            hit sooner than the time it is waited for.
        least: How many latencies must be known for that, at least 1; before, nothing is hedged.
        after: Seconds to wait, at least 0, instead of what would be learnt; None to learn it.
        most: The share of an arm's queries, above 0 and at most 1, that may be hedged in the long run.

    Raises:
        ValueError: A number is out of its range.
        TypeError: A value is of the wrong type.
    """

    quantile: float = 0.95
    _: KW_ONLY
    least: int = 20
    after: float | None = None
    most: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < exact("quantile", self.quantile) < 1:
            raise ValueError(f"quantile must be a number above 0 and below 1, not {self.quantile!r}")
        check_count("least", self.least)
        check_seconds("after", self.after)
        if not 0 < exact("most", self.most) <= 1:
            raise ValueError(f"most must be a number above 0 and at most 1, not {self.most!r}")


class Hedge:
    """What one arm's hedging has learnt, and how many second attempts it may still make."""

    __slots__ = ("_after", "_learn_at", "_policy", "_saved")

    def __init__(self, policy: Hedging) -> None:
        self._policy = policy
        self._after = math.inf
        self._learn_at = 0
        self._saved = float(_SAVED)

    def after(self, latencies: Sequence[float], seen: int) -> float | None:
        """Return the seconds after which a second attempt is due; None for never.

        Args:
            latencies: The most recent latencies to a first hit.
            seen: How many there have been in all.
        """
        policy = self._policy
        if self._saved < 1:
            return None
        if policy.after is not None:
            return policy.after
        if len(latencies) < policy.least:
            return None
        if seen >= self._learn_at:
            self._after = quantile_of(sorted(latencies), policy.quantile)
            self._learn_at = seen + max(1, len(latencies) // _RELEARN)
        return self._after

    def spend(self) -> bool:
        """Return whether a second attempt may start, and pay for it: queries may run at once."""
        may = self._saved >= 1
        self._saved -= may
        return may

    def save(self) -> None:
        """Take note of a query, which saves up for second attempts."""
        self._saved = min(_SAVED, self._saved + self._policy.most)


def quantile_of(ordered: Sequence[float], quantile: float) -> float:
    """Return the smallest of some values, ordered and not none, that a share of them does not exceed."""
    return ordered[max(0, math.ceil(quantile * len(ordered) - _NEARLY) - 1)]
