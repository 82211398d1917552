"""ToMixedPrecision: compute convolutions and matrix products in float16, and what follows them where that is safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from .. import op
from ..bind import bind
from ..block_builder import BlockBuilder
from ..expr import (
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..function import Function
from ..op.declaration import MixedPrecisionPolicy
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from .binding_rewriter import BindingRewriter, normalized
from .function_pass import FunctionPass

LOW = "float16"
HIGH = "float32"


def _policy(call: Call) -> MixedPrecisionPolicy:
    if not isinstance(call.op, Op):
        return MixedPrecisionPolicy.NEVER
    value = call.op.get_attr("TMixedPrecisionPolicy")
    policy = MixedPrecisionPolicy.NEVER if value is None else MixedPrecisionPolicy(value)
    if policy == MixedPrecisionPolicy.ALWAYS and call.op.get_attr("FInferMixedPrecision") is None:
        return MixedPrecisionPolicy.NEVER
    return policy


def _is_float(info: StructInfo | None) -> bool:
    return isinstance(info, TensorStructInfo) and info.dtype in (LOW, HIGH)


def _decisions(func: Function) -> dict[Var, str]:
    """For each variable, the precision that all its uses can live with: float16 only if every use wants that."""
    wanted: dict[Var, str] = {}

    def require(expr: Expr, dtype: str) -> None:
        if isinstance(expr, Var):
            wanted[expr] = dtype if wanted.get(expr, dtype) == dtype else HIGH
        elif isinstance(expr, Tuple):
            for field in expr.fields:
                require(field, dtype)

    def walk(seq: SeqExpr) -> None:
        require(seq.body, HIGH)
        for block in reversed(seq.blocks):
            for binding in reversed(block.bindings):
                value: Expr = binding.value  # type: ignore[attr-defined]
                if isinstance(value, If):
                    walk(value.true_branch)
                    walk(value.false_branch)
                    require(value.cond, HIGH)
                elif isinstance(value, Call):
                    policy = _policy(value)
                    own = wanted.get(binding.var, HIGH) if isinstance(binding.var, DataflowVar) else HIGH
                    low = policy == MixedPrecisionPolicy.ALWAYS or (
                        policy == MixedPrecisionPolicy.FOLLOW and own == LOW
                    )
                    for arg in value.args:
                        require(arg, LOW if low else HIGH)
                elif isinstance(value, TupleGetItem):
                    require(value.tuple_value, wanted.get(binding.var, HIGH))
                elif isinstance(value, Var | Tuple):
                    require(
                        value, wanted.get(binding.var, HIGH) if isinstance(binding.var, DataflowVar) else HIGH
                    )

    walk(func.body)
    return wanted


class _Caster(BindingRewriter):
    def __init__(self, mod: IRModule, decisions: dict[Var, str], out_dtype: str) -> None:
        super().__init__(mod)
        self._decisions = decisions
        self._out_dtype = out_dtype
        self._casts: dict[tuple[int, str], Expr] = {}
        self._keep: list[Expr] = []

    def cast(self, expr: Expr, dtype: str) -> Expr:
        """A value in the given precision, if it is a tensor of floats."""
        if isinstance(expr, Tuple):
            fields = [self.cast(field, dtype) for field in expr.fields]
            return expr if all(a is b for a, b in zip(fields, expr.fields, strict=True)) else Tuple(fields)
        info = expr.struct_info_
        if isinstance(info, TupleStructInfo) and isinstance(expr, Var):
            if not any(_is_float(field) and field.dtype != dtype for field in info.fields):  # type: ignore[attr-defined]
                return expr
            return Tuple(
                [self.cast(self.emit(TupleGetItem(expr, i)), dtype) for i in range(len(info.fields))]
            )
        if not _is_float(info) or info.dtype == dtype or not isinstance(expr, Var | Constant):  # type: ignore[union-attr]
            return expr
        key = (id(expr), dtype)
        found = self._casts.get(key)
        if found is None:
            found = self._casts[key] = self.emit(op.astype(expr, dtype))
            self._keep.append(expr)
        return found

    def visit_block(self, block: Any) -> None:
        if not isinstance(block, DataflowBlock):
            for binding in block.bindings:
                self._visit_outside(binding)
            return
        self._casts.clear()
        super().visit_block(block)
        self._casts.clear()

    def _visit_outside(self, binding: Any) -> None:
        """Code outside of dataflow blocks sees values in their original precision."""
        self._visit_nested(binding) if isinstance(binding.value, If | Function) else self.emit_binding(
            binding.replace(value=self.substitute(binding.value))
        )

    def visit_binding(self, binding: Any) -> None:
        value = binding.value
        if isinstance(binding, VarBinding) and isinstance(value, Call):
            self.visit_call(binding.var, value)
        elif isinstance(binding, VarBinding) and isinstance(value, Var | Tuple | TupleGetItem):
            if not isinstance(binding.var, DataflowVar):
                value = self._restored(binding.var, value)
            self.bind(binding.var, value)
        else:
            self.emit_binding(binding)

    def _restored(self, var: Var, value: Expr) -> Expr:
        """An output of the block in its original precision."""
        if isinstance(value, TupleGetItem):
            value = self.emit(value)
        dtype = _dtype_of(var.struct_info_)
        return self.cast(value, dtype) if dtype else value

    def visit_call(self, var: Var, call: Call) -> None:
        policy = _policy(call)
        args = call.args
        if policy == MixedPrecisionPolicy.ALWAYS:
            low = tuple(self.cast(arg, LOW) for arg in args)
            plain = Call(call.op, low, call.attrs, call.sinfo_args, call.span)
            result: Call = call.op.get_attr("FInferMixedPrecision")(plain, self._out_dtype)  # type: ignore[attr-defined]
        elif policy == MixedPrecisionPolicy.FOLLOW and self._all_low(args):
            result = Call(
                call.op, tuple(self.cast(arg, LOW) for arg in args), call.attrs, call.sinfo_args, call.span
            )
        else:
            high = tuple(self.cast(arg, HIGH) for arg in args)
            same = all(new is old for new, old in zip(high, args, strict=True))
            info = call.struct_info_
            result = (
                call
                if same and info is not None
                else Call(call.op, high, call.attrs, call.sinfo_args, call.span)
            )
        self._finish(var, result)

    def _all_low(self, args: Sequence[Expr]) -> bool:
        """Whether the tensors among the arguments are in low precision already; constants take any."""
        leaves = [leaf for arg in args for leaf in (arg.fields if isinstance(arg, Tuple) else (arg,))]
        tensors = [leaf for leaf in leaves if _is_float(leaf.struct_info_) and isinstance(leaf, Var)]
        return bool(tensors) and all(leaf.struct_info.dtype == LOW for leaf in tensors)

    def _finish(self, var: Var, result: Expr) -> None:
        result = normalized(result, self.mod)
        wanted = (
            self._decisions.get(var, HIGH) if isinstance(var, DataflowVar) else _dtype_of(var.struct_info_)
        )
        info = result.struct_info_
        if _is_float(info) and wanted and info.dtype != wanted and _is_float(var.struct_info_):  # type: ignore[union-attr]
            self.bind(var, op.astype(self.emit(result), wanted))
        elif isinstance(info, TupleStructInfo) and not isinstance(var, DataflowVar):
            self.bind(var, self.cast(self.emit(result), _dtype_of(var.struct_info_) or HIGH))
        else:
            self.bind(var, result)


def _dtype_of(info: StructInfo | None) -> str | None:
    if isinstance(info, TensorStructInfo):
        return info.dtype if info.dtype in (LOW, HIGH) else None
    if isinstance(info, TupleStructInfo):
        found = {_dtype_of(field) for field in info.fields} - {None}
        return found.pop() if len(found) == 1 else None
    return None


def _with_low_inputs(func: Function, names: Sequence[str]) -> Function:
    """The function with the named parameters in float16, cast back where its body begins."""
    known = {param.name_hint for param in func.params}
    missing = [name for name in names if name not in known]
    if missing:
        return func
    params: list[Var] = []
    values: dict[Var, Expr] = {}
    casts: list[VarBinding] = []
    builder = BlockBuilder()
    for param in func.params:
        info = param.struct_info
        if param.name_hint not in names:
            params.append(param)
            continue
        if not isinstance(info, TensorStructInfo) or info.dtype != HIGH:
            raise IRValueError(
                f"ToMixedPrecision: parameter {param.name_hint} must be a float32 tensor, it is {info}"
            )
        new = Var(param.name_hint, TensorStructInfo(info.shape, LOW, info.vdevice, info.ndim))
        back = DataflowVar(f"{param.name_hint}_high", info)
        casts.append(VarBinding(back, builder.normalize(op.astype(new, HIGH))))
        params.append(new)
        values[param] = back
    body = bind(func.body, values)
    blocks = list(body.blocks)
    if blocks and isinstance(blocks[0], DataflowBlock):
        blocks[0] = DataflowBlock((*casts, *blocks[0].bindings))
    else:
        raise IRValueError(
            "ToMixedPrecision: fp16_input_names needs a function that begins with a dataflow block"
        )
    return Function(
        params, SeqExpr(blocks, body.body, body.struct_info_), func.ret_struct_info, func.is_pure, func.attrs
    )


@dataclass(frozen=True)
class ToMixedPrecision(FunctionPass):
    """Run operators that gain from it in float16, with casts where precisions meet; interfaces keep their dtypes.

    Each operator declares a policy: always in low precision (convolution, matmul), following its inputs, or never.

    Before::

        lv = R.nn.conv2d(x, w)
        gv = R.nn.relu(lv)

    After::

        lv_1 = R.astype(x, dtype="float16")
        lv1 = R.astype(w, dtype="float16")
        lv = R.nn.conv2d(lv_1, lv1, out_dtype="float32")
        gv = R.nn.relu(lv)

    Args:
        out_dtype: what convolutions and products accumulate in and return.
        fp16_input_names: parameters that shall be float16 in the signature.
    """

    out_dtype: str = HIGH
    fp16_input_names: Sequence[str] | None = None

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function in mixed precision."""
        if self.out_dtype not in (LOW, HIGH):
            raise IRValueError(
                f"ToMixedPrecision: out_dtype must be float16 or float32, got {self.out_dtype!r}"
            )
        if func.attrs.get("Primitive"):
            return func
        if self.fp16_input_names:
            func = _with_low_inputs(func, self.fp16_input_names)
        return _Caster(mod, _decisions(func), self.out_dtype).rewrite(func)
