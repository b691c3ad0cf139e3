"""Docstrings of the standard library, read from source."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rrf_stream.corpus import PYTHON_DOCS, PythonModule, UnreadableError, python_docs
from rrf_stream.retrievers.sqlite import Document

MODULE = '''"""About the module."""
import sys

def public(a, *, b=1):
    """A function.

    Indented.
    """
    def inner():
        """Out of reach."""

async def later():
    """A coroutine."""

def silent(): ...

def _private():
    """Nobody asks."""

class Outer:
    """A class."""

    def method(self):
        """A method."""

    def __enter__(self):
        """Everybody knows."""

    class Inner:
        def method(self):
            """Below a class without a docstring."""

class Silent:
    def method(self):
        """Its class says nothing."""

if sys.platform == "win32":
    def branch():
        """One way."""
else:
    def branch():
        """The other way."""
    try:
        class Tried:
            """In a try."""
    except ImportError:
        def rescue():
            """In an except."""
'''


def documents_of(tmp_path: Path, source: str, **fields: object) -> dict[str, Document]:
    path = tmp_path / "mod.py"
    path.write_text(source)
    return {d.id: d for d in PythonModule(path, "mod", **fields).documents()}  # type: ignore[arg-type] # test helper


def test_module_class_and_function_are_documents_linked_downwards(tmp_path: Path) -> None:
    found = documents_of(tmp_path, MODULE)
    assert {name: document.links for name, document in found.items()} == {
        "mod": (
            "mod.public",
            "mod.later",
            "mod.Outer",
            "mod.Silent.method",
            "mod.branch",
            "mod.Tried",
            "mod.rescue",
        ),
        "mod.public": (),
        "mod.later": (),
        "mod.Outer": ("mod.Outer.method", "mod.Outer.Inner.method"),
        "mod.Outer.method": (),
        "mod.Outer.Inner.method": (),
        "mod.Silent.method": (),
        "mod.branch": (),
        "mod.Tried": (),
        "mod.rescue": (),
    }
    assert found["mod.public"].text == "A function.\n\nIndented."
    assert found["mod.branch"].text == "One way."
    assert {name: found[name].metadata["kind"] for name in ("mod", "mod.Outer", "mod.later")} == {
        "mod": "module",
        "mod.Outer": "class",
        "mod.later": "function",
    }


def test_a_module_without_a_docstring_still_holds_its_parts_together(tmp_path: Path) -> None:
    found = documents_of(tmp_path, 'def f():\n    """F."""\n', modules=("mod.a", "mod.b"))
    assert found["mod"].text == ""
    assert found["mod"].links == ("mod.a", "mod.b", "mod.f")


def test_source_is_never_run_and_its_warnings_are_not_ours(tmp_path: Path) -> None:
    found = documents_of(tmp_path, '"""Bad escape \\d."""\nraise SystemExit("imported!")\n')
    assert found["mod"].text == "Bad escape \\d."


@pytest.mark.parametrize("source", ["def (:\n", "x = '\0'\n"])
def test_source_that_does_not_parse_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(UnreadableError, match="not the source of a module"):
        documents_of(tmp_path, source)


def test_packages_are_walked_without_tests_and_programs(tmp_path: Path) -> None:
    for name in (
        "json/__init__.py",
        "json/decoder.py",
        "json/tool/__init__.py",
        "json/tool/deep.py",
        "json/tests/__init__.py",
        "json/__main__.py",
        "json/data/readme.txt",
        "abc.py",
        "idlelib/__init__.py",
        "not_the_standard_library.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = {module.qualified_name: module.modules for module in python_docs(tmp_path)}
    assert found == {
        "abc": (),
        "json": ("json.decoder", "json.tool"),
        "json.decoder": (),
        "json.tool": ("json.tool.deep",),
        "json.tool.deep": (),
    }


def test_a_python_without_source_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="no source of the standard library in"):
        python_docs(tmp_path)


def test_the_running_python_has_about_five_thousand_documents() -> None:
    before = set(sys.modules)
    modules = python_docs()
    documents = [document for module in modules for document in module.documents()]
    assert set(sys.modules) == before, "reading imports nothing"
    assert 4_000 < len(documents) < 7_000
    by_id = {document.id: document for document in documents}
    assert len(by_id) == len(documents), "ids are unique over all modules"
    assert by_id["argparse.ArgumentParser"].metadata == {"kind": "class"}
    assert "argparse.ArgumentParser" in by_id["argparse"].links
    assert "argparse.ArgumentParser.parse_args" not in by_id, "it has no docstring"
    assert "json.JSONDecoder" not in by_id, "it is defined in json.decoder"
    assert "json.decoder" in by_id["json"].links
    dangling = [link for document in documents for link in document.links if link not in by_id]
    assert dangling == []
    assert all(module.name == PYTHON_DOCS + module.qualified_name for module in modules)
