"""Servers as processes, and what is around the application: other ones, another server, a proxy."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING

import httpx
import pytest
from server_kit import events_in
from server_programs import PATIENCE, ended, has_asked, running, server, url_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/search", "/search/stream"])
@pytest.mark.parametrize(("manner", "prefix"), [("mounted", "/inner"), ("wrapped", "")])
async def test_searches_of_an_application_in_another_one_are_ended_too(
    manner: str, prefix: str, path: str, tmp_path: Path
) -> None:
    """Whatever is around it, the server ends with the answer of what is under way, and with exit code 0."""
    asked = tmp_path / "asked"
    with server(1, manner, ASKED=str(asked)) as process:
        url = await asyncio.to_thread(url_of, process) + prefix
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            query: dict[str, str | int] = {"q": "ab", "timeout_ms": 60_000}
            answering = asyncio.create_task(client.get(f"{url}{path}", params=query))
            await has_asked(asked, 1)
            process.terminate()
            answer = await answering
        assert await asyncio.to_thread(ended, process) == (0, "ended", "")
    told = answer.json() if path == "/search" else events_in(answer.text)[-1].data
    assert told["outcome"] == "stopped"


@pytest.mark.asyncio
async def test_streams_end_with_any_server(tmp_path: Path) -> None:
    """Where uvicorn itself runs the application, open streams get their final snapshot all the same."""
    asked = tmp_path / "asked"
    command = [sys.executable, "-m", "uvicorn", "server_process:make", "--factory", "--port", "0"]
    with running(command, ASKED=str(asked)) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"running on (http://\S+)", line):
                break
        assert found
        url = f"{found.group(1)}/search/stream"
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answering = asyncio.create_task(client.get(url, params={"q": "ab", "timeout_ms": 60_000}))
            await has_asked(asked, 1)
            process.terminate()
            answer = await answering
        await asyncio.to_thread(ended, process)
    *_, final, done = events_in(answer.text)
    assert {hit["id"] for hit in final.data["hits"]} == {"a", "b", "slow"}
    assert (done.kind, done.data["outcome"]) == ("done", "stopped")


@pytest.mark.asyncio
@pytest.mark.parametrize(("manner", "address"), [("wrapped", "127.0.0.1"), ("behind proxy", "10.1.2.3")])
async def test_only_a_proxy_says_who_the_client_is(manner: str, address: str) -> None:
    """`X-Forwarded-For` is believed where the server was told of a proxy, and of nobody else."""
    with server(1, manner) as process:
        url = await asyncio.to_thread(url_of, process)
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.get(f"{url}/who", headers={"X-Forwarded-For": "10.1.2.3"})
        process.terminate()
        assert await asyncio.to_thread(ended, process) == (0, "ended", "")
    assert answer.text == address
