"""Any value in plain JSON types, as far as JSON goes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from enum import StrEnum
from numbers import Integral, Real
from typing import Any

from rrf_stream._coverage import Coverage, in_words

__all__ = ["DEEPEST", "coverage_to", "plain"]

DEEPEST = 50
"""How deep values may be nested; what lies deeper is text."""

_AS_IT_IS = frozenset({str, int, bool, type(None)})
_NESTED = frozenset({dict, list, tuple})


def plain(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """Convert a value that is inside of others, which are told by their `id`, as far as JSON goes."""
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if kind not in _NESTED:  # nearly everything was one of these; what is asked now takes far longer
        if isinstance(value, StrEnum):
            return value.value
        if isinstance(value, str):
            return value
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            return _number(value)
        if hasattr(value, "tolist"):  # an array, or one element of it
            value = value.tolist()
    if id(value) not in inside and len(inside) < DEEPEST:
        within = (*inside, id(value))
        if isinstance(value, Mapping):
            return {_text(key): plain(inner, within) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner, within) for inner in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return {name: plain(getattr(value, name, None), within) for name in names}
    return _text(value)


def _number(value: Real) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> str:
    """Return a value as text, whatever its own `__str__` does."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - it is the caller's code
        return object.__repr__(value)


def coverage_to(coverage: Coverage) -> dict[str, Any]:
    """Return what there is to tell of the arms; `plain` does the rest."""
    return {
        "full": coverage.full,
        "degraded": coverage.degraded,
        "reasons": coverage.reasons,
        "answered": coverage.answered,
        "weight_fraction": coverage.weight_fraction,
        "arms": [
            {**report._asdict(), "weight": _weight(report.weight), "error": in_words(report.error)}
            for report in coverage.arms
        ],
    }


def _weight(weight: float) -> float:
    """Return a weight as it is, but True as 1: JSON tells numbers from truth."""
    return int(weight) if isinstance(weight, bool) else weight
