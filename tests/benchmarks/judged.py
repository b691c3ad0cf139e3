"""Real rankings with judgements: runs of the Robust track of TREC 2003, and three arms over Cranfield.

The data are looked for in the folder that the environment variable RRF_STREAM_DATA names, or else in
`../shared/data` beside this project. For `robust03` the order of lines is the rank, and a topic goes to runs
that are drawn at random. The arms of Cranfield are the lexical and the dense retriever of `SQLiteIndex`, over
the abstracts, and n-grams of four characters, by the cosine of their tf-idf.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rrf_stream import Arm, open_fusion
from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

__all__ = ["DATA", "DEPTH", "RUNS", "Collection", "cranfield", "ndcg", "robust03"]

DATA = Path(os.environ.get("RRF_STREAM_DATA") or Path(__file__).parents[3] / "shared" / "data")
DEPTH = 200
"""As deep as the runs of robust03 are, and the arms of Cranfield are read."""
RUNS = ("InexpC2", "THUIRr0301", "aplrob03a", "uic0301", "UIUC03Rd1", "rutcor03100")


@dataclass(frozen=True)
class Collection:
    """Queries, what each arm ranks for them, and which documents are relevant.

    Attributes:
        name: What to call it.
        rankings: By arm, then by query: ids, best first.
        relevant: By query, the ids of relevant documents; a query without any is left out.
    """

    name: str
    rankings: Mapping[str, Mapping[str, list[str]]]
    relevant: Mapping[str, set[str]]

    @property
    def arms(self) -> list[str]:
        """The names of all arms."""
        return [*self.rankings]

    @property
    def queries(self) -> list[str]:
        """All queries that have a relevant document."""
        return [*self.relevant]

    def of(self, query: str, arms: Iterable[str], window: int) -> dict[str, list[str]]:
        """Return what some arms rank for a query within their window."""
        return {arm: self.rankings[arm][query][:window] for arm in arms}


def ndcg(ids: list[str], relevant: set[str]) -> float:
    """Return nDCG@10, a document being relevant or not, against the ideal order of all that are."""
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(10, len(relevant)) + 1))
    return sum(1 / math.log2(rank + 1) for rank, id_ in enumerate(ids[:10], 1) if id_ in relevant) / ideal


def robust03() -> Collection:
    """Return the six runs of Robust 2003."""
    folder = DATA / "robust03"
    relevant = defaultdict(set)
    for topic, _, document, grade in _rows(folder / "qrels.gz"):
        if int(grade) > 0:
            relevant[topic].add(document)
    rankings = {}
    for run in RUNS:
        ranked = defaultdict(list)
        for topic, _, document, *_ in _rows(folder / f"{run}.d{DEPTH}.gz"):
            ranked[topic].append(document)
        rankings[run] = dict(ranked)
    topics = rankings[RUNS[0]]
    return Collection("robust03", rankings, {topic: relevant[topic] for topic in topics if relevant[topic]})


async def cranfield(*, most: int | None) -> Collection:
    """Return what three arms find in Cranfield, for the first queries."""
    folder = DATA / "cranfield"
    documents = dict(enumerate(_texts(folder / "cran.all.1400"), 1))
    texts = {str(number): text for number, text in documents.items()}
    # The judgements count the queries by their position; the numbers in their file are others.
    queries = {str(number): text for number, text in enumerate(_texts(folder / "cran.qry")[:most], 1)}
    relevant = defaultdict(set)
    for line in (folder / "cranqrel").read_text("ascii").splitlines():
        if line.strip():
            query, document, code = line.split()
            if int(code) > 0:
                relevant[query].add(document)
    rankings = await _indexed(texts, queries)
    grams = _Grams(texts)
    rankings["4-grams"] = {query: grams.search(text) for query, text in queries.items()}
    return Collection("cranfield", rankings, {query: relevant[query] for query in queries if relevant[query]})


def _rows(path: Path) -> Iterable[list[str]]:
    with gzip.open(path, "rt", encoding="ascii") as lines:
        yield from map(str.split, lines)


def _texts(path: Path) -> list[str]:
    """Return the text of each entry of a file in the format of SMART."""
    _, *entries = re.split(r"^\.I.*\n", path.read_text("ascii"), flags=re.MULTILINE)
    found = [re.search(r"^\.W\n(.*?)(?=^\.[TABW]$|\Z)", entry, re.MULTILINE | re.DOTALL) for entry in entries]
    return [" ".join(match[1].split()) if match else "" for match in found]


async def _indexed(texts: Mapping[str, str], queries: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """Return what the lexical and the dense retriever find."""
    rankings: dict[str, dict[str, list[str]]] = {"lexical": {}, "dense": {}}
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteIndex.create(Path(folder) / "cranfield.db") as index:
            await index.add(Document(id=id_, text=text) for id_, text in texts.items())
            for query, text in queries.items():
                arms = [
                    Arm("lexical", index.lexical(text, limit=DEPTH), window=DEPTH),
                    Arm("dense", index.dense(text, limit=DEPTH), window=DEPTH),
                ]
                async with open_fusion(arms) as fusion:
                    (await fusion.final()).raise_for_coverage()
                    for arm, ids in fusion.rankings().items():
                        rankings[arm][query] = ids
    return rankings


class _Grams:
    """Finds texts by their n-grams of four characters."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        counts = {id_: _grams(text) for id_, text in texts.items()}
        found_in = Counter(gram for grams in counts.values() for gram in grams)
        self._rarity = {gram: math.log(len(texts) / count) for gram, count in found_in.items()}
        self._weights: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for id_, grams in counts.items():
            weights = {gram: (1 + math.log(n)) * self._rarity[gram] for gram, n in grams.items()}
            length = math.hypot(*weights.values()) or 1.0  # a text may be empty
            for gram, weight in weights.items():
                self._weights[gram].append((id_, weight / length))

    def search(self, query: str) -> list[str]:
        """Return the ids of the nearest texts, nearest first."""
        scores: dict[str, float] = defaultdict(float)
        for gram, n in _grams(query).items():
            for id_, weight in self._weights.get(gram, ()):
                scores[id_] += (1 + math.log(n)) * self._rarity[gram] * weight
        return sorted(scores, key=lambda id_: (-scores[id_], int(id_)))[:DEPTH]


def _grams(text: str) -> Counter[str]:
    padded = f" {text} "
    return Counter(padded[start : start + 4] for start in range(len(padded) - 3))
