"""Which rules apply to a target, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from ir.target import Target
from ir.target.tensor_core import TF32
from ir.tir.intrinsic.declaration import INTRINSICS
from ir.tir.tensor_intrin import get_mma_intrin_group, get_wmma_intrin_group
from ir.tir.tensor_intrin.cuda_mma import mma_shape

from .add_rfactor import AddRFactor
from .auto_bind import AutoBind
from .auto_inline import AutoInline
from .base import ScheduleRule
from .compute_at_reader import ComputeAtReader
from .compute_location import RandomComputeLocation
from .cross_thread_reduction import CrossThreadReduction
from .custom import ApplyCustomRule
from .float_dot_products import FloatDotProducts
from .group_axes import GroupAxes
from .im2col import Im2col
from .inline_constant_scalars import InlineConstantScalars
from .jobs import MOST_JOBS_PER_CORE
from .lane_reduction import LaneReduction
from .masked_reduction import MaskedReduction
from .multi_level_tiling import MultiLevelTiling, ReuseType
from .multi_level_tiling_tensor_core import MultiLevelTilingTensorCore
from .multi_level_tiling_wide_vector import MultiLevelTilingWideVector
from .online_tiles import OnlineTiles
from .online_tiles_tensor_core import OnlineTilesTensorCore
from .pair_tiling import PairTiling
from .parallel_grain import ParallelGrain
from .parallel_vectorize_unroll import ParallelizeVectorizeUnroll
from .reduction_chain import ReductionChain
from .register_tiling import RegisterTiling
from .row_algorithms import RowAlgorithms
from .row_interleaving import RowInterleaving
from .row_reductions import RowReductions
from .row_threads import RowThreads
from .rules_of_target import RulesOfTarget
from .scan_blocks import ScanBlocks
from .scan_threads import ScanThreads
from .spatial_threads import SpatialThreads
from .spatial_tiling import SpatialTiling
from .split_keys import SplitKeys
from .split_last_wave import SplitLastWave
from .split_reduction import SplitReduction
from .warp_group_tiling import WarpGroupTiling
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
        ParallelizeVectorizeUnroll(max_jobs_per_core=MOST_JOBS_PER_CORE, max_vectorize_extent=64),
    ]


_OPERANDS = (
    ("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"), (TF32, "float32"), ("int8", "int32"), ("uint8", "int32"),
    ("float8_e4m3fn", "float32"), ("float8_e4m3fn", "float16"), ("float8_e5m2", "float32"), ("float8_e5m2", "float16"),
)  # fmt: skip
"""Dtypes of the operands and sums of products that tensor cores compute; float32 for those who ask for tf32 (``round_to_tf32``)."""
_Group = dict[str, Any]


def tensor_core_rules(target: Target) -> list[ScheduleRule]:
    """Tiles for tensor cores, of the kinds that a target's architecture multiplies, beside those for its other units.

    Products by ``mma`` are written out from shared memory, where what reads them is computed, or, where nothing reads them, by the lanes
    that hold them.
    """
    families = [_wmma_groups(target), *(_mma_groups(target, scope) for scope in ("shared", "global"))]
    pipelines = [False, True] if target.supports_async_copy else [False]
    warp_groups: list[ScheduleRule] = [WarpGroupTiling()] if target.supports_warpgroup_mma else []
    return warp_groups + [
        MultiLevelTilingTensorCore(
            groups,
            structure,
            tile_binds=binds,
            max_innermost_factor=4,
            vector_load_lens=[1, 2, 4, 8, 16],
            reuse_read=ReuseType("must", [structure.index("R") + 1], "shared"),
            reuse_write=ReuseType("must", [len(binds) - 1], "shared"),
            use_software_pipeline=is_pipelined,
            keeps_block=True,
            pipeline_stages=[2, 3, 4],
        )
        for structure, binds in (
            ("SSSRRSRS", ["blockIdx.y", "blockIdx.x", "threadIdx.y"]),
            ("SSSSRRSRS", ["blockIdx.y", "blockIdx.x", "", "threadIdx.y"]),  # persistent blocks
        )
        for groups in families
        if groups
        for is_pipelined in pipelines
    ]


def _wmma_groups(target: Target) -> list[_Group]:
    """By ``nvcuda::wmma``."""
    return [
        get_wmma_intrin_group("shared", "shared", operands, sums, trans_b, trans_a)
        for operands, sums in _OPERANDS
        if target.tensor_core_shapes(operands, sums, "wmma")
        for trans_a, trans_b in product((False, True), repeat=2)
    ]


def _mma_groups(target: Target, store_scope: str) -> list[_Group]:
    """By ``mma`` of 16 by 8 results from operands that ``ldmatrix`` fills registers with."""
    return [
        get_mma_intrin_group("shared", store_scope, operands, sums, trans_a, trans_b)
        for operands, sums in _OPERANDS
        if mma_shape(operands) in target.tensor_core_shapes(operands, sums)
        for trans_a, trans_b in product((False, True), repeat=2)
    ]


@ScheduleRule.defaults.register("cuda")
def gpu_rules(target: Target | None = None) -> list[ScheduleRule]:
    """The rules for GPUs; with those for the tensor cores of a target, where one is given."""
    return _gpu_rules(tensor_core_rules(target) if target is not None else ())


def _gpu_rules(tensor_cores: Sequence[ScheduleRule]) -> list[ScheduleRule]:
    return [
        ApplyCustomRule(),
        OnlineTilesTensorCore(),
        OnlineTiles(),
        SplitKeys(),
        GroupAxes(),
        SplitReduction(),
        SplitLastWave(),
        *tensor_cores,
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
        ComputeAtReader(),
        RowReductions(),
        CrossThreadReduction([4, 8, 16, 32, 64, 128, 256, 512]),
        ParallelizeVectorizeUnroll(
            max_jobs_per_core=-1, max_vectorize_extent=-1, unroll_max_steps=[0, 16, 64, 512, 1024]
        ),
        SpatialThreads(),
        RowThreads(),
        ScanThreads(),
        ScanBlocks(max_blocks=1 << 16, vectors=0),
        AutoBind(),
    ]


@ScheduleRule.defaults.register("cuda-tensorcore")
def gpu_rules_with_tensor_cores() -> list[ScheduleRule]:
    """The rules for GPUs, with those for the tensor cores that a target turns out to have: :func:`gpu_rules` of it."""
    return _gpu_rules([RulesOfTarget(tensor_core_rules)])


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
