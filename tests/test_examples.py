"""Each example runs as a program of its own, with warnings as errors, and prints what it is there to show."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"
MOST_SECONDS = 60
"""Far more than any example takes, for machines that are busy."""


def output_of(name: str) -> str:
    """Run an example from another folder, as users do, and return what it printed."""
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        cwd=EXAMPLES.parent.parent,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=MOST_SECONDS,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return ran.stdout


def test_quickstart_shows_a_ranking_that_gets_better() -> None:
    """The stream starts before the arms have ended; the final ranking is explained by rank and arm."""
    live, final = output_of("quickstart").split("\n\nfinal:\n")
    first, *_, last = live.splitlines()[1:]
    assert re.fullmatch(r"\d+\.\d\d s  timeouts .*words streaming, trigrams (waiting|streaming)", first)
    assert re.fullmatch(r"\d+\.\d\d s  timeouts cancel groups +words exhausted, trigrams exhausted", last)
    titles = "Timeouts in asyncio", "How a task is cancelled", "Task groups and their errors"
    assert final.splitlines() == [
        f"{i}. {title}  (score {1 / (60 + n) + 1 / (60 + m):.5f}, ranks {{'words': {n}, 'trigrams': {m}}})"
        for i, title, n, m in zip((1, 2, 3), titles, (1, 2, 3), (1, 3, 4), strict=True)
    ]


def test_slow_arm_answers_at_the_deadline_and_says_what_is_missing() -> None:
    """The fast arm is complete, the slow one cut off with what it had, the hanging one with nothing."""
    live, end = output_of("slow_arm").split("\n\n")
    assert live.splitlines()[0].split()[2:] == ["parsing", "tokens", "syntax", "grammar"]
    assert "grammar 4->" in live
    assert "because of: deadline" in end
    assert "titles: exhausted after 4 hits" in end
    slow = re.search(r"vectors: deadline after ([12]) hits", end)  # on time it is 2
    assert slow
    assert "remote: deadline after 0 hits" in end
    seconds = re.search(r"final after (\d+\.\d) s", end)
    assert seconds
    assert 0.5 <= float(seconds[1]) < MOST_SECONDS
    assert f"DegradedError: arms that did not answer in full: vectors (deadline after {slow[1]} hits)" in end


def test_batch_explains_its_scores() -> None:
    """Weights, ranks and scores add up as printed, and the weight decides between the single finds."""
    weighted, longest, plain = output_of("batch").split("\n\n")
    assert f"1. /sorting  {1 / 61 + 0.5 / 63:.6f}  Sorting how-to" in weighted
    assert f"vectors: rank 3 gives 0.5 / (60 + 3) = {0.5 / 63:.6f}" in weighted
    assert f"2. /bisect   {1 / 63 + 0.5 / 62:.6f}" in weighted
    assert f"3. /heapq    {1 / 62:.6f}" in weighted
    assert "1. /sorting  Sort lists with list.sort or sorted" in longest
    assert [line.split()[0] for line in plain.splitlines()[1:]] == ["/sorting", "/bisect", "/queue", "/heapq"]
    assert "/queue    {'full text': None, 'vectors': 1}" in plain


def test_breaker_leaves_an_arm_alone_and_tries_it_again() -> None:
    """Three failures open the breaker, two queries skip the arm, and after the cool-down it answers again."""
    live, end = output_of("breaker").split("\n\n")
    queries = re.findall(r"^(\w+) +called (\d), (\d) hits in \d\.\d s, remote (\w+)", live, re.MULTILINE)
    assert queries == [
        ("one", "1", "1", "failed"),
        ("two", "1", "1", "failed"),
        ("three", "1", "1", "failed"),
        ("four", "0", "1", "skipped"),
        ("five", "0", "1", "skipped"),
        ("six", "1", "2", "exhausted"),
        ("seven", "1", "2", "exhausted"),
    ]
    waits = re.findall(r"skipped, tried again in (\d\.\d) s", live)
    assert len(waits) == 2
    assert all(0 < float(wait) <= 1 for wait in waits)
    assert "the breaker is half_open" in live
    assert "titles: of 7 answered 7, failed 0, skipped 0" in end
    assert "remote: of 7 answered 2, failed 3, skipped 2" in end


def test_blocking_retriever_answers_on_time_with_a_stuck_call() -> None:
    """With a connection every arm is complete; without it the others are, and a thread is left."""
    lines = output_of("blocking_retriever").splitlines()
    found = re.fullmatch(r"beetles: (\d+\.\d) s, complete", lines[0])
    stuck = re.fullmatch(r"birds: (\d+\.\d) s, deadline", lines[3])
    assert found
    assert stuck
    assert 0.2 <= float(found[1]) < 0.5 <= float(stuck[1]) < MOST_SECONDS
    assert lines[1:3] == [
        "  beetles at a glance, a history of beetles, beetles in depth",
        "  titles exhausted, database exhausted, catalogue exhausted",
    ]
    assert lines[4:] == [
        "  birds at a glance, a history of birds, birds for children",
        "  titles exhausted, database deadline, catalogue exhausted",
        "still running: rrf:thread:database",
    ]


def test_quorum_tells_three_ways_to_end_early_apart() -> None:
    """A quorum and `stop()` leave arms STOPPED and differ in outcome; leaving has them CANCELLED."""
    arm = r" {4}\w+ +(\w+ after \d) hits\n"
    ending = rf"(.+?) +\d\.\d s, (\w+: .+)\n{arm * 3} {{4}}answered: (.+), (\d\.\d) of the weight\n"
    late, early = "syntax parsing tokens", "parsing syntax tokens"
    whole, all_three = "exhausted after 3", "text, vectors, remote"
    assert re.findall(ending, output_of("quorum")) == [
        ("wait for all", f"complete: {late}", whole, whole, "exhausted after 4", all_three, "1.0"),
        ("quorum", f"quorum: {late}", whole, whole, "stopped after 2", "text, vectors", "0.8"),
        ("stop()", f"stopped: {early}", whole, "stopped after 2", "stopped after 0", "text", "0.4"),
        ("leave", f"stopped: {early}", whole, "cancelled after 2", "cancelled after 0", "text", "0.4"),
    ]


def test_llamaindex_retriever_answers_on_time_with_its_sources_explained() -> None:
    """The engine has nodes of two retrievers, with their ranks; the third is late, and no prompt says so."""
    bears = 1 / (59 + 3) + 1 / (59 + 2)  # LlamaIndex counts ranks from 0
    assert output_of("llamaindex_retriever").splitlines() == [
        f"bees: bees make honey from nectar (score {2 / 60:.5f}, ranks {{'vectors': 1, 'words': 1}})",
        f"bears: bears like honey more than berries (score {bears:.5f}, ranks {{'vectors': 3, 'words': 2}})",
        "coverage: {'vectors': 'exhausted', 'words': 'exhausted', 'archive': 'deadline'}",
        "the model is told of ranks: False",
    ]


def test_haystack_pipeline_answers_on_time_and_says_what_is_missing() -> None:
    """The retriever and the joiner give one order; the prompt is told of the source that hangs."""
    retriever, joiner = output_of("haystack_pipeline").split("\n\n")
    assert retriever.splitlines() == [
        "one component: ",
        "bees make honey ({'manuals': 1, 'news': 1})",
        "how to make a hive ({'manuals': 2})",
        "a fair of honey and wax ({'news': 2})",
        "Not all sources answered: deadline.",
    ]
    assert joiner.splitlines() == [
        "a joiner:",
        f"bees make honey ({2 / 61:.5f})",
        f"how to make a hive ({1 / 62:.5f})",
        f"a fair of honey and wax ({1 / 62:.5f})",
    ]


def test_opentelemetry_spans_nest_from_the_request_to_the_client_of_an_arm() -> None:
    """Request, fusion, arms and their calls are one trace, in a thread too, and the log names it."""
    best, tree, log = output_of("opentelemetry_spans").split("\n\n")
    assert best == "best: beetles at a glance"
    assert tree.splitlines() == [
        "GET /beetles",
        "  rrf_stream.fusion; outcome complete",
        "    retrieval titles; status exhausted; received 2",
        "      SELECT titles",
        "    retrieval vectors; status exhausted; received 1",
        "      POST /search",
        "    retrieval remote; status failed; received 0; type ConnectionError",
    ]
    assert log.splitlines() == [
        "logged: rrf_stream.arm_closed remote ConnectionError('no route to the host that knows beetles')",
        "in the same trace: True",
    ]


def test_langchain_retriever_answers_on_time_explained_and_as_a_stream() -> None:
    """The document that two agree on is certain, and comes long before the third retriever is given up."""
    whole, stream, chain = output_of("langchain_retriever").split("\n\n")
    assert whole.splitlines() == [
        f"1. beetles at a glance  {2 / 61 / 3:.5f} {{'titles': 1, 'vectors': 1}}, certain",
        f"2. a history of beetles  {1 / 62 / 3:.5f} {{'titles': 2}}, may be another",
        f"3. beetles in depth  {1 / 62 / 3:.5f} {{'vectors': 2}}, may be another",
        "{'titles': 'exhausted', 'vectors': 'exhausted', 'remote': 'deadline'}",
    ]
    first, rest = re.findall(r"^(\d\.\d) s  (.*)$", stream, re.MULTILINE)
    assert (first[1], rest[1]) == ("birds at a glance", "a history of birds, birds in depth")
    assert float(first[0]) < 1 <= float(rest[0]) < MOST_SECONDS
    assert chain == "in a chain: 3 documents on moths\n"


def test_mcp_server_answers_a_model_in_time_and_says_what_is_missing() -> None:
    """The slow arm is named in words, the certain hits are counted, and a page is fetched by its id."""
    progress, note, first, second, hint, end = output_of("mcp_server").split("\n\n")
    assert "waiting for the vector index" in progress
    assert re.fullmatch(
        r"2 hits\. Results may be incomplete: the vector index gave only 1 result within \d\S* m?s\. "
        r"These hits are certain, but there may be more\.",
        note,
    )
    assert first.splitlines() == [
        "1. Taking leave",
        "   id: leave | ranks: words 1, vectors 1",
        "   Ask your lead before you take more than three days.",
    ]
    assert second.startswith("2. If you are ill\n   id: sick | ranks: words 2\n")
    assert hint == "To read a whole document, call fetch with its id."
    assert end.splitlines() == [
        "complete: False, certain: the first 2",
        "fetched: Ask your lead before you take more than three days.",
    ]


def test_aiostream_operators_drop_old_queries_and_give_hits_once_certain() -> None:
    """Each letter stops the search before it; two certain hits are enough to stop the slow arm."""
    lines = output_of("aiostream_operators").splitlines()
    assert re.fullmatch(r"[0-9]+ snapshots, the last one:", lines[0])
    assert lines[1:4] == ["  Tasks and timeouts", "  Tests of tasks", "  Waiting for tasks"]
    assert lines[4] == "searches by words: 1 read to their end, 3 stopped"
    certain = [re.fullmatch(r"certain after (\d+\.\d) s: (.*)", line) for line in lines[5:7]]
    assert [found and found[2] for found in certain] == ["1. Tasks and timeouts", "2. Tests of tasks"]
    assert lines[7:] == ["searches by words: 1 stopped"]


def test_openai_tool_checks_its_arguments_and_says_what_is_missing() -> None:
    """A wrong call is answered with what is wrong; a right one in time, with hits and what is missing."""
    conversation, took = output_of("openai_tool").split("\n\n")

    def hits(query: str, *more: str) -> list[str]:
        both = [f"1. {query}: reference", f"    2. {query}: a tutorial"]
        return [
            *(f"{line} (found by titles, vectors)" for line in both),
            *more,
            "    Missing: archive was not read to its end in time; hits by then: 1.",
            "    Missing: wiki failed; hits before that: 0.",
        ]

    thread = "    3. timeouts: a thread from the mailing list (found by archive)"
    assert conversation.splitlines() == [
        "user: What should I read on timeouts and sockets?",
        'assistant calls search_documents {"query": "timeouts", "limit": 3} as call_0',
        'assistant calls search_documents {"query": "sockets", "limit": 50} as call_1',
        *"tool for call_0: {}\n{}\n{}\n{}\n{}".format(*hits("timeouts", thread)).splitlines(),
        "tool for call_1: Error: limit must be a whole number from 1 to 10, not 50",
        'assistant calls search_documents {"query": "sockets", "limit": 2} as call_2',
        *"tool for call_2: {}\n{}\n{}\n{}".format(*hits("sockets")).splitlines(),
        "assistant: Read timeouts: reference (found by titles, vectors); some sources did not answer.",
    ]
    assert 1.0 <= float(took.split()[0]) < MOST_SECONDS  # two searches, each for its whole budget


def test_fastapi_stream_sends_lines_and_stops_for_clients_that_leave() -> None:
    """One client gets all lines up to the deadline; the arms of another stop when it leaves."""
    lines = output_of("fastapi_stream").splitlines()
    at = lines.index("birds:")
    assert lines[0] == "beetles:"
    assert lines[1].startswith("  beetles in brief, ")
    assert lines[at - 3 : at] == [
        "  beetles explained, beetles in practice, beetles in brief",
        "  final: full text exhausted, vectors exhausted, remote deadline",
        "stopped at the deadline: beetles",
    ]
    assert lines[at + 1].startswith("  birds ")
    assert lines[at + 3 :] == ["stopped as the client left: birds", "a query without words: 422"]


def test_textual_search_shows_the_query_typed_last() -> None:
    """Old queries are stopped, hits are marked once settled, and the strip tells how each arm stands."""
    first, settled, last, end = output_of("textual_search").split("\n\n")
    assert first.splitlines()[:2] == ["> ta", "~ 1. Tables and keys"]
    assert re.fullmatch(r"prefix: 3 exhausted \| word: \d \w+ \| letters: \d \w+", first.splitlines()[-1])
    assert settled.splitlines()[:2] == ["> task", "= 1. Tasks and timeouts"]
    assert last.splitlines() == [
        "> task",
        "= 1. Tasks and timeouts",
        "= 2. Task groups and their errors",
        "= 3. Tests of tasks",
        "= 4. How a task is cancelled",
        "prefix: 2 exhausted | word: 4 exhausted | letters: 5 exhausted",
    ]
    assert re.fullmatch(r"search by letters: [12] read to its end, [1-3] stopped", end.strip())


def test_every_example_is_tested_here_and_says_what_it_shows() -> None:
    """Each program in the folder is run above, opens with a docstring, and tells how to start it."""
    programs = {path.stem: ast.parse(path.read_text("utf-8")) for path in EXAMPLES.glob("*.py")}
    here = Path(__file__).read_text("utf-8")
    assert [name for name in programs if f'output_of("{name}")' not in here] == []
    assert [
        name
        for name, tree in programs.items()
        if f"python examples/{name}.py" not in (ast.get_docstring(tree) or "")
    ] == []
