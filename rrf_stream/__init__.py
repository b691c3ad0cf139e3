"""Reciprocal Rank Fusion of asynchronous retrievers, as a stream of ever better top-k snapshots."""

from rrf_stream._accumulator import Accumulator
from rrf_stream._arm import Arm
from rrf_stream._batch import fuse
from rrf_stream._breaker import Breaker
from rrf_stream._contracts import (
    ReciprocalRankFusion,
    RRFConfig,
    RRFFusion,
    explain_fusion,
    reciprocal_rank_fusion,
    rrf_fuse,
    rrf_scores,
)
from rrf_stream._coverage import ArmReport, ArmStatus, Coverage
from rrf_stream._drain import drain
from rrf_stream._fusion import Fusion, fuse_arms, open_fusion
from rrf_stream._health import ArmStats, Latency
from rrf_stream._hedging import Hedging
from rrf_stream._hit import Hit, Page
from rrf_stream._in_thread import in_thread
from rrf_stream._kernels import AnyScale, InverseSquareRank, Kernel, RankBiased, ReciprocalRank
from rrf_stream._options import FusionOptions
from rrf_stream._pipeline import Pipeline
from rrf_stream._scores import TheoreticalMinMax
from rrf_stream._snapshot import Delta, FusedHit, Outcome, Snapshot
from rrf_stream._source import pages
from rrf_stream._thread_limit import set_thread_limit

__all__ = [
    "Accumulator",
    "AnyScale",
    "Arm",
    "ArmReport",
    "ArmStats",
    "ArmStatus",
    "Breaker",
    "Coverage",
    "Delta",
    "FusedHit",
    "Fusion",
    "FusionOptions",
    "Hedging",
    "Hit",
    "InverseSquareRank",
    "Kernel",
    "Latency",
    "Outcome",
    "Page",
    "Pipeline",
    "RRFConfig",
    "RRFFusion",
    "RankBiased",
    "ReciprocalRank",
    "ReciprocalRankFusion",
    "Snapshot",
    "TheoreticalMinMax",
    "drain",
    "explain_fusion",
    "fuse",
    "fuse_arms",
    "in_thread",
    "open_fusion",
    "pages",
    "reciprocal_rank_fusion",
    "rrf_fuse",
    "rrf_scores",
    "set_thread_limit",
]
__version__ = "0.1.0"
