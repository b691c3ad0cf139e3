"""Standard input that can be left: whoever reads it sees its end when the reading is to stop.

A thread that waits in a read of standard input cannot be woken, and would keep an interrupted
server from ending until its client says something or leaves.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["stdin_that_ends"]

_CHUNK = 65_536


@contextmanager
def stdin_that_ends() -> Iterator[Callable[[], None]]:
    """Put in the place of `sys.stdin` a stream of what arrives there, until the call given is made.

    Meanwhile the descriptor itself leads nowhere, so that no child process takes what is not its own. A
    thread stays behind that waits for standard input, if that has not ended; it keeps no interpreter
    from exiting.

    Raises:
        OSError: It is closed, or standard output is.
    """
    if sys.stdin is None or sys.stdout is None:  # what the interpreter has for a descriptor that is closed
        raise OSError("standard input and output must be open, as the client is there")
    usual = sys.stdin
    descriptor = usual.fileno()
    wire = os.dup(descriptor)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    far, near = socket.socketpair()
    threading.Thread(target=_carry, args=(wire, far), name="rrf-mcp-stdin", daemon=True).start()

    def end() -> None:
        with suppress(OSError):  # it has ended by itself
            far.shutdown(socket.SHUT_RDWR)

    with near, near.makefile("r", encoding="utf-8", errors="replace") as stream:
        sys.stdin = stream
        try:
            yield end
        finally:
            end()
            os.dup2(wire, descriptor)
            sys.stdin = usual


def _carry(wire: int, far: socket.socket) -> None:
    # By the descriptor: the lock of a buffer that a daemon thread holds would crash the interpreter's exit.
    with far, suppress(OSError):  # nobody reads any more
        while chunk := os.read(wire, _CHUNK):
            far.sendall(chunk)
