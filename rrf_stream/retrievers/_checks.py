"""Arguments that an index refuses, each with a message that names the parameter and the value wanted."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath


def check_path(path: object) -> None:
    """Refuse what names no file.

    Raises:
        TypeError: It is neither a str nor a path object that stands for one.
    """
    if not isinstance(path, str | PathLike) or not isinstance(fspath(path), str):
        raise TypeError(f"path must be a str or a path, not {type(path).__name__}")


def check_number(name: str, value: object) -> None:
    """Refuse what is no count of at least one.

    Raises:
        TypeError: It is no int.
        ValueError: It is less than 1.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")


def check_text(value: object, what: str) -> None:
    """Refuse what SQLite cannot store as text.

    Raises:
        TypeError: It is no str.
        ValueError: It holds a lone surrogate.
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} must be valid Unicode, without the lone surrogate at {error.start}"
        ) from error


def check_ids(ids: object) -> list[str]:
    """Read ids into a list.

    Raises:
        TypeError: It is no iterable, a str itself, or holds something that is no str.
        ValueError: An id holds a lone surrogate.
    """
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        kind = "one str" if isinstance(ids, str) else type(ids).__name__
        raise TypeError(f"ids must be an iterable of ids, not {kind}")
    wanted = list(ids)
    for one in wanted:
        check_text(one, "every id")
    return wanted
