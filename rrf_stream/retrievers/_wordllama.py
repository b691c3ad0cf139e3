"""Texts to vectors with wordllama, whose weights come inside its wheel: no network is ever used.

The only importer of wordllama. It and numpy take about 1.5 s to import and load, so that happens
with the first vector, once for the process, in the thread where all embedding is done.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rrf_stream.errors import MissingExtraError
from rrf_stream.retrievers._workers import Workers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DIMENSIONS = 256
#: Characters of a text that are embedded. The vector is a mean over words: more of them change it
#: little, and one text of a million characters takes 0.5 GB and 2 s.
LONGEST_TEXT = 20_000
#: A call pads every text to its longest, at 1 KB a token: so many characters, padding included, and
#: so many texts at most. Short calls also let a query's own text pass between those of an indexer.
CALL_CHARACTERS = 65_536
CALL_TEXTS = 64


class Embedder:
    """The model, loaded when it is first needed. Not thread-safe: one worker owns it."""

    def __init__(self) -> None:
        self._model: Any = None

    def load(self) -> None:
        """Load the model, unless it is.

        Raises:
            MissingExtraError: wordllama is not installed.
        """
        if self._model is None:
            try:
                with _logging_left_alone():
                    import wordllama  # type: ignore[import-untyped]  # noqa: PLC0415 - no types; takes a second
            except ImportError as error:
                raise MissingExtraError("wordllama", extra="sqlite") from error
            # Both arguments are needed: without them it looks elsewhere for its files, then asks the network.
            folder = Path(wordllama.__file__).parent
            self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    def embed(self, texts: list[str]) -> list[bytes | None]:
        """Unit vectors as float32 bytes; None for a vector that is not finite."""
        self.load()
        vectors = self._model.embed(texts, norm=True)
        # The squared norm of a unit vector is 1, and no comparison with NaN holds.
        finite = ((vectors**2).sum(axis=1) > 0.5).tolist()
        return [vector.tobytes() if ok else None for vector, ok in zip(vectors, finite, strict=True)]

    def resume(self) -> None:
        """Nothing to do: a call is too short to be interrupted."""

    def interrupt(self) -> None:
        """Nothing to do: a call is too short to be interrupted."""

    def close(self) -> None:
        """Nothing to do: the model goes with the process."""


@contextlib.contextmanager
def _logging_left_alone() -> Iterator[None]:
    """Ignore `logging.basicConfig` in this thread: importing wordllama calls it, with level INFO.

    Otherwise every INFO event of every library would go to stderr from the first vector on.
    """
    configure, importer = logging.basicConfig, threading.get_ident()

    def basic_config(**options: Any) -> None:
        if threading.get_ident() != importer:
            configure(**options)

    logging.basicConfig = basic_config
    try:
        yield
    finally:
        logging.basicConfig = configure


async def prepare() -> None:
    """Load the model off the loop, unless it is loaded.

    Raises:
        MissingExtraError: wordllama is not installed.
    """
    await _workers().run(Embedder.load)


async def embed(texts: Sequence[str]) -> list[bytes | None]:
    """Embed texts off the loop.

    Args:
        texts: Any strings; lone surrogates are dropped, and at most `LONGEST_TEXT` characters count.

    Returns:
        For each text a unit vector as `DIMENSIONS` float32 numbers in bytes, or None for blank text.

    Raises:
        MissingExtraError: wordllama is not installed.
    """
    clean = [text[:LONGEST_TEXT].encode(errors="ignore").decode() for text in texts]
    vectors: list[bytes | None] = [None] * len(clean)
    for call in _calls(clean):
        found = await _workers().run(partial(_embed, [clean[place] for place in call]))
        for place, vector in zip(call, found, strict=True):
            vectors[place] = vector
    return vectors


def _embed(texts: list[str], embedder: Embedder) -> list[bytes | None]:
    return embedder.embed(texts)


def _calls(texts: list[str]) -> Iterator[list[int]]:
    """Places of the texts that have words, texts of like length together so that padding is little."""
    call: list[int] = []
    for place in sorted((p for p, text in enumerate(texts) if text.strip()), key=lambda p: len(texts[p])):
        if call and (len(call) == CALL_TEXTS or (len(call) + 1) * len(texts[place]) > CALL_CHARACTERS):
            yield call
            call = []
        call.append(place)
    if call:
        yield call


_lock = threading.Lock()
_shared: Workers[Embedder] | None = None


def _workers() -> Workers[Embedder]:
    global _shared  # noqa: PLW0603 - one model for the process is the point
    with _lock:
        if _shared is None:
            _shared = Workers(Embedder, count=1, name="rrf-stream-embedder", owner="the embedding model")
        return _shared
