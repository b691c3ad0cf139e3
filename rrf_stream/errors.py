"""What the library raises on its own account.

Wrong arguments are `ValueError` or `TypeError`, as everywhere in Python; the
classes here are for what went wrong with a search::

    RRFStreamError
    +-- ArmError            a required arm failed or was not read; __cause__ is its own error
    +-- DegradedError       raise_for_coverage() on an answer that lacks an arm
    +-- FusionClosedError   the fusion or the arm takes no more (also a ValueError)
    +-- MissingExtraError   an optional library is not installed (also an ImportError)
    +-- RemoteError         a server did not answer a search, or broke off
    +-- ReportedError       what an arm raised elsewhere, as a snapshot from there tells of it
    +-- ThreadLimitError    as many threads run blocking sources as may
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rrf_stream._coverage import Coverage

__all__ = [
    "ArmError",
    "DegradedError",
    "FusionClosedError",
    "MissingExtraError",
    "RRFStreamError",
    "RemoteError",
    "ReportedError",
    "ThreadLimitError",
]


class RRFStreamError(Exception):
    """Base of every error that this library raises on its own account."""


class ArmError(RRFStreamError):
    """A required arm failed, so the whole fusion did.

    Attributes:
        arm: The name of the arm. Its own exception is `__cause__`; None if it was skipped.
    """

    def __init__(self, message: str, *, arm: str) -> None:
        super().__init__(message)
        self.arm = arm

    def __reduce__(self) -> tuple[Callable[..., ArmError], tuple[Any, ...]]:
        return partial(type(self), arm=self.arm), self.args


class DegradedError(RRFStreamError):
    """The answer lacks at least part of what an arm should have delivered.

    Attributes:
        coverage: Which arms answered, and why the others did not.
    """

    def __init__(self, message: str, *, coverage: Coverage) -> None:
        super().__init__(message)
        self.coverage = coverage

    def __reduce__(self) -> tuple[Callable[..., DegradedError], tuple[Any, ...]]:
        return partial(type(self), coverage=self.coverage), self.args


class FusionClosedError(RRFStreamError, ValueError):
    """The fusion, or one of its arms, is closed and takes no more."""


class MissingExtraError(RRFStreamError, ImportError):
    """An optional library is not installed; the message names the extra that brings it."""

    def __init__(self, library: str, *, extra: str) -> None:
        super().__init__(
            f"{library} is not installed; the extra {extra!r} brings it: pip install 'rrf-stream[{extra}]'",
            name=library,
        )
        self.extra = extra

    def __reduce__(self) -> tuple[Callable[..., MissingExtraError], tuple[Any, ...]]:
        return partial(type(self), extra=self.extra), (self.name,)


class RemoteError(RRFStreamError):
    """A search server refused a search, failed at it, or broke off before its final snapshot.

    Attributes:
        status: The HTTP status of its answer, or the one that it named in the stream; None if there is none.
        problem: What the server says of it, by the names of RFC 9457 (`title`, `detail` and others); empty
            if it says nothing.
        retry_after: Seconds after which it may be asked again, if it said so, at least 0; else None.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        problem: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = dict(problem or {})
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Callable[..., RemoteError], tuple[Any, ...]]:
        told = partial(type(self), status=self.status, problem=self.problem, retry_after=self.retry_after)
        return told, self.args


class ReportedError(RRFStreamError):
    """What an arm raised elsewhere, in a report that came as JSON: its words are all that is left of it."""

    def __repr__(self) -> str:
        return str(self)


class ThreadLimitError(RRFStreamError):
    """As many threads run blocking sources as may, or as the system gives; see `set_thread_limit`.

    Attributes:
        most: How many threads may run at once.
        running: How many ran.
    """

    def __init__(self, message: str, *, most: int, running: int) -> None:
        super().__init__(message)
        self.most = most
        self.running = running

    def __reduce__(self) -> tuple[Callable[..., ThreadLimitError], tuple[Any, ...]]:
        return partial(type(self), most=self.most, running=self.running), self.args
