"""`rrf-stream serve` and `demo --serve`: real processes, asked over real sockets, and told to end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cli_process import COMMAND, Finished, finish, run, start

from rrf_stream.cli._options import token_in
from rrf_stream.cli._serving import Serving, handed_down

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli_kit import CLI

pytest_plugins = ["cli_kit"]

TOKEN = "a token of some length"  # noqa: S105 - it opens nothing
PIPELINE = """
import os
from contextlib import asynccontextmanager
import anyio
from rrf_stream import Pipeline

async def words(query):
    return query.split()

async def hanging(query):
    await anyio.sleep_forever()

async def environment(query):
    return [name for name in os.environ if name.startswith(query)]

async def broken(query):
    raise ConnectionError("db.example refused\\n\\x1b[31m")

quick = Pipeline({"words": words})
patchy = Pipeline({"words": words, "broken": broken})
told = Pipeline({"environment": environment})
slow = Pipeline({"words": words, "hanging": hanging}, timeout=60)

@asynccontextmanager
async def failing():
    raise RuntimeError("no database")
    yield quick

class shelf:
    @staticmethod
    @asynccontextmanager
    async def opened():
        print("opened", flush=True)
        yield quick
        print("closed", flush=True)
"""


class Served:
    """A server in a process of its own."""

    def __init__(self, process: Any, url: str) -> None:
        self.process = process
        self.client = httpx.Client(base_url=url, trust_env=False, timeout=60)
        self.ended: Finished | None = None

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.client.get(path, **options)

    def end(self, by: signal.Signals = signal.SIGTERM) -> Finished:
        self.process.send_signal(by)
        self.ended = finish(self.process)
        return self.ended


@contextmanager
def served(*arguments: str, **options: Any) -> Iterator[Served]:
    """Start the command on a free port, and end it."""
    process = start(*COMMAND, *arguments, "--port", "0", **options)
    for line in process.stdout or ():
        if found := re.match(r"(http://\S+) is open; Ctrl-C ends it$", line):
            server = Served(process, found[1])
            break
    else:
        pytest.fail(f"it ended before it was open: {finish(process)}")
    try:
        yield server
    finally:
        server.client.close()
        if server.ended is None:
            assert server.end().code == 0


@pytest.fixture
def searched(cli: CLI, docs: Path) -> Path:
    """The corpus `docs`, with its index `x.db` beside it."""
    assert cli("index", "docs", "--db", "x.db").code == 0
    return docs


@pytest.fixture
def own(here: Path) -> Path:
    """A module with pipelines of a user's own."""
    module = here / "mine.py"
    module.write_text(PIPELINE)
    return module


# --- an index ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_index_is_served_as_json_as_events_and_as_a_page_until_it_is_told_to_end(
    searched: Path, by: signal.Signals
) -> None:
    """All three arms answer, documents are sent as excerpts, and either signal ends it without a word."""
    (searched / "long.md").write_text("# Long\n\nsetup " + "word " * 1000)
    assert run(*COMMAND, "index", "docs", "--db", "x.db").code == 0
    with served("serve", "--db", "x.db", "--title", "Mine") as server:
        best = server.get("/search", params={"q": "setup", "timeout_ms": 9000}).json()
        assert [arm["name"] for arm in best["coverage"]["arms"]] == ["lexical", "dense", "graph"]
        assert best["coverage"]["full"]
        texts = {hit["item"]["title"]: hit["item"]["text"] for hit in best["hits"]}
        assert texts["Install"] == "Install Run the setup program and wait." or "setup" in texts["Install"]
        assert len(texts["Long"]) <= 400
        assert {json.dumps(hit["items"]) for hit in best["hits"]} == {"{}"}
        events = server.get("/search/stream", params={"q": "setup", "timeout_ms": 9000}).text
        assert re.findall(r"^event: (\w+)", events, re.MULTILINE)[-1] == "done"
        assert server.get("/page.json").json()["title"] == "Mine"
        assert "<html" in server.get("/").text
        assert server.end(by) == Finished(0, "", "")


def test_two_workers_answer_and_end_together(searched: Path) -> None:
    """Both processes serve the same, count together, and one signal ends all."""
    with served("serve", "--db", "x.db", "--workers", "2") as server:
        for _ in range(6):
            # A connection each, as either worker may take it.
            url = server.client.base_url.join("/search")
            best = httpx.get(
                url, params={"q": "setup", "timeout_ms": 9000}, trust_env=False, timeout=60
            ).json()
            assert best["coverage"]["full"]
        counted = re.search(
            r'^rrf_stream_searches_total\{outcome="complete"\} (\S+)',
            server.get("/metrics").text,
            re.MULTILINE,
        )
        assert counted
        assert float(counted[1]) == 6
        ended = server.end()
        assert (ended.code, "Traceback" in ended.err) == (0, False), ended.err
    assert searched.exists()


@pytest.mark.usefixtures("own")
def test_workers_keep_the_token_to_themselves() -> None:
    """What they were told is gone from their environment, which every process that they start inherits."""
    environment = {**os.environ, "RRF_STREAM_TOKEN": TOKEN}
    with served("serve", "mine:told", "--workers", "2", env=environment) as server:
        server.client.headers["Authorization"] = f"Bearer {TOKEN}"
        hits = server.get("/search?q=RRF_STREAM_").json()["hits"]
        assert "RRF_STREAM_SERVING" not in [hit["id"] for hit in hits]


def test_what_workers_are_told_is_forgotten_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is what it was; a folder for metrics is made, and removed, only if there is none."""
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    before = dict(os.environ)
    with handed_down(Serving(token=TOKEN)):
        folder = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])
        assert folder.is_dir()
        assert TOKEN in os.environ["RRF_STREAM_SERVING"]
    assert not folder.exists()
    assert dict(os.environ) == before
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    with handed_down(Serving()):
        assert os.environ["PROMETHEUS_MULTIPROC_DIR"] == str(tmp_path)
    assert os.environ["PROMETHEUS_MULTIPROC_DIR"] == str(tmp_path)


# --- a pipeline of one's own ------------------------------------------------------------------------------


@pytest.mark.usefixtures("own")
def test_a_pipeline_is_found_in_the_current_folder() -> None:
    """A name in a module is served, within the limits of the command."""
    with served("serve", "mine:quick", "--timeout", "2s") as server:
        assert [hit["id"] for hit in server.get("/search?q=b%20a").json()["hits"]] == ["b", "a"]
        assert server.get("/search?q=a&timeout_ms=2001").status_code == 400
        assert server.get("/page.json").json()["timeout_ms"] == {"default": 2000, "most": 2000}


@pytest.mark.usefixtures("own")
def test_what_opens_a_pipeline_is_left_when_the_server_ends() -> None:
    """The context manager is entered once, before the first search, and left at the end."""
    with served("serve", "mine:shelf.opened") as server:
        assert [hit["id"] for hit in server.get("/search?q=a").json()["hits"]] == ["a"]
        ended = server.end()
    assert (ended.code, ended.out.split()) == (0, ["opened", "closed"])


@pytest.mark.usefixtures("own")
def test_an_open_stream_gets_its_final_snapshot_when_the_server_ends() -> None:
    """A search that would take a minute ends with what has arrived, and its reader is told so."""
    with served("serve", "mine:slow", "--timeout", "60s") as server:
        with server.client.stream("GET", "/search/stream?q=a") as response:
            lines = response.iter_lines()
            assert any('"ids"' in line or '"hits":[{' in line for line in lines)
            server.process.send_signal(signal.SIGTERM)
            rest = list(lines)
        last = [json.loads(line.removeprefix("data: ")) for line in rest if line.startswith("data: ")]
        assert (last[-2]["final"], last[-2]["outcome"], last[-1]["outcome"]) == (True, "stopped", "stopped")
        server.ended = finish(server.process)
    assert server.ended.code == 0


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_an_arm_raised_is_in_the_log_and_nowhere_else(workers: str) -> None:
    """Whoever runs the server reads the words of the error, on one line; clients are told its type."""
    with served("serve", "mine:patchy", "--workers", workers) as server:
        best = server.get("/search?q=a").json()
        assert [arm["error"] for arm in best["coverage"]["arms"]] == [None, "ConnectionError"]
        ended = server.end()
    (line,) = [line for line in ended.err.splitlines() if "rrf_stream.arm_closed" in line]
    assert "level='warning'" in line
    assert r"db.example refused\\n\\x1b[31m" in line


# --- who may search ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("own")
def test_a_token_is_taken_from_a_file_or_from_the_environment(here: Path) -> None:
    """Without it there is no answer; with it there is. The file wins."""
    (here / "token").write_text(f"{TOKEN}\n")
    environment = {**os.environ, "RRF_STREAM_TOKEN": "another one of some length"}
    with served("serve", "mine:quick", "--token-file", "token", env=environment) as server:
        assert server.get("/search?q=a").status_code == 401
        assert server.get("/search?q=a", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert server.get("/", auth=("me", TOKEN)).status_code == 200


@pytest.mark.usefixtures("own")
def test_it_answers_under_its_own_names_only() -> None:
    """A page that leads its own name here cannot read what is found."""
    with served("serve", "mine:quick") as server:
        assert server.get("/search?q=a", headers={"Host": "evil.example"}).status_code == 421
        assert server.get("/search?q=a", headers={"Host": "localhost:1234"}).status_code == 200


def test_names_are_checked_where_only_this_machine_can_reach_the_server() -> None:
    """Elsewhere nobody knows the names, so any will do unless some are given."""
    assert Serving(host="127.0.0.1").names == ("localhost", "127.0.0.1", "[::1]", "127.0.0.1")
    assert Serving(host="::1").is_local
    assert Serving(host="0.0.0.0").names is None  # noqa: S104 - nothing is bound
    assert Serving(host="search.example").names is None
    assert Serving(host="0.0.0.0", hosts=("search.example",)).names == ("search.example",)  # noqa: S104
    assert Serving(hosts=("search.example",)).names == ("search.example", *(Serving().names or ()))


@pytest.mark.usefixtures("own")
def test_a_server_for_everybody_is_warned_of() -> None:
    """Whoever listens at all addresses without a token is told what that means."""
    with served("serve", "mine:quick", "--host", "0.0.0.0") as server:  # noqa: S104 - for a moment
        server.client.base_url = httpx.URL(f"http://127.0.0.1:{server.client.base_url.port}")
        assert server.get("/healthz").status_code == 200
        ended = server.end()
    assert ended.err == "rrf-stream: there is no token, so whoever can reach 0.0.0.0 can search\n"


def test_a_token_must_be_one(tmp_path: Path) -> None:
    """None is none, and an empty one is not; a file that is not there, or no text, is refused in words."""
    assert token_in(None, {}) is None
    assert token_in(None, {"RRF_STREAM_TOKEN": f" {TOKEN}\n"}) == TOKEN
    assert token_in(None, {"RRF_STREAM_TOKEN": ""}) == ""
    with pytest.raises(ValueError, match="No such file"):
        token_in(tmp_path / "none", {})
    (tmp_path / "odd").write_bytes(TOKEN.encode("utf-16"))
    with pytest.raises(ValueError, match=r"odd: it is no UTF-8 text$"):
        token_in(tmp_path / "odd", {})


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("", "token must have at least 16 characters, not 0"),
        ("short", "token must have at least 16 characters, not 5"),
        (f"{TOKEN}\x01", "token must have printable characters only, and no blanks around them"),
    ],
)
@pytest.mark.usefixtures("own")
def test_a_token_that_will_not_do_is_one_line(
    cli: CLI, monkeypatch: pytest.MonkeyPatch, token: str, words: str
) -> None:
    """It is told what a token must be, without the token, and nothing is said of options not given."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setenv("RRF_STREAM_TOKEN", token)
    ended = cli("serve", "mine:quick")
    assert (ended.code, ended.out, ended.err) == (2, "", f"rrf-stream: {words}\n")
    sys.modules.pop("mine", None)


# --- what is wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["serve"], 2, "give a pipeline as MODULE:NAME, or an index with --db"),
        (["serve", "mine:quick", "--db", "x.db"], 2, "give a pipeline as MODULE:NAME, or an index with --db"),
        (["serve", "--db", "no.db"], 2, "no index at no.db"),
        (["serve", "mine"], 2, "mine must name a pipeline as package.module:name"),
        (["serve", "nowhere.at:all"], 2, "nowhere.at:all: there is no module nowhere"),
        (["serve", "mine:nothing"], 2, "mine:nothing: there is no nothing"),
        (
            ["serve", "mine:__name__"],
            2,
            "pipeline must be a Pipeline, or a callable that opens one",
        ),
        (["serve", "mine:quick", "--timeout", "soon"], 2, "'soon' is no duration"),
        (
            ["serve", "mine:quick", "--timeout", "0.5ms"],
            2,
            "number of seconds of at least 0.001, not 0.0005",
        ),
        (["demo", "--port", "9000"], 2, "it needs --serve"),
        (["serve", "mine:quick", "--workers", "0"], 2, "greater than or equal to 1"),
        (["serve", "mine:quick", "--token-file", "none"], 2, "none: No such file or directory"),
    ],
)
@pytest.mark.usefixtures("own")
def test_what_cannot_be_served_is_one_line_and_no_server(
    cli: CLI, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str
) -> None:
    """The exit code says whose fault it is, and no traceback is shown."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    ended = cli(*arguments)
    assert (ended.code, ended.out) == (code, "")
    assert words in " ".join(re.sub("[│╭╮╰╯─]", " ", ended.err).split())
    sys.modules.pop("mine", None)


@pytest.mark.parametrize(
    ("module", "error"),
    [
        ("len(5)", "TypeError: object of type 'int' has no len()"),
        ("import lack", "ModuleNotFoundError: No module named 'lack'"),
    ],
)
def test_what_is_wrong_in_the_module_is_shown_where_it_is(here: Path, module: str, error: str) -> None:
    """A mistake of the user's own program has a traceback, and is no wrong argument."""
    (here / "lacking.py").write_text(module)
    ended = run(*COMMAND, "serve", "lacking:quick")
    assert (ended.code, ended.out) == (1, "")
    assert "lacking.py" in ended.err
    assert ended.err.strip().endswith(error)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_cannot_start_ends_with_an_exit_code_of_its_own(workers: str) -> None:
    """Whoever keeps the server running learns that it is not, with one process and with several."""
    ended = run(*COMMAND, "serve", "mine:failing", "--port", "0", "--workers", workers)
    assert ended.code == 3
    assert "no database" in ended.err


@pytest.mark.usefixtures("own")
def test_a_port_that_is_taken_is_named() -> None:
    """The command ends with 1, as the arguments are not to blame."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run(*COMMAND, "serve", "mine:quick", "--port", str(port))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"rrf-stream: cannot listen at 127.0.0.1:{port}: Address already in use\n"


def test_without_the_libraries_of_the_web_the_extra_is_named(own: Path) -> None:
    """Whoever has only the command is told what to install."""
    code = "import sys; sys.modules['starlette'] = None; sys.argv = ['rrf-stream', 'serve', 'mine:quick']; "
    ended = run(sys.executable, "-c", code + "from rrf_stream.cli import main; main()", cwd=own.parent)
    assert (ended.code, ended.out) == (1, "")
    assert "the extra 'web' brings it" in ended.err


# --- the demo ---------------------------------------------------------------------------------------------


def test_the_demo_serves_arms_that_can_be_watched(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The list gets better several times, one arm after the other ends, and the page says that it is slow."""
    cache = tmp_path_factory.mktemp("cache")
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "RRF_STREAM_TOKEN": TOKEN}
    with served("demo", "--serve", env=environment) as server:
        assert server.get("/page.json").status_code == 401
        server.client.auth = ("me", TOKEN)
        facts = server.get("/page.json").json()
        assert (facts["title"], "on purpose" in facts["note"]) == ("Python's documentation", True)
        events = server.get("/search/stream?q=compress+a+file&timeout_ms=10000").text
        snapshots = [json.loads(data) for data in re.findall(r"^data: (\{\"hits.*)\r", events, re.MULTILINE)]
        assert len(snapshots) >= 4
        assert snapshots[-1]["coverage"]["full"]
        assert "bz2.compress" in [hit["id"] for hit in snapshots[-1]["hits"]]
        open_ones = [
            sum(arm["status"] in {"waiting", "streaming"} for arm in snapshot["coverage"]["arms"])
            for snapshot in snapshots
        ]
        assert {3, 2, 0} <= {*open_ones}
