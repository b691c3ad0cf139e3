"""What an arm is: a name, a source, and how to read it."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from types import CoroutineType
from typing import Any

from rrf_stream._checks import (
    check_count,
    check_flag,
    check_iterable,
    check_kernels,
    check_names,
    check_seconds,
    check_weight,
)
from rrf_stream._kernels import Kernel

__all__ = ["Arm", "arms_of", "check_source"]


@dataclass(frozen=True, slots=True)
class Arm:
    """One named stream of results inside one fusion.

    Attributes:
        name: Not empty, and no other arm of the fusion has it.
        source: What to read: an asynchronous iterable, an awaitable of a list, an iterable, or a
            callable that returns one of these and is called when the arm starts. It yields results,
            or pages of them, best first. In a `Pipeline`, the callable takes the query. What is
            asynchronous runs on the event loop, a list or another sized collection is read at once,
            and everything else runs in a thread; see also `in_thread`.
        weight: Finite and at least 0. With 0 the arm is read and reported but lists nothing.
        window: How many ranks are read at most, at least 1; None for no limit.
        timeout: Seconds from the start until the arm is closed with what has arrived; None for no limit.
        idle_timeout: Seconds without a result or a page until the arm is closed; None for no limit.
        required: Whether its failure is the failure of the whole fusion.
        kernel: What its ranks are worth; None for the kernel of the fusion.

    Raises:
        ValueError: A number is out of its range, or the name is empty.
        TypeError: A value is of the wrong type.
    """

    name: str
    source: Any
    _: KW_ONLY
    weight: float = 1.0
    window: int | None = 100
    timeout: float | None = None
    idle_timeout: float | None = None
    required: bool = False
    kernel: Kernel | None = None

    def __post_init__(self) -> None:
        check_names("name", [self.name])
        object.__setattr__(self, "name", str.__str__(self.name))  # not a member of an enumeration, say
        check_source(self.source, self.name)
        check_weight("weight", self.weight)
        check_count("window", self.window, optional=True)
        check_seconds("timeout", self.timeout)
        check_seconds("idle_timeout", self.idle_timeout)
        check_flag("required", self.required)
        if self.kernel is not None:
            check_kernels([self.kernel])


def arms_of(arms: Mapping[str, Any] | Iterable[Arm]) -> tuple[Arm, ...]:
    """Return the arms that are given, as arms or as sources by name.

    Raises:
        ValueError: Two arms have one name.
        TypeError: Something given is no arm.
    """
    if isinstance(arms, Mapping):
        return tuple(Arm(name, source) for name, source in arms.items())
    check_iterable("arms", arms, "Arm objects")
    given = tuple(arms)
    for arm in given:
        if not isinstance(arm, Arm):
            raise TypeError(f"arms must be a mapping of names to sources, or Arm objects, not {arm!r}")
    check_names("arms", [arm.name for arm in given])
    return given


def check_source(source: Any, arm: str = "", *, name: str = "source") -> None:
    """Refuse what no arm can read, and what has no order: text, mappings and sets.

    Args:
        source: What is to be read.
        arm: The name of its arm, for errors; empty if that is not known.
        name: What it is called there.
    """
    kind = type(source)
    if kind is CoroutineType or kind is list or hasattr(kind, "__aiter__") or hasattr(kind, "__await__"):
        return
    readable = hasattr(kind, "__iter__") or callable(source)
    if not readable or isinstance(source, (str, bytes, Mapping, set, frozenset)):
        raise TypeError(
            f"{name} must be an asynchronous iterable, an awaitable of a list, an iterable in rank order, "
            f"or a callable that returns one of these, not {reprlib.repr(source)}"
            + (f", for arm {arm!r}" if arm else "")
        )
