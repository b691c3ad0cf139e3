"""The retriever of LlamaIndex: what it gives, compared with the one whose place it takes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from framework_kit import fail
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, TextNode
from llamaindex_kit import WAYS, Asynchronous, Given, aretrieve, fused, ids, nodes, retrieve

from rrf_stream import Breaker, InverseSquareRank
from rrf_stream.integrations.llamaindex import FusionRetriever

ALL = 1000


def theirs(*rankings: list[str], top: int = ALL) -> list[NodeWithScore]:
    """Return what LlamaIndex makes of the rankings."""
    retriever = QueryFusionRetriever(
        [Given(ranking) for ranking in rankings],
        llm=MockLLM(),
        mode=FUSION_MODES.RECIPROCAL_RANK,
        num_queries=1,
        similarity_top_k=top,
        use_async=False,
    )
    return retriever.retrieve("q")


rankings_of_few = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=4)


@given(rankings_of_few)
@settings(deadline=None, max_examples=60)
def test_order_and_scores_are_those_of_query_fusion_retriever(rankings: list[list[str]]) -> None:
    """Both give the same nodes, scores and order, but for sums that are equal and differ when rounded."""
    ours = FusionRetriever([Given(ranking) for ranking in rankings], similarity_top_k=ALL).retrieve("q")
    seen = list(dict.fromkeys(id_ for ranking in rankings for id_ in ranking))
    expected = theirs(*rankings)
    expected.sort(key=lambda node: (-round(node.get_score(), 12), seen.index(node.node_id)))
    assert ids(ours) == ids(expected)
    assert [node.score for node in ours] == pytest.approx([node.score for node in expected])


def test_equal_text_with_different_ids_stays_separate() -> None:
    """Three nodes with one text are three, where QueryFusionRetriever makes them one."""
    same = [NodeWithScore(node=TextNode(id_=id_, text="the same"), score=1.0) for id_ in "abc"]
    found = FusionRetriever([Given(same[:2]), Given(same[2:])], similarity_top_k=5).retrieve("q")
    assert ids(found) == ["a", "c", "b"]
    other = QueryFusionRetriever([Given(same)], llm=MockLLM(), num_queries=1, use_async=False)
    assert len(other.retrieve("q")) == 1


def test_one_id_is_one_node_whatever_its_text() -> None:
    """Two versions of a node are one, in the version of the first retriever."""
    old, new = (NodeWithScore(node=TextNode(id_="a", text=text)) for text in ("old", "new"))
    (found,) = FusionRetriever([Given([old]), Given([new])]).retrieve("q")
    assert found.text == "old"
    assert found.score == pytest.approx(2 / 60)


def test_the_nodes_that_retrievers_gave_are_not_changed() -> None:
    """Score and explanation are on copies, which share the node; its hash stays as it was."""
    given_by = Given("ab")
    before = [node.model_dump() for node in given_by.found]
    found = FusionRetriever([given_by, Given("b")]).retrieve("q")
    assert [node.model_dump() for node in given_by.found] == before
    assert found[1].node is given_by.found[0].node
    assert found[1] is not given_by.found[0]
    assert found[1].node.hash == nodes("a")[0].node.hash


def test_nodes_say_how_they_came_by_their_score() -> None:
    """Each has its rank for each retriever that found it, and how far all of them got; its text has not."""
    retriever = FusionRetriever({"text": Given("ab"), "vectors": Given("bc"), "remote": Given("x", fail)})
    first, second = fused(retriever.retrieve("q"))
    assert (first.node_id, first.ranks, second.ranks) == ("b", {"text": 2, "vectors": 1}, {"text": 1})
    assert first.coverage == {"text": "exhausted", "vectors": "exhausted", "remote": "failed"}
    assert "vectors" not in first.get_content() + str(first.metadata)
    assert first.class_name() == first.model_dump()["class_name"] == "FusedNode"


def test_arms_of_a_list_are_numbered() -> None:
    """Without names the retrievers are called by their place."""
    (found,) = fused(FusionRetriever([Given("a"), Given("a")]).retrieve("q"))
    assert found.ranks == {"retriever_0": 1, "retriever_1": 1}


def test_similarity_top_k_is_2_and_can_be_set_later() -> None:
    """As in LlamaIndex, the attribute may be changed between two queries."""
    retriever = FusionRetriever([Given("abcdef")])
    assert ids(retriever.retrieve("q")) == ["a", "b"]
    retriever.similarity_top_k = 4
    assert ids(retriever.retrieve("q")) == ["a", "b", "c", "d"]


def test_lists_are_read_to_their_ends() -> None:
    """There is no window: what is found at rank 200 by both is better than what one finds at rank 1."""
    common = [f"common {number}" for number in range(200)]
    arms = [Given([*common, "x"]), Given([*reversed(common), "x"])]
    retriever = FusionRetriever(arms, similarity_top_k=ALL)
    (last,) = (node for node in fused(retriever.retrieve("q")) if node.node_id == "x")
    assert last.ranks == {"retriever_0": 201, "retriever_1": 201}


def test_weights_count() -> None:
    """A weight is given for each retriever by place, and decides."""
    retriever = FusionRetriever([Given("a"), Given("b"), Given("c")], retriever_weights=[1, 3, 0])
    found = retriever.retrieve("q")
    assert ids(found) == ["b", "a"]
    assert found[0].score == pytest.approx(3 / 60)


def test_options_of_the_fusion_count() -> None:
    """Rank constant, kernel and all else that `FusionOptions` has is passed on."""
    (paper,) = FusionRetriever([Given("a")], rank_constant=60).retrieve("q")
    (kernel,) = FusionRetriever([Given("a")], kernel=InverseSquareRank()).retrieve("q")
    assert paper.score == pytest.approx(1 / 61)
    assert kernel.score == pytest.approx(1.0)


def test_a_breaker_follows_both_ways_to_ask() -> None:
    """A retriever that failed once in each way is left alone in both."""
    retriever = FusionRetriever({"good": Given("a"), "down": Given("x", fail)}, breaker=Breaker(failures=2))
    states = [fused(ask(retriever))[0].coverage["down"] for ask in (retrieve, aretrieve, retrieve, aretrieve)]
    assert states == ["failed", "failed", "skipped", "skipped"]


def test_the_query_bundle_reaches_the_retrievers_whole() -> None:
    """Retrievers get the bundle that was asked, with its embedding."""
    asked = QueryBundle("q", custom_embedding_strs=["other"], embedding=[0.5])
    arm = Given("a")
    FusionRetriever([arm]).retrieve(asked)
    assert arm.queries[0] is asked


def test_an_index_node_leads_on_to_its_object() -> None:
    """Nodes that stand for other retrievers are followed, as by every retriever."""
    link = NodeWithScore(node=IndexNode(id_="link", index_id="inner", text="see inner"))
    retriever = FusionRetriever([Given([link])], object_map={"inner": Given("ab")})
    assert ids(retriever.retrieve("q")) == ["a", "b"]


def test_fusions_nest() -> None:
    """A fusion is a retriever, and so an arm of another."""
    inner = FusionRetriever([Given("ab"), Given("b")])
    assert ids(FusionRetriever([inner, Given("c")], similarity_top_k=3).retrieve("q")) == ["b", "c", "a"]


def test_it_can_be_copied_and_stored() -> None:
    """A copy, also one by pickle, gives the same, has retrievers of its own, and is as it was set."""
    arms = {"a": Given("abc"), "b": Asynchronous("b")}
    retriever = FusionRetriever(arms, retriever_weights=[1, 3], timeout=9)
    retriever.similarity_top_k = 3
    for same in (pickle.loads(pickle.dumps(retriever)), copy.deepcopy(retriever)):  # noqa: S301
        for ask in WAYS:
            assert ask(same) == ask(retriever)
            assert ids(ask(same)) == ["b", "a", "c"]
    shared = Given("a")
    copied = copy.deepcopy(FusionRetriever([shared]))
    copied.retrieve("q")
    assert shared.queries == []


@pytest.mark.parametrize("use_async", [True, False])
def test_a_call_for_query_fusion_retriever_is_understood(use_async: bool) -> None:  # noqa: FBT001
    """What is given to QueryFusionRetriever with one query and this mode, this takes too."""
    retriever = FusionRetriever(
        [Given("a"), Given("b")],
        llm=MockLLM(),
        mode=FUSION_MODES.RECIPROCAL_RANK,
        similarity_top_k=1,
        num_queries=1,
        use_async=use_async,
        verbose=True,
        retriever_weights=[0.4, 0.6],
    )
    assert ids(retriever.retrieve("q")) == ["b"]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"num_queries": 4}, ValueError, "num_queries must be 1, as no queries are generated here, not 4"),
        ({"mode": "simple"}, ValueError, "mode must be 'reciprocal_rerank', the only one"),
        ({"retriever_weights": [1.0]}, ValueError, "retriever_weights must be one for each of the 2"),
        ({"retriever_weights": [0.0, 0.0]}, ValueError, "weights of the retrievers must not all be 0"),
        ({"retrievers": []}, ValueError, "retrievers must have at least one"),
        ({"retriever_weights": [1.0, -1.0]}, ValueError, "weight must be a finite number of at least 0"),
        ({"similarity_top_k": 0}, ValueError, "top_k must be a whole number of at least 1"),
        ({"top_k": 3}, TypeError, "similarity_top_k says how many"),
        ({"key": str}, TypeError, "key must not be given"),
        ({"timeout": -1.0}, ValueError, "timeout must be"),
        ({"patient": 1.0}, TypeError, "'patient' is not an option"),
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    """The message names the parameter and what is wanted; nothing is ignored in silence."""
    with pytest.raises(error, match=words):
        FusionRetriever(**{"retrievers": [Given("a"), Given("b")], **wrong})


def test_only_retrievers_are_taken() -> None:
    """What is no retriever of LlamaIndex is refused when the fusion is made."""
    with pytest.raises(TypeError, match="must be one of LlamaIndex, a BaseRetriever, not 'a'"):
        FusionRetriever(["a"])  # type: ignore[list-item]  # that is the point
