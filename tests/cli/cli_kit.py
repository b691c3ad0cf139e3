"""The command, called as from a shell, in a folder of its own: fixtures for the tests of the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rrf_stream.cli import main

RECORDS = """\
{"id": "r1", "title": "Dogs", "text": "a dog barks", "links": ["r2"]}
{"id": "r2", "title": "Wolves", "text": "they howl"}
"""


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.splitlines()


CLI = Callable[..., Result]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CLI:
    """Call `rrf-stream` with arguments, in this process."""

    def call(*arguments: str | Path) -> Result:
        monkeypatch.setattr(sys, "argv", ["rrf-stream", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        code = ended.value.code or 0
        assert isinstance(code, int)
        return Result(code, out, err)

    return call


@pytest.fixture
def docs(here: Path) -> Path:
    """A small corpus: two pages of which one links to the other, a note, and two records that do the same."""
    folder = here / "docs"
    folder.mkdir()
    (folder / "start.md").write_text("# Start here\n\nFirst read how to [install](install.md).\n")
    (folder / "install.md").write_text("# Install\n\nRun the setup program and wait.\n")
    (folder / "note.txt").write_text("setup of the cat door\n")
    (folder / "records.jsonl").write_text(RECORDS)
    return folder
