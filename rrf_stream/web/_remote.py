"""One search at a server, over HTTP: how it is asked, and how its answer is read and left.

The only module that imports httpx and httpx-sse.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from functools import cache
from typing import Any, cast

import anyio

from rrf_stream import Snapshot
from rrf_stream.errors import MissingExtraError, RemoteError
from rrf_stream.web._question import Question

try:
    import httpx
except ImportError as error:
    raise MissingExtraError("httpx", extra="web") from error
try:
    from httpx_sse import EventSource, ServerSentEvent
except ImportError as error:
    raise MissingExtraError("httpx-sse", extra="web") from error

__all__ = ["check_client", "read"]

_TIMES = httpx.Timeout(connect=5, read=45, write=5, pool=5)  # `ping` is 30 s at most
_CLOSING = 2.0  # seconds; to close a connection waits for nobody, so this is never reached
_LONGEST_PROBLEM = 65_536
_LONGEST_EVENT = 16_000_000


def check_client(client: Any) -> None:
    """Refuse what is neither None nor a client for asynchronous requests."""
    if client is not None and not isinstance(client, httpx.AsyncClient):
        raise TypeError(f"client must be an httpx.AsyncClient, or None, not {client!r}")


async def read(
    question: Question, query: str, client: httpx.AsyncClient | None
) -> AsyncGenerator[Snapshot, None]:
    """Ask, and give the snapshots; see `stream_search`. Whatever ends it, the connection is closed then."""
    answer = _Answer(question, client)
    try:
        await answer.ask(query)
        while (snapshot := await answer.next()) is not None:
            yield snapshot
    finally:
        await answer.close()


class _Answer:
    """The answer to one search, from the request to the end of its connection.

    Args:
        question: Whom to ask, and how.
        client: What to ask with; None for a client of its own.
    """

    def __init__(self, question: Question, client: httpx.AsyncClient | None) -> None:
        self._question = question
        self._given = client is not None
        self._client = client or _client_for(question)
        self._response: httpx.Response | None = None
        self._parts: AsyncIterator[Any] | None = None  # of the response, while it is read
        self._body: _Bounded | None = None
        self._has_final = False

    async def ask(self, query: str) -> None:
        """Send the request, and wait for the head of the answer.

        Raises:
            RemoteError: There is no answer, or it is no stream of events.
        """
        question = self._question
        try:
            request = self._client.build_request(
                "GET",
                question.url,
                params={"q": query, **question.options},
                headers=question.headers,
                timeout=_TIMES,
            )
            self._response = response = await self._client.send(request, stream=True)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.status_code != 200:
                raise await self._refusal(response, kind)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RemoteError(f"{question.shown} did not answer: {error!r}") from error
        if kind != "text/event-stream":
            raise RemoteError(
                f"{question.shown} answered with {kind or 'nothing'}, and not with a stream of events"
                " as rrf_stream.web gives it",
                status=response.status_code,
            )
        if response.headers.get("content-encoding", "identity") != "identity":
            raise RemoteError(f"{question.shown} compressed its answer, which was not asked for")
        response.stream = self._body = _Bounded(cast("httpx.AsyncByteStream", response.stream))
        self._parts = EventSource(response).aiter_sse()

    async def _refusal(self, response: httpx.Response, kind: str) -> RemoteError:
        body = b""
        self._parts = parts = response.aiter_bytes()
        async for some in parts:
            body += some
            if len(body) > _LONGEST_PROBLEM:
                break
        problem: Any = None
        if kind in {"application/problem+json", "application/json"}:
            with suppress(ValueError):  # then the status has to do
                problem = json.loads(body)
        return _failure(
            f"{self._question.shown} refused the search",
            problem,
            status=response.status_code,
            retry_after=_seconds(response.headers.get("retry-after")),
        )

    async def next(self) -> Snapshot | None:
        """Wait for the next snapshot; None after the last one.

        Raises:
            RemoteError: The stream broke off before the final snapshot, or tells of an error.
        """
        shown = self._question.shown
        try:
            while self._parts is not None and self._body is not None:
                event: ServerSentEvent | None = await anext(self._parts, None)
                if event is None:
                    break
                self._body.size = 0
                if not event.data:
                    continue  # such as an id alone: by the standard, no event
                if event.event == "snapshot" and not self._has_final:
                    return self._snapshot(event.data)
                if event.event == "error":
                    raise _failure(f"{shown} failed", _parsed(event.data))
                if event.event == "done":
                    await self._reach_the_end(self._parts)
                    break
        except httpx.HTTPError as error:
            if not self._has_final:
                raise RemoteError(f"{shown} broke off before its final snapshot: {error!r}") from error
        if not self._has_final:
            raise RemoteError(f"{shown} ended before its final snapshot")
        return None

    def _snapshot(self, data: str) -> Snapshot:
        try:
            snapshot = Snapshot.from_dict(json.loads(data))
        except (ValueError, RecursionError) as error:
            raise RemoteError(f"{self._question.shown} told what is no snapshot: {error}") from error
        self._has_final = snapshot.final
        return snapshot

    async def _reach_the_end(self, parts: AsyncIterator[Any]) -> None:
        """Read the end of the body, which comes with the last event, so that the connection can be kept."""
        if self._given:
            with anyio.move_on_after(0.1):
                async for _ in parts:
                    pass

    async def close(self) -> None:
        """Close the connection, also where the task is cancelled: the server sees it, and stops its arms."""
        with anyio.move_on_after(_CLOSING, shield=True):
            if self._response is not None:
                await self._response.aclose()
            if self._parts is not None:
                await _end(self._parts)
            if not self._given:
                await self._client.aclose()


class _Bounded(httpx.AsyncByteStream):
    """The body of an answer, which breaks off where an event is too long to be one.

    Attributes:
        size: Bytes that came since the last event.
    """

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream
        self.size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = aiter(self._stream)
        async for part in parts:
            self.size += len(part)
            if self.size > _LONGEST_EVENT:
                await self.aclose()
                await _end(parts)
                raise httpx.RemoteProtocolError(f"an event of more than {_LONGEST_EVENT // 10**6} MB")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _end(parts: AsyncIterator[Any]) -> None:
    """End the reading of a response that is closed.

    Inside of this generator are others, of httpx, which nobody else can end: dropped as they are, each
    would be closed by the event loop later. Reading what is closed ends them all.
    """
    with suppress(httpx.HTTPError, httpx.StreamError):
        async for _ in parts:
            pass


def _failure(
    what: str, problem: Any, *, status: int | None = None, retry_after: float | None = None
) -> RemoteError:
    """Return the error that an answer tells of, in its own words as far as there are any."""
    told: dict[str, Any] = problem if isinstance(problem, dict) else {}
    if status is None and isinstance(told.get("status"), int):
        status = told["status"]
    words = [str(told[name]) for name in ("title", "detail") if told.get(name)]
    numbered = [] if status is None else [f"status {status}"]
    return RemoteError(
        ": ".join([what, *numbered, *words]), status=status, problem=told, retry_after=retry_after
    )


def _parsed(data: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdecimal() else None


def _client_for(question: Question) -> httpx.AsyncClient:
    """Return a client for one search; a proxy is never asked for what is on this machine."""
    return httpx.AsyncClient(verify=_trusted(question.url.partition(":")[0]), trust_env=not question.is_local)


@cache
def _trusted(scheme: str) -> ssl.SSLContext:
    """Return whom to trust. To load all authorities takes longer than a search: once, if at all."""
    return httpx.create_ssl_context() if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
