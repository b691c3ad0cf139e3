"""A fusion where a LangChain `EnsembleRetriever` was: on time, explained, and as a stream.

`Titles` is a retriever without `async`, so it is asked in a thread; `Vectors` is asynchronous; `Remote`
never answers. Asked by `ainvoke`, the fusion answers at its timeout, and the metadata of each document
says how it came to its place and who is missing. Asked by `astream`, it gives a document as soon as
nothing that is still to come can change its place: here the first one, on which two of three agree,
long before `Remote` is given up. A chain takes the fusion as it takes any retriever.

Run it with `python examples/langchain_retriever.py`, after `pip install 'rrf-stream[langchain]'`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from rrf_stream.integrations.langchain import FusionRetriever

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun


class Titles(BaseRetriever):
    """Answers at once."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        del run_manager
        titles = f"{query} at a glance", f"a history of {query}"
        return [Document(page_content=title, metadata={"from": "titles"}) for title in titles]


class Vectors(Titles):
    """Answers after a tenth of a second."""

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        del run_manager
        await asyncio.sleep(0.1)
        titles = f"{query} at a glance", f"{query} in depth"
        return [Document(page_content=title, metadata={"from": "vectors"}) for title in titles]


class Remote(Vectors):
    """Waits for a reply that never comes."""

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        del query, run_manager
        await asyncio.Event().wait()
        return []


fusion = FusionRetriever(
    retrievers=[Titles(), Vectors(), Remote()], names=["titles", "vectors", "remote"], timeout=1.0
)


async def main() -> None:
    """Ask in three ways."""
    for document in await fusion.ainvoke("beetles"):
        rrf = document.metadata["rrf"]
        certain = "certain" if rrf["exact"] else "may be another"
        print(f"{rrf['rank']}. {document.page_content}  {rrf['score']:.5f} {rrf['ranks']}, {certain}")
    print(rrf["coverage"]["arms"])

    print("\nas a stream:")
    started = time.perf_counter()
    async for chunk in fusion.astream("birds"):
        titles = ", ".join(document.page_content for document in chunk)
        print(f"{time.perf_counter() - started:.1f} s  {titles}")

    chain = fusion | RunnableLambda(lambda documents: f"{len(documents)} documents on moths")
    print("\nin a chain:", await chain.ainvoke("moths"))


if __name__ == "__main__":
    asyncio.run(main())
