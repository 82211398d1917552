"""EliminateCommonSubexpr: compute equal pure expressions of a function once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...structural import array_key, structural_hash
from ...transform import PassContext
from ..analysis.memory import Aliases, MemoryAnalysis
from ..expr import (
    Binding,
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    If,
    MatchCast,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..expr_functor import ExprMutator
from ..function import ExternFunc, Function
from .function_pass import FunctionPass
from .grouping import tir_vars_of


class _Unkeyed(Exception):
    """An expression of a kind that is never merged."""


def _symbolic(values: Any) -> tuple[Any, ...]:
    """Extents and numbers as parts of a key: constants as they are written, variables by identity, others by structure."""
    parts: list[Any] = []
    for value in values:
        if hasattr(value, "value") and not hasattr(value, "a"):
            parts.append((value.dtype, repr(value.value)))
        elif type(value).__name__ in ("Var", "SizeVar"):
            parts.append(id(value))
        else:
            parts.append((_ids(value), structural_hash(value)))
    return tuple(parts)


def _ids(value: Any) -> tuple[int, ...]:
    return tuple(id(var) for var in tir_vars_of(value))


def expression_key(expr: Expr) -> Any:
    """A hashable key that is equal for expressions which compute the same; raises for kinds that are never merged."""
    if isinstance(expr, Var):
        return id(expr)
    if isinstance(expr, Constant):
        if expr.data.size <= 16:
            return ("constant", array_key(expr.data))
        return ("constant", id(expr.data))
    if isinstance(expr, GlobalVar):
        return ("global", expr.name_hint)
    if isinstance(expr, Op):
        return ("op", expr.name)
    if isinstance(expr, ExternFunc):
        return ("extern", expr.global_symbol)
    if isinstance(expr, Tuple):
        return ("tuple", *[expression_key(field) for field in expr.fields])
    if isinstance(expr, TupleGetItem):
        return ("get", expression_key(expr.tuple_value), expr.index)
    if isinstance(expr, ShapeExpr):
        return ("shape", _symbolic(expr.values))
    if isinstance(expr, PrimValue):
        return ("prim", _symbolic((expr.value,)))
    if isinstance(expr, StringImm | DataTypeImm):
        return (type(expr).__name__, expr.value)
    if isinstance(expr, Call):
        attrs = structural_hash(expr.attrs) if expr.attrs else None
        sinfo = tuple((hash(info), _ids(info)) for info in expr.sinfo_args)
        return (
            "call",
            expression_key(expr.op),
            tuple(expression_key(arg) for arg in expr.args),
            attrs,
            sinfo,
        )
    raise _Unkeyed


class _Merger(ExprMutator):
    def __init__(self, call_only: bool, memory: MemoryAnalysis) -> None:
        super().__init__()
        self._call_only = call_only
        self._memory = memory
        self._aliases: Aliases | None = None
        self._seen: dict[Any, Var] = {}

    def visit_seq_expr_(self, seq: Any) -> Any:
        # What a branch computes is not available after it.
        outer = dict(self._seen)
        try:
            return super().visit_seq_expr_(seq)
        finally:
            self._seen = outer

    def visit_function_(self, func: Any) -> Any:
        outer = self._seen, self._aliases
        self._seen, self._aliases = {}, self._memory.aliases(func)
        try:
            return super().visit_function_(func)
        finally:
            self._seen, self._aliases = outer

    def visit_bindings(self, block: Any) -> None:
        super().visit_bindings(block)
        # Dataflow variables are not visible in the blocks that follow.
        self._seen = {key: var for key, var in self._seen.items() if not isinstance(var, DataflowVar)}

    def visit_var_binding_(self, binding: Any) -> None:
        value = self.visit_expr(binding.value)
        key = self._key(binding, value)
        earlier = self._seen.get(key)
        if earlier is not None and earlier.struct_info_ == binding.var.struct_info_:
            self._merge(binding, earlier)
            return
        var = self.reemit_binding(binding, value)
        if key is not None:
            self._seen[key] = var

    def visit_match_cast_(self, binding: Any) -> None:
        key = self._key(binding, self.visit_expr(binding.value))
        earlier = self._seen.get(key)
        if earlier is not None:
            self._merge(binding, earlier)
            return
        super().visit_match_cast_(binding)
        if key is not None:
            self._seen[key] = self.visit_expr(binding.var)

    def _merge(self, binding: Binding, earlier: Var) -> None:
        self.builder_.emit_normalized(VarBinding(binding.var, earlier))
        # An output of a dataflow block is seen where the block's own variables are not: it keeps its name.
        if isinstance(binding.var, DataflowVar) or not isinstance(earlier, DataflowVar):
            self.set_var_remap(binding.var.vid, earlier)

    def _keeps(self, binding: Any) -> bool:
        """Whether the function writes neither to what a call made nor to what it was made of: two must then stay two."""
        assert self._aliases is not None
        touched = self._aliases.roots(binding.var)
        for arg in binding.value.args:
            touched |= self._aliases.roots(arg)
        return touched.isdisjoint(self._aliases.written)

    def _key(self, binding: Binding, value: Expr) -> Any:
        if isinstance(
            value, Var | Constant | ShapeExpr | PrimValue | StringImm | DataTypeImm | If | Function
        ):
            return None
        if self._call_only and not isinstance(value, Call):
            return None
        if isinstance(value, Call) and not (self._memory.is_repeatable(value) and self._keeps(binding)):
            return None
        try:
            key = expression_key(value)
        except _Unkeyed:
            return None
        if isinstance(binding, MatchCast):
            return ("match_cast", key, hash(binding.struct_info), _ids(binding.struct_info))
        return key


@dataclass(frozen=True)
class EliminateCommonSubexpr(FunctionPass):
    """Bind repeated expressions to the variable that has the value already.

    Before::

        lv0 = R.add(x, y)
        lv1 = R.add(x, y)
        gv = R.multiply(lv0, lv1)

    After (CanonicalizeBindings removes the renaming)::

        lv0 = R.add(x, y)
        lv1 = lv0
        gv = R.multiply(lv0, lv0)

    Args:
        call_only: leave tuples and tuple access alone.
    """

    call_only: bool = False

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with repeated expressions merged."""
        return _Merger(self.call_only, MemoryAnalysis(mod)).visit_expr(func)
