"""What moves on a terminal: the table that refines, and the progress bar.

The only module that imports rich. Text from outside gets here as `Text`, never
as markup, and without control characters.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rrf_stream import ArmStatus
from rrf_stream.cli import _words as words
from rrf_stream.errors import MissingExtraError

try:
    from rich import box
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise MissingExtraError("rich", extra="cli") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rrf_stream import ArmReport, Snapshot
    from rrf_stream.cli._screens import Show

__all__ = ["live_table", "progress_bar"]

# Columns of the terminal: what a table takes at most, and from where on it has room for more than titles.
_WIDEST = 120
_ROOM_FOR_PLACES = 70
_ROOM_FOR_SCORES = 60
_PICTURES_A_SECOND = 12
_MOVE_STYLES = {"▲": "green", "▼": "red"}
# What stands beside the rank of a hit that is certain.
_CERTAIN = "✓"


@contextmanager
def live_table() -> Iterator[Show]:
    """A table on standard output that refines with what it is shown; the last picture stays.

    The first picture is drawn at once. After that a thread draws the newest, some times a second:
    a picture takes longer than many an arm, and the event loop must not wait for it.
    """
    console = Console(highlight=False)
    picture = _Picture(console)
    with Live(
        console=console, get_renderable=picture.of_newest, refresh_per_second=_PICTURES_A_SECOND
    ) as live:

        def show(snapshot: Snapshot) -> None:
            is_first = picture.newest is None
            picture.newest = snapshot
            if is_first:
                live.refresh()

        yield show


@contextmanager
def progress_bar(total: int, what: str) -> Iterator[Callable[[], None]]:
    """A bar on standard error, gone when it is done; what it yields is called after each of `total` steps."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


class _Picture:
    """The picture of the newest snapshot, made once."""

    def __init__(self, console: Console) -> None:
        self.newest: Snapshot | None = None
        self._console = console
        self._moves = words.Moves()
        self._drawn: Snapshot | None = None
        self._picture = Group()

    def of_newest(self) -> Group:
        newest = self.newest
        if newest is not None and newest is not self._drawn:
            self._drawn = newest
            self._picture = _draw(newest, self._moves.see(newest), self._console.width)
        return self._picture


def _draw(snapshot: Snapshot, moved: dict[object, str], width: int) -> Group:
    reports = snapshot.coverage.arms
    places = [words.place_of(hit) for hit in snapshot.hits]
    with_place = any(places) and width >= _ROOM_FOR_PLACES
    with_score = width >= _ROOM_FOR_SCORES
    # Titles and places share what the numbers leave; text is cut, numbers never are.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True, width=min(width, _WIDEST))
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=len(_CERTAIN))
    table.add_column("moved", no_wrap=True)
    table.add_column("title", no_wrap=True, overflow="ellipsis", ratio=3)
    if with_place:
        table.add_column("where", no_wrap=True, overflow="ellipsis", ratio=2)
    if with_score:
        table.add_column("score", no_wrap=True)
    for report in reports:
        table.add_column(report.name, justify="right", no_wrap=True)
    certain = words.certain(snapshot)
    for hit, place in zip(snapshot.hits, places, strict=True):
        is_certain = hit.rank <= certain
        table.add_row(
            Text(str(hit.rank), style="bold green" if is_certain else "bold"),
            Text(_CERTAIN if is_certain else "", style="green"),
            Text(moved[hit.id], style=_MOVE_STYLES.get(moved[hit.id][:1], "cyan")),
            Text(words.title_of(hit)),
            *([Text(place, style="dim")] if with_place else []),
            *([Text(f"{hit.score:.4f}", style="dim")] if with_score else []),
            *(Text(str(hit.ranks.get(report.name, "·"))) for report in reports),
        )
    longest = max(len(report.name) for report in reports)
    return Group(table, *(_arm_line(report, longest) for report in reports), *_closing_lines(snapshot))


def _arm_line(report: ArmReport, width: int) -> Text:
    if report.status.is_open:
        style = "yellow" if report.status is ArmStatus.STREAMING else "dim"
    else:
        style = "green" if report.status.is_full else "red"
    return Text.assemble(f"  {report.name:<{width}}  ", (words.arm_state(report), style))


def _closing_lines(snapshot: Snapshot) -> Iterator[Text]:
    """Yield what the answer is worth; what is said of the certain hits begins with their mark."""
    if snapshot.final:
        style = "bold green" if words.is_as_wanted(snapshot) else "bold red"
        yield Text(words.ending(snapshot), style=style)
    promise = words.promise(snapshot)
    if promise or not snapshot.final:  # the line is there from the first picture on
        mark = (f"{_CERTAIN} ", "green") if words.certain(snapshot) else ""
        yield Text.assemble(mark, promise)
