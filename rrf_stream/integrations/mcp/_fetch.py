"""Finding the document that a model means, with a function that may be plain or asynchronous."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeAlias

import anyio

from rrf_stream import Hit, in_thread
from rrf_stream.errors import ThreadLimitError
from rrf_stream.integrations.mcp._limits import RefusedError
from rrf_stream.integrations.mcp._text import LONGEST_ID, ids_meant

__all__ = ["Fetch", "document_by", "unreadable"]

Fetch: TypeAlias = Callable[[Any], Any]
"""Takes an id and gives the document, or an awaitable of it; None, or a LookupError, if there is none."""

_LONGEST = 6 * LONGEST_ID + 2  # an id that is shown as JSON has escapes and quotes
_logger = logging.getLogger("rrf_stream.mcp")


async def document_by(fetch: Fetch, text: str, *, within: float) -> Any:
    """Return the document that an id names, or None.

    Args:
        fetch: Gives documents.
        text: The id, as search showed it.
        within: Seconds that it may take.

    Raises:
        RefusedError: It took too long, or failed.
    """
    if len(text) > _LONGEST:
        return None
    try:
        with anyio.move_on_after(within):
            return await _found(fetch, text)
    except Exception as error:
        raise unreadable(error) from error
    raise RefusedError(f"the document could not be read within {within:g} s; try again later")


def unreadable(error: Exception) -> RefusedError:
    """Log why a document could not be read, and return what a model is told of it."""
    _logger.warning("rrf_stream.fetch_failed: %r", error)
    why = "too many are being read" if isinstance(error, ThreadLimitError) else type(error).__name__
    return RefusedError(f"the document could not be read ({why}); try again later")


async def _found(fetch: Fetch, text: str) -> Any:
    for number, meant in enumerate(ids_meant(text)):
        try:
            document = await _called(fetch, meant)
        except LookupError:
            continue
        except (TypeError, ValueError):
            if not number:
                raise
            continue  # ids are text here, and the text is none
        if document is not None:
            return document
    return None


async def _called(fetch: Fetch, id_: Any) -> Any:
    if inspect.iscoroutinefunction(fetch):
        return await fetch(id_)
    # As a source of one result, it has a thread that is counted until it ends, though nobody waits any more.
    async with aclosing(aiter(in_thread(lambda: [Hit("document", item=fetch(id_))]))) as results:
        found = (await anext(results))[0].item
    return await found if isinstance(found, Awaitable) else found
