"""Retrievers and options, chosen once and reused for every query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, TypeVar, Unpack

from rrf_stream._arm import Arm, arms_of
from rrf_stream._breaker import Breaker
from rrf_stream._fusion import Fusion, answer
from rrf_stream._health import ArmHealth, ArmStats, Watch
from rrf_stream._hedging import Hedging
from rrf_stream._options import FusionOptions, plan_of, replaced, settings_of
from rrf_stream._run import Run
from rrf_stream._snapshot import Snapshot

__all__ = ["Pipeline"]

_Policy = TypeVar("_Policy", Breaker, Hedging)


class Pipeline:
    """Named retrievers with default options, and how they did so far; holds nothing of any query.

    It may be used from several event loops and threads at once.

    Args:
        retrievers: By arm name, callables that take the query and return a source; or `Arm`
            objects whose source is such a callable, for arms with options of their own.
        breaker: When an arm that fails again and again is left alone for a while; one for all
            arms, or by arm name for some. Never, if None.
        hedging: When an arm that is late is asked a second time; one for all arms, or by arm
            name for some. Never, if None.
        options: Defaults for every query; see `FusionOptions`.

    Raises:
        ValueError: An option is out of its range, two arms have one name, or no arm has the name
            that a breaker or hedging is for.
        TypeError: A retriever is not callable, an option is of the wrong type, or there is no such option.
    """

    __slots__ = ("_arms", "_health", "_plan", "_settings")

    def __init__(
        self,
        retrievers: Mapping[str, Any] | Iterable[Arm],
        *,
        breaker: Breaker | Mapping[str, Breaker] | None = None,
        hedging: Hedging | Mapping[str, Hedging] | None = None,
        **options: Unpack[FusionOptions],
    ) -> None:
        self._arms = arms_of(retrievers)
        self._settings = settings_of(options)
        self._plan = plan_of(self._arms, self._settings)
        for arm in self._arms:
            if not callable(arm.source):
                raise TypeError(
                    f"the retriever of arm {arm.name!r} must be a callable that takes the query, "
                    f"not {arm.source!r}"
                )
        names = [arm.name for arm in self._arms]
        breakers = _by_arm("breaker", breaker, Breaker, names)
        hedgings = _by_arm("hedging", hedging, Hedging, names)
        self._health = [ArmHealth(name, breakers.get(name), hedgings.get(name)) for name in names]

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms as they were declared; the source of each is its retriever."""
        return self._arms

    @property
    def defaults(self) -> FusionOptions:
        """Every option that a query has unless it is given another one; a dictionary of the caller's own."""
        return self._settings.as_options()

    def only(self, *names: str) -> Pipeline:
        """Return a pipeline of some of the arms, with the same retrievers and options.

        How the arms do is shared: an arm has the same statistics, breaker and hedging in both pipelines.
        What goes by all arms goes by those that are asked: `quorum` is a share of their weight, `normalized`
        and `weight_fraction` are of what they can give, and a required arm matters only where it is asked.

        Args:
            names: The names of the arms, in any order; the arms keep theirs, which decides ties.

        Raises:
            ValueError: There is no name, no arm of a name, or a name twice.
        """
        known = [arm.name for arm in self._arms]
        if not names:
            raise ValueError(f"names must be of at least one arm of the pipeline, {', '.join(known)}")
        for index, name in enumerate(names):
            if name not in known:
                raise ValueError(f"names must be of arms of the pipeline, {', '.join(known)}, not {name!r}")
            if name in names[:index]:
                raise ValueError(f"names must name each arm once, not twice: {name!r}")
        chosen = [index for index, name in enumerate(known) if name in names]
        part = object.__new__(Pipeline)
        part._settings = self._settings
        part._arms = tuple(self._arms[index] for index in chosen)
        part._health = [self._health[index] for index in chosen]
        part._plan = plan_of(part._arms, part._settings)
        return part

    def open(self, query: Any, **options: Unpack[FusionOptions]) -> Fusion:
        """Open the fusion of one query, to be read as a stream.

        Args:
            query: What every retriever is called with.
            options: Instead of the defaults, for this query; see `FusionOptions`.

        Raises:
            ValueError: An option is out of its range.
            TypeError: An option is of the wrong type, or there is no such option.
        """
        return Fusion(self._run_of(query, options))

    async def search(self, query: Any, **options: Unpack[FusionOptions]) -> Snapshot:
        """Return the final snapshot of one query.

        Args:
            query: What every retriever is called with.
            options: Instead of the defaults, for this query; see `FusionOptions`.

        Raises:
            ArmError: A required arm failed.
            ValueError: An option is out of its range.
            TypeError: An option is of the wrong type, or there is no such option.
        """
        return await answer(self._run_of(query, options))

    def stats(self) -> dict[str, ArmStats]:
        """Return how each arm did in all queries so far, by name, in the order of the arms."""
        return {arm.name: health.stats() for arm, health in zip(self._arms, self._health, strict=True)}

    def __repr__(self) -> str:
        return f"<Pipeline of {', '.join(arm.name for arm in self._arms) or 'no arms'}>"

    def _run_of(self, query: Any, options: FusionOptions) -> Run:
        settings, plan = self._settings, self._plan
        if options:
            settings = replaced(settings, options)
            plan = plan_of(self._arms, settings)
        sources = [partial(arm.source, query) for arm in self._arms]
        return Run(self._arms, sources, settings, plan, Watch(self._health))


def _by_arm(
    name: str, given: _Policy | Mapping[str, _Policy] | None, kind: type[_Policy], arms: list[str]
) -> Mapping[str, _Policy]:
    """Return what is given for which arms.

    Raises:
        ValueError: It is for an arm that there is not.
        TypeError: It is of another kind.
    """
    if given is None:
        return {}
    if isinstance(given, kind):
        return dict.fromkeys(arms, given)
    wanted = f"a {kind.__name__}, or a mapping of arm names to such"
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be {wanted}, not {given!r}")
    for arm, policy in given.items():
        if arm not in arms:
            raise ValueError(f"{name} must name arms of the pipeline, {', '.join(arms)}, not {arm!r}")
        if not isinstance(policy, kind):
            raise TypeError(f"{name} must be {wanted}, not of {arm!r} to {policy!r}")
    return dict(given)
