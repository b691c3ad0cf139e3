"""The docstrings of the running Python's standard library, read from its source and never imported."""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
import warnings
from contextlib import suppress
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

# Public modules that some Pythons put private ones in the place of, while they run.
_STAND_INS = {"collections.abc": "_collections_abc", "decimal": "_pydecimal"}

# The head of an import of names; as good as a parse to tell which other sources a module depends on.
_IMPORT = re.compile(rb"^[ \t]*from[ \t]+([.\w]+)[ \t]+import\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PythonModule:
    """The docstrings of one module: of itself, its classes, functions and methods.

    Ids and titles are qualified names. A module links to its classes and
    functions, a class to its methods, a package to its modules; what has no
    docstring is passed over, except the module. Names that begin with an
    underscore are left out. What a module imports by name, or by `*`, from a
    private module counts as its own, if its `__all__` does not say otherwise,
    for `datetime` has everything from `_pydatetime`, and `concurrent.futures` its
    classes from a module `_base`.

    Attributes:
        path: The source file.
        qualified_name: As in an import statement.
        modules: The qualified names of the modules directly in it, if it is a package.
        library: The folder in which private modules are found; None for nowhere.
    """

    path: Path
    qualified_name: str
    modules: tuple[str, ...] = ()
    library: Path | None = None

    @property
    def name(self) -> str:
        """The qualified name, after `PYTHON_DOCS`."""
        return PYTHON_DOCS + self.qualified_name

    def inspect(self) -> Inspection:
        """Return the digest of the sources and of the list of modules; see `Origin.inspect`."""
        source = self.path.read_bytes()
        found = {self._private_source(name.decode()) for name in _IMPORT.findall(source)} - {None}
        taken = (path.read_bytes() for path in sorted(path for path in found if path is not None))
        return Inspection(digest_of("python", source, "\n".join(self.modules).encode(), *taken))

    def documents(self) -> list[Document]:
        """Return a document for each docstring, parents first; see `Origin.documents`."""
        tree = _parsed(self.path)
        documented: dict[str, _Docstring] = {}
        root = _Docstring("module", ast.get_docstring(tree) or "", [*self.modules])
        _collect(tree, self.qualified_name, root, documented)
        for source, names in self._taken(tree):
            _collect(source, self.qualified_name, root, documented, only=names)
        return [
            Document(
                id=name, title=name, text=found.text, links=tuple(found.links), metadata={"kind": found.kind}
            )
            for name, found in {self.qualified_name: root, **documented}.items()
        ]

    def _taken(self, tree: ast.Module) -> Iterator[tuple[ast.Module, frozenset[str] | None]]:
        """Yield each private module that is imported from, and the names that are meant; None for all."""
        public = _exported(tree)
        for node in _statements(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            path = self._private_source("." * node.level + (node.module or ""))
            if path is not None:
                source = _parsed(path)
                names: frozenset[str] | None = frozenset(
                    alias.name for alias in node.names if alias.asname in {None, alias.name}
                )
                if "*" in (names or ()):
                    names = _exported(source)
                yield source, names if public is None else public if names is None else names & public

    def _private_source(self, module: str) -> Path | None:
        """Return the source of a module, named as after `from`, if it is private and has one."""
        name = module.lstrip(".")
        parts = name.split(".") if name else []
        if level := len(module) - len(name):
            package = self.qualified_name.split(".")
            up = level - (self.path.name == "__init__.py")
            parts = package[: len(package) - up] + parts
        if self.library is None or not any(map(_is_private, parts)):
            return None
        path = self.library.joinpath(*parts)
        candidates = (path / "__init__.py", path.with_name(f"{path.name}.py"))
        return next(filter(Path.is_file, candidates), None)


@dataclass(frozen=True, slots=True)
class _Docstring:
    kind: str
    text: str
    links: list[str]


def _parsed(path: Path) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise UnreadableError(f"not the source of a module for this Python ({error})") from None


def _collect(
    scope: ast.AST,
    prefix: str,
    parent: _Docstring,
    documented: dict[str, _Docstring],
    only: frozenset[str] | None = None,
) -> None:
    """Add what is defined in a scope, linked from the nearest parent that has a docstring.

    Args:
        scope: A module or a class.
        prefix: The qualified name of the scope.
        parent: What links to the definitions.
        documented: By qualified name; what is there already stays.
        only: The names to add; None for all.
    """
    for node in _statements(scope):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        name = f"{prefix}.{node.name}"
        if node.name.startswith("_") or name in documented or (only is not None and node.name not in only):
            continue
        nearest = parent
        if text := ast.get_docstring(node):
            parent.links.append(name)
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            nearest = documented[name] = _Docstring(kind, text, [])
        if isinstance(node, ast.ClassDef):
            _collect(node, name, nearest, documented)


def _statements(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a scope, also those behind an `if` or a `try`."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.If | ast.Try | ast.ExceptHandler | ast.With):
            yield from _statements(node)
        else:
            yield node


def _exported(tree: ast.Module) -> frozenset[str] | None:
    """Return the names that a module lists in its `__all__`, as far as it does so literally; None for all."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            with suppress(ValueError):
                return frozenset(ast.literal_eval(node.value))
    return None


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def python_docs(folder: Path | None = None) -> list[PythonModule]:
    """Return the public modules of the standard library, those of tests and of bundled programs left out.

    A module is private if a part of its name begins with one underscore. It is no origin of its own:
    either public modules have names from it, see `PythonModule`, or nobody is meant to use it.

    Args:
        folder: Where the source is; by default that of the running Python.

    Raises:
        UnreadableError: There is no source, as in some frozen and embedded builds.
    """
    folder = folder or Path(sysconfig.get_path("stdlib"))
    found: list[PythonModule] = []
    for name in sorted(sys.stdlib_module_names - _LEFT_OUT):
        if not _is_private(name):
            found.extend(_modules(folder / name, name, folder))
    if not found:
        raise UnreadableError(f"no source of the standard library in {folder}")
    return found


def _modules(path: Path, name: str, library: Path) -> Iterator[PythonModule]:
    """Yield the module or the package at a path without suffix, and all in it."""
    stand_in = library / f"{_STAND_INS.get(name)}.py"
    if stand_in.is_file():
        yield PythonModule(stand_in, name, library=library)
        return
    package = path / "__init__.py"
    if not package.is_file():
        source = path.with_name(f"{path.name}.py")
        if source.is_file():
            yield PythonModule(source, name, library=library)
        return
    stems = {entry.stem for entry in path.iterdir()} - _LEFT_OUT - {"__init__", "__main__"}
    stems |= {module.removeprefix(f"{name}.") for module in _STAND_INS if module.startswith(f"{name}.")}
    inside = [
        list(_modules(path / stem, f"{name}.{stem}", library))
        for stem in sorted(stems)
        if not _is_private(stem)
    ]
    names = tuple(modules[0].qualified_name for modules in inside if modules)
    yield PythonModule(package, name, names, library)
    for modules in inside:
        yield from modules
