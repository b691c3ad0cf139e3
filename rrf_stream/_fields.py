"""What came as JSON from elsewhere, read field by field: each is what it must be, or the error names it."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Container, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from rrf_stream._coverage import ArmReport, ArmStatus, Coverage
from rrf_stream._plain import DEEPEST
from rrf_stream.errors import ReportedError

__all__ = [
    "Fields",
    "a_count",
    "a_flag",
    "a_name",
    "a_number",
    "as_id",
    "coverage_from",
    "hits_from",
    "list_of",
    "maybe",
    "one_of",
]

T = TypeVar("T")
_Word = TypeVar("_Word", bound=StrEnum)
_POSITIONS = ("settled", "exact", "settled_set", "exact_set")
_REQUIRED: Any = object()


class Fields:
    """The fields of one JSON object, each read as what it must be; more of them than are read may be there.

    Args:
        data: The object.
        path: Where it was found, for errors.

    Raises:
        ValueError: It is no object.
    """

    __slots__ = ("_data", "_path")

    def __init__(self, data: Any, path: str = "") -> None:
        if not isinstance(data, Mapping):
            raise ValueError(f"{path or 'data'} must be a JSON object, not {reprlib.repr(data)}")  # noqa: TRY004
        self._data = data
        self._path = f"{path}." if path else ""

    def read(self, name: str, read: Callable[[Any], T], default: Any = _REQUIRED) -> T:
        """Return what `read` makes of a field; the default, if there is one, where the field is missing.

        Raises:
            ValueError: The field is missing that must be there, or it is not what `read` wants.
        """
        value = self._data.get(name, default)
        if value is _REQUIRED:
            raise ValueError(f"{self._path}{name} is missing")
        try:
            return read(value)
        except _UnfitError as unfit:
            shown = reprlib.repr(value)
            raise ValueError(f"{self._path}{name} must be {unfit}, not {shown}") from None

    def object(self, name: str) -> Fields:
        """Return the fields of the object that a field is; ValueError if it is none."""
        return Fields(self.read(name, anything), f"{self._path}{name}")

    def objects(self, name: str) -> Iterator[Fields]:
        """Give the fields of each of the objects in a list; ValueError if it is no such list."""
        for index, value in enumerate(self.read(name, list_of(anything))):
            yield Fields(value, f"{self._path}{name}[{index}]")


class FrozenMap(Mapping[str, Any]):
    """A mapping that cannot be changed: hashable if its values are, and equal to a dictionary of the same."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Mapping[str, Any]) -> None:
        self._inner = dict(inner)

    def __getitem__(self, key: str) -> Any:
        """Return a value; KeyError if there is none."""
        return self._inner[key]

    def __iter__(self) -> Iterator[str]:
        """Return the keys."""
        return iter(self._inner)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._inner)

    def __hash__(self) -> int:
        return hash(frozenset(self._inner.items()))

    def __repr__(self) -> str:
        return repr(self._inner)

    def __reduce__(self) -> tuple[type[FrozenMap], tuple[dict[str, Any]]]:
        return FrozenMap, (self._inner,)


class _UnfitError(Exception):
    """A value is not what it must be; the message says what that is."""


def anything(value: Any) -> Any:
    """Read whatever is there."""
    return value


def a_flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise _UnfitError("true or false")
    return value


def a_number(value: Any) -> float:
    """Read a finite number; it stays a whole one if it is."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return value
    except OverflowError:  # a whole number that no float can hold
        pass
    raise _UnfitError("a finite number")


def a_weight(value: Any) -> float:
    """Read a finite number of at least 0."""
    number = a_number(value)
    if number < 0:
        raise _UnfitError("a finite number of at least 0")
    return number


def a_count(value: Any) -> int:
    """Read a whole number of at least 0."""
    return _whole(value, 0)


def a_rank(value: Any) -> int:
    """Read a whole number of at least 1."""
    return _whole(value, 1)


def _whole(value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise _UnfitError(f"a whole number of at least {least}")
    return value


def a_name(value: Any) -> str:
    """Read a text."""
    if not isinstance(value, str):
        raise _UnfitError("a string")
    return value


def as_id(value: Any, depth: int = 0) -> Any:
    """Read any JSON as an id, which must be hashable: lists become tuples, and objects `FrozenMap`."""
    if depth > DEEPEST:
        raise _UnfitError(f"nested at most {DEEPEST} deep")
    if isinstance(value, list | tuple):
        return tuple(as_id(inner, depth + 1) for inner in value)
    if isinstance(value, Mapping):
        return FrozenMap({a_name(key): as_id(inner, depth + 1) for key, inner in value.items()})
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if value is not None and not isinstance(value, str) and not is_number:
        raise _UnfitError("a JSON value")
    return value


def maybe(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Read null too."""

    def read_it(value: Any) -> T | None:
        try:
            return None if value is None else read(value)
        except _UnfitError as unfit:
            raise _UnfitError(f"{unfit}, or null") from None

    return read_it


def list_of(read: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    """Read a list, each element by `read`."""

    def read_it(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list | tuple):
            raise _UnfitError("a list")
        try:
            return tuple(map(read, value))
        except _UnfitError as unfit:
            raise _UnfitError(f"a list, of which each is {unfit}") from None

    return read_it


def a_mapping(read: Callable[[Any], T]) -> Callable[[Any], dict[str, T]]:
    """Read an object of any keys, each value by `read`."""

    def read_it(value: Any) -> dict[str, T]:
        if not isinstance(value, Mapping):
            raise _UnfitError("an object")
        try:
            return {a_name(key): read(inner) for key, inner in value.items()}
        except _UnfitError as unfit:
            raise _UnfitError(f"an object, of which each value is {unfit}") from None

    return read_it


def one_of(words: type[_Word]) -> Callable[[Any], _Word]:
    """Read one of the words of an enumeration."""

    def read_it(value: Any) -> _Word:
        for word in words:
            if word.value == value:
                return word
        raise _UnfitError(" or ".join(repr(word.value) for word in words))

    return read_it


def coverage_from(fields: Fields) -> Coverage:
    """Return what was told of the arms. What follows from their reports is worked out again."""
    reports: dict[str, ArmReport] = {}
    for arm in fields.objects("arms"):
        report = _report_from(arm, reports)
        reports[report.name] = report
    return Coverage(tuple(reports.values()))


def _report_from(fields: Fields, others: Container[str]) -> ArmReport:
    def a_new_name(value: Any) -> str:
        name = a_name(value)
        if name in others:
            raise _UnfitError("that of one arm")
        return name

    error = fields.read("error", maybe(a_name))
    return ArmReport(
        name=fields.read("name", a_new_name),
        status=fields.read("status", one_of(ArmStatus)),
        weight=fields.read("weight", a_weight),
        window=fields.read("window", maybe(a_rank)),
        received=fields.read("received", a_count),
        first_hit_after=fields.read("first_hit_after", maybe(a_number)),
        elapsed=fields.read("elapsed", maybe(a_number)),
        error=None if error is None else ReportedError(error),
        retry_after=fields.read("retry_after", maybe(a_number), None),
    )


def hits_from(fields: Fields) -> Iterator[dict[str, Any]]:
    """Give what was told of each hit, by the names that the fields of a `FusedHit` have.

    Raises:
        ValueError: A field is not what it must be; or more positions are told of than there are hits.
    """
    hits = list(fields.objects("hits"))

    def a_position(value: Any) -> int:
        count = a_count(value)
        if count > len(hits):
            raise _UnfitError(f"at most the number of hits, {len(hits)}")
        return count

    for name in _POSITIONS:
        fields.read(name, maybe(a_position), None)
    for hit in hits:
        yield {
            "id": hit.read("id", as_id),
            "rank": hit.read("rank", a_rank),
            "score": hit.read("score", a_number),
            "normalized": hit.read("normalized", a_number),
            "item": hit.read("item", anything),
            "items": hit.read("items", a_mapping(anything)),
            "ranks": FrozenMap(hit.read("ranks", a_mapping(a_rank))),
            "upper": hit.read("upper", maybe(a_number), None),
            "best_rank": hit.read("best_rank", maybe(a_rank), None),
            "worst_rank": hit.read("worst_rank", maybe(a_rank), None),
        }
