"""Which span is whose child: the parent of a fusion, and what is current in its arms, wherever they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import baggage, context, trace
from otel_kit import FUSION, Kept, id_of, instrumented

from rrf_stream import Arm, Hedging, Page, Pipeline, drain, fuse_arms, in_thread, open_fusion, pages
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_hang", "no_leaks")]


@pytest.fixture
def kept() -> Iterator[Kept]:
    """Every span of the test."""
    with instrumented() as kept:
        yield kept


def client(kept: Kept, name: str) -> list[str]:
    """Do what an instrumented client does: have a span of its own below the current one."""
    with kept.tracer.start_as_current_span(f"GET {name}"):
        return [name]


def sources(kept: Kept) -> dict[str, Callable[..., object]]:
    """Return sources of every form, which are retrievers as well, each of which calls a client, by name."""

    async def coroutine(*_: str) -> list[str]:
        await anyio.lowlevel.checkpoint()
        return client(kept, "coroutine")

    async def generator(*_: str) -> AsyncIterator[str]:
        yield "first"
        await anyio.sleep(0.001)
        for found in client(kept, "generator"):
            yield found

    async def paged(*_: str) -> AsyncIterator[list[str]]:
        yield client(kept, "paged")

    def blocking_generator(*_: str) -> Iterator[str]:
        yield "first"
        yield from client(kept, "blocking generator")

    async def blocking(*_: str) -> AsyncIterator[str]:
        await anyio.lowlevel.checkpoint()
        for found in client(kept, "own loop"):
            yield found

    return {
        "coroutine": coroutine,
        "generator": generator,
        "paged": lambda *_: pages(paged()),
        "function": lambda *_: client(kept, "function"),
        "blocking generator": blocking_generator,
        "own loop": in_thread(blocking),
        "in thread": in_thread(lambda *_: client(kept, "in thread")),
    }


def whole_tree(kept: Kept, parent: str | None) -> dict[str, str | None]:
    """Return the tree of one fusion of all forms of source below a span."""
    names = sources(kept)
    expected: dict[str, str | None] = {FUSION: parent}
    expected |= {f"retrieval {name}": FUSION for name in names}
    expected |= {f"GET {name}": f"retrieval {name}" for name in names}
    if parent is not None:
        expected[parent] = None
    return dict(sorted(expected.items()))


@pytest.mark.parametrize("way", ["fuse_arms", "open_fusion", "search", "open"])
async def test_what_an_arm_calls_is_below_the_arm_below_the_fusion_below_the_caller(
    way: str, kept: Kept
) -> None:
    """A source of any form, on the loop or in a thread, has its arm's span; the fusion has the caller's."""
    forms = sources(kept)
    with kept.tracer.start_as_current_span("request"):
        if way == "fuse_arms":
            final = await fuse_arms(forms)
        elif way == "open_fusion":
            async with open_fusion(forms) as fusion:
                final = [snapshot async for snapshot in fusion][-1]
        elif way == "search":
            final = await Pipeline(forms).search("q")
        else:
            async with Pipeline(forms).open("q") as fusion:
                final = await fusion.final()
    assert final.coverage.full
    assert kept.tree() == whole_tree(kept, "request")


async def test_a_fusion_without_a_parent_is_a_trace_of_its_own(kept: Kept) -> None:
    """Each query where no span is current begins a new trace, and all of its spans are in that."""
    for _ in range(2):
        await fuse_arms(sources(kept))
    traces: dict[int, set[str]] = {}
    for span in kept.spans:
        assert span.context is not None
        traces.setdefault(span.context.trace_id, set()).add(span.name)
    assert list(traces.values()) == [{*whole_tree(kept, None)}] * 2


@pytest.mark.parametrize("entered", [True, False])
async def test_the_parent_is_where_the_fusion_starts(entered: bool, kept: Kept) -> None:  # noqa: FBT001
    """Where it is entered, whoever reads it first; where it is first read, if it is not entered."""
    with kept.tracer.start_as_current_span("opens"):
        fusion = open_fusion({"a": lambda: client(kept, "a")})
    with kept.tracer.start_as_current_span("enters"):
        if entered:
            await fusion.__aenter__()
    with kept.tracer.start_as_current_span("reads"):
        await fusion.final()
    with kept.tracer.start_as_current_span("leaves"):
        await fusion.aclose()
    assert kept.tree() == {
        "GET a": "retrieval a",
        "enters": None,
        "leaves": None,
        "opens": None,
        "reads": None,
        "retrieval a": FUSION,
        FUSION: "enters" if entered else "reads",
    }


async def test_nothing_of_it_is_current_for_the_reader(kept: Kept) -> None:
    """Between snapshots and after leaving, the reader's own span is current."""
    with kept.tracer.start_as_current_span("request") as request:
        async with open_fusion({"a": script("x", 0.001, "y"), "b": lambda: client(kept, "b")}) as fusion:
            async for _ in fusion:
                assert trace.get_current_span() is request
        assert trace.get_current_span() is request
    assert kept.tree()[FUSION] == "request"


async def test_a_second_attempt_is_in_the_span_of_its_arm(kept: Kept) -> None:
    """Both attempts at a hedged arm have the one span of the arm, with an event for the second."""
    asked = 0

    async def slow(_: str) -> list[str]:
        nonlocal asked
        asked += 1
        name = f"attempt {asked}"
        with kept.tracer.start_as_current_span(name):
            await anyio.sleep(30 if asked == 1 else 0)
        return [name]

    async def chatty(_: str) -> AsyncIterator[str]:
        with kept.tracer.start_as_current_span("chatty"):
            for number in range(10):
                await anyio.sleep(0.001)
                yield f"{number}"  # noqa: ASYNC119 - so that it is current while the result is taken

    hedging = {"slow": Hedging(after=0.02)}
    pipeline = Pipeline({"slow": slow, "chatty": chatty}, hedging=hedging, until="settled", top_k=30)
    with kept.tracer.start_as_current_span("request"):
        final = await pipeline.search("q")
    await drain(5)
    assert "attempt 2" in final.ids
    assert kept.tree() == {
        "attempt 1": "retrieval slow",
        "attempt 2": "retrieval slow",
        "chatty": "retrieval chatty",
        "request": None,
        "retrieval chatty": FUSION,
        "retrieval slow": FUSION,
        FUSION: "request",
    }
    assert [event.name for event in kept.arm("slow").events] == ["rrf_stream.hedged"]


async def test_an_arm_that_outlives_the_fusion_keeps_its_context(kept: Kept) -> None:
    """What an arm does while it cleans up, long after its span has ended, is still below that."""

    async def cleans() -> AsyncIterator[str]:
        try:
            yield "x"
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)
            client(kept, "clean-up")

    with kept.tracer.start_as_current_span("request"):
        await fuse_arms({"cleans": cleans()}, timeout=0.005, grace=0.0)
    assert [span.name for span in kept.spans] == ["retrieval cleans", FUSION, "request"]
    assert await drain(5) == []
    assert kept.tree()["GET clean-up"] == "retrieval cleans"


async def test_baggage_of_the_caller_is_in_the_arms(kept: Kept) -> None:
    """The whole context of the caller is kept, not only its span: on the event loop and in a thread."""
    del kept

    async def tenant() -> Page[str]:
        await anyio.lowlevel.checkpoint()
        return Page([f"loop {baggage.get_baggage('tenant')}"])

    token = context.attach(baggage.set_baggage("tenant", "t1"))
    try:
        final = await fuse_arms(
            {"loop": tenant(), "thread": lambda: [f"thread {baggage.get_baggage('tenant')}"]}
        )
    finally:
        context.detach(token)
    assert sorted(final.ids) == ["loop t1", "thread t1"]


async def test_fusions_inside_an_arm_are_below_it(kept: Kept) -> None:
    """An arm that is a fusion itself, as of shards, is a subtree."""

    async def shards() -> list[str]:
        return (await fuse_arms({"shard": lambda: client(kept, "shard")})).ids

    await fuse_arms([Arm("all", shards)])
    spans = {span.name: span for span in kept.spans if span.name != FUSION}
    inner, outer = [span for span in kept.spans if span.name == FUSION]
    assert inner.parent is not None
    assert outer.parent is None
    assert inner.parent.span_id == id_of(spans["retrieval all"])
    assert spans["retrieval shard"].parent is not None
    assert spans["retrieval shard"].parent.span_id == id_of(inner)


async def test_many_at_once_are_kept_apart(kept: Kept) -> None:
    """Twenty queries at once, each below its own request, have their own arms and calls below them."""

    async def request(number: int) -> None:
        with kept.tracer.start_as_current_span(f"request {number}"):
            async with open_fusion(
                {f"a{number}": lambda: client(kept, f"a{number}"), f"b{number}": script("x", 0.001, "y")}
            ) as fusion:
                await fusion.final()

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(request, number)
    by_id = {id_of(span): span for span in kept.spans}
    for number in range(20):
        call = kept[f"GET a{number}"]
        names = []
        while call.parent is not None:
            call = by_id[call.parent.span_id]
            names.append(call.name)
        assert names == [f"retrieval a{number}", FUSION, f"request {number}"]
