"""LowerGPUIPCAllocStorage: storage in memory that processes of one machine share is allocated by a runtime function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..expr import Call, StringImm, is_call_to
from ..expr_functor import ExprMutator
from ..function import ExternFunc, Function
from ..struct_info import ObjectStructInfo
from .function_pass import FunctionPass
from .ipc_all_reduce_rewrite import SCOPE

ALLOC_STORAGE = "runtime.disco.cuda_ipc.alloc_storage"


class _Lowerer(ExprMutator):
    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        scope = call.args[2] if is_call_to(call, "relax.memory.alloc_storage") else None
        if not isinstance(scope, StringImm) or scope.value != SCOPE:
            return call
        size, device, _, dtype = call.args
        info = ObjectStructInfo()
        return Call(ExternFunc(ALLOC_STORAGE), (size, device, dtype), None, [info], call.span, info)


@dataclass(frozen=True)
class LowerGPUIPCAllocStorage(FunctionPass):
    """Lower allocations of storage in memory that processes share.

    Before: ``s = R.memory.alloc_storage(R.shape([512]), R.prim_value(0), R.str("ipc_memory"), R.dtype("float16"))``

    After: ``s = R.call_packed("runtime.disco.cuda_ipc.alloc_storage", R.shape([512]), R.prim_value(0), R.dtype("float16"))``
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The lowered function."""
        return _Lowerer(mod).visit_expr(func)  # type: ignore[no-any-return]
