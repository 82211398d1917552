"""LowerAllocTensor: allocations that memory planning left become storage with one tensor each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import dtype as dt
from ...module import IRModule
from ...op import Op
from ...tir.operators import const as tir_const
from ...transform import PassContext
from ..expr import Call, DataTypeImm, PrimValue, ShapeExpr, StringImm, Var
from ..function import Function
from ..struct_info import ObjectStructInfo, ShapeStructInfo
from .binding_rewriter import BindingRewriter, is_call_to
from .function_pass import FunctionPass


class _Lowerer(BindingRewriter):
    def visit_call(self, var: Var, call: Call) -> None:
        if not is_call_to(call, "relax.builtin.alloc_tensor"):
            self.bind(var, call)
            return
        shape, dtype, device, *scope = call.args
        values = shape.values if isinstance(shape, ShapeExpr) else None
        if values is None and isinstance(shape.struct_info_, ShapeStructInfo):
            values = shape.struct_info_.values
        if values is None:
            self.bind(var, call)
            return
        total: Any = tir_const(dt.bytes_of(dtype.value), "int64")  # type: ignore[attr-defined]
        for extent in values:
            total = total * extent
        args = (
            ShapeExpr([total]),
            device,
            scope[0] if scope else StringImm("global"),
            DataTypeImm("uint8"),
        )
        storage = self.emit(
            Call(Op.get("relax.memory.alloc_storage"), args, None, None, None, ObjectStructInfo()), "storage"
        )
        tensor = (storage, PrimValue(0), shape, dtype)
        info = call.struct_info_ if call.struct_info_ is not None else var.struct_info_
        self.bind(var, Call(Op.get("relax.memory.alloc_tensor"), tensor, None, None, call.span, info))


@dataclass(frozen=True)
class LowerAllocTensor(FunctionPass):
    """Replace the remaining ``R.builtin.alloc_tensor`` by ``R.memory.alloc_storage`` and ``R.memory.alloc_tensor``.

    Before: ``x = R.builtin.alloc_tensor(R.shape([m, 4]), R.dtype("float32"), R.prim_value(0))``

    After::

        storage = R.memory.alloc_storage(R.shape([4 * m * 4]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
        x = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([m, 4]), R.dtype("float32"))
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function without builtin allocations."""
        return _Lowerer(mod).rewrite(func)
