"""CanonicalizeBindings: no variable merely renames another, no tuple is taken apart right after it was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...tir.expr import Var as TirVar
from ...tir.stmt_functor import substitute
from ...transform import PassContext
from ..bind import bind
from ..expr import (
    Binding,
    BindingBlock,
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
from ..function import Function
from ..struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .binding_rewriter import BindingRewriter, use_counts, walk_bindings
from .function_pass import FunctionPass


class _Plan:
    """What is known of a function's variables before it is rewritten."""

    def __init__(self, func: Function) -> None:
        self.home: dict[Var, BindingBlock] = {}
        self.counts = use_counts(func)
        self.used_elsewhere: set[Var] = set()
        """Variables of dataflow blocks that something outside of their block uses."""
        walk_bindings(func, lambda binding, block: self.home.__setitem__(binding.var, block))
        self._collect_uses(func.body)

    def _collect_uses(self, seq: SeqExpr) -> None:
        for block in seq.blocks:
            for binding in block.bindings:
                self._use(binding.value, block)  # type: ignore[attr-defined]
        self._use(seq.body, None)

    def _use(self, expr: Any, block: BindingBlock | None) -> None:
        def visit(node: Any) -> None:
            if isinstance(node, Var):
                if self.home.get(node) is not block:
                    self.used_elsewhere.add(node)
            elif isinstance(node, SeqExpr):
                self._collect_uses(node)
            elif isinstance(node, Function):
                self._collect_uses(node.body)
            else:
                node._visit_children(visit)

        visit(expr)


class _Canonicalizer(BindingRewriter):
    def __init__(self, plan: _Plan) -> None:
        super().__init__()
        self._plan = plan
        self._renamed: dict[Var, Var] = {}

    def visit_block(self, block: BindingBlock) -> None:
        if isinstance(block, DataflowBlock):
            self._plan_block(block)
        super().visit_block(block)

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

    def visit_binding(self, binding: Binding) -> None:
        var = binding.var
        value = binding.value  # type: ignore[attr-defined]
        renamed = self._renamed.get(var)
        if renamed is not None:
            self.replaced[var] = renamed
            binding = binding.replace(var=renamed)
            var = renamed
        if isinstance(binding, MatchCast) and not _same_info(binding.struct_info, value.struct_info_):
            self.emit_binding(binding)
            return
        value = self._simplified(value)
        if value is var:  # the definition has been moved here already
            return
        if isinstance(value, Var) and not self._is_kept(var, value):
            self.replace_var(var, value)
            for old, new in self.replaced.items():
                if new is var:
                    self.replaced[old] = value
            return
        self.bind(var, value)

    def _is_kept(self, var: Var, value: Var) -> bool:
        """An output of a dataflow block cannot be replaced by a variable that only the block sees."""
        if isinstance(var, DataflowVar) or not isinstance(value, DataflowVar):
            return not _same_info(value.struct_info_, var.struct_info_) and not isinstance(
                value, DataflowVar | Var
            )
        return True

    def _simplified(self, value: Expr) -> Expr:
        if isinstance(value, TupleGetItem):
            source = value.tuple_value
            made = source if isinstance(source, Tuple) else self.lookup(source)
            if isinstance(made, Tuple) and isinstance(made.fields[value.index], Var):
                return made.fields[value.index]
        elif isinstance(value, Tuple) and value.fields:
            return self._original_tuple(value) or value
        return value

    def _original_tuple(self, value: Tuple) -> Expr | None:
        """``t`` for ``(t[0], t[1], ...)`` with all of its fields."""
        source: Expr | None = None
        for index, field in enumerate(value.fields):
            item = field if isinstance(field, TupleGetItem) else self.lookup(field)
            if not isinstance(item, TupleGetItem) or item.index != index:
                return None
            if source is None:
                source = item.tuple_value
            elif source is not item.tuple_value:
                return None
        info = source.struct_info_ if source is not None else None
        if isinstance(info, TupleStructInfo) and len(info.fields) == len(value.fields):
            return source
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

    def visit(binding: Binding, block: BindingBlock) -> None:
        if not isinstance(binding, MatchCast):
            return
        wanted, given = _dims(binding.struct_info), _dims(binding.value.struct_info_)
        if wanted is not None and given is not None and len(wanted) == len(given):
            for new, old in zip(wanted, given, strict=True):
                if isinstance(new, TirVar) and new not in defined and new is not old:
                    known[new] = substitute(old, known) if known else old
        visit_info(binding.struct_info)

    walk_bindings(func, visit)
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
        while True:
            new = _Canonicalizer(_Plan(func)).rewrite(func)
            if new is func:
                return func
            func = new


__all__ = ["CanonicalizeBindings", "known_symbols"]
