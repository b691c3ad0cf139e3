"""A pipeline of Haystack that asks two stores and a server that hangs: the answer is on time.

`FusionRetriever` is one component for all three, and tells the rest of the pipeline how much of an
answer it is: here a prompt says so. `FusionJoiner`, in the second pipeline, takes the place of
`DocumentJoiner` where retrievers are components of their own; there, each of them is waited for.

Run it with `python examples/haystack_pipeline.py`, after `pip install 'rrf-stream[haystack]'`.
"""

from __future__ import annotations

import os
import threading
from typing import Any

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # Haystack reads it once, when it is imported

from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from rrf_stream.integrations.haystack import FusionJoiner, FusionRetriever

MANUALS = {"bees": "bees make honey", "hives": "how to make a hive", "bears": "keep bears away from honey"}
NEWS = {"fair": "a fair of honey and wax", "bees": "bees make honey", "rain": "rain until Sunday"}
PROMPT = """
{%- for document in documents %}
{{ document.content }} ({{ document.meta.rrf.ranks }})
{%- endfor %}
{%- if degraded %}
Not all sources answered: {{ coverage.reasons | join(", ") }}.
{%- endif %}"""
over = threading.Event()
"""Set when the program ends, to let the thread go that hangs."""


@component
class Remote:
    """Hang, and find nothing when that is over."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        """Stand for a client that has no timeout."""
        over.wait()
        return {"documents": [Document(content=f"too late for {query}")]}


def searching(texts: dict[str, str]) -> InMemoryBM25Retriever:
    """Return a retriever over a store with these texts."""
    store = InMemoryDocumentStore()
    store.write_documents([Document(id=id_, content=text) for id_, text in texts.items()])
    return InMemoryBM25Retriever(store)


def main() -> None:
    """Ask in both ways."""
    arms = {"manuals": searching(MANUALS), "news": searching(NEWS), "remote": Remote()}
    pipeline = Pipeline()
    pipeline.add_component("sources", FusionRetriever(arms, top_k=3, timeout=0.5))
    pipeline.add_component("prompt", PromptBuilder(PROMPT, required_variables="*"))
    for output in ("documents", "coverage", "degraded"):
        pipeline.connect(f"sources.{output}", f"prompt.{output}")
    print("one component:", pipeline.run({"sources": {"query": "make honey"}})["prompt"]["prompt"])

    joined = Pipeline()
    joined.add_component("manuals", searching(MANUALS))
    joined.add_component("news", searching(NEWS))
    joined.add_component("joiner", FusionJoiner(top_k=3))
    joined.connect("manuals", "joiner")
    joined.connect("news", "joiner")
    found = joined.run({"manuals": {"query": "make honey"}, "news": {"query": "make honey"}})
    print("\na joiner:")
    for document in found["joiner"]["documents"]:
        print(f"{document.content} ({document.score:.5f})")
    over.set()


if __name__ == "__main__":
    main()
