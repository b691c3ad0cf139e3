"""The project around the code: what is declared, what is shipped, and what the first page promises."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from importlib.metadata import entry_points, packages_distributions, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_layout import foreign, paths, tree

import rrf_stream

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT: dict[str, Any] = PYPROJECT["project"]
NAME = PROJECT["name"]


@cache
def brought_by(extra: str | None) -> frozenset[str]:
    """Return the distributions that an extra brings, by way of other extras too; None for the core."""
    declared = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    brought: set[str] = set()
    for requirement in map(Requirement, declared):
        if canonicalize_name(requirement.name) == canonicalize_name(NAME):
            brought.update(*map(brought_by, requirement.extras))
        else:
            brought.add(canonicalize_name(requirement.name))
    return frozenset(brought)


def test_the_core_asks_for_anyio_and_structlog_only() -> None:
    """Whoever fuses own arms installs nothing else."""
    assert brought_by(None) == {"anyio", "structlog"}


def test_extras_bring_what_they_are_for() -> None:
    """The demo needs all but aiostream, which only the tests need beside the demo."""
    assert brought_by("demo") == brought_by("sqlite") | brought_by("cli") | brought_by("web")
    assert brought_by("dev") > brought_by("demo") | brought_by("aiostream")
    assert brought_by("aiostream") == {"aiostream"}
    assert "aiostream" not in brought_by("demo")  # it is GPL, the project is MIT


def test_every_library_that_is_imported_is_declared() -> None:
    """What the package imports from others, an extra brings, or the core."""
    known = packages_distributions()
    declared = brought_by(None).union(*map(brought_by, PROJECT["optional-dependencies"]))
    imported = {one.library for name in paths() for one in foreign(name)}
    lost = {
        library for library in imported if declared.isdisjoint(map(canonicalize_name, known.get(library, ())))
    }
    assert lost == set()


def test_a_missing_library_is_blamed_on_the_extra_that_brings_it() -> None:
    """Each `MissingExtraError` that the package raises names a library and an extra with it."""
    blamed = {
        (ast.literal_eval(call.args[0]), ast.literal_eval(call.keywords[0].value))
        for name in paths()
        for call in ast.walk(tree(name))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "MissingExtraError"
    }
    assert {
        (library, extra) for library, extra in blamed if canonicalize_name(library) not in brought_by(extra)
    } == set()
    assert {library for library, _ in blamed} >= {
        "apsw",
        "sqlite-vec",
        "wordllama",
        "typer",
        "rich",
        "markdown-it-py",
        "starlette",
        "sse-starlette",
        "uvicorn",
        "prometheus-client",
        "httpx",
        "httpx-sse",
        "aiostream",
        "mcp",
        "pydantic",
        "langchain-core",
        "llama-index-core",
        "haystack-ai",
        "opentelemetry-api",
    }


def test_the_version_is_one() -> None:
    """The package, its metadata and the changelog agree on a version of three numbers."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", rrf_stream.__version__)
    assert version(NAME) == rrf_stream.__version__
    assert PROJECT["dynamic"] == ["version"]
    headings = re.findall(r"^## \[?([\w.]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert {"Unreleased", rrf_stream.__version__} & {*headings[:2]}


def test_the_package_is_typed_and_licensed() -> None:
    """Type checkers read the annotations, and the licence is the one declared."""
    assert (files(rrf_stream) / "py.typed").is_file()
    assert PROJECT["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text("utf-8").startswith("MIT License")


def test_the_wheel_is_the_package_and_the_sdist_has_all_that_the_tests_need() -> None:
    """The build takes the package whole; what the tests read is in the source distribution."""
    targets = PYPROJECT["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"] == {"packages": ["rrf_stream"]}
    assert {"/rrf_stream", "/tests", "/examples", "/docs", "/README.md"} <= {*targets["sdist"]["include"]}


def test_pythons_are_declared_from_the_oldest_on() -> None:
    """3.11 is the oldest, and what type checkers and the linter are told."""
    assert PROJECT["requires-python"] == ">=3.11"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == "3.11"
    assert PYPROJECT["tool"]["ruff"]["target-version"] == "py311"
    declared = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert declared == ["3.11", "3.12", "3.13"]


def test_the_command_is_installed() -> None:
    """`rrf-stream` is the function that `python -m rrf_stream` calls."""
    (command,) = [script for script in entry_points(group="console_scripts") if script.name == "rrf-stream"]
    assert command.value == "rrf_stream.cli:main"
    assert callable(command.load())


def test_the_first_page_gives_two_commands() -> None:
    """The README tells how to try it and how to test it, word for word."""
    commands = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert 'pip install -e ".[demo]" && rrf-stream demo' in commands
    assert 'pip install -e ".[dev]" && pytest' in commands
