"""Fusion of complete rankings: the specification of the stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rrf_stream._checks import (
    check_callable,
    check_choice,
    check_count,
    check_iterable,
    check_kernel,
    check_names,
    check_weight,
)
from rrf_stream._hit import Key
from rrf_stream._kernels import Kernel
from rrf_stream._ranking import Ranking, Repeats
from rrf_stream._scoreboard import Representative, Scoreboard, Ties
from rrf_stream._snapshot import FusedHit
from rrf_stream._tally import Layout, arm_spec

__all__ = ["fuse"]

_LEAST_BITS = 7


def fuse(
    rankings: Mapping[str, Iterable[Any]] | Iterable[Iterable[Any]],
    *,
    weights: Mapping[str, float] | Sequence[float] | None = None,
    rank_constant: float = 60,
    top_k: int | None = None,
    key: Key | None = None,
    representative: Representative | None = None,
    repeats: Repeats = "consume",
    ties: Ties = "first-seen",
    kernel: Kernel | None = None,
) -> list[FusedHit]:
    """Fuse complete rankings by rank.

    The score of a document is the exact sum, over the rankings that hold it, of
    weight / (rank_constant + rank), with ranks from 1. Equal scores are ordered by who was
    seen first: by the lowest ranking that holds the document, then by its rank there.

    Args:
        rankings: Results of each arm, best first: by arm name, or in a list; the arms are then
            named `list_0`, `list_1`, ... Every ranking is read once and never changed.
        weights: A finite weight of at least 0 by arm name (1 if not given), or for a list of
            rankings one each. With weight 0 a ranking lists nothing by itself.
        rank_constant: A finite number above 0.
        top_k: How many hits to return, at least 1; None for all.
        key: Gives the id of a result that is not a `Hit`; None if results are ids.
        representative: Chooses the copy shown, from the list of all copies of an id in the
            order of the arms, then of ranks; None for the first.
        repeats: Whether a repeat within one ranking uses up a rank ("consume") or not ("skip").
            Either way the first occurrence counts.
        ties: What decides between equal scores: "first-seen", or "id" for the smaller id.
        kernel: What a rank is worth; None for `ReciprocalRank(rank_constant)`.

    Returns:
        The hits, best first.

    Raises:
        ValueError: A name, weight or option is out of its range.
        TypeError: A value is of the wrong type, an id is not hashable, or with `ties="id"` ids
            cannot be compared.
    """
    check_count("top_k", top_k, optional=True)
    check_choice("repeats", repeats, ("consume", "skip"))
    check_choice("ties", ties, ("first-seen", "id"))
    check_callable("key", key)
    check_callable("representative", representative)
    shared = check_kernel(kernel, rank_constant)
    if isinstance(rankings, Mapping):
        check_names("rankings", rankings)
        names = tuple(rankings)
        lists = [_listed(name, results) for name, results in rankings.items()]
    else:
        check_iterable("rankings", rankings, "rankings")
        given = [*rankings]
        names = _numbered(len(given))
        lists = [_listed(name, results) for name, results in zip(names, given, strict=True)]
    # A window that cuts nothing: a tally has room for its ranks, and few sizes of it share their layouts.
    longest = max(map(len, lists), default=0)
    room = (1 << max(longest.bit_length(), _LEAST_BITS)) - 1
    layout = _layout(names, shared, _weights(names, weights), room)
    skip = repeats == "skip"
    keep = representative is not None
    board = Scoreboard(
        layout,
        [
            Ranking(
                name,
                layout,
                arm,
                window=room,
                skip_repeats=skip,
                keep_copies=keep,
                key=key,
            )
            for arm, name in enumerate(names)
        ],
        top_k=top_k,
        representative=representative,
        ties=ties,
    )
    for arm, results in enumerate(lists):
        board.extend(arm, results)
    return board.hits()


@lru_cache(maxsize=16)
def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"list_{number}" for number in range(count))


@lru_cache(maxsize=16)
def _layout(names: tuple[str, ...], kernel: Kernel, weights: tuple[float, ...], room: int) -> Layout:
    return Layout(
        tuple(arm_spec(name, kernel, weight, room) for name, weight in zip(names, weights, strict=True))
    )


def _listed(name: str, results: Iterable[Any]) -> list[Any]:
    if type(results) is list:
        return results
    check_iterable(f"rankings[{name!r}]", results, "results in rank order")
    return [*results]


def _weights(
    names: tuple[str, ...], weights: Mapping[str, float] | Sequence[float] | None
) -> tuple[float, ...]:
    """Return one weight for each name."""
    if weights is None:
        return (1.0,) * len(names)
    if isinstance(weights, Mapping):
        for name in weights:
            if name not in names:
                known = ", ".join(map(repr, names))
                raise ValueError(f"weights must be for arms of the fusion ({known}), not for {name!r}")
        ordered = tuple(weights.get(name, 1.0) for name in names)
    elif isinstance(weights, (str, bytes)) or not isinstance(weights, Sequence):
        raise TypeError(f"weights must be a mapping by name, or a sequence by position, not {weights!r}")
    elif len(weights) != len(names):
        raise ValueError(f"weights must be one for each of the {len(names)} rankings, not {len(weights)}")
    else:
        ordered = tuple(weights)
    for name, weight in zip(names, ordered, strict=True):
        check_weight(f"weights[{name!r}]", weight)
    return ordered
