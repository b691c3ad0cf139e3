"""What arms yield: ids, hits, and pages of them."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, final

__all__ = ["Hit", "Key", "Page", "identify", "scores_in"]

T = TypeVar("T")

Key: TypeAlias = Callable[[Any], Any]
"""Gives the id of a result that is not a `Hit`."""


@final
@dataclass(frozen=True, slots=True)
class Hit:
    """One result of an arm that carries more than its id.

    Attributes:
        id: Any hashable value; the same document must have an equal id in every arm.
        score: The arm's own score, on the arm's own scale. Only a kernel of scores,
            `TheoreticalMinMax`, reads it; fusion by rank never does.
        item: The result itself, handed back in `FusedHit.item` and `FusedHit.items`.
    """

    id: Hashable
    score: float | None = None
    item: Any = None

    __hash__ = None  # type: ignore[assignment]  # so that no dictionary takes a hit for an id


@final
class Page(list[T], Generic[T]):
    """Several consecutive results of one arm, best first, delivered at once.

    A page is how an arm says "these are many results". Any other object it
    yields, a plain list included, is one result.
    """

    __slots__ = ()


def identify(results: Iterable[Any], key: Key | None, arm: str) -> tuple[list[Any], list[Any]]:
    """Return the ids of some results, and the copy that came with each.

    Args:
        results: Ids, `Hit` objects, or with `key` any objects; and pages of these.
        key: Gives the id of a result that is not a `Hit`; None if the result is its id.
        arm: The name of their arm, for errors.

    Returns:
        The ids, and as many copies, None where there is none.
    """
    ids: list[Any] = []
    items: list[Any] = []
    for result in results:
        if type(result) is Hit:
            ids.append(result.id)
            items.append(result.item)
        elif type(result) is Page:
            more_ids, more_items = identify(result, key, arm)
            ids += more_ids
            items += more_items
        elif key is None:
            ids.append(result)
            items.append(None)
        else:
            try:
                ids.append(key(result))
            except Exception as error:
                error.add_note(f"raised by key, for a result of arm {arm!r}: {reprlib.repr(result)}")
                raise
            items.append(result)
    return ids, items


def scores_in(results: Iterable[Any]) -> list[Any]:
    """Return the score of each of the results that `identify` tells apart; None where there is none."""
    scores: list[Any] = []
    for result in results:
        if type(result) is Page:
            scores += scores_in(result)
        else:
            scores.append(result.score if type(result) is Hit else None)
    return scores
