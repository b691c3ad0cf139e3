"""`rrf-stream serve --behind-proxy`: who the clients are is for a proxy to say, where there is one."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import httpx
import pytest
from cli_process import COMMAND, finish, start

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["cli_kit"]

MODULE = """
from rrf_stream import Pipeline

async def words(query):
    return query.split()

pipeline = Pipeline({"words": words})
"""


@pytest.mark.parametrize(("options", "client"), [((), "127.0.0.1"), (("--behind-proxy",), "10.1.2.3")])
def test_only_a_proxy_says_who_the_client_is(here: Path, options: tuple[str, ...], client: str) -> None:
    """The log of requests has the address that `X-Forwarded-For` tells with the option, and not without."""
    (here / "proxied.py").write_text(MODULE)
    arguments = ["serve", "proxied:pipeline", "--port", "0", "--log-level", "info", *options]
    process = start(*COMMAND, *arguments)
    assert process.stdout is not None
    url = next(found[1] for line in process.stdout if (found := re.match(r"(http://\S+) is open", line)))
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as asker:
        assert asker.get("/healthz", headers={"X-Forwarded-For": "10.1.2.3"}).status_code == 200
    process.send_signal(signal.SIGTERM)
    ended = finish(process)
    assert ended.code == 0
    assert re.search(rf"{re.escape(client)}:\d+ - .GET /healthz", ended.out + ended.err)
