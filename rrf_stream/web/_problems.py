"""What a client is told when it gets no answer: problem details by RFC 9457."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

__all__ = ["MEDIA_TYPE", "Refused", "problem"]

MEDIA_TYPE = "application/problem+json"


def problem(status: int, detail: str, **members: Any) -> dict[str, Any]:
    """Return the body of a problem.

    Args:
        status: The HTTP status, which is all that its type and title say.
        detail: What is wrong here, in words for the client.
        members: What a program may want to know beside, such as the `parameter`.
    """
    title = HTTPStatus(status).phrase
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, **members}


class Refused(Exception):  # noqa: N818 - it is an answer, not an error of the server
    """A request is answered with a problem.

    Attributes:
        status: The HTTP status.
        body: The problem.
        headers: To be sent with it.
    """

    def __init__(
        self, status: int, detail: str, *, headers: dict[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.body = problem(status, detail, **members)
        self.headers = headers or {}
