"""What the tests of the engine share."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import pytest

from rrf_stream import fuse
from rrf_stream.testing import VIRTUAL_BACKENDS, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from rrf_stream import ArmStatus, FusedHit, Fusion, Snapshot


def on(*backends: str) -> pytest.MarkDecorator:
    """Run a test marked `anyio` on these event loops only."""
    return pytest.mark.parametrize("anyio_backend", backends, indirect=True)


virtual_time = on(*(f"{name}-virtual" for name in VIRTUAL_BACKENDS))
"""Runs a test in virtual time instead of real time. uvloop has no virtual clock."""


async def read(fusion: Fusion) -> list[Snapshot]:
    """Return every snapshot of a fusion, having entered and left it."""
    async with fusion:
        return [snapshot async for snapshot in fusion]


def statuses(snapshot: Snapshot) -> dict[str, ArmStatus]:
    return {report.name: report.status for report in snapshot.coverage.arms}


def ended(snapshot: Snapshot) -> dict[str, tuple[str, float | None]]:
    """Return how and when each arm closed."""
    return {report.name: (str(report.status), report.elapsed) for report in snapshot.coverage.arms}


def received(snapshot: Snapshot) -> dict[str, int]:
    return {report.name: report.received for report in snapshot.coverage.arms}


def rows(hits: list[FusedHit] | tuple[FusedHit, ...]) -> list[tuple[Any, int, str, dict[str, int]]]:
    """Return what fusion of the same ids must repeat bit for bit, whatever came with them."""
    return [(hit.id, hit.rank, hit.score.hex(), dict(hit.ranks)) for hit in hits]


def assert_is_batch(snapshot: Snapshot, fusion: Fusion, **options: Any) -> None:
    """Assert that a final snapshot is the batch fusion of what its arms delivered."""
    weights = {report.name: report.weight for report in snapshot.coverage.arms}
    assert rows(snapshot.hits) == rows(fuse(fusion.rankings(), weights=weights, **{"top_k": 10, **options}))


async def turns(count: int = 3) -> None:
    """Let every other task run."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


def hanging(*steps: Any) -> dict[str, Any]:
    """Return an arm that never ends."""
    return {"hangs": script(*steps, hang=True)}


def good() -> dict[str, Any]:
    """Return arms that end soon, one after the other."""
    return {"a": script("x", 0.001, "y"), "b": script("y", 0.002, "z")}


async def forever() -> AsyncIterator[str]:
    await anyio.sleep_forever()
    yield "never"


def run_virtual(name: str, main: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine function in virtual time, outside of pytest's own event loops."""
    backend, options = VIRTUAL_BACKENDS[name]()
    return anyio.run(main, backend=backend, backend_options=options)


def run_python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python of its own, with every warning on.

    What asyncio's debug mode says of steps that took long is left out: they do so on a busy machine.
    """
    ran = subprocess.run(  # noqa: S603 - the program is the test's own
        [sys.executable, "-X", "dev", "-W", "error", *options, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ran.stderr = re.sub(r"^Executing <.* took [0-9.]+ seconds\n", "", ran.stderr, flags=re.MULTILINE)
    return ran
