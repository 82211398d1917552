"""CallTIRRewrite: allocate the outputs of kernels explicitly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...transform import PassContext
from ..analysis.kernel_operands import kernel_operands, unproved
from ..devices import device_number
from ..expr import (
    Call,
    DataTypeImm,
    Expr,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    is_call_to,
    known_shape,
)
from ..expr_functor import ExprMutator
from ..function import Function
from ..struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .function_pass import FunctionPass

_NOTHING = TupleStructInfo(())

_WITH_OUTPUTS = ("relax.call_tir", "relax.call_dps_packed", "relax.call_tir_inplace")


_SCOPE = StringImm("global")
"""Outputs are allocated in the memory that every kernel sees."""


class _Rewriter(ExprMutator):
    def looks_at(self, callee: Any) -> bool:
        return isinstance(callee, Op) and callee.name in _WITH_OUTPUTS

    def visit_call_(self, expr: Any) -> Any:
        call = super().visit_call_(expr)
        if is_call_to(call, *_WITH_OUTPUTS):
            return self._with_outputs(call)
        return call

    def _with_outputs(self, call: Call) -> Expr:
        """Emit the allocations and the call; what the call returned is the outputs from here on."""
        info = call.sinfo_args[0]
        infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
        args = self._arguments(call.args[1])
        indices = [-1] * len(infos)
        if is_call_to(call, "relax.call_tir_inplace"):
            indices = [int(getattr(index, "value", index)) for index in call.attrs.inplace_indices]
        outputs = [
            args[index] if index >= 0 else self._allocated(item)
            for item, index in zip(infos, indices, strict=True)
        ]
        fresh = [item for item, index in zip(outputs, indices, strict=True) if index < 0]
        operands = [*args, *fresh]
        if not is_call_to(call, "relax.call_dps_packed"):
            self._compare(call, operands)
        self._emit_call(call, operands)
        return Tuple(outputs) if isinstance(info, TupleStructInfo) else outputs[0]

    def _compare(self, call: Call, operands: list[Expr]) -> None:
        """Emit the comparison of what a kernel declares of its operands with what it gets, as far as only a run can tell.

        Operands of unknown shape get names for their extents.
        """
        callee = call.args[0]
        assert isinstance(callee, GlobalVar)
        kernel = self.builder_.get()[callee]
        scalars = call.args[2].values if len(call.args) > 2 and isinstance(call.args[2], ShapeExpr) else None
        if not isinstance(kernel, PrimFunc) or (scalars is None and len(call.args) > 2):
            return
        for number, operand in enumerate(operands):
            info = operand.struct_info_
            if isinstance(info, TensorStructInfo) and info.shape_values is None and info.ndim >= 0:
                dims = [TirVar(f"d{axis}", "int64") for axis in range(info.ndim)]
                named = TensorStructInfo(dims, info.dtype, info.vdevice)
                operands[number] = self.builder_.match_cast(operand, named)
        infos = [operand.struct_info_ for operand in operands]
        shapes = [info.shape_values if isinstance(info, TensorStructInfo) else None for info in infos]
        places = unproved(kernel_operands(kernel, shapes, scalars or ()))
        if places:
            given = ShapeExpr([place.given for place in places])
            declared = ShapeStructInfo([place.declared for place in places])
            self.builder_.match_cast(given, declared, f"operands_of_{callee.name_hint}")

    def _allocated(self, info: StructInfo) -> Expr:
        shape = known_shape(info) if isinstance(info, TensorStructInfo) else None
        if shape is None or not isinstance(info, TensorStructInfo):
            raise IRValueError(f"CallTIRRewrite: the output of a kernel needs a known shape, it is {info}")
        device = PrimValue(device_number(info.vdevice))
        args = (shape, DataTypeImm(info.dtype), device, _SCOPE)
        alloc = Call(Op.get("relax.builtin.alloc_tensor"), args, None, None, None, info)
        return self.builder_.emit(alloc, "alloc")

    def _arguments(self, expr: Expr) -> list[Expr]:
        if isinstance(expr, Tuple):
            return list(expr.fields)
        info = expr.struct_info_
        if isinstance(info, TupleStructInfo):
            return [self.builder_.emit(TupleGetItem(expr, index)) for index in range(len(info.fields))]
        return [expr]

    def _emit_call(self, call: Call, args: list[Expr]) -> None:
        callee, _, *scalars = call.args
        if scalars:
            # The kernel's scalars travel as one shape behind its tensors.
            done = Call(
                Op.get("relax.vm.call_tir_dyn"), (callee, Tuple([*args, *scalars])), None, None, call.span
            )
        else:
            sinfo = [_NOTHING] if is_call_to(call, "relax.call_dps_packed") else None
            attrs = None if is_call_to(call, "relax.call_tir_inplace") else call.attrs
            done = Call(callee, args, attrs, sinfo, call.span, _NOTHING)
        self.builder_.emit(done, "_")


@dataclass(frozen=True)
class CallTIRRewrite(FunctionPass):
    """Turn ``call_tir``, ``call_tir_inplace`` and ``call_dps_packed`` into allocations and a call that writes to them.

    Before (a function without dataflow blocks, see ToNonDataflow)::

        y = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((8,), "float32"))

    After::

        alloc = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
        _ = cls.exp(x, alloc)
        y = alloc

    Raises:
        IRValueError: the shape of an output is not known.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with explicit outputs."""
        new: Function = _Rewriter(mod).visit_expr(func)
        return new


__all__ = ["CallTIRRewrite"]
