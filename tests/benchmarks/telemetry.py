"""What it costs a query to be watched, and what it costs that it could be.

The query is that of `engine.py`: three arms of 50 ids each in one page, each of which suspends once. It
is asked by turns with itself, unwatched. The first row tells how much two measurements of the same thing
differ here; the second what all calls take that are made for observers alone, while there is none. After
that somebody watches: an observer that does nothing, then the SDK of OpenTelemetry, which hands each span to
a processor that drops it.
Run: `python tests/benchmarks/telemetry.py`, or with `--short` to see only that it runs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from time import process_time_ns
from typing import Any

from core import sample
from harness import Row, heading, show
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from rrf_stream import Pipeline
from rrf_stream._log import Journal
from rrf_stream._observed import journal_of
from rrf_stream._options import Settings
from rrf_stream.instrumentation import FusionObserver, FusionStart, Observer, add_observer, remove_observer
from rrf_stream.integrations.otel import instrument, uninstrument

Query = Callable[[], Awaitable[object]]
Mode = Callable[[], AbstractContextManager[None]]

RANKINGS = sample(3, 50, 100)
NAMES = ("dense", "lexical", "graph")


async def retrieve(arm: int, _query: str) -> list[str]:
    """Answer as a remote index would: later, and all at once."""
    await asyncio.sleep(0)
    return RANKINGS[arm]


PIPELINE = Pipeline({name: partial(retrieve, arm) for arm, name in enumerate(NAMES)}, timeout=1.0)


async def answer() -> object:
    """Take the final snapshot only."""
    return await PIPELINE.search("query")


async def every_snapshot() -> object:
    """Read every snapshot on the way."""
    async with PIPELINE.open("query") as fusion:
        return [snapshot async for snapshot in fusion]


# --- ways to be watched -----------------------------------------------------------------------------------


class Idle(Observer):
    """Watches every fusion, and does nothing about it."""

    def fusion_started(self, _: FusionStart) -> FusionObserver:
        """Watch it."""
        return FusionObserver()


class Dropping(SpanProcessor):
    """Drops what it is given."""


@contextmanager
def idle() -> Iterator[None]:
    """Tell somebody everything who does nothing."""
    observer = Idle()
    add_observer(observer)
    yield
    remove_observer(observer)


@contextmanager
def traced(**options: Any) -> Iterator[None]:
    """Make every span, and drop it."""
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(Dropping())
    instrument(provider)
    yield
    uninstrument()


# --- measuring --------------------------------------------------------------------------------------------


async def cpu_time(query: Query, mode: Mode, times: int) -> float:
    """Return the CPU time of one query in microseconds."""
    with mode():
        start = process_time_ns()
        for _ in range(times):
            await query()
        return (process_time_ns() - start) / times / 1000


def hook_off(times: int) -> float:
    """Return the CPU time in microseconds of all that one query does for observers where there are none.

    That is to look for them, to copy the context for the timer, to set it there, to ask for what starts
    arms, and to tell the journal of the final snapshot and of the leaving. A journal there was before.
    """
    settings = Settings()
    snapshot: Any = None
    nothing: Any = lambda *_: None  # noqa: E731 - a function has a type, which is not the right one

    start = process_time_ns()
    for _ in range(times):
        Journal()
    plain = process_time_ns() - start
    start = process_time_ns()
    for _ in range(times):
        context = copy_context()
        journal = journal_of((), settings)
        journal.spawning(nothing)
        context.run(nothing, 1.0, nothing)
        context.run(nothing, 1.0, nothing)
        journal.shown(snapshot)
        journal.left()
    return (process_time_ns() - start - plain) / times / 1000


async def rows(*, short: bool) -> list[Row]:
    """Measure each way by turns with the query that nobody watches."""
    times, turns = (2, 1) if short else (200, 25)
    off: Mode = nullcontext
    table = []
    for what, query, mode, bar in (
        ("off, the same again", answer, off, "none"),
        ("an observer that does nothing", answer, idle, "none"),
        ("traces, not sampled", answer, partial(traced, sampler=ALWAYS_OFF), "none"),
        ("traces, spans dropped", answer, traced, "none"),
        ("traces, spans dropped, every snapshot", every_snapshot, traced, "none"),
    ):
        pairs = []
        for _ in range(turns):
            watched = await cpu_time(query, mode, times)
            pairs.append((watched, await cpu_time(query, off, times)))
        table.append(Row.of(f"one query, {what}", pairs, bar=bar, against="one query, off"))
    hooks = [(hook_off(times * 10), await cpu_time(answer, off, times)) for _ in range(turns)]
    table.insert(1, Row.of("the hook, off, in one query", hooks, bar="<= 0.02", against="one query, off"))
    return table


async def main(*, short: bool) -> None:
    """Print the table."""
    print(heading())
    show(await rows(short=short))


if __name__ == "__main__":
    asyncio.run(main(short="--short" in sys.argv[1:]))
