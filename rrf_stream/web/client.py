"""A search server from the other side: its snapshots while they come, and itself as an arm of a fusion."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from rrf_stream import ArmStatus, Hit, Outcome, Page, Snapshot
from rrf_stream.errors import RemoteError
from rrf_stream.web._question import Question
from rrf_stream.web._remote import check_client, read

if TYPE_CHECKING:
    import httpx

__all__ = ["remote_arm", "stream_search"]


def stream_search(
    url: str,
    q: str,
    *,
    timeout: float | None = None,
    top_k: int | None = None,
    arms: Iterable[str] | None = None,
    token: str | None = None,
    client: httpx.AsyncClient | None = None,
) -> AsyncGenerator[Snapshot, None]:
    """Search on a server, and read its snapshots while they come; the last one is final.

    It is what `Pipeline.open` gives over there. To leave it early closes the connection, and so stops the
    arms of the server. Like any asynchronous generator it is left by its `aclose`, as `contextlib.aclosing`
    calls it; by `break` alone only when it is collected. A search is never repeated, whatever happens to
    the connection.

    Example:
        `async for snapshot in stream_search("http://127.0.0.1:8000", "how to sort"): ...`

    Args:
        url: Where the server is, with the path below which it answers, if it has one.
        q: What to search for.
        timeout: Seconds that the server gets for the final snapshot; the server's own default if None.
            The way there and back comes on top, so a limit that must hold is a scope around the reading.
        top_k: How many hits a snapshot shows; the server's own default if None.
        arms: Names of the arms to ask; all of them if None.
        token: The token that the server wants.
        client: What to ask with, so that connections are kept, or for proxies and certificates of one's own;
            it stays open. If None, each search has one of its own, which goes by the proxies of the
            environment, except to the machine that it is on.

    Returns:
        An asynchronous generator of snapshots. Reading it raises

        - `RemoteError` if the server cannot be reached or refuses the search, if it breaks off before its
          final snapshot, is silent for 45 seconds, without even a comment, sends an event of more than 16 MB,
          or answers something else; and after the final snapshot, if an arm failed that is
          required there.

    Raises:
        ValueError: The address is not one of HTTP, or something asked for cannot be.
        TypeError: A value is of the wrong type.
    """
    check_client(client)
    if not isinstance(q, str):
        raise TypeError(f"q must be text, not {q!r}")
    return read(Question.of(url, timeout=timeout, top_k=top_k, arms=arms, token=token), q, client)


def remote_arm(
    url: str,
    *,
    timeout: float | None = None,
    top_k: int = 100,
    arms: Iterable[str] | None = None,
    token: str | None = None,
    client: httpx.AsyncClient | None = None,
    degraded: Literal["fail", "accept"] = "fail",
) -> Callable[[str], AsyncGenerator[Page[Hit], None]]:
    """Return a retriever that searches on a server: its fused ranking is one arm of another fusion.

    Ranks count as soon as they are certain. What a snapshot shows as `settled` is final, so these hits are
    delivered at once, in order and each position once; the rest comes with the final snapshot, and all of it
    does if the server tells nothing of the future (`bounds="off"`). A hit has the id, the score and the
    item that the server shows. Lists in ids are tuples, as `Snapshot.from_dict` has them.

    An answer that lacks something does not look complete here either. If an arm of the server was cut off or
    failed, its hits count all the same, but then the arm fails with a `DegradedError`, whose `coverage`
    is that of the server. Arms that were stopped because the top was settled lack nothing. Where the server
    fails, refuses or breaks off, the arm fails with a `RemoteError`, and keeps what it has delivered.

    Closing the arm, at its timeout or otherwise, closes the connection, and so stops the arms over there.

    Example:
        `Pipeline({"docs": remote_arm("http://127.0.0.1:8001"), "code": remote_arm("http://127.0.0.1:8002")})`

    Args:
        url: Where the server is, with the path below which it answers, if it has one.
        timeout: Seconds that the server gets for its final snapshot; the server's own default if None. It
            should be less than the timeout of this arm or its fusion, so that the rest still comes.
        top_k: How many hits to ask for, as many as the window of the arm; a server may allow fewer.
        arms: Names of the arms to ask there; all of them if None.
        token: The token that the server wants.
        client: As for `stream_search`. A client is for one event loop; so is a retriever that has one.
        degraded: Whether an answer that lacks something is the failure of this arm, "fail", or not, "accept".

    Raises:
        ValueError: The address is not one of HTTP, or something asked for cannot be.
        TypeError: A value is of the wrong type.
    """
    check_client(client)
    question = Question.of(url, timeout=timeout, top_k=top_k, arms=arms, token=token)
    if degraded not in {"fail", "accept"}:
        raise ValueError(f"degraded must be 'fail' or 'accept', not {degraded!r}")

    async def remote(query: str) -> AsyncGenerator[Page[Hit], None]:
        if not isinstance(query, str):
            raise TypeError(f"the query of a search server must be text, not {query!r}")
        delivered: list[Any] = []
        snapshot: Snapshot | None = None
        snapshots = read(question, query, client)
        try:
            async for snapshot in snapshots:
                if snapshot.ids[: len(delivered)] != delivered:
                    raise RemoteError(f"{question.shown} took back hits that were settled")
                certain = len(snapshot.hits) if snapshot.final else snapshot.settled or 0
                more = snapshot.hits[len(delivered) : certain]
                delivered += [hit.id for hit in more]
                if more:
                    yield Page([Hit(hit.id, hit.score, hit.item) for hit in more])
        finally:
            await snapshots.aclose()
        if degraded == "fail" and snapshot is not None and _lacks_something(snapshot):
            snapshot.raise_for_coverage()

    return remote


def _lacks_something(snapshot: Snapshot) -> bool:
    """Return whether an arm closed short, and not just because no more of it was needed."""
    needless = {ArmStatus.STOPPED} if snapshot.outcome is Outcome.SETTLED else set()
    return any(report.status.is_short and report.status not in needless for report in snapshot.coverage)
