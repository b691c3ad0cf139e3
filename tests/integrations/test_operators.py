"""`fuse` as a stream: what it takes, when it runs, and what happens when it is iterated again."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from typing import TYPE_CHECKING, Any, assert_type

import aiostream
import pytest
from aiostream import pipe, stream
from operators_kit import Scripts, items_of, nothing_left, on_asyncio

from rrf_stream import Arm, ArmStatus, FusedHit, Snapshot, fuse_arms, in_thread, open_fusion, pages
from rrf_stream.errors import ArmError, FusionClosedError
from rrf_stream.operators import fuse, settled_hits
from rrf_stream.testing import assert_no_leaks, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_hang", "untouched"), on_asyncio]


async def letters(text: str) -> AsyncIterator[str]:
    for letter in text:
        yield letter


async def as_list(text: str) -> list[str]:
    return [*text]


def is_final(snapshot: Any) -> bool:  # of any type: aiostream's annotations do not know of what
    return bool(snapshot.final)


# --- what it gives ----------------------------------------------------------------------------------------


async def test_awaiting_gives_the_final_snapshot() -> None:
    """`await` gives what `fuse_arms` of the same arms does."""
    async with nothing_left():
        final = await fuse(letters("abc"), letters("cd"), top_k=3)
    expected = await fuse_arms({"0": letters("abc"), "1": letters("cd")}, top_k=3)
    assert_type(final, Snapshot)
    assert final.final
    assert final.hits == expected.hits
    assert final.ids == ["c", "a", "b"]


async def test_iterating_gives_better_and_better_snapshots() -> None:
    """Every item is a snapshot, newer than the one before, and the last alone is final."""
    arms = Scripts()
    async with nothing_left():
        snapshots = await items_of(fuse(arms.arm("a", 0.003, "b"), arms.arm(0.001, "b", 0.004, "c")))
    assert [snapshot.final for snapshot in snapshots] == [False] * (len(snapshots) - 1) + [True]
    assert len(snapshots) >= 2
    assert snapshots[-1].ids == ["b", "a", "c"]
    assert arms.closed == [True, True]


async def test_it_pipes_slices_and_adds_like_any_stream() -> None:
    """Operators of aiostream take it, and it takes their items from the end, from the front and by slices."""
    xs = fuse(stream.range(3), top_k=2)
    assert_type(xs, aiostream.Stream[Snapshot])
    assert_type(xs | settled_hits.pipe(), aiostream.Stream[FusedHit])
    assert isinstance(xs, aiostream.Stream)
    assert (await (xs | pipe.map(lambda snapshot, *_: snapshot.ids))) == [0, 1]
    assert (await xs[-1]).final
    assert (await (xs | pipe.until(is_final))).ids == [0, 1]
    assert [snapshot.final for snapshot in await (xs[:1] | pipe.list())] == [False]
    both: Any = xs + stream.just("end")
    assert (await items_of(both))[-1] == "end"


async def test_a_stream_is_piped_into_it_as_the_first_arm() -> None:
    """`a | fuse.pipe(b)` is `fuse(a, b)`."""
    piped = stream.iterate("abc") | fuse.pipe(letters("cab"), top_k=2)
    assert (await piped).hits == (await fuse(letters("abc"), letters("cab"), top_k=2)).hits


async def test_raw_makes_other_operators() -> None:
    """An operator of one's own may be built on `fuse.raw`, as on that of any operator."""

    @aiostream.operator
    def best_id(*arms: Any) -> Any:
        snapshots: Any = fuse.raw(*arms)
        return stream.map.raw(snapshots, lambda snapshot, *_: snapshot.ids[:1])

    async with nothing_left():
        assert await best_id(stream.iterate("ab"), stream.iterate("b")) == ["b"]


# --- its arms ---------------------------------------------------------------------------------------------


async def test_arms_are_named_by_their_place_by_mappings_or_as_arms() -> None:
    """All three ways to give arms may be mixed; their order is that of the arguments."""
    final = await fuse(
        letters("a"), {"dense": letters("b"), "graph": as_list("c")}, Arm("last", ["d"], weight=2), ["e"]
    )
    assert [(report.name, report.weight) for report in final.coverage.arms] == [
        ("0", 1.0),
        ("dense", 1.0),
        ("graph", 1.0),
        ("last", 2.0),
        ("3", 1.0),
    ]
    assert final.ids == ["d", "a", "b", "c", "e"]


async def test_arms_from_a_generator_are_refused_as_results() -> None:
    """A generator is one source; an `Arm` that it yields is no hit, and its report says what was meant."""
    given = [Arm("a", letters("x")), Arm("b", letters("y"))]
    final = await fuse(arm for arm in given)
    report = final.coverage["0"]
    assert (final.hits, report.status) == ((), ArmStatus.FAILED)
    assert isinstance(report.error, TypeError)
    assert str(report.error).startswith("arms must be given one by one: fuse(*arms), not fuse(arms)")


async def test_a_generator_is_closed_when_its_arm_is() -> None:
    """Also where it has more to give; until then it runs in a thread that has its name."""
    told: list[str] = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            told.append(threading.current_thread().name)

    source = numbers()  # which is here, so that nothing but the arm closes it
    final = await fuse(source)
    assert final.coverage["0"].status is ArmStatus.WINDOW_FULL
    await assert_no_leaks(within=5)
    assert told == ["rrf:thread:numbers"]


async def test_no_arm_at_all_gives_one_empty_snapshot() -> None:
    """A fusion of nothing is complete at once."""
    (only,) = await items_of(fuse())
    assert (only.final, only.hits) == (True, ())


UNKNOWN: dict[str, Any] = {"top_n": 3}


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: fuse(["a"], top_k=0), ValueError, "top_k must be"),
        (lambda: fuse(["a"], **UNKNOWN), TypeError, "'top_n' is not an option"),
        (lambda: fuse("text"), TypeError, "for arm '0'"),
        (lambda: fuse(["a"], {"0": ["b"]}), ValueError, "arms"),
        (lambda: fuse([Arm("a", ["b"])]), TypeError, r"fuse\(\*arms\)"),
        (lambda: fuse.raw("text"), TypeError, "for arm '0'"),
        (lambda: stream.range(3) | fuse.pipe(top_k=0), ValueError, "top_k must be"),
    ],
)
async def test_wrong_arguments_raise_at_once(
    build: Callable[[], Any], error: type[Exception], words: str
) -> None:
    """What is wrong is said by the call, before anything is iterated."""
    with pytest.raises(error, match=words):
        build()


async def test_the_failure_of_a_required_arm_comes_after_the_final_snapshot() -> None:
    """A reader has the final snapshot when the error arrives; who awaits gets the error."""
    xs = fuse(stream.iterate("ab"), Arm("must", Scripts().arm(fail=OSError("down")), required=True))
    seen: list[Snapshot] = []
    async with nothing_left():
        with pytest.raises(ArmError):
            await (xs | pipe.action(seen.append))
    assert [snapshot.final for snapshot in seen][-1:] == [True]


# --- when it runs -----------------------------------------------------------------------------------------


async def test_nothing_runs_before_it_is_iterated() -> None:
    """Neither building a stream, nor piping it, nor asking for its context starts an arm."""
    arms = Scripts()
    piped = fuse(arms.arm("a")) | pipe.take(1)
    streamer = piped.stream()
    await asyncio.sleep(0.01)
    assert arms.all == []
    async with streamer:
        assert arms.all == []
        assert [snapshot.ids async for snapshot in streamer] == [["a"]]
    assert arms.closed == [True]


async def test_a_stream_that_is_never_iterated_leaves_no_warning() -> None:
    """Coroutines among its sources are closed with it; that they were never awaited is no news."""
    coroutine = as_list("ab")
    xs = fuse(coroutine, letters("c"))
    del xs
    gc.collect()
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


async def test_a_loop_without_a_context_is_left_by_dropping_it() -> None:
    """aiostream warns of such a loop, and the stream itself holds no arm: they stop with the loop."""
    arms = Scripts()
    xs = fuse(arms.ticking())

    async def read() -> None:
        async for snapshot in xs:
            if snapshot.hits:
                break

    with pytest.warns(UserWarning, match="outside of its context"):
        await read()
    await assert_no_leaks(within=5)
    assert arms.closed == [True]
    assert isinstance(xs, aiostream.Stream)  # and is alive


# --- iterated again ---------------------------------------------------------------------------------------


async def test_what_can_be_read_again_is() -> None:
    """Streams, callables and lists give their hits in each iteration, also in two at a time."""
    arms = Scripts()
    xs = fuse(stream.iterate("abc") | pipe.skip(1), arms.arm("c", 0.001, "d"), ["c"], lambda: letters("d"))
    first = await xs
    async with nothing_left():
        merged = await items_of(stream.merge(xs, xs))
    again = [snapshot for snapshot in merged if snapshot.final]
    assert [first.ids] * 2 == [snapshot.ids for snapshot in again]
    assert first.ids == ["c", "d", "b"]
    assert arms.closed == [True] * 3


ONCE: dict[str, Callable[[], Any]] = {
    "a generator": lambda: letters("ab"),
    "a coroutine": lambda: as_list("ab"),
    "an iterator": lambda: iter(["a", "b"]),
    "a script": lambda: script("a", "b"),
    "pages": lambda: pages([["a", "b"]]),
    "a generator in a thread": lambda: in_thread(letters("ab")),
    "a streamer": lambda: stream.iterate("ab").stream(),
}
"""Sources that can be read once."""


@pytest.mark.parametrize("name", ONCE)
async def test_what_can_not_be_read_again_is_refused(name: str) -> None:
    """The second iteration raises and names the arm, instead of finding its source empty."""
    xs = fuse({"good": ["b"], "once": ONCE[name]()})
    assert (await xs).ids == ["b", "a"]
    with pytest.raises(FusionClosedError, match="arm 'once' can be read once"):
        await xs
    with pytest.raises(FusionClosedError, match="a callable that returns a new source"):
        xs.stream()
    with pytest.raises(FusionClosedError):
        await (xs | pipe.take(1))
    await assert_no_leaks(within=5)


async def test_an_open_fusion_is_a_stream_for_the_operators_too() -> None:
    """What `open_fusion` and a pipeline give goes into operators as any asynchronous iterable does."""
    async with nothing_left():
        fusion: Any = open_fusion({"a": Scripts().ticking()})
        taken = await items_of(stream.take(fusion, 2))
    assert len(taken) == 2
