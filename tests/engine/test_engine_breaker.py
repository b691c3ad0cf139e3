"""An arm that fails again and again is left alone for a while, and then tried again."""

from __future__ import annotations

import asyncio
import math
import time
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import on, read, run_virtual, statuses, turns, virtual_time
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rrf_stream import Arm, ArmReport, ArmStatus, Breaker, Outcome, Pipeline
from rrf_stream._breaker import Circuit
from rrf_stream._health import ArmHealth
from rrf_stream.errors import ArmError, DegradedError
from rrf_stream.testing import VIRTUAL_BACKENDS, capture_events, script

if TYPE_CHECKING:
    from collections.abc import Callable

    from rrf_stream import Snapshot

DOWN = OSError("down")


def breaker(failures: int = 2, cooldown: float = 30.0, jitter: float = 0.0) -> Breaker:
    """Return a breaker that goes by the clock of the event loop, in virtual time."""
    return Breaker(failures, cooldown, jitter, clock=anyio.current_time)


class Backend:
    """A retriever that does what it is told, and counts how often it was asked."""

    def __init__(self, *steps: Any, **ending: Any) -> None:
        self.asked = 0
        self.does(*steps, **ending)

    def does(self, *steps: Any, **ending: Any) -> None:
        self.steps, self.ending = steps, ending

    async def __call__(self, _: Any) -> script:
        self.asked += 1
        return script(*self.steps, **self.ending)


def with_good(bad: Backend) -> dict[str, Any]:
    """Return retrievers, of which one is always well."""
    return {"good": Backend("x"), "bad": bad}


async def opened(backend: Backend, *, failures: int = 2, **options: Any) -> Pipeline:
    """Return a pipeline of a good arm and one whose breaker has just opened."""
    pipeline = Pipeline(with_good(backend), breaker={"bad": breaker(failures)}, **options)
    backend.does(fail=DOWN)
    for _ in range(failures):
        assert statuses(await pipeline.search("q"))["bad"] is ArmStatus.FAILED
    assert pipeline.stats()["bad"].breaker == "open"
    return pipeline


# --- the policy -------------------------------------------------------------------------------------------


def test_a_breaker_has_the_defaults_that_the_page_names() -> None:
    """Five failures, half a minute, a tenth of jitter, and a clock that all event loops share."""
    policy = Breaker()
    assert (policy.failures, policy.cooldown, policy.jitter) == (5, 30.0, 0.1)
    assert policy.clock is time.monotonic
    assert 27 <= policy.pause() <= 33


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"failures": 0}, ValueError, "failures must be a whole number of at least 1, not 0"),
        ({"failures": 1.5}, TypeError, "failures must be a whole number"),
        ({"cooldown": 0}, ValueError, "cooldown must be a finite number of seconds above 0, not 0"),
        ({"cooldown": -1.0}, ValueError, "cooldown must be"),
        ({"cooldown": math.inf}, ValueError, "cooldown must be a finite number"),
        ({"cooldown": math.nan}, ValueError, "cooldown must be a finite number"),
        ({"cooldown": "30"}, TypeError, "cooldown must be a finite number"),
        ({"jitter": 1}, ValueError, "jitter must be a number of at least 0 and below 1, not 1"),
        ({"jitter": -0.1}, ValueError, "jitter must be"),
        ({"jitter": None}, TypeError, "jitter must be"),
        ({"clock": None}, TypeError, "clock must be callable, not None"),
        ({"random": 0.5}, TypeError, "random must be callable, not 0.5"),
    ],
)
def test_a_breaker_out_of_range_is_refused(options: Any, error: type[Exception], words: str) -> None:
    """The error names what is wrong, and what is wanted."""
    with pytest.raises(error, match=words):
        Breaker(**options)


@pytest.mark.parametrize(("number", "seconds"), [(0.0, 8.0), (0.5, 10.0), (0.75, 11.0)])
def test_jitter_spreads_the_cool_down_to_both_sides(number: float, seconds: float) -> None:
    """A share of .2 makes 10 seconds anything from 8 to 12."""
    policy = Breaker(1, 10.0, 0.2, clock=lambda: 100.0, random=lambda: number)
    circuit = Circuit(policy)
    assert circuit.failed(circuit.ticket)
    assert circuit.retry_after == pytest.approx(seconds)
    assert circuit.admit() == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"c": Breaker()}, ValueError, "breaker must name arms of the pipeline, a, b, not 'c'"),
        (5, TypeError, "breaker must be a Breaker, or a mapping of arm names to such, not 5"),
        (
            {"a": 5},
            TypeError,
            "breaker must be a Breaker, or a mapping of arm names to such, not of 'a' to 5",
        ),
    ],
)
def test_a_breaker_is_for_arms_that_there_are(given: Any, error: type[Exception], words: str) -> None:
    """A name that is misspelt would leave an arm without its breaker."""
    with pytest.raises(error, match=words):
        Pipeline({"a": lambda _: [], "b": lambda _: []}, breaker=given)


# --- the circuit, against a plain model -------------------------------------------------------------------


class Phase:
    """A stretch in the life of a breaker; a query belongs to the one in which it was admitted."""

    def __init__(self, kind: str, until: float = math.inf) -> None:
        self.kind = kind
        self.until = until


class CircuitMachine(RuleBasedStateMachine):
    """Any number of queries under way at once, some of which are never heard of again."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.number = 0.5
        self.circuit = Circuit(Breaker(3, 10.0, 0.5, clock=lambda: self.now, random=lambda: self.number))
        self.phase = Phase("closed")
        self.row = 0
        self.queries: list[tuple[int, Phase]] = []

    def pause(self) -> float:
        return 5 + 10 * self.number

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 5.0, 10.0, 20.0]), number=st.sampled_from([0.0, 0.25, 0.5]))
    def time_passes(self, seconds: float, number: float) -> None:
        self.now += seconds
        self.number = number

    @rule()
    def admit(self) -> None:
        retry_after = self.circuit.admit()
        if self.phase.kind == "closed":
            assert retry_after is None
        elif self.now < self.phase.until:
            assert retry_after == self.phase.until - self.now > 0
            return
        else:
            assert retry_after is None
            if self.phase.kind == "open":
                self.phase = Phase("trial")
            self.phase.until = self.now + self.pause()
        self.queries.append((self.circuit.ticket, self.phase))

    def take(self, data: st.DataObject) -> tuple[int, Phase]:
        return self.queries.pop(data.draw(st.integers(0, len(self.queries) - 1)))

    @precondition(lambda self: self.queries)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        ticket, phase = self.take(data)
        opens = phase is self.phase and (phase.kind == "trial" or self.row == 2)
        if phase is self.phase:
            self.row += 1
        assert self.circuit.failed(ticket) is opens
        if opens:
            self.phase = Phase("open", self.now + self.pause())

    @precondition(lambda self: self.queries)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        ticket, phase = self.take(data)
        closes = phase is self.phase and phase.kind == "trial"
        assert self.circuit.answered(ticket) is closes
        if phase is self.phase:
            self.row = 0
        if closes:  # what further trials say counts as what any query says
            phase.kind, phase.until = "closed", math.inf

    @precondition(lambda self: self.queries)
    @rule(data=st.data())
    def end_undecided(self, data: st.DataObject) -> None:
        ticket, phase = self.take(data)
        self.circuit.undecided(ticket)
        if phase is self.phase and phase.kind == "trial":
            phase.until = self.now

    @precondition(lambda self: self.queries)
    @rule(data=st.data())
    def vanish(self, data: st.DataObject) -> None:
        self.take(data)

    @invariant()
    def it_says_where_it_stands(self) -> None:
        due = self.now >= self.phase.until
        half = self.phase.kind == "trial" or (self.phase.kind == "open" and due)
        assert self.circuit.state == ("half_open" if half else self.phase.kind)
        expected = None if self.phase.kind == "closed" else max(0.0, self.phase.until - self.now)
        assert self.circuit.retry_after == expected
        assert self.circuit.failures == self.row


def test_a_breaker_does_what_the_plain_model_says() -> None:
    """For all queries, outcomes and delays in any order it admits, opens and closes as the model does."""
    run_state_machine_as_test(
        CircuitMachine, settings=settings(deadline=None, max_examples=150, stateful_step_count=40)
    )


def test_a_trial_that_nobody_hears_of_is_not_waited_for_for_ever() -> None:
    """Its event loop may be gone: after as long as another cool-down there is another trial."""
    now = 0.0
    circuit = Circuit(Breaker(1, 30.0, 0.0, clock=lambda: now))
    circuit.failed(circuit.ticket)
    now = 30.0
    assert circuit.admit() is None
    now = 59.0
    assert circuit.admit() == 1.0
    now = 60.0
    assert circuit.admit() is None


def test_threads_that_come_at_once_make_one_trial() -> None:
    """Whoever comes first tries the arm, and the others skip it."""

    def slow() -> float:
        time.sleep(0.001)  # lets the other threads run
        return 0.5

    def admit() -> None:
        barrier.wait()
        admitted.append(health.admit()[0])

    now = 0.0
    health = ArmHealth("a", Breaker(1, 30.0, clock=lambda: now, random=slow))
    report = ArmReport("a", ArmStatus.FAILED, 1.0, 100, 0, None, 0.0, DOWN)
    health.closed(health.admit()[1], report, None, hedged=False, second_won=False)
    now = 30.0
    barrier = Barrier(8)
    admitted: list[float | None] = []
    threads = [Thread(target=admit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(admitted, key=str) == [30.0] * 7 + [None]


# --- in a pipeline ----------------------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
async def test_an_arm_that_failed_so_often_in_a_row_is_skipped() -> None:
    """It is not even called, and the answer says so, and for how long."""
    bad = Backend()
    pipeline = await opened(bad, failures=3)
    await anyio.sleep(10)
    before = anyio.current_time()
    final = await pipeline.search("q")
    assert (anyio.current_time(), bad.asked) == (before, 3)
    assert (final.ids, final.outcome) == (["x"], Outcome.COMPLETE)
    report = final.coverage["bad"]
    assert (report.status, report.retry_after) == (ArmStatus.SKIPPED, 20)
    assert (report.received, report.first_hit_after, report.elapsed, report.error) == (0, None, 0, None)
    assert final.coverage["good"].retry_after is None
    assert (final.coverage.degraded, final.coverage.reasons) == (True, (ArmStatus.SKIPPED,))
    assert final.to_dict()["coverage"]["arms"][1]["retry_after"] == 20
    with pytest.raises(DegradedError, match="bad"):
        final.raise_for_coverage()


@pytest.mark.anyio
@virtual_time
async def test_an_arm_that_is_well_again_is_asked_again() -> None:
    """After the cool-down one query tries it; that one was answered, so all are again."""
    bad = Backend()
    pipeline = await opened(bad)
    bad.does("y")
    await anyio.sleep(30)
    assert pipeline.stats()["bad"].breaker == "half_open"
    for asked in (3, 4):
        assert (await pipeline.search("q")).coverage.full
        assert (bad.asked, pipeline.stats()["bad"].breaker) == (asked, "closed")


@pytest.mark.anyio
@virtual_time
async def test_an_arm_that_is_still_ill_is_left_alone_again() -> None:
    """One failure of a trial is enough for another cool-down."""
    bad = Backend()
    pipeline = await opened(bad)
    await anyio.sleep(30)
    assert statuses(await pipeline.search("q"))["bad"] is ArmStatus.FAILED
    skipped = (await pipeline.search("q")).coverage["bad"]
    assert (skipped.status, skipped.retry_after, bad.asked) == (ArmStatus.SKIPPED, 30, 3)


@pytest.mark.anyio
@virtual_time
async def test_there_is_one_trial_at_a_time() -> None:
    """Queries beside a trial are not held up by it: they skip the arm."""
    bad = Backend()
    pipeline = await opened(bad)
    bad.does(5.0, "y")
    await anyio.sleep(30)
    found: list[Snapshot] = []

    async def search() -> None:
        found.append(await pipeline.search("q"))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(search)
    seen = [(str(final.coverage["bad"].status), final.coverage["bad"].retry_after) for final in found]
    assert sorted(seen, key=str) == [("exhausted", None), *[("skipped", 30)] * 9]
    assert (await pipeline.search("q")).coverage.full


@pytest.mark.anyio
@virtual_time
async def test_a_trial_that_shows_nothing_makes_room_for_the_next() -> None:
    """Its reader left before the arm had shown how it is, so the next query tries it."""
    bad = Backend()
    pipeline = await opened(bad)
    bad.does(hang=True)
    await anyio.sleep(30)
    async with pipeline.open("q") as fusion:
        assert statuses(await anext(fusion))["bad"] is ArmStatus.WAITING
    bad.does("y")
    assert (await pipeline.search("q")).coverage.full


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize(
    ("status", "steps", "options", "arm_options"),
    [
        (ArmStatus.FAILED, {"fail": DOWN}, {}, {}),
        (ArmStatus.DEADLINE, {"hang": True}, {"timeout": 1}, {}),
        (ArmStatus.TIMED_OUT, {"hang": True}, {}, {"timeout": 1}),
        (ArmStatus.IDLE, {"hang": True}, {}, {"idle_timeout": 1}),
    ],
)
async def test_failures_and_time_outs_count(
    status: ArmStatus, steps: Any, options: Any, arm_options: Any
) -> None:
    """An arm that raised, or that was too late in any way, is ill, whatever it delivered before."""
    pipeline = Pipeline([Arm("bad", Backend("y", **steps), **arm_options)], breaker=breaker(), **options)
    for expected in (status, status, ArmStatus.SKIPPED):
        assert statuses(await pipeline.search("q"))["bad"] is expected


@pytest.mark.anyio
@virtual_time
async def test_an_answer_in_full_starts_the_count_again() -> None:
    """It is failures in a row that count; a full window is an answer like any other."""
    bad = Backend()
    pipeline = Pipeline([Arm("bad", bad, window=1)], breaker=breaker(2))
    for steps in ((), ("y",), (), ("y",), ()):
        bad.does(*steps, fail=DOWN)
        final = await pipeline.search("q")
        assert statuses(final)["bad"] is (ArmStatus.WINDOW_FULL if steps else ArmStatus.FAILED)
    assert pipeline.stats()["bad"].breaker == "closed"


@pytest.mark.anyio
@virtual_time
async def test_an_arm_that_was_not_waited_for_is_not_ill() -> None:
    """Stopped by a quorum, or left by its reader, it neither failed nor answered: the count stays."""
    bad = Backend(fail=DOWN)
    pipeline = Pipeline(with_good(bad), breaker=breaker(2), quorum=0.5, patience=1.0)
    await pipeline.search("q")
    bad.does(hang=True)
    for _ in range(3):
        assert statuses(await pipeline.search("q"))["bad"] is ArmStatus.STOPPED
    async with pipeline.open("q") as fusion:
        await anext(fusion)
    assert pipeline.stats()["bad"].statuses[ArmStatus.CANCELLED] == 1
    assert pipeline.stats()["bad"].breaker == "closed"
    bad.does(fail=DOWN)
    await pipeline.search("q")
    assert pipeline.stats()["bad"].breaker == "open"


@pytest.mark.anyio
@virtual_time
async def test_queries_from_before_it_opened_do_not_count_any_more() -> None:
    """Ten queries at once fail one after the other: the third opens it, the rest do not prolong that."""

    async def bad(seconds: float) -> script:
        return script(seconds, fail=DOWN)

    pipeline = Pipeline({"bad": bad}, breaker=breaker(3))
    async with anyio.create_task_group() as group:
        for number in range(1, 11):
            group.start_soon(pipeline.search, float(number))
    assert anyio.current_time() == 10
    assert pipeline.stats()["bad"].retry_after == 30 - 7


@pytest.mark.anyio
@virtual_time
async def test_a_skipped_arm_has_ended_for_the_quorum() -> None:
    """Nobody waits for it."""
    bad = Backend()
    pipeline = await opened(bad)
    before = anyio.current_time()
    final = await pipeline.search("q", quorum=0.5)
    assert anyio.current_time() == before
    assert statuses(final)["bad"] is ArmStatus.SKIPPED


@pytest.mark.anyio
@virtual_time
async def test_a_required_arm_that_is_skipped_fails_the_fusion_at_once() -> None:
    """Without it there is no answer, so the others are not waited for."""
    bad = Backend(fail=DOWN)
    arms = [Arm("good", Backend(5.0, "x")), Arm("bad", bad, required=True)]
    pipeline = Pipeline(arms, breaker={"bad": breaker(1)})
    with pytest.raises(ArmError):
        await pipeline.search("q")
    before = anyio.current_time()
    with pytest.raises(ArmError, match="bad") as caught:
        await pipeline.search("q")
    assert (caught.value.arm, anyio.current_time(), bad.asked) == ("bad", before, 1)


@pytest.mark.anyio
@virtual_time
async def test_an_answer_of_skipped_arms_only_is_empty_at_once() -> None:
    """It is final, degraded, and read like any other."""
    pipeline = Pipeline({"a": Backend(fail=DOWN), "b": Backend(fail=DOWN)}, breaker=breaker(1))
    await pipeline.search("q")
    before = anyio.current_time()
    (final,) = await read(pipeline.open("q"))
    assert anyio.current_time() == before
    assert (final.ids, final.outcome, final.coverage.degraded) == ([], Outcome.COMPLETE, True)
    assert final.coverage.weight_fraction == 0


@pytest.mark.anyio
@virtual_time
async def test_each_arm_of_each_pipeline_has_a_breaker_of_its_own() -> None:
    """One policy serves many; what it decides for one arm says nothing of another."""
    policy = breaker(1)
    first, second = (Pipeline(with_good(Backend(fail=DOWN)), breaker=policy) for _ in range(2))
    await first.search("q")
    assert [first.stats()[arm].breaker for arm in ("good", "bad")] == ["closed", "open"]
    assert second.stats()["bad"].breaker == "closed"


@pytest.mark.anyio
@virtual_time
async def test_opening_and_closing_are_reported() -> None:
    """One event each, the first as a warning that says why and for how long."""
    bad = Backend(fail=DOWN)
    pipeline = Pipeline({"bad": bad}, breaker=breaker(2))
    with capture_events() as events:
        for _ in range(4):
            await pipeline.search("q")
        bad.does("y")
        await anyio.sleep(30)
        await pipeline.search("q")
        await pipeline.search("q")
    assert [event for event in events if "breaker" in event["event"]] == [
        {
            "event": "rrf_stream.breaker_opened",
            "log_level": "warning",
            "arm": "bad",
            "failures": 2,
            "status": "failed",
            "error": "OSError('down')",
            "retry_after_ms": 30000.0,
        },
        {"event": "rrf_stream.breaker_closed", "log_level": "info", "arm": "bad"},
    ]


@pytest.mark.anyio
async def test_a_breaker_is_shared_by_event_loops_and_threads() -> None:
    """What fails on one loop is skipped on the next, as the clock is not a loop's."""
    bad = Backend(fail=DOWN)
    pipeline = Pipeline({"bad": bad}, breaker=Breaker(2))
    await pipeline.search("q")

    def elsewhere(backend: str) -> Callable[[], Snapshot]:
        return lambda: anyio.run(pipeline.search, "q", backend=backend)

    for backend, status in [("asyncio", ArmStatus.FAILED), ("trio", ArmStatus.SKIPPED)]:
        final = await anyio.to_thread.run_sync(elsewhere(backend))
        assert statuses(final)["bad"] is status
    assert bad.asked == 2


# --- what is not asked ------------------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("state", ["closed", "open", "half_open"])
@pytest.mark.parametrize("way", ["stop", "leave"])
async def test_a_query_that_ends_before_its_start_asks_nobody(way: str, state: str) -> None:
    """No retriever is called, and the trial that is due is left to the next query."""
    good, bad = Backend("x"), Backend()
    pipeline = Pipeline({"good": good, "bad": bad}, breaker={"bad": breaker(1)})
    if state != "closed":
        bad.does(fail=DOWN)
        await pipeline.search("q")
    bad.does("y")
    await anyio.sleep(30 if state == "half_open" else 10)
    before = good.asked, bad.asked
    fusion = pipeline.open("q")
    if way == "stop":
        fusion.stop()
        (final,) = await read(fusion)
        assert (final.outcome, set(statuses(final).values())) == (Outcome.STOPPED, {ArmStatus.STOPPED})
    else:
        await fusion.aclose()
        assert set(statuses(await fusion.final()).values()) == {ArmStatus.CANCELLED}
    await turns()
    assert (good.asked, bad.asked) == before
    stats = pipeline.stats()["bad"]
    assert (stats.breaker, stats.skipped) == (state, 0)
    assert stats.retry_after == {"closed": None, "open": 20, "half_open": 0}[state]
    assert statuses(await pipeline.search("q"))["bad"] is (
        ArmStatus.SKIPPED if state == "open" else ArmStatus.EXHAUSTED
    )


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("first", ["good", "bad"])
@pytest.mark.parametrize("why", ["required", "quorum"])
async def test_a_skip_that_decides_the_answer_starts_no_other_arm(why: str, first: str) -> None:
    """What a skipped arm ends has ended before anybody is asked, on every event loop."""
    good, bad = Backend("x"), Backend(fail=DOWN)
    arms = [Arm("good", good), Arm("bad", bad, required=why == "required")]
    pipeline = Pipeline(arms if first == "good" else arms[::-1], breaker={"bad": breaker(1)})
    if why == "required":
        with pytest.raises(ArmError):
            await pipeline.search("q")
        before = good.asked
        with pytest.raises(ArmError):
            await pipeline.search("q")
    else:
        await pipeline.search("q")
        before = good.asked
        final = await pipeline.search("q", quorum=0.5)
        assert final.outcome is Outcome.QUORUM
        assert statuses(final) == {"good": ArmStatus.STOPPED, "bad": ArmStatus.SKIPPED}
    await turns()
    assert (good.asked, bad.asked) == (before, 1)


@pytest.mark.anyio
@on("asyncio-virtual")
@pytest.mark.parametrize("state", ["closed", "half_open"])
async def test_a_shut_down_is_no_failure_of_the_arm(state: str) -> None:
    """Somebody else who cancels the arm's task says nothing of the arm."""
    bad = Backend()
    pipeline = Pipeline({"bad": bad}, breaker=breaker(1))
    if state == "half_open":
        bad.does(fail=DOWN)
        await pipeline.search("q")
        await anyio.sleep(30)
    bad.does("x", hang=True)
    async with pipeline.open("q") as fusion:
        await anext(fusion)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "rrf:bad"]
        task.cancel()
        final = await fusion.final()
    assert isinstance(final.coverage["bad"].error, asyncio.CancelledError)
    assert pipeline.stats()["bad"].breaker == state
    bad.does("x")
    assert (await pipeline.search("q")).coverage.full


@pytest.mark.parametrize("name", VIRTUAL_BACKENDS)
def test_an_event_loop_that_ends_opens_no_breaker(name: str) -> None:
    """Arms that were at work at the time are no worse for that."""
    bad = Backend("x", hang=True)
    pipeline = Pipeline({"bad": bad}, breaker=Breaker(1))
    kept: list[Any] = []

    async def main() -> None:
        kept.append(pipeline.open("q"))
        await anext(kept[0])

    run_virtual(name, main)
    stats = pipeline.stats()["bad"]
    assert (stats.queries, stats.breaker) == (1, "closed")


# --- a clock that raises ----------------------------------------------------------------------------------


class Moody:
    """A clock, and a source of random numbers, that may raise."""

    def __init__(self) -> None:
        self.now = 0.0
        self.broken = {"clock": False, "random": False}

    def policy(self, failures: int) -> Breaker:
        return Breaker(failures, 32.0, 0.5, clock=self.clock, random=self.random)

    def clock(self) -> float:
        if self.broken["clock"]:
            raise ZeroDivisionError("no time")
        return self.now

    def random(self) -> float:
        if self.broken["random"]:
            raise ZeroDivisionError("no luck")
        return 0.5


async def search_with_broken(
    moody: Moody, what: str, pipeline: Pipeline
) -> tuple[Snapshot, list[dict[str, Any]]]:
    """Search while something of the policy raises; return the answer, and what is reported of that."""
    moody.broken[what] = True
    with capture_events() as events:
        final = await pipeline.search("q")
        await turns()
    moody.broken[what] = False
    return final, [event for event in events if event["event"] == "rrf_stream.health_failed"]


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize(("what", "at"), [("clock", 8.0), ("clock", 32.0), ("random", 32.0)])
async def test_a_policy_that_raises_at_the_start_lets_the_arm_be_read(what: str, at: float) -> None:
    """Whether to skip it cannot be told, so it is asked; the breaker stays as it is."""
    moody, bad = Moody(), Backend(fail=DOWN)
    pipeline = Pipeline(with_good(bad), breaker={"bad": moody.policy(1)})
    await pipeline.search("q")
    moody.now = at
    before = pipeline.stats()["bad"]
    bad.does("y")
    final, failures = await search_with_broken(moody, what, pipeline)
    assert (final.ids, final.coverage.full, bad.asked) == (["x", "y"], True, 2)
    assert [(event["log_level"], event["arm"]) for event in failures] == [("warning", "bad")]
    assert "ZeroDivisionError" in failures[0]["error"]
    after = pipeline.stats()["bad"]
    assert (after.breaker, after.retry_after) == (before.breaker, before.retry_after)
    assert after.queries == 2
    moody.now = 32.0
    assert (await pipeline.search("q")).coverage.full
    assert pipeline.stats()["bad"].breaker == "closed"


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("what", ["clock", "random"])
async def test_a_policy_that_raises_at_the_end_leaves_the_breaker_closed(what: str) -> None:
    """The failure that would have opened it is lost, the answer is not; the next one opens it in full."""
    moody, bad = Moody(), Backend(fail=DOWN)
    pipeline = Pipeline(with_good(bad), breaker={"bad": moody.policy(2)})
    await pipeline.search("q")
    final, failures = await search_with_broken(moody, what, pipeline)
    assert (final.ids, statuses(final)["bad"], bad.asked) == (["x"], ArmStatus.FAILED, 2)
    assert [(event["log_level"], event["arm"]) for event in failures] == [("warning", "bad")]
    stats = pipeline.stats()["bad"]
    assert (stats.breaker, stats.retry_after, stats.failed) == ("closed", None, 2)
    await pipeline.search("q")
    stats = pipeline.stats()["bad"]
    assert (stats.breaker, stats.retry_after) == ("open", 32)


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("ending", ["fails", "is left"])
async def test_a_policy_that_raises_during_a_trial_loses_no_trial(ending: str) -> None:
    """The breaker goes on with its trial, and when that has been long enough there is another."""
    moody, bad = Moody(), Backend(fail=DOWN)
    pipeline = Pipeline({"bad": bad}, breaker=moody.policy(1))
    await pipeline.search("q")
    moody.now = 32.0
    bad.does(1.0, fail=DOWN)
    with capture_events() as events:
        async with pipeline.open("q") as fusion:
            assert pipeline.stats()["bad"].breaker == "half_open"
            moody.broken["clock"] = True
            if ending == "fails":
                await fusion.final()
    moody.broken["clock"] = False
    assert [event["arm"] for event in events if event["event"] == "rrf_stream.health_failed"] == ["bad"]
    assert (pipeline.stats()["bad"].breaker, pipeline.stats()["bad"].retry_after) == ("half_open", 32)
    bad.does("y")
    assert statuses(await pipeline.search("q"))["bad"] is ArmStatus.SKIPPED
    moody.now = 64.0
    assert (await pipeline.search("q")).coverage.full
    assert pipeline.stats()["bad"].breaker == "closed"
