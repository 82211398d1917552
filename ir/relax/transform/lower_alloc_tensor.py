"""LowerAllocTensor: allocations that memory planning left become storage with one tensor each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import dtype as dt
from ...error import IRValueError
from ...module import IRModule
from ...op import Op
from ...tir.expr import Var as TirVar
from ...tir.operators import const as tir_const
from ...transform import PassContext
from ..expr import Call, DataTypeImm, PrimValue, ShapeExpr, StringImm, is_call_to
from ..expr_functor import ExprMutator
from ..function import Function
from ..struct_info import ShapeStructInfo
from .function_pass import FunctionPass


class _Lowerer(ExprMutator):
    def looks_at(self, callee: Any) -> bool:
        return isinstance(callee, Op) and callee.name == "relax.builtin.alloc_tensor"

    def visit_call_(self, expr: Any) -> Any:
        call: Any = super().visit_call_(expr)
        if not is_call_to(call, "relax.builtin.alloc_tensor"):
            return call
        args: Any = call.args
        shape, dtype, device, *scope = args
        extents = self._extents(shape)
        total: Any = tir_const(dt.bytes_of(dtype.value), "int64")
        for extent in extents:
            total = total * extent
        args = (
            ShapeExpr([total]),
            device,
            scope[0] if scope else StringImm("global"),
            DataTypeImm("uint8"),
        )
        storage = self.builder_.emit(Call(Op.get("relax.memory.alloc_storage"), args), "storage")
        tensor = (storage, PrimValue(0), shape, dtype)
        return Call(Op.get("relax.memory.alloc_tensor"), tensor, None, None, call.span, call.struct_info_)

    def _extents(self, shape: Any) -> tuple[Any, ...]:
        """The extents of a shape; those of a value that is known at run time only get names."""
        info = shape.struct_info
        if isinstance(shape, ShapeExpr):
            return tuple(shape.values)
        if isinstance(info, ShapeStructInfo) and info.values is not None:
            return tuple(info.values)
        if not isinstance(info, ShapeStructInfo) or info.ndim < 0:
            raise IRValueError(f"LowerAllocTensor: a tensor needs a shape of known length, got {info}")
        names = [TirVar(f"extent{axis}", "int64") for axis in range(info.ndim)]
        self.builder_.match_cast(shape, ShapeStructInfo(names))
        return tuple(names)


@dataclass(frozen=True)
class LowerAllocTensor(FunctionPass):
    """Replace the remaining ``R.builtin.alloc_tensor`` by ``R.memory.alloc_storage`` and ``R.memory.alloc_tensor``.

    Before: ``x = R.builtin.alloc_tensor(R.shape([m, 4]), R.dtype("float32"), R.prim_value(0))``

    After::

        storage = R.memory.alloc_storage(R.shape([4 * m * 4]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
        x = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([m, 4]), R.dtype("float32"))

    Raises:
        IRValueError: the number of dimensions of a tensor is not known.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function without builtin allocations."""
        new: Function = _Lowerer(mod).visit_expr(func)
        return new
