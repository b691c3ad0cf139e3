"""What the tests of servers as processes share: programs that are started, watched, and ended by the test."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
PATIENCE = 60.0
GRACE = 3.0
"""What the servers of these tests have; the time between two looks at signals and workers comes on top."""


@contextmanager
def server(workers: int = 1, manner: str = "once", **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Start a server; it is killed if it does not end within the block."""
    command = [sys.executable, str(HERE / "server_process.py"), str(workers), manner]
    with running(command, **environment) as process:
        yield process


@contextmanager
def running(command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program, as `server`."""
    env = {**os.environ, "PYTHONPATH": str(HERE), **environment}
    ignores = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a process inherits that
    usual: Any = (
        {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)} if ignores else {}
    )
    with subprocess.Popen(  # noqa: S603 - the program is our own
        command,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **usual,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait until a process has ended, and return its code and what it wrote."""
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.read(), process.stderr.read()
    return process.wait(PATIENCE), out.strip(), err.strip()


async def pids_of(url: str, count: int) -> set[int]:
    """Ask until so many processes have answered."""
    pids: set[int] = set()
    async with asyncio.timeout(PATIENCE), httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        while len(pids) < count:
            facts = await client.get(f"{url}/page.json", headers={"Connection": "close"})
            pids.add(int(facts.json()["note"]))
    return pids


def processes_in(folder: Path) -> set[str]:
    """Return whose files of metrics are in a folder."""
    return {path.stem.rpartition("_")[2] for path in folder.iterdir()}


async def has_asked(asked: Path, count: int) -> list[int]:
    """Wait until so many searches are under way, and return the processes that they are in."""
    pids: list[int] = []
    async with asyncio.timeout(PATIENCE):
        while len(pids) < count:
            await asyncio.sleep(0.02)
            pids = lines_in(asked)
    return pids


def lines_in(asked: Path) -> list[int]:
    return [int(line) for line in asked.read_text().splitlines()] if asked.exists() else []


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
