"""Retrievers and options chosen once, and the one list of options that all entrances share."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

import anyio
import pytest
from engine_kit import on, read, rows, statuses, virtual_time

from rrf_stream import Arm, ArmStatus, Fusion, FusionOptions, Outcome, Page, Pipeline, fuse_arms, open_fusion
from rrf_stream._options import Settings
from rrf_stream.errors import ArmError
from rrf_stream.testing import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

every_entrance = pytest.mark.parametrize(
    "entrance", ["open_fusion", "fuse_arms", "Pipeline", "open", "search"]
)


async def letters(query: str) -> AsyncIterator[str]:
    for letter in query:
        yield letter


async def backwards(query: str) -> list[str]:
    return list(reversed(query))


def upper(query: str) -> Page[str]:
    return Page(query.upper())


async def enter(entrance: str, **options: Any) -> Any:
    """Hand options to one of the ways into the library."""
    arms = {"a": lambda _=None: ["x"]}
    match entrance:
        case "open_fusion":
            return open_fusion(arms, **options)
        case "fuse_arms":
            return await fuse_arms(arms, **options)
        case "Pipeline":
            return Pipeline(arms, **options)
        case "open":
            return Pipeline(arms).open("q", **options)
        case _:
            return await Pipeline(arms).search("q", **options)


# --- the pipeline -----------------------------------------------------------------------------------------


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


# --- options ----------------------------------------------------------------------------------------------


def test_options_are_declared_once() -> None:
    """`FusionOptions`, which callers see, and `Settings`, which check, have the same names and types."""
    settings = {field.name: field.default for field in dataclasses.fields(Settings)}
    assert set(FusionOptions.__annotations__) == set(settings)
    declared, held = get_type_hints(FusionOptions), get_type_hints(Settings)
    assert {name: declared[name] for name in settings} == {name: held[name] for name in settings}
    assert FusionOptions.__required_keys__ == frozenset()


def test_the_defaults_are_those_of_the_design() -> None:
    """What a fusion does when nothing is said."""
    assert dataclasses.asdict(Settings()) == {
        "top_k": 10,
        "rank_constant": 60,
        "kernel": None,
        "timeout": None,
        "deadline": None,
        "key": None,
        "representative": None,
        "repeats": "consume",
        "quorum": None,
        "patience": 0.0,
        "until": "complete",
        "min_interval": 0.0,
        "bounds": "off",
        "grace": 0.05,
    }


def test_every_entrance_takes_the_options_by_name() -> None:
    """None can be given by position."""
    for function in (open_fusion, fuse_arms, Pipeline.__init__, Pipeline.open, Pipeline.search):
        kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
        assert kinds[-1] is inspect.Parameter.VAR_KEYWORD
        assert inspect.Parameter.KEYWORD_ONLY not in kinds


@pytest.mark.anyio
@on("asyncio")
@every_entrance
async def test_an_unknown_option_is_refused(entrance: str) -> None:
    """A misspelt option is a TypeError that names it, at every entrance."""
    with pytest.raises(TypeError, match="time_out"):
        await enter(entrance, time_out=1)


WRONG: list[tuple[str, Any, type[Exception]]] = [
    ("top_k", 0, ValueError),
    ("top_k", 2.5, TypeError),
    ("top_k", None, TypeError),
    ("rank_constant", 0, ValueError),
    ("rank_constant", float("nan"), ValueError),
    ("rank_constant", "60", TypeError),
    ("kernel", 60, TypeError),
    ("timeout", -1, ValueError),
    ("timeout", float("nan"), ValueError),
    ("timeout", "1", TypeError),
    ("deadline", float("nan"), ValueError),
    ("deadline", "now", TypeError),
    ("key", "id", TypeError),
    ("representative", 0, TypeError),
    ("repeats", "drop", ValueError),
    ("quorum", 0, ValueError),
    ("quorum", 1.5, ValueError),
    ("quorum", "all", TypeError),
    ("patience", -0.1, ValueError),
    ("patience", None, TypeError),
    ("until", "bored", ValueError),
    ("min_interval", -1, ValueError),
    ("min_interval", None, TypeError),
    ("bounds", "on", ValueError),
    ("bounds", None, ValueError),
    ("grace", -1, ValueError),
    ("grace", None, TypeError),
]


@pytest.mark.anyio
@on("asyncio")
@every_entrance
async def test_a_wrong_option_is_refused_by_name(entrance: str) -> None:
    """Each entrance checks every option before anything starts, and the error names the option."""
    for name, value, error in WRONG:
        with pytest.raises(error, match=rf"^{name}\b"):
            await enter(entrance, **{name: value})


@pytest.mark.anyio
@on("asyncio")
@every_entrance
async def test_every_option_reaches_every_entrance(entrance: str) -> None:
    """What one entrance takes, all take: every option, with a value other than its default."""
    options: dict[str, Any] = {
        "top_k": 3,
        "rank_constant": 1,
        "timeout": 1.5,
        "deadline": anyio.current_time() + 9,
        "key": str,
        "representative": list,
        "repeats": "skip",
        "quorum": 0.5,
        "patience": 0.25,
        "until": "complete",
        "min_interval": 0.125,
        "bounds": "off",
        "grace": 0.5,
    }
    assert {*options, "kernel"} == set(FusionOptions.__annotations__)
    entered = await enter(entrance, **options)
    if isinstance(entered, Fusion):
        entered = (await read(entered))[-1]
    if isinstance(entered, Pipeline):
        entered = await entered.search("q")
    assert [(hit.id, hit.score, hit.item) for hit in entered.hits] == [("x", 1 / 2, ["x"])]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"weight": -1}, ValueError),
        ({"weight": float("nan")}, ValueError),
        ({"weight": float("inf")}, ValueError),
        ({"weight": "1"}, TypeError),
        ({"window": 0}, ValueError),
        ({"window": 1.5}, TypeError),
        ({"timeout": -1}, ValueError),
        ({"timeout": "1"}, TypeError),
        ({"idle_timeout": -1}, ValueError),
        ({"idle_timeout": float("nan")}, ValueError),
        ({"kernel": 60}, TypeError),
    ],
    ids=str,
)
def test_a_wrong_option_of_an_arm_is_refused_by_name(options: dict[str, Any], error: type[Exception]) -> None:
    """An arm checks its own options when it is made."""
    (name,) = options
    with pytest.raises(error, match=rf"^{name}\b"):
        Arm("a", ["x"], **options)


def test_arms_have_names_of_their_own() -> None:
    """Empty and repeated names are refused, and so is what is no arm."""
    with pytest.raises(ValueError, match="name"):
        Arm("", ["x"])
    with pytest.raises(TypeError, match="name"):
        Arm(5, ["x"])  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(ValueError, match="'a'"):
        open_fusion([Arm("a", ["x"]), Arm("a", ["y"])])
    for arms in ([("a", ["x"])], 5, "arms", [["x"], ["y"]]):
        with pytest.raises(TypeError, match="arms must be"):
            open_fusion(arms)  # type: ignore[arg-type]  # that is the mistake
