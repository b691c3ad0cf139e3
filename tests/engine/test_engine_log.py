"""What the engine reports, and to whom: the application's structlog, its logging, or nobody."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import structlog
from engine_kit import run_python, turns, virtual_time

from rrf_stream import Arm, ArmStatus, Outcome, fuse_arms, open_fusion
from rrf_stream.errors import ArmError
from rrf_stream.testing import capture_events, script

if TYPE_CHECKING:
    from collections.abc import Iterator

SEARCH = """
import anyio, logging, structlog
from rrf_stream import Arm, fuse_arms, open_fusion

async def hangs():
    yield "x"
    await anyio.sleep_forever()

async def fails():
    yield "y"
    raise OSError("down")

async def search():
    final = await fuse_arms({"hangs": hangs(), "fails": fails(), "ends": ["z"]}, timeout=0.01)
    assert len(final.hits) == 3
    async with open_fusion({"hangs": hangs()}) as fusion:
        async for snapshot in fusion:
            break
"""


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The log, with everything of the logger `rrf_stream` in it."""
    with caplog.at_level(logging.DEBUG, logger="rrf_stream"):
        yield caplog


def of(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == f"rrf_stream.{name}"]


# --- silence ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_nothing_is_printed_unless_the_application_asks(backend: str) -> None:
    """With neither logging nor structlog configured a search writes nothing, failures included."""
    ran = run_python(
        f"{SEARCH}\nanyio.run(search, backend={backend!r})\nassert not structlog.is_configured()"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_logging_makes_the_events_heard() -> None:
    """An application that configured logging at INFO sees them all, those of its level at WARNING."""
    for level, names in [
        ("INFO", ["arm_closed", "arm_closed", "arm_closed", "fusion_closed", "arm_closed", "fusion_closed"]),
        ("WARNING", ["arm_closed"]),
    ]:
        ran = run_python(f"{SEARCH}\nlogging.basicConfig(level={level!r})\nanyio.run(search)")
        assert (ran.returncode, ran.stdout) == (0, "")
        events = [line.split("rrf_stream.")[1] for line in ran.stderr.splitlines()]
        assert events == names, ran.stderr


def test_structlog_takes_the_events_where_it_is_configured() -> None:
    """An application that configured structlog gets them there, in its own format, once."""
    program = f"""{SEARCH}
structlog.configure(processors=[structlog.processors.JSONRenderer()])
anyio.run(search)
"""
    ran = run_python(program)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count('"event": "rrf_stream.fusion_closed"') == 2
    assert '"arm": "fails", "status": "failed", "received": 1' in ran.stdout


def test_both_configured_means_structlog() -> None:
    """Each event goes one way."""
    program = f"""{SEARCH}
structlog.configure(processors=[structlog.processors.JSONRenderer()])
logging.basicConfig(level="INFO")
anyio.run(search)
"""
    ran = run_python(program)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("fusion_closed") == 2


def test_importing_the_library_configures_nothing() -> None:
    """No handler is added to the root, no level is set, structlog stays unconfigured."""
    ran = run_python("""
        import logging, structlog, rrf_stream, rrf_stream.testing
        assert logging.getLogger().handlers == []
        logger = logging.getLogger("rrf_stream")
        assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]
        assert (logger.level, logger.propagate, logger.disabled) == (logging.NOTSET, True, False)
        assert not structlog.is_configured()
    """)
    assert (ran.returncode, ran.stderr) == (0, "")


# --- the events -------------------------------------------------------------------------------------------


@pytest.mark.anyio
@virtual_time
async def test_each_arm_and_each_fusion_is_reported_once() -> None:
    """One `arm_closed` an arm, in the order of closing, then one `fusion_closed`; failures are warnings."""
    arms = [
        Arm("hangs", script("x", hang=True)),
        Arm("fails", script("y", 0.25, fail=OSError("down"))),
        Arm("ends", script(0.5, "z")),
    ]
    with capture_events() as events:
        await fuse_arms(arms, timeout=1)
    names = ("event", "log_level", "arm", "status", "received", "elapsed_ms", "error")
    assert [tuple(event.get(name) for name in names) for event in events[:3]] == [
        ("rrf_stream.arm_closed", "warning", "fails", "failed", 1, 250, "OSError('down')"),
        ("rrf_stream.arm_closed", "info", "ends", "exhausted", 1, 500, None),
        ("rrf_stream.arm_closed", "info", "hangs", "deadline", 1, 1000, None),
    ]
    number = events[0]["fusion"]
    assert {event["fusion"] for event in events} == {number}
    closed = {"event": "rrf_stream.fusion_closed", "log_level": "info", "fusion": number}
    assert events[3:] == [closed | {"outcome": "deadline", "arms": 3, "elapsed_ms": 1000}]


@pytest.mark.anyio
@pytest.mark.parametrize("ending", ["complete", "deadline", "stopped", "left", "quorum", "failed", "dropped"])
async def test_the_end_of_a_fusion_is_its_last_closing(ending: str) -> None:
    """However it ends, every arm is reported before the fusion is, and each once."""
    arms = [Arm("a", script("x")), Arm("b", script("y", hang=ending != "complete")), Arm("c", script("z"))]
    options: dict[str, Any] = {"deadline": {"timeout": 0.001}, "quorum": {"quorum": 0.5}}.get(ending, {})
    if ending == "failed":
        arms.append(Arm("must", script(fail=OSError("down")), required=True))
    with capture_events() as events:
        fusion = open_fusion(arms, **options)
        if ending != "dropped":
            async with fusion:
                if ending == "stopped":
                    fusion.stop()
                elif ending == "failed":
                    with pytest.raises(ArmError):
                        await fusion.final()
                elif ending != "left":
                    await fusion.final()
        else:
            await anext(fusion)
            del fusion
            await anyio.sleep(0.01)
    events = [event for event in events if event["event"] != "rrf_stream.late_hits"]
    assert [event["event"] for event in events] == [
        *["rrf_stream.arm_closed"] * len(arms),
        "rrf_stream.fusion_closed",
    ]
    assert sorted(event["arm"] for event in events[:-1]) == sorted(arm.name for arm in arms)
    outcome = {"left": "stopped", "dropped": "stopped"}.get(ending, ending)
    assert events[-1]["outcome"] == outcome
    assert events[-1]["log_level"] == ("warning" if ending == "failed" else "info")


@pytest.mark.anyio
@virtual_time
@pytest.mark.parametrize("ending", ["deadline", "timeout", "stop", "required"])
async def test_arms_that_close_at_one_instant_are_reported_in_order(ending: str) -> None:
    """In the order in which they were closed: that of the arms, and first the one that closed the others."""
    timeout = 1.0 if ending == "timeout" else None
    arms = [Arm(name, script(name, hang=True), timeout=timeout) for name in "abc"]
    if ending == "required":
        arms.append(Arm("must", script(1.0, fail=OSError("down")), required=True))
    with capture_events() as events:
        async with open_fusion(arms, timeout=1 if ending == "deadline" else None) as fusion:
            await anext(fusion)
            if ending == "stop":
                fusion.stop()
            with suppress(ArmError):
                await fusion.final()
    names = ["must", "a", "b", "c"] if ending == "required" else ["a", "b", "c"]
    assert [event["arm"] for event in of(events, "arm_closed")] == names
    assert events[-1]["event"] == "rrf_stream.fusion_closed"


@pytest.mark.anyio
async def test_a_fusion_of_no_arms_is_reported_too() -> None:
    """It has ended like any other."""
    with capture_events() as events:
        await fuse_arms({})
    assert [(event["event"], event["arms"], event["outcome"]) for event in events] == [
        ("rrf_stream.fusion_closed", 0, "complete")
    ]


@pytest.mark.anyio
async def test_fusions_are_told_apart_by_number() -> None:
    """The events of one fusion share a number that no other has."""
    with capture_events() as events:
        for _ in range(2):
            await fuse_arms({"a": ["x"]})
    first, second = of(events, "fusion_closed")
    assert first["fusion"] != second["fusion"]
    assert [event["fusion"] for event in of(events, "arm_closed")] == [first["fusion"], second["fusion"]]


@pytest.mark.anyio
async def test_results_are_never_logged(logged: pytest.LogCaptureFixture) -> None:
    """What a search found is the caller's business: no event names an id, an item or a query."""
    await fuse_arms({"a": script("secret", fail=OSError("down")), "b": ["secret"]})
    assert len(logged.records) == 3
    assert not [record for record in logged.records if "secret" in str(vars(record))]


@pytest.mark.anyio
async def test_records_of_logging_carry_the_fields(logged: pytest.LogCaptureFixture) -> None:
    """On the standard library's way the fields are attributes of the record."""
    await fuse_arms({"a": ["x", "y"]})
    record = next(record for record in logged.records if record.getMessage() == "rrf_stream.arm_closed")
    assert (record.name, record.levelname) == ("rrf_stream", "INFO")
    assert {name: vars(record)[name] for name in ("arm", "status", "received", "error")} == {
        "arm": "a",
        "status": "exhausted",
        "received": 2,
        "error": None,
    }


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["name", "msg", "args", "module", "message", "event", ""])
async def test_arms_may_be_called_what_they_like(name: str, logged: pytest.LogCaptureFixture) -> None:
    """An arm's name is a value in an event, never a key."""
    await fuse_arms({name or "logger": ["x"]})
    assert len(logged.records) == 2


# --- a log that is broken ---------------------------------------------------------------------------------


def broken(*_: Any) -> Any:
    raise RuntimeError("a broken log")


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["structlog", "filter"])
async def test_a_broken_log_breaks_no_search(way: str) -> None:
    """A processor or filter of the application that raises costs the event, and nothing else."""
    logger = logging.getLogger("rrf_stream")
    if way == "structlog":
        structlog.configure(processors=[broken])
    else:
        logger.addFilter(broken)
        logger.setLevel(logging.INFO)
    try:
        final = await fuse_arms(
            {"a": script("x", fail=OSError("down")), "b": script("y", hang=True)}, timeout=0.01
        )
        await turns()
    finally:
        structlog.reset_defaults()
        logger.removeFilter(broken)
        logger.setLevel(logging.NOTSET)
    assert final.ids == ["x", "y"]
    assert final.outcome is Outcome.DEADLINE
    assert [report.status for report in final.coverage.arms] == [ArmStatus.FAILED, ArmStatus.DEADLINE]
