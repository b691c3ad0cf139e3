"""Standard input while a client is served over it, and afterwards."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rrf_stream.integrations.mcp._stdin import stdin_that_ends

if TYPE_CHECKING:
    import pytest


def test_standard_input_is_the_clients_meanwhile_and_the_programs_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its descriptor leads nowhere while somebody else reads what arrives, until told to end."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as usual, os.fdopen(writing, "w") as client:
        monkeypatch.setattr(sys, "stdin", usual)
        pipe = os.fstat(reading)
        with stdin_that_ends() as end:
            print("a message", file=client, flush=True)
            assert sys.stdin.readline() == "a message\n"
            assert os.read(reading, 1) == b"", "a child process would find nothing there"
            end()
            assert sys.stdin.read() == ""
        assert sys.stdin is usual
        assert os.path.samestat(os.fstat(reading), pipe)
