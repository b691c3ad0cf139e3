"""Retrievers and options, chosen once and reused for every query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Unpack

from rrf_stream._arm import Arm, arms_of
from rrf_stream._fusion import Fusion, answer
from rrf_stream._options import FusionOptions, changed, plan_of, settings_of
from rrf_stream._run import Run
from rrf_stream._snapshot import Snapshot

__all__ = ["Pipeline"]


class Pipeline:
    """Named retrievers with default options; holds no state of any query.

    Args:
        retrievers: By arm name, callables that take the query and return a source; or `Arm`
            objects whose source is such a callable, for arms with options of their own.
        options: Defaults for every query; see `FusionOptions`.

    Raises:
        ValueError: An option is out of its range, or two arms have one name.
        TypeError: A retriever is not callable, or there is no such option.
    """

    __slots__ = ("_arms", "_plan", "_settings")

    def __init__(
        self,
        retrievers: Mapping[str, Callable[[Any], Any]] | Iterable[Arm],
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

    def __repr__(self) -> str:
        return f"<Pipeline of {', '.join(arm.name for arm in self._arms) or 'no arms'}>"

    def _run_of(self, query: Any, options: FusionOptions) -> Run:
        settings, plan = self._settings, self._plan
        if options:
            settings = changed(settings, options)
            plan = plan_of(self._arms, settings)
        return Run(self._arms, [partial(arm.source, query) for arm in self._arms], settings, plan)
