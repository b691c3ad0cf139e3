"""What type checkers must make of the public signatures; checked, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, assert_type

from rrf_stream import (
    Accumulator,
    AnyScale,
    Arm,
    ArmReport,
    ArmStats,
    ArmStatus,
    Breaker,
    Coverage,
    Delta,
    FusedHit,
    Fusion,
    FusionOptions,
    Hedging,
    Hit,
    InverseSquareRank,
    Kernel,
    Latency,
    Outcome,
    Page,
    Pipeline,
    RankBiased,
    ReciprocalRank,
    RRFConfig,
    RRFFusion,
    Snapshot,
    TheoreticalMinMax,
    drain,
    explain_fusion,
    fuse,
    fuse_arms,
    in_thread,
    open_fusion,
    pages,
    reciprocal_rank_fusion,
    rrf_fuse,
    rrf_scores,
    set_thread_limit,
)
from rrf_stream.errors import RemoteError
from rrf_stream.web.client import remote_arm, stream_search


async def dense(query: str) -> list[str]:
    return [query]


async def lexical(query: str) -> AsyncIterator[str | Page[Hit]]:
    yield query
    yield Page([Hit(query, score=1.0, item={"title": query})])


async def streams() -> None:
    async with open_fusion(
        [Arm("dense", dense("q"), weight=0.5, timeout=0.2), Arm("lexical", lexical("q"), required=True)],
        top_k=10,
        timeout=0.3,
        repeats="skip",
        kernel=ReciprocalRank(10),
    ) as fusion:
        assert_type(fusion, Fusion)
        async for snapshot in fusion:
            assert_type(snapshot, Snapshot)
        assert_type(await fusion.final(), Snapshot)
        assert_type(fusion.rankings(), dict[str, list[Any]])
    assert_type(await fuse_arms({"dense": dense("q"), "lexical": lexical("q")}, quorum=0.5), Snapshot)
    assert_type(await drain(1.0), list[str])
    async for page in in_thread(lexical("q"), buffer=10):
        assert_type(page, Page[Any])
    await fuse_arms({"dense": in_thread(dense("q")), "lexical": in_thread(lexical)("q")})
    assert_type(await Pipeline({"lexical": in_thread(lexical)}).search("q"), Snapshot)
    assert_type(set_thread_limit(64), int)


async def pipelines() -> None:
    hybrid = Pipeline({"dense": dense, "lexical": lexical}, timeout=0.3)
    best = await hybrid.search("q", top_k=3)
    assert_type(best.hits, tuple[FusedHit, ...])
    assert_type(best.coverage, Coverage)
    assert_type(best.coverage["dense"], ArmReport)
    assert_type(best.coverage["dense"].status, ArmStatus)
    assert_type(best.outcome, Outcome | None)
    assert_type(best.hits[0].ranks, Mapping[str, int])
    assert_type(best.hits[0].score, float)
    assert_type(best.delta(None), Delta)
    assert_type(best.to_dict(), dict[str, Any])
    assert_type(best.coverage["dense"].retry_after, float | None)
    assert_type(Snapshot.from_dict(best.to_dict()), Snapshot)
    assert_type(hybrid.open("q"), Fusion)
    assert_type(hybrid.arms, tuple[Arm, ...])
    assert_type(hybrid.defaults, FusionOptions)
    assert_type(hybrid.only("dense", "lexical"), Pipeline)
    Pipeline(hybrid.arms, **hybrid.defaults)


async def remote() -> None:
    async for snapshot in stream_search("http://127.0.0.1:8000", "q", timeout=0.3, top_k=3, arms=["dense"]):
        assert_type(snapshot, Snapshot)
    far = remote_arm("http://127.0.0.1:8000", token="t", degraded="accept")  # noqa: S106
    async for page in far("q"):
        assert_type(page, Page[Hit])
    Pipeline({"dense": dense, "far": far})
    remote_arm("http://127.0.0.1:8000", degraded="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    error = RemoteError("refused", status=429, problem={"title": "Too Many Requests"}, retry_after=7)
    assert_type(error.status, int | None)
    assert_type(error.problem, dict[str, Any])
    assert_type(error.retry_after, float | None)


def healthy_pipelines() -> None:
    Pipeline({"dense": dense}, breaker=Breaker(), hedging=Hedging(), top_k=3)
    breaker = Breaker(5, 30.0, 0.1, clock=lambda: 0.0)
    hybrid = Pipeline(
        {"dense": dense}, breaker={"dense": breaker}, hedging={"dense": Hedging(0.9, after=0.2)}
    )
    assert_type(hybrid.stats(), dict[str, ArmStats])
    stats = hybrid.stats()["dense"]
    assert_type(stats.statuses, Mapping[ArmStatus, int])
    assert_type(stats.first_hit, Latency)
    assert_type(stats.first_hit.p95, float | None)
    assert_type(stats.breaker, Literal["closed", "open", "half_open"])
    assert_type(stats.to_dict(), dict[str, Any])


def batches() -> None:
    assert_type(fuse({"a": ["x"], "b": iter(["y"])}, weights={"a": 2}), list[FusedHit])
    assert_type(fuse([["x"], ["y"]], weights=[1, 0.5], ties="id"), list[FusedHit])
    accumulator = Accumulator({"a": 1})
    assert_type(accumulator.add("a", ["x", Hit("y")]), bool)
    accumulator.close("a", ArmStatus.EXHAUSTED)
    assert_type(accumulator.snapshot(), Snapshot)
    assert_type(rrf_scores([["x"]]), dict[Any, float])
    assert_type(rrf_fuse([["x"]]), list[tuple[Any, float, Any]])
    assert_type(explain_fusion([["x"]]), list[dict[str, Any]])
    assert_type(reciprocal_rank_fusion([["x"]]), list[list[Any]])
    assert_type(RRFFusion(RRFConfig(final_k=3)).fuse([("x", 1.0)], []), list[tuple[Any, float]])
    assert_type(pages([["x"]]), AsyncIterator[Page[Any]])


async def mistakes() -> None:
    await fuse_arms({"a": dense("q")}, top_n=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    fuse([["x"]], repeats="twice")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Pipeline({"a": dense}, breaker=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Arm("a", dense("q"), 0.5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def kernels() -> None:
    by_rank: list[Kernel] = [ReciprocalRank(1), RankBiased(0.8), RankBiased(), InverseSquareRank()]
    for kernel in [*by_rank, TheoreticalMinMax(-1), TheoreticalMinMax(floor=0.5), AnyScale(RankBiased())]:
        assert_type(fuse([["x"]], kernel=kernel), list[FusedHit])
    assert_type(fuse({"a": ["x"]}, kernel={"a": RankBiased(), "b": RankBiased(0.8)}), list[FusedHit])
    assert_type(AnyScale(InverseSquareRank()).kernel, Kernel)
    assert_type(AnyScale(InverseSquareRank()).unbounded, str | None)
    arms = [Arm("dense", dense("q"), kernel=TheoreticalMinMax(-1))]
    assert_type(await fuse_arms(arms, kernel=TheoreticalMinMax(0)), Snapshot)
