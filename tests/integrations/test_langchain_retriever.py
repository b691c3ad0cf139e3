"""A fusion as a LangChain retriever: what its documents tell, what is missing, and what is refused."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from math import isclose
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_kit import (
    Awaited,
    Gated,
    Given,
    as_a_whole,
    ask,
    docs,
    every_way,
    in_virtual_time,
    on_asyncio,
    rrf,
    statuses,
    texts,
)

from rrf_stream.errors import DegradedError
from rrf_stream.integrations.langchain import FusionRetriever

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever

pytestmark = pytest.mark.anyio


def two() -> list[BaseRetriever]:
    return [Given(found=docs("oslo", "bern")), Awaited(found=docs("bern"))]


# --- what a document tells --------------------------------------------------------------------------------


@as_a_whole
@on_asyncio
async def test_documents_tell_how_they_came_to_their_places(how: str) -> None:
    """Score, ranks and coverage are in `metadata["rrf"]`, in types that JSON has."""
    found = await ask(FusionRetriever(retrievers=two(), weights=[1, 0.5], names=["words", "vectors"]), how)
    bern, oslo = rrf(found)
    coverage = {
        "full": True,
        "degraded": False,
        "reasons": [],
        "answered": ["words", "vectors"],
        "weight_fraction": 1.0,
        "arms": {"words": "exhausted", "vectors": "exhausted"},
    }
    assert isclose(bern.pop("score"), 1 / 62 + 0.5 / 61)
    assert isclose(bern.pop("normalized"), (1 / 62 + 0.5 / 61) / (1.5 / 61))
    assert bern == {"rank": 1, "ranks": {"words": 2, "vectors": 1}, "exact": True, "coverage": coverage}
    assert isclose(oslo.pop("score"), 1 / 61)
    assert isclose(oslo.pop("normalized"), 1 / 1.5)
    assert oslo == {"rank": 2, "ranks": {"words": 1}, "exact": True, "coverage": coverage}
    assert json.loads(json.dumps([document.metadata for document in found])) == [
        document.metadata for document in found
    ]


class Paragraph(Document):
    """A document of a class of its own."""

    number: int


@as_a_whole
@on_asyncio
async def test_documents_are_copies(how: str) -> None:
    """What retrievers return is left as it was; class, id and metadata are in the copies."""
    given = [Paragraph(page_content="oslo", id="1", metadata={"from": "a", "rrf": "old"}, number=7)]
    other = docs("oslo", **{"from": "b"})
    before = copy.deepcopy((given, other))
    (found,) = await ask(FusionRetriever(retrievers=[Given(found=given), Given(found=other)]), how)
    assert (given, other) == before
    assert isinstance(found, Paragraph)
    assert (found.id, found.number, found.metadata["from"]) == ("1", 7, "a")
    assert found.metadata["rrf"]["ranks"] == {"retriever_1": 1, "retriever_2": 1}


@on_asyncio
async def test_what_is_told_belongs_to_one_document() -> None:
    """To change it in one changes it in no other."""
    first, second = await ask(FusionRetriever(retrievers=two()))
    first.metadata["rrf"]["coverage"]["arms"].clear()
    assert len(statuses(second)) == 2


@on_asyncio
async def test_a_fusion_may_be_a_retriever_of_another() -> None:
    """The outer one tells of itself."""
    inner = FusionRetriever(retrievers=two())
    found = await ask(
        FusionRetriever(retrievers=[inner, Given(found=docs("bern", "rome"))], names=["in", "x"])
    )
    assert texts(found) == ["bern", "oslo", "rome"]
    assert [one["ranks"] for one in rrf(found)] == [{"in": 1, "x": 1}, {"in": 2}, {"x": 2}]


# --- what is missing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["ainvoke", "astream"])
@in_virtual_time
async def test_the_answer_is_on_time_without_a_retriever_that_is_late(how: str) -> None:
    """After the timeout there is what has arrived by then; what is missing is named, nothing is certain."""
    late = Awaited(found=docs("rome"), after=60)
    start = anyio.current_time()
    found = await ask(FusionRetriever(retrievers=[*two(), late], timeout=0.3), how)
    assert isclose(anyio.current_time() - start, 0.3)
    assert texts(found) == ["bern", "oslo"]
    for one in rrf(found):
        assert not one["exact"]
        assert isclose(one["coverage"].pop("weight_fraction"), 2 / 3)
        assert one["coverage"] == {
            "full": False,
            "degraded": True,
            "reasons": ["deadline"],
            "answered": ["retriever_1", "retriever_2"],
            "arms": {"retriever_1": "exhausted", "retriever_2": "exhausted", "retriever_3": "deadline"},
        }


@in_virtual_time
async def test_the_deadline_of_the_caller_counts() -> None:
    """A time limit of anyio around the call ends the search just before it would cancel it."""
    with anyio.fail_after(0.5):
        found = await ask(FusionRetriever(retrievers=[*two(), Awaited(found=docs("rome"), after=60)]))
    assert texts(found) == ["bern", "oslo"]


@as_a_whole
@on_asyncio
async def test_what_a_failure_cannot_have_changed_is_exact(how: str) -> None:
    """A weight of a hundredth cannot move the first document."""
    arms = [Given(found=docs("oslo", "bern")), Given(found=OSError("refused"))]
    found = await ask(FusionRetriever(retrievers=arms, weights=[1, 0.0001]), how)
    assert [one["exact"] for one in rrf(found)] == [True, True]
    assert statuses(found[0]) == {"retriever_1": "exhausted", "retriever_2": "failed"}


@every_way
@on_asyncio
async def test_an_answer_of_nobody_is_an_error(how: str) -> None:
    """If all retrievers fail, there is no empty list, which would say that there are no documents."""
    arms = [Given(found=OSError("refused")), Awaited(found=ValueError("other"))]
    with pytest.raises(DegradedError, match=r"retriever_1 \(failed.*retriever_2 \(failed") as caught:
        await ask(FusionRetriever(retrievers=arms), how)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("how", ["ainvoke", "astream"])
@in_virtual_time
async def test_an_answer_of_nobody_in_time_is_an_error(how: str) -> None:
    """If all retrievers are late, the same."""
    with pytest.raises(DegradedError, match="deadline"):
        await ask(FusionRetriever(retrievers=[Awaited(found=docs("rome"), after=60)], timeout=0.3), how)


@every_way
@on_asyncio
async def test_an_empty_answer_of_somebody_is_one(how: str) -> None:
    """If one retriever has searched and found nothing, that is an answer."""
    assert (
        await ask(FusionRetriever(retrievers=[Given(found=[]), Given(found=OSError("refused"))]), how) == []
    )


@every_way
@on_asyncio
async def test_a_partial_answer_can_be_refused(how: str) -> None:
    """With `raise_on_degraded` any retriever that falls short is an error; a full answer is none."""
    arms = [Given(found=docs("oslo")), Given(found=OSError("refused"))]
    with pytest.raises(DegradedError, match="retriever_2") as caught:
        await ask(FusionRetriever(retrievers=arms, raise_on_degraded=True), how)
    assert caught.value.coverage.answered == ("retriever_1",)
    assert texts(await ask(FusionRetriever(retrievers=arms[:1], raise_on_degraded=True), how)) == ["oslo"]


@on_asyncio
async def test_an_error_leads_to_fallbacks() -> None:
    """A chain falls back as for any retriever."""
    down = FusionRetriever(retrievers=[Given(found=OSError("refused"))])
    found = await ask(down.with_fallbacks([Given(found=docs("oslo"))]))
    assert texts(found) == ["oslo"]


@every_way
@on_asyncio
async def test_top_k_is_how_many_are_returned(how: str) -> None:
    assert texts(await ask(FusionRetriever(retrievers=two(), top_k=1), how)) == ["bern"]


# --- options ----------------------------------------------------------------------------------------------


@on_asyncio
async def test_fields_can_be_configured_for_one_query() -> None:
    """LangChain's `configurable_fields` sets a weight or a timeout for one query, and checks it."""
    retriever = FusionRetriever(retrievers=[Given(found=docs("oslo")), Given(found=docs("bern"))])
    flexible = retriever.configurable_fields(weights=ConfigurableField(id="weights"))
    assert texts(await ask(flexible)) == ["oslo", "bern"]
    assert texts(await ask(flexible, config={"configurable": {"weights": [1, 2]}})) == ["bern", "oslo"]
    with pytest.raises(ValueError, match="weights must have one number for each of the 2 retrievers"):
        await ask(flexible, config={"configurable": {"weights": [1]}})


@every_way
@on_asyncio
async def test_fields_of_retrievers_can_be_configured_through_it(how: str) -> None:
    """It lists what its retrievers can be configured with, as there, and hands it on."""
    inner = Given(found=docs("oslo")).configurable_fields(found=ConfigurableField(id="places"))
    retriever = FusionRetriever(retrievers=[inner, Given(found=docs("bern"))])
    assert [spec.id for spec in retriever.config_specs] == ["places"]
    found = await ask(retriever, how, {"configurable": {"places": docs("rome")}})
    assert texts(found) == ["rome", "bern"]


@on_asyncio
async def test_changes_count_from_the_next_query_on() -> None:
    """Attributes may be set, as there, and are checked with the next query."""
    retriever = FusionRetriever(retrievers=two())
    retriever.weights = [1, 0]
    assert texts(await ask(retriever)) == ["oslo", "bern"]
    retriever.weights = [1]
    with pytest.raises(ValueError, match="weights must have one number for each"):
        await ask(retriever)


@on_asyncio
async def test_many_queries_at_once() -> None:
    """`abatch` runs them side by side, and they do not mix."""
    retriever = FusionRetriever(retrievers=[RunnableLambda(lambda query: docs(query, "oslo")), *two()])
    for found, query in zip(await retriever.abatch(["x", "y", "z"]), "xyz", strict=True):
        assert texts(found) == ["oslo", "bern", query]


REFUSED: dict[str, dict[str, Any]] = {
    "retrievers must have at least one": {"retrievers": []},
    "weights must have one number for each of the 2 retrievers, not [1.0]": {"weights": [1]},
    "weights must be finite and at least 0, and one above 0, not [1.0, nan]": {"weights": [1, float("nan")]},
    "weights must be finite and at least 0, and one above 0, not [1.0, inf]": {"weights": [1, float("inf")]},
    "weights must be finite and at least 0, and one above 0, not [1.0, -1.0]": {"weights": [1, -1]},
    "weights must be finite and at least 0, and one above 0, not [0.0, 0.0]": {"weights": [0, 0]},
    "c must be a finite number above 0, not 0.0": {"c": 0},
    "c must be a finite number above 0, not inf": {"c": float("inf")},
    "timeout must be a number of seconds of at least 0": {"timeout": -1},
    "timeout must be a number of seconds of at least 0, or None": {"timeout": float("nan")},
    "top_k must be a whole number of at least 1, not 0": {"top_k": 0},
    "names must have one of its own for each of 2 retrievers, not ['a']": {"names": ["a"]},
    "names must have one of its own for each of 2 retrievers, not ['a', 'a']": {"names": ["a", "a"]},
    "timeot": {"timeot": 3},
    "id_key": {"id_key": 3},
    "top_k": {"top_k": 1.5},
    "weights.0": {"weights": ["much", 1]},
}


@pytest.mark.parametrize(("message", "wrong"), REFUSED.items(), ids=map(str, REFUSED.values()))
@in_virtual_time
async def test_wrong_values_are_refused_by_name(message: str, wrong: dict[str, Any]) -> None:
    """The error is a ValueError, as LangChain's are, and names the parameter."""
    with pytest.raises(ValueError, match="validation error") as caught:
        FusionRetriever(**{"retrievers": two(), **wrong})
    assert message in str(caught.value)


@in_virtual_time
async def test_it_can_be_copied_and_stored() -> None:
    """Equal weights are filled in, as there; pickling and copying keep everything."""
    retriever = FusionRetriever(
        retrievers=[Given(found=docs("oslo"))] * 2, id_key=attrgetter("id"), timeout=1
    )
    assert retriever.weights == [0.5, 0.5]
    assert retriever.c == 60
    for same in (pickle.loads(pickle.dumps(retriever)), copy.deepcopy(retriever), retriever.model_copy()):  # noqa: S301
        assert (same.weights, same.timeout, same.retrievers) == ([0.5, 0.5], 1, retriever.retrievers)


# --- invoke -----------------------------------------------------------------------------------------------


@in_virtual_time
async def test_invoke_asks_by_invoke_also_those_that_are_asynchronous() -> None:
    """No retriever is awaited on an event loop that it has not met before."""
    asked: list[str] = []

    class Both(Awaited):
        def invoke(self, *args: Any, **kwargs: Any) -> list[Document]:
            asked.append(threading.current_thread().name)
            return super().invoke(*args, **kwargs)

        async def ainvoke(self, *_: Any, **__: Any) -> list[Document]:
            pytest.fail("invoke has no event loop for this")

    assert texts(FusionRetriever(retrievers=[Both(found=docs("oslo"))]).invoke("query")) == ["oslo"]
    assert asked == ["rrf:thread:Both"]


@on_asyncio
async def test_invoke_is_on_time_with_a_call_that_is_stuck() -> None:
    """It returns, though the thread of the retriever does not; that ends in peace when it can."""
    gate = threading.Event()
    stuck = Gated(found=docs("rome"), gate=gate)
    found = await ask(FusionRetriever(retrievers=[*two(), stuck], timeout=1), "invoke")
    threads = [one for one in threading.enumerate() if one.name == "rrf:thread:Gated"]
    gate.set()
    assert texts(found) == ["bern", "oslo"]
    assert statuses(found[0])["retriever_3"] == "deadline"
    assert len(threads) == 1
