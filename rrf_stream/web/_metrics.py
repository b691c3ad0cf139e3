"""What a server measures of its searches, for Prometheus. The only module that imports prometheus_client."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from rrf_stream import Snapshot
from rrf_stream.errors import MissingExtraError

try:
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.exposition import generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector
except ImportError as error:
    raise MissingExtraError("prometheus-client", extra="web") from error

__all__ = ["MEDIA_TYPE", "Metrics"]

MEDIA_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LATE = 0.05
"""Seconds behind its time budget from which on a final snapshot counts as an overrun."""


class Metrics:
    """The counters of one server, or of all its workers where PROMETHEUS_MULTIPROC_DIR is set."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self._first = Histogram(
            "rrf_stream_first_snapshot_seconds",
            "Seconds from the start of a search to its first snapshot with a hit.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._final = Histogram(
            "rrf_stream_final_snapshot_seconds",
            "Seconds from the start of a search to its final snapshot.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._searches = Counter(
            "rrf_stream_searches",
            "Searches by how they ended; left: the client went away before; broken: the server failed.",
            ["outcome"],
            registry=registry,
        )
        self._arms = Counter(
            "rrf_stream_arms",
            "Arms of searches with a final snapshot, by the status they closed with.",
            ["arm", "status"],
            registry=registry,
        )
        self._overruns = Counter(
            "rrf_stream_overruns",
            f"Final snapshots that came more than {_LATE * 1000:.0f} ms after the time budget was spent.",
            registry=registry,
        )
        self._refused = Counter(
            "rrf_stream_refused",
            "Requests that were answered with a problem, by HTTP status.",
            ["status"],
            registry=registry,
        )
        self.open = Gauge(
            "rrf_stream_open_fusions",
            "Searches under way.",
            registry=registry,
            multiprocess_mode="livesum",
        )

    def first(self, snapshot: Snapshot) -> None:
        """Take note of the first snapshot of a search that has a hit."""
        self._first.observe(snapshot.elapsed or 0.0)

    def final(self, snapshot: Snapshot, *, timeout: float) -> None:
        """Take note of the final snapshot of a search, which had a time budget in seconds."""
        elapsed = snapshot.elapsed or 0.0
        self._final.observe(elapsed)
        self._searches.labels(str(snapshot.outcome)).inc()
        for report in snapshot.coverage.arms:
            self._arms.labels(report.name, str(report.status)).inc()
        if elapsed > timeout + _LATE:
            self._overruns.inc()

    def unanswered(self, outcome: Literal["left", "broken"]) -> None:
        """Take note of a search whose client did not get its final snapshot, and why not."""
        self._searches.labels(outcome).inc()

    def refused(self, status: int) -> None:
        """Take note of a request that got a problem for an answer."""
        self._refused.labels(str(status)).inc()

    def text(self) -> bytes:
        """Return all of it in the text format of Prometheus."""
        registry = self._registry
        if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            _forget_the_dead(Path(folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _forget_the_dead(folder: Path) -> None:
    """Remove what processes that are gone said of now: whoever was killed could not take it back."""
    if os.name != "posix":
        return  # elsewhere nobody can ask without harm whether a process is alive
    for path in folder.glob("gauge_live*_*.db"):
        pid = path.stem.rpartition("_")[2]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            path.unlink(missing_ok=True)
        except (PermissionError, ValueError):
            continue  # of another user, or none of ours
