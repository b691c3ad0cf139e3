"""What the tests of OpenTelemetry share: a provider that keeps every span, and ways to look at them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rrf_stream.integrations.otel import instrument, uninstrument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span

FUSION = "rrf_stream.fusion"


class Kept:
    """Every span that has ended, of the library and of the test."""

    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    @property
    def spans(self) -> list[ReadableSpan]:
        """All spans, in the order in which they ended."""
        return list(self._exporter.get_finished_spans())

    def __getitem__(self, name: str) -> ReadableSpan:
        """Return the one span of this name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    @property
    def fusion(self) -> ReadableSpan:
        """The span of the one fusion."""
        return self[FUSION]

    def arm(self, name: str) -> ReadableSpan:
        """Return the span of an arm."""
        return self[f"retrieval {name}"]

    def tree(self) -> dict[str, str | None]:
        """Return the name of the parent of each span, by the span's own name, sorted."""
        names = {id_of(span): span.name for span in self.spans}
        parents = {span.name: span.parent and names.get(span.parent.span_id, "?") for span in self.spans}
        return dict(sorted(parents.items()))


def id_of(span: Span | ReadableSpan) -> int:
    """Return the number of a span within its trace."""
    known = span.get_span_context()
    assert known is not None
    return known.span_id


def attributes(span: ReadableSpan, *left_out: str) -> dict[str, Any]:
    """Return the attributes of a span, without some."""
    return {name: value for name, value in (span.attributes or {}).items() if name not in left_out}


def events(span: ReadableSpan, name: str) -> list[dict[str, Any]]:
    """Return the attributes of each event of this name."""
    return [dict(event.attributes or {}) for event in span.events if event.name == name]


@contextmanager
def instrumented(**options: Any) -> Iterator[Kept]:
    """Keep the spans of all fusions that start while the context is open.

    Args:
        options: Those of the SDK's provider.
    """
    kept = Kept(**options)
    instrument(kept.provider)
    try:
        yield kept
    finally:
        uninstrument()
        kept.provider.shutdown()
