"""Passes over TIR: each lowers or simplifies PrimFuncs and shows a program before and after in its docstring.

A pass in a file of its name is found without a line here; the lines show it to editors and type checkers.
"""

from typing import TYPE_CHECKING, Any

from ...external import EXTERNAL, external
from ...package_door import by_file_name
from .annotate_device_regions import AnnotateDeviceRegions
from .annotate_entry_func import AnnotateEntryFunc
from .apply import Apply
from .bf16_compute_legalize import BF16ComputeLegalize
from .bf16_storage_legalize import BF16StorageLegalize
from .bind_target import BindTarget
from .common_subexpr_elim_tir import CommonSubexprElimTIR
from .compact_buffer_allocation import CompactBufferAllocation
from .convert_blocks_to_opaque import ConvertBlocksToOpaque
from .convert_ssa import ConvertSSA
from .filter import Filter
from .flatten_buffer import FlattenBuffer
from .prim_func_pass import PrimFuncPass, prim_func_pass
from .fp8_compute_legalize import FP8ComputeLegalize
from .fp8_storage_legalize import FP8StorageLegalize
from .force_narrow_index_to_int32 import ForceNarrowIndexToInt32
from .hoist_if_then_else import HoistIfThenElse
from .hoist_sign_correction import HoistSignCorrection
from .hoist_tensor_maps import HoistTensorMaps
from .if_conversion import IfConversion
from .infer_fragment import InferFragment
from .inject_dot_product import InjectDotProduct
from .inject_matrix_tiles import InjectMatrixTiles
from .inject_ptx_async_copy import InjectPTXAsyncCopy
from .inject_ptx_ldg32 import InjectPTXLDG32
from .inject_software_pipeline import InjectSoftwarePipeline
from .inject_virtual_thread import InjectVirtualThread
from .keep_float_order import KeepFloatOrder
from .keep_shaped_loops import KeepShapedLoops
from .loop_partition import LoopPartition
from .lower_auto_copy import LowerAutoCopy
from .lower_cross_thread_reduction import LowerCrossThreadReduction
from .lower_device_kernel_launch import LowerDeviceKernelLaunch
from .lower_floor_div import LowerFloorDiv
from .lower_init_block import LowerInitBlock
from .lower_intrin import LowerIntrin
from .lower_match_buffer import LowerMatchBuffer
from .lower_opaque_block import LowerOpaqueBlock
from .lower_parallel import LowerParallel
from .lower_thread_allreduce import LowerThreadAllreduce
from .lower_warp_memory import LowerWarpMemory
from .make_packed_api import MakePackedAPI
from .make_unpacked_api import MakeUnpackedAPI
from .manifest_shared_memory_local_stage import ManifestSharedMemoryLocalStage
from .merge_shared_memory_allocations import MergeSharedMemoryAllocations
from .narrow_block_indices import NarrowBlockIndices
from .narrow_data_type import NarrowDataType
from .partition_choices import PartitionChoices
from .place_thread_memory import PlaceThreadMemory
from .plan_and_update_buffer_allocation_location import PlanAndUpdateBufferAllocationLocation
from .plan_workspace import PlanWorkspace
from .prefetch_panels import PrefetchPanels
from .remove_assume import RemoveAssume
from .remove_no_op import RemoveNoOp
from .remove_store_undef import RemoveStoreUndef
from .remove_weight_layout_rewrite_block import RemoveWeightLayoutRewriteBlock
from .renormalize_split_pattern import RenormalizeSplitPattern
from .rewrite_unsafe_select import RewriteUnsafeSelect
from .share_output_memory import ShareOutputMemory
from .simplify_indices import SimplifyIndices
from .skip_assert import SkipAssert
from .simplify import Simplify
from .split_host_device import SplitHostDevice
from .storage_rewrite import StorageRewrite
from .thread_sync import ThreadSync
from .transform_mma_buffer_layout import TransformMmaBufferLayout
from .transpose_in_registers import TransposeInRegisters
from .unify_thread_binding import UnifyThreadBinding
from .unite_masks import UniteMasks
from .unroll_loop import UnrollLoop
from .use_dynamic_shared_memory import UseDynamicSharedMemory
from .vectorize_loop import VectorizeLoop
from .verify_thread_memory import VerifyThreadMemory
from .widen_indices import WidenIndices

if TYPE_CHECKING:
    DefaultGPUSchedule: Any
else:
    _in_its_file = by_file_name(__name__)

    def __getattr__(name: str) -> Any:
        """Find a pass that is defined above this package (see :mod:`ir.external`), or in a file that is not listed here."""
        return external(name) if name in EXTERNAL else _in_its_file(name)
