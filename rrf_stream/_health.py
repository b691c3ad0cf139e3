"""How the arms of a pipeline do over many queries, and what follows from it for the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from threading import RLock
from types import MappingProxyType
from typing import Any, NamedTuple

from rrf_stream._breaker import Breaker, BreakerState, Circuit
from rrf_stream._coverage import ArmReport, ArmStatus, in_words
from rrf_stream._hedging import Hedge, Hedging, quantile_of
from rrf_stream._log import emit

__all__ = ["ArmHealth", "ArmStats", "Latency", "Watch"]

_WINDOW = 1000
_FAILED, _SKIPPED = ArmStatus.FAILED, ArmStatus.SKIPPED  # looked up once, as that is slow
_LATE = frozenset({ArmStatus.TIMED_OUT, ArmStatus.IDLE, ArmStatus.DEADLINE})


class Latency(NamedTuple):
    """Quantiles of the most recent 1,000 latencies at most, each None if there is none.

    Attributes:
        samples: How many latencies these are.
        p50: Seconds that half of them did not exceed.
        p95: Seconds that 95 of 100 did not exceed.
        p99: Seconds that 99 of 100 did not exceed.
    """

    samples: int
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmStats:
    """What one arm of a `Pipeline` has done in all queries so far that have closed it.

    Attributes:
        name: The name of the arm.
        queries: How many queries there were, those included in which it was skipped.
        statuses: In how many it closed with which status; statuses that never were are left out.
        answered: In how many it delivered all it was asked for.
        timed_out: In how many it was closed by its timeout, its idle timeout or the deadline.
        failed: In how many it raised.
        skipped: In how many it was not asked, as its breaker was open.
        received: Results taken from it, repeats included.
        hedged: In how many a second attempt was started.
        second_won: In how many the second attempt delivered first.
        first_hit: Latencies from the start to the first hit, of the queries in which it delivered.
        last_hit: Latencies from the start to the last hit, of the queries that it answered.
        breaker: Where its breaker stands; "closed" also without one.
        retry_after: Seconds until it is tried again at the latest, at least 0; None unless its
            breaker is open or half-open.
    """

    name: str
    queries: int
    statuses: Mapping[ArmStatus, int]
    answered: int
    timed_out: int
    failed: int
    skipped: int
    received: int
    hedged: int
    second_won: int
    first_hit: Latency
    last_hit: Latency
    breaker: BreakerState
    retry_after: float | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "statuses", MappingProxyType(dict(self.statuses)))

    def __reduce__(self) -> tuple[Any, ...]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return partial(ArmStats, **(values | {"statuses": dict(self.statuses)})), ()

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics in plain JSON types."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "statuses": {str(status): count for status, count in self.statuses.items()},
            "first_hit": self.first_hit._asdict(),
            "last_hit": self.last_hit._asdict(),
        }


class ArmHealth:
    """One arm over all queries of a pipeline, from whatever thread they come.

    Args:
        name: The name of the arm.
        breaker: When to leave it alone; None for never.
        hedging: When to ask it a second time; None for never.
    """

    __slots__ = (
        "_circuit",
        "_first",
        "_first_seen",
        "_hedge",
        "_hedged",
        "_last",
        "_lock",
        "_name",
        "_received",
        "_second_won",
        "_statuses",
    )

    def __init__(self, name: str, breaker: Breaker | None = None, hedging: Hedging | None = None) -> None:
        self._name = name
        self._circuit = None if breaker is None else Circuit(breaker)
        self._hedge = None if hedging is None else Hedge(hedging)
        self._statuses = dict.fromkeys(ArmStatus, 0)
        self._received = 0
        self._hedged = 0
        self._second_won = 0
        self._first: deque[float] = deque(maxlen=_WINDOW)
        self._first_seen = 0
        self._last: deque[float] = deque(maxlen=_WINDOW)
        self._lock = RLock()  # reentrant, as collecting garbage may close a fusion at any point

    def admit(self) -> tuple[float | None, int | None]:
        """Return None and the ticket of a query that may ask the arm, or the seconds until one may."""
        if self._circuit is None:
            return None, None
        with self._lock:
            retry_after = self._circuit.admit()
            return retry_after, self._circuit.ticket if retry_after is None else None

    def hedge_after(self) -> float | None:
        """Return the seconds after which a second attempt is due if there is no hit; None for never."""
        if self._hedge is None:
            return None
        with self._lock:
            if self._circuit is not None and self._circuit.is_open:
                return None  # it is a trial: one query, not two
            return self._hedge.after(self._first, self._first_seen)

    def hedge(self) -> bool:
        """Return whether a second attempt may start that is due."""
        if self._hedge is None:
            return False
        with self._lock:
            return self._hedge.spend()

    def closed(
        self,
        ticket: int | None,
        report: ArmReport,
        last_hit_after: float | None,
        *,
        hedged: bool,
        second_won: bool,
    ) -> None:
        """Take note of how the arm did in a query; see `Watch.closed`."""
        status = report.status
        opened = closed = False
        with self._lock:
            self._statuses[status] += 1
            self._received += report.received
            self._hedged += hedged
            self._second_won += second_won
            if report.first_hit_after is not None:
                self._first.append(report.first_hit_after)
                self._first_seen += 1
            if last_hit_after is not None and status.is_full:
                self._last.append(last_hit_after)
            if self._hedge is not None and status is not _SKIPPED:
                self._hedge.save()
            circuit = self._circuit
            if circuit is None or ticket is None:
                return
            error = report.error
            if status.is_full:
                closed = circuit.answered(ticket)
            elif status in _LATE or (status is _FAILED and not isinstance(error, circuit.says_nothing)):
                opened = circuit.failed(ticket)
            else:
                circuit.undecided(ticket)
            failures, retry_after = circuit.failures, circuit.retry_after if opened else None
        if closed:  # reported without the lock, as a log may take its time, or ask for statistics
            emit("breaker_closed", arm=self._name)
        elif retry_after is not None:
            emit(
                "breaker_opened",
                warning=True,
                arm=self._name,
                failures=failures,
                status=str(status),
                error=in_words(error),
                retry_after_ms=round(retry_after * 1000, 3),
            )

    def report(self, error: Exception) -> None:
        """Report that a clock, or a source of random numbers, raised."""
        emit("health_failed", warning=True, arm=self._name, error=in_words(error))

    def stats(self) -> ArmStats:
        """Return what is known of the arm."""
        with self._lock:
            counts = self._statuses.copy()
            first, last = list(self._first), list(self._last)
            received, hedged, second_won = self._received, self._hedged, self._second_won
            circuit = self._circuit
            state: BreakerState = "closed" if circuit is None else circuit.state
            retry_after = None if circuit is None else circuit.retry_after
        return ArmStats(
            name=self._name,
            queries=sum(counts.values()),
            statuses={status: count for status, count in counts.items() if count},
            answered=sum(count for status, count in counts.items() if status.is_full),
            timed_out=sum(counts[status] for status in _LATE),
            failed=counts[_FAILED],
            skipped=counts[_SKIPPED],
            received=received,
            hedged=hedged,
            second_won=second_won,
            first_hit=_latency(first),
            last_hit=_latency(last),
            breaker=state,
            retry_after=retry_after,
        )


class Watch:
    """What one fusion asks and tells of the health of its arms, each by its index. It never raises.

    Args:
        arms: The health of each arm, in the order of the arms.
    """

    __slots__ = ("_arms", "_tickets")

    def __init__(self, arms: Sequence[ArmHealth]) -> None:
        self._arms = arms
        self._tickets: list[int | None] = [None] * len(arms)

    def admit(self, index: int) -> tuple[float | None, float | None]:
        """Ask whether an arm is to be read, when the fusion starts; at most once an arm.

        Returns:
            None if it is, or else the seconds until it is tried again; and the seconds after which it
            is asked again if it has delivered nothing, or None for never.
        """
        arm = self._arms[index]
        try:
            retry_after, self._tickets[index] = arm.admit()
            return retry_after, arm.hedge_after()
        except Exception as error:  # noqa: BLE001 - a clock of the caller's may raise; the search goes on
            arm.report(error)
            return None, None

    def hedge(self, index: int) -> bool:
        """Return whether a second attempt at an arm may start that is due; counts it as one that does."""
        return self._arms[index].hedge()

    def closed(
        self, index: int, report: ArmReport, last_hit_after: float | None, *, hedged: bool, second_won: bool
    ) -> None:
        """Take note that an arm was closed; called once an arm, whatever the reason.

        Args:
            index: Which arm.
            report: Its final report.
            last_hit_after: Seconds from the start to its last hit; None if there was none.
            hedged: Whether a second attempt was started.
            second_won: Whether the second attempt delivered first.
        """
        arm = self._arms[index]
        try:
            arm.closed(self._tickets[index], report, last_hit_after, hedged=hedged, second_won=second_won)
        except Exception as error:  # noqa: BLE001 - as above
            arm.report(error)


def _latency(latencies: list[float]) -> Latency:
    if not latencies:
        return Latency(0, None, None, None)
    latencies.sort()
    return Latency(len(latencies), *(quantile_of(latencies, share) for share in (0.5, 0.95, 0.99)))
