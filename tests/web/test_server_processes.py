"""Servers as processes: signals end them gracefully, workers share the work, and their metrics are one."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from server_kit import events_in
from server_programs import GRACE, PATIENCE, ended, has_asked, is_alive, pids_of, processes_in, server, url_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", [1, 2])
async def test_a_signal_ends_a_server_gracefully(
    workers: int, number: signal.Signals, tmp_path: Path
) -> None:
    """Open searches give their final snapshot with what is there, nobody gets in, and the exit code is 0."""
    asked = tmp_path / "asked"
    with server(workers, ASKED=str(asked)) as process:
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
            await has_asked(asked, 1 + len(asking))
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
async def test_workers_answer_searches_at_the_end_without_any_stream(tmp_path: Path) -> None:
    """It is no stream that tells a worker to end its searches: those that wait for one answer get it, too."""
    asked = tmp_path / "asked"
    with server(2, ASKED=str(asked)) as process:
        url = await asyncio.to_thread(url_of, process)
        await pids_of(url, 2)
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            asking = client.get(f"{url}/search", params={"q": "ab", "timeout_ms": 60_000})
            answering = asyncio.create_task(asking)
            await has_asked(asked, 1)
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
async def test_a_process_can_serve_again(tmp_path: Path) -> None:
    """After a signal that ended a stream, the next server of the process searches as the first did."""
    asked = tmp_path / "asked"
    with server(manner="again", ASKED=str(asked)) as process:
        for _ in range(2):
            url = f"{await asyncio.to_thread(url_of, process)}/search/stream"
            async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
                # Longer than the time between two looks at whether the server ends.
                answer = await client.get(url, params={"q": "ab", "timeout_ms": 900})
                assert events_in(answer.text)[-1].data["outcome"] == "deadline"
                before = len(await has_asked(asked, 1))
                answering = asyncio.create_task(client.get(url, params={"q": "ab", "timeout_ms": 60_000}))
                await has_asked(asked, before + 1)
                process.terminate()
                assert events_in((await answering).text)[-1].data["outcome"] == "stopped"
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


@pytest.mark.asyncio
async def test_searches_of_a_worker_that_was_killed_are_not_open(tmp_path: Path) -> None:
    """What a process could not take back is forgotten once it is gone; what it counted stays."""
    asked, folder = tmp_path / "asked", tmp_path / "metrics"
    folder.mkdir()
    with server(2, ASKED=str(asked), PROMETHEUS_MULTIPROC_DIR=str(folder)) as process:
        url = await asyncio.to_thread(url_of, process)
        await pids_of(url, 2)
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            searching = client.get(f"{url}/search", params={"q": "ab", "timeout_ms": 60_000})
            lost = asyncio.create_task(searching)
            (pid,) = await has_asked(asked, 1)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(httpx.HTTPError):
                await lost
            metrics = ""
            async with asyncio.timeout(PATIENCE):
                while "rrf_stream_open_fusions 0.0" not in metrics:
                    try:
                        metrics = (await client.get(f"{url}/metrics")).text
                    except httpx.HTTPError:  # a connection that waited for the one that is gone
                        await asyncio.sleep(0.1)
        process.terminate()
        await asyncio.to_thread(ended, process)
