"""The module of the operators: who imports it, what it needs, and what it says of itself."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from typing import Any

import anyio
from aiostream import pipe, stream

from rrf_stream.operators import fuse, settled_hits


def run(code: str) -> str:
    """Return what a program prints in a Python of its own."""
    ran = subprocess.run(  # noqa: S603 - the program is the test's own
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.strip()


def test_without_aiostream_the_error_names_the_extra() -> None:
    """Only this module needs aiostream, and says how to get it."""
    code = """
import sys
import rrf_stream
sys.modules["aiostream"] = None
try:
    import rrf_stream.operators
except rrf_stream.errors.MissingExtraError as error:
    print(error)
"""
    assert run(code).endswith("pip install 'rrf-stream[aiostream]'")


def test_the_library_does_not_import_aiostream() -> None:
    """It is under another licence, and loaded by nobody who does not ask for the operators."""
    code = "import sys, rrf_stream, rrf_stream.testing; print('aiostream' in sys.modules)"
    assert run(code) == "False"


def test_the_operators_describe_themselves() -> None:
    """`help`, `repr` and signatures are there, though operators are objects."""
    assert repr(fuse) == "rrf_stream.operators.fuse"
    assert "final" in (inspect.getdoc(fuse) or "")
    assert list(inspect.signature(fuse).parameters) == ["arms", "options"]
    assert "position" in (inspect.getdoc(settled_hits) or "")


def test_a_stream_can_be_built_without_an_event_loop() -> None:
    """A module may define streams at its top; they run in whatever loop iterates them."""
    xs = fuse(stream.iterate("ab"), ["b"]) | settled_hits.pipe() | pipe.map(lambda hit, *_: hit.id)

    async def read() -> list[Any]:
        return await (xs | pipe.list())

    assert [asyncio.run(read()), asyncio.run(read())] == [["b", "a"]] * 2


def test_on_trio_what_starts_no_task_works() -> None:
    """Streams of snapshots and of hits are neutral, and so are those operators that are plain loops."""

    async def read() -> list[Any]:
        xs: Any = fuse(["a", "b"], ["b"])
        best = await (xs | settled_hits.pipe() | pipe.map(lambda hit, *_: hit.id) | pipe.take(1))
        return [(await xs).ids, best]

    assert anyio.run(read, backend="trio") == [["b", "a"], "b"]
