"""What an arm can read: every form of source gives the same ranking."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import received, statuses

from rrf_stream import Arm, ArmStatus, Hit, Page, Pipeline, fuse_arms, open_fusion, pages
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator


class Bare:
    """An asynchronous iterator that cannot be closed."""

    def __init__(self, *results: Any) -> None:
        self._results = iter(results)

    def __aiter__(self) -> Bare:
        return self

    async def __anext__(self) -> Any:
        for result in self._results:
            return result
        raise StopAsyncIteration


class Iterable:
    """An asynchronous iterable that is no iterator."""

    def __aiter__(self) -> AsyncIterator[str]:
        return generator()


class Awaited:
    """An awaitable that is no coroutine."""

    def __await__(self) -> Generator[Any, None, list[str]]:
        return listed().__await__()


class Called:
    """A callable that is no function."""

    def __call__(self) -> list[str]:
        return ["x", "y"]

    async def search(self) -> list[str]:
        return ["x", "y"]


async def generator() -> AsyncIterator[str]:
    yield "x"
    await anyio.lowlevel.checkpoint()
    yield "y"


async def listed() -> list[str]:
    await anyio.lowlevel.checkpoint()
    return ["x", "y"]


async def streamed() -> AsyncIterator[str]:
    await anyio.lowlevel.checkpoint()
    return generator()


def lazily() -> Iterator[str]:
    yield "x"
    yield "y"


SOURCES: dict[str, Callable[[], Any]] = {
    "asynchronous generator": generator,
    "asynchronous generator function": lambda: generator,
    "asynchronous iterator without aclose": lambda: Bare("x", "y"),
    "asynchronous iterable": Iterable,
    "script": lambda: script("x", "y"),
    "coroutine": listed,
    "coroutine function": lambda: listed,
    "coroutine of a stream": streamed,
    "awaitable object": Awaited,
    "callable that returns a list": lambda: partial(_echo, ["x", "y"]),
    "callable that returns a callable": lambda: lambda: lambda: listed,
    "callable that returns a coroutine of a callable": lambda: partial(_later, generator),
    "callable object": Called,
    "method": lambda: Called().search,
    "partial": lambda: partial(_echo, ["x", "y"]),
    "list": lambda: ["x", "y"],
    "tuple": lambda: ("x", "y"),
    "page": lambda: Page(["x", "y"]),
    "generator": lazily,
    "generator function": lambda: lazily,
    "iterator": partial(iter, ["x", "y"]),
    "view of a dictionary": {"x": 1, "y": 2}.keys,
    "map": lambda: map(str.lower, "XY"),
    "list with a page": lambda: ["x", Page(["y"])],
    "pages of a list": lambda: pages([["x"], ["y"]]),
    "pages of lists that a coroutine returns": lambda: pages(partial(_later, [["x", "y"], []])),
    "pages of a stream": lambda: pages(Bare(["x"], ("y",))),
}


async def _later(value: Any) -> Any:
    await anyio.lowlevel.checkpoint()
    return value


def _echo(value: Any) -> Any:
    return value


@pytest.mark.anyio
@pytest.mark.parametrize("form", SOURCES)
async def test_a_source_of_any_form_is_read_to_its_end(form: str) -> None:
    """Each form delivers its two results in order, and its arm is EXHAUSTED."""
    final = await fuse_arms({"a": SOURCES[form]()})
    assert final.ids == ["x", "y"]
    assert statuses(final) == {"a": ArmStatus.EXHAUSTED}
    assert received(final) == {"a": 2}


@pytest.mark.anyio
@pytest.mark.parametrize(
    "form", ["asynchronous generator", "coroutine", "callable that returns a list", "list"]
)
async def test_a_retriever_may_return_any_form(form: str) -> None:
    """A retriever of a pipeline returns a source of whatever form."""
    pipeline = Pipeline({"a": lambda _: SOURCES[form]()})
    assert (await pipeline.search("q")).ids == ["x", "y"]


@pytest.mark.anyio
async def test_pages_and_results_mix() -> None:
    """Only a `Page` is several results; ranks run on from what came before it."""
    final = await fuse_arms({"a": script("p", Page(["q", Hit("r", item="R")]), Page(), ("s", "t"), Hit("u"))})
    assert final.ids == ["p", "q", "r", ("s", "t"), "u"]
    assert [hit.ranks["a"] for hit in final.hits] == [1, 2, 3, 4, 5]
    assert final.hits[2].item == "R"


@pytest.mark.anyio
async def test_a_page_arrives_at_once() -> None:
    """No snapshot shows part of a page."""
    async with open_fusion({"a": script(Page(["x", "y", "z"]), hang=True)}) as fusion:
        assert (await anext(fusion)).ids == ["x", "y", "z"]


@pytest.mark.anyio
async def test_an_empty_arm_has_answered() -> None:
    """A source that ends without a result is EXHAUSTED: it was asked, and had nothing."""
    final = await fuse_arms({"none": [], "nothing": script(), "page": Page(), "one": ["x"]})
    assert set(statuses(final).values()) == {ArmStatus.EXHAUSTED}
    assert final.ids == ["x"]
    assert final.coverage.full


@pytest.mark.anyio
async def test_a_memory_object_stream_is_a_source_and_is_closed() -> None:
    """The receiving end of a stream is read to the sender's close, and closed with the arm."""
    send, receive = anyio.create_memory_object_stream[str](10)
    with send:
        send.send_nowait("x")
        send.send_nowait("y")
    final = await fuse_arms({"a": receive})
    assert final.ids == ["x", "y"]
    assert receive.statistics().open_receive_streams == 0


@pytest.mark.anyio
async def test_a_memory_object_stream_is_closed_with_the_window() -> None:
    """A full arm closes its end, so that the sender learns that nobody listens any more."""
    send, receive = anyio.create_memory_object_stream[str](10)
    async with send, open_fusion([Arm("a", receive, window=1)]) as fusion:
        send.send_nowait("x")
        assert (await fusion.final()).ids == ["x"]
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BrokenResourceError):
            await send.send("y")


@pytest.mark.anyio
async def test_a_fusion_is_a_source_of_snapshots() -> None:
    """A fusion can be read by an arm of another one, which closes it with itself."""
    slow = script("never", hang=True)
    inner = open_fusion({"i": script("x", "y"), "slow": slow})
    async with open_fusion([Arm("outer", inner, window=1)], key=lambda snapshot: snapshot.seq) as outer:
        assert (await outer.final()).hits[0].item.ids == ["x", "never", "y"]
    assert slow.closed


@pytest.mark.anyio
async def test_the_answer_of_one_fusion_is_a_source_of_another() -> None:
    """A compound arm returns what another fusion found."""

    async def compound() -> list[Any]:
        return (await fuse_arms({"i": ["x", "y"], "j": ["y"]})).ids

    final = await fuse_arms({"compound": compound, "plain": ["x"]})
    assert {hit.id: hit.ranks for hit in final.hits} == {
        "x": {"compound": 2, "plain": 1},
        "y": {"compound": 1},
    }


@pytest.mark.anyio
async def test_a_callable_is_called_when_the_fusion_starts() -> None:
    """Building a fusion calls nothing; starting it calls each callable once."""
    calls: list[str] = []

    def source() -> list[str]:
        calls.append("called")
        return ["x"]

    fusion = open_fusion({"a": source})
    assert not calls
    async with fusion:
        await fusion.final()
    assert calls == ["called"]


@pytest.mark.parametrize(
    "source",
    ["text", b"bytes", {"a": 1}, {"x"}, frozenset(), 5, None],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_order_or_is_no_source_is_refused(source: Any) -> None:
    """A text would be read by letters, a set has no ranks: both are refused before anything runs."""
    with pytest.raises(TypeError, match="source must be"):
        Arm("a", source)
    with pytest.raises(TypeError, match="source must be"):
        open_fusion({"a": source})
    with pytest.raises(TypeError, match="source must be"):
        pages(source)


@pytest.mark.anyio
@pytest.mark.parametrize("result", ["text", {"a": 1}, {"x"}, None, 5], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("way", ["call", "await"])
async def test_what_turns_out_to_be_no_source_fails_its_arm(result: Any, way: str) -> None:
    """A callable or awaitable that gives no source fails its own arm, with a TypeError that says so."""
    source: Callable[[], Any] | Awaitable[Any] = _later(result) if way == "await" else lambda: result
    final = await fuse_arms({"wrong": source, "right": ["x"]})
    assert statuses(final) == {"wrong": ArmStatus.FAILED, "right": ArmStatus.EXHAUSTED}
    error = final.coverage["wrong"].error
    assert isinstance(error, TypeError)
    assert "what the source returned must be" in str(error)


@pytest.mark.anyio
async def test_pages_of_what_is_no_page_fails_the_arm() -> None:
    """`pages` wants lists; a number is none."""
    final = await fuse_arms({"a": pages([["x"], 5])})
    assert final.ids == ["x"]
    assert isinstance(final.coverage["a"].error, TypeError)


def test_a_view_of_a_dictionary_has_an_order() -> None:
    """A view of keys is a set by its type, but it keeps the order of the dictionary."""
    assert Arm("a", SOURCES["view of a dictionary"]())
    assert Arm("a", {"x": 1}.values())
    with pytest.raises(TypeError, match="source must be"):
        Arm("a", {"x"})


@pytest.mark.anyio
async def test_pages_wants_lists_of_results() -> None:
    """A source of ids under `pages` is a mistake that fails the arm; ids are not split into letters."""
    final = await fuse_arms({"a": pages(["alpha", "beta"]), "b": pages([{"x", "y"}]), "c": ["z"]})
    assert final.ids == ["z"]
    errors = [report.error for report in final.coverage if report.status is ArmStatus.FAILED]
    assert len(errors) == 2
    assert all(isinstance(error, TypeError) and "pages" in str(error) for error in errors)


@pytest.mark.anyio
async def test_a_generator_that_raises_the_wrong_stop_has_failed() -> None:
    """`StopAsyncIteration` out of a plain generator is an error of it, not its end."""

    def wrong() -> Iterator[str]:
        yield "x"
        raise StopAsyncIteration

    final = await fuse_arms({"a": wrong()})
    assert (final.ids, final.coverage["a"].status) == (["x"], ArmStatus.FAILED)


@pytest.mark.anyio
async def test_an_arm_that_exits_has_failed() -> None:
    """`sys.exit` in an arm is a failure of that arm, on every event loop."""

    async def exits() -> AsyncIterator[str]:
        yield "x"
        raise SystemExit(3)

    final = await fuse_arms({"a": exits(), "b": ["y"]})
    assert final.coverage["a"].status is ArmStatus.FAILED
    assert sorted(final.ids) == ["x", "y"]
