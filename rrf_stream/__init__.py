"""Reciprocal Rank Fusion of asynchronous retrievers, as a stream of ever better top-k snapshots."""

from rrf_stream._accumulator import Accumulator
from rrf_stream._arm import Arm, pages
from rrf_stream._batch import fuse
from rrf_stream._contracts import (
    ReciprocalRankFusion,
    RRFConfig,
    RRFFusion,
    explain_fusion,
    reciprocal_rank_fusion,
    rrf_fuse,
    rrf_scores,
)
from rrf_stream._hit import Hit, Page
from rrf_stream._kernels import Kernel, ReciprocalRank
from rrf_stream._snapshot import ArmReport, ArmStatus, Coverage, Delta, FusedHit, Outcome, Snapshot

__all__ = [
    "Accumulator",
    "Arm",
    "ArmReport",
    "ArmStatus",
    "Coverage",
    "Delta",
    "FusedHit",
    "Hit",
    "Kernel",
    "Outcome",
    "Page",
    "RRFConfig",
    "RRFFusion",
    "ReciprocalRank",
    "ReciprocalRankFusion",
    "Snapshot",
    "explain_fusion",
    "fuse",
    "pages",
    "reciprocal_rank_fusion",
    "rrf_fuse",
    "rrf_scores",
]
__version__ = "0.1.0"
