"""CallTIRRewrite: allocate the outputs of kernels explicitly."""

from __future__ import annotations

from dataclasses import dataclass

from ...error import IRValueError
from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..expr import Call, DataTypeImm, Expr, PrimValue, StringImm, Tuple, TupleGetItem, Var, known_shape
from ..function import Function
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from .binding_rewriter import BindingRewriter, is_call_to
from .function_pass import FunctionPass

_NOTHING = TupleStructInfo(())


class _Rewriter(BindingRewriter):
    def visit_call(self, var: Var, call: Call) -> None:
        if is_call_to(call, "relax.call_tir", "relax.call_dps_packed"):
            self._rewrite(var, call)
        elif is_call_to(call, "relax.call_tir_inplace"):
            self._rewrite_inplace(var, call)
        else:
            self.bind(var, call)

    def _allocated(self, info: StructInfo) -> Expr:
        shape = known_shape(info) if isinstance(info, TensorStructInfo) else None
        if shape is None or not isinstance(info, TensorStructInfo):
            raise IRValueError(f"CallTIRRewrite: the output of a kernel needs a known shape, it is {info}")
        args = (shape, DataTypeImm(info.dtype), PrimValue(0), StringImm("global"))
        return self.emit(Call(Op.get("relax.builtin.alloc_tensor"), args, None, None, None, info), "alloc")

    def _arguments(self, expr: Expr) -> list[Expr]:
        if isinstance(expr, Tuple):
            return list(expr.fields)
        info = expr.struct_info_
        if isinstance(info, TupleStructInfo):
            return [self.emit(TupleGetItem(expr, index)) for index in range(len(info.fields))]
        return [expr]

    def _call(self, call: Call, args: list[Expr]) -> None:
        if len(call.args) > 2:
            operands = (call.args[0], Tuple([*args, call.args[2]]))
            self.emit(Call(Op.get("relax.vm.call_tir_dyn"), operands, None, None, call.span, _NOTHING), "_")
        else:
            sinfo = [_NOTHING] if is_call_to(call, "relax.call_dps_packed") else None
            self.emit(Call(call.args[0], args, call.attrs, sinfo, call.span, _NOTHING), "_")

    def _rewrite(self, var: Var, call: Call) -> None:
        info = call.sinfo_args[0]
        infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
        outputs = [self._allocated(item) for item in infos]
        self._call(call, [*self._arguments(call.args[1]), *outputs])
        self.bind(var, Tuple(outputs) if isinstance(info, TupleStructInfo) else outputs[0])

    def _rewrite_inplace(self, var: Var, call: Call) -> None:
        info = call.sinfo_args[0]
        infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
        args = self._arguments(call.args[1])
        outputs: list[Expr] = []
        fresh: list[Expr] = []
        for item, index in zip(infos, call.attrs.inplace_indices, strict=True):
            number = int(getattr(index, "value", index))
            if number >= 0:
                outputs.append(args[number])
            else:
                fresh.append(self._allocated(item))
                outputs.append(fresh[-1])
        plain = Call(call.op, call.args, None, call.sinfo_args, call.span, call.struct_info_)
        self._call(plain, [*args, *fresh])
        self.bind(var, Tuple(outputs) if isinstance(info, TupleStructInfo) else outputs[0])


@dataclass(frozen=True)
class CallTIRRewrite(FunctionPass):
    """Turn ``call_tir`` and ``call_dps_packed`` into an allocation and a call that writes to it.

    Before (a function without dataflow blocks, see ToNonDataflow)::

        y = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((8,), "float32"))

    After::

        alloc = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
        _ = cls.exp(x, alloc)
        y = alloc
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with explicit outputs."""
        return _Rewriter(mod).rewrite(func)


__all__ = ["CallTIRRewrite"]
