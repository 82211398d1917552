"""Passes over TIR: each lowers or simplifies PrimFuncs and shows a program before and after in its docstring."""

from .apply import AnnotateEntryFunc, Apply, BindTarget, Filter
from .compact_buffer_allocation import CompactBufferAllocation
from .convert_blocks_to_opaque import ConvertBlocksToOpaque
from .convert_ssa import ConvertSSA
from .flatten_buffer import FlattenBuffer
from .function_pass import PrimFuncPass, prim_func_pass
from .hoist_if_then_else import HoistIfThenElse
from .loop_partition import LoopPartition
from .lower_init_block import LowerInitBlock
from .lower_match_buffer import LowerMatchBuffer
from .lower_opaque_block import LowerOpaqueBlock
from .narrow_data_type import ForceNarrowIndexToInt32, NarrowDataType
from .plan_and_update_buffer_allocation_location import PlanAndUpdateBufferAllocationLocation
from .prefetch_panels import PrefetchPanels
from .remove_assume import RemoveAssume
from .remove_no_op import RemoveNoOp
from .remove_store_undef import RemoveStoreUndef
from .remove_weight_layout_rewrite_block import RemoveWeightLayoutRewriteBlock
from .renormalize_split_pattern import RenormalizeSplitPattern
from .rewrite_unsafe_select import RewriteUnsafeSelect
from .simplify import SimplifyIndices
from .skip_assert import SkipAssert
from .statement_simplify import Simplify
from .storage_rewrite import StorageRewrite
from .unroll_loop import UnrollLoop
from .vectorize_loop import VectorizeLoop
