"""Certificates by example: states worked out by hand, and what is said of each."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from rrf_stream import (
    Accumulator,
    Arm,
    ArmStatus,
    Hit,
    Kernel,
    RankBiased,
    Snapshot,
    TheoreticalMinMax,
    fuse,
)


def state(
    arms: dict[str, tuple[list[Any], int, ArmStatus | None]], **options: Any
) -> tuple[Accumulator, Snapshot]:
    """Return a fusion of arms that are given by what they delivered, their window, and how they closed."""
    weights = options.pop("weights", {})
    accumulator = Accumulator(
        [Arm(name, [], window=window, weight=weights.get(name, 1)) for name, (_, window, _) in arms.items()],
        **{"bounds": "ranks", **options},
    )
    for name, (ids, _, status) in arms.items():
        accumulator.add(name, ids)
        if status is not None:
            accumulator.close(name, status)
    return accumulator, accumulator.snapshot()


def intervals(snapshot: Snapshot) -> dict[Any, tuple[int | None, int | None]]:
    return {hit.id: (hit.best_rank, hit.worst_rank) for hit in snapshot.hits}


ENDED = ArmStatus.EXHAUSTED


# --- worked states ----------------------------------------------------------------------------------------


def test_two_arms_that_agree_on_the_first_settle_it() -> None:
    """Whatever comes, "a" stays first; "b" and "c" may still be passed by each other and by new ids."""
    _, snapshot = state({"dense": (["a", "b"], 3, None), "lexical": (["a", "c"], 3, None)})
    assert snapshot.ids == ["a", "b", "c"]
    assert (snapshot.settled, snapshot.exact) == (1, 1)
    assert (snapshot.settled_set, snapshot.exact_set) == (1, 1)
    assert intervals(snapshot) == {"a": (1, 1), "b": (2, 4), "c": (2, 4)}
    a, b, _ = snapshot.hits
    assert a.upper == a.score == 2 / 61
    assert b.upper == pytest.approx(1 / 62 + 1 / 63, rel=1e-15)
    assert snapshot.blocking_arms == ("dense", "lexical")
    assert snapshot.unseen_possible is True
    assert snapshot.contenders == ()
    assert snapshot.theta == pytest.approx((2 / 63) / (1 / 62), rel=1e-12)


def test_a_cut_makes_a_promise_of_the_stream_but_not_of_what_was_cut() -> None:
    """Cut off at its deadline, an arm can change nothing any more, yet it might have."""
    arms = {"dense": (["a"], 4, None), "lexical": (["a", "c", "b"], 3, ENDED)}
    accumulator, running = state(arms)
    assert running.ids == ["a", "c", "b"]
    assert (running.settled, running.exact) == (1, 1)
    assert intervals(running) == {"a": (1, 1), "c": (2, 4), "b": (2, 5)}
    assert [hit.upper for hit in running.hits[1:]] == [1 / 62 + 1 / 62, pytest.approx(1 / 63 + 1 / 62)]
    assert running.blocking_arms == ("dense",)
    accumulator.close("dense", ArmStatus.DEADLINE)
    cut = accumulator.snapshot()
    assert (cut.settled, cut.exact) == (3, 1)
    assert intervals(cut) == {"a": (1, 1), "c": (2, 2), "b": (3, 3)}
    assert [hit.upper for hit in cut.hits] == [hit.score for hit in cut.hits]
    assert (cut.unseen_possible, cut.blocking_arms, cut.contenders) == (False, (), ())


def test_each_unread_rank_goes_to_one_document() -> None:
    """Two ranks of a silent arm let at most two documents pass the first: its worst rank is 3, not 6."""
    _, snapshot = state({"dense": ([*"abcdef"], 6, ENDED), "lexical": ([], 2, None)})
    assert snapshot.ids == [*"abcdef"]
    assert (snapshot.settled, snapshot.exact) == (0, 0)
    worst = {hit.id: hit.worst_rank for hit in snapshot.hits}
    assert (worst["a"], worst["b"], worst["f"]) == (3, 4, 8)
    assert snapshot.hits[0].certainly_within(3)
    assert not snapshot.hits[0].certainly_within(2)


def test_a_tie_is_certain_only_if_the_tie_rule_decides_it_already() -> None:
    """An id of a later arm can tie with the first and loses; one of an earlier arm can and wins."""
    _, early = state({"dense": (["a"], 1, ENDED), "lexical": ([], 1, None)})
    assert (early.settled, early.exact, intervals(early)) == (1, 1, {"a": (1, 1)})
    _, late = state({"dense": ([], 1, None), "lexical": (["a"], 1, ENDED)})
    assert (late.settled, late.exact, intervals(late)) == (0, 0, {"a": (1, 2)})
    assert late.blocking_arms == ("dense",)


def test_a_silent_arm_of_little_weight_settles_more_with_a_steep_kernel() -> None:
    """At 60 its first rank can turn everything round; at 1 the first of the others is certain."""
    arms = {"p": (["a", "b", "c"], 3, ENDED), "q": (["a", "c", "b"], 3, ENDED), "silent": ([], 2, None)}
    _, flat = state(arms, weights={"silent": 0.25})
    assert flat.ids == ["a", "b", "c"]
    assert (flat.settled, flat.exact) == (0, 0)
    assert intervals(flat) == dict.fromkeys("abc", (1, 3))
    _, steep = state(arms, weights={"silent": 0.25}, rank_constant=1)
    assert (steep.settled, steep.exact) == (1, 1)
    assert intervals(steep) == {"a": (1, 1), "b": (2, 3), "c": (2, 3)}


# --- what is there, and what is not -----------------------------------------------------------------------


def test_contenders_are_those_outside_that_can_still_enter() -> None:
    """They are listed in their present order, as they were at the moment of the snapshot."""
    accumulator, snapshot = state(
        {"p": (["a", "b", "c", "d"], 4, ENDED), "q": (["a", "x"], 3, None)}, top_k=2, rank_constant=1
    )
    assert snapshot.ids == ["a", "b"]
    assert snapshot.contenders is not None
    accumulator.add("q", ["d"])
    later = accumulator.snapshot()
    assert (later.ids, later.contenders, later.settled) == (["a", "d"], (), 2)
    # 1/3 for "b"; "x" has 1/3 too, but loses; "c" may come to 1/4 + 1/4, "d" to 1/5 + 1/4.
    assert snapshot.contenders == ("c", "d")
    assert snapshot.unseen_possible is False
    assert snapshot.theta == pytest.approx((1 / 4 + 1 / 4) / (1 / 3))


def test_a_set_can_be_certain_before_its_order() -> None:
    """The first two may still change places; nobody else comes near them, nor near the third."""
    _, snapshot = state(
        {"p": (["a", "b", "c"], 3, ENDED), "q": (["b", "a", "c"], 3, ENDED), "r": ([], 3, None)},
        weights={"r": 0.1},
        rank_constant=1,
        top_k=3,
    )
    assert (snapshot.settled, snapshot.settled_set) == (0, 3)
    assert (snapshot.exact, snapshot.exact_set) == (0, 3)


def test_an_arm_without_weight_is_waited_for_by_nobody() -> None:
    """It lists nothing and decides no tie, so while it runs all is settled."""
    _, snapshot = state({"p": (["a", "b"], 2, ENDED), "mute": (["b"], 9, None)}, weights={"mute": 0})
    assert (snapshot.settled, snapshot.exact, snapshot.unseen_possible) == (2, 2, False)


def test_nothing_yet_waits_for_every_open_arm() -> None:
    """With no hit there is nothing to settle, and the first position waits for whoever may fill it."""
    _, snapshot = state({"p": ([], 2, None), "q": ([], 2, ENDED), "r": ([], 2, None)})
    assert (snapshot.settled, snapshot.exact, snapshot.blocking_arms) == (0, 0, ("p", "r"))
    assert snapshot.theta == float("inf")
    assert snapshot.to_dict()["theta"] is None


@pytest.mark.parametrize(("repeats", "pass_it"), [("consume", 1), ("skip", 3)])
def test_repeats_use_up_ranks_or_do_not(repeats: Any, pass_it: int) -> None:
    """With "consume" two repeats leave one rank of a window of 4 to others, with "skip" three."""
    accumulator = Accumulator([Arm("z", [], window=4), Arm("a", [])], repeats=repeats, bounds="ranks")
    accumulator.add("z", ["x", "x", "x"])
    accumulator.add("a", [*range(39), "y"])
    accumulator.close("a", ENDED)
    last = accumulator.snapshot().hits[-1]
    assert last.worst_rank == last.rank + pass_it


def test_without_limit_the_bounds_are_finite() -> None:
    """A window of None leaves any number of ranks, but only so many are worth enough."""
    accumulator = Accumulator({"a": 1, "b": 1}, window=None, bounds="ranks", rank_constant=1)
    accumulator.add("a", ["x", "y"])
    accumulator.close("a", ENDED)
    snapshot = accumulator.snapshot()
    # One rank of "b" is worth more than "y", one as much, which loses against it: with "x" ahead, 1 can pass.
    assert intervals(snapshot) == {"x": (1, 2), "y": (1, 3)}


def test_scores_are_bounded_by_the_last_one() -> None:
    """With a kernel of scores the next can be as high as the last, and no higher."""
    accumulator = Accumulator(
        [Arm("s", [], window=3), Arm("t", [], window=3)], kernel=TheoreticalMinMax(0.0), bounds="ranks"
    )
    accumulator.add("s", [Hit("a", 4.0), Hit("b", 1.0)])
    accumulator.add("t", [Hit("a", 2.0), Hit("c", 1.0)])
    snapshot = accumulator.snapshot()
    assert [(hit.id, hit.score, hit.upper) for hit in snapshot.hits] == [
        ("a", 2.0, 2.0),
        ("c", 0.5, 0.75),
        ("b", 0.25, 0.75),
    ]
    assert snapshot.settled == 1
    assert snapshot.contenders == ()
    top = Accumulator([Arm("s", []), Arm("t", [])], kernel=TheoreticalMinMax(0.0), top_k=1)
    top.add("s", [Hit("a", 4.0), Hit("b", 3.0), Hit("c", 0.5)])
    top.close("s", ENDED)
    assert top.snapshot().contenders == ("b", "c")
    top.add("t", [Hit("z", 8.0), Hit("y", 4.0)])
    assert top.snapshot().contenders == ("b",)  # "z" has 1, as "a" has; "b" may come to 3/4 + 1/2


def test_off_says_nothing() -> None:
    """With `bounds="off"` everything that speaks of the future is None, and asking for it is an error."""
    accumulator = Accumulator({"a": 1}, bounds="off")
    accumulator.add("a", ["x"])
    snapshot = accumulator.snapshot()
    names = ("settled", "exact", "settled_set", "exact_set", "contenders", "unseen_possible", "theta")
    assert {getattr(snapshot, name) for name in (*names, "blocking_arms")} == {None}
    with pytest.raises(ValueError, match="bounds='ranks'"):
        snapshot.hits[0].certainly_within(1)
    with pytest.raises(ValueError, match="n must be"):
        snapshot.hits[0].certainly_within(0)
    with pytest.raises(TypeError, match="n must be"):
        snapshot.hits[0].certainly_within(1.5)  # type: ignore[arg-type]  # that is the mistake


def test_settled_gives_upper_scores_but_no_ranks() -> None:
    """The default tells how much is certain; the best and worst ranks are to be asked for."""
    accumulator = Accumulator({"a": 1, "b": 1})
    accumulator.add("a", ["x"])
    (hit,) = accumulator.snapshot().hits
    assert (hit.upper, hit.best_rank, hit.worst_rank) == (2 / 61, None, None)
    with pytest.raises(ValueError, match="bounds='ranks'"):
        hit.certainly_within(1)


class Rises:
    """A kernel that cannot be bounded, and says so."""

    unbounded = "its ranks are worth more and more"

    def units(self, weight: Any, ranks: range) -> list[int]:
        return [int(weight * rank) << 80 for rank in ranks]


def test_a_kernel_that_cannot_be_bounded_is_refused_with_the_reason() -> None:
    """Unless nothing is to be said of the future."""
    kernel: Kernel = Rises()
    for bounds in ("settled", "ranks"):
        with pytest.raises(ValueError, match=r"^bounds must be 'off'.*more and more"):
            Accumulator({"a": 1}, kernel=kernel, bounds=bounds)
    accumulator = Accumulator({"a": 1}, kernel=kernel, bounds="off")
    accumulator.add("a", ["x", "y"])
    assert accumulator.snapshot().ids == ["y", "x"]


def test_hits_with_and_without_bounds_are_equal() -> None:
    """A snapshot shows what `fuse` gives; what differs is what is said of the future."""
    _, snapshot = state({"p": (["a", "b"], 3, None), "q": (["b"], 1, ENDED)})
    batch = fuse({"p": ["a", "b"], "q": ["b"]})
    assert list(snapshot.hits) == batch
    assert [one != other for one, other in zip(snapshot.hits, batch, strict=True)] == [False, False]
    assert snapshot.hits[0] != batch[1]
    assert snapshot.hits[0] != ("b",)
    assert (snapshot.hits[1].upper, batch[1].upper) == (snapshot.hits[1].score, None)


# --- along a stream ---------------------------------------------------------------------------------------


def test_what_is_settled_is_news() -> None:
    """There is a snapshot when more is settled, though no hit has changed; and none when nothing has."""
    accumulator = Accumulator([Arm("p", [], window=3), Arm("q", [], window=9)], top_k=1, rank_constant=1)
    accumulator.add("p", ["a", "b"])
    accumulator.add("q", ["b"])
    first = accumulator.refresh()
    assert first is not None
    assert (first.ids, first.settled) == (["b"], 0)
    accumulator.add("q", ["c"])
    second = accumulator.refresh()
    assert second is not None
    assert (second.ids, second.settled, second.hits[0].score) == (["b"], 1, first.hits[0].score)
    accumulator.add("q", ["d"])
    assert accumulator.changed
    assert accumulator.refresh() is None
    assert not accumulator.changed


def test_certificates_can_be_sent() -> None:
    """Copied, pickled or as JSON, a snapshot says of the future what it said at its moment."""
    accumulator, snapshot = state(
        {"p": (["a", "b", "c"], 3, ENDED), "q": (["a"], 3, None)}, top_k=1, rank_constant=1
    )
    sent = [pickle.loads(pickle.dumps(snapshot)), copy.deepcopy(snapshot), copy.copy(snapshot)]  # noqa: S301
    accumulator.add("q", ["z"])
    plain = json.loads(json.dumps(snapshot.to_dict(), allow_nan=False))
    for one in sent:
        assert one == snapshot
        assert (one.contenders, one.theta) == (snapshot.contenders, snapshot.theta)
    assert plain["contenders"] == list(snapshot.contenders or ())
    assert plain["settled"] == snapshot.settled == 1
    assert plain["theta"] == snapshot.theta


@pytest.mark.parametrize("bounds", ["settled", "ranks"])
def test_sixty_four_arms_are_judged_as_two_are(bounds: Any) -> None:
    """All but one of many arms agree on an order; the silent one cannot turn it, whatever it ranks."""
    arms = [Arm(f"arm{number}", [], window=5) for number in range(64)]
    accumulator = Accumulator(arms, bounds=bounds, kernel=RankBiased(0.5))
    for arm in arms[:-1]:
        accumulator.add(arm.name, ["a", "b", "c", "d", "e"])
    snapshot = accumulator.snapshot()
    assert snapshot.ids == [*"abcde"]
    assert (snapshot.settled, snapshot.exact, snapshot.blocking_arms) == (5, 5, ("arm63",))
    if bounds == "ranks":
        assert intervals(snapshot) == {id_: (rank, rank) for rank, id_ in enumerate("abcde", 1)}
