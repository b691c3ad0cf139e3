"""A query engine of LlamaIndex over three retrievers, of which one hangs: the answer is on time.

`vectors` is a real vector index, with an embedding that counts letters; `words` is a retriever of
our own, and `archive` stands for a server that does not answer. `FusionRetriever` takes the place of
`QueryFusionRetriever`: the engine does not know the difference. Each source says which retrievers
found it, and which did not answer; a language model sees nothing of that.

Run it with `python examples/llamaindex_retriever.py`, after `pip install 'rrf-stream[llamaindex]'`.
"""

from __future__ import annotations

import string
import threading

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from rrf_stream.integrations.llamaindex import FusedNode, FusionRetriever

NODES = [
    TextNode(id_="bees", text="bees make honey from nectar"),
    TextNode(id_="bears", text="bears like honey more than berries"),
    TextNode(id_="wasps", text="wasps make paper nests"),
    TextNode(id_="ants", text="ants keep aphids for honeydew"),
]
over = threading.Event()
"""Set when the program ends, to let the thread go that hangs."""


class Letters(BaseEmbedding):
    """Count the letters of a text: no model, and no network."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.count(letter)) for letter in string.ascii_lowercase]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Words(BaseRetriever):
    """Find the nodes that have most words of the query."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        asked = {*query_bundle.query_str.split()}
        scored = [NodeWithScore(node=node, score=len(asked & {*node.text.split()})) for node in NODES]
        return sorted((hit for hit in scored if hit.score), key=NodeWithScore.get_score, reverse=True)


class Archive(BaseRetriever):
    """Hang, and find nothing when that is over."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        over.wait()
        return [NodeWithScore(node=TextNode(text=f"too late for {query_bundle.query_str}"))]


def main() -> None:
    """Ask an engine, and say where its sources are from."""
    vectors = VectorStoreIndex(NODES, embed_model=Letters()).as_retriever(similarity_top_k=3)
    retriever = FusionRetriever(
        {"vectors": vectors, "words": Words(), "archive": Archive()}, similarity_top_k=2, timeout=0.5
    )
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    response = engine.query("who can make honey")

    sources = [source for source in response.source_nodes if isinstance(source, FusedNode)]
    for source in sources:
        print(f"{source.node_id}: {source.text} (score {source.score:.5f}, ranks {source.ranks})")
    print("coverage:", sources[0].coverage)
    print("the model is told of ranks:", "ranks" in str(response))  # MockLLM gives back its prompt
    over.set()


if __name__ == "__main__":
    main()
