"""Passes over Relax modules: one pass a file, named after it; each docstring shows a program before and after.

The few passes that the documents place here but that need the tuner or the database are found through
:mod:`ir.external` when they are first asked for, so that this package imports nothing above it.
"""

from typing import Any

from ...external import EXTERNAL, external
from ...package_door import by_file_name
from .adjust_matmul_order import AdjustMatmulOrder
from .allocate_workspace import AllocateWorkspace
from .alter_op_impl import AlterOpImpl
from .annotate_tir_op_pattern import AnnotateTIROpPattern, op_pattern_kind
from .attach_attr_layout_free_buffers import AttachAttrLayoutFreeBuffers
from .attach_extern_modules import AttachExternModules
from .attach_global_symbol import AttachGlobalSymbol
from .bind_params import BindParams
from .bind_symbolic_vars import BindSymbolicVars
from .bundle_model_params import BundleModelParams
from .call_tir_rewrite import CallTIRRewrite
from .canonicalize_bindings import CanonicalizeBindings
from .choose_layout import ChooseLayout
from .combine_parallel_matmul import CombineParallelMatmul
from .compute_prim_value import ComputePrimValue
from .convert_layout import ConvertLayout
from .copy_between_devices import CopyBetweenDevices
from .copy_shared_operands import CopySharedOperands
from .copy_written_constants import CopyWrittenConstants
from .convert_to_dataflow import ConvertToDataflow
from .dataflow_block_pass import DataflowBlockPass, dataflowblock_pass
from .dataflow_use_inplace_calls import DataflowUseInplaceCalls
from .dead_code_elimination import DeadCodeElimination
from .decompose_ops_for_inference import DecomposeOpsForInference
from .decompose_ops_for_training import DecomposeOpsForTraining
from .decompose_training_batch_norm import DecomposeTrainingBatchNorm
from .eliminate_common_subexpr import EliminateCommonSubexpr
from .expand_matmul_of_sum import ExpandMatmulOfSum
from .expand_tuple_arguments import ExpandTupleArguments
from .fast_math_transform import FastMathTransform
from .fold_batchnorm_to_conv2d import FoldBatchnormToConv2D
from .fold_constant import FoldConstant
from .function_pass import FunctionPass, function_pass
from .fuse_attention import FuseAttention
from .fuse_ops import FuseOps
from .fuse_ops_by_pattern import FuseOpsByPattern, FusionPattern, PatternCheckContext
from .fuse_pairs import FusePairs
from .fuse_tir import FuseTIR
from .fuse_transpose_matmul import FuseTransposeMatmul
from .gradient import Gradient
from .inline_private_functions import InlinePrivateFunctions
from .ipc_all_reduce_rewrite import IPCAllReduceRewrite
from .kill_after_last_use import KillAfterLastUse
from .lambda_lift import LambdaLift
from .lazy_get_input import LazyGetInput
from .lazy_set_output import LazySetOutput
from .lazy_transform_params import LazyTransformParams
from .legalize_ops import LegalizeOps
from .lift_transform_params import LiftTransformParams
from .lower_alloc_tensor import LowerAllocTensor
from .lower_gpu_ipc_alloc_storage import LowerGPUIPCAllocStorage
from .lower_runtime_builtin import LowerRuntimeBuiltin
from .merge_composite_functions import MergeCompositeFunctions
from .narrow_kernel_indices import NarrowKernelIndices
from .normalize import Normalize
from .normalize_global_var import NormalizeGlobalVar
from .optimize_layout_transform import OptimizeLayoutTransform
from .realize_vdevice import RealizeVDevice
from .remove_purity_checking import RemovePurityChecking
from .remove_redundant_reshape import RemoveRedundantReshape
from .remove_unused_outputs import RemoveUnusedOutputs
from .remove_unused_parameters import RemoveUnusedParameters
from .reorder_permute_dims_after_concat import ReorderPermuteDimsAfterConcat
from .reorder_take_after_matmul import ReorderTakeAfterMatmul
from .rewrite_cuda_graph import RewriteCUDAGraph
from .rewrite_dataflow_reshape import RewriteDataflowReshape
from .run_codegen import RunCodegen
from .split_call_tir_by_pattern import MatchResult, SplitCallTIRByPattern
from .split_layout_rewrite_preproc import SplitLayoutRewritePreproc
from .static_plan_block_memory import StaticPlanBlockMemory
from .to_mixed_precision import ToMixedPrecision
from .to_non_dataflow import ToNonDataflow
from .topological_sort import TopologicalSort
from .update_param_struct_info import UpdateParamStructInfo
from .update_vdevice import UpdateVDevice
from .vm_builtin_lower import VMBuiltinLower
from .vm_shape_lower import VMShapeLower

_in_its_file = by_file_name(__name__)


def __getattr__(name: str) -> Any:
    """Find a pass that is defined above this package (see :mod:`ir.external`), or in a file that is not listed here."""
    return external(name) if name in EXTERNAL else _in_its_file(name)
