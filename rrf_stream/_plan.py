"""What the core must know of a fusion: checked once, used for many queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rrf_stream._arm import Arm
from rrf_stream._bounds import BoundsMode
from rrf_stream._checks import check_kernels
from rrf_stream._hit import Key
from rrf_stream._kernels import Kernel
from rrf_stream._scoreboard import Representative
from rrf_stream._tally import ArmSpec, Layout, arm_spec

__all__ = ["Plan", "specs_of"]


class Plan(NamedTuple):
    """What an accumulator must know, checked once and used for many queries.

    Attributes:
        specs: What to know of each arm, as it was given.
        layout: What their ranks are worth; shared by fusions with equal arms.
        top_k: How many hits a snapshot shows.
        skip_repeats: Whether a repeat leaves its rank to the next id.
        key: Gives the id of a result that is not a `Hit`; None if results are ids.
        representative: Chooses the copy shown; None for the first.
        bounds: What a snapshot says of the future.
    """

    specs: tuple[ArmSpec, ...]
    layout: Layout
    top_k: int
    skip_repeats: bool
    key: Key | None
    representative: Representative | None
    bounds: BoundsMode = "off"


def specs_of(arms: Iterable[Arm], kernel: Kernel) -> list[ArmSpec]:
    """Return what the core must know of arms, which have `kernel` where they have none of their own.

    Raises:
        ValueError: The kernels are of different families.
    """
    specs = [arm_spec(arm.name, arm.kernel or kernel, arm.weight, arm.window) for arm in arms]
    own = [spec.kernel for spec in specs if spec.kernel is not kernel]
    check_kernels(own if len(own) == len(specs) else [*own, kernel])
    return specs
