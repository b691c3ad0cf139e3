"""The one list of options that all entrances share, and the options of an arm."""

from __future__ import annotations

import dataclasses
import inspect
from enum import Enum
from typing import TYPE_CHECKING, Any, get_type_hints

import anyio
import pytest
from engine_kit import on, read

from rrf_stream import Arm, Fusion, FusionOptions, Pipeline, fuse_arms, open_fusion
from rrf_stream._options import Settings, _prepared, prepare
from rrf_stream.errors import ArmError
from rrf_stream.testing import capture_events

if TYPE_CHECKING:
    pass

every_entrance = pytest.mark.parametrize(
    "entrance", ["open_fusion", "fuse_arms", "Pipeline", "open", "search"]
)


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
        "settle": None,
        "min_interval": 0.0,
        "bounds": "settled",
        "grace": 0.05,
    }


def test_every_entrance_takes_the_options_by_name() -> None:
    """None can be given by position."""
    for function in (open_fusion, fuse_arms, Pipeline.__init__, Pipeline.open, Pipeline.search):
        kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
        assert kinds[-1] is inspect.Parameter.VAR_KEYWORD
        assert inspect.Parameter.KEYWORD_ONLY not in kinds or function is Pipeline.__init__


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
    ("settle", 3, ValueError),
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
        "until": "settled",
        "settle": 2,
        "min_interval": 0.125,
        "bounds": "ranks",
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


@pytest.mark.anyio
@on("asyncio")
@every_entrance
async def test_options_that_do_not_go_together_are_refused(entrance: str) -> None:
    """Ending when settled needs bounds, and how many positions matter is said of that ending only."""
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("until", {"until": "settled", "bounds": "off"}),
        ("settle", {"settle": 1}),
        ("settle", {"until": "settled", "settle": 11}),
        ("settle", {"until": "settled", "settle": 0}),
    ]
    for name, options in wrong:
        with pytest.raises(ValueError, match=rf"^{name}\b"):
            await enter(entrance, **options)


# --- what is remembered -----------------------------------------------------------------------------------


class Name(str, Enum):  # noqa: UP042 - in a StrEnum, `str` would make plain text of a member
    """Arm names as members of an enumeration, equal to plain text."""

    TEXT = "text"


@pytest.fixture
def forgotten() -> None:
    """Options that were checked by other tests are forgotten."""
    _prepared.cache_clear()


@pytest.mark.anyio
@on("asyncio")
@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("form", ["sources", "arms", "pipeline"])
async def test_names_of_other_types_reach_no_other_fusion(form: str) -> None:
    """Names that are equal make fusions that look the same, but each tells its own."""
    for names in ([Name.TEXT, "text"], ["text", Name.TEXT]):
        _prepared.cache_clear()
        for name in names:
            if form == "sources":
                final = await fuse_arms({name: ["x"]})
            elif form == "arms":
                final = await fuse_arms([Arm(name, ["x"])])
            else:
                final = await Pipeline({name: lambda _: ["x"]}).search("q")
            told = [final.coverage.arms[0].name, *final.hits[0].ranks, *final.coverage.answered]
            assert [(type(one), one) for one in told] == [(str, "text")] * 3


@pytest.mark.anyio
@on("asyncio")
async def test_a_name_is_plain_text_wherever_it_is_told() -> None:
    """In statistics, errors, events and names of tasks, where a member would not look like its text."""
    tasks = []

    async def fails(_: Any) -> list[str]:
        tasks.append(anyio.get_current_task().name)
        raise OSError("down")

    pipeline = Pipeline([Arm(Name.TEXT, fails, required=True)])
    with capture_events() as events, pytest.raises(ArmError, match="required arm 'text' failed") as caught:
        await pipeline.search("q")
    ((key, stats),) = pipeline.stats().items()
    told = [caught.value.arm, key, stats.name, events[0]["arm"]]
    assert [(type(one), one) for one in told] == [(str, "text")] * 4
    assert tasks == ["rrf:text"]


@pytest.mark.anyio
@on("asyncio")
@pytest.mark.usefixtures("forgotten")
async def test_equal_options_of_other_types_are_checked_apart() -> None:
    """1, 1.0 and True are equal, but not all of them are a number of hits, or a constant."""
    arms = {"a": ["x"]}
    for wrong in (1.0, 1 + 0j):
        await fuse_arms(arms, top_k=1)
        with pytest.raises(TypeError, match="top_k must be"):
            await fuse_arms(arms, top_k=wrong)  # type: ignore[arg-type]  # that is the mistake
    await fuse_arms(arms, repeats="skip", quorum=1)
    for right in (1.0, 1, True):
        prepared, _ = prepare(arms, {"quorum": right, "rank_constant": right})
        assert (type(prepared.settings.quorum), type(prepared.settings.rank_constant)) == (type(right),) * 2


@pytest.mark.anyio
@on("asyncio")
@pytest.mark.usefixtures("forgotten")
async def test_a_deadline_is_remembered_by_nobody() -> None:
    """There are no two alike, and each would push out options that are used again."""
    await fuse_arms({"a": ["x"]}, timeout=1.5)
    before = _prepared.cache_info()
    for _ in range(3):
        await fuse_arms({"a": ["x"]}, timeout=1.5, deadline=anyio.current_time() + 9)
    assert _prepared.cache_info() == before
    await fuse_arms({"a": ["x"]}, timeout=1.5)
    assert _prepared.cache_info().hits == before.hits + 1


@pytest.mark.anyio
@on("asyncio")
@pytest.mark.usefixtures("forgotten")
async def test_what_is_wrong_is_wrong_again() -> None:
    """A refusal is not remembered as an acceptance, nor do sources go unchecked behind one."""
    for _ in range(2):
        with pytest.raises(ValueError, match="top_k must be"):
            await fuse_arms({"a": ["x"]}, top_k=0)
    await fuse_arms({"a": ["x"]})
    with pytest.raises(TypeError, match="source must be"):
        await fuse_arms({"a": "text"})
