"""Whole programs with threads: no thread keeps an interpreter from exiting, and none makes a noise then."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from engine_kit import run_python

PREAMBLE = """
import anyio, asyncio, gc, os, signal, sys, threading, time
from rrf_stream import *

def stuck(*_):
    time.sleep(3600)

def stuck_later():
    yield "x"
    time.sleep(3600)

def stuck_closing():
    try:
        yield "x"
        yield "y"
    finally:
        time.sleep(3600)

async def stuck_on_a_loop():
    yield "x"
    time.sleep(3600)

def ends_later():
    time.sleep(0.1)
    return ["x"]

async def awaited():
    return ["x"]

def returns_a_coroutine_later():
    time.sleep(0.1)
    return awaited()

def endless():
    yield from iter(int, 1)

async def ask(*sources, **options):
    arms = {str(number): source for number, source in enumerate(sources)}
    await fuse_arms(arms, **{"timeout": 0.05, **options})
"""
BACKENDS = ['backend="asyncio"', 'backend="trio"', 'backend="asyncio", backend_options={"use_uvloop": True}']


def run_program(main: str, backend: str, after: str = "") -> Any:
    return run_python(f"{PREAMBLE}\nasync def main():\n    {main}\n\nanyio.run(main, {backend})\n{after}")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "sources",
    [
        "stuck, lambda: stuck()",
        "in_thread(stuck), in_thread(stuck_on_a_loop)",
        "stuck_later, stuck_later(), in_thread(stuck_later)",
        "Arm('a', stuck_closing, window=1)",
    ],
)
def test_a_stuck_thread_does_not_delay_the_exit(sources: str, backend: str) -> None:
    """The program ends by itself, with nothing on stderr, although its calls would take an hour."""
    began = time.monotonic()
    main = f"await (fuse_arms([{sources}], timeout=0.05) if 'Arm' in {sources!r} else ask({sources}))"
    ran = run_program(main, backend)
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", "")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "source",
    [
        "ends_later",
        "in_thread(ends_later)",
        "returns_a_coroutine_later",
        "in_thread(endless, buffer=1)",
        "endless",
    ],
)
def test_a_thread_may_outlive_its_event_loop(source: str, backend: str) -> None:
    """It ends by itself, and makes no noise: nobody is there to be told."""
    ran = run_program(f"await ask({source}, timeout=0.01)", backend, after=ENDED)
    assert (ran.returncode, ran.stderr) == (0, "")


ENDED = """
from rrf_stream import _tasks, _thread_limit
until = time.monotonic() + 10
while _tasks._LIVE or _thread_limit._places.taken or threading.active_count() > 1:
    assert time.monotonic() < until
    time.sleep(0.01)
    gc.collect()
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_event_loop_that_is_stopped_leaves_nothing(backend: str) -> None:
    """A run that is cancelled from outside, by Ctrl-C, closes its arms on the way out."""
    ran = run_python(
        PREAMBLE
        + f"""
async def main():
    async with open_fusion({{"a": in_thread(endless, buffer=1), "b": awaited()}}) as fusion:
        async for _ in fusion:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            await anyio.sleep(10)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
try:
    anyio.run(main, {backend})
except KeyboardInterrupt:
    print("interrupted")
{ENDED}"""
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "interrupted\n", "")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_idle_thread_does_not_delay_the_exit(backend: str) -> None:
    """However long it would wait for the next source."""
    began = time.monotonic()
    ran = run_program(f"{FOR_HOURS}; await ask(lambda: ['x'], in_thread(awaited), iter('x'))", backend)
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", "")
    assert time.monotonic() - began < 30


FOR_HOURS = "from rrf_stream import _threads; _threads._PATIENCE = 3600"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_has_no_idle_threads() -> None:
    """Those of the parent wait for the parent's sources, and go on to do so."""
    ran = run_python(
        f"""{PREAMBLE}
{FOR_HOURS}
def run():
    return anyio.run(lambda: fuse_arms({{"a": lambda: [threading.get_native_id()]}}, timeout=5)).ids
before = run()
time.sleep(0.1)
child = os.fork()
if not child:
    found = run()
    os._exit(0 if len(found) == 1 and found != before else 1)
print(os.waitpid(child, 0)[1], run() == before)
""",
        "-W",
        "ignore:This process",
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "0 True\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_has_all_places() -> None:
    """The threads of the parent, which a forked child does not have, take no place of it."""
    ran = run_python(
        PREAMBLE
        + """
set_thread_limit(2)
anyio.run(ask, stuck, stuck)
child = os.fork()
if not child:
    found = anyio.run(lambda: fuse_arms({"a": lambda: ["x"]}))
    os._exit(0 if found.ids == ["x"] else 1)
print(os.waitpid(child, 0)[1])
""",
        "-W",
        "ignore:This process",
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "0\n", "")
