"""A `FusionRetriever` where an `EnsembleRetriever` was: the same answers, and every difference.

The expected answers are written down, so that they are checked without the original. Where it is
installed, it must give them too.
"""

from __future__ import annotations

import random
import threading
from fractions import Fraction
from math import isclose
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.documents import Document
from langchain_kit import PATIENCE, Given, as_a_whole, ask, docs, every_way, on_asyncio, rrf, statuses, texts

from rrf_stream.errors import DegradedError
from rrf_stream.integrations.langchain import FusionRetriever

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun

pytestmark = [pytest.mark.anyio, on_asyncio]


def ensemble_retriever() -> Any:
    """Return the class of LangChain, where it is."""
    retrievers = pytest.importorskip(
        "langchain_classic.retrievers", reason="the extra rivals is not installed, which brings it"
    )
    return retrievers.EnsembleRetriever


@pytest.fixture(params=["ours", "theirs"])
def kind(request: pytest.FixtureRequest) -> Any:
    """Both classes, by turns."""
    return FusionRetriever if request.param == "ours" else ensemble_retriever()


@pytest.fixture
def theirs() -> Any:
    return ensemble_retriever()


def over(*lists: Any) -> list[Given]:
    return [Given(found=found) for found in lists]


def numbered(**ids: int) -> list[Document]:
    """Return documents with a number in their metadata."""
    return [Document(page_content=text, metadata={"number": number}) for text, number in ids.items()]


# --- the same answers -------------------------------------------------------------------------------------

SAME: dict[str, tuple[list[Any], dict[str, Any], list[str]]] = {
    "a text that both have is one document, with the sum": (
        [numbered(oslo=1, bern=2, rome=3), docs("bern")],
        {"weights": [0.5, 0.5], "id_key": None},
        ["bern", "oslo", "rome"],
    ),
    "equal scores go to the first retriever": (
        [numbered(oslo=1, bern=2, rome=3), docs("wien")],
        {"weights": [0.5, 0.5], "id_key": None},
        ["oslo", "wien", "bern", "rome"],
    ),
    "an id_key joins documents of different texts, and the first is shown": (
        [numbered(oslo=1, bern=2, rome=3), numbered(Berne=2)],
        {"weights": [0.5, 0.5], "id_key": "number"},
        ["bern", "oslo", "rome"],
    ),
    "texts alone become documents": ([["oslo", "bern"], docs("bern")], {"weights": [1, 1]}, ["bern", "oslo"]),
    "no weights are equal weights": ([docs("oslo", "bern"), docs("bern")], {}, ["bern", "oslo"]),
    "an empty list of weights is none": (
        [docs("oslo"), docs("bern")],
        {"weights": []},
        ["oslo", "bern"],
    ),
    "a weight decides": ([docs("oslo"), docs("bern")], {"weights": [0.4, 0.6]}, ["bern", "oslo"]),
    "a great constant prefers what both have": (
        [docs("oslo", "rome", "bern"), docs("wien", "kyiv", "bern")],
        {"c": 60},
        ["bern", "oslo", "wien", "rome", "kyiv"],
    ),
    "a small constant prefers the first": (
        [docs("oslo", "rome", "riga", "bern"), docs("wien", "kyiv", "baku", "bern")],
        {"c": 1},
        ["oslo", "wien", "bern", "rome", "kyiv", "riga", "baku"],
    ),
    "nobody has found anything": ([[], []], {}, []),
    "one retriever is enough": ([docs("oslo", "bern")], {}, ["oslo", "bern"]),
    "there is no limit": ([docs(*map(str, range(300)))], {}, [*map(str, range(300))]),
}


@every_way
@pytest.mark.parametrize(("lists", "options", "expected"), SAME.values(), ids=SAME)
async def test_answers_are_the_same(
    kind: Any, how: str, lists: list[Any], options: dict[str, Any], expected: list[str]
) -> None:
    """Both classes, asked in any way, give these documents in this order."""
    assert texts(await ask(kind(retrievers=over(*lists), **options), how)) == expected


async def test_random_rankings_are_fused_the_same(kind: Any) -> None:
    """The order is that of the exact sums; theirs up to the rounding of floating-point numbers."""
    chance = random.Random(20)
    for _ in range(100):
        rankings = [chance.sample("abcdefghijkl", chance.randint(0, 9)) for _ in range(chance.randint(1, 4))]
        weights = [chance.choice([0.25, 0.5, 1.0, 3.0]) for _ in rankings]
        c = chance.choice([1, 10, 60])
        exact: dict[str, Fraction] = {}
        for ranking, weight in zip(rankings, weights, strict=True):
            for rank, text in enumerate(ranking, 1):
                exact[text] = exact.get(text, Fraction(0)) + Fraction(weight) / (c + rank)
        found = await ask(kind(retrievers=over(*(docs(*one) for one in rankings)), weights=weights, c=c))
        assert sorted(texts(found)) == sorted(exact)
        scores = [exact[text] for text in texts(found)]
        if kind is not FusionRetriever:
            scores = [round(score, 12) for score in scores]
        else:
            assert all(
                isclose(one["score"], exact[text]) for one, text in zip(rrf(found), texts(found), strict=True)
            )
        assert scores == sorted(scores, reverse=True)


# --- the differences --------------------------------------------------------------------------------------


@every_way
async def test_a_repeat_counts_once(how: str) -> None:
    """A document that one retriever returns twice has the score of its first rank; the repeat uses one up."""
    retriever = FusionRetriever(retrievers=over(docs("oslo", "bern", "bern", "rome"), docs("wien")))
    found = await ask(retriever, how)
    assert texts(found) == ["oslo", "wien", "bern", "rome"]
    assert [one["ranks"] for one in rrf(found)[2:]] == [{"retriever_1": 2}, {"retriever_1": 4}]
    assert isclose(rrf(found)[2]["score"], 0.5 / 62)


async def test_there_repeats_add_up(theirs: Any) -> None:
    """With `EnsembleRetriever` a retriever's repeat beats what it ranked higher."""
    retriever = theirs(retrievers=over(docs("oslo", "bern", "bern", "rome"), docs("wien")))
    assert texts(retriever.invoke("query")) == ["bern", "oslo", "wien", "rome"]


@as_a_whole
async def test_a_weight_of_zero_lists_nothing(how: str) -> None:
    """A retriever of weight 0 adds no document, though its ranks are told."""
    retriever = FusionRetriever(retrievers=over(docs("bern", "rome"), docs("oslo", "bern")), weights=[0, 1])
    found = await ask(retriever, how)
    assert texts(found) == ["oslo", "bern"]
    assert rrf(found)[1]["ranks"] == {"retriever_1": 1, "retriever_2": 2}


async def test_there_a_weight_of_zero_lists_at_the_end(theirs: Any) -> None:
    """With `EnsembleRetriever` such documents come last, with no score."""
    retriever = theirs(retrievers=over(docs("bern", "rome"), docs("oslo", "bern")), weights=[0, 1])
    assert texts(retriever.invoke("query")) == ["oslo", "bern", "rome"]


@as_a_whole
async def test_a_retriever_that_fails_costs_its_own_documents_only(how: str) -> None:
    """The others answer, and every document names the one that did not."""
    found = await ask(FusionRetriever(retrievers=over(docs("oslo"), OSError("refused"))), how)
    assert texts(found) == ["oslo"]
    assert statuses(found[0]) == {"retriever_1": "exhausted", "retriever_2": "failed"}


@every_way
async def test_there_a_retriever_that_fails_fails_the_answer(theirs: Any, how: str) -> None:
    """With `EnsembleRetriever` its error is that of the whole."""
    with pytest.raises(OSError, match="refused"):
        await ask(theirs(retrievers=over(docs("oslo"), OSError("refused"))), how)


@every_way
async def test_what_is_no_document_fails_its_retriever(how: str) -> None:
    """The error is the same in every way of asking, where `EnsembleRetriever` has one of each."""
    with pytest.raises(DegradedError, match="retriever_1") as caught:
        await ask(FusionRetriever(retrievers=over([42])), how)
    assert isinstance(caught.value.__cause__, TypeError)
    assert "must return Document objects, not 42" in str(caught.value.__cause__)


async def test_there_what_is_no_document_fails_the_answer(theirs: Any) -> None:
    """With `EnsembleRetriever` it is an accident of its code."""
    with pytest.raises(AttributeError):
        theirs(retrievers=over([42])).invoke("query")


@pytest.mark.parametrize("metadata", [{}, {"number": None}], ids=["without", "None"])
@every_way
async def test_a_document_without_an_id_fails_its_retriever(how: str, metadata: dict[str, Any]) -> None:
    """An id_key that is not there, or is None, is an error: else all such documents would be one."""
    lists = docs("oslo", "rome", **metadata), numbered(bern=2)
    found = await ask(FusionRetriever(retrievers=over(*lists), id_key="number"), how)
    assert texts(found) == ["bern"]
    with pytest.raises(DegradedError) as caught:
        await ask(FusionRetriever(retrievers=over(lists[0]), id_key="number"), how)
    assert "id_key, 'number', must give an id" in str(caught.value.__cause__)


async def test_there_a_document_without_an_id_fails_the_answer_or_is_joined(theirs: Any) -> None:
    """With `EnsembleRetriever` a missing id is a KeyError, and documents whose id is None are one."""
    with pytest.raises(KeyError):
        theirs(retrievers=over(docs("oslo"), numbered(bern=2)), id_key="number").invoke("query")
    joined = theirs(retrievers=over(docs("oslo", "rome", number=None)), id_key="number").invoke("query")
    assert texts(joined) == ["oslo"]


async def test_equal_texts_are_one_document_unless_id_key_says_otherwise() -> None:
    """By default `Document.id` counts for nothing, as there; `id_key` may be a function that reads it."""
    lists = [Document(page_content="oslo", id="x")], [Document(page_content="oslo", id="y")]
    assert len(await ask(FusionRetriever(retrievers=over(*lists)))) == 1
    apart = await ask(FusionRetriever(retrievers=over(*lists), id_key=attrgetter("id")))
    assert [document.id for document in apart] == ["x", "y"]


async def test_there_equal_texts_are_one_document(theirs: Any) -> None:
    """With `EnsembleRetriever` equal texts are one document, whatever their ids."""
    lists = [Document(page_content="oslo", id="x")], [Document(page_content="oslo", id="y")]
    assert [document.id for document in theirs(retrievers=over(*lists)).invoke("query")] == ["x"]


OUT_OF_RANGE: dict[str, dict[str, Any]] = {
    "a negative weight": {"weights": [1, -1]},
    "a weight that is not a number": {"weights": [1, float("nan")]},
    "a constant of 0": {"c": 0},
    "a constant below 0": {"c": -3},
}


@pytest.mark.parametrize("wrong", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
async def test_values_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """What gives no ranking that means anything is refused when the retriever is made."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FusionRetriever(retrievers=over(docs("oslo"), docs("bern")), **wrong)


@pytest.mark.parametrize("wrong", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
async def test_there_values_out_of_range_are_taken(theirs: Any, wrong: dict[str, Any]) -> None:
    """With `EnsembleRetriever` they give some ranking."""
    retriever = theirs(retrievers=over(docs("oslo"), docs("bern")), **wrong)
    assert len(retriever.invoke("query")) == 2


async def test_a_fraction_is_a_constant() -> None:
    """`c` may be any number above 0."""
    retriever = FusionRetriever(retrievers=over(docs("oslo")), c=0.5)
    assert isclose(rrf(await ask(retriever))[0]["score"], 1 / 1.5)


async def test_there_a_constant_is_whole(theirs: Any) -> None:
    """With `EnsembleRetriever` a fraction is refused."""
    with pytest.raises(ValueError, match="valid integer"):
        theirs(retrievers=over(docs("oslo")), c=0.5)


async def test_there_no_retrievers_are_refused_by_accident(theirs: Any) -> None:
    """With `EnsembleRetriever` it is a division by zero."""
    with pytest.raises(ZeroDivisionError):
        theirs(retrievers=[])


async def test_sums_that_are_equal_tie() -> None:
    """1/66 + 1/99 is 1/72 + 1/88, so the first retriever decides; there it is how the sums were rounded."""
    first, second = [*map(str, range(40))], [*map(str, range(100, 140))]
    first[5], second[38] = "oslo", "oslo"
    first[11], second[27] = "bern", "bern"
    found = await ask(FusionRetriever(retrievers=over(docs(*first), docs(*second)), weights=[1, 1]))
    by_text = dict(zip(texts(found), rrf(found), strict=True))
    assert by_text["oslo"]["score"] == by_text["bern"]["score"] == 5 / 198
    assert by_text["oslo"]["rank"] + 1 == by_text["bern"]["rank"]


class Meeting(Given):
    """Answers once another of its kind is being asked."""

    barrier: Any

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        self.barrier.wait(PATIENCE)
        return super()._get_relevant_documents(query, run_manager=run_manager)


@as_a_whole
async def test_all_are_asked_at_the_same_time(how: str) -> None:
    """Two retrievers that wait for each other both answer, `invoke` included; there it asks one by one."""
    barrier = threading.Barrier(2)
    meeting = [Meeting(found=docs(text), barrier=barrier) for text in ("oslo", "bern")]
    found = await ask(FusionRetriever(retrievers=meeting), how)
    assert rrf(found)[0]["coverage"]["full"]
    assert texts(found) == ["oslo", "bern"]
