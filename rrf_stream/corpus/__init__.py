"""Read folders, files and the standard library's docstrings into documents for the embedded index.

Every reader is an `Origin`: something with a digest, and the documents in it. A
digest that an index already holds says that the origin need not be read again::

    found = survey([Path("docs")])
    known = await index.origins()
    for name in found.vanished(known):
        await index.remove_origin(name)
    for origin in found.origins:
        digest = origin.inspect().digest
        if known.get(origin.name) != digest:
            await index.replace_origin(origin.name, digest, origin.documents())
"""

from rrf_stream.corpus._jsonl import JSONLinesFile
from rrf_stream.corpus._origin import Inspection, Origin, Problem, UnreadableError
from rrf_stream.corpus._pydocs import PYTHON_DOCS, PythonModule, python_docs
from rrf_stream.corpus._survey import Survey, survey
from rrf_stream.corpus._text import MAX_TEXT_BYTES, MarkdownFile, TextFile

__all__ = [
    "MAX_TEXT_BYTES",
    "PYTHON_DOCS",
    "Inspection",
    "JSONLinesFile",
    "MarkdownFile",
    "Origin",
    "Problem",
    "PythonModule",
    "Survey",
    "TextFile",
    "UnreadableError",
    "python_docs",
    "survey",
]
