"""Fusions among the operators of aiostream: a stream of snapshots, and one of hits that are certain.

The only importer of aiostream, which the extra `aiostream` brings. It is GPL-3.0-or-later and this library
is MIT: nothing else here imports this module, and nothing of aiostream is part of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import closing
from types import GeneratorType
from typing import Any, Unpack, cast

from rrf_stream import Arm, FusedHit, Fusion, FusionOptions, Snapshot, open_fusion
from rrf_stream.errors import FusionClosedError, MissingExtraError

try:
    import aiostream
except ImportError as error:
    raise MissingExtraError("aiostream", extra="aiostream") from error

__all__ = ["fuse", "settled_hits"]

_READ_ONCE = (AsyncIterator, Iterator, Coroutine)
_ONE_BY_ONE = "arms must be given one by one: fuse(*arms), not fuse(arms)"


class _Fuse:
    """Fuse sources while they arrive: a stream of `Snapshot` objects, the last of which is final.

    `fuse(a, b, timeout=0.2)` is a stream of aiostream: it pipes, it can be sliced, and `await` gives its
    last item, the final snapshot. Nothing runs until it is iterated; leaving an iteration, in whatever
    operator, stops the arms, and waits for at most `grace` seconds. Also `a | fuse.pipe(b, timeout=0.2)`.

    Each iteration is a fusion of its own: it has the whole `timeout` (a `deadline` is one moment for all)
    and reads the sources anew. Streams, callables and lists can be read again. An iterator, a generator or
    a coroutine can not: a second iteration of a stream with such a source raises.

    Args:
        arms: Sources of any form, streams of aiostream among them, named "0", "1", ... by their place
            here; `Arm` objects; and mappings of names to sources. Their order decides ties.
        options: See `FusionOptions`.

    Raises:
        ValueError: An option is out of its range, or two arms have one name.
        TypeError: Something is of the wrong type, or there is no such option.
        FusionClosedError: While iterating, for the second time: a source can be read only once.
        ArmError: While iterating, after the final snapshot: a required arm failed.
    """

    def __call__(self, *arms: Any, **options: Unpack[FusionOptions]) -> aiostream.Stream[Snapshot]:
        return _snapshots(_Recipe(arms, options))

    @staticmethod
    def raw(*arms: Any, **options: Unpack[FusionOptions]) -> Fusion:
        """Return what one iteration reads, to build other operators on."""
        return aiter(_Recipe(arms, options))

    def pipe(
        self, *more_arms: Any, **options: Unpack[FusionOptions]
    ) -> Callable[[AsyncIterable[Any]], aiostream.Stream[Snapshot]]:
        """Return what fuses the stream that is piped into it, as the first arm, with others."""
        return lambda source: self(source, *more_arms, **options)

    def __repr__(self) -> str:
        return f"{__name__}.fuse"


fuse = _Fuse()


class _Recipe:
    """What a stream is the fusion of; iterating over it opens one.

    The first is opened at once, unstarted: that checks everything, and closes coroutines if it is dropped.
    """

    def __init__(self, given: tuple[Any, ...], options: FusionOptions) -> None:
        self._arms = [*_arms_of(given)]
        self._options = options
        self._unread: Fusion | None = open_fusion(self._arms, **options)

    def __aiter__(self) -> Fusion:
        fusion, self._unread = self._unread, None  # a stream keeps this; who drops the fusion is to end it
        if fusion is not None:
            return fusion
        for arm in self._arms:
            if isinstance(getattr(arm.source, "__wrapped__", arm.source), _READ_ONCE):  # or is `in_thread`
                raise FusionClosedError(
                    f"the source of arm {arm.name!r} can be read once, and was given to an iteration before: "
                    f"to iterate again, fuse a stream, a list, or a callable that returns a new source"
                )
        return open_fusion(self._arms, **self._options)


def _arms_of(given: tuple[Any, ...]) -> Iterator[Arm]:
    for place, one in enumerate(given):
        if isinstance(one, (list, tuple)) and any(isinstance(result, Arm) for result in one):
            raise TypeError(_ONE_BY_ONE)
        if isinstance(one, Arm):
            yield one
        elif isinstance(one, Mapping):
            for name, source in one.items():
                yield Arm(name, source)
        elif isinstance(one, GeneratorType):
            results: Any = _results(one)
            results.__name__ = one.__name__  # the name of its thread
            yield Arm(str(place), results)
        else:
            yield Arm(str(place), one)


def _results(given: Generator[Any]) -> Iterator[Any]:
    """Give what a generator does, unless that is arms: to look at it before it is read would start it."""
    with closing(given):
        for result in given:
            if isinstance(result, Arm):
                raise TypeError(_ONE_BY_ONE)
            yield result


@aiostream.operator
def _snapshots(recipe: _Recipe) -> AsyncIterator[Snapshot]:
    return cast("AsyncIterator[Snapshot]", recipe)  # an iterable will do: aiostream calls `aiter`


@aiostream.pipable_operator
async def settled_hits(source: AsyncIterable[Snapshot]) -> AsyncIterator[FusedHit]:
    """Give each hit of a fusion once, best first, as soon as no further event can change its position.

    The ranks are 1, 2, 3, ... and the ids those of the final snapshot, whose hits are all given in the
    end; with `bounds="off"`, which does not tell before, that is when all of them come. Score, ranks and
    items are those of the moment, and may still grow. Also `fuse(a, b) | settled_hits.pipe()`.

    Args:
        source: The snapshots of one fusion: a stream of them, or an open `Fusion`.

    Raises:
        ValueError: While iterating: `source` yields snapshots of several fusions, which have no common order.
        TypeError: While iterating: `source` yields something else.
    """
    given = 0
    last: Snapshot | None = None
    async with aiostream.streamcontext(source) as snapshots:
        async for snapshot in snapshots:
            if not isinstance(snapshot, Snapshot):
                raise TypeError(f"source must yield snapshots of a fusion, not {snapshot!r}")
            if last is not None and not _follows(snapshot, last, given):
                raise ValueError("source must yield the snapshots of one fusion, in their order")
            certain = len(snapshot.hits) if snapshot.final else snapshot.settled or 0
            for hit in snapshot.hits[given:certain]:
                yield hit  # noqa: ASYNC119 - no scope is open here, and aiostream closes what it reads
            given, last = certain, snapshot


def _follows(snapshot: Snapshot, last: Snapshot, given: int) -> bool:
    """Return whether a snapshot may be a later one of the same fusion, of which some hits have been given."""
    return not last.final and last.seq < snapshot.seq and last.ids[:given] == snapshot.ids[:given]
