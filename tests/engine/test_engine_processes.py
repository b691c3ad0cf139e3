"""Whole programs in a Python of their own: developer mode, every warning an error, and nothing on stderr."""

from __future__ import annotations

import re

import pytest
from engine_kit import run_python

PREAMBLE = """
import anyio, asyncio, gc, sys
from rrf_stream import *
from rrf_stream.testing import script

async def never():
    return ["never"]

async def endless():
    try:
        yield "x"
        await anyio.sleep_forever()
    finally:
        await anyio.lowlevel.checkpoint()
"""

PROGRAMS = """
async def reads_to_the_end():
    async with open_fusion({"a": script("x"), "b": never(), "c": endless}, timeout=0.01) as fusion:
        assert [snapshot async for snapshot in fusion][-1].final

async def leaves_early():
    async with open_fusion({"a": endless(), "b": never()}) as fusion:
        async for snapshot in fusion:
            break

async def leaves_at_once():
    async with open_fusion({"a": endless(), "b": never(), "c": script("x")}):
        pass

async def closes_unread():
    await open_fusion({"a": endless(), "b": never(), "c": script("x")}).aclose()

async def drops_unread():
    open_fusion({"a": endless(), "b": never(), "c": script("x")})

async def breaks_without_a_context():
    async for snapshot in open_fusion({"a": endless(), "c": script("x")}):
        break

async def ends_with_a_handle_still_open():
    global fusion
    fusion = open_fusion({"a": endless(), "c": script("x", hang=True)})
    await anext(fusion)

async def ends_with_arms_still_cleaning_up():
    arms = {"a": script(hang=True, cleanup=0.2), "b": script(1, hang=True, cleanup=0.1, shield=True)}
    await fuse_arms(arms, timeout=0.01)

async def has_failing_arms():
    arms = {"a": script("x", fail=OSError("down")), "b": script(fail=KeyError("key")), "c": 5 .__add__}
    assert (await fuse_arms(arms)).coverage.degraded

async def has_failing_clean_ups():
    arms = {"a": script("x", on_close=[].pop), "b": script(hang=True, on_close=[].pop)}
    await fuse_arms(arms, timeout=0.01)
    await drain()

async def is_cancelled():
    with anyio.move_on_after(0.01) as scope:
        async with open_fusion({"a": endless(), "b": script("x", hang=True)}, timeout=5) as fusion:
            async for snapshot in fusion:
                await anyio.sleep_forever()
    assert scope.cancelled_caught

async def raises():
    try:
        async with open_fusion({"a": endless(), "b": script("x", hang=True)}) as fusion:
            async for snapshot in fusion:
                raise LookupError
    except LookupError:
        pass
"""


@pytest.mark.parametrize("backend", ["asyncio", "uvloop", "trio"])
def test_programs_end_quietly(backend: str) -> None:
    """No coroutine was never awaited, no exception never retrieved, no generator or task left behind.

    Each program runs on an event loop of its own, in one interpreter that says on stderr which it is.
    """
    options = {"uvloop": "backend_options={'use_uvloop': True}"}.get(backend, f"backend={backend!r}")
    names = re.findall(r"^async def (\w+)", PROGRAMS, re.MULTILINE)
    ran = run_python(f"""{PREAMBLE}{PROGRAMS}
for program in ({", ".join(names)}):
    print(program.__name__, file=sys.stderr)
    anyio.run(program, {options})
    gc.collect()
""")
    assert ran.stderr.splitlines() == names, ran.stderr
    assert (ran.returncode, ran.stdout) == (0, "")


def test_a_handle_may_outlive_its_event_loop() -> None:
    """Dropping it afterwards, or at the interpreter's exit, is not an error."""
    ran = run_python(f"""{PREAMBLE}
async def main(keep):
    fusion = open_fusion({{"a": endless(), "b": script("x", hang=True)}})
    await anext(fusion)
    keep.append(fusion)

kept, kept_to_the_end = [], []
for backend in ("asyncio", "trio"):
    anyio.run(main, kept, backend=backend)
    anyio.run(main, kept_to_the_end, backend=backend)
kept.clear()
gc.collect()
print(True)
""")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "True\n", "")


def test_plain_asyncio_needs_no_preparation() -> None:
    """The first search under `asyncio.run` keeps its budget: imports are not charged to it."""
    ran = run_python("""
        import asyncio, time
        from rrf_stream import fuse_arms

        async def hangs():
            await asyncio.sleep(60)

        async def main():
            final = await fuse_arms({"a": hangs, "b": ["x"]}, timeout=0.05)
            print(final.ids, 0.048 <= final.elapsed <= 0.1)

        asyncio.run(main())
    """)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "['x'] True\n", "")


def test_the_core_needs_neither_trio_nor_uvloop_nor_pytest() -> None:
    """A search on asyncio, and the module for tests, import no optional library."""
    ran = run_python("""
        import asyncio, sys

        for name in ("trio", "uvloop", "pytest", "hypothesis", "aiostream"):
            sys.modules[name] = None  # as if it were not installed
        import rrf_stream, rrf_stream.testing as testing

        async def main():
            with testing.capture_events() as events:
                final = await rrf_stream.fuse_arms({"a": testing.script(1.0, "x", hang=True)}, timeout=3600)
            await testing.assert_no_leaks()
            print(final.ids, final.elapsed, len(events), sorted(testing.VIRTUAL_BACKENDS))

        with asyncio.Runner(loop_factory=testing.VirtualEventLoop) as runner:
            runner.run(main())
    """)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "['x'] 3600.0 2 ['asyncio']\n", "")


@pytest.mark.parametrize("when", ["at once", "later", "in answer to its cancellation"])
@pytest.mark.parametrize("use_uvloop", [False, True])
def test_an_interrupt_that_an_arm_raises_ends_the_program_and_is_told_once(
    when: str,
    use_uvloop: bool,  # noqa: FBT001 - a parameter
) -> None:
    """It comes out of the event loop as itself; asyncio does not say besides that nobody looked at it."""
    ran = run_python(f"""{PREAMBLE}
async def interrupted():
    if {when!r} == "later":
        yield "x"
        await anyio.sleep(0.001)
    try:
        if {when!r} == "in answer to its cancellation":
            await anyio.sleep_forever()
    finally:
        raise KeyboardInterrupt("enough")

async def main():
    async with open_fusion({{"a": interrupted(), "b": endless()}}) as fusion:
        async for snapshot in fusion:
            if {when!r} == "in answer to its cancellation":
                fusion.stop()
    await anyio.sleep(10)

try:
    anyio.run(main, backend_options={{"use_uvloop": {use_uvloop}}})
except KeyboardInterrupt as error:
    print(*error.args)
gc.collect()
""")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "enough\n", "")
