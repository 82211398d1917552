"""LowerRuntimeBuiltin: general operators become those of the virtual machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..expr_functor import ExprMutator
from ..function import Function
from ..op.declaration import declaration_of
from ..op.lowering import packed
from .function_pass import FunctionPass


class _Lowerer(ExprMutator):
    def visit_call_(self, expr: Any) -> Any:
        call: Any = self.builder_.normalize(super().visit_call_(expr))
        if not isinstance(call.op, Op):
            return call
        declared = declaration_of(call.op)
        lower = None if declared is None else declared.lowering
        function = call.op.get_attr("FCallPacked")
        if lower is None and function is not None:
            lower = packed(str(function))
        return call if lower is None else lower(call)


@dataclass(frozen=True)
class LowerRuntimeBuiltin(FunctionPass):
    """Replace operators by what they declare to become in the virtual machine: allocation, reshaping, shapes, closures.

    Before: ``x = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))``

    After: ``x = R.vm.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))``

    Raises:
        IRValueError: the shape of a view is not known.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The lowered function."""
        new: Function = _Lowerer(mod).visit_expr(func)
        return new
