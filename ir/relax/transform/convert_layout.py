"""ConvertLayout: run convolutions in another layout, with transposes only where a tensor enters or leaves that layout.

A tensor in a converted region is stored with its axes permuted; the pass keeps, for every variable, the permutation from its
original axes. Each operator declares how it runs on permuted operands (:mod:`ir.relax.op.layout_rule`); one that declares
nothing gets its operands in the original order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from .. import op
from ..expr import BindingBlock, Call, DataflowVar, Expr, Tuple, TupleGetItem, Var, VarBinding
from ..expr_functor import ExprMutator
from ..function import Function
from ..op.layout_rule import LayoutPlan, LayoutRule, Permutation, identity, is_permuted, natural, ndim_of
from ..struct_info import TupleStructInfo
from .function_pass import FunctionPass


class _Converter(ExprMutator):
    def __init__(self, mod: IRModule, desired: Mapping[str, Sequence[str]]) -> None:
        super().__init__(mod)
        self.desired = desired
        self._layout: dict[Var, Any] = {}
        self._moved: dict[tuple[int, Permutation], Var] = {}
        self._keep: list[Expr] = []

    # ---- permutations -----------------------------------------------------------------------------------------

    def layout_of(self, expr: Expr) -> Any:
        """The permutation of a tensor (nested tuples for tuples)."""
        if isinstance(expr, Var) and expr in self._layout:
            return self._layout[expr]
        if isinstance(expr, Tuple):
            return tuple(self.layout_of(field) for field in expr.fields)
        return natural(expr.struct_info_)

    def moved(self, expr: Expr, wanted: Permutation) -> Expr:
        """``expr`` with the given permutation, transposing it where necessary."""
        have = self.layout_of(expr)
        if have == wanted or ndim_of(expr) <= 1:
            return expr
        key = (id(expr), wanted)
        found = self._moved.get(key)
        if found is None:
            axes = [have.index(axis) for axis in wanted]
            found = self._moved[key] = self.builder_.emit(op.permute_dims(expr, axes))
            self._keep.append(expr)
            self._layout[found] = wanted
        return found

    def natural(self, expr: Expr) -> Expr:
        """``expr`` with its original axes."""
        if isinstance(expr, Tuple):
            fields = [self.natural(field) for field in expr.fields]
            same = all(new is old for new, old in zip(fields, expr.fields, strict=True))
            return expr if same else Tuple(fields)
        if not isinstance(expr, Var) or expr not in self._layout:
            return expr
        layout = self._layout[expr]
        info = expr.struct_info_
        if isinstance(info, TupleStructInfo):
            if not is_permuted(layout):
                return expr
            fields = []
            for index in range(len(info.fields)):
                field = self.builder_.emit(TupleGetItem(expr, index))
                self._layout[field] = layout[index]
                fields.append(self.natural(field))
            return Tuple(fields)
        return self.moved(expr, identity(len(layout))) if layout else expr

    # ---- the walk -------------------------------------------------------------------------------------------

    def visit_bindings(self, block: BindingBlock) -> None:
        self._moved.clear()  # what one block binds may not be visible in the next
        super().visit_bindings(block)

    def visit_var_binding_(self, binding: Any) -> None:
        value = binding.value
        if isinstance(value, Call):
            self._bind_call(binding, super().visit_call_(value))
        elif isinstance(value, Var | Tuple | TupleGetItem):
            value = self.visit_expr(value)
            layout = (
                self.layout_of(value.tuple_value)[value.index]
                if isinstance(value, TupleGetItem)
                else self.layout_of(value)
            )
            self._bind(binding, value, layout)
        else:
            super().visit_var_binding_(binding)

    def visit_match_cast_(self, binding: Any) -> None:
        super().visit_match_cast_(binding.replace(value=self.natural(self.visit_expr(binding.value))))

    def visit_if_(self, expr: Any) -> Any:
        new = super().visit_if_(expr)
        return new.replace(cond=self.natural(new.cond))

    def visit_result(self, body: Any) -> Any:
        return self.natural(super().visit_result(body))

    def _bind_call(self, binding: VarBinding, call: Call) -> None:
        var = binding.var
        if call.struct_info_ is None:  # an operand has moved; the rules ask for what the result was
            call = call.replace(struct_info_=var.struct_info_)
        plan = self.plan(call)
        if plan is None:
            new = call.with_args([self.natural(arg) for arg in call.args])
            self._bind(binding, new, natural(var.struct_info_))
            return
        operands = [self._operand(arg, wanted) for arg, wanted in zip(call.args, plan.operands, strict=True)]
        new = call.with_args(operands)
        if any(is_permuted(self.layout_of(arg)) for arg in operands):
            new = new.replace(struct_info_=None)
        attrs = {**call.attrs.dict, **(plan.attrs or {})}
        if attrs != call.attrs.dict:
            new = new.replace(attrs=attrs)
        self._bind(binding, new, plan.results)

    def plan(self, call: Call) -> LayoutPlan | None:
        """How the call's operator says that it runs on its operands as they are stored."""
        rule: LayoutRule | None = call.op.get_attr("FRelaxInferLayout") if isinstance(call.op, Op) else None
        if rule is None:
            return None
        return rule(call, [self.layout_of(arg) for arg in call.args], self.desired.get(call.op.name))  # type: ignore[attr-defined]

    def _operand(self, arg: Expr, wanted: Any) -> Expr:
        if wanted is None:
            return arg
        if isinstance(arg, Tuple):
            fields = [self._operand(field, item) for field, item in zip(arg.fields, wanted, strict=True)]
            return (
                arg if all(new is old for new, old in zip(fields, arg.fields, strict=True)) else Tuple(fields)
            )
        if ndim_of(arg) < len(wanted):
            return self._expanded(arg, wanted)
        return self.moved(arg, wanted)

    def _expanded(self, arg: Expr, layout: Permutation) -> Expr:
        """A tensor of fewer dimensions, which broadcasts along the last original axes, for operands in another layout."""
        arg = self.natural(arg)
        ndim, size = len(layout), ndim_of(arg)
        order = tuple([axis - (ndim - size) for axis in layout if axis >= ndim - size])
        if order != identity(size):
            arg = self.builder_.emit(op.permute_dims(arg, order))
        missing = [position for position, axis in enumerate(layout) if axis < ndim - size]
        if missing != list(range(len(missing))):
            arg = self.builder_.emit(op.expand_dims(arg, missing))
        return arg

    def _bind(self, binding: VarBinding, value: Expr, layout: Any) -> None:
        var = binding.var
        if is_permuted(layout) and not isinstance(var, DataflowVar):
            # What leaves the block has its original axes.
            inner = self.builder_.emit(value)
            self._layout[inner] = layout
            value = self.natural(inner)
            emitted = self.builder_._current_bindings()
            if emitted and emitted[-1].var is value:
                # Bind the transposition itself to the variable.
                self._moved = {key: item for key, item in self._moved.items() if item is not value}
                value = emitted.pop().value
            layout = natural(var.struct_info_)
        new = self.reemit_binding(binding, value)
        if is_permuted(layout):
            self._layout[new] = layout


@dataclass(frozen=True)
class ConvertLayout(FunctionPass):
    """Convert convolutions (and what is around them) to other layouts.

    Before::

        gv = R.nn.conv2d(x, w, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW")
        gv2 = R.nn.relu(gv)

    After ``ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})``::

        lv = R.permute_dims(x, axes=[0, 2, 3, 1])
        lv1 = R.permute_dims(w, axes=[0, 2, 3, 1])
        gv = R.nn.conv2d(lv, lv1, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC")
        lv2 = R.nn.relu(gv)
        gv2 = R.permute_dims(lv2, axes=[0, 3, 1, 2])

    Args:
        desired_layouts: for each operator the layouts of data, kernel and (if different from data) output.

    Raises:
        IRValueError: an operator with a desired layout declares no layout rule, or the layouts do not suit it.
    """

    desired_layouts: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        for name in self.desired_layouts:
            if not Op.get(name).has_attr("FRelaxInferLayout"):
                raise IRValueError(f"ConvertLayout: operator {name!r} declares no layout rule")

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The converted function."""
        return _Converter(mod, self.desired_layouts).visit_expr(func)  # type: ignore[no-any-return]
