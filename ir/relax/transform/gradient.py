"""Gradient: reverse-mode automatic differentiation of a function, as a new function beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRTypeError, IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...transform import ModulePass, PassContext
from .. import op
from ..bind import copy_with_new_vars
from ..block_builder import BlockBuilder
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..expr_functor import ExprMutator
from ..function import Function
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo

_FLOATS = ("float", "bfloat")

NO_GRAD = "relax.grad.no_grad"
START_CHECKPOINT = "relax.grad.start_checkpoint"
END_CHECKPOINT = "relax.grad.end_checkpoint"


def _is_differentiable(info: StructInfo | None) -> bool:
    if isinstance(info, TensorStructInfo):
        return info.dtype.startswith(_FLOATS)
    return isinstance(info, TupleStructInfo) and all(_is_differentiable(field) for field in info.fields)


class _Backward:
    """Walks the bindings backwards, summing what every use of a value contributes to its adjoint.

    An adjoint is an expression, or a (nested) list with one entry per field for tuples; None stands for zero.
    """

    def __init__(self, mod: IRModule) -> None:
        self._builder = BlockBuilder(mod)
        self._adjoints: dict[Var, Any] = {}
        self._builder._begin_dataflow_block()

    # ---- adjoints -------------------------------------------------------------------------------------------

    def add(self, expr: Expr, contribution: Any) -> None:
        """Add a contribution to the adjoint of an expression."""
        if contribution is None or _is_no_grad(contribution):
            return
        if isinstance(expr, Var):
            if _is_differentiable(expr.struct_info_):
                self._adjoints[expr] = self._sum(self._adjoints.get(expr), contribution)
        elif isinstance(expr, Tuple):
            for field, part in zip(expr.fields, _fields_of(contribution, len(expr.fields)), strict=True):
                self.add(field, part)

    def _sum(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        if isinstance(a, list) or isinstance(b, list):
            size = len(a) if isinstance(a, list) else len(b)
            parts = zip(_fields_of(a, size), _fields_of(b, size), strict=True)
            return [self._sum(x, y) for x, y in parts]
        return self._builder.normalize(
            op.add(self._builder._normalizer.argument(a), self._builder._normalizer.argument(b))
        )

    def zeros(self, info: StructInfo) -> Expr:
        """A zero of a struct info."""
        if isinstance(info, TupleStructInfo):
            return Tuple([self._builder.emit(self.zeros(field)) for field in info.fields])
        assert isinstance(info, TensorStructInfo)
        if info.shape is None:
            raise IRValueError(f"Gradient: the shape of a value without gradient must be known, it is {info}")
        return op.zeros(info.shape, info.dtype)

    def expression(self, adjoint: Any, info: StructInfo) -> Expr:
        """An adjoint as an expression, zeros filled in."""
        if adjoint is None:
            return self.zeros(info)
        if isinstance(adjoint, list):
            assert isinstance(info, TupleStructInfo)
            return Tuple(
                [
                    self._builder._normalizer.argument(self.expression(part, field))
                    for part, field in zip(adjoint, info.fields, strict=True)
                ]
            )
        return adjoint  # type: ignore[no-any-return]

    def bind(self, var: Var, output: bool = False) -> Var:
        """Bind the adjoint of a variable to ``<name>_adjoint``."""
        value = self._builder.normalize(self.expression(self._adjoints.get(var), var.struct_info))
        made = (Var if output else DataflowVar)(f"{var.name_hint}_adjoint", value.struct_info)
        self._builder.emit_normalized(VarBinding(made, value))
        return made

    # ---- the walk -------------------------------------------------------------------------------------------

    def visit(self, binding: Binding) -> None:
        var = binding.var
        adjoint = self._adjoints.get(var)
        if adjoint is None:
            return
        if isinstance(binding, MatchCast):
            raise IRValueError("Gradient: match_cast is not supported; give the parameters their shapes")
        value: Expr = binding.value  # type: ignore[attr-defined]
        if isinstance(value, Constant):
            return
        if isinstance(value, Tuple) or (isinstance(value, Var) and isinstance(adjoint, list)):
            self.add(value, adjoint)
            return
        bound = self.bind(var) if not isinstance(adjoint, list) else None
        if isinstance(value, Var):
            self.add(value, bound)
        elif isinstance(value, TupleGetItem):
            self._add_field(value, adjoint if bound is None else bound)
        elif isinstance(value, Call):
            self._call(var, value, bound if bound is not None else self.bind(var))
        else:
            raise IRTypeError(f"Gradient: cannot differentiate a {type(value).__name__}")

    def _add_field(self, value: TupleGetItem, adjoint: Any) -> None:
        info = value.tuple_value.struct_info
        assert isinstance(info, TupleStructInfo)
        parts: list[Any] = [None] * len(info.fields)
        parts[value.index] = adjoint
        self.add(value.tuple_value, parts)

    def _call(self, var: Var, call: Call, adjoint: Var) -> None:
        name = call.op.name if isinstance(call.op, Op) else ""
        if name == NO_GRAD:
            return
        function = call.op.get_attr("FPrimalGradient") if isinstance(call.op, Op) else None
        if function is None:
            what = name or getattr(call.op, "name_hint", type(call.op).__name__)
            raise IRValueError(
                f"Gradient: {what} has no gradient; register one with relax.op.register_gradient, or stop at it with"
                " relax.op.grad.no_grad"
            )
        for arg, contribution in zip(call.args, function(var, call, adjoint, self._builder), strict=False):
            if contribution is not None and not _is_no_grad(contribution) and _needs(arg):
                value = self._builder.normalize(contribution)
                self.add(arg, _listed(value, arg.struct_info_))

    def finish(self) -> DataflowBlock:
        """The bindings emitted so far."""
        block = self._builder._end_block()
        assert isinstance(block, DataflowBlock)
        return block


def _needs(arg: Expr) -> bool:
    return isinstance(arg, Var | Tuple)


def _is_no_grad(value: Any) -> bool:
    return isinstance(value, Call) and getattr(value.op, "name", "") == NO_GRAD


def _listed(value: Expr, info: StructInfo | None) -> Any:
    """Contributions to tuples as lists of their fields."""
    if isinstance(value, Tuple):
        return list(value.fields)
    if isinstance(info, TupleStructInfo):
        return _fields_of(value, len(info.fields))
    return value


def _fields_of(adjoint: Any, count: int) -> list[Any]:
    if adjoint is None:
        return [None] * count
    if isinstance(adjoint, list):
        return adjoint
    if isinstance(adjoint, Tuple):
        return list(adjoint.fields)
    return [TupleGetItem(adjoint, index) for index in range(count)]


def _target(func: Function, target_index: int) -> tuple[Var, Expr]:
    """The scalar to differentiate, and what the function returns."""
    result = func.body.body
    outputs: Sequence[Expr] = (result,)
    if isinstance(result, Tuple):
        outputs = result.fields
    elif isinstance(result, Var):
        bound = (
            {b.var: b.value for b in func.body.blocks[-1].bindings if isinstance(b, VarBinding)}
            if func.body.blocks
            else {}
        )
        made = bound.get(result)
        if isinstance(made, Tuple):
            outputs = made.fields
    if not 0 <= target_index < len(outputs):
        raise IRValueError(
            f"Gradient: target_index {target_index} is out of range, the function returns {len(outputs)} values"
        )
    target = outputs[target_index]
    info = target.struct_info_
    if (
        not isinstance(target, Var)
        or not isinstance(info, TensorStructInfo)
        or info.ndim != 0
        or not _is_differentiable(info)
    ):
        raise IRValueError(
            f"Gradient: the target must be a variable that holds a float scalar (a 0-dimensional tensor), got {info}"
        )
    return target, result


def differentiate(mod: IRModule, func: Function, requires: Sequence[int], target_index: int) -> Function:
    """The adjoint of a function with respect to the parameters with the given numbers."""
    func = copy_with_new_vars(func)
    if len(func.body.blocks) != 1 or not isinstance(func.body.blocks[0], DataflowBlock):
        raise IRValueError(
            "Gradient: the function must have exactly one dataflow block; run ConvertToDataflow before"
        )
    target, result = _target(func, target_index)
    (block,) = func.body.blocks
    params = [func.params[number] for number in requires]
    backward = _Backward(mod)
    backward.add(target, op.ones(target.struct_info.shape, target.struct_info.dtype))
    for binding in reversed(block.bindings):
        backward.visit(binding)
    adjoints = [backward.bind(param, output=True) for param in params]
    inside = _checkpointed(block)
    backward_block = backward.finish()
    if inside:
        backward_block = _Recompute(inside).visit_binding_block(backward_block)
    bindings = [*block.bindings, *backward_block.bindings]
    returned = Tuple([result, Tuple(adjoints)])
    body = SeqExpr((DataflowBlock(bindings),), returned, returned.struct_info_)
    return Function(func.params, body, None, func.is_pure, func.attrs, func.span)


def _checkpointed(block: BindingBlock) -> dict[Var, Binding]:
    """The bindings between start_checkpoint and end_checkpoint, whose values the backward part computes again."""
    bound = {binding.var: binding for binding in block.bindings}
    inside: dict[Var, Binding] = {}

    def collect(expr: Any) -> None:
        if isinstance(expr, Var):
            binding = bound.get(expr)
            if binding is None or expr in inside:
                return
            value = binding.value  # type: ignore[attr-defined]
            if getattr(getattr(value, "op", None), "name", "") in (START_CHECKPOINT, END_CHECKPOINT):
                return
            inside[expr] = binding
            collect(value)
        elif not isinstance(expr, Op):
            expr._visit_children(collect)

    for binding in block.bindings:
        found: Any = binding.value  # type: ignore[attr-defined]
        if getattr(getattr(found, "op", None), "name", "") == END_CHECKPOINT:
            collect(found.args[0])
    return inside


class _Recompute(ExprMutator):
    """Computes checkpointed values again before their first use in the backward part."""

    def __init__(self, inside: dict[Var, Binding]) -> None:
        super().__init__()
        self._inside = inside

    def visit_var_(self, var: Any) -> Any:
        binding = self._inside.get(var)
        if binding is not None and var.vid not in self._var_remap:
            again = self.builder_.emit(self.visit_expr(binding.value), f"{var.name_hint}_cp")
            self.set_var_remap(var.vid, again)
        return super().visit_var_(var)


@dataclass(frozen=True)
class Gradient(ModulePass):
    """Add ``<func_name>_adjoint``, which returns the function's result and the gradients of one scalar output.

    Before::

        @R.function
        def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                lv1 = R.add(x, y)
                lv2 = R.sum(lv1)
                R.output(lv2)
            return lv2

    After, besides ``main``::

        @R.function
        def main_adjoint(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                lv1 = R.add(x, y)
                lv2 = R.sum(lv1)
                lv2_adjoint = R.ones((), "float32")
                lv1_adjoint = R.broadcast_to(lv2_adjoint, (3, 3))
                x_adjoint = lv1_adjoint
                y_adjoint = lv1_adjoint
                R.output(lv2, x_adjoint, y_adjoint)
            return (lv2, (x_adjoint, y_adjoint))

    Args:
        func_name: the function; it has one dataflow block.
        require_grads: the parameters to differentiate by; None means all.
        target_index: which result to differentiate, where there are several.
    """

    func_name: str
    require_grads: Var | Sequence[Var] | None = None
    target_index: int = 0

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with the adjoint."""
        func = mod[self.func_name]
        if not isinstance(func, Function):
            raise IRTypeError(f"Gradient: {self.func_name} is no Relax function but a {type(func).__name__}")
        wanted = func.params if self.require_grads is None else self.require_grads
        wanted = [wanted] if isinstance(wanted, Var) else list(wanted)
        numbers: list[int] = []
        for var in wanted:
            found = [number for number, param in enumerate(func.params) if param is var]
            if not found:
                raise IRValueError(f"Gradient: {var.name_hint} is no parameter of {self.func_name}")
            if found[0] in numbers:
                raise IRValueError(f"Gradient: parameter {var.name_hint} is given twice")
            if not _is_differentiable(var.struct_info_):
                raise IRTypeError(
                    f"Gradient: parameter {var.name_hint} is {var.struct_info_}, only float tensors have gradients"
                )
            numbers += found
        adjoint = differentiate(mod, func, numbers, self.target_index)
        name = f"{self.func_name}_adjoint"
        if "global_symbol" in func.attrs:
            adjoint = adjoint.with_attr("global_symbol", name)
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        functions[GlobalVar(name, adjoint.struct_info_)] = adjoint
        return mod.replace(functions=functions)
