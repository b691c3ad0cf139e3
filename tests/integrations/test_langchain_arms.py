"""LangChain retrievers as arms: where each runs, and what its hits are."""

from __future__ import annotations

import threading
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_kit import PATIENCE, Awaited, Given, Recorder, docs, in_virtual_time, on_asyncio, texts

from rrf_stream import Arm, Hit, Pipeline, fuse_arms
from rrf_stream.integrations.langchain import FusionRetriever, from_langchain

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun

pytestmark = pytest.mark.anyio


def here(*_: Any, **__: Any) -> list[Document]:
    """Return the name of the thread that asks, as a document."""
    return docs(threading.current_thread().name)


async def here_awaited(*_: Any, **__: Any) -> list[Document]:
    return here()


class Blocking(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return here(query, run_manager)


class Older(BaseRetriever):
    """Takes no run manager, for which LangChain makes an asynchronous method of its own."""

    def _get_relevant_documents(self, query: str) -> list[Document]:  # type: ignore[override]
        return here(query)


class Asynchronous(Blocking):
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return here(query, run_manager)


class Failing(Asynchronous):
    """Is asynchronous, and always fails."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        raise OSError(query)

    async def _aget_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        raise OSError(query)


class Inherited(Asynchronous):
    """Is asynchronous by what it inherits."""


class ByInvoke(Blocking):
    """Is asynchronous by the method around."""

    async def ainvoke(self, *_: Any, **__: Any) -> list[Document]:
        return here()


class BlockingStore(VectorStore):
    """Has no asynchronous search of its own, as most vector stores."""

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return here(query, k, kwargs)

    def max_marginal_relevance_search(self, *args: Any, **kwargs: Any) -> list[Document]:
        return here(*args, **kwargs)

    def similarity_search_with_score(self, *args: Any, **kwargs: Any) -> list[tuple[Document, float]]:
        return [(document, 0.5) for document in here(*args, **kwargs)]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return float

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> BlockingStore:
        return cls()


class AsynchronousStore(BlockingStore):
    async def asimilarity_search(self, *_: Any, **__: Any) -> list[Document]:
        return here()

    async def amax_marginal_relevance_search(self, *_: Any, **__: Any) -> list[Document]:
        return here()

    async def asimilarity_search_with_score(self, *_: Any, **__: Any) -> list[tuple[Document, float]]:
        return [(document, 0.5) for document in here()]


SEARCHES = ("similarity", "mmr", "similarity_score_threshold")


def searching(store: VectorStore, kind: str) -> BaseRetriever:
    options = {"score_threshold": 0.1} if kind == "similarity_score_threshold" else {}
    return store.as_retriever(search_type=kind, search_kwargs=options)


IN_A_THREAD: dict[str, Any] = {
    "a retriever": Blocking(),
    "an older retriever": Older(),
    "a retriever with a config": Blocking().with_config(tags=["x"]),
    "a retriever that is tried again": Blocking().with_retry(stop_after_attempt=2),
    "a retriever that is configurable": Blocking().configurable_fields(tags=ConfigurableField(id="tags")),
    "a function": RunnableLambda(here),
    "a retriever with fallbacks": Blocking().with_fallbacks([Asynchronous()]),
    "a retriever that is a fallback": Failing().with_fallbacks([Blocking()]),
    "a chain": RunnableLambda(str.lower) | Blocking(),
    "a chain with one that is asynchronous": RunnableLambda(str.lower) | Asynchronous(),
} | {f"a vector store by {kind}": searching(BlockingStore(), kind) for kind in SEARCHES}

ON_THE_EVENT_LOOP: dict[str, Any] = {
    "a retriever": Asynchronous(),
    "a retriever that inherits": Inherited(),
    "a retriever by its ainvoke": ByInvoke(),
    "a retriever with a config": Asynchronous().with_config(tags=["x"]),
    "a retriever that is tried again": Asynchronous().with_retry(stop_after_attempt=2),
    "a retriever that is configurable": Asynchronous().configurable_fields(tags=ConfigurableField(id="tags")),
    "a coroutine function": RunnableLambda(here_awaited),
    "a retriever with fallbacks": Failing().with_fallbacks([Asynchronous()]),
    "a chain with a coroutine function": RunnableLambda(here_awaited) | RunnableLambda(list),
    "both kinds of function": RunnableLambda(lambda _: [], here_awaited),
    "a chain": RunnableLambda(here_awaited) | RunnableLambda(here_awaited),
} | {f"a vector store by {kind}": searching(AsynchronousStore(), kind) for kind in SEARCHES}


@pytest.mark.parametrize("retriever", IN_A_THREAD.values(), ids=IN_A_THREAD)
@on_asyncio
async def test_what_is_not_asynchronous_runs_in_a_thread_of_this_library(retriever: Any) -> None:
    """Which is called as the retriever is, and not in the executor of the event loop."""
    (name,) = (await fuse_arms({"arm": from_langchain(retriever)("query")})).ids
    assert name.startswith("rrf:thread:")
    assert name != "rrf:thread:ask"


@pytest.mark.parametrize("retriever", IN_A_THREAD.values(), ids=IN_A_THREAD)
async def test_what_runs_in_a_thread_runs_under_trio_too(retriever: Any) -> None:
    """Nothing in it needs asyncio."""
    (name,) = (await fuse_arms({"arm": from_langchain(retriever)("query")})).ids
    assert name.startswith("rrf:thread:")


@pytest.mark.parametrize("retriever", ON_THE_EVENT_LOOP.values(), ids=ON_THE_EVENT_LOOP)
@on_asyncio
async def test_what_is_asynchronous_runs_on_the_event_loop(retriever: Any) -> None:
    assert (await fuse_arms({"arm": from_langchain(retriever)("query")})).ids == [
        threading.current_thread().name
    ]


@on_asyncio
async def test_the_vector_store_of_langchain_is_an_arm() -> None:
    """The best of a store that is asked for its documents' own texts is the first."""
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    await store.aadd_documents(docs("oslo", "bern", "rome"))
    best = await Pipeline({"store": from_langchain(store.as_retriever(search_kwargs={"k": 2}))}).search(
        "bern"
    )
    assert (best.ids[0], len(best.ids)) == ("bern", 2)


@on_asyncio
async def test_a_retriever_that_blocks_does_not_hold_up_the_event_loop() -> None:
    """A retriever waits in its thread for what another arm does on the event loop."""
    done = threading.Event()

    async def other(_: str) -> list[str]:
        done.set()
        return ["bern"]

    def wait(_: str) -> list[Document]:
        return docs("oslo" if done.wait(PATIENCE) else "in vain")

    arms = {"langchain": from_langchain(RunnableLambda(wait)), "other": other}
    best = await Pipeline(arms).search("query")
    assert best.ids == ["oslo", "bern"]


@on_asyncio
async def test_hits_have_the_documents_themselves() -> None:
    """Their ids are the texts, and what a `Pipeline` hands back is what the retriever gave."""
    given = docs("oslo", "bern")
    best = await Pipeline(
        {"a": from_langchain(Given(found=given)), "b": from_langchain(Awaited(found=given))}
    ).search("")
    assert best.ids == ["oslo", "bern"]
    assert all(hit.item is document for hit, document in zip(best.hits, given, strict=True))
    assert given == docs("oslo", "bern")


@pytest.mark.parametrize("kind", [Given, Awaited])
@on_asyncio
async def test_ids_can_be_anything_of_a_document(kind: type[Given]) -> None:
    """A key of the metadata, so that they meet the ids of other arms, or what a function gives."""
    given = [
        Document(page_content="oslo", id="x", metadata={"number": 1}),
        Document(page_content="oslo", id="y", metadata={"number": 2}),
    ]
    by_key = from_langchain(kind(found=given), id_key="number")
    best = await Pipeline({"langchain": by_key, "numbers": lambda _: [Hit(2), Hit(3)]}).search("query")
    assert best.ids == [2, 1, 3]
    by_function = from_langchain(kind(found=given), id_key=attrgetter("id"))
    assert (await fuse_arms({"langchain": by_function("query")})).ids == ["x", "y"]


@pytest.mark.parametrize("kind", [Given, Awaited])
@on_asyncio
async def test_a_config_is_passed_on(kind: type[Given]) -> None:
    """Callbacks and tags that are given are those of each call."""
    recorder = Recorder()
    arm = from_langchain(kind(found=docs("oslo")), config={"callbacks": [recorder], "tags": ["arm"]})
    for _ in range(2):
        await Pipeline({"arm": arm}).search("query")
    assert [(run.tags, run.told) for run in recorder.named(kind.__name__)] == [
        (("arm",), ["start", "end"])
    ] * 2


@in_virtual_time
async def test_an_arm_has_the_options_of_any_arm() -> None:
    """A weight, and a time limit of its own, by which the asynchronous retriever is cancelled."""
    slow = from_langchain(Awaited(found=docs("rome"), after=60))
    fast = from_langchain(Given(found=docs("oslo", "bern")))
    pipeline = Pipeline([Arm("slow", slow, weight=3, timeout=0.2), Arm("fast", fast)])
    start = anyio.current_time()
    best = await pipeline.search("query")
    assert (best.ids, round(anyio.current_time() - start, 3)) == (["oslo", "bern"], 0.2)
    assert best.coverage["slow"].status == "timed_out"


@on_asyncio
async def test_a_failure_is_that_of_the_arm() -> None:
    """What the retriever raises is in the report of the arm, and so is what is wrong with its answer."""
    error = OSError("refused")
    best = await Pipeline(
        {
            "raises": from_langchain(Given(found=error)),
            "numbers": from_langchain(Awaited(found=[1])),
            "nothing": from_langchain(Given(found=None)),
            "unnamed": from_langchain(Given(found=docs("oslo")), id_key=attrgetter("id")),
            "good": from_langchain(Given(found=["rome"])),
        }
    ).search("query")
    assert best.ids == ["rome"]
    assert isinstance(best.hits[0].item, Document)
    assert best.coverage["raises"].error is error
    assert str(best.coverage["numbers"].error) == "a retriever must return Document objects, not 1"
    assert isinstance(best.coverage["nothing"].error, TypeError)
    assert "must give an id for every document" in str(best.coverage["unnamed"].error)


@on_asyncio
async def test_a_fusion_retriever_is_an_arm() -> None:
    """It is asynchronous, as it has its own `ainvoke`."""
    inner = FusionRetriever(retrievers=[Given(found=docs("oslo")), Awaited(found=docs("bern"))])
    best = await Pipeline({"inner": from_langchain(inner)}).search("query")
    assert texts(hit.item for hit in best.hits) == ["oslo", "bern"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"retriever": here}, "retriever must be a LangChain retriever or Runnable, not <function"),
        ({"retriever": Given}, "retriever must be a LangChain retriever or Runnable"),
        ({"retriever": Given(found=[]), "id_key": 3}, "id_key must be a key of metadata or a function"),
        ({"retriever": Awaited(found=[]), "id_key": 3}, "id_key must be a key of metadata or a function"),
    ],
)
@in_virtual_time
async def test_wrong_arguments_are_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        from_langchain(**wrong)
