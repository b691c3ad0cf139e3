"""Run the Python snippets of a Markdown page: `python tests/run_page.py docs/tutorial.md`.

The blocks fenced as `python` run in order, in one namespace and on one asyncio event loop, with
`await` allowed outside of functions, as in `python -m asyncio`. What a block prints must be shown
in a block fenced as `text` right below it, and nothing else may be there. Other blocks are not run.

The event loop runs in virtual time, so that a page takes no time and shows the same figures on
every machine. A snippet that calls `asyncio.run` has the real clock.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

from rrf_stream.testing import VirtualEventLoop

if TYPE_CHECKING:
    from types import CodeType

#: Real seconds that a snippet may wait for a thread.
PATIENCE = 30


@dataclass(frozen=True)
class Snippet:
    """One block to run, and what the page says that it prints."""

    source: str
    line: int
    shown: str


def snippets(markdown: str) -> list[Snippet]:
    """Return the blocks of a page that are to be run, in order."""
    blocks = MarkdownIt("commonmark").parse(markdown)
    return [
        Snippet(
            block.content,
            block.map[0] + 1 if block.map else 0,
            below.content if below is not None and below.info == "text" else "",
        )
        for block, below in zip(blocks, [*blocks[1:], None], strict=False)
        if block.type == "fence" and block.info == "python"
    ]


def compiled(snippet: Snippet, filename: str) -> CodeType:
    """Return the code of a snippet, with the line numbers that it has in the page."""
    tree = ast.parse(snippet.source, filename)
    ast.increment_lineno(tree, snippet.line)
    code: CodeType = compile(tree, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


def run(page: Path) -> list[str]:
    """Run the snippets of a page; return where it shows other output than they gave."""
    wrong = []
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner(loop_factory=partial(VirtualEventLoop, stuck_after=PATIENCE)) as runner:
        for snippet in snippets(page.read_text("utf-8")):
            with redirect_stdout(io.StringIO()) as printed:
                result = eval(compiled(snippet, str(page)), namespace)  # noqa: S307 - our own pages
                if inspect.iscoroutine(result):
                    runner.run(result)
            if printed.getvalue().strip() != snippet.shown.strip():
                wrong.append(f"{page}:{snippet.line}: the snippet printed\n{printed.getvalue()}")
    return wrong


if __name__ == "__main__":
    sys.exit("\n".join(run(Path(sys.argv[1]))) or None)
