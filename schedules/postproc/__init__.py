"""Postprocessors: the last steps on a candidate before it is built."""

from ir.target import Target

from ..schedule import Schedule
from .base import Postproc
from .disallow_dynamic_loop import DisallowDynamicLoop
from .rewrite_parallel_vectorize_unroll import ParallelizeMarked, RewriteParallelVectorizeUnroll
from .rewrite_reduction_block import RewriteReductionBlock
from .rewrite_tensorize import RewriteTensorize


def default_postprocs(target: Target) -> list[Postproc]:
    """The postprocessors for a CPU, in the order in which they apply."""
    postprocs: list[Postproc] = [
        ParallelizeMarked(),
        RewriteParallelVectorizeUnroll(),
        RewriteReductionBlock(),
        RewriteTensorize(),
    ]
    for postproc in postprocs:
        postproc.initialize(target)
    return postprocs


def postprocess(sch: Schedule, target: Target) -> bool:
    """Apply the default postprocessors; False when one refuses the candidate."""
    sch.enter_postproc()
    return all(postproc.apply(sch) for postproc in default_postprocs(target))


__all__ = [
    "DisallowDynamicLoop",
    "ParallelizeMarked",
    "Postproc",
    "RewriteParallelVectorizeUnroll",
    "RewriteReductionBlock",
    "RewriteTensorize",
    "default_postprocs",
    "postprocess",
]
