"""For all sequences of writes, the tables agree with a dictionary."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlite_kit import database, record_of

from rrf_stream.retrievers import _sqlite_store as store
from rrf_stream.retrievers._document import Record
from rrf_stream.retrievers._sqlite_db import Database
from rrf_stream.retrievers._wordllama import DIMENSIONS

VECTOR = b"\0\0\x80\x3f" + b"\0" * 4 * (DIMENSIONS - 1)  # 1, 0, 0, ... as float32
NAMES = st.sampled_from("abcdef")
RECORDS = st.builds(
    lambda name, text, links: record_of(name, text, links=tuple(links)),
    NAMES,
    st.sampled_from(["", "red", "red blue", "green"]),
    st.lists(NAMES, max_size=3),
)
WRITES = st.one_of(
    st.tuples(st.just("add"), st.lists(RECORDS, max_size=4)),
    st.tuples(st.just("remove"), st.lists(NAMES, max_size=3)),
    st.tuples(st.just("replace"), st.sampled_from("xy"), st.lists(RECORDS, max_size=4)),
    st.tuples(st.just("drop"), st.sampled_from("xy")),
)


class Model:
    """What the index should hold, the plain way."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[Record, str | None]] = {}
        self.digests: dict[str, str | None] = {}

    def touch(self, name: str) -> None:
        owner = self.held[name][1]
        if owner is not None:
            self.digests[owner] = None

    def add(self, records: dict[str, Record]) -> None:
        for name, record in records.items():
            if name in self.held:
                if self.held[name][0] == record:
                    continue
                self.touch(name)
            self.held[name] = record, None

    def remove(self, names: list[str]) -> int:
        present = set(names) & self.held.keys()
        for name in present:
            self.touch(name)
            del self.held[name]
        return len(present)

    def replace(self, origin: str, records: dict[str, Record]) -> dict[str, int] | None:
        if any(self.held[name][1] not in {None, origin} for name in records.keys() & self.held.keys()):
            return None
        kinds = Counter(
            "added" if name not in self.held else "unchanged" if self.held[name][0] == record else "changed"
            for name, record in records.items()
        )
        kinds["removed"] = self.drop(origin, spare=set(records))
        self.held |= {name: (record, origin) for name, record in records.items()}
        self.digests[origin] = "new"
        return kinds

    def drop(self, origin: str, spare: set[str] | None = None) -> int:
        gone = [
            name for name, (_, owner) in self.held.items() if owner == origin and name not in (spare or set())
        ]
        for name in gone:
            del self.held[name]
        self.digests.pop(origin, None)
        return len(gone)


def vectors_of(records: dict[str, Record]) -> dict[str, bytes | None]:
    return {name: VECTOR if record.text else None for name, record in records.items()}


def check(db: Database, model: Model) -> None:
    rows = db.rows("select key, origin, id, title, text, links, metadata from documents")
    assert {row[2]: (Record(*row[2:]), row[1]) for row in rows} == model.held
    assert store.origins(db) == model.digests
    names = {row[0]: row[2] for row in rows}
    assert {key for (key,) in db.rows("select rowid from lexicon")} == names.keys()
    with_text = {key for key, name in names.items() if model.held[name][0].text}
    assert {key for (key,) in db.rows("select rowid from vectors")} == with_text
    assert {key for key, _ in store.dense(db, VECTOR, 10)} == with_text
    reds = {key for key, name in names.items() if "red" in model.held[name][0].text}
    assert {key for key, _ in store.lexical(db, store.match("red"), 10)} == reds
    links = {
        (key, place, target)
        for key, name in names.items()
        for place, target in enumerate(json.loads(model.held[name][0].links))
    }
    assert set(db.rows("select source, position, target from links")) == links


@settings(deadline=None, max_examples=60)
@given(st.lists(WRITES, max_size=8))
def test_the_index_holds_what_a_dictionary_would(writes: list[tuple[Any, ...]]) -> None:
    model = Model()
    with database() as db:
        for kind, *arguments in writes:
            given_ = arguments[-1]
            records: dict[str, Record] = {one.id: one for one in given_ if isinstance(one, Record)}
            if kind == "add":
                store.add(db, records.values(), vectors_of(records))
                model.add(records)
            elif kind == "remove":
                assert store.remove(db, given_) == model.remove(list(given_))
            elif kind == "drop":
                assert store.remove_origin(db, given_) == model.drop(given_)
            else:
                expected = model.replace(arguments[0], records)
                try:
                    update = store.replace_origin(
                        db, records, vectors_of(records), origin=arguments[0], digest="new"
                    )
                except ValueError:
                    assert expected is None
                else:
                    assert expected is not None
                    for name in ("added", "changed", "unchanged", "removed"):
                        assert getattr(update, name) == expected.get(name, 0)
            check(db, model)


def test_a_missing_vector_undoes_the_whole_transaction() -> None:
    with database() as db:
        records = {"a": record_of("a", "red"), "b": record_of("b", "blue")}
        for attempt in (
            lambda: store.add(db, records.values(), {"a": VECTOR}),
            lambda: store.replace_origin(db, records, {"a": VECTOR}, origin="x", digest="1"),
        ):
            try:
                attempt()
            except store.StaleError:
                check(db, Model())
            else:
                raise AssertionError("a record was stored without its vector")
