"""What the tests of the embedded index share."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rrf_stream.retrievers._document import record
from rrf_stream.retrievers._sqlite_db import Database, create_file
from rrf_stream.retrievers.sqlite import Document

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterator

    from rrf_stream import Hit, Page
    from rrf_stream.retrievers._document import Record
    from rrf_stream.retrievers.sqlite import SQLiteIndex

ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
NOTES = [
    Document(id="rrf", title="Reciprocal rank fusion", text="Adds the reciprocal ranks of every list."),
    Document(id="bm25", title="BM25", text="Scores words by frequency and rarity.", links=("rrf",)),
    Document(id="cats", title="Cats", text="They sleep on the sofa most of the day.", metadata={"legs": 4}),
]


def ids(pages: list[Page[Hit]]) -> list[Any]:
    return [hit.id for page in pages for hit in page]


async def read(source: AsyncIterable[Page[Hit]]) -> list[Page[Hit]]:
    return [page async for page in source]


def endless(db: Database, *_: object) -> Any:
    """Run until interrupted."""
    return db.rows(ENDLESS)


def record_of(document_id: str, text: str = "", **fields: Any) -> Record:
    return record(Document(id=document_id, text=text, **fields))


@contextlib.contextmanager
def database() -> Iterator[Database]:
    """A writer on a new index, in this thread."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "index.db")
        create_file(path)
        with contextlib.closing(Database(path, readonly=False)) as db:
            yield db


def idle_readers(index: SQLiteIndex) -> bool:
    """Whether no reader thread has anything to do."""
    assert index._connections._threads is not None
    return not index._connections._threads[1]._jobs


def run_child(
    program: str, *arguments: str, timeout: float = 60, prefix: tuple[str, ...] = ()
) -> tuple[str, float]:
    """Run a program in an interpreter of its own; its output and how many seconds it took."""
    started = time.monotonic()
    done = subprocess.run(  # noqa: S603 - our own program
        [*prefix, sys.executable, "-W", "error", "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return done.stdout, time.monotonic() - started
