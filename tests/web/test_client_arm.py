"""A search server as an arm of another fusion: what it delivers and when, and how it fails."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest
from client_kit import DONE, Answers, Gated, nobody, serving, snapshots, told, wait_until

from rrf_stream import Arm, ArmStatus, FusionOptions, Hit, Outcome, Page, Pipeline, drain, fuse
from rrf_stream.errors import DegradedError, RemoteError
from rrf_stream.web import create_app
from rrf_stream.web.client import remote_arm

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rrf_stream import Snapshot

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks", "no_hang")]


async def lexical(query: str) -> AsyncIterator[Hit]:
    for word in query.split():
        yield Hit(word, score=1.0, item={"title": word.upper()})


async def backwards(query: str) -> list[Any]:
    return [*reversed(query.split())]


async def broken(query: str) -> AsyncIterator[str]:
    yield "kept"
    raise OSError(query)


BOTH = {"lexical": lexical, "backwards": backwards}
WORDS = "a b c d e f"


def status(snapshot: Snapshot, arm: str = "remote") -> ArmStatus:
    return snapshot.coverage[arm].status


# --- what is delivered, and when --------------------------------------------------------------------------


async def test_the_ranking_of_the_server_is_the_ranking_of_the_arm() -> None:
    """Alone in a pipeline, it gives the server's own order, with its scores, items and ids."""
    there = await Pipeline(BOTH).search(WORDS)
    with serving(create_app(Pipeline(BOTH))) as url:
        here = await Pipeline({"remote": remote_arm(url)}).search(WORDS)
        hits = [hit async for page in remote_arm(url)(WORDS) for hit in page]
    assert here.ids == there.ids
    assert [hit.item for hit in here.hits] == [{"title": id_.upper()} for id_ in there.ids]
    assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in there.hits]
    assert (here.outcome, here.coverage.full) == (Outcome.COMPLETE, True)


async def test_a_remote_arm_and_a_local_one_are_fused_as_their_rankings_are() -> None:
    """The fusion is `fuse` of the server's ranking and the local one, bit for bit."""
    local = ["f", "x", "a"]
    there = await Pipeline(BOTH).search(WORDS)
    with serving(create_app(Pipeline(BOTH))) as url:
        here = await Pipeline({"remote": remote_arm(url), "local": lambda _: local}).search(WORDS)
    batch = fuse({"remote": there.ids, "local": local}, top_k=10)
    assert [(hit.id, hit.score, dict(hit.ranks)) for hit in here.hits] == [
        (hit.id, hit.score, dict(hit.ranks)) for hit in batch
    ]


async def test_settled_hits_are_delivered_while_the_server_still_searches() -> None:
    """A position counts when nothing can change it any more over there; the rest waits for the end."""
    first, second = Gated(["a", "b", "c"]), Gated(["a", "c", "b"])
    app = create_app(
        Pipeline([Arm("first", first.retriever, window=3), Arm("second", second.retriever, window=3)])
    )
    with serving(app) as url:
        async with aclosing(remote_arm(url)("q")) as pages:
            first.open(1)
            second.open(1)
            assert [hit.id for hit in await anext(pages)] == ["a"]
            first.open()
            second.open()
            assert [[hit.id for hit in page] async for page in pages] == [["b", "c"]]


@pytest.mark.parametrize("options", [{"bounds": "off"}, {"bounds": "ranks"}])
async def test_every_hit_is_delivered_once_whatever_is_told_of_the_future(options: FusionOptions) -> None:
    """Without certificates all of it comes with the end, in one page."""
    with serving(create_app(Pipeline(BOTH, **options))) as url:
        pages = [page async for page in remote_arm(url, top_k=4)(WORDS)]
    assert [hit.id for page in pages for hit in page] == (await Pipeline(BOTH, top_k=4).search(WORDS)).ids
    assert all(isinstance(page, Page) for page in pages)
    if options["bounds"] == "off":
        assert len(pages) == 1


async def test_two_shards_are_fused() -> None:
    """Two servers, each with documents of its own: the fusion interleaves their rankings."""
    one, two = create_app(Pipeline({"only": lexical})), create_app(Pipeline({"only": backwards}))
    with serving(one) as url, serving(two) as other:
        shards = Pipeline({"one": remote_arm(url), "two": remote_arm(other)}, top_k=5)
        here = await shards.search(WORDS)
    words = WORDS.split()
    assert here.ids == [hit.id for hit in fuse([words, words[::-1]], top_k=5)]
    assert here.coverage.full


async def test_a_server_may_ask_a_server() -> None:
    """A pipeline of remote arms is served again; what comes out in the end is the same ranking."""
    with serving(create_app(Pipeline(BOTH))) as far:
        through = create_app(Pipeline({"far": remote_arm(far)}))
        with serving(through) as near:
            here = await Pipeline({"near": remote_arm(near)}).search(WORDS)
    assert here.ids == (await Pipeline(BOTH).search(WORDS)).ids
    assert here.hits[0].item == {"title": here.ids[0].upper()}
    assert here.coverage.full


async def test_one_client_serves_many_queries() -> None:
    """Queries side by side through one client, each with its own answer."""
    found: dict[str, list[Any]] = {}
    with serving(create_app(Pipeline(BOTH))) as url:
        async with httpx.AsyncClient(trust_env=False) as client, anyio.create_task_group() as group:
            pipeline = Pipeline({"remote": remote_arm(url, client=client)})

            async def search(query: str) -> None:
                found[query] = (await pipeline.search(query)).ids

            for query in ("a b", "c d", "e", ""):
                group.start_soon(search, query)
    assert found == {"a b": ["a", "b"], "c d": ["c", "d"], "e": ["e"], "": []}


# --- leaving ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0.3, None])
async def test_closing_the_arm_cancels_the_arms_of_the_server(limit: float | None) -> None:
    """At the timeout of the fusion, or when its reader leaves, the server stops what it does."""
    far = Gated(["a"])
    with serving(create_app(Pipeline({"far": far.retriever}))) as url:
        async with Pipeline({"remote": remote_arm(url), "local": lambda _: ["x"]}).open(
            "q", timeout=limit
        ) as fusion:
            if limit is None:
                await anext(fusion)
                await anyio.sleep(0.2)  # until the server has been asked
            else:
                final = await fusion.final()
                assert (final.ids, status(final)) == (["x"], ArmStatus.DEADLINE)
            closed = time.monotonic()
        wait_until(lambda: bool(far.left_at))
    assert far.left_at[0] - closed < 1, "a tenth of that, on a machine that is not busy"


async def test_hits_that_were_delivered_before_the_timeout_count() -> None:
    """What was settled over there when the arm is cut off is part of the answer."""
    first = Gated(["a", "b"])
    first.open(1)
    with serving(create_app(Pipeline({"first": first.retriever}))) as url:
        final = await Pipeline({"remote": remote_arm(url)}).search("q", timeout=0.5)
        assert await drain() == []
    assert (final.ids, status(final)) == (["a"], ArmStatus.DEADLINE)


# --- answers that lack something, and none ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("retriever", "ids", "why"),
    [(broken, ["kept"], "failed"), (Gated(["never"]).retriever, [], "deadline")],
)
async def test_an_answer_that_lacks_something_does_not_look_complete(
    retriever: Callable[[str], Any], ids: list[str], why: str
) -> None:
    """An arm of the server failed or was cut off: its hits count, and the arm has failed, with the reason."""
    app = create_app(Pipeline({"bad": retriever, "lexical": lexical}, timeout=0.1))
    with serving(app) as url:
        final = await Pipeline({"remote": remote_arm(url)}).search("a b")
        accepting = await Pipeline({"remote": remote_arm(url, degraded="accept")}).search("a b")
    assert sorted(final.ids) == sorted(accepting.ids) == sorted([*ids, "a", "b"])
    assert (status(final), status(accepting)) == (ArmStatus.FAILED, ArmStatus.EXHAUSTED)
    error = final.coverage["remote"].error
    assert isinstance(error, DegradedError)
    assert error.coverage["bad"].status == why
    assert (final.coverage.degraded, accepting.coverage.degraded) == (True, False)


async def test_an_answer_that_ended_early_as_it_was_settled_lacks_nothing() -> None:
    """Arms that were stopped because nothing could change the top are no fault."""
    quick, slow = Gated(["a"]), Gated(["a", "b"])
    quick.open()
    slow.open(1)
    arms = [Arm("quick", quick.retriever), Arm("slow", slow.retriever)]
    with serving(create_app(Pipeline(arms, until="settled", top_k=1))) as url:
        final = await Pipeline({"remote": remote_arm(url, top_k=1)}).search("q")
    assert (final.ids, status(final)) == (["a"], ArmStatus.EXHAUSTED)


async def test_an_answer_that_did_not_wait_for_all_lacks_something() -> None:
    """Arms that were stopped by a quorum could have changed it."""
    slow = Gated(["b"])
    with serving(create_app(Pipeline({"lexical": lexical, "slow": slow.retriever}, quorum=0.5))) as url:
        final = await Pipeline({"remote": remote_arm(url)}).search("a")
    error = final.coverage["remote"].error
    assert (final.ids, status(final)) == (["a"], ArmStatus.FAILED)
    assert isinstance(error, DegradedError)
    assert error.coverage.reasons == (ArmStatus.STOPPED,)


async def test_an_arm_that_failed_before_the_rest_was_settled_is_a_fault() -> None:
    """Settled or not: what a failed arm would have said is missing."""
    slow = Gated(["a", "b"])
    slow.open(1)
    arms = [Arm("broken", broken, weight=0.01), Arm("slow", slow.retriever)]
    with serving(create_app(Pipeline(arms, until="settled", settle=1))) as url:
        final = await Pipeline({"remote": remote_arm(url)}).search("q")
    assert (final.ids[0], status(final)) == ("a", ArmStatus.FAILED)


async def test_a_server_whose_required_arm_failed_has_failed() -> None:
    """Its error is the reason, before that of the coverage, and whatever is accepted."""
    with serving(create_app(Pipeline([Arm("broken", broken, required=True)]))) as url:
        final = await Pipeline({"remote": remote_arm(url, degraded="accept")}).search("q")
    error = final.coverage["remote"].error
    assert (final.ids, status(final)) == (["kept"], ArmStatus.FAILED)
    assert isinstance(error, RemoteError)
    assert error.status == 502


async def test_a_server_that_is_not_there_fails_its_arm_only() -> None:
    """The others answer."""
    final = await Pipeline({"remote": remote_arm(nobody()), "local": lambda _: ["x"]}).search("q")
    assert (final.ids, status(final), status(final, "local")) == (
        ["x"],
        ArmStatus.FAILED,
        ArmStatus.EXHAUSTED,
    )
    assert isinstance(final.coverage["remote"].error, RemoteError)


async def test_a_stream_that_breaks_off_fails_its_arm_and_keeps_what_was_settled() -> None:
    """What was delivered counts; the end is missing, and told of."""
    with serving(Answers(told(*snapshots("a", "b", final=False)), then="break")) as url:
        final = await Pipeline({"remote": remote_arm(url)}).search("q")
    assert (final.ids, status(final)) == (["a", "b"], ArmStatus.FAILED)
    assert "broke off" in str(final.coverage["remote"].error)


async def test_a_server_that_takes_back_what_was_settled_is_refused() -> None:
    """Ranks that were delivered cannot change, so the arm fails rather than show another order."""
    one, other = snapshots("a", final=False), snapshots("b")
    with serving(Answers([*told(*one, *other), DONE])) as url:
        final = await Pipeline({"remote": remote_arm(url)}).search("q")
    assert (final.ids, status(final)) == (["a"], ArmStatus.FAILED)
    assert "took back hits" in str(final.coverage["remote"].error)


async def test_the_query_of_a_server_is_text() -> None:
    """A pipeline may be asked anything, a server only text: the arm says so."""
    final = await Pipeline({"remote": remote_arm("http://127.0.0.1:8000")}).search({"text": "q"})
    assert "must be text" in str(final.coverage["remote"].error)
