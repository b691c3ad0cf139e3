"""Finding the document that a model means, with a function that may be plain or asynchronous."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import anyio.to_thread

from rrf_stream.integrations.mcp._text import LONGEST_ID, ids_meant

__all__ = ["Fetch", "FetchError", "document_by"]

Fetch: TypeAlias = Callable[[Any], Any]
"""Takes an id and gives the document, or an awaitable of it; None, or a LookupError, if there is none."""

_LONGEST = 6 * LONGEST_ID + 2  # an id that is shown as JSON has escapes and quotes
_logger = logging.getLogger("rrf_stream.mcp")


class FetchError(Exception):
    """A document could not be read; the message is for the model."""


async def document_by(fetch: Fetch, text: str, *, within: float) -> Any:
    """Return the document that an id names, or None.

    Args:
        fetch: Gives documents.
        text: The id, as search showed it.
        within: Seconds that it may take.

    Raises:
        FetchError: It took too long, or failed.
    """
    if len(text) > _LONGEST:
        return None
    try:
        with anyio.move_on_after(within):
            return await _found(fetch, text)
    except Exception as error:
        _logger.warning("rrf_stream.fetch_failed: %r", error)
        raise FetchError(
            f"the document could not be read ({type(error).__name__}); try again later"
        ) from error
    raise FetchError(f"the document could not be read within {within:g} s; try again later")


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
    # In a list, as trio takes an awaitable from a thread for a mistake.
    (found,) = await anyio.to_thread.run_sync(lambda: [fetch(id_)], abandon_on_cancel=True)
    return await found if isinstance(found, Awaitable) else found
