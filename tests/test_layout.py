"""The shape of the package: who may import whom, what is public, and how big a module may get."""

from __future__ import annotations

import ast
import graphlib
import importlib
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import pytest

import rrf_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

DOOR = "rrf_stream"
ROOT = Path(rrf_stream.__file__).parent

#: The inside of the library, from the ground up. A module imports from its own layer or lower ones.
LAYERS = (
    ("errors", "_hit", "_kernels", "_scores", "_coverage", "_plain", "_fields", "_snapshot"),
    ("_checks", "_ranking", "_tally"),
    ("_scoreboard", "_arm_state", "_groups", "_outside", "_intervals", "_bounds"),
    ("_arm",),
    ("_plan",),
    ("_accumulator", "_batch", "_contracts"),
    ("_observers", "instrumentation"),
    ("_tasks", "_drain", "_log", "_thread_limit", "_threads", "_thread_stream", "_source", "_in_thread"),
    ("_options", "_breaker", "_hedging", "_health", "_pump", "_attempts", "_observed", "_run"),
    ("_leaving", "_fusion", "_pipeline"),
)
LAYER = {f"{DOOR}.{name}": number for number, names in enumerate(LAYERS) for name in names}

#: What decides and counts, so that it works on any event loop, or on none; and what it may not know.
PURE = {f"{DOOR}.{name}" for layer in LAYERS[:6] for name in layer}
IMPURE = {"anyio", "asyncio", "io", "logging", "os", "pathlib", "socket", "structlog", "threading", "time"}

#: What the inside may import beside the standard library and anyio, where, and whether in a function only.
CORE_LIBRARIES = {("structlog", f"{DOOR}._log", False), ("trio", f"{DOOR}._tasks", True)}

MOST_LINES = 300


@dataclass(frozen=True)
class Import:
    """What one import statement takes when the module runs."""

    module: str
    name: str | None
    """What is taken from the module; None for the module itself."""
    local: bool
    """Whether it is taken inside a function."""

    @property
    def library(self) -> str:
        """The package at the top."""
        return self.module.partition(".")[0]


@cache
def paths() -> dict[str, Path]:
    """Return the file of every module of the package, by dotted name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = PurePath(DOOR, path.relative_to(ROOT)).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    """Return the source of a module, parsed."""
    return ast.parse(paths()[module].read_text("utf-8"), module)


def imports_in(node: ast.AST, *, local: bool = False) -> Iterator[Import]:
    """Give the imports below a node, except those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(alias.name, None, local)
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    inner = f"{module}.{alias.name}"
                    yield (
                        Import(inner, None, local)
                        if inner in paths()
                        else Import(str(module), alias.name, local)
                    )
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=otherwise):
                yield from imports_in(ast.Module(otherwise, []), local=local)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from imports_in(child, local=True)
            case _:
                yield from imports_in(child, local=local)


@cache
def imports(module: str) -> tuple[Import, ...]:
    """Return what a module imports when it runs."""
    return tuple(imports_in(tree(module)))


def own(module: str) -> list[Import]:
    """Return what a module imports from the package."""
    return [one for one in imports(module) if one.library == DOOR]


def foreign(module: str) -> list[Import]:
    """Return what a module imports from neither the package nor the standard library."""
    return [one for one in imports(module) if one.library not in {DOOR, *sys.stdlib_module_names}]


def is_public(module: str) -> bool:
    """Return whether users may import a module: no part of its name is private."""
    return not any(part.startswith("_") for part in module.split("."))


def defines(module: str) -> list[str]:
    """Return the names that a module defines at its top."""
    names: list[str] = []
    for node in tree(module).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.append(node.name)
            case ast.Assign():
                names += [target.id for target in node.targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.append(name)
    return names


def re_exports(module: str) -> list[str]:
    """Return the names that a package takes from its own private modules, to offer them."""
    return [str(one.name) for one in own(module) if one.module.startswith(f"{module}._") and not one.local]


# --- who may import whom ----------------------------------------------------------------------------------


def test_every_inside_module_has_one_layer() -> None:
    """The layers hold the private modules at the top of the package, and two public ones, each once."""
    inside = {name for name in paths() if name.count(".") == 1 and not is_public(name)}
    public = {f"{DOOR}.errors", f"{DOOR}.instrumentation"}
    assert inside - {f"{DOOR}.__main__"} | public == LAYER.keys()
    assert len(LAYER) == sum(map(len, LAYERS))


def test_the_architecture_page_shows_these_layers() -> None:
    """The page has one row a layer, in this order."""
    page = (ROOT.parent / "docs" / "architecture.md").read_text("utf-8")
    rows = [
        re.findall(r"`(\w+)`", line.split("|")[1]) for line in page.splitlines() if line.startswith("| `")
    ]
    shown = [{*row} for row in rows if f"{DOOR}.{row[0]}" in LAYER]
    assert shown == [{*layer} for layer in LAYERS]


def test_nothing_inside_imports_from_above() -> None:
    """An inside module imports from its own layer or lower ones, never from the door or from outside."""
    above = len(LAYERS)
    wrong = [
        (name, one.module)
        for name, layer in LAYER.items()
        for one in own(name)
        if LAYER.get(one.module, above) > layer
    ]
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """The imports of all modules, those inside functions included, have no cycle."""
    graph = {name: {one.module for one in own(name)} for name in paths()}
    graphlib.TopologicalSorter(graph).prepare()


def test_the_core_knows_no_event_loop_clock_thread_or_file() -> None:
    """What decides and counts imports nothing that waits, and nothing that imports such things."""
    wrong = [
        (name, one.module)
        for name in PURE
        for one in imports(name)
        if one.library in IMPURE or (one.library == DOOR and one.module not in PURE)
    ]
    assert wrong == []


def test_the_inside_needs_anyio_and_structlog_only() -> None:
    """Only `_log` knows structlog, and trio is imported only where a trio loop runs already."""
    found = {(one.library, name, one.local) for name in LAYER for one in foreign(name)}
    assert {one for one in found if one[0] != "anyio"} == CORE_LIBRARIES


def test_each_optional_library_is_imported_by_one_module_of_a_package() -> None:
    """What an extra brings has one place to be replaced, and one to say that the extra is missing."""
    users: dict[tuple[str, str], set[str]] = {}
    for name in paths().keys() - LAYER.keys():
        package = ".".join(name.split(".")[:2])
        for one in foreign(name):
            if one.library not in {"anyio", "structlog"}:  # they are there for everybody
                users.setdefault((package, one.library), set()).add(name)
    assert {place: by for place, by in users.items() if len(by) > 1} == {}


def test_outside_modules_import_what_users_can() -> None:
    """Retrievers, the command and the like use public modules, beside those of their own package."""
    wrong = []
    for name in paths().keys() - LAYER.keys() - {DOOR}:
        package = ".".join(name.split(".")[:2])
        wrong += [
            (name, one.module)
            for one in own(name)
            if not is_public(one.module) and not one.module.startswith(f"{package}.")
        ]
    assert wrong == []


def test_outside_modules_take_only_what_is_offered() -> None:
    """A name that is taken from a public module is in its `__all__`."""
    wrong = [
        (name, one.module, one.name)
        for name in paths().keys() - LAYER.keys()
        for one in own(name)
        if one.name and one.name != "__version__" and is_public(one.module)
        if one.name not in importlib.import_module(one.module).__all__
    ]
    assert wrong == []


# --- what is public ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [name for name in paths() if is_public(name)])
def test_all_is_what_a_public_module_offers(module: str) -> None:
    """Every name in `__all__` exists, and every public name it defines or re-exports is in it."""
    loaded = importlib.import_module(module)
    has_names = [name for name in (*defines(module), *re_exports(module)) if not name.startswith("_")]
    offered = getattr(loaded, "__all__", None if has_names else [])
    assert offered is not None, "a public module has __all__"
    assert [name for name in offered if not hasattr(loaded, name)] == []
    assert [name for name in has_names if name not in offered] == []
    assert len(offered) == len(set(offered))


def test_the_door_only_re_exports() -> None:
    """`rrf_stream` itself has imports, `__all__` and `__version__`, and offers all that it imports."""
    assert defines(DOOR) == ["__all__", "__version__"]
    assert sorted(re_exports(DOOR)) == sorted(rrf_stream.__all__)


# --- every module -----------------------------------------------------------------------------------------


def test_modules_are_small() -> None:
    """A module that outgrows this holds two ideas."""
    lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in paths().items()}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_modules_say_what_they_are_for() -> None:
    """Every module opens with a docstring."""
    assert [name for name in paths() if not ast.get_docstring(tree(name))] == []


def test_imports_are_absolute_and_by_name() -> None:
    """No import is relative, and none takes `*`, so that the tests above see all of them."""
    nodes = [
        (name, node) for name in paths() for node in ast.walk(tree(name)) if isinstance(node, ast.ImportFrom)
    ]
    assert [(name, node.lineno) for name, node in nodes if node.level or node.names[0].name == "*"] == []
