"""Measures pairs of functions by turns, in CPU time, and prints their ratio.

Machines are shared and their speed drifts: a ratio of two things measured by
turns in one run carries over, a time does not. Times are printed all the same,
next to a calibration loop that tells how fast the machine was.

What depends on the event loop runs once for each, in a process of its own, so that
no loop pays for what another has left in memory.
"""

from __future__ import annotations

import gc
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

__all__ = ["BACKENDS", "Row", "compare", "cpu_time", "heading", "percentile", "run_each", "show"]

BACKENDS: dict[str, dict[str, Any]] = {
    "asyncio": {"backend": "asyncio"},
    "uvloop": {"backend": "asyncio", "backend_options": {"use_uvloop": True}},
    "trio": {"backend": "trio"},
}
"""By name of an event loop, the options of `anyio.run`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        what: What is measured.
        ours: Median of our figures.
        theirs: Median of the figures that ours are held against.
        ratio: Median of the ratios of each turn.
        bar: What must not be exceeded: by the ratio, or by our figure if it has a unit.
        against: What it is held against.
    """

    what: str
    ours: float
    theirs: float
    ratio: float
    bar: str
    against: str

    @classmethod
    def of(cls, what: str, pairs: Sequence[tuple[float, float]], *, bar: str, against: str) -> Self:
        """Return the medians of pairs that were measured by turns."""
        return cls(
            what=what,
            ours=statistics.median(ours for ours, _ in pairs),
            theirs=statistics.median(theirs for _, theirs in pairs),
            ratio=statistics.median(ours / max(theirs, 1e-9) for ours, theirs in pairs),
            bar=bar,
            against=against,
        )


def cpu_time(function: Callable[[], object], times: int) -> float:
    """Return the CPU time of one call in microseconds, without the garbage of the run before."""
    gc.collect()
    start = time.process_time_ns()
    for _ in range(times):
        function()
    return (time.process_time_ns() - start) / times / 1000


def compare(
    what: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    bar: str,
    against: str,
    times: int,
    turns: int,
) -> Row:
    """Measure two functions by turns, each called `times` times a turn."""
    pairs = [(cpu_time(ours, times), cpu_time(theirs, times)) for _ in range(turns)]
    return Row.of(what, pairs, bar=bar, against=against)


def calibrate() -> float:
    """Return the CPU time in microseconds of a fixed loop: a thousand additions of small integers."""

    def loop() -> None:
        total = 0
        for number in range(1000):
            total += number

    return min(cpu_time(loop, 200) for _ in range(5))


def heading() -> str:
    """Return a line about the machine and how busy it is."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (
        f"CPython {platform.python_version()}, {os.cpu_count()} cores, load {load}; "
        f"calibration: 1000 additions in {calibrate():.1f} us"
    )


def show(rows: Sequence[Row]) -> None:
    """Print the table. Figures are microseconds of CPU time, but for memory: bytes."""
    print(f"{'what':<44} {'ours':>10} {'other':>10} {'ratio':>6}  {'bar':<10} other")
    for row in rows:
        figures = f"{row.ours:>10.2f} {row.theirs:>10.2f} {row.ratio:>6.2f}"
        print(f"{row.what:<44} {figures}  {row.bar:<10} {row.against}")


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that a share of them, above 0 and at most 1, does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def run_each(program: str, *arguments: str) -> int:
    """Run a program with `--backend` once for each event loop; return 0, or 1 if any of them failed."""
    codes = []
    for backend in BACKENDS:
        command = [sys.executable, program, "--backend", backend, *arguments]
        codes.append(subprocess.run(command, check=False).returncode)  # noqa: S603 - the program is our own
    return int(any(codes))
