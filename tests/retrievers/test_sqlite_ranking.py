"""The three arms rank as their definitions say, the same way every time."""

from __future__ import annotations

import math
import struct
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlite_kit import NOTES, database, ids, read, record_of

from rrf_stream.retrievers import _sqlite_arms as arms
from rrf_stream.retrievers import _sqlite_store as store
from rrf_stream.retrievers._wordllama import DIMENSIONS
from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

if TYPE_CHECKING:
    from pathlib import Path

    from rrf_stream.retrievers._document import Record

# Words that stemming leaves as they are.
WORDS = st.sampled_from(["red", "blue", "green", "pink"])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)


def bm25(corpus: list[tuple[str, str]], query: set[str]) -> list[tuple[int, float]]:
    """Okapi BM25 as FTS5 defines it (k1 = 1.2, b = 0.75), title counts weighted, best first."""
    lengths = [len(f"{title} {text}".split()) for title, text in corpus]
    average = sum(lengths) / len(corpus)
    scores = []
    for place, (title, text) in enumerate(corpus):
        in_title, in_text = Counter(title.split()), Counter(text.split())
        if not query & (in_title.keys() | in_text.keys()):
            continue
        score = 0.0
        for word in query:
            containing = sum(word in f"{title} {text}".split() for title, text in corpus)
            rarity = math.log((len(corpus) - containing + 0.5) / (containing + 0.5))
            frequency = store.TITLE_WEIGHT * in_title[word] + in_text[word]
            norm = 1.2 * (1 - 0.75 + 0.75 * lengths[place] / average)
            score += (rarity if rarity > 0 else 1e-6) * frequency * 2.2 / (frequency + norm)
        scores.append((place + 1, score))
    return sorted(scores, key=lambda scored: (-round(scored[1], 12), scored[0]))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12), st.sets(WORDS, min_size=1))
def test_lexical_is_bm25_and_ties_keep_the_order_of_adding(
    corpus: list[tuple[str, str]], query: set[str]
) -> None:
    records = [record_of(str(n), text, title=title) for n, (title, text) in enumerate(corpus)]
    with database() as db:
        store.add(db, records, {one.id: None for one in records})
        ranking = store.lexical(db, store.match(" ".join(query)), 100)
        expected = bm25(corpus, query)
        # Sums that are equal in mathematics may differ in the last bit: the order is that of the scores.
        assert dict(ranking) == pytest.approx(dict(expected))
        assert ranking == sorted(ranking, key=lambda scored: (-scored[1], scored[0]))
        assert store.lexical(db, store.match(" ".join(query)), 3) == ranking[:3]


def test_a_word_in_most_documents_ties_them_all_at_no_less_than_zero() -> None:
    records = [record_of(f"{99 - n}", "common") for n in range(100)]
    with database() as db:
        store.add(db, records, {one.id: None for one in records})
        ranking = store.lexical(db, store.match("common"), 20)
        assert [key for key, _ in ranking] == list(range(1, 21))
        assert len({score for _, score in ranking}) == 1
        assert math.copysign(1, ranking[0][1]) == 1


def vector(*numbers: float) -> bytes:
    return struct.pack(f"{DIMENSIONS}f", *numbers, *[0.0] * (DIMENSIONS - len(numbers)))


NUMBERS = st.tuples(*[st.integers(-2, 2)] * 3).filter(any)


@settings(deadline=None, max_examples=60)
@given(st.lists(NUMBERS, max_size=20), NUMBERS, st.integers(1, 25))
def test_dense_is_cosine_similarity_and_ties_keep_the_order_of_adding(
    numbers: list[tuple[int, ...]], query: tuple[int, ...], limit: int
) -> None:
    records = [record_of(str(n), "x") for n in range(len(numbers))]
    with database() as db:
        store.add(db, records, {one.id: vector(*n) for one, n in zip(records, numbers, strict=True)})
        ranking = store.dense(db, vector(*query), limit)
        cosines = {
            key: sum(a * b for a, b in zip(one, query, strict=True)) / math.hypot(*one) / math.hypot(*query)
            for key, one in enumerate(numbers, start=1)
        }
        best = sorted(cosines.values(), reverse=True)[:limit]
        assert [score for _, score in ranking] == pytest.approx(best, abs=1e-5)
        for key, score in ranking:
            assert score == pytest.approx(cosines[key], abs=1e-5)
        assert ranking == sorted(ranking, key=lambda scored: (-scored[1], scored[0]))


def test_dense_gives_at_most_4096_and_nothing_for_a_zero_vector() -> None:
    records = [record_of(str(n)) for n in range(4100)]
    with database() as db:
        store.add(db, records, {one.id: vector(1, n) for n, one in enumerate(records)})
        assert len(store.dense(db, vector(1), 5000)) == 4096
        assert store.dense(db, vector(0), 5) == []


def neighbours(records: list[Record], name: str) -> list[str]:
    """Both directions, outward links first, each in its own order."""
    known = {one.id: one for one in records}
    outward = [target for target in known[name].targets if target in known]
    return outward + [one.id for one in records if name in one.targets]


def breadth_first(records: list[Record], seeds: list[str]) -> dict[str, int]:
    """The distance of all that the seeds reach, themselves at 0, in the order of discovery."""
    found = dict.fromkeys(seeds, 0)
    queue = list(seeds)
    for name in queue:
        for other in neighbours(records, name):
            if other not in found:
                found[other] = found[name] + 1
                queue.append(other)
    return found


GRAPHS = st.integers(1, 12).flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, size + 1).map(str), max_size=3), min_size=size, max_size=size
    )
)


@settings(deadline=None, max_examples=100)
@given(GRAPHS, st.integers(1, 15), st.integers(1, 4), st.integers(1, 5))
def test_graph_is_a_breadth_first_walk_whatever_the_size_of_its_pages(
    links: list[list[str]], limit: int, seeds: int, size: int
) -> None:
    records = [record_of(str(n), "seed " * (n % 3), links=tuple(targets)) for n, targets in enumerate(links)]
    with database() as db:
        store.add(db, records, {one.id: None for one in records})
        expression = store.match("seed")
        start = [records[key - 1].id for key, _ in store.lexical(db, expression, seeds)]

        def walked(limit: int, size: int) -> list[tuple[object, float]]:
            walk = arms._Walk(expression, limit=limit, seeds=seeds)
            pages = []
            while not walk.ended:
                pages.append(walk.step(db, size=size))
            assert all(len({hit.score for hit in page}) <= 1 for page in pages)  # one distance at a time
            return [(hit.id, hit.score or 0.0) for page in pages for hit in page]

        found = walked(100, 100)
        away = breadth_first(records, start)
        # Seeds are reached from another seed only; everything else is found as by any breadth-first walk.
        others = {name: breadth_first(records, [s for s in start if s != name]).get(name) for name in start}
        expected = {name: far for name, far in away.items() if name not in start}
        expected |= {name: far for name, far in others.items() if far is not None}
        assert dict(found) == {name: 1 / (1 + far) for name, far in expected.items()}
        assert len(found) == len(expected)
        assert [name for name, _ in found if name not in start] == [n for n in away if n not in start]
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        assert walked(limit, size) == found[:limit]


def test_a_repeated_link_counts_once_against_the_limit() -> None:
    records = [
        record_of("hub", "seed", links=("out",) * 5 + ("far",)),
        record_of("out"),
        record_of("far"),
        record_of("in", links=("hub",) * 5),
        record_of("last", links=("hub",)),
    ]
    with database() as db:
        store.add(db, records, {one.id: None for one in records})
        for limit in range(1, 5):
            walk = arms._Walk(store.match("seed"), limit=limit, seeds=5)
            assert [hit.id for hit in walk.step(db, size=9)] == ["out", "far", "in", "last"][:limit]


def test_links_to_other_seeds_leave_room_for_all_that_the_limit_allows() -> None:
    """The hub's first links lead to itself and to seeds that are found from nowhere but there."""
    records = [
        record_of("hub", "seed " * 9, links=("hub", "b", "c", "x", "y")),
        record_of("b", "seed and more words"),
        record_of("c", "seed and even more words"),
        record_of("x"),
        record_of("y"),
    ]
    with database() as db:
        store.add(db, records, {one.id: None for one in records})
        for limit in range(1, 6):
            walk = arms._Walk(store.match("seed"), limit=limit, seeds=3)
            found = []
            while not walk.ended:
                found += [(hit.id, hit.score) for hit in walk.step(db, size=9)]
            # The seed hub is reached from the seeds b and c, when the walk comes to them.
            assert found == [(name, 1 / 2) for name in ("b", "c", "x", "y", "hub")][:limit]


@pytest.mark.anyio
async def test_every_arm_hands_out_whole_documents_with_falling_scores(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(NOTES)
        for retriever in (index.lexical, index.dense, index.graph):
            hits = [hit for page in await read(retriever("words by rank")) for hit in page]
            assert hits
            assert all(hit.item == next(note for note in NOTES if note.id == hit.id) for hit in hits)
            scores = [hit.score or 0.0 for hit in hits]
            assert scores == sorted(scores, reverse=True)


@pytest.mark.anyio
async def test_a_title_counts_more_than_text_and_words_match_by_their_stems(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(
            [
                Document(id="text", text="streams everywhere", title="other"),
                Document(id="title", text="other everywhere", title="streams"),
                *(Document(id=str(n), text="filler") for n in range(9)),
            ]
        )
        assert ids(await read(index.lexical("Streaming"))) == ["title", "text"]


@pytest.mark.anyio
async def test_pages_grow_from_eight_and_stop_at_the_limit(tmp_path: Path) -> None:
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(Document(id=str(n), text="word") for n in range(60))
        for retriever in (index.lexical, index.dense):
            assert [len(page) for page in await read(retriever("word"))] == [8, 32, 60 - 8 - 32]
            assert [len(page) for page in await read(retriever("word", limit=3))] == [3]
            assert ids(await read(retriever("word"))) == [str(n) for n in range(60)]  # all tie


@pytest.mark.anyio
async def test_the_graph_walks_on_in_the_index_as_it_is_at_each_step(tmp_path: Path) -> None:
    chain = [Document(id=str(n), text="start" if n == 0 else "", links=(str(n + 1),)) for n in range(50)]
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(chain)
        source = index.graph("start", limit=20)
        assert [hit.id for hit in await anext(source)] == ["1"]
        await index.remove(["3"])
        assert ids(await read(source)) == ["2"]


@pytest.mark.anyio
async def test_the_best_lexical_hits_do_not_vote_twice(tmp_path: Path) -> None:
    """A seed is a hit of the walk only where links lead to it from another seed, as far as that is."""
    async with SQLiteIndex.create(tmp_path / "i.db") as index:
        await index.add(
            [
                Document(id="alone", text="start"),
                Document(id="one", text="start here", links=("between",)),
                Document(id="between", text="", links=("other",)),
                Document(id="other", text="start there or elsewhere"),
            ]
        )
        assert ids(await read(index.lexical("start"))) == ["alone", "one", "other"]
        hits = [(hit.id, hit.score) for page in await read(index.graph("start")) for hit in page]
        assert hits == [("between", 1 / 2), ("other", 1 / 3), ("one", 1 / 3)]
        assert ids(await read(index.graph("start", seeds=1))) == [], "the best hit has no links"
