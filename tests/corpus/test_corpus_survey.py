"""What a folder holds for an index, and what is gone from it."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from rrf_stream.corpus import JSONLinesFile, MarkdownFile, Survey, TextFile, survey


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one of each."""
    for name in (
        "b.txt",
        "a.md",
        "data/records.jsonl",
        "data/UPPER.MD",
        "data/Makefile",
        ".hidden.txt",
        ".git/config",
        "data/picture.PNG",
        "z/deep/er/last.rst",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("words")
    return tmp_path


def names(found: Survey, folder: Path) -> list[str]:
    return [str(Path(origin.name).relative_to(folder)) for origin in found.origins]


def test_a_folder_gives_its_files_by_kind(folder: Path) -> None:
    found = survey([folder])
    assert {name: type(origin) for name, origin in zip(names(found, folder), found.origins, strict=True)} == {
        "a.md": MarkdownFile,
        "b.txt": TextFile,
        "data/Makefile": TextFile,
        "data/UPPER.MD": MarkdownFile,
        "data/records.jsonl": JSONLinesFile,
        "z/deep/er/last.rst": TextFile,
    }
    assert (found.ignored, found.problems) == (1, ())


def test_overlapping_paths_give_a_file_once(folder: Path) -> None:
    found = survey([folder / "data", folder / "b.txt", folder, folder / "data" / ".." / "b.txt"])
    assert sorted(names(found, folder)) == sorted(names(survey([folder]), folder))


def test_a_file_that_is_given_is_taken_whatever_its_name(folder: Path) -> None:
    given = [folder / ".hidden.txt", folder / "data" / "picture.PNG"]
    assert names(survey(given), folder) == [".hidden.txt", "data/picture.PNG"]


def test_links_in_a_folder_are_not_followed_and_loops_end(folder: Path) -> None:
    (folder / "data" / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "link.txt").symlink_to(folder / "b.txt")
    (folder / "nowhere.txt").symlink_to(folder / "missing")
    (folder / "self.txt").symlink_to(folder / "self.txt")
    found = survey([folder])
    assert not {"link.txt", "nowhere.txt", "self.txt"} & set(names(found, folder))
    assert found.problems == ()


def test_a_link_that_is_given_is_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "data", target_is_directory=True)
    assert names(survey([folder / "link"]), folder) == [
        "data/Makefile",
        "data/UPPER.MD",
        "data/records.jsonl",
    ]


def test_the_index_itself_is_left_out(folder: Path) -> None:
    assert "b.txt" not in names(survey([folder], leave_out=[folder / "data" / ".." / "b.txt"]), folder)


def test_paths_that_are_nothing_are_named(folder: Path) -> None:
    (folder / "self.txt").symlink_to(folder / "self.txt")
    os.mkfifo(folder / "pipe")
    found = survey([folder / "missing", folder / "self.txt", folder / "pipe"])
    assert [problem.where for problem in found.problems] == [
        str(folder / name) for name in ("missing", "self.txt", "pipe")
    ]
    assert found.problems[0].reason == "No such file or directory"
    assert found.problems[2].reason == "neither a file nor a folder"


def test_what_is_no_file_is_passed_over_in_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        found = survey([folder])
    assert found.ignored == 1 + 2
    assert found.problems == ()


def test_a_name_that_is_not_utf8_is_named(folder: Path) -> None:
    try:
        (folder / os.fsdecode(b"caf\xe9.txt")).write_text("words")
    except OSError:
        pytest.skip("needs a file system with names beyond UTF-8")
    (problem,) = survey([folder]).problems
    assert problem.reason == "its name is not UTF-8"


def test_files_that_are_gone_from_a_folder_have_vanished(folder: Path) -> None:
    known = [origin.name for origin in survey([folder]).origins]
    (folder / "b.txt").unlink()
    (folder / "data" / "Makefile").rename(folder / "data" / ".Makefile")
    elsewhere = [str(folder.parent / "other" / "x.txt"), f"{folder}-twin/x.txt", "python-docs:os"]
    assert survey([folder]).vanished([*known, *elsewhere]) == [
        str(folder / "b.txt"),
        str(folder / "data" / "Makefile"),
    ]
    assert survey([folder / "data"]).vanished(known) == [str(folder / "data" / "Makefile")]
    assert survey([folder / "a.md"]).vanished(known) == []


def test_files_of_a_path_that_is_gone_itself_have_vanished(folder: Path) -> None:
    known = [origin.name for origin in survey([folder]).origins]
    (folder / "b.txt").unlink()
    shutil.rmtree(folder / "data")
    in_data = [str(folder / "data" / name) for name in ("Makefile", "UPPER.MD", "records.jsonl")]
    given = [folder / "data", folder / "b.txt", folder / "never", folder / "a.md" / "never"]
    found = survey(given)
    vanished = found.vanished(known)
    assert sorted(vanished) == sorted([*in_data, str(folder / "b.txt")])
    assert [problem.where for problem in found.problems] == [str(path) for path in given]
    left = found.problems_but_for(vanished)
    assert [problem.where for problem in left] == [str(folder / "never"), str(folder / "a.md" / "never")]
    assert found.gone(vanished) == {str(folder / "data"): 3, str(folder / "b.txt"): 1}


def test_a_link_that_leads_nowhere_is_not_gone(folder: Path) -> None:
    """Behind it may be a disk that is not there today."""
    (folder / "link").symlink_to(folder / "data")
    known = [origin.name for origin in survey([folder / "link"]).origins]
    shutil.rmtree(folder / "data")
    found = survey([folder / "link"])
    assert found.vanished(known) == []
    assert [problem.where for problem in found.problems_but_for([])] == [str(folder / "link")]


def test_nothing_vanishes_from_a_folder_that_cannot_be_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [origin.name for origin in survey([folder]).origins]
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path == str(folder / "z"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    # Permissions are no obstacle to root, and root may run the tests.
    monkeypatch.setattr(os, "scandir", refuse)
    found = survey([folder])
    assert [(problem.where, problem.reason) for problem in found.problems] == [
        (str(folder / "z"), "Permission denied")
    ]
    assert found.vanished(known) == []
