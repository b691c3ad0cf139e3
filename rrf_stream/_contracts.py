"""Four batch interfaces of other systems, as thin functions over the one core."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import Any

from rrf_stream._batch import fuse
from rrf_stream._checks import check_count
from rrf_stream._kernels import ReciprocalRank, exact
from rrf_stream._ranking import Ranking
from rrf_stream._scoreboard import Representative, Scoreboard
from rrf_stream._tally import ArmSpec, layout_of

__all__ = [
    "RRFConfig",
    "RRFFusion",
    "ReciprocalRankFusion",
    "explain_fusion",
    "reciprocal_rank_fusion",
    "rrf_fuse",
    "rrf_scores",
]

DEFAULT_K = 60
_SHOWN_DIGITS = 6


def _require_k(k: float) -> None:
    if not (isinstance(k, Real) and 0 < k < math.inf):
        raise ValueError(f"k must be a finite number above 0, not {k!r}")


def _id_of(item: Any, key: Callable[[Any], Any] | None) -> Any:
    id_ = item if key is None else key(item)
    try:
        hash(id_)
    except TypeError as error:
        raise TypeError(f"an item must be hashable, or key must give an id that is: {error}") from error
    return id_


def _first(copies: list[Any]) -> Any:
    return copies[0]


def rrf_scores(
    rank_lists: Iterable[Iterable[Any]], key: Callable[[Any], Any] | None = None, k: float = DEFAULT_K
) -> dict[Any, float]:
    """Return the score of every id, in first-seen order.

    Args:
        rank_lists: Items of each list, best first. A repeat uses up a rank and earns nothing.
        key: Gives the id of an item; None if the item is its id.
        k: The rank constant, a finite number above 0.

    Raises:
        ValueError: `k` is out of its range.
        TypeError: An id is not hashable.
    """
    _require_k(k)
    lists = [[_id_of(item, key) for item in items] for items in rank_lists]
    scores = {hit.id: hit.score for hit in fuse(lists, rank_constant=k)}
    return {id_: scores[id_] for id_ in dict.fromkeys(id_ for ids in lists for id_ in ids)}


def rrf_fuse(
    rank_lists: Iterable[Iterable[Any]],
    key: Callable[[Any], Any] | None = None,
    k: float = DEFAULT_K,
    representative: Representative | None = None,
) -> list[tuple[Any, float, Any]]:
    """Return (id, score, item) of every id, best first; equal scores in first-seen order.

    Args:
        rank_lists: Items of each list, best first. A repeat uses up a rank and earns nothing.
        key: Gives the id of an item; None if the item is its id.
        k: The rank constant, a finite number above 0.
        representative: Chooses the item from the list of all copies of an id, repeats included,
            in the order of the lists; None for the first.

    Raises:
        ValueError: `k` is out of its range.
        TypeError: An id is not hashable.
    """
    _require_k(k)
    copies: dict[Any, list[Any]] = {}
    lists = []
    for items in rank_lists:
        ids = []
        for item in items:
            id_ = _id_of(item, key)
            ids.append(id_)
            copies.setdefault(id_, []).append(item)
        lists.append(ids)
    choose = representative or _first
    return [(hit.id, hit.score, choose(copies[hit.id])) for hit in fuse(lists, rank_constant=k)]


def explain_fusion(
    rank_lists: Iterable[Iterable[Any]],
    list_names: Sequence[str] | None = None,
    key: Callable[[Any], Any] | None = None,
    k: float = DEFAULT_K,
) -> list[dict[str, Any]]:
    """Return id, rank in each list, and score of every id, best first.

    Args:
        rank_lists: Items of each list, best first. A repeat uses up a rank and earns nothing.
        list_names: One name a list; of equal names the later list is reported. None for
            `list_0`, `list_1`, ...
        key: Gives the id of an item; None if the item is its id.
        k: The rank constant, a finite number above 0.

    Returns:
        Dictionaries with the keys "identity", "ranks" (by list name; None where absent) and
        "rrf_score".

    Raises:
        ValueError: There is not one name a list, or `k` is out of its range.
        TypeError: An id is not hashable.
    """
    lists = list(rank_lists)
    positions = [f"list_{index}" for index in range(len(lists))]
    names = positions if list_names is None else list(list_names)
    if len(names) != len(lists):
        raise ValueError(f"list_names length must be that of rank_lists, {len(lists)}, not {len(names)}")
    _require_k(k)
    return [
        {
            "identity": hit.id,
            "ranks": {name: hit.ranks.get(position) for name, position in zip(names, positions, strict=True)},
            "rrf_score": hit.score,
        }
        for hit in fuse([[_id_of(item, key) for item in items] for items in lists], rank_constant=k)
    ]


def reciprocal_rank_fusion(
    rankings: Iterable[Iterable[str]], k: float = DEFAULT_K, top_n: int | None = None
) -> list[list[Any]]:
    """Return [id, score] of every id, rounded to 6 digits, then sorted by score and by id.

    Args:
        rankings: Ids of each list, best first. A repeat uses up a rank and earns nothing.
        k: The rank constant, a finite number above 0.
        top_n: How many rows to return, at least 0; None for all.

    Raises:
        ValueError: `k` or `top_n` is out of its range.
    """
    check_count("top_n", top_n, least=0, optional=True)
    scores = rrf_scores(rankings, k=k)
    rows = [[id_, round(score, _SHOWN_DIGITS)] for id_, score in scores.items()]
    rows.sort(key=lambda row: (-row[1], row[0]))
    return rows[:top_n]


class ReciprocalRankFusion:
    """Fuses lists of keys and returns keys; instances cannot be changed."""

    __slots__ = ()

    def fuse(
        self,
        ranked_key_lists: Iterable[Iterable[Hashable]],
        k: float = DEFAULT_K,
        weights: Iterable[float | None] = (),
    ) -> list[Any]:
        """Return all keys, best first; equal scores in first-seen order.

        Args:
            ranked_key_lists: Keys of each list, best first. A repeat uses up no rank.
            k: The rank constant; below 1 it counts as 1.
            weights: By position of the list; 1.0 where missing or None. With 0 the keys of a list
                are kept with what other lists give them; a negative weight subtracts.

        Raises:
            ValueError: `k` or a weight is not finite.
        """
        exact("k", k)
        lists = [[_id_of(key, None) for key in keys] for keys in ranked_key_lists]
        given = [1.0 if weight is None else weight for weight in islice(weights, len(lists))]
        for weight in given:
            exact("weights", weight)
        given += [1.0] * (len(lists) - len(given))
        kernel = ReciprocalRank(max(k, 1))
        names = [f"list_{index}" for index in range(len(lists))]
        specs = [
            ArmSpec(name, kernel, weight, window=None, lists=True)
            for name, weight in zip(names, given, strict=True)
        ]
        layout = layout_of(tuple(specs))
        rankings = [Ranking(layout, arm, skip_repeats=True) for arm in range(len(lists))]
        board = Scoreboard(layout, rankings, top_k=None)
        for index, keys in enumerate(lists):
            board.extend(index, keys)
        return [hit.id for hit in board.hits()]


@dataclass(frozen=True, slots=True)
class RRFConfig:
    """How `RRFFusion` fuses.

    Attributes:
        k: The rank constant, a finite number above 0.
        retrieve_k: How many entries of each list are read, at least 0.
        final_k: How many rows are returned at most, at least 0.

    Raises:
        ValueError: A value is out of its range, or of the wrong type.
    """

    k: float = 60.0
    retrieve_k: int = 50
    final_k: int = 10

    def __post_init__(self) -> None:
        _require_k(self.k)
        for name, value in (("retrieve_k", self.retrieve_k), ("final_k", self.final_k)):
            try:
                check_count(name, value, least=0)
            except TypeError as error:
                raise ValueError(str(error)) from None


class RRFFusion:
    """Fuses one semantic and one lexical list of (id, score), by position alone."""

    def __init__(self, config: RRFConfig = RRFConfig()) -> None:
        self.config = config

    def fuse(
        self, semantic: Iterable[tuple[Any, Any]], lexical: Iterable[tuple[Any, Any]]
    ) -> list[tuple[Any, float]]:
        """Return (id, score), best first; equal scores in first-seen order, semantic first.

        Args:
            semantic: Pairs of an id and a score that is not read, best first.
            lexical: The same of the other engine.
        """
        config = self.config
        if not config.final_k:
            return []
        lists = [
            [_id_of(id_, None) for id_, _ in islice(pairs, config.retrieve_k)]
            for pairs in (semantic, lexical)
        ]
        return [(hit.id, hit.score) for hit in fuse(lists, rank_constant=config.k, top_k=config.final_k)]

    @staticmethod
    def normalize_scores(scored: Iterable[tuple[Any, float]]) -> list[tuple[Any, float]]:
        """Return the pairs with scores mapped to 0..1, the least to 0 and the greatest to 1.

        Args:
            scored: Pairs of an id and a finite score. If all scores are equal they become 1.0.

        Raises:
            ValueError: A score is not finite.
        """
        pairs = [(id_, float(score)) for id_, score in scored]
        for _, score in pairs:
            if not math.isfinite(score):
                raise ValueError(f"scored must hold finite scores, not {score!r}")
        if not pairs:
            return []
        least = min(score for _, score in pairs)
        most = max(score for _, score in pairs)
        # The difference of two finite numbers need not be finite; that of their halves is.
        scale = 0.5 if math.isinf(most - least) else 1.0
        span = most * scale - least * scale
        return [(id_, (score * scale - least * scale) / span if span else 1.0) for id_, score in pairs]
