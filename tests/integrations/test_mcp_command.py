"""`rrf-stream mcp`: an index served by the command, over both wires."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_kit import PATIENCE, refusal, search, text_of

from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

COMMAND = (sys.executable, "-m", "rrf_stream", "mcp")


@pytest.fixture
async def db(tmp_path: Path) -> Path:
    """An index of two documents, one of which links to the other."""
    path = tmp_path / "notes.db"
    async with SQLiteIndex.create(path) as index:
        await index.add(
            [
                Document(
                    id="start.md", title="Start", text="First read how to install.", links=("install.md",)
                ),
                Document(id="install.md", title="Install", text="Run the setup program and wait."),
            ]
        )
    return path


def ran(*arguments: str | Path) -> tuple[int, str]:
    """Run the command to its end; return its exit code and what it says."""
    done = subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_an_index_is_served_over_standard_input_and_output(db: Path) -> None:
    """Its three arms are asked, its documents can be fetched, and the model is told what is in it."""
    arguments = [*COMMAND[1:], "--db", str(db), "--about", "notes on setting up", "--timeout", "9s"]
    async with Client(StdioServerParameters(command=COMMAND[0], args=arguments)) as client:
        (tool, _) = (await client.list_tools()).tools
        answer, _ = await search(client, "setup program", timeout_ms=20_000)
        fetched = await client.call_tool("fetch", {"id": answer.hits[0].id})
        assert "there is no document" in await refusal(client, "fetch", id="7")
    assert answer.complete
    assert [(hit.id, {*hit.arms}) for hit in answer.hits] == [
        ("install.md", {"lexical", "dense"}),
        ("start.md", {"dense", "graph"}),
    ]
    assert text_of(fetched) == "Install\n\nRun the setup program and wait."
    assert "Search notes on setting up." in (tool.description or "")
    assert "(9000 unless you say otherwise" in (tool.description or "")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize(("end", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
async def test_an_index_is_served_over_http_until_a_signal(
    db: Path, end: signal.Signals, expected: int
) -> None:
    """The command says where, and ends as one that was interrupted, or told to, without complaint."""
    command = [*COMMAND, "--db", str(db), "--transport", "http", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220, S603
        try:
            assert process.stderr is not None
            line = await anyio.to_thread.run_sync(process.stderr.readline)
            said = re.fullmatch(
                r"rrf-stream: serving 2 documents at (http://\S+/mcp); Ctrl-C ends it\n", line
            )
            assert said, line
            async with Client(said[1]) as client:
                answer, _ = await search(client, "setup program", timeout_ms=20_000)
            assert [hit.id for hit in answer.hits] == ["install.md", "start.md"]
            process.send_signal(end)
            code = await anyio.to_thread.run_sync(process.wait, PATIENCE)
            assert (code, process.stderr.read()) == (expected, "")
        finally:
            process.kill()


def test_without_an_index_there_is_nothing_to_serve(tmp_path: Path) -> None:
    """That is one line, as with the other commands."""
    code, said = ran("--db", tmp_path / "none.db")
    assert (code, said.startswith("rrf-stream: no index at")) == (2, True)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_the_end_of_standard_input_is_the_end(db: Path) -> None:
    """A client that has left leaves nothing behind."""
    code, said = await anyio.to_thread.run_sync(ran, "--db", db)
    assert (code, said) == (0, "rrf-stream: serving 2 documents over standard input and output\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "9000", "--allow-host", "foo"], "only --transport http takes --port and --allow-host"),
        (["--host", "127.0.0.1"], "only --transport http takes --host"),
        (["--timeout", "soon"], "'soon' is no duration"),
        (["--transport", "carrier-pigeon"], "carrier-pigeon"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], said: str) -> None:
    """Before any index is opened."""
    code, err = ran("--db", "x.db", *arguments)
    assert code == 2
    assert said in " ".join(err.split())


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize(
    ("options", "wrong"),
    [(["--host", "::"], "as clients do"), (["--allow-host", "foo:80"], "without scheme")],
)
async def test_names_by_which_nobody_can_call_are_refused(db: Path, options: list[str], wrong: str) -> None:
    """A server on every address needs one at least, and none has a port."""
    code, said = await anyio.to_thread.run_sync(ran, "--db", db, "--transport", "http", *options)
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("rrf-stream: --host and --allow-host: allowed_hosts must")
    assert wrong in said


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_over_a_closed_standard_input_nobody_is_served(db: Path) -> None:
    """That is one line, too."""
    done = await anyio.run_process(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "--db", str(db)], check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().endswith(
        "rrf-stream: standard input and output must be open, as the client is there\n"
    )


def test_without_the_library_the_message_names_the_extra(tmp_path: Path) -> None:
    """The other commands need it neither; only this one asks for it."""
    program = "import sys; sys.modules['mcp'] = None; from rrf_stream.cli import main; main()"
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", program, "mcp", "--db", str(tmp_path / "x.db")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "rrf-stream: mcp is not installed; the extra 'mcp' brings it: pip install 'rrf-stream[mcp]'\n"
    )
