"""An embedded index: full text, vectors and links of documents in one SQLite file.

It is built on apsw, which brings its own SQLite with full-text search, on sqlite-vec, and on
wordllama, whose weights come inside its wheel: nothing is downloaded, and no server runs.

    async with SQLiteIndex.create("notes.db") as index:
        await index.add([Document(id="a", text="..."), Document(id="b", text="...", links=("a",))])
        hybrid = Pipeline({"lexical": index.lexical, "dense": index.dense, "graph": index.graph})
        best = await hybrid.search("how do I ...")

Limits worth knowing: words are what Unicode calls letters and digits between anything else, stemmed as
English, so text without spaces between words (Chinese, Japanese) is found by `dense` only; a vector is
the mean of the word vectors in a document's first 20,000 characters; a query's vector is compared with
every other one, about 1 ms for a thousand documents, and that scan alone cannot be interrupted (a
cancelled query leaves it to its thread).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, final

from rrf_stream.retrievers import _sqlite_ingest as ingest
from rrf_stream.retrievers import _sqlite_store as store
from rrf_stream.retrievers import _wordllama as embedding
from rrf_stream.retrievers._checks import check_ids, check_number, check_path, check_text
from rrf_stream.retrievers._document import JSON, Document
from rrf_stream.retrievers._sqlite_arms import DenseSource, GraphSource, LexicalSource, Source
from rrf_stream.retrievers._sqlite_db import DatabaseError
from rrf_stream.retrievers._sqlite_store import OriginUpdate
from rrf_stream.retrievers._sqlite_threads import Connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from os import PathLike
    from types import TracebackType

    from rrf_stream.retrievers._sqlite_arms import GraphRetriever, Retriever

__all__ = ["JSON", "DatabaseError", "Document", "OriginUpdate", "SQLiteIndex", "Source"]


@final
class SQLiteIndex:
    """One index file, open: `async with SQLiteIndex.open(path) as index`.

    Use `create` or `open`, not the class itself. The index is entered once and closed once, and works
    from any task on asyncio and trio. Every call runs off the event loop, in threads that the index
    owns: one that writes and `readers` that read, each with its connection. Readers see the last
    commit and never wait for the writer. Cancelling a read interrupts its query and returns at once;
    cancelling a write returns when the open batch is rolled back or committed, within milliseconds.

    An index that is never closed loses nothing and keeps no interpreter from exiting. One whose file or
    folder cannot be written is open for reading, and writing raises `DatabaseError`. In a read-only
    folder nothing is locked: no other process may write to the file while it is open here.

    Entering it, its methods and the sources it gives raise `DatabaseError` when SQLite fails: the file
    is damaged or locked by another process for more than 10 s, the disk is full, and the like.

    Attributes:
        path: The file, absolute.
    """

    def __init__(self, path: str | PathLike[str], *, create: bool, readers: int) -> None:
        check_path(path)
        check_number("readers", readers)
        self.path = Path(path).absolute()
        self._connections = Connections(self.path, create=create, readers=readers)

    @classmethod
    def create(cls, path: str | PathLike[str], *, readers: int = 4) -> Self:
        """A new, empty index; the file is made on entering.

        Args:
            path: Where; entering raises FileExistsError if anything is there, another OSError or
                DatabaseError if it cannot be made.
            readers: How many queries can run at once, at least 1; more than that take turns.
        """
        return cls(path, create=True, readers=readers)

    @classmethod
    def open(cls, path: str | PathLike[str], *, readers: int = 4) -> Self:
        """An existing index; the file is opened on entering.

        Args:
            path: Where; entering raises FileNotFoundError if nothing is there, and ValueError if
                it is no index of this version, and DatabaseError if SQLite cannot open it. Such a
                file is not changed.
            readers: How many queries can run at once, at least 1; more than that take turns.
        """
        return cls(path, create=False, readers=readers)

    def __repr__(self) -> str:
        return f"<SQLiteIndex {str(self.path)!r}: {self._connections.state}>"

    async def __aenter__(self) -> Self:
        await self._connections.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Interrupt what runs, and close every connection; later calls do nothing.

        Whoever still waits for this index gets ValueError, as everybody does afterwards.
        """
        await self._connections.aclose()

    async def prepare(self) -> None:
        """Load the embedding model, once for the process and off the loop, about 1.5 s.

        The first `dense` query and the first `add` do it too; call this before a query with a deadline.

        Raises:
            MissingExtraError: wordllama is not installed.
        """
        self._connections.check()
        await embedding.prepare()

    # -- writing -------------------------------------------------------------------------------

    async def add(
        self,
        documents: ingest.Documents,
        *,
        batch_size: int = 256,
        on_progress: Callable[[int], object] | None = None,
    ) -> int:
        """Add documents; one whose id is known replaces that document wholly.

        Each batch is one transaction, on disk when it ends: a crash, a cancellation or a bad document
        costs the open batch and nothing before it. Documents that the index holds exactly so are
        recognised, and cost no embedding.

        Args:
            documents: A sync or async iterable; it is read in the event loop, batch by batch.
            batch_size: Documents in a transaction, at least 1.
            on_progress: Called after each batch with the number of documents stored so far.

        Returns:
            How many documents were read and stored.

        Raises:
            TypeError: Something is no Document, or a field of it has the wrong type.
            ValueError: A document has a lone surrogate, or metadata that is no JSON.
        """
        check_number("batch_size", batch_size)
        ingest.check(documents)
        if on_progress is not None and not callable(on_progress):
            raise TypeError(f"on_progress must be a callable or None, not {type(on_progress).__name__}")
        self._connections.check_writable()
        return await ingest.add(self._connections, documents, batch_size=batch_size, on_progress=on_progress)

    async def remove(self, ids: Iterable[str]) -> int:
        """Remove documents, all in one transaction.

        Links to them stay, and lead somewhere again when such a document is added again.

        Args:
            ids: Which; unknown ones are ignored.

        Returns:
            How many were removed.
        """
        wanted = check_ids(ids)
        return await self._connections.write(lambda db: store.remove(db, wanted))

    async def replace_origin(self, origin: str, digest: str, documents: ingest.Documents) -> OriginUpdate:
        """Give an origin exactly these documents and this digest, in one transaction.

        An origin is what documents come from, such as a file. Keep its digest, compare it the next
        time with `origins`, and call this only for what has changed. Documents the origin no longer
        has are removed; equal ones are kept without embedding them again; those that were added under
        these ids without an origin become its own.

        Args:
            origin: Any name, such as a path or a URL.
            digest: Whatever tells one state of the origin from another, such as a content hash.
            documents: All its documents, a sync or async iterable; held in memory together.

        Returns:
            How many documents were added, changed, unchanged and removed.

        Raises:
            TypeError: As for `add`.
            ValueError: As for `add`; or an id comes twice, or belongs to another origin.
        """
        check_text(origin, "origin")
        check_text(digest, "digest")
        ingest.check(documents)
        self._connections.check_writable()
        return await ingest.replace_origin(self._connections, origin, digest, documents)

    async def remove_origin(self, origin: str) -> int:
        """Remove an origin and its documents, in one transaction.

        Returns:
            How many documents were removed; 0 for an unknown origin.
        """
        check_text(origin, "origin")
        return await self._connections.write(lambda db: store.remove_origin(db, origin))

    # -- reading -------------------------------------------------------------------------------

    async def count(self) -> int:
        """The number of documents."""
        return await self._connections.read(store.count)

    async def get(self, id: str) -> Document | None:  # noqa: A002 - the field's name
        """The document with this id, or None."""
        check_text(id, "id")
        return await self._connections.read(lambda db: store.get(db, id))

    async def origins(self) -> dict[str, str | None]:
        """Every origin with its digest.

        None as a digest: a document of the origin was replaced or removed by its id since, so the
        index no longer holds what the origin gave. Replace the origin again.
        """
        return await self._connections.read(store.origins)

    # -- retrievers: classes of asynchronous sources, so that a fusion calls them on the event loop --

    @property
    def lexical(self) -> Retriever:
        """Documents that contain any word of the query, by BM25; a title counts three times.

        Called as `lexical(query, *, limit=100)`.

        Args:
            query: Any string; everything but its words is ignored, and no words give no hits. At
                most 1,024 distinct words are looked up.
            limit: Hits at most, at least 1.

        Returns:
            Pages of hits; a hit's score is the BM25 score, its item the `Document`. Equal scores
            rank in the order in which the ids were first added.
        """
        return partial(LexicalSource, self._connections)

    @property
    def dense(self) -> Retriever:
        """Documents whose vectors are nearest to the query's.

        Called as `dense(query, *, limit=100)`.

        Args:
            query: Any string; blank ones give no hits.
            limit: Hits at most, at least 1; more than 4,096 are never given.

        Returns:
            Pages of hits; a hit's score is the cosine similarity, -1 to 1, its item the `Document`.
            Equal scores rank in the order in which the ids were first added.
        """
        return partial(DenseSource, self._connections)

    @property
    def graph(self) -> GraphRetriever:
        """Documents by their distance in links from the best lexical hits, nearest first.

        Called as `graph(query, *, limit=100, seeds=5)`.

        The walk is breadth-first and follows links both ways, because what cites a document is as
        near to it as what it cites. The lexical hits where it begins, the seeds, are left out, or
        they would count twice in a fusion with `lexical`; a seed is a hit only where links lead to
        it from another seed, at the distance from there.

        Within one distance, documents rank in the order of discovery: the neighbours of the
        better-ranked document first; of one document, those it links to in its own order, then
        those that link to it in the order in which they were first added.

        Args:
            query: As for `lexical`.
            limit: Hits at most, at least 1.
            seeds: How many lexical hits to start from at most, at least 1.

        Returns:
            Pages of hits, one or more for each distance from 1 on, as the walk goes on; a hit's
            score is 1 / (1 + distance), its item the `Document`.
        """
        return partial(GraphSource, self._connections)
