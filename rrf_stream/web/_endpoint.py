"""How a search is answered: admitted before any arm is asked, and left whatever ends the answer."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Protocol

import anyio

from rrf_stream.errors import ArmError
from rrf_stream.web._asgi import CLOSE, Receive, Scope, Send, StalledError, in_time, send_json
from rrf_stream.web._events import failure
from rrf_stream.web._payload import Payload, coverage_header
from rrf_stream.web._problems import MEDIA_TYPE, Refused
from rrf_stream.web._service import Search, Service

__all__ = ["FinalAnswer", "SearchEndpoint"]

_NOT_KEPT = ("cache-control", "no-store")


class Answer(Protocol):
    """One way to answer a search.

    Attributes:
        is_taken_up: Whether browsers ask for it again by themselves if it breaks off.
    """

    is_taken_up: bool

    async def send(self, search: Search, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it, and have left it when this returns."""


class FinalAnswer:
    """Answers with the final snapshot, unless the client is gone before, which stops the arms at once.

    Args:
        payload: What is sent of a snapshot.
    """

    is_taken_up = False

    def __init__(self, payload: Payload) -> None:
        self._payload = payload

    async def send(self, search: Search, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a search."""
        del scope

        async def leave_with_client() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        async with search, anyio.create_task_group() as tasks:
            tasks.start_soon(leave_with_client)
            try:
                final = await search.final()
            except ArmError as error:
                await send_json(send, failure(error), status=502, media_type=MEDIA_TYPE, headers=[_NOT_KEPT])
            else:
                plain = self._payload.of(final)
                search.has_ended(final)
                await send_json(send, plain, headers=[("rrf-coverage", coverage_header(final)), _NOT_KEPT])
            tasks.cancel_scope.cancel()


class SearchEndpoint:
    """An ASGI application for one path.

    Args:
        service: Who searches.
        answer: How it is answered.
        stall: Seconds for a client to take what it is sent, before it is given up.
        origins: Origins of other sites whose pages may search; "*" for all.
    """

    def __init__(self, service: Service, answer: Answer, *, stall: float, origins: Sequence[str]) -> None:
        self._service = service
        self._answer = answer
        self._stall = stall
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises:
            Refused: It gets no search.
        """
        headers = dict(scope["headers"])
        if self._is_foreign(headers):
            raise Refused(403, "pages of other sites may not search here")
        asked = self._service.read(scope["query_string"])
        if self._answer.is_taken_up and b"last-event-id" in headers:
            # The search that it belonged to is over. 204 is how a browser is told not to try again.
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})
            return
        scope.setdefault("state", {})[CLOSE] = self._service.close
        client = _client_of(scope["client"][0]) if scope["client"] else ""
        with self._service.search(asked, client=client) as search:
            in_its_time = in_time(send, timeout=asked.timeout, stall=self._stall)
            try:
                await self._answer.send(search, scope, receive, in_its_time)
            except* StalledError:
                pass  # nobody is there to be told

    def _is_foreign(self, headers: dict[bytes, bytes]) -> bool:
        """Return whether a browser says that it is a page of another site that asks, and none that may."""
        if headers.get(b"sec-fetch-site") != b"cross-site" or b"*" in self._origins:
            return False
        return headers.get(b"origin") not in self._origins


def _client_of(address: str) -> str:
    """Return what counts as one client: an address, or the network that somebody with IPv6 has at least."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:  # the name that a proxy gives it
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return address
    return str(known.ipv4_mapped or known.exploded[:19])  # four of eight groups: /64
