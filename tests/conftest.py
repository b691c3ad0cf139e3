"""Every backend-neutral test runs on each event loop that the library supports."""

from __future__ import annotations

from typing import Any

import pytest

BACKENDS: dict[str, tuple[str, dict[str, Any]]] = {
    "asyncio": ("asyncio", {}),
    "uvloop": ("asyncio", {"use_uvloop": True}),
    "trio": ("trio", {}),
}


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The event loop that a test marked `anyio` runs on, by its real clock."""
    return BACKENDS[request.param]
