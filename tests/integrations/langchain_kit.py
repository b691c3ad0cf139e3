"""What the tests of the LangChain adapter share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable
    from uuid import UUID

    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.runnables import Runnable, RunnableConfig

#: LangChain runs on asyncio only, so these are the event loops there are.
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio", "uvloop"], indirect=True)
#: The same in virtual time, where times are exact.
in_virtual_time = pytest.mark.parametrize("anyio_backend", ["asyncio-virtual"], indirect=True)
#: Asks in each of the ways that there are; `invoke` is called where an event loop runs.
every_way = pytest.mark.parametrize("how", ["invoke", "ainvoke", "astream"])

#: Asks for an answer as a whole; what a stream tells is told when a place is settled, perhaps early.
as_a_whole = pytest.mark.parametrize("how", ["invoke", "ainvoke"])

PATIENCE = 30
"""Seconds that a thread may take, on a machine that is busy."""


class Given(BaseRetriever):
    """Has no asynchronous way of its own; gives what it was given, or raises that."""

    found: Any

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        del query, run_manager
        if isinstance(self.found, Exception):
            raise self.found
        found: list[Document] = self.found
        return found


class Awaited(Given):
    """The same, asynchronous, after some seconds on the clock of the event loop."""

    after: float = 0.0

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        await anyio.sleep(self.after)
        return self._get_relevant_documents(query, run_manager=run_manager.get_sync())


class Gated(Given):
    """Blocks its thread until a gate is open."""

    gate: Any

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        gate: threading.Event = self.gate
        gate.wait(PATIENCE)
        return super()._get_relevant_documents(query, run_manager=run_manager)


def docs(*contents: str, **metadata: Any) -> list[Document]:
    """Return documents with some texts, and equal metadata."""
    return [Document(page_content=text, metadata={**metadata}) for text in contents]


def texts(documents: Iterable[Document]) -> list[str]:
    return [document.page_content for document in documents]


def rrf(documents: Iterable[Document]) -> list[dict[str, Any]]:
    """Return what the fusion says of each document."""
    return [document.metadata["rrf"] for document in documents]


def statuses(document: Document) -> dict[str, str]:
    """Return where each retriever stood, as one document tells it."""
    arms: dict[str, str] = document.metadata["rrf"]["coverage"]["arms"]
    return arms


async def ask(
    retriever: Runnable[str, list[Document]], how: str = "ainvoke", config: RunnableConfig | None = None
) -> list[Document]:
    """Return all documents, asked for in one of the ways."""
    if how == "invoke":
        return retriever.invoke("query", config)
    if how == "ainvoke":
        return await retriever.ainvoke("query", config)
    return [document async for chunk in retriever.astream("query", config) for document in chunk]


@dataclass
class Run:
    """What the callbacks were told of one run of a retriever."""

    name: str
    parent: str | None
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    told: list[str] = field(default_factory=list)
    found: list[str] | None = None
    error: BaseException | None = None


class Recorder(BaseCallbackHandler):
    """Keeps what it is told of retrievers, chains included as parents."""

    run_inline = True  # else LangChain calls it in threads, for which virtual time does not wait

    def __init__(self) -> None:
        self.runs: dict[UUID, Run] = {}

    def named(self, name: str) -> list[Run]:
        """Return the runs of a name, in the order of their starts."""
        return [run for run in self.runs.values() if run.name == name]

    def on_chain_start(self, *_: Any, run_id: UUID, **told: Any) -> None:
        self._start(run_id, told)

    def on_retriever_start(self, *_: Any, run_id: UUID, **told: Any) -> None:
        self._start(run_id, told)

    def on_retriever_end(self, documents: Any, *, run_id: UUID, **_: Any) -> None:
        self.runs[run_id].told.append("end")
        self.runs[run_id].found = texts(documents)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self.runs[run_id].told.append("error")
        self.runs[run_id].error = error

    def _start(self, run_id: UUID, told: dict[str, Any]) -> None:
        parent = self.runs.get(told["parent_run_id"])
        self.runs[run_id] = Run(
            told["name"],
            None if parent is None else parent.name,
            tuple(told["tags"] or ()),
            told["metadata"] or {},
            ["start"],
        )
