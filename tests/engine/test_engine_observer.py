"""Who watches fusions is told of all that happens, in the right context, and cannot do any harm."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from engine_kit import hanging, on, read, run_python, statuses, turns, virtual_time

from rrf_stream import (
    Arm,
    ArmReport,
    ArmStatus,
    Breaker,
    Coverage,
    Hedging,
    Outcome,
    Pipeline,
    Snapshot,
    drain,
    fuse_arms,
    in_thread,
    open_fusion,
)
from rrf_stream._log import Journal
from rrf_stream.errors import ArmError
from rrf_stream.instrumentation import FusionObserver, FusionStart, Observer, add_observer, remove_observer
from rrf_stream.testing import capture_events, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio

span: ContextVar[str] = ContextVar("span", default="none")


class Diary(FusionObserver):
    """Writes down what it is told."""

    def __init__(self, told: list[Any]) -> None:
        self.told = told

    def arm_started(self, arm: ArmReport, attempt: int) -> None:
        self.told.append(("arm started", arm.name, str(arm.status), attempt, span.get()))
        span.set(f"{arm.name} {attempt}")

    def attempt_failed(self, arm: str, attempt: int, error: BaseException | None) -> None:
        self.told.append(("attempt failed", arm, attempt, repr(error)))

    def arm_closed(self, arm: ArmReport, attempt: int) -> None:
        self.told.append(("arm closed", arm.name, str(arm.status), attempt))

    def snapshot_shown(self, snapshot: Snapshot) -> None:
        self.told.append(("shown", snapshot.seq, snapshot.final))

    def fusion_ended(self, outcome: Outcome, coverage: Coverage, elapsed: float) -> None:
        self.told.append(("ended", str(outcome), [arm.name for arm in coverage], round(elapsed, 6)))

    def fusion_left(self) -> None:
        self.told.append(("left",))

    def log_fields(self, arm: str | None) -> dict[str, Any]:
        return {"span": arm or "fusion"}


class Diaries(Observer):
    """Has a diary kept of every fusion."""

    def __init__(self) -> None:
        self.starts: list[FusionStart] = []
        self.told: list[Any] = []

    def fusion_started(self, fusion: FusionStart) -> Diary:
        self.starts.append(fusion)
        self.told.append(("started", span.get()))
        return Diary(self.told)

    def log_fields(self) -> dict[str, Any]:
        return {"span": span.get()}

    def of(self, what: str) -> list[Any]:
        return [entry for entry in self.told if entry[0] == what]


@contextmanager
def watching(*several: Observer) -> Iterator[None]:
    """Have all fusions watched while the context is open."""
    for observer in several:
        add_observer(observer)
    try:
        yield
    finally:
        for observer in several:
            remove_observer(observer)


@pytest.fixture
def diaries() -> Iterator[Diaries]:
    """A diary of every fusion of the test."""
    kept = Diaries()
    with watching(kept):
        yield kept


async def span_here() -> list[str]:
    return [span.get()]


async def span_streamed() -> AsyncIterator[str]:
    await anyio.lowlevel.checkpoint()
    yield span.get()


def span_in_thread() -> Iterator[str]:
    yield span.get()


# --- what is told, and when -------------------------------------------------------------------------------


@virtual_time
async def test_a_fusion_is_told_from_its_start_to_its_end(diaries: Diaries) -> None:
    """Each arm when it starts and when it ends, every snapshot that is read, the end, and the leaving."""
    arms = {"a": script(0.1, "x", 0.1), "b": script(0.3, "y", 0.1, fail=OSError("down"))}
    snapshots = await read(open_fusion(arms, timeout=1))
    assert len(snapshots) == 4
    assert diaries.told == [
        ("started", "none"),
        ("arm started", "a", "waiting", 1, "none"),
        ("arm started", "b", "waiting", 1, "none"),
        ("shown", 1, False),
        ("arm closed", "a", "exhausted", 1),
        ("shown", 2, False),
        ("shown", 3, False),
        ("arm closed", "b", "failed", 1),
        ("ended", "complete", ["a", "b"], 0.4),
        ("shown", 4, True),
        ("left",),
    ]


async def test_the_start_tells_arms_and_options(diaries: Diaries) -> None:
    """The number is that of the log, the arms are open with weight and window, and every option is there."""
    arms = [Arm("a", ["x"], weight=2.0, window=5), Arm("b", ["y"])]
    with capture_events() as events:
        await fuse_arms(arms, top_k=3, timeout=2)
    (start,) = diaries.starts
    assert {event["fusion"] for event in events} == {start.number}
    assert [(arm.name, arm.status, arm.weight, arm.window, arm.received) for arm in start.arms] == [
        ("a", ArmStatus.WAITING, 2.0, 5, 0),
        ("b", ArmStatus.WAITING, 1.0, 100, 0),
    ]
    assert {**start.options} == {
        "top_k": 3,
        "rank_constant": 60,
        "kernel": None,
        "timeout": 2,
        "deadline": None,
        "key": None,
        "representative": None,
        "repeats": "consume",
        "quorum": None,
        "patience": 0.0,
        "until": "complete",
        "settle": None,
        "min_interval": 0.0,
        "bounds": "settled",
        "grace": 0.05,
    }


@pytest.mark.parametrize("way", ["fuse_arms", "search", "open", "unentered", "final"])
async def test_whoever_opens_a_fusion_it_is_told_whole(way: str, diaries: Diaries) -> None:
    """One start, one end, the final snapshot once, and one leaving, in this order."""
    pipeline = Pipeline({"a": lambda _: ["x"]})
    if way == "fuse_arms":
        await fuse_arms({"a": ["x"]})
    elif way == "search":
        await pipeline.search("q")
    elif way == "open":
        await read(pipeline.open("q"))
    elif way == "unentered":
        assert [snapshot async for snapshot in open_fusion({"a": ["x"]})]
    else:
        async with open_fusion({"a": ["x"]}) as fusion:
            assert await fusion.final() == await fusion.final()
            await fusion.aclose()
    await turns()
    told = [entry for entry in diaries.told if entry[:1] != ("shown",) or entry[2]]
    assert [entry[0] for entry in told] == ["started", "arm started", "arm closed", "ended", "shown", "left"]


@pytest.mark.parametrize(
    ("ending", "outcome", "status"),
    [
        ("deadline", "deadline", "deadline"),
        ("timeout", "complete", "timed_out"),
        ("quorum", "quorum", "stopped"),
        ("stop", "stopped", "stopped"),
        ("left", "stopped", "cancelled"),
        ("failed", "failed", "stopped"),
    ],
)
@virtual_time
async def test_every_arm_is_told_before_the_end(
    ending: str, outcome: str, status: str, diaries: Diaries
) -> None:
    """However a fusion ends, each arm is told once with its final status, and the end comes after."""
    timeout = 0.5 if ending == "timeout" else None
    arms = [Arm("a", script("x")), Arm("b", script("y", hang=True), timeout=timeout)]
    if ending == "failed":
        arms.append(Arm("must", script(0.1, fail=OSError("down")), required=True))
    options: dict[str, Any] = {"deadline": {"timeout": 0.5}, "quorum": {"quorum": 0.5}}.get(ending, {})
    async with open_fusion(arms, **options) as fusion:
        await turns()
        if ending == "stop":
            fusion.stop()
        if ending == "failed":
            with pytest.raises(ArmError):
                await fusion.final()
        elif ending != "left":
            await fusion.final()
    closed = diaries.of("arm closed")
    assert sorted(entry[1] for entry in closed) == sorted(arm.name for arm in arms)
    assert ("arm closed", "b", status, 1) in closed
    (ended,) = diaries.of("ended")
    assert ended[1] == outcome
    assert diaries.told.index(ended) > max(map(diaries.told.index, closed))


async def test_an_arm_that_is_not_read_is_closed_without_a_start(diaries: Diaries) -> None:
    """A skipped arm never started; nor did any of a fusion that was left before it began."""
    pipeline = Pipeline({"a": lambda _: script(fail=OSError("down"))}, breaker=Breaker(failures=1))
    await pipeline.search("q")
    diaries.told.clear()
    final = await pipeline.search("q")
    assert statuses(final) == {"a": ArmStatus.SKIPPED}
    await open_fusion({"b": script("x")}).aclose()
    assert diaries.of("arm started") == []
    assert diaries.of("arm closed") == [
        ("arm closed", "a", "skipped", 1),
        ("arm closed", "b", "cancelled", 1),
    ]
    assert len(diaries.of("ended")) == len(diaries.of("left")) == 2


@pytest.mark.parametrize("when", ["running", "ended", "read"])
@virtual_time
async def test_a_fusion_that_is_dropped_is_left(when: str, diaries: Diaries) -> None:
    """Dropped with arms that run, or with a final snapshot that nobody reads: `fusion_left` comes, once."""
    fusion = open_fusion({"a": script("x", 0.25, hang=when == "running")})
    await anext(fusion)
    await anyio.sleep(0.5)
    if when == "read":
        await anext(fusion)
    assert diaries.of("left") == []
    assert len(diaries.of("ended")) == (when != "running")
    assert [entry[1:] for entry in diaries.of("shown")] == [(1, False), (2, True)][: 1 + (when == "read")]
    del fusion
    await turns(10)
    assert [entry[0] for entry in diaries.told if entry[0] in {"ended", "left"}] == ["ended", "left"]
    assert await drain(5) == []


# --- contexts ---------------------------------------------------------------------------------------------


async def test_what_is_set_when_an_arm_starts_is_seen_by_that_arm_alone(diaries: Diaries) -> None:
    """On the event loop, in a thread, in a thread with a loop of its own; not by the reader nor by others."""
    del diaries
    sources = {
        "coroutine": span_here(),
        "generator": span_streamed(),
        "function": lambda: [span.get()],
        "thread": span_in_thread,
        "own loop": in_thread(span_streamed),
        "iterator": span_in_thread(),
    }
    span.set("reader")
    final = await fuse_arms(sources, top_k=len(sources), key=lambda seen: f"{seen}")
    assert final.coverage.full
    assert sorted(final.ids) == sorted(f"{name} 1" for name in sources)
    assert span.get() == "reader"


async def test_an_arm_has_the_context_of_the_start_not_of_the_first_reader(diaries: Diaries) -> None:
    """That of whoever entered the fusion; of the first reader only where nobody did."""
    span.set("enters")
    async with open_fusion({"a": ["x"]}) as fusion:
        span.set("reads")
        await fusion.final()
    await open_fusion({"b": ["x"]}).final()
    assert diaries.of("started") == [("started", "enters"), ("started", "reads")]
    assert [entry[-1] for entry in diaries.of("arm started")] == ["enters", "reads"]


@pytest.mark.parametrize("watched", [True, False])
async def test_a_second_attempt_has_the_context_of_the_start(watched: bool) -> None:  # noqa: FBT001
    """Not that of an arm whose result made somebody look at the clock again."""
    seen = []

    async def slow(_: str) -> AsyncIterator[str]:
        seen.append(span.get())
        await anyio.sleep(0.2 if len(seen) == 1 else 0.0)
        yield f"{len(seen)}"

    async def quick(_: str) -> AsyncIterator[str]:
        span.set("another arm's")
        for number in range(20):
            await anyio.sleep(0.001)
            yield f"q{number}"

    diaries = Diaries()
    span.set("request")
    with watching(*[diaries] if watched else []):
        pipeline = Pipeline(
            {"slow": slow, "quick": quick}, hedging={"slow": Hedging(after=0.03)}, until="settled", top_k=30
        )
        final = await pipeline.search("q")
    assert final.coverage["slow"].status is ArmStatus.EXHAUSTED
    assert seen == (["slow 1", "slow 2"] if watched else ["request", "request"])
    starts = [entry for entry in diaries.of("arm started") if entry[1] == "slow"]
    assert starts == [("arm started", "slow", "waiting", n, "request") for n in (1, 2) if watched]
    if watched:
        assert ("arm closed", "slow", "exhausted", 2) in diaries.told
    await drain(5)


@virtual_time
async def test_an_attempt_that_fails_is_told(diaries: Diaries) -> None:
    """Of two attempts the one that failed, with its error; the arm is closed by the other."""
    attempts = [script(2.0, fail=OSError("down")), script(2.0, "x")]
    pipeline = Pipeline({"a": lambda _: attempts.pop(0)}, hedging=Hedging(after=1.0))
    await pipeline.search("q")
    assert diaries.of("attempt failed") == [("attempt failed", "a", 1, "OSError('down')")]
    assert diaries.of("arm closed") == [("arm closed", "a", "exhausted", 2)]


# --- events of the log ------------------------------------------------------------------------------------


@virtual_time
async def test_events_have_the_fields_of_the_observer(diaries: Diaries) -> None:
    """Those about an arm have the arm's, whoever reports them; that about the fusion has the fusion's."""
    del diaries
    arms = {"hangs": script("x", hang=True, cleanup=1.0, shield=True), "fails": script(fail=OSError("down"))}
    with capture_events() as events:
        await fuse_arms(arms, timeout=0.5)
        assert await drain() == []
    assert [(event["event"].partition(".")[2], event["span"]) for event in events] == [
        ("arm_closed", "fails"),
        ("arm_closed", "hangs"),
        ("fusion_closed", "fusion"),
        ("arm_abandoned", "hangs"),
    ]


async def test_events_of_no_fusion_have_fields_too(diaries: Diaries) -> None:
    """A breaker belongs to all queries: its event says what is current where it opens."""
    del diaries
    pipeline = Pipeline({"a": lambda _: script(fail=OSError("down"))}, breaker=Breaker(failures=1))
    with capture_events() as events:
        await pipeline.search("q")
    (opened,) = [event for event in events if event["event"] == "rrf_stream.breaker_opened"]
    assert opened["span"] == "a 1"


# --- no harm ----------------------------------------------------------------------------------------------


class Broken(FusionObserver):
    """Raises whatever it is told."""

    def raises(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("a broken observer")

    arm_started = attempt_failed = arm_closed = snapshot_shown = raises
    fusion_ended = fusion_left = log_fields = raises


class Breaks(Observer):
    """Raises at once, or whenever a fusion tells something."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once

    def fusion_started(self, _: FusionStart) -> FusionObserver:
        if self.at_once:
            raise RuntimeError("a broken observer")
        return Broken()

    def log_fields(self) -> dict[str, Any]:
        raise RuntimeError("a broken observer")


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_observer_that_raises_does_no_harm(at_once: bool) -> None:  # noqa: FBT001
    """The answer, the events and what another observer is told are as ever; each failure is a warning."""
    diaries = Diaries()
    with watching(Breaks(at_once=at_once), diaries), capture_events() as events:
        snapshots = await read(open_fusion({"a": ["x"], "b": script(fail=OSError("down"))}))
    assert snapshots[-1].ids == ["x"]
    assert statuses(snapshots[-1]) == {"a": ArmStatus.EXHAUSTED, "b": ArmStatus.FAILED}
    failures = [event for event in events if event["event"] == "rrf_stream.observer_failed"]
    others = [event for event in events if event not in failures]
    assert [event["event"] for event in others] == [
        "rrf_stream.arm_closed",
        "rrf_stream.arm_closed",
        "rrf_stream.fusion_closed",
    ]
    assert len(failures) == (1 if at_once else len(diaries.told) - 1)
    assert {event["log_level"] for event in failures} == {"warning"}
    assert {event["error"] for event in failures} == {"RuntimeError('a broken observer')"}
    assert diaries.told[-1] == ("left",)


async def test_an_observer_may_take_no_interest() -> None:
    """One that returns None for a fusion is told no more of it, and nobody waits for it to be left."""

    class Counting(Observer):
        fusions = 0

        def fusion_started(self, fusion: FusionStart) -> None:
            assert fusion.arms
            self.fusions += 1

    counting, silent = Counting(), Observer()
    with watching(counting, silent):
        fusion = open_fusion({"a": ["x"]})
        await fusion.final()
        assert not fusion._run.journal.watched
    assert counting.fusions == 1


@virtual_time
async def test_methods_that_are_not_overridden_do_nothing() -> None:
    """An observer with no methods of its own changes nothing, in the events neither."""

    class Idle(Observer):
        def fusion_started(self, _: FusionStart) -> FusionObserver:
            return FusionObserver()

    attempts = [script(0.05, fail=OSError("down")), script(0.05, "x")]
    pipeline = Pipeline({"a": lambda _: attempts.pop(0)}, hedging=Hedging(after=0.01))
    with watching(Idle()), capture_events() as events:
        final = await pipeline.search("q")
    assert final.ids == ["x"]
    assert {*events[0]} == {"event", "log_level", "fusion", "arm", "attempt", "error"}


# --- who is told ------------------------------------------------------------------------------------------


async def test_nobody_is_told_twice_and_a_running_fusion_is_told_to_its_end() -> None:
    """To add again changes nothing, and to remove concerns what starts later; both may be done idly."""
    diaries = Diaries()
    remove_observer(diaries)
    add_observer(diaries)
    add_observer(diaries)
    async with open_fusion(hanging("x")) as fusion:
        await anext(fusion)
        remove_observer(diaries)
        remove_observer(diaries)
        await fuse_arms({"a": ["x"]})
    assert [entry[0] for entry in diaries.told] == [
        "started",
        "arm started",
        "shown",
        "arm closed",
        "ended",
        "left",
    ]


@pytest.mark.parametrize("entered", [True, False])
async def test_nobody_is_told_after_leaving(entered: bool, diaries: Diaries) -> None:  # noqa: FBT001
    """Who asks a fusion that was left for its final snapshot gets it, and that is no news."""
    fusion = open_fusion(hanging("x"))
    if entered:
        async with fusion:
            await anext(fusion)
    else:
        await fusion.aclose()
    told = [*diaries.told]
    assert told[-1] == ("left",)
    assert (await fusion.final()).final
    await fusion.aclose()
    del fusion
    await turns()
    assert diaries.told == told


@pytest.mark.parametrize("wrong", [None, Observer, FusionObserver(), print])
async def test_only_observers_can_be_added(wrong: Any) -> None:
    """The class itself, an observer of one fusion and a function are refused, by name."""
    with pytest.raises(TypeError, match="observer must be an Observer, not"):
        add_observer(wrong)


async def test_where_nobody_watches_the_journal_is_the_plain_one() -> None:
    """A fusion looks for observers once, and then tells nobody: it has nothing of what tells them."""
    async with open_fusion({"a": ["x"]}) as fusion:
        diaries = Diaries()
        with watching(diaries):
            await fusion.final()
    assert type(fusion._run.journal) is Journal
    assert diaries.told == []


@on("asyncio")
async def test_a_watched_fusion_is_collected_when_it_is_dropped() -> None:
    """In a program of its own: with garbage collection off, nothing is left of a fusion that was watched."""
    ran = run_python("""
        import asyncio, gc, weakref
        from rrf_stream import open_fusion
        from rrf_stream.instrumentation import FusionObserver, Observer, add_observer
        gc.disable()
        told = []
        class One(FusionObserver):
            def fusion_left(self):
                told.append("left")
        class All(Observer):
            def fusion_started(self, fusion):
                return One()
        add_observer(All())
        async def hangs():
            yield "x"
            await asyncio.Event().wait()
        async def main():
            fusion = open_fusion({"a": hangs()})
            await anext(fusion)
            run = weakref.ref(fusion._run)
            del fusion
            await asyncio.sleep(0.01)
            assert told == ["left"]
            assert run() is None
        asyncio.run(main())
    """)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
