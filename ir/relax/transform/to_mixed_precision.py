"""ToMixedPrecision: compute convolutions and matrix products in float16, and what follows them where that is safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...transform import ModulePass, PassContext
from .. import op
from ..analysis.binding import use_counts, used_vars
from ..bind import bind
from ..block_builder import BlockBuilder
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..expr_functor import ExprMutator
from ..function import Function
from ..function_signature import SignatureChange, change_signatures
from ..op.declaration import MixedPrecisionPolicy
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from .function_pass import rewrite_functions

LOW = "float16"
HIGH = "float32"
LOW_TENSOR = TensorStructInfo(dtype=LOW)


def _policy(call: Call) -> MixedPrecisionPolicy:
    if not isinstance(call.op, Op):
        return MixedPrecisionPolicy.NEVER
    value = call.op.get_attr("TMixedPrecisionPolicy")
    policy = MixedPrecisionPolicy.NEVER if value is None else MixedPrecisionPolicy(value)
    if policy == MixedPrecisionPolicy.ALWAYS and not _has_low_form(call):
        return MixedPrecisionPolicy.NEVER
    return policy


def _has_low_form(call: Call) -> bool:
    """Whether a product can be taken in low precision: not one of integers or doubles, and not one that is kept in another dtype."""
    infos = [arg.struct_info_ for arg in call.args]
    tensors = [info for info in (*infos, call.struct_info_) if isinstance(info, TensorStructInfo)]
    return call.op.get_attr("FInferMixedPrecision") is not None and all(map(_is_float, tensors))  # type: ignore[attr-defined]


def _is_float(info: StructInfo | None) -> bool:
    return isinstance(info, TensorStructInfo) and info.dtype in (LOW, HIGH)


def _wanted_low(func: Function) -> set[Var]:
    """The variables that nothing but operators in low precision use."""
    low: set[Var] = set()
    high: set[Var] = set()

    def visit(seq: SeqExpr) -> None:
        high.update(used_vars(seq.body))
        for block in seq.blocks:
            for binding in block.bindings:
                value: Expr = binding.value  # type: ignore[attr-defined]
                always = isinstance(value, Call) and _policy(value) == MixedPrecisionPolicy.ALWAYS
                (low if always else high).update(used_vars(value))
                if isinstance(value, If):
                    visit(value.true_branch)
                    visit(value.false_branch)

    visit(func.body)
    return low - high


class _Caster(ExprMutator):
    def __init__(
        self, mod: IRModule, func: Function, out_dtype: str, widened: Mapping[Var, Var] | None = None
    ) -> None:
        """``widened`` are the variables that inputs of low precision are cast to, with those inputs."""
        super().__init__(mod)
        self._widened = widened or {}
        self._wanted_low = _wanted_low(func)
        self._params = func.params
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
                [self.cast(self.builder_.emit(TupleGetItem(expr, i)), dtype) for i in range(len(info.fields))]
            )
        if not _is_float(info) or info.dtype == dtype or not isinstance(expr, Var | Constant):  # type: ignore[union-attr]
            return expr
        if dtype == LOW and expr in self._widened:
            return self._widened[expr]  # type: ignore[index]
        key = (id(expr), dtype)
        found = self._casts.get(key)
        if found is None:
            found = self._casts[key] = self.builder_.emit(op.astype(expr, dtype))
            self._keep.append(expr)
        return found

    def visit_bindings(self, block: BindingBlock) -> None:
        """Casts serve one block; parameters that only operators in low precision use are cast where it begins."""
        self._casts.clear()
        if isinstance(block, DataflowBlock):
            used = {var for binding in block.bindings for var in used_vars(binding.value)}
            for param in self._params:
                if param in self._wanted_low and param in used:
                    self.cast(param, LOW)
        super().visit_bindings(block)
        self._casts.clear()

    def visit_var_binding_(self, binding: Any) -> None:
        """Code outside of dataflow blocks sees values in their original precision."""
        value = binding.value
        if not self.builder_.current_block_is_dataflow():
            super().visit_var_binding_(binding)
        elif isinstance(value, Call):
            self._bind_call(binding, super().visit_call_(value), _policy(value))
        elif isinstance(value, Var | Tuple | TupleGetItem) and not isinstance(binding.var, DataflowVar):
            found = self.visit_expr(value)
            if isinstance(found, TupleGetItem):
                found = self.builder_.emit(found)
            self.reemit_binding(binding, self._restored(found, binding.var.struct_info_))
        else:
            super().visit_var_binding_(binding)

    def visit_match_cast_(self, binding: Any) -> None:
        """What is said of a value is said in its original precision."""
        value = self._restored(self.visit_expr(binding.value), binding.value.struct_info_)
        if value is not binding.value:
            binding = MatchCast(binding.var, value, binding.struct_info, binding.span)
        super().visit_match_cast_(binding)

    def _restored(self, value: Expr, info: StructInfo | None) -> Expr:
        """A value in its original precision, each tensor of it in its own."""
        if isinstance(info, TensorStructInfo):
            return self.cast(value, info.dtype) if _is_float(info) else value
        if not isinstance(info, TupleStructInfo):
            return value
        if isinstance(value, Tuple):
            return self._restored_fields(value, value.fields, info)
        now = value.struct_info_
        if not isinstance(now, TupleStructInfo) or not _changes(now, info):
            return value
        fields = [self.builder_.emit(TupleGetItem(value, index)) for index in range(len(info.fields))]
        return self._restored_fields(value, fields, info)

    def _restored_fields(self, value: Expr, fields: Sequence[Expr], info: TupleStructInfo) -> Expr:
        found = [self._restored(field, item) for field, item in zip(fields, info.fields, strict=True)]
        return value if all(a is b for a, b in zip(found, fields, strict=True)) else Tuple(found)

    def _bind_call(self, binding: VarBinding, call: Call, policy: MixedPrecisionPolicy) -> None:
        args, original = call.args, binding.value.args  # type: ignore[attr-defined]
        if policy == MixedPrecisionPolicy.ALWAYS:
            low = tuple(self.cast(arg, LOW) for arg in args)
            plain = call.with_args(low)
            result: Call = call.op.get_attr("FInferMixedPrecision")(plain, self._out_dtype)  # type: ignore[attr-defined]
        elif policy == MixedPrecisionPolicy.FOLLOW and self._all_low(args):
            result = call.with_args(tuple(self.cast(arg, LOW) for arg in args))
        else:
            result = call.with_args(
                [self._restored(arg, old.struct_info_) for arg, old in zip(args, original, strict=True)]
            )
        self._finish(binding, result, policy)

    def _all_low(self, args: Sequence[Expr]) -> bool:
        """Whether the tensors among the arguments are in low precision already; constants take any."""
        leaves = [leaf for arg in args for leaf in (arg.fields if isinstance(arg, Tuple) else (arg,))]
        tensors = [leaf for leaf in leaves if _is_float(leaf.struct_info_) and isinstance(leaf, Var)]
        return bool(tensors) and all(
            leaf.struct_info.dtype == LOW or leaf in self._widened for leaf in tensors
        )

    def _finish(self, binding: VarBinding, result: Expr, policy: MixedPrecisionPolicy) -> None:
        var = binding.var
        result = self.builder_.normalize(result)
        info = result.struct_info_
        wanted: StructInfo | None = None
        if not isinstance(var, DataflowVar):
            wanted = var.struct_info_
        elif policy == MixedPrecisionPolicy.ALWAYS:
            wanted = LOW_TENSOR
        if _changes(info, wanted):
            value = self.builder_.emit(result)
            result = op.astype(value, wanted.dtype) if _is_float(wanted) else self._restored(value, wanted)  # type: ignore[union-attr]
        bound = self.reemit_binding(binding, result)
        if var in self._wanted_low and isinstance(var, DataflowVar):
            self.cast(bound, LOW)


def _changes(now: StructInfo | None, wanted: StructInfo | None) -> bool:
    """Whether a value holds a tensor of floats in another precision than is wanted."""
    if isinstance(now, TupleStructInfo) and isinstance(wanted, TupleStructInfo):
        return any(map(_changes, now.fields, wanted.fields))
    return _is_float(now) and _is_float(wanted) and now.dtype != wanted.dtype  # type: ignore[union-attr]


@dataclass(frozen=True)
class _LowInputs:
    """A function some of whose parameters have become float16.

    Attributes:
        change: the function, in which they are cast back where it begins, and what becomes of its calls.
        widened: the variables that they are cast back to, with the parameters.
    """

    change: SignatureChange
    widened: dict[Var, Var]


def _with_low_inputs(func: Function, names: Sequence[str]) -> _LowInputs | None:
    """The function with the named parameters in float16, which its callers cast; None when it has none of them."""
    params: list[Var] = []
    values: dict[Var, Expr] = {}
    widened: dict[Var, Var] = {}
    casts: list[Binding] = []
    for param in func.params:
        info = param.struct_info
        if param.name_hint not in names:
            params.append(param)
            continue
        if not isinstance(info, TensorStructInfo) or info.dtype not in (LOW, HIGH):
            raise IRValueError(
                f"ToMixedPrecision: parameter {param.name_hint} must be a float32 tensor, it is {info}"
            )
        if info.dtype == LOW:
            params.append(param)
            continue
        new = Var(param.name_hint, TensorStructInfo(info.shape, LOW, info.vdevice, info.ndim))
        wide = Var(param.name_hint, info)
        params.append(new)
        values[param] = wide
        widened[wide] = new
        casts.append(VarBinding(wide, BlockBuilder().normalize(op.astype(new, HIGH))))
    if not values:
        return None

    def call(builder: BlockBuilder, old: Call) -> Expr:
        args = [
            builder.emit(op.astype(arg, LOW)) if param in values and arg.struct_info.dtype != LOW else arg
            for param, arg in zip(func.params, old.args, strict=True)
        ]
        return old.with_args(args)

    body = bind(func.body, values)
    body = SeqExpr((BindingBlock(casts), *body.blocks), body.body, body.struct_info_)
    new_func = Function(params, body, func.ret_struct_info, func.is_pure, func.attrs)
    return _LowInputs(SignatureChange(new_func, call), widened)


def _without_unused(func: Function, widened: Mapping[Var, Var]) -> Function:
    """The function without casts back of inputs that are used in low precision only."""
    if not widened or not func.body.blocks:
        return func
    counts = use_counts(func)
    first, *rest = func.body.blocks
    kept = [binding for binding in first.bindings if binding.var not in widened or counts.get(binding.var)]
    blocks = [type(first)(kept), *rest] if kept else rest
    body = SeqExpr(blocks, func.body.body, func.body.struct_info_)
    return Function(func.params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)


@dataclass(frozen=True)
class ToMixedPrecision(ModulePass):
    """Run operators that gain from it in float16, with casts where precisions meet; interfaces keep their dtypes.

    Each operator declares a policy: always in low precision (convolution, matmul), following its inputs, or never.

    Before::

        lv = R.nn.conv2d(x, w)
        gv = R.nn.relu(lv)

    After::

        lv1 = R.astype(x, dtype="float16")
        lv2 = R.astype(w, dtype="float16")
        lv3 = R.nn.conv2d(lv1, lv2, out_dtype="float32")
        lv = R.astype(lv3, dtype="float16")
        lv4 = R.nn.relu(lv)
        gv = R.astype(lv4, dtype="float32")

    Args:
        out_dtype: what convolutions and products accumulate in and return.
        fp16_input_names: parameters that shall be float16 in the signature.
    """

    out_dtype: str = HIGH
    fp16_input_names: Sequence[str] | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module in mixed precision."""
        if self.out_dtype not in (LOW, HIGH):
            raise IRValueError(
                f"ToMixedPrecision: out_dtype must be float16 or float32, got {self.out_dtype!r}"
            )
        changed: dict[GlobalVar, _LowInputs] = {}
        for var, func in mod.functions.items():
            if self.fp16_input_names and isinstance(func, Function) and _is_converted(func):
                found = _with_low_inputs(func, self.fp16_input_names)
                if found is not None:
                    changed[var] = found
        mod = change_signatures(mod, {var: found.change for var, found in changed.items()})
        widened = {wide: low for found in changed.values() for wide, low in found.widened.items()}

        def rewrite(var: GlobalVar, func: Function) -> Function:
            if not _is_converted(func):
                return func
            return _without_unused(_Caster(mod, func, self.out_dtype, widened).visit_expr(func), widened)

        return rewrite_functions(mod, rewrite)


def _is_converted(func: Function) -> bool:
    """Kernels to be and what belongs to external code generators stay as they are."""
    return not func.attrs.get("Primitive") and "Codegen" not in func.attrs
