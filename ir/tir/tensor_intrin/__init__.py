"""Tensor intrinsics: descriptions of what instructions compute of whole tiles, which schedules match, and programs that use them.

Importing this package registers all of them by name (:class:`ir.tir.TensorIntrin`); each is made when it is first asked for.
"""

from . import arm_cpu, cuda, dot_product_common, warp_group_product, x86
from .cuda import get_wmma_intrin_group
from .cuda_mma import get_mma_intrin_group

__all__ = [
    "arm_cpu",
    "cuda",
    "dot_product_common",
    "get_mma_intrin_group",
    "get_wmma_intrin_group",
    "warp_group_product",
    "x86",
]
