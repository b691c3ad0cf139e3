"""The joiner of Haystack: what it gives, compared with the component whose place it takes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack_kit import FRUITS, VEGETABLES, bm25, documents, ids
from hypothesis import given, settings
from hypothesis import strategies as st

from rrf_stream.integrations.haystack import FusionJoiner

rankings_of_few = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=4)
weights_of_four = st.lists(st.integers(1, 9).map(float), min_size=4, max_size=4)


@given(rankings_of_few, weights_of_four | st.none(), st.integers(0, 9) | st.none())
@settings(deadline=None, max_examples=200)
def test_order_and_scores_are_those_of_document_joiner(
    rankings: list[list[str]], weights: list[float] | None, top_k: int | None
) -> None:
    """Both give the same documents and order, but for sums that are equal and differ when rounded.

    The score of DocumentJoiner is the normalized one.
    """
    weights = None if weights is None else weights[: len(rankings)]
    lists = [documents(ranking) for ranking in rankings]
    theirs = DocumentJoiner(join_mode="reciprocal_rank_fusion", weights=weights).run(lists)["documents"]
    seen = list(dict.fromkeys(id_ for ranking in rankings for id_ in ranking))
    theirs.sort(key=lambda document: (-round(document.score, 12), seen.index(document.id)))
    ours = FusionJoiner(weights=weights).run(lists, top_k)["documents"]
    expected = theirs if top_k is None else theirs[:top_k]
    assert [document.id for document in ours] == [document.id for document in expected]
    normalized = [document.meta["rrf"]["normalized"] for document in ours]
    assert normalized == pytest.approx([document.score for document in expected])


def joined(joiner: FusionJoiner | DocumentJoiner) -> Pipeline:
    """Return a pipeline with two real retrievers before a joiner."""
    pipeline = Pipeline()
    pipeline.add_component("fruits", bm25(FRUITS))
    pipeline.add_component("vegetables", bm25(VEGETABLES))
    pipeline.add_component("joiner", joiner)
    pipeline.connect("fruits", "joiner")
    pipeline.connect("vegetables", "joiner")
    return pipeline


@pytest.mark.parametrize("query", ["apple", "pear", "tree", "red apple tree", "plum"])
def test_it_takes_the_place_of_document_joiner_in_a_pipeline(query: str) -> None:
    """Connected to the same two real retrievers, both give the same documents in the same order."""
    asked = {"fruits": {"query": query}, "vegetables": {"query": query}}
    ours, theirs = (
        joined(joiner).run(asked)["joiner"]
        for joiner in (FusionJoiner(), DocumentJoiner(join_mode="reciprocal_rank_fusion"))
    )
    assert ids(ours) == ids(theirs)
    on_loop = asyncio.run(joined(FusionJoiner()).run_async(asked))["joiner"]
    assert {document.id: document.score for document in on_loop["documents"]} == {
        document.id: document.score for document in ours["documents"]
    }


def test_equal_text_with_different_ids_stays_separate() -> None:
    """Documents are told apart by their ids alone: one text may be several, and one id has one version."""
    one, other, changed = (
        Document(id=id_, content=text) for id_, text in (("1", "text"), ("2", "text"), ("1", "changed"))
    )
    found = FusionJoiner().run([[one], [other, changed]])["documents"]
    assert [(document.id, document.content) for document in found] == [("1", "text"), ("2", "text")]


def test_documents_are_copies_with_score_and_explanation() -> None:
    """What was given is not changed; the copy has the score, and in its meta data how it came by it."""
    given_to = [documents("ab"), documents("b")]
    before = [document.to_dict() for each in given_to for document in each]
    first, second = FusionJoiner().run(given_to)["documents"]
    assert [document.to_dict() for each in given_to for document in each] == before
    assert first.score == pytest.approx(1 / 62 + 1 / 61)
    explained = {
        "rank": 1,
        "ranks": {"list_0": 2, "list_1": 1},
        "normalized": pytest.approx((61 / 62 + 1) / 2),
    }
    assert first.meta == {"page": 1, "rrf": explained}
    assert (second.id, second.meta["rrf"]["ranks"]) == ("a", {"list_0": 1})


def test_top_k_of_a_call_is_before_that_of_the_joiner() -> None:
    """The one of the constructor counts if the call has none; 0 is none at all."""
    joiner = FusionJoiner(top_k=2)
    lists = [documents("abcd")]
    assert [len(joiner.run(lists, top_k)["documents"]) for top_k in (None, 3, 0)] == [2, 3, 0]
    assert joiner.run([]) == {"documents": []}


def test_a_list_of_no_weight_adds_nothing() -> None:
    """Where DocumentJoiner appends its documents with score 0, here they are not there."""
    assert ids(FusionJoiner(weights=[1, 0]).run([documents("a"), documents("ab")])) == ["a"]


def test_an_empty_list_of_weights_is_none() -> None:
    """As with DocumentJoiner."""
    assert ids(FusionJoiner(weights=[]).run([documents("a"), documents("b")])) == ["a", "b"]


def test_a_saved_pipeline_has_the_joiner() -> None:
    """It is what it was when a pipeline is saved and loaded, by whoever trusts this package."""
    pipeline = joined(FusionJoiner(weights=[1.0, 2.0], top_k=3, rank_constant=10))
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["rrf_stream.*"])
    assert loaded.dumps() == pipeline.dumps()
    asked = {"fruits": {"query": "apple"}, "vegetables": {"query": "apple"}}
    assert loaded.run(asked) == pipeline.run(asked)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"weights": [0, 0]}, "weights must not all be 0"),
        ({"weights": [1, -1]}, "must be a finite number of at least 0, not -1"),
        ({"top_k": 0}, "top_k must be a whole number of at least 1"),
        ({"rank_constant": 0}, "rank_constant must be"),
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any], words: str) -> None:
    """They are refused when the pipeline is built, not when it runs."""
    with pytest.raises(ValueError, match=words):
        FusionJoiner(**wrong)


def test_a_wrong_number_of_lists_is_refused() -> None:
    """Each list needs a weight, if there are any; and no number of documents is negative."""
    with pytest.raises(ValueError, match="weights must be one for each of the 1 rankings, not 2"):
        FusionJoiner(weights=[1, 2]).run([documents("a")])
    with pytest.raises(ValueError, match="top_k must be"):
        FusionJoiner().run([documents("a")], top_k=-1)
