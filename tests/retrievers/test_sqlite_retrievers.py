"""The retrievers of an index are asynchronous by their form, so a fusion calls them on the event loop."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from sqlite_kit import NOTES

from rrf_stream import Pipeline, fuse_arms
from rrf_stream.retrievers.sqlite import SQLiteIndex

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.anyio
async def test_a_fusion_starts_no_thread_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for a retriever, not for a part of one, and not for the source that it returns."""
    async with SQLiteIndex.create(tmp_path / "my.db") as index:
        await index.add(NOTES)
        await index.prepare()
        await anyio.wait_all_tasks_blocked()
        monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread was started"))
        retrievers: dict[str, Callable[[str], Any]] = {
            "lexical": index.lexical,
            "dense": partial(index.dense, limit=2),
            "graph": index.graph,
        }
        final = await Pipeline(retrievers).search("frequency")
        assert {hit.id: hit.ranks for hit in final.hits}["bm25"] == {"lexical": 1, "dense": 1}
        assert [hit.id for hit in final.hits if "graph" in hit.ranks] == ["rrf"]
        assert (await fuse_arms({"a": index.lexical("sofa")})).ids == ["cats"]
