"""The docstrings of the running Python's standard library, read from its source and never imported."""

from __future__ import annotations

import ast
import sys
import sysconfig
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rrf_stream.corpus._origin import Inspection, UnreadableError, digest_of
from rrf_stream.retrievers.sqlite import Document

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PYTHON_DOCS", "PythonModule", "python_docs"]

PYTHON_DOCS = "python-docs:"
"""What the names of all origins of `python_docs` begin with."""

# Programs and data that ship with Python, rather than modules to import; and tests, which document nothing.
_LEFT_OUT = frozenset(
    {"distutils", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "turtledemo", "test", "tests"}
)

_Defined = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class PythonModule:
    """The docstrings of one module: of itself, its classes, functions and methods.

    Ids and titles are qualified names. A module links to its classes and
    functions, a class to its methods, a package to its modules; what has no
    docstring is passed over, except the module. Names that begin with an
    underscore are left out, modules excepted: some hold the public ones.

    Attributes:
        path: The source file.
        qualified_name: As in an import statement.
        modules: The qualified names of the modules directly in it, if it is a package.
    """

    path: Path
    qualified_name: str
    modules: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The qualified name, after `PYTHON_DOCS`."""
        return PYTHON_DOCS + self.qualified_name

    def inspect(self) -> Inspection:
        """Return the digest of the source and of the list of modules; see `Origin.inspect`."""
        return Inspection(digest_of("python", self.path.read_bytes(), "\n".join(self.modules).encode()))

    def documents(self) -> list[Document]:
        """Return a document for each docstring, parents first; see `Origin.documents`."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(self.path.read_bytes())
        except (SyntaxError, ValueError) as error:
            raise UnreadableError(f"not the source of a module for this Python ({error})") from None
        documented: dict[str, _Docstring] = {}
        root = _Docstring("module", ast.get_docstring(tree) or "", [*self.modules])
        _collect(tree, self.qualified_name, root, documented)
        return [
            Document(
                id=name, title=name, text=found.text, links=tuple(found.links), metadata={"kind": found.kind}
            )
            for name, found in {self.qualified_name: root, **documented}.items()
        ]


@dataclass(frozen=True, slots=True)
class _Docstring:
    kind: str
    text: str
    links: list[str]


def _collect(scope: ast.AST, prefix: str, parent: _Docstring, documented: dict[str, _Docstring]) -> None:
    """Add what is defined in a scope, linked from the nearest parent that has a docstring."""
    for node in _definitions(scope):
        name = f"{prefix}.{node.name}"
        if node.name.startswith("_") or name in documented:
            continue
        nearest = parent
        if text := ast.get_docstring(node):
            parent.links.append(name)
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            nearest = documented[name] = _Docstring(kind, text, [])
        if isinstance(node, ast.ClassDef):
            _collect(node, name, nearest, documented)


def _definitions(scope: ast.AST) -> Iterator[_Defined]:
    """Yield the classes and functions of a scope, also those behind an `if` or a `try`."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, _Defined):
            yield node
        elif isinstance(node, ast.If | ast.Try | ast.ExceptHandler | ast.With):
            yield from _definitions(node)


def python_docs(folder: Path | None = None) -> list[PythonModule]:
    """Return the modules of the standard library, those of tests and of bundled programs left out.

    Args:
        folder: Where the source is; by default that of the running Python.

    Raises:
        UnreadableError: There is no source, as in some frozen and embedded builds.
    """
    folder = folder or Path(sysconfig.get_path("stdlib"))
    found: list[PythonModule] = []
    for name in sorted(sys.stdlib_module_names - _LEFT_OUT):
        found.extend(_modules(folder / name, name))
    if not found:
        raise UnreadableError(f"no source of the standard library in {folder}")
    return found


def _modules(path: Path, name: str) -> Iterator[PythonModule]:
    """Yield the module or the package at a path without suffix, and all in it."""
    package = path / "__init__.py"
    if not package.is_file():
        source = path.with_name(f"{path.name}.py")
        if source.is_file():
            yield PythonModule(source, name)
        return
    stems = {entry.stem for entry in path.iterdir()} - _LEFT_OUT - {"__init__", "__main__"}
    inside = [list(_modules(path / stem, f"{name}.{stem}")) for stem in sorted(stems)]
    yield PythonModule(package, name, tuple(modules[0].qualified_name for modules in inside if modules))
    for modules in inside:
        yield from modules
