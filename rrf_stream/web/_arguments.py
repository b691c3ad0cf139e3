"""Wrong arguments of the server are refused when they are given, by their names."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["check_count", "check_flag", "check_names", "check_seconds", "check_text", "check_token"]

_SHORTEST_TOKEN = 16


def check_text(name: str, value: Any) -> None:
    """Refuse what is no text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {value!r}")


def check_names(name: str, values: Any) -> tuple[str, ...]:
    """Return names as they are; refuse one text, which would be taken for its letters, and other things."""
    wanted = f"{name} must be a sequence of text"
    if isinstance(values, str):
        raise TypeError(f"{wanted}, not one text: {values!r}")
    try:
        names = tuple(values)
    except TypeError:
        raise TypeError(f"{wanted}, not {values!r}") from None
    for one in names:
        if not isinstance(one, str):
            raise TypeError(f"{wanted}, not with {one!r} in it")
    return names


def check_seconds(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf, most: float | None = None
) -> None:
    """Refuse what is no finite number of seconds above one number, at least another and at most a third."""
    wanted = f"{name} must be a finite number of seconds " + (
        f"above {above:g}" if above > least else f"of at least {least:g}"
    )
    if most is not None:
        wanted += f" and at most {most:g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{wanted}, not {value!r}")
    if not (value > above and value >= least and value < math.inf) or (most is not None and value > most):
        raise ValueError(f"{wanted}, not {value!r}")


def check_count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> None:
    """Refuse what is no whole number within bounds."""
    wanted = f"{name} must be a whole number of at least {least}" + (f" and at most {most}" if most else "")
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{wanted}, not {value!r}")
    if value < least or (most is not None and value > most):
        raise ValueError(f"{wanted}, not {value!r}")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def check_token(value: Any) -> None:
    """Refuse a token that is easily guessed, or that no header can hold; the error does not tell it."""
    if not isinstance(value, str):
        raise TypeError(f"token must be text, not of type {type(value).__name__}")
    if len(value) < _SHORTEST_TOKEN:
        raise ValueError(f"token must have at least {_SHORTEST_TOKEN} characters, not {len(value)}")
    if not value.isprintable() or value != value.strip():
        raise ValueError("token must have printable characters only, and no blanks around them")
