"""One request as a trace: a span for the fusion, one for each arm, and the call of a client below its arm.

Three arms are asked: `titles` runs in a thread, `vectors` calls a service by an instrumented client,
and `remote` fails. The program keeps the spans in memory and prints them as a tree, then what the log
says of the arm that failed: it names the same trace. It needs the extra `otel`, and the SDK of
OpenTelemetry, `pip install opentelemetry-sdk`; an application sends its spans to a collector instead.

Run it with `python examples/opentelemetry_spans.py`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rrf_stream import Pipeline
from rrf_stream.integrations.otel import instrument

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
instrument()

tracer = trace.get_tracer("example")
logged: list[dict[str, Any]] = []


def titles(query: str) -> list[str]:
    """Look into a list; no coroutine, so this runs in a thread."""
    with tracer.start_as_current_span("SELECT titles"):
        return [f"{query} in titles", f"{query} at a glance"]


async def vectors(query: str) -> list[str]:
    """Ask a service; its client begins a span, as that of an instrumented one does."""
    with tracer.start_as_current_span("POST /search"):
        await asyncio.sleep(0.02)
        return [f"{query} at a glance"]


async def remote(query: str) -> list[str]:
    """Fail."""
    raise ConnectionError(f"no route to the host that knows {query}")


def keep(_: Any, __: str, event: Any) -> Any:
    """Keep an event of the log, and print nothing."""
    logged.append(dict(event))
    raise structlog.DropEvent


def show(span: ReadableSpan, below: dict[int, list[ReadableSpan]], depth: int = 0) -> None:
    """Print a span with some of what it says, and those below it."""
    words = {name.rpartition(".")[2]: value for name, value in (span.attributes or {}).items()}
    told = [f"{word} {words[word]}" for word in ("outcome", "status", "received", "type") if word in words]
    print("  " * depth + "; ".join([span.name, *told]))
    for inner in below[span.context.span_id if span.context else 0]:
        show(inner, below, depth + 1)


async def main() -> None:
    """Answer one request, and print its trace."""
    structlog.configure(processors=[keep])
    pipeline = Pipeline({"titles": titles, "vectors": vectors, "remote": remote}, timeout=5.0)
    with tracer.start_as_current_span("GET /beetles") as request:
        answer = await pipeline.search("beetles")
    print("best:", answer.ids[0])

    below: dict[int, list[ReadableSpan]] = defaultdict(list)
    for span in sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0):
        below[span.parent.span_id if span.parent else 0].append(span)
    print()
    show(below[0][0], below)

    print()
    (failed,) = [event for event in logged if event.get("status") == "failed"]
    same = failed["trace_id"] == trace.format_trace_id(request.get_span_context().trace_id)
    print(f"logged: {failed['event']} {failed['arm']} {failed['error']}")
    print("in the same trace:", same)


if __name__ == "__main__":
    asyncio.run(main())
