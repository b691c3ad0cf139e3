"""Text, Markdown and JSON Lines: what becomes a document, and what is said of the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrf_stream.corpus import MAX_TEXT_BYTES, JSONLinesFile, MarkdownFile, TextFile, UnreadableError


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# -- text ------------------------------------------------------------------------------------------


def test_a_text_file_is_one_document_named_by_its_path(tmp_path: Path) -> None:
    (document,) = TextFile(write(tmp_path / "a.txt", "some words")).documents()
    assert (document.id, document.title, document.text) == (str(tmp_path / "a.txt"), "a.txt", "some words")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (document,) = TextFile(write(tmp_path / "a.txt", b"\xef\xbb\xbfwords")).documents()
    assert document.text == "words"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"caf\xe9 au lait", "not UTF-8 text (invalid continuation byte at offset 3)"),
        (b"PK\x03\x04\x00", "not a text file (a zero byte at offset 4)"),
        ("text in UTF-16".encode("utf-16"), "not a text file (a zero byte at offset 3)"),
        (b"x" * (MAX_TEXT_BYTES + 1), "larger than 2 MiB, the limit for one document"),
    ],
)
def test_what_is_no_text_is_refused_with_its_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    origin = TextFile(write(tmp_path / "a.txt", content))
    for read in (origin.inspect, origin.documents):
        with pytest.raises(UnreadableError) as caught:
            read()
        assert str(caught.value) == reason


def test_a_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    (document,) = TextFile(write(tmp_path / "a.txt", b"x" * MAX_TEXT_BYTES)).documents()
    assert len(document.text) == MAX_TEXT_BYTES


def test_a_digest_changes_with_the_content_and_with_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one")
    first = TextFile(path).inspect()
    path.touch()
    assert TextFile(path).inspect() == first
    write(path, "two")
    assert TextFile(path).inspect() != first


# -- Markdown --------------------------------------------------------------------------------------


def markdown(tmp_path: Path, source: str, name: str = "docs/page.md") -> tuple[str, str, list[str]]:
    (document,) = MarkdownFile(write(tmp_path / name, source), tmp_path).documents()
    return document.title, document.text, [str(Path(link).relative_to(tmp_path)) for link in document.links]


def test_the_first_heading_is_the_title_and_markup_is_no_text(tmp_path: Path) -> None:
    source = "intro\n\n# The *big* `title`\n\nSome **bold** words[^1].\n\n```py\nx = 1\n```\n\n## Next\n"
    title, text, links = markdown(tmp_path, source)
    assert title == "The big title"
    assert text == "intro\nThe big title\nSome bold words[^1].\nx = 1\nNext"
    assert links == []


@pytest.mark.parametrize(
    ("target", "links"),
    [
        ("other.md", ["docs/other.md"]),
        ("other.md#part", ["docs/other.md"]),
        ("other.md?raw=1", ["docs/other.md"]),
        ("../README.md", ["README.md"]),
        ("sub/./x/../deep.md", ["docs/sub/deep.md"]),
        ("/guide/start.md", ["guide/start.md"]),
        ("two%20words.md", ["docs/two words.md"]),
        ("<two words.md>", ["docs/two words.md"]),
        ("guide/", ["docs/guide/README.md", "docs/guide/index.md"]),
        ("notes.txt", ["docs/notes.txt"]),
        ("#part", []),
        ("page.md", []),
        ("", []),
        ("https://example.org/other.md", []),
        ("//example.org/other.md", []),
        ("mailto:me@example.org", []),
        ("zero%00byte.md", []),
        ("http://[broken", []),
    ],
)
def test_a_target_is_a_link_if_it_can_be_a_file(tmp_path: Path, target: str, links: list[str]) -> None:
    assert markdown(tmp_path, f"[words]({target})")[2] == links


def test_every_way_to_write_a_link_counts_once_in_order(tmp_path: Path) -> None:
    source = """
[a](a.md) and [again](a.md), ![picture](picture.png), [![badge](badge.png)](b.md), [ref],
<a href="d.md">html</a>

| table |
|-------|
| [e](e.md) |

<p><a href='f.md'>block</a></p>

`[code](no.md)`

[ref]: c.md
"""
    links = markdown(tmp_path, source)[2]
    assert links == [f"docs/{letter}.md" for letter in "abcdef"]


def test_front_matter_gives_a_title_and_is_no_text(tmp_path: Path) -> None:
    title, text, _ = markdown(tmp_path, '---\ntags: [x]\ntitle: "From above"\n---\n# Heading\n\nwords\n')
    assert (title, text) == ("From above", "Heading\nwords")


def test_a_rule_at_the_top_is_no_front_matter(tmp_path: Path) -> None:
    assert markdown(tmp_path, "---\n\n# Heading\n\nwords") == ("Heading", "Heading\nwords", [])


def test_html_gives_its_words_and_its_heading(tmp_path: Path) -> None:
    source = """
<h1 align=center>A <b>logo</b></h1>
<!-- no -->
<script>no()</script>

In <kbd>line</kbd> &amp; out
"""
    title, text, _ = markdown(tmp_path, source)
    assert title == "A logo"
    assert text == "A logo\nIn line & out"


def test_without_a_heading_the_file_name_is_the_title(tmp_path: Path) -> None:
    assert markdown(tmp_path, "words\r\nonly\r\n")[:2] == ("page.md", "words\nonly")


@given(source=st.text())
def test_every_text_is_a_markdown_page(source: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "hypothesis"
    origin = MarkdownFile(write(folder / "a.md", source.replace("\0", "")), folder)
    (document,) = origin.documents()
    assert document.title
    assert all(Path(link).is_absolute() for link in document.links)


# -- JSON Lines ------------------------------------------------------------------------------------


def test_each_line_is_a_document(tmp_path: Path) -> None:
    lines = [
        {"id": "a", "title": "A", "text": "first", "links": ["b", 7, "b"]},
        {"id": 7, "text": "second", "more": "is left out"},
        {"id": "c", "text": "", "title": None, "links": None},
    ]
    origin = JSONLinesFile(write(tmp_path / "x.jsonl", "\n\n".join(map(json.dumps, lines)) + "\n"))
    assert origin.inspect().problems == ()
    assert [(d.id, d.title, d.text, d.links) for d in origin.documents()] == [
        ("a", "A", "first", ("b", "7")),
        ("7", "", "second", ()),
        ("c", "", "", ()),
    ]


NO_ID = "must be a string that is not empty, or a whole number"
TOO_MUCH = "not JSON that can be read (nested too deeply, or too long a number)"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{oops}", "not JSON (Expecting property name enclosed in double quotes at column 2)"),
        (b"[1]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"text": "x"}', f"'id' {NO_ID}"),
        (b'{"id": "", "text": "x"}', f"'id' {NO_ID}"),
        (b'{"id": true, "text": "x"}', f"'id' {NO_ID}"),
        (b'{"id": 1.5, "text": "x"}', f"'id' {NO_ID}"),
        (b'{"id": "x"}', "'text' must be a string"),
        (b'{"id": "x", "text": 3}', "'text' must be a string"),
        (b'{"id": "x", "text": "", "title": 3}', "'title' must be a string"),
        (b'{"id": "x", "text": "", "links": "y"}', "'links' must be a list of ids"),
        (b'{"id": "x", "text": "", "links": [[]]}', f"each of 'links' {NO_ID}"),
        (b'{"id": "x", "text": "\\ud800"}', "'text' has half a surrogate pair, which is no character"),
        (b'{"id": "x", "text": "\xff"}', "not UTF-8 text (invalid start byte at offset 21)"),
        (b'{"id": "good", "text": "again"}', "line 1 has the same id"),
        (b"[" * 100_000, TOO_MUCH),
        (b'{"id": ' + b"9" * 5000 + b"}", TOO_MUCH),
        (b" " * (2 * 2**20) + b"{}", "larger than 2 MiB, the limit for one line"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_and_the_others_are_kept(tmp_path: Path, line: bytes, reason: str) -> None:
    good, last = b'{"id": "good", "text": "words"}', b'{"id": "last", "text": "words"}'
    path = write(tmp_path / "x.jsonl", b"\n".join([good, line, last]))
    origin = JSONLinesFile(path)
    assert [(problem.where, problem.reason) for problem in origin.inspect().problems] == [
        (f"{path}:2", reason)
    ]
    assert [document.id for document in origin.documents()] == ["good", "last"]


def test_a_file_of_json_lines_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    origin = JSONLinesFile(write(tmp_path / "x.jsonl", b'\xef\xbb\xbf{"id": "a", "text": ""}\r\n'))
    assert origin.inspect().problems == ()
    assert [document.id for document in origin.documents()] == ["a"]


@given(
    records=st.lists(
        st.fixed_dictionaries(
            {"id": st.text(st.characters(exclude_categories=["Cs"]), min_size=1)},
            optional={"text": st.text(st.characters(exclude_categories=["Cs"])), "title": st.none()},
        )
    )
)
def test_every_line_is_a_document_or_a_problem(
    records: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.getbasetemp() / "any.jsonl", "\n".join(map(json.dumps, records)))
    origin = JSONLinesFile(path)
    first_good: dict[str, int] = {}
    for number, record in enumerate(records, start=1):
        if "text" in record:
            first_good.setdefault(record["id"], number)
    assert [document.id for document in origin.documents()] == list(first_good)
    bad = sorted(set(range(1, len(records) + 1)) - set(first_good.values()))
    assert [problem.where for problem in origin.inspect().problems] == [f"{path}:{number}" for number in bad]
