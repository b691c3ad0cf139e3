"""What is sent of a snapshot."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from rrf_stream import FusedHit, Snapshot

__all__ = ["Errors", "Payload", "Present", "coverage_header", "in_json"]

Present: TypeAlias = Callable[[FusedHit], FusedHit]
"""Gives a hit as clients may see it, with the same id and rank: a shorter item, for example."""

Errors: TypeAlias = Literal["type", "full"]
"""How much clients are told of the error of an arm: its type, or what it says too."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Makes the JSON that is sent of a snapshot.

    Attributes:
        present: What clients may see of a hit; None for all of it.
        errors: What they may see of an arm's error, whose words may hold addresses or passwords.
    """

    present: Present | None
    errors: Errors

    def of(self, snapshot: Snapshot) -> dict[str, Any]:
        """Return a snapshot in plain JSON types."""
        if self.present is not None:
            snapshot = dataclasses.replace(snapshot, hits=tuple(map(self.present, snapshot.hits)))
        plain = snapshot.to_dict()
        if self.errors == "type":
            for report, shown in zip(snapshot.coverage.arms, plain["coverage"]["arms"], strict=True):
                shown["error"] = None if report.error is None else type(report.error).__name__
        return plain


def in_json(plain: Any) -> str:
    """Return plain types as JSON in one line of ASCII: text may hold what UTF-8 has no bytes for."""
    return json.dumps(plain, allow_nan=False, separators=(",", ":"))


def coverage_header(snapshot: Snapshot) -> str:
    """Return how complete an answer is, as a structured field (RFC 9651)."""
    coverage = snapshot.coverage
    if not coverage.degraded:
        return "full"
    reasons = " ".join(coverage.reasons)
    return f'degraded; outcome={snapshot.outcome}; weight={coverage.weight_fraction:.3f}; reasons="{reasons}"'
