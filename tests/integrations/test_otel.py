"""What the spans of OpenTelemetry say of a fusion and its arms, and what the log says of the spans."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, exception_attributes
from opentelemetry.trace import INVALID_SPAN, SpanKind, StatusCode, get_current_span
from otel_kit import FUSION, Kept, attributes, events, id_of, instrumented

from rrf_stream import (
    Arm,
    ArmStatus,
    Breaker,
    Hedging,
    Pipeline,
    __version__,
    drain,
    fuse_arms,
    open_fusion,
    set_thread_limit,
)
from rrf_stream.errors import ArmError, RRFStreamError
from rrf_stream.integrations.otel import instrument, uninstrument
from rrf_stream.testing import capture_events, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.usefixtures("no_hang")

on_all = pytest.mark.anyio
in_virtual_time = pytest.mark.parametrize("anyio_backend", ["asyncio-virtual", "trio-virtual"], indirect=True)


@pytest.fixture
def kept() -> Iterator[Kept]:
    """Every span of the test."""
    with instrumented() as kept:
        yield kept


# --- the fusion -------------------------------------------------------------------------------------------


@on_all
@in_virtual_time
async def test_the_span_of_a_fusion_says_what_was_asked_and_what_came_of_it(kept: Kept) -> None:
    """Options at its start, outcome and coverage at its end; it is an internal span of our tracer."""
    arms = [Arm("a", script("x", "y"), weight=3.0), Arm("b", script(hang=True))]
    with capture_events() as log:
        await fuse_arms(arms, top_k=5, timeout=0.5)
    span = kept.fusion
    assert attributes(span) == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.top_k": 5,
        "rrf_stream.fusion": log[0]["fusion"],
        "rrf_stream.arms": ("a", "b"),
        "rrf_stream.timeout": 0.5,
        "rrf_stream.until": "complete",
        "rrf_stream.outcome": "deadline",
        "rrf_stream.degraded": True,
        "rrf_stream.answered": ("a",),
        "rrf_stream.weight_fraction": 0.75,
        "rrf_stream.snapshots": 1,
    }
    assert span.kind is SpanKind.INTERNAL
    assert span.status.status_code is StatusCode.UNSET
    tracer = span.instrumentation_scope
    assert tracer is not None
    assert (tracer.name, tracer.version) == ("rrf_stream", __version__)


@on_all
async def test_what_was_asked_is_there_when_a_sampler_decides() -> None:
    """A sampler sees the options of a fusion, and the name and weight of an arm, before the span is made."""
    seen: dict[str, Any] = {}

    class Sees(ParentBased):
        def should_sample(self, *args: Any, **kwargs: Any) -> Any:
            _, _, name, _, given, *_ = (*args, *kwargs.values())
            seen[name] = dict(given or {})
            return super().should_sample(*args, **kwargs)

    with instrumented(sampler=Sees(ALWAYS_OFF)) as kept:
        await fuse_arms([Arm("a", ["x"], weight=2.0, window=None)], top_k=3, quorum=0.5)
    assert kept.spans == []
    assert seen[FUSION]["gen_ai.retrieval.top_k"] == 3
    assert seen[FUSION]["rrf_stream.quorum"] == 0.5
    assert seen["retrieval a"] == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "a",
        "rrf_stream.arm.weight": 2.0,
    }


@on_all
async def test_a_required_arm_that_fails_is_an_error_of_the_fusion(kept: Kept) -> None:
    """Its span has the status of an error, and as its type what the reader is raised."""
    with pytest.raises(ArmError):
        await fuse_arms([Arm("a", script(fail=OSError("down")), required=True)])
    assert kept.fusion.status.status_code is StatusCode.ERROR
    assert attributes(kept.fusion)["error.type"] == f"{ArmError.__module__}.{ArmError.__qualname__}"
    assert attributes(kept.fusion)["rrf_stream.outcome"] == "failed"


@on_all
async def test_times_are_those_of_the_fusion_not_of_its_reader(kept: Kept) -> None:
    """An arm lies within its fusion, which ends with the last arm, however late its end is read."""
    at_end = anyio.Event()

    async def two() -> AsyncIterator[str]:
        yield "x"
        await anyio.sleep(0.001)
        yield "y"
        at_end.set()

    async with open_fusion({"a": two(), "b": ["z"]}) as fusion:
        await at_end.wait()
        assert {span.name for span in kept.spans} == {"retrieval a", "retrieval b"}
        read_at = time.time_ns()
        await fusion.final()
    whole = kept.fusion
    assert whole.start_time is not None
    assert whole.end_time is not None
    for name in ("a", "b"):
        arm = kept.arm(name)
        assert arm.start_time is not None
        assert arm.end_time is not None
        assert whole.start_time <= arm.start_time <= arm.end_time <= whole.end_time
    assert all(whole.start_time <= event.timestamp <= whole.end_time for event in whole.events[-1:])
    assert whole.end_time <= read_at


@on_all
@in_virtual_time
@pytest.mark.parametrize("when", ["running", "ended"])
async def test_a_fusion_that_is_dropped_ends_its_span(when: str, kept: Kept) -> None:
    """Without being left: with an arm that runs, or with a final snapshot that nobody has read."""
    fusion = open_fusion({"a": ["x"], "b": script("y", 0.25, hang=when == "running")})
    await anext(fusion)
    await anyio.sleep(0.5)
    assert FUSION not in {span.name for span in kept.spans}
    del fusion
    await anyio.sleep(0.01)
    assert attributes(kept.fusion)["rrf_stream.outcome"] == ("stopped" if when == "running" else "complete")
    assert attributes(kept.arm("b"))["rrf_stream.arm.status"] == (
        "cancelled" if when == "running" else "exhausted"
    )
    assert await drain(5) == []


@on_all
@in_virtual_time
async def test_a_caller_that_is_cancelled_ends_the_spans(kept: Kept) -> None:
    """The request is given up while it waits for the answer: the arms are cancelled, and all spans end."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fuse_arms, {"a": script("x", hang=True)})
        await anyio.sleep(0.25)
        tasks.cancel_scope.cancel()
    assert attributes(kept.arm("a"))["rrf_stream.arm.status"] == "cancelled"
    assert attributes(kept.fusion)["rrf_stream.outcome"] == "stopped"
    assert await drain(5) == []


# --- snapshots --------------------------------------------------------------------------------------------


@on_all
@in_virtual_time
async def test_each_snapshot_that_is_read_is_an_event(kept: Kept) -> None:
    """With its number, how many hits it shows, how many are settled and exact, and when it was."""
    async with open_fusion({"a": script(0.25, "x", 0.25, "y")}) as fusion:
        read = [snapshot async for snapshot in fusion]
    assert events(kept.fusion, "rrf_stream.snapshot") == [
        {
            "rrf_stream.snapshot.seq": snapshot.seq,
            "rrf_stream.snapshot.hits": len(snapshot.hits),
            "rrf_stream.snapshot.settled": snapshot.settled,
            "rrf_stream.snapshot.exact": snapshot.exact,
            "rrf_stream.snapshot.elapsed": snapshot.elapsed,
            "rrf_stream.snapshot.final": snapshot.final,
        }
        for snapshot in read
    ]
    assert [snapshot.elapsed for snapshot in read[:2]] == [0.25, 0.5]


@on_all
async def test_without_bounds_a_snapshot_says_nothing_of_what_is_certain(kept: Kept) -> None:
    """What a snapshot does not know is left out of its event."""
    await fuse_arms({"a": ["x"]}, bounds="off")
    (event,) = events(kept.fusion, "rrf_stream.snapshot")
    assert {name.rpartition(".")[2] for name in event} == {"seq", "hits", "elapsed", "final"}


@on_all
@in_virtual_time
async def test_many_snapshots_are_few_events(kept: Kept) -> None:
    """The first 16, then those whose number is a power of two, and the final one; all are counted."""
    steps = [step for number in range(300) for step in (0.01, number)]
    async with open_fusion([Arm("a", script(*steps), window=None)], top_k=300) as fusion:
        read = [snapshot async for snapshot in fusion]
    told = [event["rrf_stream.snapshot.seq"] for event in events(kept.fusion, "rrf_stream.snapshot")]
    assert len(read) > 256
    assert told == [*range(1, 17), 32, 64, 128, 256, read[-1].seq]
    assert attributes(kept.fusion)["rrf_stream.snapshots"] == len(read)


# --- the arms ---------------------------------------------------------------------------------------------


async def status_of(case: str) -> None:
    """Run a fusion whose arm `a` closes with a status."""
    steps: dict[str, Any] = {
        "exhausted": script(0.25, "x", 0.25, "y"),
        "window_full": script(0.25, "x", "y", "z"),
        "failed": script(0.25, "x", "y", fail=ConnectionError("refused")),
    }
    source = steps.get(case, script(0.25, "x", "y", hang=True))
    limits: dict[str, Any] = {"timed_out": {"timeout": 1.0}, "idle": {"idle_timeout": 1.0}}
    arm = Arm("a", source, window=2 if case == "window_full" else 100, weight=2.0, **limits.get(case, {}))
    async with open_fusion([arm], timeout=2.0 if case == "deadline" else None) as fusion:
        if case in {"stopped", "cancelled"}:
            await anext(fusion)
            if case == "cancelled":
                return
            fusion.stop()
        await fusion.final()


@on_all
@in_virtual_time
@pytest.mark.parametrize(
    "case",
    ["exhausted", "window_full", "failed", "timed_out", "idle", "deadline", "stopped", "cancelled"],
)
async def test_the_span_of_an_arm_says_how_it_closed(case: str, kept: Kept) -> None:
    """Its status, what was taken from it, and whether it was late; only what it raised is an error."""
    await status_of(case)
    span = kept.arm("a")
    failed = case == "failed"
    assert attributes(span) == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "a",
        "rrf_stream.arm.weight": 2.0,
        "rrf_stream.arm.window": 2 if case == "window_full" else 100,
        "rrf_stream.arm.status": case,
        "rrf_stream.arm.received": 2,
        "rrf_stream.arm.first_hit_after": 0.25,
        "rrf_stream.arm.attempt": 1,
        "rrf_stream.arm.late": case in {"timed_out", "idle", "deadline"},
    } | ({"error.type": "ConnectionError"} if failed else {})
    assert span.kind is SpanKind.INTERNAL
    assert span.status.status_code is (StatusCode.ERROR if failed else StatusCode.UNSET)
    assert [event.name for event in span.events] == ["exception"] * failed
    if failed:
        (raised,) = events(span, "exception")
        assert raised["exception.type"] == "ConnectionError"
        assert raised["exception.message"] == "refused"
        assert "Traceback" in raised["exception.stacktrace"]


class IndexGoneError(RRFStreamError):
    """An error of the application's own."""


@on_all
async def test_the_type_of_an_error_is_the_name_of_its_class(kept: Kept) -> None:
    """With its module, unless that is Python's own."""
    await fuse_arms({"a": script(fail=IndexGoneError()), "b": script(fail=ValueError())})
    assert attributes(kept.arm("a"))["error.type"] == f"{__name__}.IndexGoneError"
    assert attributes(kept.arm("b"))["error.type"] == "ValueError"


class WordlessError(Exception):
    """An error that cannot be put in words."""

    def __str__(self) -> str:
        raise TypeError("no words")


@on_all
async def test_an_error_without_words_is_an_error_all_the_same(kept: Kept) -> None:
    """The span of the arm ends as that of one that failed, and the fusion takes no harm."""
    final = await fuse_arms({"a": script("x", fail=WordlessError()), "b": ["x"]})
    assert final.ids == ["x"]
    assert kept.arm("a").status.status_code is StatusCode.ERROR
    assert attributes(kept.arm("a"))["error.type"] == f"{__name__}.WordlessError"
    assert attributes(kept.fusion)["rrf_stream.outcome"] == "complete"


@on_all
async def test_an_arm_that_is_skipped_has_a_span_too(kept: Kept) -> None:
    """Of no length, with the seconds until it is tried again: every arm is a child."""
    pipeline = Pipeline({"a": lambda _: script(fail=OSError("down"))}, breaker=Breaker(failures=1))
    for _ in range(2):
        await pipeline.search("q")
    _, skipped = [span for span in kept.spans if span.name == "retrieval a"]
    assert attributes(skipped)["rrf_stream.arm.status"] == "skipped"
    assert 0 <= attributes(skipped)["rrf_stream.arm.retry_after"] <= 60
    assert skipped.status.status_code is StatusCode.UNSET


@on_all
async def test_an_arm_without_a_thread_is_an_error(kept: Kept) -> None:
    """One that was rejected did not run: its span has the error of the bound."""
    begun, release = threading.Event(), threading.Event()

    def holds() -> list[str]:
        begun.set()
        release.wait()
        return []

    before = set_thread_limit(1)
    try:
        async with open_fusion({"holds": holds}) as fusion:
            assert await anyio.to_thread.run_sync(begun.wait, 5)
            final = await fuse_arms({"a": lambda: ["x"]})
            release.set()
            await fusion.final()
    finally:
        release.set()
        set_thread_limit(before)
    assert final.coverage["a"].status is ArmStatus.REJECTED
    assert attributes(kept.arm("a"))["error.type"] == "rrf_stream.errors.ThreadLimitError"
    assert kept.arm("a").status.status_code is StatusCode.ERROR
    assert await drain(5) == []


@on_all
@in_virtual_time
async def test_a_failed_attempt_is_an_event_of_its_arm(kept: Kept) -> None:
    """Of a hedged arm: the second attempt, what the first one raised, and which of them was the answer."""
    attempts = [script(2.0, fail=OSError("down")), script(2.0, "x")]
    await Pipeline({"a": lambda _: attempts.pop(0)}, hedging=Hedging(after=1.0)).search("q")
    span = kept.arm("a")
    assert [event.name for event in span.events] == ["rrf_stream.hedged", "exception"]
    assert [(event.attributes or {})["rrf_stream.arm.attempt"] for event in span.events] == [2, 1]
    assert attributes(span)["rrf_stream.arm.attempt"] == 2
    assert attributes(span)["rrf_stream.arm.status"] == "exhausted"
    assert span.status.status_code is StatusCode.UNSET


@on_all
@in_virtual_time
@pytest.mark.parametrize("first", [1, 2])
async def test_where_both_attempts_fail_the_arm_has_one_exception(first: int, kept: Kept) -> None:
    """That of the attempt that failed first, which is the arm's error in its report, too."""
    waits = [2.0, 4.0] if first == 1 else [4.0, 1.0]
    attempts = [script(wait, fail=OSError(f"down {n}")) for n, wait in enumerate(waits, 1)]
    final = await Pipeline({"a": lambda _: attempts.pop(0)}, hedging=Hedging(after=1.0)).search("q")
    assert repr(final.coverage["a"].error) == f"OSError('down {first}')"
    span = kept.arm("a")
    assert [event["exception.message"] for event in events(span, "exception")] == [f"down {first}"]
    assert attributes(span)["error.type"] == "OSError"
    assert span.status.status_code is StatusCode.ERROR


@on_all
async def test_names_are_those_of_the_conventions_or_the_librarys_own(kept: Kept) -> None:
    """Every attribute is in the semantic conventions, or begins with `rrf_stream.`; no value is a result."""
    pipeline = Pipeline({"a": lambda _: script("secret", fail=OSError("down")), "b": lambda _: ["secret"]})
    await pipeline.search("secret")
    names = {name for span in kept.spans for name in attributes(span)}
    names |= {name for span in kept.spans for event in span.events for name in event.attributes or ()}
    modules = (gen_ai_attributes, error_attributes, exception_attributes)
    conventions = {value for module in modules for value in vars(module).values() if isinstance(value, str)}
    conventions.add("gen_ai.retrieval.top_k")  # newer than the conventions that the SDK brings
    foreign = {name for name in names if not name.startswith("rrf_stream.")}
    assert foreign - conventions == set()
    assert {"gen_ai.operation.name", "gen_ai.data_source.id", "error.type"} <= foreign
    told = [(attributes(span), events(span, "rrf_stream.snapshot")) for span in kept.spans]
    assert "secret" not in str(told)


# --- the log ----------------------------------------------------------------------------------------------


@on_all
async def test_events_of_the_log_carry_the_ids_of_their_span(kept: Kept) -> None:
    """In hex as OpenTelemetry writes it: an event of an arm has the arm's, any other the fusion's."""
    arms = {
        "fails": script(fail=OSError("down")),
        "late": script("x", hang=True, cleanup=0.05, shield=True),
        "thread": lambda: ["y"],
    }
    with capture_events() as log, kept.tracer.start_as_current_span("request") as request:
        await fuse_arms(arms, timeout=0.03, grace=0.0)
        assert await drain(5) == []
    trace_id = format(request.get_span_context().trace_id, "032x")
    assert {event["event"].partition(".")[2] for event in log} == {
        "arm_closed",
        "fusion_closed",
        "arm_abandoned",
    }
    for event in log:
        span = kept.arm(event["arm"]) if "arm" in event else kept.fusion
        assert (event["trace_id"], event["span_id"]) == (trace_id, format(id_of(span), "016x"))


@on_all
async def test_events_of_no_fusion_carry_the_ids_of_the_current_span(kept: Kept) -> None:
    """The event of a breaker, which belongs to all queries, has the trace of the query that opened it."""
    pipeline = Pipeline({"a": lambda _: script(fail=OSError("down"))}, breaker=Breaker(failures=1))
    with capture_events() as log, kept.tracer.start_as_current_span("request"):
        await pipeline.search("q")
    (opened,) = [event for event in log if event["event"] == "rrf_stream.breaker_opened"]
    known = kept.fusion.get_span_context()
    assert known is not None
    assert opened["trace_id"] == format(known.trace_id, "032x")
    assert opened["span_id"] == format(id_of(kept.arm("a")), "016x")


@on_all
async def test_records_of_logging_carry_the_ids_too(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """On the standard library's way they are attributes of the record."""
    with caplog.at_level(logging.INFO, logger="rrf_stream"):
        await fuse_arms({"a": ["x"]})
    records = {record.getMessage(): record for record in caplog.records}
    assert vars(records["rrf_stream.arm_closed"])["span_id"] == format(id_of(kept.arm("a")), "016x")
    assert vars(records["rrf_stream.fusion_closed"])["span_id"] == format(id_of(kept.fusion), "016x")


@on_all
@pytest.mark.parametrize("case", ["off", "no provider"])
async def test_without_a_span_the_log_has_no_ids(case: str) -> None:
    """Not instrumented, or instrumented where no provider was set: there is no trace to name."""
    if case == "no provider":
        instrument()
    try:
        with capture_events() as log:
            await fuse_arms({"a": ["x"], "b": script(fail=OSError("down"))})
    finally:
        uninstrument()
    assert len(log) == 3
    assert [event for event in log if "trace_id" in event or "span_id" in event] == []


@on_all
async def test_a_trace_that_is_not_sampled_has_ids_all_the_same() -> None:
    """Nothing is kept of it, but the log names it, and what the arms call belongs to it."""
    seen = []

    async def arm() -> AsyncIterator[str]:
        seen.append(get_current_span().get_span_context())
        yield "x"

    with instrumented(sampler=ALWAYS_OFF) as kept, capture_events() as log:
        await fuse_arms({"a": arm()})
    assert kept.spans == []
    assert {event["trace_id"] for event in log} == {format(seen[0].trace_id, "032x")}
    assert not seen[0].trace_flags.sampled


# --- on and off -------------------------------------------------------------------------------------------


@on_all
async def test_to_instrument_again_changes_nothing_but_the_provider() -> None:
    """Each fusion has one span, at the provider that was given last; off again there is none."""
    with instrumented() as first:
        instrument(first.provider)
        await fuse_arms({"a": ["x"]})
        assert first.tree() == {"retrieval a": FUSION, FUSION: None}
        with instrumented() as second:
            await fuse_arms({"a": ["x"]})
            assert second.tree() == {"retrieval a": FUSION, FUSION: None}
        await fuse_arms({"a": ["x"]})
        uninstrument()
        assert len(first.spans) == len(second.spans) == 2


@on_all
async def test_a_fusion_that_runs_is_traced_to_its_end() -> None:
    """One that started before it was switched off is; one from before it was switched on is not at all."""
    async with open_fusion({"before": script("x", hang=True)}) as early:
        await anext(early)
        with instrumented() as kept:
            fusion = open_fusion({"a": script("x", hang=True)})
            await anext(fusion)
            uninstrument()
            await fusion.aclose()
            early.stop()
            await early.final()
            assert kept.tree() == {"retrieval a": FUSION, FUSION: None}


@on_all
async def test_while_it_is_off_an_arm_has_the_span_of_the_caller() -> None:
    """Contexts are kept in any case: what an arm calls is below the request, without spans of the library."""
    kept = Kept()

    async def arm() -> list[str]:
        with kept.tracer.start_as_current_span("call"):
            return ["x"]

    with kept.tracer.start_as_current_span("request"):
        await fuse_arms({"a": arm})
    assert kept.tree() == {"call": "request", "request": None}
    assert get_current_span() is INVALID_SPAN


@pytest.mark.parametrize("wrong", ["provider", 1, INVALID_SPAN])
def test_what_is_no_provider_is_refused(wrong: Any) -> None:
    """The error names the parameter, and nothing is instrumented."""
    with pytest.raises(TypeError, match="tracer_provider must be a TracerProvider, not"):
        instrument(wrong)


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python of its own, with warnings as errors."""
    return subprocess.run(  # noqa: S603 - the program is the test's own
        [sys.executable, "-W", "error", "-c", dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_provider_that_is_set_later_counts() -> None:
    """`instrument()` may come before the application has set its provider, as long as no fusion has begun."""
    ran = python("""
        import asyncio
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from rrf_stream import fuse_arms
        from rrf_stream.integrations.otel import instrument

        instrument()
        asyncio.run(fuse_arms({"a": ["x"]}))
        exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        asyncio.run(fuse_arms({"a": ["x"]}))
        print([span.name for span in exporter.get_finished_spans()])
    """)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip() == "['retrieval a', 'rrf_stream.fusion']"


def test_without_the_library_the_module_names_the_extra() -> None:
    """An import error that says what to install."""
    ran = python("""
        import sys
        sys.modules["opentelemetry"] = None
        from rrf_stream.errors import MissingExtraError
        try:
            import rrf_stream.integrations.otel
        except MissingExtraError as error:
            print(error)
    """)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("opentelemetry-api is not installed; the extra 'otel' brings it")


def test_only_who_asks_for_it_imports_it() -> None:
    """Neither the library nor its hook imports OpenTelemetry, and the module itself not the SDK."""
    ran = python("""
        import sys, rrf_stream, rrf_stream.instrumentation
        assert "opentelemetry" not in sys.modules
        import rrf_stream.integrations.otel
        assert "opentelemetry.trace" in sys.modules
        assert not [name for name in sys.modules if name.startswith("opentelemetry.sdk")]
    """)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
