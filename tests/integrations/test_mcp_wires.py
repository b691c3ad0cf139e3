"""The server as a process of its own, over standard streams and over HTTP, with the SDK's own client."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp_kit import PATIENCE, Told, search, text_of
from mcp_program import AROUND, ASKED, CLOSED, INSIDE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

PROGRAM = str(Path(__file__).with_name("mcp_program.py"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "error"}
ENVIRONMENT.pop("PYTHONUNBUFFERED", None)  # what is printed shall wait in a buffer, as it does for most

over_each_wire = pytest.mark.parametrize("wire", ["stdio", "http"])
#: Clients of the newest protocol need no session, those of the ones before open one.
in_each_era = pytest.mark.parametrize("mode", ["auto", "legacy"])


@contextmanager
def program(wire: str, **pipes: Any) -> Iterator[subprocess.Popen[str]]:
    """Run the server, whose standard error can be read; it is gone afterwards."""
    ignores = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a process inherits that
    heed: Any = {"preexec_fn": heed_interrupts} if ignores else {}
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, PROGRAM, wire], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, **heed, **pipes
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def line_of(stream: IO[str] | None, wanted: str) -> str:
    """Return the next line of a stream that has some words."""
    assert stream is not None
    for line in stream:
        if wanted in line:
            return line.strip()
    raise AssertionError(f"no line with {wanted!r}")


@asynccontextmanager
async def connected(wire: str, mode: str, log: Path) -> AsyncIterator[Client]:
    """A client of a server of its own, which writes its standard error to a file."""
    if wire == "stdio":
        parameters = StdioServerParameters(command=sys.executable, args=[PROGRAM, "stdio"], env=ENVIRONMENT)
        with log.open("w") as errors:
            async with Client(stdio_client(parameters, errlog=errors), mode=mode) as client:
                yield client
        return
    with program("http") as process:
        url = await anyio.to_thread.run_sync(line_of, process.stderr, "http://")
        rest = threading.Thread(target=copy, args=(process.stderr, log))
        rest.start()
        async with Client(url, mode=mode) as client:
            yield client
    rest.join()


def copy(stream: IO[str], log: Path) -> None:
    with log.open("w") as file:
        for line in stream:
            print(line, end="", file=file, flush=True)


# --- answers ----------------------------------------------------------------------------------------------


@over_each_wire
@in_each_era
@pytest.mark.asyncio
async def test_an_answer_comes_in_time_and_in_words(wire: str, mode: str, tmp_path: Path) -> None:
    """With a slow and a failing arm, progress on the way, and the whole document afterwards."""
    told: list[Told] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(Told(progress, total, message or ""))

    async with connected(wire, mode, tmp_path / "log") as client:
        started = time.monotonic()
        arguments = {"query": "words", "timeout_ms": 500}
        result = await client.call_tool("search", arguments, progress_callback=tell)
        took = time.monotonic() - started
        fetched = await client.call_tool("fetch", {"id": "a"})
    assert 0.49 <= took < PATIENCE
    note = text_of(result).splitlines()[0]
    assert re.fullmatch(
        r"3 hits\. Results may be incomplete: the vector index gave only 1 result within \d\S* m?s; 'graph' "
        r"failed \(ConnectionError\)\. Even the first hit might be another one in a complete search\.",
        note,
    ), note
    assert result.structured_content is not None
    assert result.structured_content["note"] in note
    assert told
    assert all("waiting for the vector index" in one.message for one in told)
    assert [one.progress for one in told] == sorted({one.progress for one in told})
    assert text_of(fetched) == "All of it."


@over_each_wire
@in_each_era
@pytest.mark.parametrize("limit", [None, 3.0])
@pytest.mark.asyncio
async def test_a_client_that_gives_up_cancels_the_arms(
    wire: str, mode: str, limit: float | None, tmp_path: Path
) -> None:
    """By itself, or at its limit, which does not reach the tool; the arm is closed long before its time."""
    log = tmp_path / "log"
    async with connected(wire, mode, log) as client:

        async def give_up() -> None:
            arguments = {"query": "words", "timeout_ms": 3_000_000}
            try:
                await client.call_tool("search", arguments, read_timeout_seconds=limit)
            except MCPError as error:
                assert "timed out" in str(error)  # noqa: PT017 - only one of the two ways has it

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(give_up)
            await said(ASKED, log)
            if limit is None:
                tasks.cancel_scope.cancel()
        await said(CLOSED, log)
        answer, _ = await search(client, timeout_ms=200)
    assert [hit.id for hit in answer.hits] == ["a", "c", "b"]


async def said(words: str, log: Path) -> None:
    """Wait until a log has some words."""
    with anyio.fail_after(PATIENCE):
        while words not in await anyio.Path(log).read_text("utf-8"):  # noqa: ASYNC110 - a process writes it
            await anyio.sleep(0.02)


# --- standard output --------------------------------------------------------------------------------------


def message(method: str, id_: int | None = None, **params: Any) -> str:
    """Return a message of the protocol, as a line."""
    named = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(named if id_ is None else {**named, "id": id_}) + "\n"


def test_on_standard_output_there_is_nothing_but_the_protocol() -> None:
    """The application logs to standard output, and an arm prints: all of that is on standard error."""
    with program("stdio", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        who = {"name": "test", "version": "1"}
        process.stdin.write(
            message("initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=who)
            + message("notifications/initialized")
            + message("tools/call", 2, name="search", arguments={"query": "words", "timeout_ms": 200})
        )
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        process.stdin = None
        out, err = process.communicate(timeout=PATIENCE)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["hits"]
    assert out == ""
    assert "rrf_stream.arm_closed" in err
    assert "an arm prints" in err
    assert process.returncode == 0


# --- the end ----------------------------------------------------------------------------------------------


def test_over_standard_input_ctrl_c_ends_it_though_the_client_is_silent() -> None:
    """A thread that waits for the client's next word does not hold it up."""
    with program("stdio", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(message("ping", 1))
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) != 0
        assert process.stderr is not None
        assert process.stderr.read().splitlines()[-1].strip() in {"", "KeyboardInterrupt"}


@in_each_era
@pytest.mark.asyncio
async def test_over_http_ctrl_c_ends_it_though_clients_are_connected(mode: str) -> None:
    """Neither their connections nor their streams hold it up, and nothing is complained of."""
    with program("http") as process:
        url = await anyio.to_thread.run_sync(line_of, process.stderr, "http://")
        async with Client(url, mode=mode) as client:
            await search(client, timeout_ms=50)
            process.send_signal(signal.SIGINT)
            await anyio.to_thread.run_sync(process.wait, PATIENCE)
        assert process.stderr is not None
        complaints = process.stderr.read()
        assert complaints.splitlines()[-1].strip() == "KeyboardInterrupt"
        assert "ERROR" not in complaints


def test_over_standard_input_sigterm_leaves_it() -> None:
    """Though a search is under way: its arms are cancelled, and the program closes what it holds."""
    with program("stdio", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        who = {"name": "test", "version": "1"}
        process.stdin.write(
            message("initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=who)
            + message("notifications/initialized")
            + message("tools/call", 2, name="search", arguments={"query": "words", "timeout_ms": 3_000_000})
        )
        process.stdin.flush()
        line_of(process.stderr, ASKED)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert [line for line in process.stderr.read().splitlines() if line in {CLOSED, INSIDE, AROUND}] == [
            CLOSED,
            INSIDE,
            AROUND,
        ]


@in_each_era
@pytest.mark.asyncio
async def test_over_http_sigterm_leaves_it_though_a_search_is_under_way(mode: str, tmp_path: Path) -> None:
    """What runs has some seconds, and is cancelled; then the program goes on to close what it holds."""
    log = tmp_path / "log"
    with program("http") as process:
        url = await anyio.to_thread.run_sync(line_of, process.stderr, "http://")
        rest = threading.Thread(target=copy, args=(process.stderr, log))
        log.touch()
        rest.start()

        async def ask() -> None:
            async with Client(url, mode=mode) as client:
                with pytest.raises(MCPError):
                    await client.call_tool("search", {"query": "words", "timeout_ms": 3_000_000})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await said(ASKED, log)
            process.send_signal(signal.SIGTERM)
            assert await anyio.to_thread.run_sync(process.wait, PATIENCE) == 0
            tasks.cancel_scope.cancel()
    rest.join()
    lines = (await anyio.Path(log).read_text("utf-8")).splitlines()
    assert [line for line in lines if line in {CLOSED, INSIDE, AROUND}] == [CLOSED, INSIDE, AROUND]


# --- who may ask ------------------------------------------------------------------------------------------


def test_over_http_only_known_names_are_answered() -> None:
    """A web page that had its name point here would ask by that name, and is refused; so is its origin."""
    with program("http") as process:
        url = line_of(process.stderr, "http://")
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", url)
        assert status(url) == 200
        assert status(url, host="localhost:1") == 200
        assert status(url, host="evil.example") == 421
        assert status(url, origin="http://evil.example") == 403
        for origin in ("http://localhost", "https://localhost", "http://127.0.0.1:1", "http://[::1]"):
            assert status(url, origin=origin) == 200


def status(url: str, **headers: str) -> int:
    """Return what the server says to a client that introduces itself."""
    who = {"name": "test", "version": "1"}
    body = message("initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=who)
    usual = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, body.encode(), {**usual, **headers})  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:  # noqa: S310
            code: int = response.status
            return code
    except urllib.error.HTTPError as error:
        with error:
            return error.code
