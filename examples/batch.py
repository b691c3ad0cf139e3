"""Complete lists, no event loop: `fuse` with weights and keys, and why each row is where it is.

Two search engines returned rows of their own shape. Rows that have the same link
are the same page, so the link is the key. The second engine counts half, which
puts its best page, that the first engine lacks, behind the first engine's second.

Run it with `python examples/batch.py`.
"""

from __future__ import annotations

from typing import TypedDict

from rrf_stream import explain_fusion, fuse


class Row(TypedDict):
    """What an engine returns; its score is on a scale of its own and is not read."""

    link: str
    text: str
    score: float


FULL_TEXT: list[Row] = [
    {"link": "/sorting", "text": "Sorting how-to", "score": 14.2},
    {"link": "/heapq", "text": "heapq: heap queues", "score": 11.9},
    {"link": "/bisect", "text": "bisect: sorted lists", "score": 3.1},
]
VECTORS: list[Row] = [
    {"link": "/queue", "text": "A queue that hands out the smallest first", "score": 0.83},
    {"link": "/bisect", "text": "Keep a list in order without sorting it again", "score": 0.79},
    {"link": "/sorting", "text": "Sort lists with list.sort or sorted", "score": 0.41},
]
WEIGHTS = {"full text": 1.0, "vectors": 0.5}


def link(row: Row) -> str:
    """Return what says which page a row is about."""
    return row["link"]


def main() -> None:
    """Fuse the two lists, and explain the result."""
    for hit in fuse({"full text": FULL_TEXT, "vectors": VECTORS}, weights=WEIGHTS, key=link, top_k=3):
        print(f"{hit.rank}. {hit.id:<9} {hit.score:.6f}  {hit.item['text']}")
        for arm, rank in hit.ranks.items():
            worth = WEIGHTS[arm] / (60 + rank)
            print(f"     {arm}: rank {rank} gives {WEIGHTS[arm]} / (60 + {rank}) = {worth:.6f}")

    print("\nthe longest text of each page, of all that were found:")
    longest = fuse([FULL_TEXT, VECTORS], key=link, representative=lambda rows: max(rows, key=text_length))
    for hit in longest:
        print(f"{hit.rank}. {hit.id:<9} {hit.item['text']}")

    print("\nwhere each list had it, without weights:")
    for row in explain_fusion([FULL_TEXT, VECTORS], ["full text", "vectors"], key=link):
        print(f"{row['identity']:<9} {row['ranks']}")


def text_length(row: Row) -> int:
    """Return how long the text of a row is."""
    return len(row["text"])


if __name__ == "__main__":
    main()
