"""What every test may use: event loops to run on, and guards of the engine against leaks and hangs."""

from __future__ import annotations

import gc
import os
import signal
from typing import TYPE_CHECKING, Any, NoReturn

import hypothesis  # noqa: F401 - counts references while it is imported, so that must be before the freeze
import pytest
import structlog

from rrf_stream import _tasks
from rrf_stream.testing import VIRTUAL_BACKENDS, assert_no_leaks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

# Haystack would write into the home folder, and tell of its use over the network.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

REAL: dict[str, Callable[[], tuple[str, dict[str, Any]]]] = {
    "asyncio": lambda: ("asyncio", {}),
    "uvloop": lambda: ("asyncio", {"use_uvloop": True}),
    "trio": lambda: ("trio", {}),
}
VIRTUAL = {f"{name}-virtual": backend for name, backend in VIRTUAL_BACKENDS.items()}
PATIENCE = 60
"""Seconds of real time after which an engine test counts as hung."""


@pytest.fixture(params=REAL)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The event loop that a test marked `anyio` runs on: by its real clock, unless it asks otherwise."""
    return (REAL | VIRTUAL)[request.param]()


@pytest.fixture
async def no_leaks() -> AsyncIterator[None]:
    """Fail a test that leaves anything of the library alive that does not end by itself soon."""
    yield
    await assert_no_leaks(within=5)


@pytest.fixture
def no_hang() -> Iterator[None]:
    """Fail a test, and what cleans up after it, that takes too long to be doing anything."""

    def hung(*_: object) -> NoReturn:
        raise TimeoutError(f"hung for {PATIENCE} s")

    usual = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE, 5)  # again and again, as clean-up may hang too
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, usual)


@pytest.fixture
def untouched() -> Iterator[None]:
    """Assert that the registry of arms is empty when all is over, and structlog as it was."""
    yield
    assert not _tasks._LIVE
    assert not structlog.is_configured()


@pytest.fixture(autouse=True)
def engine_guard(request: pytest.FixtureRequest) -> None:
    """Guard every test of the engine; the last of the guards is the first to look back."""
    if request.path.parent.name == "engine":
        request.getfixturevalue("no_hang")
        request.getfixturevalue("untouched")
        if "anyio_backend" in request.fixturenames:
            request.getfixturevalue("no_leaks")


def pytest_collection_finish() -> None:
    """Set aside what is there before the first test, so that each collection of garbage takes no time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where `RRF_STREAM_FAIL_ON_SKIP` is set, allow skips only for what the machine has not: "needs ..."."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("RRF_STREAM_FAIL_ON_SKIP") or reporter is None:
        return
    reasons = {str(report.longrepr[2]) for report in reporter.stats.get("skipped", [])}
    for reason in sorted(reasons):
        if not reason.removeprefix("Skipped: ").startswith("needs "):
            reporter.write_line(f"\na test that can run here was skipped: {reason}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
