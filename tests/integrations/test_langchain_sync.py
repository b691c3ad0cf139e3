"""`invoke` where no event loop runs, and what it leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

import anyio
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_kit import PATIENCE, Gated, Given, docs, rrf, texts

from rrf_stream.integrations.langchain import FusionRetriever

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun

place = ContextVar("place", default="nowhere")


def all_end(threads: set[threading.Thread]) -> bool:
    """Return whether the threads end by themselves."""
    limit = time.monotonic() + PATIENCE
    while threads & {*threading.enumerate()} and time.monotonic() < limit:
        time.sleep(0.01)
    return not threads & {*threading.enumerate()}


def test_invoke_runs_without_an_event_loop() -> None:
    """And leaves no thread for long: neither that of the event loop, nor those of the retrievers."""
    before = {*threading.enumerate()}
    retriever = FusionRetriever(retrievers=[Given(found=docs("oslo", "bern")), Given(found=docs("bern"))])
    assert texts(retriever.invoke("query")) == ["bern", "oslo"]
    assert all_end({*threading.enumerate()} - before)


def test_invoke_leaves_the_event_loop_of_a_thread_in_place() -> None:
    """What `asyncio.run` would have unset is as it was."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        FusionRetriever(retrievers=[Given(found=docs("oslo"))]).invoke("query")
        assert asyncio.get_event_loop_policy().get_event_loop() is loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_invoke_asks_in_the_context_of_the_caller() -> None:
    """Retrievers see the caller's context variables."""
    place.set("oslo")
    retriever = FusionRetriever(retrievers=[RunnableLambda(lambda _: docs(place.get()))])
    assert texts(retriever.invoke("query")) == ["oslo"]


async def find_awaited() -> list[Document]:
    await anyio.sleep(0.001)
    return docs("oslo")


def by_anyio(_: str) -> list[Document]:
    return anyio.run(find_awaited)


def by_asyncio(_: str) -> list[Document]:
    return asyncio.run(find_awaited())


def test_retrievers_may_run_event_loops_of_their_own() -> None:
    """As clients do that wrap asynchronous code: they do not learn of the event loop that asks them."""
    nested = FusionRetriever(retrievers=[RunnableLambda(by_anyio), RunnableLambda(by_asyncio)])
    outer = FusionRetriever(retrievers=[nested, RunnableLambda(by_anyio)], raise_on_degraded=True)
    (found,) = outer.invoke("query")
    assert rrf([found])[0]["ranks"] == {"retriever_1": 1, "retriever_2": 1}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_invoke_runs_where_any_event_loop_runs(backend: str) -> None:
    """That it holds up; LangChain knows nothing of trio, and need not."""

    async def main() -> list[str]:
        return texts(FusionRetriever(retrievers=[Given(found=docs("oslo"))]).invoke("query"))

    assert anyio.run(main, backend=backend) == ["oslo"]


def test_batch_asks_for_several_queries_at_once() -> None:
    """Each in a thread of LangChain's; an error is one of its query only, if that is asked for."""

    def find(query: str) -> list[Document]:
        if query == "fails":
            raise OSError("refused")
        return docs(query)

    retriever = FusionRetriever(retrievers=[RunnableLambda(find)])
    oslo, error, bern = retriever.batch(["oslo", "fails", "bern"], return_exceptions=True)
    assert (texts(oslo), texts(bern)) == (["oslo"], ["bern"])
    assert "retriever_1 (failed after 0 hits)" in str(error)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals between threads")
def test_invoke_can_be_interrupted() -> None:
    """Ctrl-C ends a search that hangs, as a signal does that comes once it waits."""
    before = {*threading.enumerate()}
    gate = threading.Event()
    asked = threading.Event()

    class Asked(Gated):
        def _get_relevant_documents(
            self, query: str, *, run_manager: CallbackManagerForRetrieverRun
        ) -> list[Document]:
            asked.set()
            return super()._get_relevant_documents(query, run_manager=run_manager)

    def interrupt() -> None:
        asked.wait(PATIENCE)
        time.sleep(0.5)  # as Python does not wake up for a signal that comes just before it waits for a lock
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        FusionRetriever(retrievers=[Asked(found=docs("oslo"), gate=gate)]).invoke("query")
    (stuck,) = [one for one in threading.enumerate() if one.name == "rrf:thread:Asked"]
    assert all_end({*threading.enumerate()} - before - {stuck})
    gate.set()
    assert all_end({stuck})


def run_child(code: str) -> None:
    """Run a program in a Python of its own, with warnings as errors."""
    ran = subprocess.run(  # noqa: S603 - the program is the test's own
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr


def test_a_stuck_retriever_keeps_no_program_from_ending() -> None:
    """Neither `invoke` nor `asyncio.run` around `ainvoke` waits for a call that never returns."""
    run_child("""
        import asyncio, threading
        from langchain_core.runnables import RunnableLambda
        from rrf_stream.integrations.langchain import FusionRetriever

        stuck = RunnableLambda(lambda query: threading.Event().wait())
        good = RunnableLambda(lambda query: [query])
        fusion = FusionRetriever(retrievers=[stuck, good], timeout=1)
        assert len(fusion.invoke("a")) == 1
        assert len(asyncio.run(fusion.ainvoke("a"))) == 1
        """)


def test_the_library_is_imported_by_nobody_who_does_not_ask_for_it() -> None:
    """Neither the package nor its integrations import LangChain."""
    run_child("""
        import sys
        import rrf_stream.integrations
        assert "langchain_core" not in sys.modules
        """)


def test_a_missing_library_is_named_with_its_extra() -> None:
    """Without LangChain the import says what to install."""
    run_child("""
        import sys
        sys.modules["langchain_core"] = None
        from rrf_stream.errors import MissingExtraError
        try:
            import rrf_stream.integrations.langchain
        except MissingExtraError as error:
            assert error.extra == "langchain"
            assert "rrf-stream[langchain]" in str(error)
        else:
            raise SystemExit("it was imported")
        """)
