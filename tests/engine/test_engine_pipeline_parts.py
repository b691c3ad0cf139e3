"""Pipelines of some arms of another: the same retrievers and options, and one health for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from engine_kit import rows, statuses, virtual_time

from rrf_stream import Arm, ArmStatus, Breaker, FusionOptions, Hedging, Outcome, Pipeline
from rrf_stream.errors import ArmError
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def letters(query: str) -> AsyncIterator[str]:
    for letter in query:
        yield letter


async def backwards(query: str) -> list[str]:
    return list(reversed(query))


async def broken(query: str) -> list[str]:
    raise OSError(query)


def test_a_pipeline_shows_its_arms() -> None:
    """The arms are those that were given, in their order; a mapping's retrievers are their sources."""
    arms = (Arm("letters", letters, weight=0.5), Arm("backwards", backwards, required=True))
    assert Pipeline(arms).arms == arms
    assert [(arm.name, arm.source) for arm in Pipeline({"a": letters, "b": broken}).arms] == [
        ("a", letters),
        ("b", broken),
    ]


def test_defaults_are_all_options_and_the_callers_own() -> None:
    """Options that were given and those that were not are there, and changing them changes nothing."""
    pipeline = Pipeline({"a": letters}, top_k=3, timeout=0.5)
    defaults = pipeline.defaults
    assert [*defaults] == [*FusionOptions.__annotations__]
    assert (defaults["top_k"], defaults["timeout"], defaults["grace"]) == (3, 0.5, 0.05)
    defaults["top_k"] = 7
    assert pipeline.defaults["top_k"] == 3


@pytest.mark.anyio
async def test_arms_and_defaults_make_the_same_pipeline_again() -> None:
    """What a pipeline shows of itself is what it takes."""
    first = Pipeline([Arm("letters", letters, weight=0.5), Arm("b", backwards)], top_k=2, rank_constant=1)
    again = Pipeline(first.arms, **first.defaults)
    assert again.defaults == first.defaults
    assert rows((await again.search("abc")).hits) == rows((await first.search("abc")).hits)


@pytest.mark.anyio
async def test_only_some_arms_are_asked_in_the_declared_order() -> None:
    """The order of the names is nothing; ties are decided as by the whole pipeline."""
    pipeline = Pipeline({"letters": letters, "broken": broken, "backwards": backwards}, top_k=2)
    part = pipeline.only("backwards", "letters")
    final = await part.search("abc")
    assert [*statuses(final)] == ["letters", "backwards"]
    assert final.ids == ["a", "c"]
    assert part.defaults == pipeline.defaults
    assert repr(part) == "<Pipeline of letters, backwards>"
    assert [arm.name for arm in part.only("letters").arms] == ["letters"]


@pytest.mark.anyio
async def test_what_a_part_learns_the_whole_knows_and_the_other_way_round() -> None:
    """Statistics and breakers are shared: three failures in a part, and the whole does not ask."""
    pipeline = Pipeline({"broken": broken, "letters": letters}, breaker=Breaker(failures=3))
    part = pipeline.only("broken")
    for _ in range(3):
        assert (await part.search("q")).coverage["broken"].status is ArmStatus.FAILED
    final = await pipeline.search("q")
    assert statuses(final) == {"broken": ArmStatus.SKIPPED, "letters": ArmStatus.EXHAUSTED}
    assert {name: stats.queries for name, stats in pipeline.stats().items()} == {"broken": 4, "letters": 1}
    assert part.stats()["broken"].statuses == pipeline.stats()["broken"].statuses
    assert (await part.search("q")).coverage["broken"].status is ArmStatus.SKIPPED


@pytest.mark.anyio
@virtual_time
async def test_hedging_is_shared() -> None:
    """A second attempt in a part is one of the whole."""
    pipeline = Pipeline(
        {"other": letters, "slow": lambda query: script(1.0, query)}, hedging={"slow": Hedging(after=0.5)}
    )
    await pipeline.only("slow").search("q")
    assert pipeline.stats()["slow"].hedged == 1


@pytest.mark.anyio
@virtual_time
async def test_a_quorum_is_a_share_of_the_arms_that_are_asked() -> None:
    """Half of the weight of all is all of the weight of a part, and half of a part is less."""
    arms = [
        Arm("quick", lambda _: script(1.0, "x")),
        Arm("slow", lambda _: script(8.0, "y")),
        Arm("heavy", lambda _: script(20.0, "z"), weight=6),
    ]
    pipeline = Pipeline(arms, quorum=0.5)
    assert (await pipeline.search("q")).elapsed == 20
    part = await pipeline.only("quick", "slow").search("q")
    assert (part.elapsed, part.outcome) == (1, Outcome.QUORUM)
    assert part.hits[0].normalized == 0.5


@pytest.mark.anyio
async def test_a_required_arm_matters_where_it_is_asked() -> None:
    """Left out, it cannot fail the fusion."""
    pipeline = Pipeline([Arm("broken", broken, required=True), Arm("letters", letters)])
    with pytest.raises(ArmError):
        await pipeline.search("q")
    assert (await pipeline.only("letters").search("q")).outcome is Outcome.COMPLETE


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "at least one arm of the pipeline, a, b"),
        (("a", "c"), "arms of the pipeline, a, b, not 'c'"),
        (("a", "b", "a"), "each arm once, not twice: 'a'"),
        ((["a"],), r"not \['a'\]"),
    ],
)
def test_names_must_be_of_arms_each_once(names: tuple[Any, ...], message: str) -> None:
    """None, an unknown one or the same twice is refused, and the message says which."""
    with pytest.raises(ValueError, match=message):
        Pipeline({"a": letters, "b": backwards}).only(*names)
