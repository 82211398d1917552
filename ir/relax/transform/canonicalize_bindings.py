"""CanonicalizeBindings: no variable merely renames another, no tuple is taken apart right after it was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...tir.expr import Var as TirVar
from ...tir.stmt_functor import substitute
from ...transform import PassContext
from ..analysis.binding import all_bindings
from ..bind import bind
from ..expr import (
    Binding,
    BindingBlock,
    Call,
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
from ..normalizer import LEAF_CLASSES
from ..struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .function_pass import FunctionPass


class _Plan:
    """What is known of a function's variables before it is rewritten."""

    def __init__(self, func: Function) -> None:
        self.home: dict[Var, BindingBlock] = {}
        self.counts: dict[Expr, int] = {}
        """How often each variable is used."""
        self.used_elsewhere: set[Expr] = set()
        """Variables of dataflow blocks that something outside of their block uses."""
        self._is_normalized = func.body.struct_info_ is not None
        self._values: dict[Expr, Expr] = {}
        self._suspects: list[Binding] = []
        """Bindings of other than calls: what is to be done begins at one of them, or at an output of a dataflow block."""
        self._outputs: list[Var] = []
        self._collect(func.body)
        if self._outputs:
            self._count(func.body)

    def _collect(self, node: Any) -> None:
        """Find the suspects and the outputs."""
        if not isinstance(node, BindingBlock):
            if node.__class__ not in LEAF_CLASSES:
                node._visit_children(self._collect)
            return
        is_dataflow = node.__class__ is DataflowBlock
        for binding in node.bindings:
            var, value = binding.var, binding.value  # type: ignore[attr-defined]
            self._values[var] = value
            if is_dataflow and var.__class__ is not DataflowVar:
                self._outputs.append(var)
            if value.__class__ is not Call or binding.__class__ is MatchCast:
                self._suspects.append(binding)
                self._collect(value)

    def _count(self, seq: SeqExpr) -> None:
        for block in seq.blocks:
            for binding in block.bindings:
                self.home[binding.var] = block
                self._use(binding.value, block)  # type: ignore[attr-defined]
        self._use(seq.body, None)

    def _use(self, expr: Any, block: BindingBlock | None) -> None:
        kind = expr.__class__
        if kind is Var or kind is DataflowVar:
            self.counts[expr] = self.counts.get(expr, 0) + 1
            if self.home.get(expr) is not block:
                self.used_elsewhere.add(expr)
        elif kind in LEAF_CLASSES:
            pass
        elif kind is SeqExpr:
            self._count(expr)
        elif kind is Function:
            self._count(expr.body)
        else:
            expr._visit_children(lambda child: self._use(child, block))

    def is_canonical(self) -> bool:
        """Whether it is seen at once that nothing is to be done."""
        return (
            self._is_normalized
            and self.used_elsewhere.issuperset(self._outputs)
            and not any(map(self._is_to_do, self._suspects))
        )

    def _is_to_do(self, binding: Binding) -> bool:
        value = binding.value  # type: ignore[attr-defined]
        if isinstance(value, TupleGetItem):
            return isinstance(self._value_of(value.tuple_value), Tuple)
        if isinstance(value, Tuple) and isinstance(binding, VarBinding):
            return any(isinstance(self._value_of(field), TupleGetItem) for field in value.fields)
        return isinstance(binding, MatchCast) or isinstance(value, Var)

    def _value_of(self, expr: Expr) -> Expr:
        return self._values.get(expr, expr)


class _Canonicalizer(ExprMutator):
    def __init__(self, plan: _Plan) -> None:
        super().__init__()
        self._plan = plan
        self._renamed: dict[Var, Var] = {}
        self._around: list[set[Expr]] = []
        """What each dataflow block around binds."""

    def visit_bindings(self, block: BindingBlock) -> None:
        if not isinstance(block, DataflowBlock):
            super().visit_bindings(block)
            return
        self._plan_block(block)
        bound = [binding.var for binding in block.bindings]
        self._around.append({*bound, *(self._renamed.get(var, var) for var in bound)})
        super().visit_bindings(block)
        self._around.pop()

    def _is_visible(self, expr: Expr) -> bool:
        """A variable of a dataflow block is seen in its block only."""
        return not isinstance(expr, DataflowVar) or any(expr in bound for bound in self._around)

    def _plan_block(self, block: DataflowBlock) -> None:
        """An output that renames a variable of the block takes the variable's place; an unused output is no output."""
        inside = {binding.var for binding in block.bindings}
        for binding in block.bindings:
            var = binding.var
            value = binding.value  # type: ignore[attr-defined]
            if isinstance(var, DataflowVar):
                continue
            renames = isinstance(binding, VarBinding) or _same_info(value.struct_info_, var.struct_info_)
            if var not in self._plan.used_elsewhere:
                self._renamed[var] = DataflowVar(var.vid, var.struct_info_, var.span)
            elif (
                renames
                and isinstance(value, DataflowVar)
                and value in inside
                and value not in self._renamed
                and self._plan.counts.get(value) == 1
                and _same_info(value.struct_info_, var.struct_info_)
            ):
                self._renamed[value] = var

    def visit_var_binding_(self, binding: Any) -> None:
        if binding.var not in self._renamed and self._stays(binding):
            self.builder_.emit_normalized(binding)
            return
        self._bind(self._with_renamed(binding), self.visit_expr(binding.value))

    def visit_match_cast_(self, binding: Any) -> None:
        value = self.visit_expr(binding.value)
        if _same_info(binding.struct_info, value.struct_info_):  # it checks nothing
            self._bind(self._with_renamed(binding), value)
        else:
            super().visit_match_cast_(self._with_renamed(binding))

    def _with_renamed(self, binding: Any) -> Any:
        """The binding of the variable that takes the place of the bound one, if there is one."""
        renamed = self._renamed.get(binding.var)
        if renamed is None:
            return binding
        self.set_var_remap(binding.var.vid, renamed)
        return binding.replace(var=renamed)

    def _bind(self, binding: Any, value: Expr) -> None:
        var = binding.var
        value = self._simplified(value)
        if value is var:  # the definition has been moved here already
            return
        if isinstance(value, Var) and not self._is_kept(var, value):
            self.set_var_remap(var.vid, value)
            return
        self.reemit_binding(binding, value)

    def _is_kept(self, var: Var, value: Var) -> bool:
        """An output of a dataflow block cannot be replaced by a variable that only the block sees."""
        if isinstance(var, DataflowVar) or not isinstance(value, DataflowVar):
            return not _same_info(value.struct_info_, var.struct_info_) and not isinstance(
                value, DataflowVar | Var
            )
        return True

    def _simplified(self, value: Expr) -> Expr:
        if isinstance(value, TupleGetItem):
            made = self._value_of(value.tuple_value)
            field = made.fields[value.index] if isinstance(made, Tuple) else None
            if isinstance(field, Var) and self._is_visible(field):
                return field
        elif isinstance(value, Tuple) and value.fields:
            original = self._original_tuple(value)
            return value if original is None else original
        return value

    def _value_of(self, expr: Expr) -> Expr:
        """What is bound to a variable, unless a match_cast knows more of the variable than of its value."""
        value = self.lookup_binding(expr)
        return value if value is not None and _same_info(value.struct_info_, expr.struct_info_) else expr

    def _original_tuple(self, value: Tuple) -> Expr | None:
        """``t`` for ``(t[0], t[1], ...)`` with all of its fields."""
        source: Expr | None = None
        for index, field in enumerate(value.fields):
            item = self._value_of(field)
            if not isinstance(item, TupleGetItem) or item.index != index:
                return None
            if source is None:
                source = item.tuple_value
            elif source is not item.tuple_value:
                return None
        info = source.struct_info_ if source is not None else None
        if isinstance(info, TupleStructInfo) and len(info.fields) == len(value.fields):
            return source if source is not None and self._is_visible(source) else None
        return None


def _same_info(a: StructInfo | None, b: StructInfo | None) -> bool:
    return a is b or (a is not None and b is not None and a == b)


def _dims(info: StructInfo | None) -> tuple[Any, ...] | None:
    if isinstance(info, TensorStructInfo):
        return info.shape_values
    if isinstance(info, ShapeStructInfo):
        return info.values
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return (info.value,)
    return None


def known_symbols(func: Function) -> dict[TirVar, Any]:
    """Symbolic variables that a match_cast defines although the value's struct info tells them already."""
    known: dict[TirVar, Any] = {}
    defined: set[TirVar] = set()

    def visit_info(info: Any) -> None:
        for dim in _dims(info) or ():
            if isinstance(dim, TirVar):
                defined.add(dim)

    for param in func.params:
        visit_info(param.struct_info_)

    for binding in all_bindings(func):
        if not isinstance(binding, MatchCast):
            continue
        wanted, given = _dims(binding.struct_info), _dims(binding.value.struct_info_)
        if wanted is not None and given is not None and len(wanted) == len(given):
            for new, old in zip(wanted, given, strict=True):
                if isinstance(new, TirVar) and new not in defined and new is not old:
                    known[new] = substitute(old, known) if known else old
        visit_info(binding.struct_info)
    return known


@dataclass(frozen=True)
class CanonicalizeBindings(FunctionPass):
    """Replace variables that rename others, simplify match_cast that checks nothing, and fold tuple access.

    Before::

        with R.dataflow():
            lv0 = R.add(x, x)
            lv1 = lv0
            gv = lv1
            R.output(gv)
        z = gv
        return z

    After::

        with R.dataflow():
            gv = R.add(x, x)
            R.output(gv)
        return gv

    An output of a dataflow block that nothing outside uses becomes a dataflow variable. A symbolic variable that a
    match_cast defines of an extent that is known is replaced by it.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The canonical function."""
        symbols = known_symbols(func)
        if symbols:
            func = bind(func, None, symbols)
        while not (plan := _Plan(func)).is_canonical():
            new = _Canonicalizer(plan).visit_expr(func)
            if new is func:
                break
            func = new
        return func


__all__ = ["CanonicalizeBindings", "known_symbols"]
