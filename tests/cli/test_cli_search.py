"""`rrf-stream search`: the same answer for people, for pipes and for programs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from cli_kit import CLI

pytest_plugins = ["cli_kit"]


@pytest.fixture
def searched(cli: CLI, docs: Path) -> Path:
    """The corpus `docs`, with its index `x.db` beside it."""
    assert cli("index", "docs", "--db", "x.db").code == 0
    return docs


def test_in_a_pipe_a_hit_is_a_line_and_the_arms_are_told_aside(cli: CLI, searched: Path) -> None:
    result = cli("search", "setup", "--db", "x.db")
    assert result.code == 0
    # lexical finds the note (short) and install.md; graph adds start.md, which links to install.md.
    ids = [line.split("\t")[2] for line in result.lines]
    assert set(ids) >= {str(searched / name) for name in ("note.txt", "install.md", "start.md")}
    for number, line in enumerate(result.lines, start=1):
        rank, score, _, _, ranks = line.split("\t")
        assert int(rank) == number
        parts = dict(part.split(" ") for part in ranks.split(", "))
        assert float(score) == pytest.approx(sum(1 / (60 + int(rank)) for rank in parts.values()), abs=1e-5)
    *arms, last = result.err.splitlines()
    assert [line.split(":")[0] for line in arms] == ["lexical", "dense", "graph"]
    assert all("done in" in line for line in arms)
    assert last.startswith("complete after ")


def test_json_is_one_snapshot_a_line_and_nothing_else(cli: CLI, searched: Path) -> None:
    result = cli("search", "setup", "--db", "x.db", "--json", "--explain", "--top-k", "3")
    assert (result.code, result.err) == (0, "")
    snapshots = [json.loads(line) for line in result.lines]
    assert [snapshot["final"] for snapshot in snapshots] == [False] * (len(snapshots) - 1) + [True]
    assert [snapshot["seq"] for snapshot in snapshots] == sorted({s["seq"] for s in snapshots})
    final = snapshots[-1]
    assert len(final["hits"]) == 3
    assert final["outcome"] == "complete"
    assert final["coverage"]["answered"] == ["lexical", "dense", "graph"]
    by_id = {hit["id"]: hit for hit in final["hits"]}
    note = by_id[str(searched / "note.txt")]
    assert note["item"]["text"] == "setup of the cat door\n"
    assert note["items"] == {}
    lines = cli("search", "setup", "--db", "x.db", "--top-k", "3").lines
    assert [line.split("\t")[2] for line in lines] == [hit["id"] for hit in final["hits"]], "the same answer"


@pytest.mark.usefixtures("searched")
def test_arms_are_selected_and_weighed(cli: CLI) -> None:
    only = cli("search", "dog", "--db", "x.db", "--arm", "lexical")
    assert [line.split("\t")[2:] for line in only.lines] == [["r1", "Dogs", "lexical 1"]]
    followed = cli("search", "dog", "--db", "x.db", "--arm", "graph", "--arm", "lexical=0.5")
    assert [line.split("\t")[1:] for line in followed.lines] == [
        [f"{1 / 61:.5f}", "r2", "Wolves", "graph 1"],
        [f"{0.5 / 61:.5f}", "r1", "Dogs", "lexical 1"],
    ]
    weighed = cli("search", "dog", "--db", "x.db", "--arm", "dense=0")
    assert [line.split(":")[0] for line in weighed.err.splitlines()[:-1]] == ["lexical", "graph"]


def test_more_hits_than_an_arm_usually_gives_can_be_shown(cli: CLI, here: Path) -> None:
    lines = (json.dumps({"id": number, "text": "word"}) for number in range(150))
    (here / "x.jsonl").write_text("\n".join(lines))
    cli("index", "x.jsonl", "--db", "x.db")
    assert len(cli("search", "word", "--db", "x.db", "--arm", "lexical", "--top-k", "140").lines) == 140


def test_a_search_ends_when_enough_is_settled(cli: CLI, here: Path) -> None:
    """One arm alone settles what it has delivered, so its first page is enough, and the rest is spared."""
    records = [{"id": number, "text": "word" + " filler" * number} for number in range(150)]
    (here / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    cli("index", "x.jsonl", "--db", "x.db")
    ask = ("search", "word", "--db", "x.db", "--arm", "lexical")
    full = cli(*ask)
    spared = cli(*ask, "--until", "settled", "--settle", "3")
    shown = len(spared.lines)
    assert 3 <= shown <= len(full.lines) == 10
    assert (spared.code, spared.lines) == (0, full.lines[:shown])
    arm, last = spared.err.splitlines()
    stopped = re.fullmatch(r"lexical: (stopped after (\d+) hits: no more was needed)", arm)
    assert stopped
    assert shown <= int(stopped[2]) < 100
    assert last.startswith("settled after ")
    same = f"the first {shown} would be the same had every arm delivered its whole window"
    assert last.endswith(f" ms: {shown} hits; lexical {stopped[1]}; {same}")
    as_json = cli(*ask, "--until", "settled", "--json")
    final = json.loads(as_json.lines[-1])
    assert (final["outcome"], final["settled"], final["exact"]) == ("settled", 10, 10)
    assert as_json.err.startswith("settled after "), "the arm that was stopped is told of there, too"
    waited = json.loads(cli(*ask, "--json").lines[-1])
    assert (waited["outcome"], waited["exact"]) == ("complete", 10)


@pytest.mark.usefixtures("searched")
def test_an_explanation_follows_the_answer(cli: CLI) -> None:
    result = cli("search", "dog", "--db", "x.db", "--arm", "lexical", "--explain")
    assert result.lines[1:] == [
        "",
        "1. Dogs",
        f"   {1 / 61:.5f} = 1/(60+1) lexical",
        "   r1",
        "   a dog barks",
    ]


@pytest.mark.usefixtures("searched")
def test_no_hits_are_an_answer_and_no_answer_is_not(cli: CLI) -> None:
    nothing = cli("search", "xylophone", "--db", "x.db", "--arm", "lexical")
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err.endswith("no hits, every arm answered in full\n")
    late = cli("search", "setup", "--db", "x.db", "--timeout", "0.0001ms")
    assert (late.code, late.out) == (1, "")
    assert "lexical: timed out after 0 hits" in late.err
    assert late.err.splitlines()[-1].startswith("degraded after ")
    as_json = cli("search", "setup", "--db", "x.db", "--timeout", "0.0001ms", "--json")
    assert as_json.code == 1
    assert json.loads(as_json.lines[-1])["coverage"]["reasons"] == ["deadline"]
    assert as_json.err.startswith("degraded after "), "a program that reads only hits is not the only reader"


def test_hostile_documents_and_queries_are_only_words(cli: CLI, here: Path) -> None:
    title = "\x1b[31mred\x1b]0;x\x07 [bold]b[/bold]\u202e\tend\r\n"
    record = {"id": "a\nb", "title": title, "text": "cat \x9b2J"}
    (here / "x.jsonl").write_text(json.dumps(record) + "\n")
    assert cli("index", "x.jsonl", "--db", "x.db").code == 0
    result = cli("search", "cat", "--db", "x.db", "--explain", "--arm", "lexical")
    shown = "\\x1b[31mred\\x1b]0;x\\x07 [bold]b[/bold]\\u202e end"
    assert result.lines == [
        f"1\t{1 / 61:.5f}\ta\\nb\t{shown}\tlexical 1",
        "",
        f"1. {shown}",
        f"   {1 / 61:.5f} = 1/(60+1) lexical",
        "   a\\nb",
        "   cat \\x9b2J",
    ]
    for query in (
        '"',
        "NEAR(",
        "c++",
        "a AND",
        "-foo",
        "foo:bar",
        "'; drop table documents",
        "\udce9",
        "?" * 5000,
    ):
        assert cli("search", "--db", "x.db", "--arm", "lexical", "--arm", "graph", "--", query).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'QUERY'"),
        (("x",), "Missing option '--db'"),
        ((" ", "--db", "x.db"), "QUERY must not be blank"),
        (("x", "--db", "none.db"), "no index at none.db; make one: rrf-stream index PATH... --db FILE"),
        (("x", "--db", "docs/note.txt"), "docs/note.txt is not an index: it is not an SQLite file"),
        (("x", "--db", "docs"), "docs: "),
        (("x", "--db", "empty"), "empty"),
        (("x", "--db", "x.db", "--timeout", "soon"), "'soon' is no duration: write 300ms, 0.3s, 2s, or"),
        (("x", "--db", "x.db", "--timeout", "0"), "'0': a timeout must be more than 0 and finite"),
        (("x", "--db", "x.db", "--timeout=-1s"), "'-1s' is no duration"),
        (("x", "--db", "x.db", "--top-k", "0"), "Invalid value for '--top-k'"),
        (("x", "--db", "x.db", "--until", "soon"), "'soon' is not one of 'complete', 'settled'"),
        (("x", "--db", "x.db", "--settle", "3"), "Invalid value for '--settle': it needs --until settled"),
        (("x", "--db", "x.db", "--until", "settled", "--settle", "0"), "Invalid value for '--settle'"),
        (
            ("x", "--db", "x.db", "--until", "settled", "--settle", "4", "-k", "3"),
            "'--settle': only 3 hits are shown",
        ),
        (("x", "--db", "x.db", "--arm", "vector"), "'vector' is no arm of an index"),
        (("x", "--db", "x.db", "--arm", "dense=-1"), "the weight of 'dense' must be a number, 0 or more"),
        (("x", "y", "--db", "x.db"), "unexpected extra argument"),
    ],
)
def test_wrong_arguments_are_one_message(
    cli: CLI, searched: Path, arguments: tuple[str, ...], message: str
) -> None:
    (searched.parent / "empty").touch()
    result = cli("search", *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_damaged_index_is_a_message(cli: CLI, searched: Path) -> None:
    db = searched.parent / "x.db"
    content = bytearray(db.read_bytes())
    content[4096:] = b"\xaa" * (len(content) - 4096)
    db.write_bytes(content)
    result = cli("search", "setup", "--db", "x.db")
    assert result.code in {1, 2}
    assert "Traceback" not in result.err
    assert result.out == ""


def test_help_and_version_are_for_reading(cli: CLI) -> None:
    assert cli("--version").out.startswith("rrf-stream ")
    for arguments in (("--help",), ("-h",), ("index", "--help"), ("search", "--help"), ("demo", "--help")):
        result = cli(*arguments)
        assert (result.code, result.err) == (0, "")
        assert max(map(len, result.lines)) <= 100
    assert "Exit codes: 0 an answer" in cli("search", "--help").out.replace("\n  ", " ")
    assert "has no items, the copies of each arm" in " ".join(cli("search", "--help").out.split())
    assert "The time that is shown and limited begins when the arms are asked." in cli(
        "search", "--help"
    ).out.replace("\n  ", " ")
