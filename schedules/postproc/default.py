"""Which postprocessors apply to a target, in which order."""

from __future__ import annotations

from ir.target import Target

from ..schedule import Schedule
from .base import Postproc
from .disallow_dynamic_loop import DisallowDynamicLoop
from .rewrite_cooperative_fetch import RewriteCooperativeFetch
from .rewrite_layout import RewriteLayout
from .rewrite_parallel_vectorize_unroll import ParallelizeMarked, RewriteParallelVectorizeUnroll
from .rewrite_reduction_block import RewriteReductionBlock
from .rewrite_tensorize import RewriteTensorize
from .rewrite_unbound_block import RewriteUnboundBlock
from .skip_masked import SkipMasked
from .verify_gpu_code import VerifyGPUCode
from .verify_vtcm_limit import VerifyVTCMLimit


@Postproc.defaults.register("llvm", "cpu")
def cpu_postprocs() -> list[Postproc]:
    """The postprocessors for CPUs, in the order in which they apply."""
    return [
        ParallelizeMarked(),
        RewriteParallelVectorizeUnroll(),
        RewriteReductionBlock(),
        SkipMasked(),
        RewriteTensorize(),
    ]


@Postproc.defaults.register("cuda")
def gpu_postprocs() -> list[Postproc]:
    """The postprocessors for GPUs, in the order in which they apply."""
    return [
        DisallowDynamicLoop(),
        RewriteCooperativeFetch(),
        RewriteUnboundBlock(256),
        RewriteParallelVectorizeUnroll(),
        RewriteReductionBlock(),
        VerifyGPUCode(),
    ]


@Postproc.defaults.register("cuda-tensorcore")
def tensor_core_postprocs() -> list[Postproc]:
    """The postprocessors for GPUs whose rules use tensor intrinsics."""
    return [*gpu_postprocs(), RewriteTensorize()]  # last: it takes long, and changes nothing that is verified


@Postproc.defaults.register("hexagon")
def hexagon_postprocs() -> list[Postproc]:
    """The postprocessors for processors with tightly coupled memory."""
    return [
        DisallowDynamicLoop(),
        RewriteParallelVectorizeUnroll(),
        RewriteReductionBlock(),
        RewriteLayout(),
        VerifyVTCMLimit(),
    ]


def default_postprocs(target: Target) -> list[Postproc]:
    """The postprocessors for a target, in the order in which they apply."""
    postprocs = tensor_core_postprocs() if target.is_gpu else cpu_postprocs()
    for postproc in postprocs:
        postproc.initialize(target)
    return postprocs


def postprocess(sch: Schedule, target: Target) -> bool:
    """Apply the default postprocessors; False when one refuses the candidate."""
    sch.enter_postproc()
    return all(postproc.accepts(sch) for postproc in default_postprocs(target))
