"""Schedule rules: each offers, for a block, the ways in which it can be restructured."""

from typing import TYPE_CHECKING

from ir.package_door import by_file_name

from .add_rfactor import AddRFactor
from .auto_bind import AutoBind
from .auto_inline import AutoInline
from .base import Alternatives, PyScheduleRule, ScheduleRule
from .compute_at_reader import ComputeAtReader
from .compute_location import RandomComputeLocation
from .cross_thread_reduction import CrossThreadReduction
from .custom import ApplyCustomRule, FunctionRule
from .default import cpu_rules, default_rules, gpu_rules, hexagon_rules
from .float_dot_products import FloatDotProducts
from .group_axes import GroupAxes
from .im2col import Im2col
from .inline_constant_scalars import InlineConstantScalars
from .lane_reduction import LaneReduction
from .masked_reduction import MaskedReduction
from .multi_level_tiling import MultiLevelTiling, ReuseType
from .multi_level_tiling_wide_vector import MultiLevelTilingWideVector
from .multi_level_tiling_tensor_core import MultiLevelTilingTensorCore
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
from .scan_blocks import ScanBlocks
from .scan_threads import ScanThreads
from .spatial_threads import SpatialThreads
from .spatial_tiling import SpatialTiling
from .split_keys import SplitKeys
from .split_last_wave import SplitLastWave
from .split_reduction import SplitReduction
from .tensorize import MultiLevelTilingWithIntrin
from .warp_group_tiling import WarpGroupTiling
from .window_separation import WindowSeparation
from .winograd_convolution import WinogradConvolution

__all__ = [
    "AddRFactor",
    "Alternatives",
    "ApplyCustomRule",
    "AutoBind",
    "AutoInline",
    "ComputeAtReader",
    "CrossThreadReduction",
    "FloatDotProducts",
    "FunctionRule",
    "GroupAxes",
    "Im2col",
    "InlineConstantScalars",
    "LaneReduction",
    "MaskedReduction",
    "MultiLevelTiling",
    "MultiLevelTilingTensorCore",
    "MultiLevelTilingWideVector",
    "MultiLevelTilingWithIntrin",
    "OnlineTiles",
    "OnlineTilesTensorCore",
    "PairTiling",
    "ParallelGrain",
    "ParallelizeVectorizeUnroll",
    "PyScheduleRule",
    "RandomComputeLocation",
    "ReductionChain",
    "RegisterTiling",
    "ReuseType",
    "RowAlgorithms",
    "RowInterleaving",
    "RowReductions",
    "RowThreads",
    "ScanBlocks",
    "ScanThreads",
    "ScheduleRule",
    "SpatialThreads",
    "SpatialTiling",
    "SplitKeys",
    "SplitLastWave",
    "SplitReduction",
    "WarpGroupTiling",
    "WindowSeparation",
    "WinogradConvolution",
    "cpu_rules",
    "default_rules",
    "gpu_rules",
    "hexagon_rules",
]

if (
    not TYPE_CHECKING
):  # what is put into this folder is found in the file of its name; type checkers see what is listed
    __getattr__ = by_file_name(__name__)
