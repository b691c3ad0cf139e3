"""The words of the page: each state of a search in one line. What `words.js` and `problems.js` say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import page_kit
import pytest

if TYPE_CHECKING:
    from playwright.async_api import Page as Tab

pytest_plugins = ["page_fixtures"]
pytestmark = pytest.mark.asyncio(loop_scope="session")


def report(name: str, status: str, **more: Any) -> dict[str, Any]:
    """Return what a snapshot says of one arm."""
    return {"name": name, "status": status, "received": 5, "elapsed": 0.3, "error": None} | more


LEXICAL = report("lexical", "exhausted", elapsed=0.01)
FULL = [LEXICAL, report("dense", "window_full")]
WAITING = [LEXICAL, report("dense", "waiting")]
LATE = [LEXICAL, report("dense", "deadline")]
SPARED = [LEXICAL, report("dense", "stopped")]


def snapshot(hits: int, arms: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a snapshot as the server sends it, as far as words depend on it."""
    short = any(arm["status"] not in {"waiting", "streaming", "exhausted", "window_full"} for arm in arms)
    return {
        "hits": [{"id": number, "rank": number + 1, "item": None, "ranks": {}} for number in range(hits)],
        "elapsed": 0.31,
        "final": "outcome" in more,
        "outcome": None,
        "coverage": {"degraded": short, "arms": arms},
        "settled": hits if "outcome" in more else 0,
        "exact": hits,
        "blocking_arms": [],
    } | more


MANY = [
    "a failed (OSError)",
    "b went silent and was cut off after 300 ms",
    "c was left out, to be tried again in 12 s",
    "d was left out",
    "e was not asked, as there was no room",
]

LINES: list[tuple[dict[str, Any], str, str, str]] = [
    # on the way
    (snapshot(0, WAITING, blocking_arms=["dense"]), "live", "waiting for dense", ""),
    (
        snapshot(10, WAITING, settled=7, blocking_arms=["dense"]),
        "live",
        "7 of 10 are final, waiting for dense",
        "10 results so far",
    ),
    (snapshot(10, WAITING, settled=1), "live", "1 of 10 is final, waiting for dense", "10 results so far"),
    (snapshot(10, WAITING), "live", "none of 10 is final yet, waiting for dense", "10 results so far"),
    (snapshot(1, WAITING), "live", "the only one is not final yet, waiting for dense", "1 result so far"),
    (snapshot(10, WAITING, settled=10), "live", "all 10 are final, waiting for dense", "10 results so far"),
    (snapshot(1, WAITING, settled=1), "live", "the only one is final, waiting for dense", "1 result so far"),
    (snapshot(10, WAITING, settled=None, blocking_arms=None), "live", "10 so far, waiting for dense", ""),
    (
        snapshot(4, [*WAITING, report("graph", "failed", error="OSError")], settled=2),
        "live",
        "2 of 4 are final, waiting for dense; graph failed (OSError)",
        "4 results so far",
    ),
    (
        snapshot(0, [report(name, "waiting") for name in "abcdef"]),
        "live",
        "waiting for a, b, c and 3 more",
        "",
    ),
    (snapshot(3, FULL, settled=3), "live", "all 3 are final, about to end", "3 results so far"),
    # the end, with nothing missing
    (snapshot(10, FULL, outcome="complete"), "final", "final", "10 results in 310 ms"),
    (snapshot(1, FULL, outcome="complete", elapsed=2.04), "final", "final", "1 result in 2 s"),
    (
        snapshot(10, FULL, outcome="complete", exact=None, settled=None),
        "final",
        "final",
        "10 results in 310 ms",
    ),
    (snapshot(2, FULL, outcome="complete", elapsed=None), "final", "final", "2 results"),
    (snapshot(0, FULL, outcome="complete"), "final", "nothing found", "in 310 ms"),
    (
        snapshot(10, SPARED, outcome="settled"),
        "final",
        "final, dense was not needed any more",
        "10 results in 310 ms",
    ),
    # the end, with something missing
    (
        snapshot(10, LATE, outcome="deadline", exact=6),
        "short",
        "dense was cut off after 300 ms: 6 of these would be the same anyway",
        "10 results in 310 ms",
    ),
    (
        snapshot(10, LATE, outcome="deadline"),
        "short",
        "dense was cut off after 300 ms: all 10 would be the same anyway",
        "10 results in 310 ms",
    ),
    (
        snapshot(1, LATE, outcome="deadline"),
        "short",
        "dense was cut off after 300 ms: this one would be the same anyway",
        "1 result in 310 ms",
    ),
    (
        snapshot(10, LATE, outcome="deadline", exact=0),
        "short",
        "dense was cut off after 300 ms: these might have been others",
        "10 results in 310 ms",
    ),
    (
        snapshot(1, LATE, outcome="deadline", exact=0),
        "short",
        "dense was cut off after 300 ms: this one might have been another",
        "1 result in 310 ms",
    ),
    (
        snapshot(10, LATE, outcome="deadline", exact=None, settled=None),
        "short",
        "dense was cut off after 300 ms: these 10 are final",
        "10 results in 310 ms",
    ),
    (
        snapshot(0, LATE, outcome="deadline"),
        "short",
        "nothing found; dense was cut off after 300 ms",
        "in 310 ms",
    ),
    (
        snapshot(10, [*LATE, report("graph", "timed_out")], outcome="deadline", exact=2),
        "short",
        "dense and graph were cut off after 300 ms: 2 of these would be the same anyway",
        "10 results in 310 ms",
    ),
    (
        snapshot(
            5,
            [
                report("a", "failed", error="OSError"),
                report("b", "idle"),
                report("c", "skipped", retry_after=12.0),
                report("d", "skipped", retry_after=None),
                report("e", "rejected"),
            ],
            outcome="complete",
            exact=1,
        ),
        "short",
        "; ".join(MANY) + ": 1 of these would be the same anyway",
        "5 results in 310 ms",
    ),
    (
        snapshot(10, SPARED, outcome="quorum", exact=6),
        "short",
        "dense was not waited for: 6 of these would be the same anyway",
        "10 results in 310 ms",
    ),
    (
        snapshot(10, SPARED, outcome="stopped", exact=6),
        "short",
        "the search was stopped before its end: 6 of these would be the same anyway",
        "10 results in 310 ms",
    ),
    (
        snapshot(3, [LEXICAL, report("dense", "failed", error="OSError")], outcome="failed", exact=0),
        "problem",
        "dense failed (OSError), and there is no full answer without it",
        "3 results had arrived",
    ),
    (
        snapshot(0, [report("dense", "skipped", retry_after=3.2)], outcome="failed"),
        "problem",
        "dense was left out, to be tried again in 3.2 s, and there is no full answer without it",
        "",
    ),
]


async def evaluate(tab: Tab, served: page_kit.Server, expression: str, argument: Any = None) -> Any:
    """Evaluate an expression in the page, in which `m` has what the modules of words offer."""
    await tab.goto(f"{served.url}static/icon.svg")
    modules = "{...await import('/static/words.js'), ...await import('/static/problems.js')}"
    return await tab.evaluate(f"async (a) => {{ const m = {modules}; return {expression}; }}", argument)


async def test_every_state_has_its_line(tab: Tab, served: page_kit.Server) -> None:
    """A snapshot is told in the words of the table, with the kind that colours it and the detail below."""
    said = await evaluate(tab, served, "a.map(m.lineOf)", [state for state, *_ in LINES])
    expected = [{"kind": kind, "words": words, "detail": detail} for _, kind, words, detail in LINES]
    assert said == expected


PROBLEMS: list[tuple[dict[str, Any], int, str, str]] = [
    (
        {"type": "lost", "status": 0},
        3,
        "the connection was lost",
        "nothing is searched again by itself; what is shown stays as it was",
    ),
    ({"status": 204}, 0, "this search was answered before", "it is not repeated by itself"),
    (
        {"status": 400, "detail": "q must be short"},
        0,
        "the server did not understand this search",
        "q must be short",
    ),
    (
        {"status": 401, "title": "Unauthorized"},
        0,
        "the server does not let you search here",
        "Unauthorized",
    ),
    ({"status": 404, "title": "Not Found"}, 0, "there is no search at this address", "Not Found"),
    ({"status": 429, "retry_after": 3}, 0, "too many searches at once, try again in 3 s", ""),
    (
        {"status": 429, "retry_after": None, "detail": "8 are open"},
        0,
        "too many searches at once, try again soon",
        "8 are open",
    ),
    ({"status": 503, "retry_after": 0}, 0, "the server is busy, try again in 1 s", ""),
    ({"status": 500, "title": "Internal Server Error"}, 0, "the search failed", "Internal Server Error"),
    ({"status": 418}, 0, "the search failed", "status 418"),
]


async def test_every_problem_has_its_line(tab: Tab, served: page_kit.Server) -> None:
    """A problem is told in the words of the table, and that what is shown stays."""
    given = [[{"type": "about:blank", "title": ""} | problem, shown] for problem, shown, *_ in PROBLEMS]
    said = await evaluate(tab, served, "a.map(([problem, shown]) => m.lineOfProblem(problem, shown))", given)
    expected = [{"kind": "problem", "words": words, "detail": detail} for *_, words, detail in PROBLEMS]
    assert said == expected


async def test_times_are_told_in_the_unit_that_people_choose(tab: Tab, served: page_kit.Server) -> None:
    """Milliseconds below a second, tens of them from 100 on, then seconds with at most one digit."""
    times = {
        0.0002: "under 1 ms",
        0.004: "4 ms",
        0.3: "300 ms",
        0.0994: "99 ms",
        0.3014: "300 ms",
        0.3056: "310 ms",
        0.994: "990 ms",
        0.996: "1 s",
        1.25: "1.3 s",
        2: "2 s",
        12.4: "12 s",
        75: "75 s",
    }
    assert await evaluate(tab, served, "a.map(m.duration)", [*times]) == [*times.values()]


async def test_stopping_tells_how_far_it_got(tab: Tab, served: page_kit.Server) -> None:
    """A search that the person stopped is told by what had arrived."""
    states = [
        None,
        snapshot(0, WAITING),
        snapshot(10, WAITING, settled=4),
        snapshot(3, WAITING, settled=None),
    ]
    said = await evaluate(tab, served, "a.map((state) => m.lineWhenStopped(state).words)", states)
    nothing = "stopped before anything arrived"
    assert said == [nothing, nothing, "stopped, 4 of 10 are final", "stopped, 3 so far"]


async def test_former_results_are_called_by_what_differs(tab: Tab, served: page_kit.Server) -> None:
    """The rows of the search before are named by their query, or else by their time."""
    now = {"q": "ants", "ms": 300}
    before = [{"q": "bees", "ms": 300}, {"q": "ants", "ms": 2000}, now]
    names = await evaluate(tab, served, "a[0].map((one) => m.nameOf(one, a[1]))", [before, now])
    assert names == ["the results for “bees”", "the results within 2 s", "the results of before"]


async def test_what_is_read_out_names_the_search(tab: Tab, served: page_kit.Server) -> None:
    """The words at the end are read with the query that they are about."""
    line = {"kind": "final", "words": "final", "detail": "10 results in 310 ms"}
    assert await evaluate(tab, served, "m.spoken(a, 'ants')", line) == "“ants”: final. 10 results in 310 ms."
