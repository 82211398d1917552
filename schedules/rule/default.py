"""Which rules apply to a target, in which order."""

from __future__ import annotations

from ir.target import Target
from ir.target.tensor_core import TF32
from ir.tir.intrinsic.declaration import INTRINSICS
from ir.tir.tensor_intrin import get_wmma_intrin_group

from .add_rfactor import AddRFactor
from .auto_bind import AutoBind
from .auto_inline import AutoInline
from .base import ScheduleRule
from .compute_location import RandomComputeLocation
from .cross_thread_reduction import CrossThreadReduction
from .custom import ApplyCustomRule
from .float_dot_products import FloatDotProducts
from .im2col import Im2col
from .inline_constant_scalars import InlineConstantScalars
from .lane_reduction import LaneReduction
from .masked_reduction import MaskedReduction
from .multi_level_tiling import MultiLevelTiling, ReuseType
from .multi_level_tiling_tensor_core import MultiLevelTilingTensorCore
from .multi_level_tiling_wide_vector import MultiLevelTilingWideVector
from .pair_tiling import PairTiling
from .parallel_grain import ParallelGrain
from .parallel_vectorize_unroll import ParallelizeVectorizeUnroll
from .reduction_chain import ReductionChain
from .register_tiling import RegisterTiling
from .row_algorithms import RowAlgorithms
from .row_interleaving import RowInterleaving
from .scan_blocks import ScanBlocks
from .spatial_threads import SpatialThreads
from .spatial_tiling import SpatialTiling
from .window_separation import WindowSeparation
from .winograd_convolution import WinogradConvolution


def _costly() -> list[str]:
    """The intrinsics whose values are not computed again for each use."""
    return [name for name, record in INTRINSICS.items() if record.costly]


def default_rules(target: Target) -> list[ScheduleRule]:
    """The rules for a target, in the order in which they apply."""
    return gpu_rules(target) if target.is_gpu else cpu_rules()


@ScheduleRule.defaults.register("llvm", "cpu")
def cpu_rules() -> list[ScheduleRule]:
    """The rules for CPUs."""
    return [
        ApplyCustomRule(),
        InlineConstantScalars(),
        AutoInline(disallow_op=_costly()),
        WindowSeparation(),
        ReductionChain(),
        WinogradConvolution(),
        Im2col(),
        AddRFactor(),
        PairTiling(),
        FloatDotProducts(),
        RegisterTiling(),
        RandomComputeLocation(),
        MaskedReduction(),
        LaneReduction(),
        SpatialTiling(),
        ParallelGrain(),
        RowAlgorithms(),
        ScanBlocks(),
        RowInterleaving(),
        ParallelizeVectorizeUnroll(max_jobs_per_core=64, max_vectorize_extent=64),
    ]


_OPERANDS = (
    ("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"), (TF32, "float32"), ("int8", "int32"), ("uint8", "int32"),
)  # fmt: skip
"""Dtypes of the operands and sums of products that fragments exist for; float32 for those who ask for tf32 (``round_to_tf32``)."""


def tensor_core_rules(target: Target) -> list[ScheduleRule]:
    """Tiles for tensor cores, of the kinds that a target's architecture multiplies, beside those for its other units."""
    groups = [
        get_wmma_intrin_group("shared", "shared", operands, sums, is_transposed)
        for operands, sums in _OPERANDS
        if target.tensor_core_shapes(operands, sums, "wmma")
        for is_transposed in (False, True)
    ]
    return [
        MultiLevelTilingTensorCore(
            groups,
            "SSSRRSRS",
            tile_binds=["blockIdx.y", "blockIdx.x", "threadIdx.y"],
            max_innermost_factor=4,
            vector_load_lens=[1, 2, 4, 8, 16],
            reuse_read=ReuseType("must", [4], "shared"),
            reuse_write=ReuseType("must", [2], "shared"),
            use_software_pipeline=is_pipelined,
            keeps_block=True,
        )
        for is_pipelined in ([False, True] if target.supports_async_copy else [False])
        if groups
    ]


@ScheduleRule.defaults.register("cuda")
def gpu_rules(target: Target | None = None) -> list[ScheduleRule]:
    """The rules for GPUs; with those for the tensor cores of a target, where one is given."""
    return [
        ApplyCustomRule(),
        *(tensor_core_rules(target) if target is not None else ()),
        MultiLevelTiling(
            "SSSRRSRS",
            tile_binds=["blockIdx.x", "vthread.x", "threadIdx.x"],
            max_innermost_factor=64,
            vector_load_lens=[1, 2, 3, 4, 8, 16],
            reuse_read=ReuseType("must", [4], "shared"),
            reuse_write=ReuseType("must", [3], "local"),
        ),
        InlineConstantScalars(),
        AutoInline(into_producer=True, disallow_if_then_else=False, require_injective=False),
        CrossThreadReduction([4, 8, 16, 32, 64, 128, 256, 512]),
        ParallelizeVectorizeUnroll(
            max_jobs_per_core=-1, max_vectorize_extent=-1, unroll_max_steps=[0, 16, 64, 512, 1024]
        ),
        SpatialThreads(),
        RowAlgorithms(),
        ScanBlocks(max_blocks=1 << 16, vectors=0),
        AutoBind(),
    ]


@ScheduleRule.defaults.register("hexagon")
def hexagon_rules() -> list[ScheduleRule]:
    """The rules for processors with one wide vector unit."""
    return [
        ApplyCustomRule(),
        InlineConstantScalars(),
        AutoInline(disallow_op=_costly()),
        MultiLevelTilingWideVector("SRSRS", vector_length_in_bits=1024, max_innermost_factor=128),
        ParallelizeVectorizeUnroll(max_jobs_per_core=16, max_vectorize_extent=128),
    ]
