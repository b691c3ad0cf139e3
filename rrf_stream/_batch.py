"""Fusion of complete rankings: the specification of the stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import cycle, repeat
from typing import Any

from rrf_stream._checks import (
    check_callable,
    check_choice,
    check_count,
    check_iterable,
    check_kernel,
    check_kernels,
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
    kernel: Kernel | Mapping[str, Kernel] | None = None,
) -> list[FusedHit]:
    """Fuse complete rankings by rank.

    The score of a document is the exact sum, over the rankings that hold it, of
    weight / (rank_constant + rank), with ranks from 1, or of what another kernel gives. Equal
    scores are ordered by who was seen first: by the lowest ranking that holds the document, then
    by its rank there.

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
        kernel: What a rank is worth, in all rankings, or by arm name in some; None, or no entry, for
            `ReciprocalRank(rank_constant)`.

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
    layout = _layout(names, _kernels(names, kernel, rank_constant), _weights(names, weights), room)
    skip = repeats == "skip"
    keep = representative is not None
    board = Scoreboard(
        layout,
        [Ranking(layout, arm, skip_repeats=skip, keep_copies=keep, key=key) for arm in range(len(lists))],
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
def _layout(
    names: tuple[str, ...], kernels: tuple[Kernel, ...], weights: tuple[float, ...], room: int
) -> Layout:
    return Layout(tuple(map(arm_spec, names, cycle(kernels), weights, repeat(room))))


def _listed(name: str, results: Iterable[Any]) -> list[Any]:
    if type(results) is list:
        return results
    check_iterable(f"rankings[{name!r}]", results, "results in rank order")
    return [*results]


def _kernels(
    names: tuple[str, ...], kernel: Kernel | Mapping[str, Kernel] | None, rank_constant: float
) -> tuple[Kernel, ...]:
    """Return one kernel for all names, or one for each."""
    if not isinstance(kernel, Mapping):
        return (check_kernel(kernel, rank_constant),)
    _check_arms("kernel", kernel, names)
    standard = check_kernel(None, rank_constant)
    kernels = tuple([kernel.get(name, standard) for name in names])
    check_kernels(kernels)
    return kernels


def _check_arms(name: str, given: Iterable[str], names: tuple[str, ...]) -> None:
    for arm in given:
        if arm not in names:
            known = ", ".join(map(repr, names))
            raise ValueError(f"{name} must be for arms of the fusion ({known}), not for {arm!r}")


def _weights(
    names: tuple[str, ...], weights: Mapping[str, float] | Sequence[float] | None
) -> tuple[float, ...]:
    """Return one weight for each name."""
    if weights is None:
        return (1.0,) * len(names)
    if isinstance(weights, Mapping):
        _check_arms("weights", weights, names)
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
