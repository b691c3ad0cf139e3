"""What the options of the command mean: words to values, without the command line around them."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["ARMS", "LogLevel", "Until", "arm_weights", "seconds", "settle_of", "token_in"]

ARMS = ("lexical", "dense", "graph")
"""The retrievers of an index, in the order in which they are declared."""


class Until(StrEnum):
    """What ends a search before its time."""

    COMPLETE = "complete"
    SETTLED = "settled"


class LogLevel(StrEnum):
    """How much a server logs."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"


_DURATION = re.compile(r"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)\s*(?P<unit>ms|s|)", re.ASCII)


def seconds(text: str) -> float:
    """Return a duration such as `300ms`, `0.3s`, `2s` or `2` in seconds.

    Raises:
        ValueError: It is written otherwise, or is not more than 0.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration: write 300ms, 0.3s, 2s, or seconds as a plain number")
    value = float(match["number"]) / (1000 if match["unit"] == "ms" else 1)
    if not 0 < value < math.inf:
        raise ValueError(f"{text!r}: a timeout must be more than 0 and finite")
    return value


def settle_of(until: Until, settle: int | None, top_k: int) -> int | None:
    """Return how many leading positions are enough once they are settled; None asks for every arm.

    Args:
        until: What ends the search.
        settle: How many are asked for; None for all that are shown.
        top_k: How many are shown.

    Raises:
        ValueError: A number is given though nothing is to be settled, or it is more than are shown.
    """
    if until is Until.COMPLETE:
        if settle is not None:
            raise ValueError("it needs --until settled")
        return None
    if settle is not None and settle > top_k:
        raise ValueError(f"only {top_k} hits are shown (--top-k), so it must be {top_k} or less")
    return top_k if settle is None else settle


def arm_weights(choices: Iterable[str]) -> dict[str, float]:
    """Return the weight of every arm that is to be asked, from words such as `dense` and `dense=0.5`.

    A name alone selects: only arms that are named are asked then. With a weight
    it weighs: the others stay as they are, with weight 1. Weight 0 leaves an arm out.

    Raises:
        ValueError: An unknown or repeated arm, a weight that is none, or no arm left.
    """
    given: dict[str, float] = {}
    selects = False
    for choice in choices:
        name, weighs, weight = choice.partition("=")
        if name not in ARMS:
            raise ValueError(f"{name!r} is no arm of an index: there are {', '.join(ARMS)}")
        if name in given:
            raise ValueError(f"arm {name!r} is given twice")
        given[name] = _weight(name, weight) if weighs else 1.0
        selects = selects or not weighs
    weights = {name: given.get(name, 0.0 if selects else 1.0) for name in ARMS}
    asked = {name: weight for name, weight in weights.items() if weight}
    if not asked:
        raise ValueError("every arm has weight 0, so there is nobody to ask")
    return asked


def token_in(file: Path | None, environment: Mapping[str, str]) -> str | None:
    """Return the token that a server wants: that in a file, or else in the environment; None for none.

    It is no option of its own, as other users of a machine see the arguments of every process.

    Raises:
        ValueError: The file cannot be read.
    """
    if file is None:
        token = environment.get("RRF_STREAM_TOKEN")
        return None if token is None else token.strip()
    try:
        return file.read_text("utf-8").strip()
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file}: it is no UTF-8 text") from None


def _weight(name: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 <= weight < math.inf:
        raise ValueError(f"the weight of {name!r} must be a number, 0 or more, not {text!r}")
    return weight
