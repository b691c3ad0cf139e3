"""Processes of the command, for tests of what only a process shows."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from typing import Any, NamedTuple

COMMAND = (sys.executable, "-m", "rrf_stream")


class Finished(NamedTuple):
    """What a process left behind."""

    code: int
    out: str
    err: str


def start(*command: str, **options: Any) -> subprocess.Popen[str]:
    """Start a process whose output is read by `finish`, unless `options` of Popen say otherwise.

    It can be interrupted, also where the tests cannot, as in the background of a shell.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    ignores = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a process inherits that
    usual: Any = {"preexec_fn": _heed_interrupts} if ignores else {}
    return subprocess.Popen(command, text=True, **(usual | pipes | options))  # noqa: S603 - our own command


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(process: subprocess.Popen[str]) -> Finished:
    """Wait for a process and return what it wrote to its pipes."""
    with process:
        out, err = process.communicate(timeout=120)
    return Finished(process.returncode, out or "", err or "")


def run(*command: str, **options: Any) -> Finished:
    """Start a process, wait for it and return what it wrote."""
    return finish(start(*command, **options))


def on_a_terminal(*arguments: str, **environment: str) -> tuple[int, str]:
    """Run the command on a terminal of its own; return its exit code and all that it wrote there."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40", **environment}
    with start(*COMMAND, *arguments, stdin=follower, stdout=follower, stderr=follower, env=env) as process:
        os.close(follower)
        written = b""
        while select.select([leader], [], [], 60)[0]:
            try:
                written += os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
    os.close(leader)
    return process.returncode, written.decode()
