"""Retrievers and options, chosen once and used for every query."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from engine_kit import on, rows, statuses, virtual_time

from rrf_stream import Arm, ArmStatus, Outcome, Page, Pipeline, fuse_arms
from rrf_stream.errors import ArmError
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def letters(query: str) -> AsyncIterator[str]:
    for letter in query:
        yield letter


async def backwards(query: str) -> list[str]:
    return list(reversed(query))


def upper(query: str) -> Page[str]:
    return Page(query.upper())


@pytest.mark.anyio
async def test_retrievers_get_the_query_and_give_any_source() -> None:
    """A generator function, a coroutine function and a plain function are retrievers alike."""
    pipeline = Pipeline({"letters": letters, "backwards": backwards, "upper": upper})
    final = await pipeline.search("ab")
    assert final.ids == ["a", "b", "A", "B"]
    assert (await pipeline.search("")).ids == []
    (last,) = [snapshot async for snapshot in pipeline.open("b") if snapshot.final]
    assert last.ids == ["b", "B"]


@pytest.mark.anyio
async def test_a_pipeline_is_a_fusion_of_its_retrievers() -> None:
    """`search` gives what `fuse_arms` gives for the sources that the retrievers return."""
    arms = [Arm("letters", letters, weight=0.5, window=2), Arm("upper", upper)]
    final = await Pipeline(arms, top_k=3).search("abc")
    sources = [Arm("letters", letters("abc"), weight=0.5, window=2), Arm("upper", upper("abc"))]
    assert rows(final.hits) == rows((await fuse_arms(sources, top_k=3)).hits)
    assert statuses(final)["letters"] is ArmStatus.WINDOW_FULL


@pytest.mark.anyio
async def test_the_query_is_any_object() -> None:
    """It goes to the retrievers as it is: None, a dictionary, an object."""
    seen: list[Any] = []

    def retriever(query: Any) -> list[str]:
        seen.append(query)
        return []

    pipeline = Pipeline({"a": retriever, "b": retriever})
    for query in (None, {"text": "q"}, script):
        await pipeline.search(query)
    assert [id(query) for query in seen] == [
        id(query) for query in (None, None, seen[2], seen[3], script, script)
    ]
    assert seen[2] is seen[3] == {"text": "q"}


@pytest.mark.anyio
async def test_retrievers_are_called_when_the_fusion_starts() -> None:
    """Opening calls nothing; each start calls each retriever once."""
    calls: Counter[str] = Counter()

    def retriever(query: str) -> list[str]:
        calls[query] += 1
        return []

    pipeline = Pipeline({"a": retriever})
    fusion = pipeline.open("p")
    assert not calls
    await fusion.final()
    await fusion.aclose()
    await pipeline.search("q")
    assert calls == {"p": 1, "q": 1}


@pytest.mark.anyio
async def test_a_retriever_that_raises_fails_its_arm_only() -> None:
    """Called by its own arm, it cannot break the query of the others."""

    def broken(query: str) -> list[str]:
        raise OSError(query)

    final = await Pipeline({"broken": broken, "letters": letters}).search("a")
    assert statuses(final) == {"broken": ArmStatus.FAILED, "letters": ArmStatus.EXHAUSTED}
    with pytest.raises(ArmError):
        await Pipeline([Arm("broken", broken, required=True)]).search("a")


@pytest.mark.anyio
@virtual_time
async def test_options_of_a_query_override_the_defaults_for_that_query() -> None:
    """A query may shorten, lengthen or lift the timeout; the next one has the default again."""
    pipeline = Pipeline({"a": lambda _: script("x", 4.0, "y", 4.0)}, timeout=1, top_k=1)
    assert (await pipeline.search("q")).elapsed == 1
    assert (await pipeline.search("q", timeout=2)).elapsed == 2
    unhurried = await pipeline.search("q", timeout=None, top_k=5)
    assert (unhurried.elapsed, unhurried.ids) == (8, ["x", "y"])
    assert (await pipeline.open("q", timeout=0.5).final()).elapsed == 0.5
    again = await pipeline.search("q")
    assert (again.elapsed, again.ids, again.outcome) == (1, ["x"], Outcome.DEADLINE)


@pytest.mark.anyio
@virtual_time
async def test_queries_run_side_by_side() -> None:
    """Fifty queries through one pipeline take the time of one, and none sees another's results."""
    pipeline = Pipeline(
        {"slow": lambda query: script(1.0, query, 1.0, -query), "fast": lambda query: [query]}
    )
    found: dict[int, list[Any]] = {}

    async def search(query: int) -> None:
        found[query] = (await pipeline.search(query)).ids

    async with anyio.create_task_group() as group:
        for query in range(1, 51):
            group.start_soon(search, query)
    assert anyio.current_time() == 2
    assert found == {query: [query, -query] for query in range(1, 51)}


@pytest.mark.anyio
@on("asyncio")
async def test_a_pipeline_serves_several_event_loops() -> None:
    """It holds nothing of any loop or query: the same object works on the next one."""
    pipeline = Pipeline({"letters": letters})
    assert (await pipeline.search("a")).ids == ["a"]
    for backend in ("asyncio", "trio"):
        elsewhere = partial(anyio.run, pipeline.search, "b", backend=backend)
        final = await anyio.to_thread.run_sync(elsewhere)
        assert final.ids == ["b"]


def test_retrievers_must_be_callable() -> None:
    """A source is no retriever: it could be read only once."""
    source: Any
    for source in (["x"], script("x")):
        with pytest.raises(TypeError, match="retriever of arm 'a' must be a callable"):
            Pipeline({"a": source})


def test_a_pipeline_says_what_it_is_made_of() -> None:
    """Its repr names the arms."""
    assert repr(Pipeline({"dense": letters, "bm25": backwards})) == "<Pipeline of dense, bm25>"


def test_a_pipeline_of_nothing_is_refused_or_empty_as_a_fusion_is() -> None:
    """No retrievers is as good as no arms."""
    assert Pipeline({}).open("q")
    with pytest.raises(ValueError, match="'a'"):
        Pipeline([Arm("a", letters), Arm("a", letters)])
