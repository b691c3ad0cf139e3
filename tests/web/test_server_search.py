"""GET /search: the final snapshot as JSON, whatever became of the arms, and how complete it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from server_kit import Watched, asking, events_in, letters

from rrf_stream import Arm, Hit, Outcome, Pipeline, Snapshot
from rrf_stream.web import Limits, create_app

if TYPE_CHECKING:
    import httpx

    from rrf_stream import FusedHit

pytestmark = pytest.mark.asyncio

SECRET = "postgres://admin:hunter2@inside"  # noqa: S105 - it is one, for the test


async def failing(_: str) -> list[str]:
    raise ConnectionError(SECRET)


def is_silent(answer: httpx.Response) -> bool:
    """Return whether an answer tells nothing of the inside of the server, anywhere."""
    told = answer.text + repr(answer.headers)
    return not any(word in told for word in ("hunter2", "Traceback", "raceback", ".py", "line "))


async def test_the_answer_is_the_final_snapshot() -> None:
    """The JSON is what `Pipeline.search` finds, and the header says that nothing is missing."""
    pipeline = letters(top_k=3)
    async with asking(create_app(pipeline)) as client:
        answer = await client.get("/search", params={"q": "abcd"})
        expected = await pipeline.search("abcd")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["rrf-coverage"] == "full"
    assert answer.headers["cache-control"] == "no-store"
    told = Snapshot.from_dict(answer.json())
    assert told.to_dict() == answer.json()
    assert (told.final, told.outcome) == (True, Outcome.COMPLETE)
    assert [(hit.id, hit.rank, hit.score, hit.item) for hit in told.hits] == [
        (hit.id, hit.rank, hit.score, hit.item) for hit in expected.hits
    ]


async def test_a_degraded_answer_is_an_answer() -> None:
    """Arms that failed or were late leave status 200, coverage in the JSON, and a header that says so."""
    slow = Watched("s", wait=True)
    arms = [Arm("good", Watched("a").source, weight=3), Arm("broken", failing), Arm("slow", slow.source)]
    async with asking(create_app(Pipeline(arms))) as client:
        answer = await client.get("/search", params={"q": "x", "timeout_ms": 100})
    assert answer.status_code == 200
    assert (
        answer.headers["rrf-coverage"]
        == 'degraded; outcome=deadline; weight=0.600; reasons="failed deadline"'
    )
    coverage = answer.json()["coverage"]
    assert (coverage["degraded"], coverage["answered"]) == (True, ["good"])
    assert {arm["name"]: (arm["status"], arm["error"]) for arm in coverage["arms"]} == {
        "good": ("exhausted", None),
        "broken": ("failed", "ConnectionError"),
        "slow": ("deadline", None),
    }
    assert is_silent(answer)


async def test_what_an_error_says_is_told_only_if_the_server_is_told_to() -> None:
    """With `errors="full"` clients see the words of an arm's error, as `to_dict` has them."""
    async with asking(create_app(Pipeline({"broken": failing}), errors="full")) as client:
        answer = await client.get("/search", params={"q": "x"})
    assert answer.json()["coverage"]["arms"][0]["error"] == f"ConnectionError({SECRET!r})"


async def test_a_required_arm_that_fails_is_a_problem() -> None:
    """The answer is 502, names the arm and not its words."""
    async with asking(create_app(Pipeline([Arm("broken", failing, required=True)]))) as client:
        answer = await client.get("/search", params={"q": "x"})
    assert (answer.status_code, answer.headers["content-type"]) == (502, "application/problem+json")
    assert answer.json()["arm"] == "broken"
    assert answer.headers["cache-control"] == "no-store"
    assert is_silent(answer)


@pytest.mark.parametrize("path", ["/search", "/search/stream"])
async def test_no_stack_trace_leaves_the_server(path: str) -> None:
    """`present` that raises is a problem of the server, without a word of where and why."""

    def present(_: FusedHit) -> NoReturn:
        raise LookupError(SECRET)

    async with asking(create_app(letters(), present=present)) as client:
        answer = await client.get(path, params={"q": "x"})
    problem = answer.json() if path == "/search" else events_in(answer.text)[-1].data
    assert answer.status_code == (500 if path == "/search" else 200)
    assert (problem["status"], problem["title"]) == (500, "Internal Server Error")
    assert is_silent(answer)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_a_search_that_the_pipeline_would_refuse_is_none_of_the_clients() -> None:
    """A pipeline that is done once its first hits are settled answers also who wants fewer hits than that."""
    async with asking(create_app(letters(until="settled", settle=5, top_k=10))) as client:
        answer = await client.get("/search", params={"q": "abcdefgh", "top_k": 2})
    assert answer.status_code == 200
    assert len(answer.json()["hits"]) == 2


async def test_a_time_budget_is_there_always() -> None:
    """A pipeline without a timeout, or with a longer one than clients may have, gets the most they may."""
    for timeout in (None, 30.0):
        arm = Watched("a", wait=True)
        app = create_app(Pipeline({"arm": arm.source}, timeout=timeout), limits=Limits(timeout=0.05))
        async with asking(app) as client:
            answer = await client.get("/search", params={"q": "x"})
        assert answer.json()["outcome"] == "deadline"


async def test_only_streams_are_taken_up_again() -> None:
    """An answer in one piece has no events: a header about them says nothing, as the description has it."""
    async with asking(create_app(letters())) as client:
        answer = await client.get("/search", params={"q": "x"}, headers={"Last-Event-ID": "3"})
    assert answer.status_code == 200


# --- odd data ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """An id that is no text."""

    page: int
    line: int


ODD = {
    "lone surrogates": ["\ud800", "a\udfffb"],
    "control characters": ["\x00", "a\r\nevent: done\r\ndata: {}\r\n\r\n", "\u2028"],
    "numbers": [1, 2.5, 10**40],
    "tuples": [("a", 1), (("deep",), None)],
    "dataclasses": [Place(1, 2), Place(3, 4)],
    "bytes": [b"\xff\x00"],
    "beyond ASCII": ["\N{SNOWMAN}", "\N{GRINNING FACE}"],
}


@pytest.mark.parametrize("ids", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("path", ["/search", "/search/stream"])
async def test_any_id_and_item_can_be_sent(path: str, ids: list[Any]) -> None:
    """What arms find never ends an answer, and cannot forge an event: it is JSON in one line of ASCII."""
    hits = [Hit(id_, item={"copy": id_, "score": math.inf, id_: [math.nan, object]}) for id_ in ids]
    app = create_app(Pipeline({"odd": Watched(*hits).source}))
    async with asking(app) as client:
        answer = await client.get(path, params={"q": "x"})
    final = answer.json() if path == "/search" else events_in(answer.text)[-2].data
    assert answer.status_code == 200
    assert answer.content.isascii()
    assert final["hits"] == (await Pipeline({"odd": Watched(*hits).source}).search("x")).to_dict()["hits"]
    assert len(final["hits"]) == len(ids)
    if path == "/search/stream":
        assert [event.kind for event in events_in(answer.text)].count("done") == 1


async def test_an_item_that_cannot_be_told_is_told_as_far_as_it_goes() -> None:
    """Items that hold themselves, or whose own text raises, are sent somehow."""

    class Shy:
        def __repr__(self) -> NoReturn:
            raise RuntimeError(SECRET)

    endless: list[Any] = []
    endless.append(endless)
    arm = Watched(Hit("a", item=endless), Hit("b", item=Shy()))
    async with asking(create_app(Pipeline({"arm": arm.source}))) as client:
        answer = await client.get("/search", params={"q": "x"})
    assert [hit["id"] for hit in answer.json()["hits"]] == ["a", "b"]
    assert is_silent(answer)


async def test_scores_without_an_end_are_null() -> None:
    """Arms may say infinite scores; `present` may even put them into hits; JSON has none of them."""

    def present(hit: FusedHit) -> FusedHit:
        return hit._replace(score=math.inf, normalized=-math.inf, upper=math.nan)

    arm = Watched(Hit("a", score=math.inf))
    async with asking(create_app(Pipeline({"arm": arm.source}), present=present)) as client:
        answer = await client.get("/search", params={"q": "x"})
    hit = answer.json()["hits"][0]
    assert (hit["score"], hit["normalized"], hit["upper"]) == (None, None, None)


async def test_arm_names_can_be_any_text() -> None:
    """Names with blanks, quotes, line ends or beyond ASCII are asked for by name, and headers stay ASCII."""
    names = ['"quoted"', "na\u00efve \N{SNOWMAN}", "a\r\nSet-Cookie: b=c", "x y;z=1", "100%&q=1#", "\x00"]
    pipeline = Pipeline([Arm(name, failing) for name in names])
    async with asking(create_app(pipeline)) as client:
        for name in names:
            answer = await client.get("/search", params={"q": "x", "arms": name})
            assert answer.status_code == 200, answer.text
            assert [arm["name"] for arm in answer.json()["coverage"]["arms"]] == [name]
            assert (
                answer.headers["rrf-coverage"] == 'degraded; outcome=complete; weight=0.000; reasons="failed"'
            )
        wrong = await client.get("/search", params={"q": "x", "arms": "none"})
        assert wrong.status_code == 400
        assert names[1] in wrong.json()["detail"]
        assert "set-cookie" not in wrong.headers
        assert (await client.get("/metrics")).status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "a\x00b",
        "x\r\nRRF-Coverage: full\r\n\r\nHTTP/1.1 200 OK",
        "\u202eright to left",
        "\N{GRINNING FACE}" * 100,
    ],
)
async def test_queries_are_text_and_nothing_else(query: str) -> None:
    """NUL, line ends and headers in a query reach the arms as they are, and nothing of the answer's head."""
    arm = Watched("a")
    async with asking(create_app(Pipeline({"arm": arm.source}))) as client:
        answer = await client.get("/search", params={"q": query})
    assert answer.status_code == 200
    assert arm.asked == [query]
    assert answer.headers.get_list("rrf-coverage") == ["full"]
