"""Servers as processes: signals end them gracefully, workers share the work, and their metrics are one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from server_kit import events_in

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


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", [1, 2])
async def test_a_signal_ends_a_server_gracefully(workers: int, number: signal.Signals) -> None:
    """Open searches give their final snapshot with what is there, nobody gets in, and the exit code is 0."""
    with server(workers) as process:
        url = await asyncio.to_thread(url_of, process)
        pids = await pids_of(url, workers)
        asker = httpx.AsyncClient(trust_env=False, timeout=PATIENCE)
        query: dict[str, str | int] = {"q": "ab", "timeout_ms": 60_000}
        async with asker, asker.stream("GET", f"{url}/search/stream", params=query) as stream:
            asking = [
                asyncio.create_task(asker.get(f"{url}/search", params=query)) for _ in range(4 * workers)
            ]
            parts = stream.aiter_text()
            text = await anext(parts)
            while '"id":"slow"' not in text:
                text += await anext(parts)
            await asyncio.sleep(0.5)  # so that the searches are under way
            started = time.monotonic()
            process.send_signal(number)
            text += "".join([part async for part in parts])
            answers = await asyncio.wait_for(asyncio.gather(*asking), PATIENCE)
            took = time.monotonic() - started
        assert await asyncio.to_thread(ended, process) == (0, "ended", "")
        with pytest.raises(httpx.ConnectError):
            async with httpx.AsyncClient(trust_env=False) as late:
                await late.get(f"{url}/healthz")
    assert not any(is_alive(pid) for pid in pids)
    assert took < GRACE
    *_, final, done = events_in(text)
    assert (done.kind, done.data["outcome"]) == ("done", "stopped")
    assert final.data["final"]
    assert {hit["id"] for hit in final.data["hits"]} == {"a", "b", "slow"}
    for answer in answers:
        assert answer.status_code == 200
        assert answer.json()["outcome"] == "stopped"
        assert {hit["id"] for hit in answer.json()["hits"]} == {"a", "b", "slow"}
        assert answer.headers["rrf-coverage"].startswith("degraded")


@pytest.mark.asyncio
async def test_workers_answer_searches_at_the_end_without_any_stream() -> None:
    """It is no stream that tells a worker to end its searches: those that wait for one answer get it, too."""
    with server(2) as process:
        url = await asyncio.to_thread(url_of, process)
        await pids_of(url, 2)
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            asking = client.get(f"{url}/search", params={"q": "ab", "timeout_ms": 60_000})
            answering = asyncio.create_task(asking)
            await asyncio.sleep(0.5)
            process.terminate()
            answer = await answering
        assert (await asyncio.to_thread(ended, process))[:2] == (0, "ended")
    assert answer.json()["outcome"] == "stopped"


def test_a_signal_before_anything_is_served_ends_the_server() -> None:
    """Who starts a server and thinks better of it is heard, too."""
    with server(manner="at once") as process:
        assert url_of(process).startswith("http://127.0.0.1:")
        code, out, _ = ended(process)
    assert (code, out) == (0, "ended")


@pytest.mark.asyncio
async def test_a_process_can_serve_again() -> None:
    """After a signal the next server of the process searches as the first did."""
    with server(manner="again") as process:
        for _ in range(2):
            url = await asyncio.to_thread(url_of, process)
            async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
                for _ in range(2):
                    answer = await client.get(f"{url}/search/stream", params={"q": "ab", "timeout_ms": 900})
                    assert events_in(answer.text)[-1].data["outcome"] == "deadline"
            process.terminate()
        assert (await asyncio.to_thread(ended, process))[:2] == (0, "ended")


@pytest.mark.asyncio
async def test_metrics_of_workers_are_one(tmp_path: Path) -> None:
    """With PROMETHEUS_MULTIPROC_DIR, any worker tells of the searches of all."""
    with server(2, PROMETHEUS_MULTIPROC_DIR=str(tmp_path)) as process:
        url = await asyncio.to_thread(url_of, process)
        pids = await pids_of(url, 2)
        assert process.pid not in pids
        count = 20
        for _ in range(count):  # each over a connection of its own, so that both get some
            async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
                answer = await client.get(f"{url}/search", params={"q": "ab", "arms": "quick"})
            assert answer.json()["outcome"] == "complete"
        async with httpx.AsyncClient(trust_env=False) as client:
            metrics = (await client.get(f"{url}/metrics")).text
        process.terminate()
        assert (await asyncio.to_thread(ended, process))[0] == 0
    assert f'rrf_stream_searches_total{{outcome="complete"}} {count:.1f}' in metrics
    assert f'rrf_stream_arms_total{{arm="quick",status="exhausted"}} {count:.1f}' in metrics
    assert "rrf_stream_open_fusions 0.0" in metrics
    assert len(processes_in(tmp_path)) >= 2
