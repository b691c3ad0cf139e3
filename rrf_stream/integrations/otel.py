"""OpenTelemetry: a span for each fusion, a child for each arm, and the trace's id in every event of the log.

`instrument()` once, when the program starts, is all::

    from rrf_stream.integrations.otel import instrument

    instrument()

The span `rrf_stream.fusion` is a child of whatever is current where the fusion starts, that is where it is
entered, or else first read. Below it is `retrieval NAME` for each arm. That is current in the arm's own code,
on the event loop and in threads, so the spans of an instrumented client are below that.

Attributes are those of the semantic conventions for retrieval where there is one, and `rrf_stream.*`
otherwise. None holds a query, an id or a result. What an arm raised is in the event `exception`, with its
message, whatever that quotes, and its traceback. Only the API of OpenTelemetry is needed here: which spans
are kept, and where they go, is for the application's SDK.
"""

from __future__ import annotations

from threading import Lock
from time import time_ns
from typing import TYPE_CHECKING, Any

from rrf_stream import ArmStatus, Outcome, __version__
from rrf_stream.errors import MissingExtraError
from rrf_stream.instrumentation import FusionObserver, Observer, add_observer, remove_observer

try:
    from opentelemetry import context, trace
except ImportError as error:
    raise MissingExtraError("opentelemetry-api", extra="otel") from error

if TYPE_CHECKING:
    from rrf_stream import ArmReport, Coverage, Snapshot
    from rrf_stream.instrumentation import FusionStart

__all__ = ["instrument", "uninstrument"]

_ALL_SHOWN = 16
"""So many snapshots are events; of later ones, those whose number is a power of two, and the final one."""

_RETRIEVAL = {"gen_ai.operation.name": "retrieval"}
_ERRORS = (ArmStatus.FAILED, ArmStatus.REJECTED)
_LATE = (ArmStatus.TIMED_OUT, ArmStatus.IDLE, ArmStatus.DEADLINE)
_CONFIGURED = ("timeout", "quorum", "until")

_lock = Lock()
_installed: _Tracing | None = None


def instrument(tracer_provider: trace.TracerProvider | None = None) -> None:
    """Have every fusion traced that starts from now on, of the whole process.

    To do it again changes nothing, but for the provider, if it is another one.

    Args:
        tracer_provider: Where spans go; that of the application, as it has set it by then or later, if None.

    Raises:
        TypeError: `tracer_provider` is none.
    """
    global _installed  # noqa: PLW0603 - a process is instrumented, or it is not
    if tracer_provider is not None and not isinstance(tracer_provider, trace.TracerProvider):
        raise TypeError(f"tracer_provider must be a TracerProvider, not {tracer_provider!r}")
    tracing = _Tracing(trace.get_tracer("rrf_stream", __version__, tracer_provider))
    with _lock:
        if _installed is not None:
            remove_observer(_installed)
        _installed = tracing
        add_observer(tracing)


def uninstrument() -> None:
    """Have no more fusions traced, if they were; the spans of those that run end as they would have."""
    global _installed  # noqa: PLW0603 - as above
    with _lock:
        if _installed is not None:
            remove_observer(_installed)
            _installed = None


class _Tracing(Observer):
    """Starts the span of each fusion."""

    __slots__ = ("_tracer",)

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def fusion_started(self, fusion: FusionStart) -> _Traced:
        return _Traced(self._tracer, fusion)

    def log_fields(self) -> dict[str, str]:
        return _fields(trace.get_current_span())


class _Traced(FusionObserver):
    """The span of one fusion, and those of its arms.

    The span of the fusion lasts until the last arm is closed. It is told so later, with that time: when the
    final snapshot has been added to it, or the reader has left.
    """

    __slots__ = ("_arms", "_context", "_ended_at", "_is_open", "_raised", "_snapshots", "_span", "_tracer")

    def __init__(self, tracer: trace.Tracer, fusion: FusionStart) -> None:
        options: Any = fusion.options
        self._tracer = tracer
        self._span = tracer.start_span(
            "rrf_stream.fusion",
            attributes={
                **_RETRIEVAL,
                "gen_ai.retrieval.top_k": options["top_k"],
                "rrf_stream.fusion": fusion.number,
                "rrf_stream.arms": [arm.name for arm in fusion.arms],
                **{f"rrf_stream.{name}": options[name] for name in _CONFIGURED if options[name] is not None},
            },
        )
        self._context = trace.set_span_in_context(self._span)
        self._arms: dict[str, trace.Span] = {}
        self._raised: set[str] = set()  # arms whose first error is an event already
        self._snapshots = 0
        self._ended_at: int | None = None
        self._is_open = True

    def arm_started(self, arm: ArmReport, attempt: int) -> None:
        span = self._arms.get(arm.name)
        if span is None:
            span = self._start(arm)
        else:
            span.add_event("rrf_stream.hedged", {"rrf_stream.arm.attempt": attempt})
        context.attach(trace.set_span_in_context(span))  # for good, as this context is the arm's own

    def attempt_failed(self, arm: str, attempt: int, error: BaseException | None) -> None:
        if error is not None:
            self._arms[arm].record_exception(error, {"rrf_stream.arm.attempt": attempt})
            self._raised.add(arm)

    def arm_closed(self, arm: ArmReport, attempt: int) -> None:
        span = self._arms.get(arm.name)
        if span is None:  # it was never read
            span = self._start(arm)
        try:
            if span.is_recording():
                _describe(span, arm, attempt)
                if arm.error is not None and arm.name not in self._raised:
                    span.record_exception(arm.error)
        finally:
            span.end()

    def snapshot_shown(self, snapshot: Snapshot) -> None:
        self._snapshots += 1
        if snapshot.final or self._snapshots <= _ALL_SHOWN or self._snapshots.bit_count() == 1:
            told = {
                "rrf_stream.snapshot.seq": snapshot.seq,
                "rrf_stream.snapshot.hits": len(snapshot.hits),
                "rrf_stream.snapshot.settled": snapshot.settled,
                "rrf_stream.snapshot.exact": snapshot.exact,
                "rrf_stream.snapshot.elapsed": snapshot.elapsed,
                "rrf_stream.snapshot.final": snapshot.final,
            }
            known = {name: value for name, value in told.items() if value is not None}
            self._span.add_event("rrf_stream.snapshot", known, self._ended_at)
        if snapshot.final:
            self._end()

    def fusion_ended(self, outcome: Outcome, coverage: Coverage, elapsed: float) -> None:
        del elapsed
        self._ended_at = time_ns()
        self._span.set_attributes(
            {
                "rrf_stream.outcome": str(outcome),
                "rrf_stream.degraded": coverage.degraded,
                "rrf_stream.answered": coverage.answered,
                "rrf_stream.weight_fraction": coverage.weight_fraction,
            }
        )
        if outcome is Outcome.FAILED:
            self._span.set_status(trace.StatusCode.ERROR, "a required arm failed, or was not read")
            self._span.set_attribute("error.type", "rrf_stream.errors.ArmError")

    def fusion_left(self) -> None:
        self._end()

    def log_fields(self, arm: str | None) -> dict[str, str]:
        return _fields(self._span if arm is None else self._arms.get(arm, self._span))

    def _start(self, arm: ArmReport) -> trace.Span:
        attributes: dict[str, Any] = {
            **_RETRIEVAL,
            "gen_ai.data_source.id": arm.name,
            "rrf_stream.arm.weight": arm.weight,
        }
        if arm.window is not None:
            attributes["rrf_stream.arm.window"] = arm.window
        self._arms[arm.name] = span = self._tracer.start_span(
            f"retrieval {arm.name}", self._context, attributes=attributes
        )
        return span

    def _end(self) -> None:
        if self._is_open:
            self._is_open = False
            self._span.set_attribute("rrf_stream.snapshots", self._snapshots)
            self._span.end(self._ended_at)


def _describe(span: trace.Span, arm: ArmReport, attempt: int) -> None:
    """Say on the span of an arm how the arm ended."""
    span.set_attributes(
        {
            "rrf_stream.arm.status": str(arm.status),
            "rrf_stream.arm.received": arm.received,
            "rrf_stream.arm.late": arm.status in _LATE,
            "rrf_stream.arm.attempt": attempt,
        }
    )
    if arm.first_hit_after is not None:
        span.set_attribute("rrf_stream.arm.first_hit_after", arm.first_hit_after)
    if arm.retry_after is not None:
        span.set_attribute("rrf_stream.arm.retry_after", arm.retry_after)
    if arm.status in _ERRORS:
        span.set_status(trace.StatusCode.ERROR)
        if arm.error is not None:
            span.set_attribute("error.type", _name_of(type(arm.error)))


def _name_of(kind: type[BaseException]) -> str:
    """Return the name by which a class is known, without the module if that is Python's own."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _fields(span: trace.Span) -> dict[str, str]:
    """Return what an event of the log says of a span; nothing if there is none."""
    known = span.get_span_context()
    if not known.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(known.trace_id),
        "span_id": trace.format_span_id(known.span_id),
    }
