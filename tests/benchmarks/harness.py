"""Measures pairs of functions by turns, in CPU time, and prints their ratio.

Machines are shared and their speed drifts: a ratio of two things measured by
turns in one run carries over, a time does not. Times are printed all the same,
next to a calibration loop that tells how fast the machine was.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Row", "calibrate", "compare", "heading", "show"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        what: What is measured.
        ours: Median of our CPU time, in microseconds.
        theirs: Median of the CPU time it is held against, in microseconds.
        ratio: Median of the ratios of each turn.
        bar: What the ratio, or the figure, must not exceed.
        against: What it is held against.
    """

    what: str
    ours: float
    theirs: float
    ratio: float
    bar: str
    against: str


def cpu_time(function: Callable[[], object], times: int) -> float:
    """Return the CPU time of one call in microseconds, the garbage of the run before not counted."""
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
    turns: int = 15,
    short: bool = False,
) -> Row:
    """Measure two functions by turns and return the medians.

    Args:
        what: What is measured.
        ours: Called `times` times a turn.
        theirs: Called as often.
        bar: What the ratio must not exceed.
        against: What `theirs` is.
        times: Calls a turn: so many that a turn takes some ten milliseconds.
        turns: How often each is measured.
        short: Whether only to see that both run.
    """
    if short:
        times, turns = 1, 1
    pairs = []
    for _ in range(turns):
        one = cpu_time(ours, times)
        pairs.append((one, cpu_time(theirs, times)))
    return Row(
        what=what,
        ours=statistics.median(mine for mine, _ in pairs),
        theirs=statistics.median(other for _, other in pairs),
        ratio=statistics.median(mine / other for mine, other in pairs if other) if any(o for _, o in pairs) else 0,
        bar=bar,
        against=against,
    )


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


def show(rows: list[Row]) -> None:
    """Print the table."""
    print(f"{'what':<46} {'ours us':>10} {'other us':>10} {'ratio':>6}  {'bar':<9} against")
    for row in rows:
        print(f"{row.what:<46} {row.ours:>10.2f} {row.theirs:>10.2f} {row.ratio:>6.2f}  {row.bar:<9} {row.against}")
