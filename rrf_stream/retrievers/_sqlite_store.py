"""What is written to an index and read from it: plain functions on one connection.

A document's `key` stays the same when it is replaced. Ties are broken by it, so equal scores rank in
the order in which the ids were first added.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from rrf_stream.retrievers._document import Document, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rrf_stream.retrievers._sqlite_db import Database

#: (key, score), best first.
Ranking = list[tuple[int, float]]

TITLE_WEIGHT = 3.0
#: Distinct words of a query that are looked up: the cost of a query grows with them.
MOST_TERMS = 1024
#: vec0 answers no query for more neighbours.
MOST_NEIGHBOURS = 4096


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OriginUpdate:
    """What `SQLiteIndex.replace_origin` did, in documents.

    Attributes:
        added: New ones.
        changed: Replaced ones.
        unchanged: Equal ones, kept without embedding them again.
        removed: Those the origin no longer has.
    """

    added: int
    changed: int
    unchanged: int
    removed: int


class StaleError(Exception):
    """A record needs a vector that was not given, as the index has changed since `changed` looked."""


def changed(db: Database, records: Iterable[Record]) -> list[Record]:
    """Those of `records` that the index does not hold exactly so: they need a vector to be written."""
    return [one for one in records if (found := _stored(db, one.id)) is None or found[2] != one]


def write(
    db: Database, records: Iterable[Record], vectors: Mapping[str, bytes | None], origin: str | None = None
) -> Counter[str]:
    """Store records in the open transaction.

    Args:
        db: A writer inside `Database.transaction`.
        records: With distinct ids.
        vectors: By id; needed for the changed ones only.
        origin: What the records come from; None leaves an unchanged record with its origin.

    Returns:
        The numbers of "added", "changed" and "unchanged" records.

    Raises:
        StaleError: A vector is missing.
        ValueError: A record of `origin` belongs to another origin.
    """
    counts: Counter[str] = Counter()
    for one in records:
        key, owner, old = _stored(db, one.id) or (None, None, None)
        if origin is not None and owner not in {None, origin}:
            raise ValueError(f"document {one.id!r} of origin {origin!r} belongs to origin {owner!r} already")
        if key is not None and old == one:
            counts["unchanged"] += 1
            if origin is not None and owner is None:
                db.rows("update documents set origin = ? where key = ?", (origin, key))
            continue
        if one.id not in vectors:
            raise StaleError
        if key is None:
            counts["added"] += 1
            ((key,),) = db.rows(
                "insert into documents(id, title, text, links, metadata, origin)"
                " values (?, ?, ?, ?, ?, ?) returning key",
                (*one, origin),
            )
        else:
            counts["changed"] += 1
            if owner != origin:
                _forget_digest(db, owner)
            _unindex(db, key)
            db.rows(
                "update documents set title = ?, text = ?, links = ?, metadata = ?, origin = ? where key = ?",
                (*one[1:], origin, key),
            )
        _index(db, key, one, vectors[one.id])
    return counts


def add(db: Database, records: Iterable[Record], vectors: Mapping[str, bytes | None]) -> None:
    """Store a batch in a transaction."""
    with db.transaction():
        write(db, records, vectors)


def replace_origin(
    db: Database,
    records: Mapping[str, Record],
    vectors: Mapping[str, bytes | None],
    *,
    origin: str,
    digest: str,
) -> OriginUpdate:
    """Give an origin exactly these records, by id, in a transaction."""
    with db.transaction():
        counts = write(db, records.values(), vectors, origin)
        held = db.rows("select key, id from documents where origin = ?", (origin,))
        gone = [key for key, document_id in held if document_id not in records]
        for key in gone:
            _delete(db, key)
        db.rows("insert or replace into origins(origin, digest) values (?, ?)", (origin, digest))
    return OriginUpdate(
        added=counts["added"], changed=counts["changed"], unchanged=counts["unchanged"], removed=len(gone)
    )


def remove_origin(db: Database, origin: str) -> int:
    """Remove an origin and its documents, in a transaction."""
    with db.transaction():
        keys = db.rows("select key from documents where origin = ?", (origin,))
        for (key,) in keys:
            _delete(db, key)
        db.rows("delete from origins where origin = ?", (origin,))
    return len(keys)


def remove(db: Database, ids: Iterable[str]) -> int:
    """Remove documents, in a transaction."""
    removed = 0
    with db.transaction():
        for document_id in ids:
            if found := _stored(db, document_id):
                _forget_digest(db, found[1])
                _delete(db, found[0])
                removed += 1
    return removed


def get(db: Database, document_id: str) -> Document | None:
    """The document with this id."""
    found = _stored(db, document_id)
    return found[2].document() if found else None


def count(db: Database) -> int:
    """The number of documents."""
    ((number,),) = db.rows("select count(*) from documents")
    return int(number)


def origins(db: Database) -> dict[str, str | None]:
    """Every origin with its digest."""
    return dict(db.rows("select origin, digest from origins order by origin"))


def documents(db: Database, keys: Iterable[int]) -> dict[int, Document]:
    """The documents with these keys; those removed meanwhile are left out."""
    sql = "select id, title, text, links, metadata from documents where key = ?"
    return {key: Record(*row).document() for key in keys for row in db.rows(sql, (key,))}


def match(query: str) -> str:
    """The FTS5 expression for any of the query's words; empty if it has none.

    Everything but words is dropped and each word is quoted, so no query is ever read as syntax.
    """
    words = {word.lower(): word for word in re.findall(r"\w+", query)}
    return " OR ".join(f'"{word}"' for word in list(words.values())[:MOST_TERMS])


def lexical(db: Database, expression: str, limit: int) -> Ranking:
    """The best documents by BM25, best first."""
    sql = (
        f"select rowid, bm25(lexicon, {TITLE_WEIGHT}, 1.0) as cost from lexicon where lexicon match ?"  # noqa: S608 - a constant
        " order by cost, rowid limit ?"
    )
    return [(key, -cost) for key, cost in db.rows(sql, (expression, limit))]


def dense(db: Database, vector: bytes, limit: int) -> Ranking:
    """The nearest documents by cosine similarity, nearest first."""
    sql = (  # vec0 takes one sort key only, hence the second step
        "with nearest as materialized (select rowid, distance from vectors where embedding match ? and k = ?)"
        " select rowid, distance from nearest where distance is not null order by distance, rowid"
    )
    return [(key, 1.0 - distance) for key, distance in db.rows(sql, (vector, min(limit, MOST_NEIGHBOURS)))]


def neighbours(db: Database, key: int, limit: int) -> list[int]:
    """Keys of the documents that this one links to, in its order, then of those that link to it.

    Args:
        db: A connection.
        key: The document's key.
        limit: How many of either kind at most.
    """
    outward = (
        "select d.key from links l join documents d on d.id = l.target where l.source = ?"
        " group by d.key order by min(l.position) limit ?"
    )
    inward = (
        "select distinct l.source from documents d join links l on l.target = d.id where d.key = ?"
        " order by l.source limit ?"
    )
    return [other for sql in (outward, inward) for (other,) in db.rows(sql, (key, limit))]


def _stored(db: Database, document_id: str) -> tuple[int, str | None, Record] | None:
    sql = "select key, origin, id, title, text, links, metadata from documents where id = ?"
    for key, origin, *fields in db.rows(sql, (document_id,)):
        return key, origin, Record(*fields)
    return None


def _index(db: Database, key: int, one: Record, vector: bytes | None) -> None:
    db.rows("insert into lexicon(rowid, title, text) values (?, ?, ?)", (key, one.title, one.text))
    if vector is not None:
        db.rows("insert into vectors(rowid, embedding) values (?, ?)", (key, vector))
    db.many(
        "insert into links(source, position, target) values (?, ?, ?)",
        ((key, position, target) for position, target in enumerate(one.targets)),
    )


def _delete(db: Database, key: int) -> None:
    _unindex(db, key)
    db.rows("delete from documents where key = ?", (key,))


def _unindex(db: Database, key: int) -> None:
    db.rows("delete from lexicon where rowid = ?", (key,))
    db.rows("delete from vectors where rowid = ?", (key,))
    db.rows("delete from links where source = ?", (key,))


def _forget_digest(db: Database, origin: str | None) -> None:
    """Let the next look at `origins` show that the origin's documents are no longer as they were given."""
    db.rows("update origins set digest = null where origin = ?", (origin,))
