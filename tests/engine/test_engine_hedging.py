"""An arm that is later than usual is asked a second time; the first attempt to deliver wins."""

from __future__ import annotations

import math
import random
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import pytest
from engine_kit import (
    assert_is_batch,
    ended,
    on,
    read,
    received,
    run_virtual,
    statuses,
    turns,
    virtual_time,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from rrf_stream import Arm, ArmReport, ArmStatus, Breaker, Hedging, Page, Pipeline, drain
from rrf_stream._health import ArmHealth
from rrf_stream.testing import capture_events, script

if TYPE_CHECKING:
    from collections.abc import Iterable


class Attempts:
    """A retriever with one script for each time it is asked."""

    def __init__(self, *scripts: script) -> None:
        self.left = list(scripts)
        self.made: list[script] = []
        self.at: list[float] = []

    async def __call__(self, _: Any) -> script:
        self.at.append(anyio.current_time())
        self.made.append(self.left.pop(0))
        return self.made[-1]


def hedged(*scripts: script, after: float = 1.0, **options: Any) -> tuple[Pipeline, Attempts]:
    """Return a pipeline of one arm that is asked again after a second."""
    attempts = Attempts(*scripts)
    return Pipeline([Arm("a", attempts, **options)], hedging=Hedging(after=after)), attempts


# --- the policy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"quantile": 0}, ValueError, "quantile must be a number above 0 and below 1, not 0"),
        ({"quantile": 1}, ValueError, "quantile must be"),
        ({"quantile": math.nan}, ValueError, "quantile must be"),
        ({"quantile": "p95"}, TypeError, "quantile must be"),
        ({"least": 0}, ValueError, "least must be a whole number of at least 1, not 0"),
        ({"least": 2.5}, TypeError, "least must be"),
        ({"after": -1}, ValueError, "after must be a number of seconds of at least 0"),
        ({"after": "1"}, TypeError, "after must be"),
        ({"most": 0}, ValueError, "most must be a number above 0 and at most 1, not 0"),
        ({"most": 1.5}, ValueError, "most must be"),
        ({"most": None}, TypeError, "most must be"),
    ],
)
def test_hedging_out_of_range_is_refused(options: Any, error: type[Exception], words: str) -> None:
    """The error names what is wrong, and what is wanted."""
    with pytest.raises(error, match=words):
        Hedging(**options)


@pytest.mark.parametrize(
    ("given_", "error", "words"),
    [
        ({"b": Hedging()}, ValueError, "hedging must name arms of the pipeline, a, not 'b'"),
        (0.95, TypeError, "hedging must be a Hedging, or a mapping of arm names to such, not 0.95"),
        (Breaker(), TypeError, "hedging must be a Hedging"),
    ],
)
def test_hedging_is_for_arms_that_there_are(given_: Any, error: type[Exception], words: str) -> None:
    """A name that is misspelt would leave an arm unhedged."""
    with pytest.raises(error, match=words):
        Pipeline({"a": lambda _: []}, hedging=given_)


# --- what is learnt ---------------------------------------------------------------------------------------


def took(health: ArmHealth, seconds: float | None, *, hedged: bool = False) -> None:
    """Let a query be answered after some seconds; or time out without a hit."""
    assert not hedged or health.hedge()
    status = ArmStatus.DEADLINE if seconds is None else ArmStatus.EXHAUSTED
    report = ArmReport("a", status, 1.0, 100, int(seconds is not None), seconds, 9.0, None)
    health.closed(None, report, seconds, hedged=hedged, second_won=False)


def learnt(latencies: Iterable[float], **options: Any) -> float | None:
    """Return when an arm is hedged that had these latencies."""
    health = ArmHealth("a", hedging=Hedging(**options))
    for seconds in latencies:
        took(health, seconds)
    return health.hedge_after()


def test_nothing_is_hedged_before_enough_is_known() -> None:
    """Nineteen latencies are no usual ones; queries without a hit say nothing of them."""
    health = ArmHealth("a", hedging=Hedging())
    for seconds in [*range(1, 20), None, None]:
        assert health.hedge_after() is None
        took(health, seconds)
    assert health.hedge_after() is None
    took(health, 20)
    assert health.hedge_after() == 19
    assert ArmHealth("a").hedge_after() is None


def test_the_time_to_wait_is_a_quantile_of_the_recent_latencies() -> None:
    """It follows an arm that gets slower or faster, within the last thousand queries."""
    assert learnt(range(1, 101)) == 95
    assert learnt(range(1, 101), quantile=0.5) == 50
    assert learnt(range(1, 101), quantile=0.07) == 7
    assert learnt([*range(1, 101), *[1000] * 1000]) == 1000
    assert learnt([*[1000] * 1000, *[1] * 1000]) == 1
    assert learnt([], after=0.25) == 0.25


@settings(deadline=None)
@given(st.lists(st.floats(0, 10), min_size=20, max_size=400))
def test_what_was_learnt_is_never_far_behind(latencies: list[float]) -> None:
    """For all latencies: the time to wait is the quantile of all but the newest twentieth of them."""
    health = ArmHealth("a", hedging=Hedging())
    for count, seconds in enumerate(latencies, 1):
        took(health, seconds)
        after = health.hedge_after()
        if count < 20:
            assert after is None
            continue
        recent = [sorted(latencies[:seen]) for seen in range(count - count // 20, count + 1) if seen >= 20]
        assert after in {values[math.ceil(0.95 * len(values) - 1e-9) - 1] for values in recent}


@pytest.mark.parametrize("seed", range(3))
def test_hedging_does_not_feed_on_itself(seed: int) -> None:
    """Second attempts shorten latencies, but not the time to wait: their share stays one in twenty."""
    chance = random.Random(seed)
    health = ArmHealth("a", hedging=Hedging())
    number = 6000
    waits: list[float] = []
    count = 0
    for _ in range(number):
        after = health.hedge_after()
        first, second = chance.paretovariate(2), chance.paretovariate(2)
        again = after is not None and first > after
        count += again
        waits.append(math.inf if after is None else after)
        took(health, min(first, after + second) if again and after is not None else first, hedged=again)
    assert 0.04 <= count / number <= 0.06
    usual = 0.05**-0.5  # what 95 of 100 of these latencies do not exceed
    assert 0.8 * usual <= sorted(waits[1000:])[len(waits[1000:]) // 2] <= 1.2 * usual


def test_a_backend_that_turned_slow_does_not_get_twice_the_load() -> None:
    """When every query is late, one in ten has a second attempt, beside ten that were saved up."""
    health = ArmHealth("a", hedging=Hedging(least=1, quantile=0.5, most=0.1))
    for _ in range(100):
        took(health, 1.0)
    count = 0
    for number in range(1, 301):
        late = health.hedge_after() is not None  # each takes longer than any before
        count += late
        took(health, 1.0 + number, hedged=late)
    assert count == 10 + 30 - 1


def test_queries_that_skip_the_arm_earn_it_nothing() -> None:
    """What it may be asked twice is a share of what it was asked."""
    health = ArmHealth("a", hedging=Hedging(after=1.0, most=0.1))
    while health.hedge_after() is not None:
        took(health, 2.0, hedged=True)
    skipped = ArmReport("a", ArmStatus.SKIPPED, 1.0, 100, 0, None, 0.0, None, 30.0)
    for _ in range(100):
        health.closed(None, skipped, None, hedged=False, second_won=False)
    assert health.hedge_after() is None
    for _ in range(11):
        took(health, 0.5)
    assert health.hedge_after() == 1.0


@settings(deadline=None)
@given(st.sampled_from([0.01, 0.1, 0.25, 1 / 3, 1.0]), st.lists(st.booleans(), max_size=400))
def test_in_every_stretch_of_queries_few_are_hedged(most: float, late: list[bool]) -> None:
    """For all queries, one after the other: in n in a row, at most n times the share and ten are hedged."""
    health = ArmHealth("a", hedging=Hedging(after=1.0, most=most))
    sums = [0]
    for one in late:
        again = one and health.hedge_after() is not None
        took(health, 2.0 if one else 0.5, hedged=again)
        sums.append(sums[-1] + again)
    excess = [total - most * number for number, total in enumerate(sums)]
    lowest = math.inf
    for value in excess:
        lowest = min(lowest, value)
        assert value - lowest <= 10 + 1e-6
    if most == 1:
        assert sums[-1] == sum(late)


# --- against a plain model ---------------------------------------------------------------------------------

AFTER = 1 + 1 / 16  # so that no two things happen at once: attempts do everything at eighths of a second
TIMEOUT = 8 + 1 / 32
ENDINGS = ("exhausted", "failed", "deadline")
PLANS = st.tuples(
    st.lists(st.integers(0, 24).map(lambda eighths: eighths / 8), max_size=3),
    st.integers(0, 24).map(lambda eighths: eighths / 8),
    st.sampled_from(ENDINGS),
)


class Plan(NamedTuple):
    """What one attempt does: waits and yields, waits once more, and ends in one of three ways."""

    name: str
    waits: list[float]
    wait: float
    ending: str

    def script(self) -> script:
        steps = (step for number, wait in enumerate(self.waits) for step in (wait, f"{self.name}{number}"))
        error = OSError(self.name) if self.ending == "failed" else None
        return script(*steps, self.wait, fail=error, hang=self.ending == "deadline")

    def hits(self, start: float) -> list[str]:
        """Return what it delivers in time if it is started then."""
        times = accumulate(self.waits, initial=start)
        return [f"{self.name}{number}" for number, at in enumerate([*times][1:]) if at < TIMEOUT]

    def end(self, start: float) -> tuple[float, str]:
        """Return when and how it ends by itself, or is cut off."""
        at = start + sum(self.waits) + self.wait
        return (TIMEOUT, "deadline") if self.ending == "deadline" or at > TIMEOUT else (at, self.ending)

    def shows(self, start: float) -> float:
        """Return when it shows that it is the one to read: by a hit, or by ending well without one."""
        if self.waits:
            return start + self.waits[0]
        return self.end(start)[0] if self.ending == "exhausted" else math.inf


def expected(first: Plan, second: Plan) -> tuple[list[str], tuple[float, str], bool, str | None]:
    """Return what is delivered, when and how the arm closes, whether it is hedged, and whose error it has."""
    at, status = first.end(0)
    if min(first.shows(0), at) < AFTER:
        return first.hits(0), (at, status), False, "first" if status == "failed" else None
    if first.shows(0) == second.shows(AFTER) == math.inf:
        ends = sorted([(*first.end(0), "first"), (*second.end(AFTER), "second")])
        return [], ends[1][:2], True, ends[0][2] if ends[1][1] == "failed" else None
    rows = [(first.shows(0), 0, first, second.end(AFTER)), (second.shows(AFTER), AFTER, second, first.end(0))]
    shows, start, winner, other_end = min(rows)
    end = winner.end(start)
    if end[1] != "failed":
        return winner.hits(start), end, True, None
    other = second if winner is first else first
    failed_before = other_end[1] == "failed" and other_end[0] < shows
    return winner.hits(start), end, True, other.name if failed_before else winner.name


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(deadline=None, max_examples=150)
@given(PLANS, PLANS)
def test_an_arm_is_what_one_of_its_attempts_delivers(
    backend: str, one: tuple[list[float], float, str], two: tuple[list[float], float, str]
) -> None:
    """For any two attempts: hits, status, time and error are those of the one that showed first."""
    first, second = Plan("first", *one), Plan("second", *two)

    async def main() -> None:
        attempts = Attempts(first.script(), second.script())
        pipeline = Pipeline({"a": attempts}, hedging=Hedging(after=AFTER), timeout=TIMEOUT)
        fusion = pipeline.open("q")
        *_, final = await read(fusion)
        report = final.coverage["a"]
        hits, end, hedged, failed = expected(first, second)
        assert fusion.rankings()["a"] == final.ids == hits
        assert (report.elapsed, str(report.status)) == end
        assert len(attempts.made) == 1 + hedged == 1 + pipeline.stats()["a"].hedged
        assert (report.error and report.error.args) == (failed and (failed,))
        assert pipeline.stats()["a"].second_won == (bool(hits) and hits[0] == "second0")
        await turns()
        assert all(attempt.closed for attempt in attempts.made)

    run_virtual(backend, main)


# --- in a pipeline ----------------------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
async def test_an_arm_that_delivers_in_time_is_asked_once() -> None:
    """One hit is enough to show that it is at work, however long the rest takes."""
    pipeline, attempts = hedged(script(0.5, "x", 5.0, "y"))
    final = await pipeline.search("q")
    assert (final.ids, final.elapsed, len(attempts.made)) == (["x", "y"], 5.5, 1)
    assert pipeline.stats()["a"].hedged == 0


@pytest.mark.anyio
@virtual_time
async def test_the_second_attempt_wins_if_it_delivers_first() -> None:
    """Only its results are ranked; the first attempt is cancelled and closed."""
    pipeline, attempts = hedged(script(3.0, "old", 1.0, "x"), script(0.5, "x", 0.5, "y"))
    fusion = pipeline.open("q")
    *_, final = await read(fusion)
    assert attempts.at == [0.0, 1.0]
    assert (final.ids, final.elapsed, fusion.rankings()) == (["x", "y"], 2.0, {"a": ["x", "y"]})
    assert (final.coverage.full, received(final)) == (True, {"a": 2})
    assert final.coverage["a"].first_hit_after == 1.5
    assert_is_batch(final, fusion)
    await turns()
    assert all(attempt.closed for attempt in attempts.made)
    stats = pipeline.stats()["a"]
    assert (stats.queries, stats.hedged, stats.second_won, stats.answered) == (1, 1, 1, 1)
    assert (stats.first_hit.p50, stats.last_hit.p50) == (1.5, 2.0)


@pytest.mark.anyio
@virtual_time
async def test_the_first_attempt_wins_if_it_delivers_first() -> None:
    """Then the second one is cancelled and closed, with nothing of it in the ranking."""
    pipeline, attempts = hedged(script(1.5, "x", 2.0, "y"), script(1.0, "z", hang=True))
    fusion = pipeline.open("q")
    *_, final = await read(fusion)
    assert (final.ids, final.elapsed, received(final)) == (["x", "y"], 3.5, {"a": 2})
    assert_is_batch(final, fusion)
    await turns()
    assert [attempt.closed for attempt in attempts.made] == [True, True]
    stats = pipeline.stats()["a"]
    assert (stats.hedged, stats.second_won) == (1, 0)


@pytest.mark.anyio
@virtual_time
async def test_an_attempt_that_ends_without_a_hit_is_an_answer() -> None:
    """Finding nothing is a result: the other attempt is not waited for."""
    pipeline, attempts = hedged(script(hang=True), script(0.5))
    final = await pipeline.search("q")
    assert (final.elapsed, statuses(final)) == (1.5, {"a": ArmStatus.EXHAUSTED})
    await turns()
    assert attempts.made[0].closed


@pytest.mark.anyio
@virtual_time
async def test_a_loser_that_will_not_be_cancelled_still_counts_for_nothing() -> None:
    """What it delivers after that is late, and the answer does not wait for it."""
    pipeline, attempts = hedged(script(3.0, "old", 1.0, "older", swallow=99), script(0.5, "x", 4.0, "y"))
    final = await pipeline.search("q")
    assert (final.ids, final.elapsed, received(final)) == (["x", "y"], 5.5, {"a": 2})
    assert attempts.made[0].swallowed


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("first_fails", [True, False])
async def test_if_one_attempt_fails_the_other_goes_on(first_fails: bool) -> None:  # noqa: FBT001 - a parameter
    """It takes two failures to fail an arm that was asked twice."""
    fails, ends = script(1.5 if first_fails else 0.5, fail=OSError("down")), script(4.0, "x")
    pipeline, _ = hedged(*([fails, ends] if first_fails else [ends, fails]))
    final = await pipeline.search("q")
    assert (final.ids, statuses(final)) == (["x"], {"a": ArmStatus.EXHAUSTED})
    assert final.elapsed == (5.0 if first_fails else 4.0)
    assert pipeline.stats()["a"].failed == 0


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize(("seconds", "at"), [((1.5, 2.0), 3.0), ((3.0, 0.5), 3.0)])
async def test_if_both_attempts_fail_the_arm_fails_with_the_first_error(
    seconds: tuple[float, float], at: float
) -> None:
    """It is reported once both have ended, with what was raised first."""
    errors = [OSError("first attempt"), OSError("second attempt")]
    pipeline, _ = hedged(*(script(wait, fail=error) for wait, error in zip(seconds, errors, strict=True)))
    final = await pipeline.search("q")
    assert (final.elapsed, statuses(final)) == (at, {"a": ArmStatus.FAILED})
    assert final.coverage["a"].error is errors[0 if seconds[0] < 1 + seconds[1] else 1]
    stats = pipeline.stats()["a"]
    assert (stats.failed, stats.hedged, stats.second_won) == (1, 1, 0)


@pytest.mark.anyio
@virtual_time
async def test_a_failure_is_not_hedged() -> None:
    """A second attempt is for an arm that is late; one that has failed is closed."""
    pipeline, attempts = hedged(script(0.5, fail=OSError("down")))
    assert (await pipeline.search("q")).elapsed == 0.5
    assert len(attempts.made) == 1


@pytest.mark.anyio
@virtual_time
async def test_the_timeout_counts_from_the_start_for_both_attempts() -> None:
    """The second has what is left of the time; when it is up, both are cancelled."""
    pipeline, attempts = hedged(script(hang=True), script(hang=True), timeout=3)
    final = await pipeline.search("q")
    assert (final.elapsed, statuses(final), attempts.at) == (3, {"a": ArmStatus.TIMED_OUT}, [0, 1])
    await turns()
    assert [attempt.closed for attempt in attempts.made] == [True, True]
    assert pipeline.stats()["a"].timed_out == 1


@pytest.mark.anyio
@virtual_time
async def test_an_arm_that_is_closed_in_time_is_not_asked_again() -> None:
    """The deadline came before the second attempt was due."""
    pipeline, attempts = hedged(script(hang=True))
    final = await pipeline.search("q", timeout=0.5)
    await anyio.sleep(5)
    assert (final.elapsed, len(attempts.made)) == (0.5, 1)


@pytest.mark.anyio
@virtual_time
async def test_only_the_arms_that_are_named_are_hedged() -> None:
    """Others may be late without being asked twice."""
    asked = {"a": 0, "b": 0}

    def retriever(name: str) -> Any:
        async def retrieve(_: Any) -> script:
            asked[name] += 1
            return script(3.0, Page([name]))

        return retrieve

    pipeline = Pipeline({name: retriever(name) for name in asked}, hedging={"a": Hedging(after=1)})
    await pipeline.search("q")
    assert asked == {"a": 2, "b": 1}


@pytest.mark.anyio
@virtual_time
async def test_what_is_usual_is_learnt_from_the_queries() -> None:
    """After twenty queries an arm that is stuck for once is asked again when the usual time is over."""
    seconds = [*(number / 10 for number in range(1, 21)), math.inf, 0.5]
    attempts = Attempts(*(script(wait, "x") for wait in seconds))
    pipeline = Pipeline({"a": attempts}, hedging=Hedging())
    for wait in seconds[:20]:
        assert (await pipeline.search("q")).elapsed == pytest.approx(wait)
    assert (await pipeline.search("q")).elapsed == pytest.approx(1.9 + 0.5)
    stats = pipeline.stats()["a"]
    assert (stats.queries, stats.hedged, stats.second_won) == (21, 1, 1)


@pytest.mark.anyio
@virtual_time
async def test_queries_at_once_share_what_is_saved_up() -> None:
    """Of thirty that are late together ten have a second attempt; their ends save up for ten more."""
    asked = 0

    async def slow(_: Any) -> script:
        nonlocal asked
        asked += 1
        return script(3.0, "x")

    pipeline = Pipeline({"a": slow}, hedging=Hedging(after=1, most=0.5))
    async with anyio.create_task_group() as group:
        for _ in range(30):
            group.start_soon(pipeline.search, "q")
    assert asked == 30 + 10
    for _ in range(19):  # each spends one and earns a half
        await pipeline.search("q")
    assert asked == 40 + 2 * 19
    await pipeline.search("q")
    assert asked == 78 + 1


@pytest.mark.anyio
@virtual_time
async def test_the_breaker_counts_an_arm_once_whatever_its_attempts() -> None:
    """Two attempts that fail are one failure, a rescue is an answer."""
    policy = Breaker(2, clock=anyio.current_time)
    plans: list[tuple[script, script]] = [
        (script(2.0, fail=OSError()), script(2.0, fail=OSError())),
        (script(hang=True), script(0.5, "x")),
        (script(2.0, fail=OSError()), script(2.0, fail=OSError())),
    ]
    attempts = Attempts(*(one for plan in plans for one in plan))
    pipeline = Pipeline({"a": attempts}, breaker=policy, hedging=Hedging(after=1))
    for _ in plans:
        await pipeline.search("q")
        assert pipeline.stats()["a"].breaker == "closed"


@pytest.mark.anyio
@virtual_time
async def test_a_trial_is_not_hedged() -> None:
    """An arm that may be ill is asked once, to see."""
    policy = Breaker(1, 30.0, 0.0, clock=anyio.current_time)
    attempts = Attempts(script(fail=OSError()), script(5.0, "x"), script(5.0, "x"), script(5.0, "x"))
    pipeline = Pipeline({"a": attempts}, breaker=policy, hedging=Hedging(after=1))
    await pipeline.search("q")
    await anyio.sleep(30)
    for count in (2, 4):
        await pipeline.search("q")
        assert (len(attempts.made), pipeline.stats()["a"].breaker) == (count, "closed")


# --- the attempt that lost --------------------------------------------------------------------------------

GRACE = 0.0625


def losing(attempt: int, **cleanup: Any) -> tuple[Pipeline, Attempts]:
    """Return a pipeline of one arm, of whose two attempts this one loses at 1.5 s; the other ends then."""
    loser = script(hang=True, **cleanup)
    return hedged(*([loser, script(0.5, "x")] if attempt == 1 else [script(1.5, "x"), loser]))


def of(events: list[dict[str, Any]], name: str) -> list[tuple[str, str, int]]:
    """Return which attempt at which arm events of one name are about, and how loud they are."""
    return [
        (event["log_level"], event["arm"], event["attempt"])
        for event in events
        if event["event"] == f"rrf_stream.{name}"
    ]


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("loser", [1, 2])
async def test_leaving_waits_for_the_clean_up_of_the_attempt_that_lost(loser: int) -> None:
    """It belongs to the fusion as much as the winner, and is given the grace."""
    pipeline, attempts = losing(loser, cleanup=1 / 32, shield=True)
    with capture_events() as events:
        async with pipeline.open("q", grace=GRACE) as fusion:
            assert (await fusion.final()).elapsed == 1.5
            assert repr(fusion).endswith(" 1 tasks alive>")
    assert anyio.current_time() == 1.5 + 1 / 32
    assert attempts.made[loser - 1].closed
    assert of(events, "arm_abandoned") == []


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("loser", [1, 2])
@pytest.mark.parametrize("leave", ["search", "context"])
async def test_an_attempt_that_lost_and_outlives_the_grace_is_reported(leave: str, loser: int) -> None:
    """Once, as a warning that says which of the two it is."""
    pipeline, attempts = losing(loser, cleanup=1.0, shield=True)
    with capture_events() as events:
        if leave == "search":
            await pipeline.search("q", grace=GRACE)
        else:
            async with pipeline.open("q", grace=GRACE) as fusion:
                await fusion.final()
            assert anyio.current_time() == 1.5 + GRACE
        assert await drain() == []
    assert attempts.made[loser - 1].closed
    assert of(events, "arm_abandoned") == [("warning", "a", loser)]


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("loser", [1, 2])
async def test_a_clean_up_that_fails_says_of_which_attempt(loser: int) -> None:
    """Two attempts have one name, so a number tells them apart."""
    pipeline, _ = losing(loser, on_close=[].pop)
    with capture_events() as events:
        async with pipeline.open("q") as fusion:
            await fusion.final()
    assert of(events, "arm_cleanup_failed") == [("warning", "a", loser)]


@pytest.mark.anyio
@on("asyncio-virtual")
@pytest.mark.parametrize("loser", [1, 2])
async def test_late_results_say_of_which_attempt(loser: int) -> None:
    """What an attempt delivers that ignored its end is counted apart."""
    stubborn = script(4.0, "late", swallow=1)
    pipeline, _ = hedged(*([stubborn, script(0.5, "x")] if loser == 1 else [script(1.5, "x"), stubborn]))
    with capture_events() as events:
        await pipeline.search("q")
        assert await drain() == []
    assert of(events, "late_hits") == [("info", "a", loser)]


@pytest.mark.anyio
@virtual_time
async def test_two_attempts_that_are_left_behind_are_reported_apart() -> None:
    """When the arm is late for good, both are abandoned."""
    pipeline, _ = hedged(*(script(hang=True, cleanup=1.0, shield=True) for _ in range(2)))
    with capture_events() as events:
        await pipeline.search("q", timeout=2, grace=GRACE)
        assert await drain() == []
    assert sorted(of(events, "arm_abandoned")) == [("warning", "a", 1), ("warning", "a", 2)]


# --- signs of life, and errors ----------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("alive", [1, 2])
async def test_an_empty_page_of_either_attempt_is_a_sign_of_life(alive: int) -> None:
    """The idle timeout is the arm's: it counts from what either of them last delivered."""
    shows, hangs = script(1.5 if alive == 1 else 0.5, Page(), hang=True), script(hang=True)
    pipeline, _ = hedged(*([shows, hangs] if alive == 1 else [hangs, shows]), idle_timeout=2)
    assert ended(await pipeline.search("q")) == {"a": ("idle", 1.5 + 2)}


@pytest.mark.anyio
@virtual_time
async def test_a_second_attempt_that_shows_signs_of_life_may_win() -> None:
    """The first one's silence does not cut it off."""
    pipeline, _ = hedged(script(hang=True), script(0.5, Page(), 1.75, "x"), idle_timeout=2)
    final = await pipeline.search("q")
    assert (final.ids, ended(final)) == (["x"], {"a": ("exhausted", 3.25)})


@pytest.mark.anyio
@virtual_time
async def test_a_second_attempt_takes_over_the_first_ones_last_sign_of_life() -> None:
    """It is idle neither at once nor later than the arm would be, whatever the clock showed at the start."""
    await anyio.sleep(8)
    attempts = Attempts(script(0.5, Page(), 1.0, fail=OSError("down")), script(hang=True))

    async def wakes(_: Any) -> script:
        return script(hang=True)

    arms = [Arm("a", attempts, idle_timeout=2), Arm("wakes the timer", wakes, timeout=2)]
    final = await Pipeline(arms, hedging={"a": Hedging(after=1)}).search("q")
    assert ended(final) == {"a": ("idle", 0.5 + 2), "wakes the timer": ("timed_out", 2)}


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("then", ["wins", "times out", "fails"])
async def test_the_error_of_an_attempt_is_reported_when_the_other_goes_on(then: str, failing: int) -> None:
    """The arm's report may have no place for it: it is an event, once, and a warning."""
    fails = script(1.5 if failing == 1 else 0.5, fail=OSError("down"))
    other = {
        "wins": script(2.0, "x"),
        "times out": script(hang=True),
        "fails": script(2.0, fail=OSError("too")),
    }[then]
    pipeline, _ = hedged(*([fails, other] if failing == 1 else [other, fails]), timeout=4)
    with capture_events() as events:
        final = await pipeline.search("q")
    at = 4 if then == "times out" else 3 if failing == 1 else 2
    status = {"wins": "exhausted", "times out": "timed_out", "fails": "failed"}[then]
    assert ended(final) == {"a": (status, at)}
    (event,) = [event for event in events if event["event"] == "rrf_stream.attempt_failed"]
    told = (event["log_level"], event["arm"], event["attempt"], event["error"])
    assert told == ("warning", "a", failing, "OSError('down')")
    assert event["fusion"] == events[-1]["fusion"]
