"""Postprocessors: the last steps on a candidate before it is built."""

from typing import TYPE_CHECKING

from ir.package_door import by_file_name

from .base import Postproc, PyPostproc
from .default import default_postprocs, postprocess
from .disallow_async_strided_mem_copy import DisallowAsyncStridedMemCopy
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

__all__ = [
    "DisallowAsyncStridedMemCopy",
    "DisallowDynamicLoop",
    "ParallelizeMarked",
    "Postproc",
    "PyPostproc",
    "RewriteCooperativeFetch",
    "RewriteLayout",
    "RewriteParallelVectorizeUnroll",
    "RewriteReductionBlock",
    "RewriteTensorize",
    "RewriteUnboundBlock",
    "SkipMasked",
    "VerifyGPUCode",
    "VerifyVTCMLimit",
    "default_postprocs",
    "postprocess",
]

if (
    not TYPE_CHECKING
):  # what is put into this folder is found in the file of its name; type checkers see what is listed
    __getattr__ = by_file_name(__name__)
