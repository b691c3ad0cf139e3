"""LangChain: its retrievers as arms, and a fusion as a retriever in place of `EnsembleRetriever`.

LangChain's asynchronous side runs on asyncio only, so what awaits a retriever here does, too.
"""

from rrf_stream.integrations.langchain._arms import from_langchain
from rrf_stream.integrations.langchain._retriever import FusionRetriever

__all__ = [
    "FusionRetriever",
    "from_langchain",
]
