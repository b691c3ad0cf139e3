"""The way of documents into an index: read, check, embed what is new, commit."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rrf_stream.retrievers import _sqlite_store as store
from rrf_stream.retrievers import _wordllama as embedding
from rrf_stream.retrievers._document import Document, record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rrf_stream.retrievers._document import Record
    from rrf_stream.retrievers._sqlite_db import Database
    from rrf_stream.retrievers._sqlite_threads import Connections

    T = TypeVar("T")

Documents: TypeAlias = Iterable[Document] | AsyncIterable[Document]


async def add(
    connections: Connections,
    documents: Documents,
    *,
    batch_size: int,
    on_progress: Callable[[int], object] | None,
) -> int:
    """`SQLiteIndex.add`."""
    total = 0
    batch: list[Record] = []

    async def flush() -> None:
        nonlocal total
        records = {one.id: one for one in batch}  # the last of equal ids counts
        await _commit(connections, records, lambda db, vectors: store.add(db, records.values(), vectors))
        total += len(batch)
        batch.clear()
        if on_progress is not None:
            on_progress(total)

    async with aclosing(_each(documents)) as each:
        async for document in each:
            batch.append(record(document))
            if len(batch) == batch_size:
                await flush()
    if batch:
        await flush()
    return total


async def replace_origin(
    connections: Connections, origin: str, digest: str, documents: Documents
) -> store.OriginUpdate:
    """`SQLiteIndex.replace_origin`."""
    records: dict[str, Record] = {}
    async with aclosing(_each(documents)) as each:
        async for document in each:
            one = record(document)
            if one.id in records:
                raise ValueError(f"origin {origin!r} has two documents with the id {one.id!r}")
            records[one.id] = one
    return await _commit(
        connections,
        records,
        lambda db, vectors: store.replace_origin(db, records, vectors, origin=origin, digest=digest),
    )


async def _commit(
    connections: Connections,
    records: Mapping[str, Record],
    commit: Callable[[Database, Mapping[str, bytes | None]], T],
) -> T:
    """Embed what has changed, then commit; both again if the index changed in between.

    Embedding is the slow part, so the file is not locked meanwhile.
    """
    vectors: dict[str, bytes | None] = {}
    while True:
        stale = await connections.read(lambda db: store.changed(db, records.values()))
        missing = [one for one in stale if one.id not in vectors]
        embedded = await embedding.embed([one.prose for one in missing])
        vectors.update(zip((one.id for one in missing), embedded, strict=True))
        with suppress(store.StaleError):
            return await connections.write(lambda db: commit(db, vectors))


def check(documents: object) -> None:
    """Refuse what cannot be read document by document.

    Raises:
        TypeError: It is neither a sync nor an async iterable.
    """
    if not isinstance(documents, Iterable | AsyncIterable):
        kind = f"one {Document.__name__}" if isinstance(documents, Document) else type(documents).__name__
        raise TypeError(f"documents must be a sync or async iterable of Document objects, not {kind}")


async def _each(documents: Documents) -> AsyncGenerator[object, None]:
    if isinstance(documents, AsyncIterable):
        try:
            async for document in documents:
                yield document
        finally:
            if isinstance(documents, AsyncGenerator):  # this was its only reader
                await documents.aclose()
    else:
        for document in documents:
            yield document
