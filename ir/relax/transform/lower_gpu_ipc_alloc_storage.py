"""LowerGPUIPCAllocStorage: storage in memory that processes of one machine share is allocated by a runtime function."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import PassContext
from ..expr import Call, StringImm, Var
from ..function import ExternFunc, Function
from ..struct_info import ObjectStructInfo
from .binding_rewriter import BindingRewriter, is_call_to
from .function_pass import FunctionPass
from .ipc_all_reduce_rewrite import SCOPE

ALLOC_STORAGE = "runtime.disco.cuda_ipc.alloc_storage"


class _Lowerer(BindingRewriter):
    def visit_call(self, var: Var, call: Call) -> None:
        scope = call.args[2] if is_call_to(call, "relax.memory.alloc_storage") else None
        if isinstance(scope, StringImm) and scope.value == SCOPE:
            size, device, _, dtype = call.args
            info = ObjectStructInfo()
            call = Call(ExternFunc(ALLOC_STORAGE), (size, device, dtype), None, [info], call.span, info)
        self.bind(var, call)


@dataclass(frozen=True)
class LowerGPUIPCAllocStorage(FunctionPass):
    """Lower allocations of storage in memory that processes share.

    Before: ``s = R.memory.alloc_storage(R.shape([512]), R.prim_value(0), R.str("ipc_memory"), R.dtype("float16"))``

    After: ``s = R.call_packed("runtime.disco.cuda_ipc.alloc_storage", R.shape([512]), R.prim_value(0), R.dtype("float16"))``
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The lowered function."""
        return _Lowerer(mod).rewrite(func)
