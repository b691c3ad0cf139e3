"""What is imported when, what is said when it is missing, and that nothing asks the network.

Each test runs a program in an interpreter of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlite_kit import run_child

if TYPE_CHECKING:
    from pathlib import Path


def test_the_package_imports_no_retriever() -> None:
    run_child("""
        import sys
        import rrf_stream.retrievers
        assert not {"apsw", "sqlite_vec", "wordllama", "numpy"} & sys.modules.keys()
        """)


def test_the_model_is_imported_with_the_first_vector_only(tmp_path: Path) -> None:
    run_child(
        """
        import sys, anyio
        from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

        async def main():
            async with SQLiteIndex.create(sys.argv[1]) as index:
                await index.add([Document(id="a", text="")])
                assert await index.add([Document(id="b", text=" ", title="")]) == 1
                for arm in (index.lexical, index.graph):
                    assert [page async for page in arm("alpha")] == []
                assert [page async for page in index.dense(" ")] == []
                assert not {"wordllama", "numpy"} & sys.modules.keys()
                await index.prepare()
                assert {"wordllama", "numpy"} <= sys.modules.keys()

        anyio.run(main)
        """,
        str(tmp_path / "i.db"),
    )


def test_loading_the_model_leaves_logging_alone() -> None:
    """wordllama configures the root logger when it is imported, to print INFO events of everybody."""
    run_child("""
        import logging, anyio
        from rrf_stream.retrievers import _wordllama
        configure = logging.basicConfig
        anyio.run(_wordllama.prepare)
        assert logging.basicConfig is configure
        assert logging.root.handlers == []
        assert logging.root.level == logging.WARNING
        """)


def test_an_application_can_configure_logging_meanwhile() -> None:
    run_child("""
        import logging, threading
        from rrf_stream.retrievers import _wordllama
        with _wordllama._logging_left_alone():
            logging.basicConfig(level=logging.INFO)
            assert logging.root.handlers == []
            thread = threading.Thread(target=lambda: logging.basicConfig(level=logging.DEBUG))
            thread.start()
            thread.join()
        assert logging.root.level == logging.DEBUG
        """)


def test_vectors_need_no_network_and_no_home(tmp_path: Path) -> None:
    run_child(
        """
        import os, socket, sys

        def refuse(*arguments, **options):
            raise AssertionError("the network was asked")

        os.environ["HOME"] = os.environ["HF_HOME"] = "/nonexistent"
        for name in ("connect", "connect_ex", "sendto"):
            setattr(socket.socket, name, refuse)
        socket.create_connection = socket.getaddrinfo = refuse

        import anyio
        from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

        async def main():
            async with SQLiteIndex.create(sys.argv[1]) as index:
                await index.add([Document(id="a", text="alpha"), Document(id="b", text="beta")])
                assert [hit.id for hit in await anext(index.dense("alpha"))] == ["a", "b"]

        anyio.run(main, backend="trio")  # asyncio's own self-pipe is a socket too
        """,
        str(tmp_path / "i.db"),
    )


@pytest.mark.parametrize(("module", "named"), [("apsw", "apsw"), ("sqlite_vec", "sqlite-vec")])
def test_without_its_libraries_the_module_names_the_extra(module: str, named: str) -> None:
    run_child(
        """
        import sys
        sys.modules[sys.argv[1]] = None
        from rrf_stream.errors import MissingExtraError
        try:
            import rrf_stream.retrievers.sqlite
        except MissingExtraError as error:
            assert str(error).startswith(f"{sys.argv[2]} is not installed; the extra 'sqlite' brings it")
        else:
            raise AssertionError
        """,
        module,
        named,
    )


def test_without_wordllama_only_vectors_fail(tmp_path: Path) -> None:
    run_child(
        """
        import sys, anyio
        sys.modules["wordllama"] = None
        from rrf_stream.errors import MissingExtraError
        from rrf_stream.retrievers.sqlite import Document, SQLiteIndex

        async def main():
            async with SQLiteIndex.create(sys.argv[1]) as index:
                await index.add([Document(id="a", text="")])
                assert [page async for page in index.lexical("alpha")] == []
                for call in (
                    index.prepare(), index.add([Document(id="b", text="beta")]), anext(index.dense("alpha"))
                ):
                    try:
                        await call
                    except MissingExtraError as error:
                        assert "wordllama is not installed; the extra 'sqlite'" in str(error)
                    else:
                        raise AssertionError
                assert await index.count() == 1

        anyio.run(main)
        """,
        str(tmp_path / "i.db"),
    )
