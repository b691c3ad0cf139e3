"""The searches of one server, without anything of HTTP: who may search, what is open, who can answer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Self

import anyio

from rrf_stream import Fusion, Pipeline, Snapshot
from rrf_stream.errors import ArmError
from rrf_stream.web._asked import Asked, Defaults
from rrf_stream.web._limits import Admission, Limits
from rrf_stream.web._metrics import Metrics
from rrf_stream.web._problems import Refused

__all__ = ["Search", "Service"]

_PROBE_AGE = 5.0
"""Seconds for which the answer to a probe holds: whoever asks more often costs the arms nothing."""


class Service:
    """A pipeline that is searched by many clients, within limits.

    Args:
        pipeline: Whom to ask; None until it is known.
        limits: What clients may ask for.
        probe: A query that tells whether arms can answer; None to go by their breakers alone.

    Raises:
        ValueError: Clients cannot ask this pipeline.
    """

    def __init__(self, pipeline: Pipeline | None, *, limits: Limits, probe: Any) -> None:
        if pipeline is not None:
            _check(pipeline)
        self.pipeline = pipeline
        self.limits = limits
        self.metrics = Metrics()
        self._admission = Admission(limits)
        self._open: set[Fusion] = set()
        self._probe = probe
        self._probing = anyio.Lock()
        self._probed_at = -_PROBE_AGE
        self._unable: tuple[str, ...] = ()

    @property
    def defaults(self) -> Defaults:
        """What a search is when a client does not say.

        Raises:
            Refused: There is no pipeline yet.
        """
        pipeline = self._ready()
        options = pipeline.defaults
        timeout = options["timeout"]
        most = self.limits.timeout
        return Defaults(
            timeout=most if timeout is None else min(timeout, most),
            top_k=min(options["top_k"], self.limits.top_k),
            arms=tuple(arm.name for arm in pipeline.arms),
        )

    def facts(self) -> dict[str, Any]:
        """Return what a page that offers searches must know, in plain JSON types."""
        defaults, limits = self.defaults, self.limits
        return {
            "arms": [
                {"name": arm.name, "weight": float(arm.weight), "required": arm.required}
                for arm in self._ready().arms
            ],
            "timeout_ms": {"default": defaults.timeout_ms, "most": limits.timeout_ms},
            "top_k": {"default": defaults.top_k, "most": limits.top_k},
            "query_length": limits.query_length,
        }

    def read(self, query_string: bytes) -> Asked:
        """Return what a query string asks for.

        Raises:
            Refused: It is wrong, or there is no pipeline yet.
        """
        return Asked.read(query_string, limits=self.limits, defaults=self.defaults)

    @contextmanager
    def search(self, asked: Asked, *, client: str) -> Iterator[Search]:
        """Give a search, which is ended by whoever gets it, for as long as the block lasts.

        Raises:
            Refused: There is no room for it.
        """
        pipeline = self._ready()
        with self._admission.admit(client, now=time.monotonic(), timeout=asked.timeout):
            if len(asked.arms) < len(pipeline.arms):
                pipeline = pipeline.only(*asked.arms)
            settle = pipeline.defaults["settle"]
            fusion = pipeline.open(
                asked.query,
                timeout=asked.timeout,
                top_k=asked.top_k,
                settle=None if settle is None else min(settle, asked.top_k),
            )
            self._open.add(fusion)
            self.metrics.open.inc()
            search = Search(fusion, asked.timeout, self.metrics)
            is_broken = False
            try:
                yield search
            except Exception:
                is_broken = True
                raise
            finally:
                self._open.discard(fusion)
                self.metrics.open.dec()
                if not search.is_counted:
                    self.metrics.unanswered("broken" if is_broken else "left")

    def start(self, pipeline: Pipeline) -> None:
        """Let clients in, also again after `close`.

        Raises:
            ValueError: Clients cannot ask this pipeline.
        """
        _check(pipeline)
        self.pipeline = pipeline
        self._admission.is_closed = False

    def close(self) -> None:
        """Let nobody in any more, and end the searches under way with what has arrived."""
        self._admission.is_closed = True
        for fusion in self._open:
            fusion.stop()

    async def unable(self) -> tuple[str, ...]:
        """Return the required arms that cannot answer now, in their order.

        With a probe that is asked of the arms themselves, once in some seconds.

        Raises:
            Refused: Nobody may search now.
        """
        pipeline = self._ready()
        self._admission.check_open()
        required = tuple(arm.name for arm in pipeline.arms if arm.required)
        stats = pipeline.stats()
        refused = tuple(name for name in required if stats[name].breaker == "open")
        if refused or not required or self._probe is None:
            return refused
        async with self._probing:
            if time.monotonic() >= self._probed_at + _PROBE_AGE:
                answers: dict[str, bool] = {}
                async with anyio.create_task_group() as tasks:
                    for name in required:
                        tasks.start_soon(self._ask, pipeline.only(name), name, answers)
                self._unable = tuple(name for name in required if not answers[name])
                self._probed_at = time.monotonic()
            return self._unable

    async def _ask(self, alone: Pipeline, name: str, answers: dict[str, bool]) -> None:
        """Find out whether an arm answers the probe; by itself, as the first that fails ends a search."""
        try:
            best = await alone.search(
                self._probe, timeout=self.defaults.timeout, quorum=None, until="complete", settle=None
            )
        except ArmError:
            answers[name] = False
        else:
            answers[name] = not any(report.status.is_short for report in best.coverage)

    def _ready(self) -> Pipeline:
        if self.pipeline is None:
            raise Refused(503, "the server is starting", headers={"Retry-After": "1"})
        return self.pipeline


def _check(pipeline: Pipeline) -> None:
    names = [arm.name for arm in pipeline.arms]
    if not names:
        raise ValueError("pipeline must have an arm")
    for name in names:
        if "," in name:  # clients name arms with commas between them
            raise ValueError(f"pipeline must have arms without commas in their names, not {name!r}")


class Search:
    """One search under way, read once: `async with` it, then its snapshots or the final one.

    Attributes:
        is_counted: Whether the metrics have its end.
    """

    def __init__(self, fusion: Fusion, timeout: float, metrics: Metrics) -> None:
        self._fusion = fusion
        self._timeout = timeout
        self._metrics = metrics
        self.is_counted = False

    async def __aenter__(self) -> Self:
        await self._fusion.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._fusion.aclose()

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """Give every snapshot.

        Raises:
            ArmError: After the final one, if a required arm failed.
        """
        has_hits = False
        async for snapshot in self._fusion:
            if snapshot.hits and not has_hits:
                has_hits = True
                self._metrics.first(snapshot)
            yield snapshot

    async def final(self) -> Snapshot:
        """Wait for the final snapshot.

        Raises:
            ArmError: A required arm failed.
        """
        try:
            return await self._fusion.final()
        except ArmError:
            self.has_ended(await self._fusion.final())
            raise

    def has_ended(self, final: Snapshot) -> None:
        """Take note of the final snapshot, once it can be sent."""
        self.is_counted = True
        self._metrics.final(final, timeout=self._timeout)
