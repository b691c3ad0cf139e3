"""How a search is answered: admitted before anything is sent, and left whatever ends the answer."""

from __future__ import annotations

from typing import Protocol

import anyio

from rrf_stream.errors import ArmError
from rrf_stream.web._asgi import Receive, Scope, Send, StalledError, in_time, send_json
from rrf_stream.web._events import failure
from rrf_stream.web._payload import Payload, coverage_header
from rrf_stream.web._problems import MEDIA_TYPE
from rrf_stream.web._service import Search, Service

__all__ = ["FinalAnswer", "SearchEndpoint"]


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
                await send_json(send, failure(error), status=502, media_type=MEDIA_TYPE)
            else:
                headers = [("rrf-coverage", coverage_header(final))]
                await send_json(send, self._payload.of(final), headers=headers)
            tasks.cancel_scope.cancel()


class SearchEndpoint:
    """An ASGI application for one path.

    Args:
        service: Who searches.
        answer: How it is answered.
        stall: Seconds for a client to take what it is sent, before it is given up.
    """

    def __init__(self, service: Service, answer: Answer, *, stall: float) -> None:
        self._service = service
        self._answer = answer
        self._stall = stall

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises:
            Refused: It gets no search.
        """
        asked = self._service.read(scope["query_string"])
        if self._answer.is_taken_up and any(name == b"last-event-id" for name, _ in scope["headers"]):
            # The search that it belonged to is over. 204 is how a browser is told not to try again.
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})
            return
        client = scope["client"][0] if scope["client"] else ""
        with self._service.search(asked, client=client) as search:
            try:
                await self._answer.send(search, scope, receive, in_time(send, stall=self._stall))
            except* StalledError:
                pass  # nobody is there to be told
