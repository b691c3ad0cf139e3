"""Where one arm of a fusion stands."""

from __future__ import annotations

from functools import partial

from rrf_stream._coverage import ArmReport, ArmStatus
from rrf_stream._ranking import Ranking
from rrf_stream._tally import ArmSpec

__all__ = ["ArmState"]

_report = partial(tuple.__new__, ArmReport)  # ArmReport() itself takes three times as long


class ArmState:
    """Where one arm stands; its ranking knows what it delivered.

    Attributes:
        index: Which arm, from 0.
        spec: What the core must know of it.
        ranking: What it has delivered.
        status: Where it stands, in a word.
        first_hit_after: Seconds from the start to its first result.
        final: Its report, once it is closed.
    """

    __slots__ = ("final", "first_hit_after", "index", "ranking", "spec", "status")

    def __init__(self, index: int, spec: ArmSpec, ranking: Ranking) -> None:
        self.index = index
        self.spec = spec
        self.ranking = ranking
        self.status = ArmStatus.WAITING
        self.first_hit_after: float | None = None
        self.final: ArmReport | None = None

    def report(
        self, at: float | None, error: BaseException | None = None, retry_after: float | None = None
    ) -> ArmReport:
        """Return the state as users see it, `at` seconds after the start."""
        spec = self.spec
        report: ArmReport = _report(
            (
                spec.name,
                self.status,
                spec.weight,
                spec.window,
                self.ranking.received,
                self.first_hit_after,
                at,
                error,
                retry_after,
            )
        )
        return report
