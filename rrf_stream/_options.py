"""The options of a fusion: what there is, what it means, what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypedDict, cast

from rrf_stream._arm import Arm, arms_of, check_source
from rrf_stream._bounds import BoundsMode
from rrf_stream._checks import (
    check_bounds,
    check_callable,
    check_choice,
    check_count,
    check_kernel,
    check_seconds,
    check_share,
)
from rrf_stream._hit import Key
from rrf_stream._kernels import Kernel
from rrf_stream._plan import Plan, specs_of
from rrf_stream._ranking import Repeats
from rrf_stream._scoreboard import Representative
from rrf_stream._tally import layout_of

__all__ = ["FusionOptions", "Settings", "plan_of", "prepare", "replaced", "settings_of"]


class FusionOptions(TypedDict, total=False):
    """What `open_fusion`, `fuse_arms` and `Pipeline` take; every option may be left out.

    Attributes:
        top_k: How many hits a snapshot shows, at least 1; 10.
        rank_constant: A finite number above 0; 60. Small ones favour the top ranks.
        kernel: What a rank is worth; `ReciprocalRank(rank_constant)`.
        timeout: Seconds from the start to the final snapshot, at least 0; no limit.
        deadline: The same as a time on the clock of the event loop, as `anyio.current_time()`
            tells it; no limit. The earliest of this, `timeout` and the caller's own enclosing
            anyio deadline counts.
        key: Gives the id of a result that is not a `Hit`; results are ids.
        representative: Chooses the copy shown, from the list of all copies of an id in the
            order of the arms, then of ranks; the first.
        repeats: Whether a repeat within one arm uses up a rank, "consume", or not, "skip".
        quorum: The share of the weight, above 0 and at most 1, whose arms must have ended
            for the fusion to end `patience` later; it waits for all arms.
        patience: Seconds to wait for the other arms when there is a quorum, at least 0; 0.
        until: What ends the fusion before its time: "complete", when every arm has ended, or
            "settled", as soon as nothing that may still come could change the top.
        settle: With `until="settled"`, how many leading positions matter, 1 to `top_k`; all of them.
        min_interval: Seconds between two snapshots at the least, the final one excepted; 0.
        bounds: What a snapshot says of the future: "settled", how much of it is certain, and the
            highest score that each hit can reach; "ranks", the best and worst rank of each hit
            too; "off", nothing, at no cost. "settled".
        grace: Seconds that leaving the fusion waits for arms to clean up, at least 0; 0.05.
    """

    top_k: int
    rank_constant: float
    kernel: Kernel | None
    timeout: float | None
    deadline: float | None
    key: Key | None
    representative: Representative | None
    repeats: Repeats
    quorum: float | None
    patience: float
    until: Literal["complete", "settled"]
    settle: int | None
    min_interval: float
    bounds: BoundsMode
    grace: float


@dataclass(slots=True, kw_only=True)
class Settings:
    """The options of one fusion, all there and checked.

    Raises:
        ValueError: An option is out of its range.
        TypeError: An option is of the wrong type, or there is no such option.
    """

    top_k: int = 10
    rank_constant: float = 60
    kernel: Kernel | None = None
    timeout: float | None = None
    deadline: float | None = None
    key: Key | None = None
    representative: Representative | None = None
    repeats: Repeats = "consume"
    quorum: float | None = None
    patience: float = 0.0
    until: Literal["complete", "settled"] = "complete"
    settle: int | None = None
    min_interval: float = 0.0
    bounds: BoundsMode = "settled"
    grace: float = 0.05

    def __post_init__(self) -> None:
        check_count("top_k", self.top_k)
        check_kernel(self.kernel, self.rank_constant)
        check_seconds("timeout", self.timeout)
        check_seconds("deadline", self.deadline, least=None)
        check_callable("key", self.key)
        check_callable("representative", self.representative)
        check_choice("repeats", self.repeats, ("consume", "skip"))
        check_share("quorum", self.quorum)
        check_seconds("patience", self.patience, optional=False)
        check_choice("until", self.until, ("complete", "settled"))
        check_seconds("min_interval", self.min_interval, optional=False)
        check_choice("bounds", self.bounds, ("settled", "off", "ranks"))
        check_seconds("grace", self.grace, optional=False)
        if self.until == "settled" and self.bounds == "off":
            raise ValueError("until='settled' must not be given with bounds='off', which does not tell")
        if self.settle is not None:
            check_count("settle", self.settle)
            if self.until != "settled":
                raise ValueError("settle must be given with until='settled' only")
            if self.settle > self.top_k:
                raise ValueError(f"settle must be at most top_k, {self.top_k}, not {self.settle!r}")

    def as_options(self) -> FusionOptions:
        """Return the options as a user would give them."""
        return cast("FusionOptions", {field.name: getattr(self, field.name) for field in fields(self)})

    def due(self, start: float) -> float:
        """Return when the final snapshot of a fusion is due that starts then, by the same clock."""
        due = math.inf if self.timeout is None else start + self.timeout
        return due if self.deadline is None else min(due, self.deadline)


def settings_of(options: FusionOptions) -> Settings:
    """Return the options of a fusion, all there and checked; errors as for `Settings`."""
    _check_known(options)
    return Settings(**options)


def replaced(settings: Settings, options: FusionOptions) -> Settings:
    """Return settings with other options in place of some; errors as for `Settings`."""
    _check_known(options)
    return replace(settings, **options)


_ELSEWHERE = dict.fromkeys(("breaker", "hedging"), "Pipeline()") | dict.fromkeys(
    ("weight", "window", "idle_timeout", "required"), "an Arm"
)
"""What is not an option of a fusion, but easily taken for one."""


def _check_known(options: FusionOptions) -> None:
    for name in options:
        if name not in FusionOptions.__annotations__:
            known = ", ".join(FusionOptions.__annotations__)
            elsewhere = f" but of {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            raise TypeError(f"{name!r} is not an option of a fusion{elsewhere}; the options are {known}")


class Prepared(NamedTuple):
    """What a fusion needs beside its sources.

    Attributes:
        arms: What was asked for.
        settings: The options, all there and checked.
        plan: What the core must know of both.
    """

    arms: tuple[Arm, ...]
    settings: Settings
    plan: Plan


def prepare(arms: Mapping[str, Any] | Iterable[Arm], options: FusionOptions) -> tuple[Prepared, list[Any]]:
    """Return what a fusion needs, and its sources.

    What is checked is remembered for the arm names and options of the last fusions, if these are
    plain numbers and words: most programs use the same ones for every query. (A deadline never is.)

    Raises:
        ValueError: An option is out of its range, or two arms have one name.
        TypeError: Something is of the wrong type, or there is no such option.
    """
    plain = "deadline" not in options and _PLAIN.issuperset(map(type, options.values()))
    if plain and isinstance(arms, Mapping):
        sources = [*arms.values()]
        for name, source in arms.items():
            check_source(source, name)
        return _prepared(tuple(arms), tuple(options), *options.values()), sources
    given = arms_of(arms)
    settings = settings_of(options)
    return Prepared(given, settings, plan_of(given, settings)), [arm.source for arm in given]


_PLAIN = frozenset({bool, int, float, str, type(None)})


@lru_cache(maxsize=64, typed=True)
def _prepared(names: tuple[str, ...], options: tuple[str, ...], *values: Any) -> Prepared:
    given = arms_of(dict.fromkeys(names, ()))
    settings = settings_of(cast("FusionOptions", dict(zip(options, values, strict=True))))
    return Prepared(given, settings, plan_of(given, settings))


def plan_of(arms: Iterable[Arm], settings: Settings) -> Plan:
    """Return what the core must know of a fusion.

    Raises:
        ValueError: The weights are too large together, the kernels of different kinds, or bounds
            are asked for that one of them does not allow.
    """
    kernel = check_kernel(settings.kernel, settings.rank_constant)
    specs = tuple(specs_of(arms, kernel))
    check_bounds(settings.bounds, [spec.kernel for spec in specs])
    return Plan(
        specs,
        layout_of(specs),
        settings.top_k,
        settings.repeats == "skip",
        settings.key,
        settings.representative,
        settings.bounds,
    )
