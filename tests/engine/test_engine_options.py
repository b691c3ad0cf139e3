"""The one list of options that all entrances share, and the options of an arm."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any, get_type_hints

import anyio
import pytest
from engine_kit import on, read

from rrf_stream import Arm, Fusion, FusionOptions, Pipeline, fuse_arms, open_fusion
from rrf_stream._options import Settings

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
        "min_interval": 0.0,
        "bounds": "off",
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
