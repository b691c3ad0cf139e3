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


def test_what_a_public_module_takes_from_a_private_one_is_its_own(tmp_path: Path) -> None:
    """`datetime` is `from _pydatetime import *`, and `concurrent.futures` has its classes from `._base`."""
    docstring = 'def {0}():\n    """{0} of {1}."""\n'
    sources = {
        "os.py": "from _pydatetime import exp, ln\n__all__ = ['ln']\n",
        "datetime.py": "try:\n  from _datetime import *\nexcept ImportError:\n  from _pydatetime import *\n",
        "_pydatetime.py": "__all__ = ('exp', 'ln')\n"
        + "".join(docstring.format(name, "_pydatetime") for name in ("exp", "ln", "other", "_internal")),
        "_pydecimal.py": docstring.format("sqrt", "_pydecimal"),
        "collections/__init__.py": "import _collections_abc",
        "_collections_abc.py": docstring.format("hash", "_collections_abc"),
        "_strptime.py": docstring.format("parse", "_strptime"),
        "weakref.py": "import _strptime\nfrom _weakrefset import WeakSet, _IterationGuard as Guard\n"
        + docstring.format("ref", "weakref"),
        "_weakrefset.py": 'class WeakSet:\n    """A set."""\n    def add(self):\n        """Add."""\n'
        + docstring.format("unused", "_weakrefset"),
        "concurrent/__init__.py": "",
        "concurrent/futures/__init__.py": "from ._base import wait\nfrom concurrent.futures.x import Y\n",
        "concurrent/futures/_base.py": docstring.format("wait", "_base") + docstring.format("more", "_base"),
        "concurrent/futures/thread.py": "from . import _base\nfrom ._base import more as again, wait\n",
    }
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    modules = python_docs(tmp_path)
    texts = {document.id: document.text for module in modules for document in module.documents()}
    assert {name: text for name, text in texts.items() if text} == {
        "os.ln": "ln of _pydatetime.",
        "datetime.exp": "exp of _pydatetime.",
        "datetime.ln": "ln of _pydatetime.",
        "decimal.sqrt": "sqrt of _pydecimal.",
        "collections.abc.hash": "hash of _collections_abc.",
        "weakref.ref": "ref of weakref.",
        "weakref.WeakSet": "A set.",
        "weakref.WeakSet.add": "Add.",
        "concurrent.futures.wait": "wait of _base.",
        "concurrent.futures.thread.wait": "wait of _base.",
    }
    assert set(texts) - {name for name, text in texts.items() if text} == {
        "os",
        "decimal",
        "collections",
        "collections.abc",
        "datetime",
        "concurrent",
        "concurrent.futures",
        "concurrent.futures.thread",
        "weakref",
    }
    (datetime,) = (module for module in modules if module.qualified_name == "datetime")
    before = datetime.inspect()
    assert datetime.documents()[0].links == ("datetime.exp", "datetime.ln")
    (tmp_path / "_pydatetime.py").write_text(docstring.format("log", "_pydatetime"))
    assert datetime.inspect() != before
    assert [document.id for document in datetime.documents()] == ["datetime", "datetime.log"]


def test_a_python_without_source_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="no source of the standard library in"):
        python_docs(tmp_path)


def test_the_running_python_has_about_five_thousand_documents() -> None:
    before = set(sys.modules)
    modules = python_docs()
    documents = [document for module in modules for document in module.documents()]
    assert set(sys.modules) == before, "reading imports nothing"
    assert 4_500 < len(documents) < 6_500
    by_id = {document.id: document for document in documents}
    assert len(by_id) == len(documents), "ids are unique over all modules"
    assert by_id["argparse.ArgumentParser"].metadata == {"kind": "class"}
    assert "argparse.ArgumentParser" in by_id["argparse"].links
    assert "argparse.ArgumentParser.parse_args" not in by_id, "it has no docstring"
    assert "json.JSONDecoder" not in by_id, "it is defined in json.decoder"
    assert "json.decoder" in by_id["json"].links
    assert [name for name in by_id if name.startswith("_") or "._" in name] == ["__future__"], (
        "nothing is private"
    )
    for taken in ("decimal.Decimal.copy_negate", "collections.abc.Mapping.get", "datetime.date.weekday"):
        assert taken in by_id
    assert "concurrent.futures.Future.result" in by_id
    assert "os.MutableMapping" not in by_id, "os only uses it, and does not export it"
    dangling = [link for document in documents for link in document.links if link not in by_id]
    assert dangling == []
    assert all(module.name == PYTHON_DOCS + module.qualified_name for module in modules)
