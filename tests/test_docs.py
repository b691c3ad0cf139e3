"""The pages: every snippet prints what is shown, every link leads somewhere, nothing public is left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt
from run_page import run, snippets

import rrf_stream
from rrf_stream import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

ROOT = Path(__file__).parent.parent
RUNNER = ROOT / "tests" / "run_page.py"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages that show no Python to run.
WITHOUT_SNIPPETS = {"docs/architecture.md"}

every_page = pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])


def tokens(page: Path) -> Iterator[Token]:
    """Give all parts of a page, also those within a line."""
    for block in MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8")):
        yield block
        yield from block.children or ()


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page can be linked to by, as GitHub makes it of them."""
    headings = [text.content for opened, text in pairwise(tokens(page)) if opened.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --- snippets ---------------------------------------------------------------------------------------------


@every_page
def test_snippets_run_and_print_what_is_shown(page: str) -> None:
    """A page's snippets, run in a process of their own with warnings as errors, give the output shown."""
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-W", "error", RUNNER, page],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr


def test_the_pages_that_run_nothing_are_known() -> None:
    """A page without a snippet is listed here, so that no page loses its snippets unnoticed."""
    marks = {token.info for page in PAGES for token in tokens(page) if token.type == "fence"}
    assert {mark for mark in marks if mark.startswith("py")} <= {"python"}, "the only mark that is run"
    silent = {str(page.relative_to(ROOT)) for page in PAGES if not snippets(page.read_text("utf-8"))}
    assert silent == WITHOUT_SNIPPETS


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        ("```text\n[1, 2]\n```", 0),
        ("```text\n[1, 3]\n```", 1),
        ("and nothing shown", 1),
        ("```console\n[1, 2]\n```", 1),
        ("other words\n\n```text\n[1, 2]\n```", 1),
    ],
)
def test_output_is_compared(tmp_path: Path, shown: str, wrong: int) -> None:
    """What a snippet prints must be right below it; anything else is reported, with its place."""
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```python\nprint([1, 2])\n```\n\n{shown}\n", "utf-8")
    assert [report.splitlines()[0] for report in run(page)] == [f"{page}:3: the snippet printed"] * wrong


def test_a_snippet_that_raises_fails_at_its_line_of_the_page(tmp_path: Path) -> None:
    """The traceback of a failing snippet names the page, and the line in it."""
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nfine = 1\n\nassert fine == 2\n```\n", "utf-8")
    with pytest.raises(AssertionError) as caught:
        run(page)
    assert (str(caught.traceback[-1].path), caught.traceback[-1].lineno + 1) == (str(page), 6)


def test_snippets_share_names_and_an_event_loop_on_simulated_time(tmp_path: Path) -> None:
    """An hour of sleep takes no time, its hour is on the clock, and the next snippet goes on from there."""
    page = tmp_path / "page.md"
    page.write_text(
        dedent("""
        ```python
        import asyncio
        started = asyncio.create_task(asyncio.sleep(3600, "an hour"))
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(0)
        ```

        ```python
        print(await started, asyncio.get_running_loop().time() - before)
        ```

        ```text
        an hour 3600.0
        ```
        """),
        "utf-8",
    )
    assert run(page) == []


# --- links and names --------------------------------------------------------------------------------------


@every_page
def test_links_within_the_repository_lead_somewhere(page: str) -> None:
    """Every link that is not to the web is to a file that is there, and to a heading that it has."""
    here = ROOT / page
    links = [
        str(token.attrGet("href") or token.attrGet("src"))
        for token in tokens(here)
        if token.type in {"link_open", "image"}
    ]
    lost = []
    for link in links:
        path, _, anchor = link.partition("#")
        target = (here.parent / path).resolve() if path else here
        if re.match(r"(https?|mailto):", link):
            continue
        if (
            not target.is_relative_to(ROOT)
            or not target.exists()
            or (anchor and anchor not in anchors(target))
        ):
            lost.append(link)
    assert lost == []


def test_every_page_can_be_reached_from_the_index() -> None:
    """The index links to all pages beside it."""
    index = ROOT / "docs" / "index.md"
    linked = {
        str(token.attrGet("href")).partition("#")[0] for token in tokens(index) if token.type == "link_open"
    }
    assert {page.name for page in index.parent.glob("*.md")} - {index.name} <= linked


def test_the_pages_tell_of_everything_public() -> None:
    """Every name that `rrf_stream` and `rrf_stream.errors` offer is in some page, as code."""
    told = {
        word
        for page in PAGES
        for token in tokens(page)
        if token.type in {"code_inline", "fence"}
        for word in re.findall(r"\w+", token.content)
    }
    assert sorted({*rrf_stream.__all__, *errors.__all__} - told) == []
