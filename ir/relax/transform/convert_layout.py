"""ConvertLayout: run convolutions in another layout, with transposes only where a tensor enters or leaves that layout.

A tensor in a converted region is stored with its axes permuted; the pass keeps, for every variable, the permutation from its
original axes. Each operator has a rule that says how it runs on permuted operands; an operator without one gets its operands
in the original order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...error import IRValueError
from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from .. import op
from ..expr import Call, Constant, DataflowVar, Expr, Tuple, TupleGetItem, Var, VarBinding
from ..function import Function
from ..op.declaration import OpPatternKind
from ..op.nn.conv_transpose import has_channels_last_kernel
from ..struct_info import TensorStructInfo, TupleStructInfo
from .binding_rewriter import BindingRewriter
from .function_pass import FunctionPass

Permutation = tuple[int, ...]
"""``stored = permute_dims(original, permutation)``."""


def _identity(ndim: int) -> Permutation:
    return tuple(range(ndim))


def _between(source: str, target: str) -> Permutation:
    """The permutation from the layout ``source`` to ``target``: ``_between("NCHW", "NHWC") == (0, 2, 3, 1)``."""
    if sorted(source) != sorted(target) or not target.isupper():
        raise IRValueError(
            f"ConvertLayout: cannot convert {source} to {target}; both must name the same whole axes (no inner ones as in NCHW4c)"
        )
    return tuple(source.index(letter) for letter in target)


def _ndim(expr: Expr) -> int:
    info = expr.struct_info_
    return info.ndim if isinstance(info, TensorStructInfo) else -1


@dataclass(frozen=True)
class _Plan:
    """How a call runs on permuted operands.

    Attributes:
        operands: the permutation that each argument shall have; None leaves the argument as it is.
        results: the permutation of the result, or of each field of a tuple.
        attrs: changed attributes.
        args: replaced arguments (for those that are not tensors), by number.
    """

    operands: tuple[Any, ...]
    results: Any
    attrs: Mapping[str, Any] | None = None
    args: Mapping[int, Expr] | None = None


Rule = Callable[["_Converter", Call], "_Plan | None"]


class _Converter(BindingRewriter):
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
        return _natural(expr.struct_info_)

    def moved(self, expr: Expr, wanted: Permutation) -> Expr:
        """``expr`` with the given permutation, transposing it where necessary."""
        have = self.layout_of(expr)
        if have == wanted or _ndim(expr) <= 1:
            return expr
        key = (id(expr), wanted)
        found = self._moved.get(key)
        if found is None:
            axes = [have.index(axis) for axis in wanted]
            found = self._moved[key] = self.emit(op.permute_dims(expr, axes))
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
            if not _is_permuted(layout):
                return expr
            fields = []
            for index in range(len(info.fields)):
                field = self.emit(TupleGetItem(expr, index))
                self._layout[field] = layout[index]
                fields.append(self.natural(field))
            return Tuple(fields)
        return self.moved(expr, _identity(len(layout))) if layout else expr

    # ---- the walk -------------------------------------------------------------------------------------------

    def visit_block(self, block: Any) -> None:
        self._moved.clear()  # what one block binds may not be visible in the next
        super().visit_block(block)

    def visit_binding(self, binding: Any) -> None:
        value = binding.value
        if isinstance(binding, VarBinding) and isinstance(value, Var | Tuple | TupleGetItem):
            layout = (
                self.layout_of(value.tuple_value)[value.index]
                if isinstance(value, TupleGetItem)
                else self.layout_of(value)
            )
            self._bind(binding.var, value, layout)
        elif isinstance(value, Call) and isinstance(binding, VarBinding):
            self.visit_call(binding.var, value)
        elif isinstance(value, Expr) and not isinstance(value, Function):
            self.emit_binding(binding.replace(value=self._naturalized(value)))
        else:
            self.emit_binding(binding)

    def _naturalized(self, value: Expr) -> Expr:
        if isinstance(value, Var | Tuple):
            return self.natural(value)
        if type(value).__name__ == "If":
            return value.replace(cond=self.natural(value.cond))  # type: ignore[attr-defined,no-any-return]
        return value

    def visit_call(self, var: Var, call: Call) -> None:
        name = call.op.name if isinstance(call.op, Op) else ""
        if call.struct_info_ is None:  # an operand has moved; the rules ask for what the result was
            call = Call(call.op, call.args, call.attrs, call.sinfo_args, call.span, var.struct_info_)
        rule = _RULES.get(name) or _rule_by_pattern(call)
        plan = rule(self, call) if rule is not None else None
        if plan is None:
            args = tuple(self.natural(arg) for arg in call.args)
            same = all(new is old for new, old in zip(args, call.args, strict=True))
            new = (
                call
                if same
                else Call(call.op, args, call.attrs, call.sinfo_args, call.span, call.struct_info_)
            )
            self._bind(var, new, _natural(var.struct_info_))
            return
        operands = [
            arg if wanted is None else self._operand(arg, wanted)
            for arg, wanted in zip(call.args, plan.operands, strict=True)
        ]
        for number, arg in (plan.args or {}).items():
            operands[number] = arg
        changed = any(new is not old for new, old in zip(operands, call.args, strict=True)) or any(
            _is_permuted(self.layout_of(arg)) for arg in operands
        )
        attrs = {**call.attrs.dict, **(plan.attrs or {})}
        changed = changed or attrs != call.attrs.dict
        new = Call(call.op, operands, attrs, call.sinfo_args, call.span) if changed else call
        self._bind(var, new, plan.results)

    def _operand(self, arg: Expr, wanted: Any) -> Expr:
        if isinstance(arg, Tuple):
            fields = [self._operand(field, item) for field, item in zip(arg.fields, wanted, strict=True)]
            return (
                arg if all(new is old for new, old in zip(fields, arg.fields, strict=True)) else Tuple(fields)
            )
        return self.moved(arg, wanted)

    def _bind(self, var: Var, value: Expr, layout: Any) -> None:
        if _is_permuted(layout) and not isinstance(var, DataflowVar):
            # What leaves the block has its original axes.
            inner = self.emit(value)
            self._layout[inner] = layout
            value = self.natural(inner)
            if isinstance(value, Var) and self.lookup(value) is not None and self._emitted[-1].var is value:
                # Bind the transposition itself to the variable.
                moved = self._emitted.pop()
                self._moved = {key: item for key, item in self._moved.items() if item is not value}
                value = moved.value  # type: ignore[attr-defined]
            layout = _natural(var.struct_info_)
        new = self.bind(var, value)
        if _is_permuted(layout):
            self._layout[new] = layout

    def visit_result(self, body: Expr) -> Expr:
        return self.natural(self.substitute(body))


def _natural(info: Any) -> Any:
    if isinstance(info, TupleStructInfo):
        return tuple(_natural(field) for field in info.fields)
    return _identity(info.ndim) if isinstance(info, TensorStructInfo) and info.ndim >= 0 else ()


def _is_permuted(layout: Any) -> bool:
    if layout and isinstance(layout[0], tuple):
        return any(_is_permuted(item) for item in layout)
    return bool(layout) and not isinstance(layout[0], tuple) and layout != _identity(len(layout))


# ---- rules ------------------------------------------------------------------------------------------------------


def _conv(converter: _Converter, call: Any) -> _Plan | None:
    wanted = converter.desired.get(call.op.name)
    if wanted is None:
        return None
    attrs = call.attrs
    if len(wanted) not in (2, 3):
        raise IRValueError(
            f"ConvertLayout: {call.op.name} takes [data, kernel] or [data, kernel, out] layouts, got {list(wanted)}"
        )
    data, kernel, out = (*wanted, wanted[0])[:3] if len(wanted) == 2 else wanted
    operands = (_between(attrs["data_layout"], data), _between(attrs["kernel_layout"], kernel))
    result = _between(attrs["out_layout"] or attrs["data_layout"], out)
    return _Plan(operands, result, {"data_layout": data, "kernel_layout": kernel, "out_layout": out})


def _conv_transpose(converter: _Converter, call: Any) -> _Plan | None:
    return _conv(converter, call) if has_channels_last_kernel(call.attrs) else None


def _pool(converter: _Converter, call: Call) -> _Plan | None:
    layout = converter.layout_of(call.args[0])
    if not _is_permuted(layout):
        return None
    name = call.attrs["layout"]
    data = "".join(name[axis] for axis in layout)
    out = str(call.attrs.get("out_layout") or name)
    return _Plan((layout,), layout, {"layout": data, "out_layout": "".join(out[axis] for axis in layout)})


def _batch_norm(converter: _Converter, call: Call) -> _Plan | None:
    layout = converter.layout_of(call.args[0])
    if not _is_permuted(layout):
        return None
    axis = int(call.attrs["axis"]) % len(layout)
    vector = (0,)
    return _Plan((layout, None, None, None, None), (layout, vector, vector), {"axis": layout.index(axis)})


def _one_axis(converter: _Converter, call: Call) -> _Plan | None:
    layout = converter.layout_of(call.args[0])
    if not _is_permuted(layout) or call.attrs["axis"] is None:
        return None
    axis = layout.index(int(call.attrs["axis"]) % len(layout))
    rest = (None,) * (len(call.args) - 1)
    return _Plan((layout, *rest), layout, {"axis": axis})


def _reduce(converter: _Converter, call: Call) -> _Plan | None:
    layout = converter.layout_of(call.args[0])
    if not _is_permuted(layout):
        return None
    ndim = len(layout)
    axes = call.attrs["axis"]
    original = list(range(ndim)) if axes is None else [int(axis) % ndim for axis in axes]
    stored = sorted(layout.index(axis) for axis in original)
    attrs = None if axes is None else {"axis": tuple(stored)}
    if call.attrs["keepdims"]:
        return _Plan((layout,), layout, attrs)
    kept = [axis for axis in layout if axis not in original]
    rank = {axis: position for position, axis in enumerate(sorted(kept))}
    return _Plan((layout,), tuple(rank[axis] for axis in kept), attrs)


def _concat(converter: _Converter, call: Call) -> _Plan | None:
    layouts = converter.layout_of(call.args[0])
    if not isinstance(call.args[0], Tuple):
        return None
    permuted = [layout for layout in layouts if _is_permuted(layout)]
    if not permuted or call.attrs["axis"] is None:
        return None
    layout = permuted[0]
    axis = layout.index(int(call.attrs["axis"]) % len(layout))
    return _Plan(((layout,) * len(layouts),), layout, {"axis": axis})


def _split(converter: _Converter, call: Call) -> _Plan | None:
    plan = _one_axis(converter, call)
    if plan is None or not isinstance(call.struct_info_, TupleStructInfo):
        return None
    return replace(plan, results=(plan.results,) * len(call.struct_info_.fields))


def _permute_dims(converter: _Converter, call: Call) -> _Plan | None:
    layout = converter.layout_of(call.args[0])
    if not _is_permuted(layout):
        return None
    axes = call.attrs["axes"]
    original = (
        [int(axis) % len(layout) for axis in axes] if axes is not None else list(reversed(range(len(layout))))
    )
    return _Plan((layout,), _identity(len(layout)), {"axes": tuple(layout.index(axis) for axis in original)})


def _pad(converter: _Converter, call: Call) -> _Plan | None:
    layout = converter.layout_of(call.args[0])
    if not _is_permuted(layout):
        return None
    width = list(call.attrs["pad_width"])
    moved = [width[2 * axis + side] for axis in layout for side in (0, 1)]
    return _Plan((layout, *([None] * (len(call.args) - 1))), layout, {"pad_width": tuple(moved)})


def _squeeze(converter: _Converter, call: Call) -> _Plan | None:
    layout = converter.layout_of(call.args[0])
    axes = call.attrs["axis"]
    if not _is_permuted(layout) or axes is None:
        return None
    original = [int(axis) % len(layout) for axis in axes]
    kept = [axis for axis in layout if axis not in original]
    rank = {axis: position for position, axis in enumerate(sorted(kept))}
    attrs = {"axis": tuple(sorted(layout.index(axis) for axis in original))}
    return _Plan((layout,), tuple(rank[axis] for axis in kept), attrs)


def _resize(converter: _Converter, call: Call) -> _Plan | None:
    layout = converter.layout_of(call.args[0])
    if not _is_permuted(layout):
        return None
    name = str(call.attrs["layout"])
    return _Plan((layout, None), layout, {"layout": "".join(name[axis] for axis in layout)})


def _elementwise(converter: _Converter, call: Call) -> _Plan | None:
    """All tensors get the layout of the first permuted one; smaller ones are broadcast along the same axes as before."""
    tensors = [arg for arg in call.args if isinstance(arg.struct_info_, TensorStructInfo)]
    ndim = max((_ndim(arg) for arg in tensors), default=0)
    permuted = [arg for arg in tensors if _ndim(arg) == ndim and _is_permuted(converter.layout_of(arg))]
    if not permuted:
        return None
    layout = converter.layout_of(permuted[0])
    operands: list[Any] = []
    args: dict[int, Expr] = {}
    for number, arg in enumerate(call.args):
        if not isinstance(arg.struct_info_, TensorStructInfo) or _ndim(arg) == 0:
            operands.append(None)
        elif _ndim(arg) == ndim:
            operands.append(layout)
        else:
            args[number] = _expanded(converter, arg, layout)
            operands.append(None)
    return _Plan(tuple(operands), layout, None, args)


def _expanded(converter: _Converter, arg: Expr, layout: Permutation) -> Expr:
    """A tensor of fewer dimensions, which broadcasts along the last original axes, for operands in another layout."""
    arg = converter.natural(arg)
    ndim, size = len(layout), _ndim(arg)
    own = [axis for axis in layout if axis >= ndim - size]
    order = tuple(axis - (ndim - size) for axis in own)
    if order != _identity(size):
        arg = converter.emit(op.permute_dims(arg, order))
    missing = [position for position, axis in enumerate(layout) if axis < ndim - size]
    if missing != list(range(len(missing))):
        arg = converter.emit(op.expand_dims(arg, missing))
    return arg


_RULES: dict[str, Rule] = {
    **{f"relax.nn.conv{n}d": _conv for n in (1, 2, 3)},
    **{f"relax.nn.conv{n}d_transpose": _conv_transpose for n in (1, 2, 3)},
    **{f"relax.nn.{kind}_pool{n}d": _pool for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"relax.nn.adaptive_avg_pool{n}d": _pool for n in (1, 2, 3)},
    **{f"relax.{name}": _reduce for name in ("sum", "mean", "max", "min", "prod", "variance", "std")},
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.softmax": _one_axis,
    "relax.nn.log_softmax": _one_axis,
    "relax.nn.prelu": _one_axis,
    "relax.flip": _one_axis,
    "relax.concat": _concat,
    "relax.split": _split,
    "relax.permute_dims": _permute_dims,
    "relax.nn.pad": _pad,
    "relax.squeeze": _squeeze,
    "relax.image.resize2d": _resize,
    "relax.where": _elementwise,
    "relax.clip": _elementwise,
    "relax.astype": _elementwise,
}
"""How each operator runs on permuted operands; elementwise operators are recognized by their fusion pattern."""


def _rule_by_pattern(call: Call) -> Rule | None:
    if not isinstance(call.op, Op):
        return None
    pattern = call.op.get_attr("TOpPattern")
    if pattern in (OpPatternKind.kElemWise, OpPatternKind.kBroadcast) and not call.sinfo_args:
        if isinstance(call.struct_info_, TensorStructInfo) and all(
            isinstance(arg, Var | Constant) or not isinstance(arg.struct_info_, TensorStructInfo)
            for arg in call.args
        ):
            return _elementwise
    return None


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
    """

    desired_layouts: Mapping[str, Sequence[str]]

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The converted function."""
        return _Converter(mod, self.desired_layouts).rewrite(func)
