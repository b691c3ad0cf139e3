"""The only importer of langchain_core: all that the modules beside this one take from it."""

from __future__ import annotations

from rrf_stream.errors import MissingExtraError

try:
    from langchain_core.callbacks import (
        AsyncCallbackManager,
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever, RetrieverLike
    from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, ensure_config, patch_config
    from langchain_core.runnables.base import RunnableBindingBase, RunnableSequence
    from langchain_core.runnables.configurable import DynamicRunnable
    from langchain_core.runnables.fallbacks import RunnableWithFallbacks
    from langchain_core.runnables.utils import ConfigurableFieldSpec, get_unique_config_specs
    from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
except ImportError as error:
    raise MissingExtraError("langchain-core", extra="langchain") from error

__all__ = [
    "AsyncCallbackManager",
    "AsyncCallbackManagerForRetrieverRun",
    "BaseRetriever",
    "CallbackManagerForRetrieverRun",
    "ConfigurableFieldSpec",
    "Document",
    "DynamicRunnable",
    "RetrieverLike",
    "Runnable",
    "RunnableBindingBase",
    "RunnableConfig",
    "RunnableLambda",
    "RunnableSequence",
    "RunnableWithFallbacks",
    "VectorStore",
    "VectorStoreRetriever",
    "ensure_config",
    "get_unique_config_specs",
    "patch_config",
]
