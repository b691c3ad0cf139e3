"""Wrong arguments, refused: every error names the parameter and the value wanted."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from rrf_stream._kernels import Kernel, ReciprocalRank, check_units, exact, family_of, unbounded_because

__all__ = [
    "check_bounds",
    "check_callable",
    "check_choice",
    "check_count",
    "check_flag",
    "check_iterable",
    "check_kernel",
    "check_kernels",
    "check_names",
    "check_seconds",
    "check_share",
    "check_weight",
]

_NO_RANKINGS = (str, bytes, set, frozenset, Mapping)
_STANDARD = ReciprocalRank()


def check_names(name: str, names: Iterable[Any]) -> None:
    """Refuse arm names that are not text, empty or given twice."""
    seen: set[str] = set()
    for value in names:
        if not isinstance(value, str):
            raise TypeError(f"{name}: the name of an arm must be a string, not {value!r}")
        if not value:
            raise ValueError(f"{name}: the name of an arm must not be empty")
        if value in seen:
            raise ValueError(f"{name}: the name of each arm must be given once, not twice: {value!r}")
        seen.add(value)


def check_weight(name: str, value: float) -> None:
    """Refuse a weight that is not a finite number of at least 0."""
    if type(value) is float and 0 <= value < math.inf:
        return  # as nearly always; the rest is for other numbers, and for errors
    if exact(name, value) < 0:
        raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")


def check_count(name: str, value: int | None, *, least: int = 1, optional: bool = False) -> None:
    """Refuse anything but a whole number of at least `least`, or None where there may be no limit."""
    if (value is None and optional) or (type(value) is int and value >= least):
        return
    wanted = f"a whole number of at least {least}" + (", or None for no limit" if optional else "")
    if not isinstance(value, Integral):
        raise TypeError(f"{name} must be {wanted}, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be {wanted}, not {value!r}")


def check_seconds(name: str, value: float | None, *, least: float | None = 0, optional: bool = True) -> None:
    """Refuse anything but a number of seconds of at least `least`, or None where there may be no limit."""
    if (value is None and optional) or (type(value) is float and value >= 0):
        return
    wanted = "a number of seconds"
    wanted += "" if least is None else f" of at least {least}"
    wanted += ", or None for no limit" if optional else ""
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be {wanted}, not {value!r}")
    if math.isnan(value) or (least is not None and value < least):
        raise ValueError(f"{name} must be {wanted}, not {value!r}")


def check_share(name: str, value: float | None) -> None:
    """Refuse anything but a number above 0 and at most 1, or None."""
    if value is None:
        return
    wanted = "a number above 0 and at most 1, or None"
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be {wanted}, not {value!r}")
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be {wanted}, not {value!r}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a word that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, not {value!r}")


def check_kernels(kernels: Iterable[Kernel]) -> None:
    """Refuse what is no kernel, and kernels of two families, whose contributions have different scales."""
    families: set[str] = set()
    for kernel in kernels:
        if type(kernel) is not ReciprocalRank:
            check_units(kernel)
        try:
            hash(kernel)
        except TypeError as error:
            raise TypeError(f"kernel must be hashable; {kernel!r} is not") from error
        family = family_of(kernel)
        for name, value in (("family", family), ("unbounded", unbounded_because(kernel))):
            if not isinstance(value, str | None):
                raise TypeError(f"{name} of a kernel must be text or None, not {value!r} ({kernel!r})")
        families |= {family} if family is not None else set()
    if len(families) > 1:
        raise ValueError(
            "kernel must be of one family in all arms of a fusion, or AnyScale(kernel) in those that"
            f" differ on purpose, not {' and '.join(sorted(families))}"
        )


def check_bounds(bounds: str, kernels: Iterable[Kernel]) -> None:
    """Refuse an unknown word, and bounds where a kernel allows none."""
    check_choice("bounds", bounds, ("settled", "off", "ranks"))
    for kernel in kernels:
        reason = unbounded_because(kernel)
        if reason is not None and bounds != "off":
            raise ValueError(f"bounds must be 'off' with {kernel!r}, which cannot be bounded: {reason}")


def check_iterable(name: str, value: Any, wanted: str) -> None:
    """Refuse what is not iterable, and what has no order of rank: text, sets, and scores by id."""
    if isinstance(value, _NO_RANKINGS) or not hasattr(type(value), "__iter__"):
        raise TypeError(f"{name} must be an iterable of {wanted}, not {reprlib.repr(value)}")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is not True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def check_callable(name: str, value: Any) -> None:
    """Refuse what is neither None nor callable."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be callable or None, not {value!r}")


def check_kernel(kernel: Kernel | None, rank_constant: float) -> Kernel:
    """Return the kernel that the two parameters ask for; refuse it if they ask for two."""
    if kernel is None:
        return _STANDARD if rank_constant == _STANDARD.rank_constant else ReciprocalRank(rank_constant)
    if rank_constant != _STANDARD.rank_constant:
        raise ValueError("rank_constant belongs to ReciprocalRank: give either it or kernel, not both")
    check_kernels([kernel])
    return kernel
