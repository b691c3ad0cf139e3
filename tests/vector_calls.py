"""The calls that the test vectors name: each makes one call in every form in which it can be made.

A form is a way to hand over the same input: as lists, as iterators that can be read once, as pages of a
stream. `test_vectors` holds every form to the same statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from rrf_stream import (
    Accumulator,
    ArmStatus,
    FusedHit,
    ReciprocalRankFusion,
    RRFConfig,
    RRFFusion,
    explain_fusion,
    fuse,
    reciprocal_rank_fusion,
    rrf_fuse,
    rrf_scores,
)

Given = dict[str, Any]


@dataclass
class Outcome:
    """What a call gave, as far as it says such things at all; None means that it does not."""

    order: list[object]
    scores: list[tuple[object, float]] | None = None
    tolerance: Fraction = Fraction(1, 10**15)
    normalized: list[tuple[object, float]] | None = None
    ranks: list[tuple[object, dict[str, int | None]]] | None = None
    shown: list[tuple[object, object]] | None = None
    offered: list[tuple[object, list[object]]] | None = None
    pairs: list[object] | None = None
    sums: dict[object, list[float]] = field(default_factory=dict)
    depth: dict[str, object] = field(default_factory=dict)
    arrivals: Callable[[], Iterator[Outcome]] | None = None


def number(text: Any) -> Any:
    """Return a number of the data; JSON has no NaN and no infinity, so those are strings."""
    return float(text) if text in {"nan", "inf", "-inf"} else text


def _options(given: Given) -> dict[str, Any]:
    """Return the arguments with strings for NaN and infinity turned into numbers."""

    def convert(value: Any) -> Any:
        if isinstance(value, list):
            return [number(one) for one in value]
        if isinstance(value, dict):
            return {name: number(one) for name, one in value.items()}
        return number(value)

    return {name: convert(value) if name in {"k", "weights"} else value for name, value in given.items()}


def _first_field(item: Any) -> Any:
    return item[0]


def _forms(lists: list[list[Any]]) -> list[Callable[[], Iterable[Iterable[Any]]]]:
    """Return two ways to hand the lists over: as they are, and as iterators that work once."""
    return [lambda: lists, lambda: iter([iter(one) for one in lists])]


def call_rrf_scores(given: Given) -> Iterator[Outcome]:
    options = _options(given)
    for form in _forms(options.pop("rank_lists")):
        scores = rrf_scores(form(), **options)
        yield Outcome(list(scores), list(scores.items()))


def call_rrf_fuse(given: Given) -> Iterator[Outcome]:
    options = _options(given)
    lists = options.pop("rank_lists")
    keyed = options.pop("key", None)
    chosen = options.pop("representative", None)
    assert keyed in {None, "first field"}
    assert chosen in {None, "longest second field"}
    for form in _forms(lists):
        offered: list[list[Any]] = []

        def longest(copies: Sequence[Any], offered: list[list[Any]] = offered) -> Any:
            offered.append(list(copies))
            return max(copies, key=lambda copy: len(copy[1]))

        if keyed:
            options["key"] = _first_field
        if chosen:
            options["representative"] = longest
        rows = rrf_fuse(form(), **options)
        yield Outcome(
            [name for name, _, _ in rows],
            [(name, score) for name, score, _ in rows],
            shown=[(name, item) for name, _, item in rows],
            offered=[(_first_field(copies[0]), copies) for copies in offered] if chosen else None,
        )


def call_explain_fusion(given: Given) -> Iterator[Outcome]:
    options = _options(given)
    for form in _forms(options.pop("rank_lists")):
        rows = explain_fusion(form(), **options)
        assert all(list(row) == ["identity", "ranks", "rrf_score"] for row in rows)
        yield Outcome(
            [row["identity"] for row in rows],
            [(row["identity"], row["rrf_score"]) for row in rows],
            ranks=[(row["identity"], row["ranks"]) for row in rows],
        )


def _ids(ranking: Any) -> list[Any]:
    """Return a ranking as written out, or counted down from a template."""
    if isinstance(ranking, dict):
        assert set(ranking) == {"template", "from", "to"}
        return [ranking["template"].format(n) for n in range(ranking["from"], ranking["to"] - 1, -1)]
    return list(ranking)


def call_reciprocal_rank_fusion(given: Given) -> Iterator[Outcome]:
    options = _options(given)
    lists = [_ids(ranking) for ranking in options.pop("rankings")]
    for form in _forms(lists):
        pairs = reciprocal_rank_fusion(form(), **options)
        yield Outcome(
            [name for name, _ in pairs], [(name, score) for name, score in pairs], pairs=list(pairs)
        )


def call_ReciprocalRankFusion(given: Given) -> Iterator[Outcome]:  # noqa: N802 - named as what it calls
    options = _options(given)
    for form in _forms(options.pop("ranked_key_lists")):
        yield Outcome(list(ReciprocalRankFusion().fuse(form(), **options)))


def call_RRFFusion(given: Given) -> Iterator[Outcome]:  # noqa: N802 - named as what it calls
    options = _options(given)
    semantic, lexical = ([tuple(pair) for pair in options.pop(side)] for side in ("semantic", "lexical"))
    fusion = RRFFusion(RRFConfig(**options))
    for rows in (fusion.fuse(semantic, lexical), fusion.fuse(iter(semantic), iter(lexical))):
        assert all(type(row) is tuple and len(row) == 2 for row in rows)
        yield Outcome([name for name, _ in rows], list(rows))


def call_normalize_scores(given: Given) -> Iterator[Outcome]:
    scored = [(name, number(score)) for name, score in given.pop("scored")]
    assert not given
    for normalize in (RRFFusion.normalize_scores, RRFFusion().normalize_scores):
        rows = normalize(scored)
        yield Outcome([name for name, _ in rows], list(rows), tolerance=Fraction(1, 10**9))


def call_agreement_depth(given: Given) -> Iterator[Outcome]:
    """Set "first in one list" against "at rank r in both" for every r down to a depth."""
    k, depth = given.pop("k"), given.pop("depth")
    assert not given

    def agreement_minus_lone(r: int, config: RRFConfig) -> float:
        semantic = [("lone", 1.0), *((f"s{n}", 0.5) for n in range(2, r)), ("both", 0.1)]
        lexical = [*((f"l{n}", 0.5) for n in range(1, r)), ("both", 0.1)]
        scores: dict[object, float] = dict(RRFFusion(config).fuse(semantic, lexical))
        return scores.get("both", 0.0) - scores["lone"]

    unlimited = RRFConfig(k=k, retrieve_k=depth, final_k=2 * depth)
    default_window = RRFConfig(k=k, final_k=2 * depth)
    differences = {r: agreement_minus_lone(r, unlimited) for r in range(2, depth + 1)}
    yield Outcome(
        [],
        depth={
            "leads": [r for r, difference in differences.items() if difference > 0],
            "ties": [r for r, difference in differences.items() if difference == 0],
            "leads within window": all(
                agreement_minus_lone(r, default_window) > 0 for r in range(2, default_window.retrieve_k + 1)
            ),
        },
    )


def _from_hits(hits: Sequence[FusedHit], **more: Any) -> Outcome:
    return Outcome(
        [hit.id for hit in hits],
        [(hit.id, hit.score) for hit in hits],
        normalized=[(hit.id, hit.normalized) for hit in hits],
        ranks=[(hit.id, dict(hit.ranks)) for hit in hits],
        **more,
    )


def _interleavings(left: dict[str, int]) -> Iterator[list[str]]:
    """Give every order in which single hits of the arms can arrive."""
    if not any(left.values()):
        yield []
    for arm, count in left.items():
        if count:
            for rest in _interleavings(left | {arm: count - 1}):
                yield [arm, *rest]


def _unnamed(rankings: Mapping[str, list[object]], options: Given) -> Outcome:
    """Fuse the same as a list of iterators, with weights by position, and translate the arms' names back."""
    names = {f"list_{position}": arm for position, arm in enumerate(rankings)}
    if "weights" in options:
        options = options | {"weights": [options["weights"].get(arm, 1.0) for arm in rankings]}
    hits = fuse([iter(ids) for ids in rankings.values()], **options)
    outcome = _from_hits(hits)
    outcome.ranks = [(hit.id, {names[arm]: rank for arm, rank in hit.ranks.items()}) for hit in hits]
    return outcome


def call_fuse(given: Given) -> Iterator[Outcome]:
    options = _options(given)
    rankings, cut_off = options.pop("rankings"), options.pop("cut_off", [])
    streamed = {name: value for name, value in options.items() if name != "weights"}
    streamed.setdefault("top_k", 100)
    weights = dict.fromkeys(rankings, 1.0) | options.get("weights", {})

    def stream(schedule: Iterable[tuple[str, list[object]]]) -> Outcome:
        accumulator = Accumulator(weights, **streamed)
        for arm, page in schedule:
            accumulator.add(arm, page)
        for arm in rankings:
            accumulator.close(arm, ArmStatus.DEADLINE if arm in cut_off else ArmStatus.EXHAUSTED)
        snapshot = accumulator.snapshot()
        assert snapshot.final
        assert snapshot.coverage.degraded is bool(cut_off)
        return _from_hits(snapshot.hits)

    def arrivals() -> Iterator[Outcome]:
        for order in _interleavings({arm: len(ids) for arm, ids in rankings.items()}):
            left = {arm: iter(ids) for arm, ids in rankings.items()}
            yield stream((arm, [next(left[arm])]) for arm in order)

    yield _from_hits(fuse(rankings, **options))
    yield _unnamed(rankings, options)
    outcome = stream(rankings.items())
    outcome.arrivals = arrivals
    yield outcome


def call_rank_sums(given: Given) -> Iterator[Outcome]:
    """Give each id a fusion of its own, so that ranks may collide; where they do not, fuse all as well."""
    k, table = given.pop("rank_constant"), given.pop("ranks")
    assert not given

    def filled(places: Mapping[int, object], arm: int) -> list[object]:
        return [places.get(rank, ("filler", arm, rank)) for rank in range(1, max(places) + 1)]

    scores = []
    for name, ranks in table.items():
        hits = fuse([filled({rank: name}, arm) for arm, rank in enumerate(ranks)], rank_constant=k)
        scores.append((name, next(hit.score for hit in hits if hit.id == name)))
    shared = [{ranks[arm]: name for name, ranks in table.items()} for arm in range(len(ranks))]
    order: list[object] = []
    if all(len(places) == len(table) for places in shared):
        hits = fuse([filled(places, arm) for arm, places in enumerate(shared)], rank_constant=k)
        order = [hit.id for hit in hits if hit.id in table]
    sums = {name: [1 / (k + rank) for rank in ranks] for name, ranks in table.items()}
    yield Outcome(order, scores, sums=sums)


CALLS: Mapping[str, Callable[[Given], Iterator[Outcome]]] = {
    name.removeprefix("call_"): call for name, call in sorted(globals().items()) if name.startswith("call_")
}
