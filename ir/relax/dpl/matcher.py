"""Matching a pattern against an expression, looking through the variables that bindings define."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

from ... import structural
from ...expr import GlobalVar, RelaxExpr
from ...op import Op
from ..analysis.binding import get_var2val
from ..expr import Call, Constant, DataflowVar, ShapeExpr, Tuple, TupleGetItem, Var
from ..function import ExternFunc, Function
from ..op.declaration import declaration_of
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from ..struct_info_lattice import (
    BaseCheckResult,
    can_prove_shape_equal,
    get_static_type,
    struct_info_base_check,
)
from . import pattern as P


class Matcher:
    """One attempt; ``memo`` holds what each pattern matched, and is rolled back where an alternative fails."""

    def __init__(self, var2val: Mapping[Any, RelaxExpr] | None) -> None:
        self._values = {var.vid: value for var, value in (var2val or {}).items()}
        self.memo: dict[P.DFPattern, RelaxExpr] = {}

    def unwrap(self, expr: Any) -> Any:
        """The value behind a variable, as far as it is known."""
        while isinstance(expr, Var) and expr.vid in self._values:
            expr = self._values[expr.vid]
        return expr

    def match(self, pattern: P.DFPattern, expr: Any) -> bool:
        """Whether the pattern describes the expression, in agreement with what was matched so far."""
        known = self.memo.get(pattern)
        if known is not None:
            return known is expr or self.unwrap(known) is self.unwrap(expr) or _equal_leaf(known, expr)
        mark = len(self.memo)
        if _MATCH[type(pattern)](self, pattern, expr):
            self.memo[pattern] = expr
            return True
        self.restore(mark)
        return False

    def restore(self, mark: int) -> None:
        """Forget what was matched since the memo had ``mark`` entries."""
        while len(self.memo) > mark:
            self.memo.popitem()

    def match_all(self, pairs: Any) -> bool:
        """Whether all (pattern, expression) pairs match; nothing is remembered when one does not."""
        mark = len(self.memo)
        for pattern, expr in pairs:
            if not self.match(pattern, expr):
                self.restore(mark)
                return False
        return True


def _equal_leaf(a: Any, b: Any) -> bool:
    return isinstance(a, Constant) and isinstance(b, Constant) and structural.structural_equal(a, b)


def _wildcard(self: Matcher, pattern: Any, expr: Any) -> bool:
    return True


def _expr(self: Matcher, pattern: Any, expr: Any) -> bool:
    if isinstance(pattern.expr, Op):
        return pattern.expr is expr
    return structural.structural_equal(pattern.expr, expr) or structural.structural_equal(
        pattern.expr, self.unwrap(expr)
    )


def _var(self: Matcher, pattern: Any, expr: Any) -> bool:
    return isinstance(expr, Var) and pattern.name in ("", expr.name_hint)


def _dataflow_var(self: Matcher, pattern: Any, expr: Any) -> bool:
    return isinstance(expr, DataflowVar) and pattern.name in ("", expr.name_hint)


def _global_var(self: Matcher, pattern: Any, expr: Any) -> bool:
    return isinstance(expr, GlobalVar) and pattern.name in ("", expr.name_hint)


def _extern(self: Matcher, pattern: Any, expr: Any) -> bool:
    return isinstance(expr, ExternFunc) and pattern.global_symbol in ("", expr.global_symbol)


def _constant(self: Matcher, pattern: Any, expr: Any) -> bool:
    return isinstance(self.unwrap(expr), Constant)


def _call(self: Matcher, pattern: Any, expr: Any) -> bool:
    call = self.unwrap(expr)
    if not isinstance(call, Call) or not self.match(pattern.op, call.op):
        return False
    if pattern.args is None:
        return True
    count = len(pattern.args)
    if count > len(call.args) or (count < len(call.args) and not pattern.varg_default_wildcard):
        return False
    args = call.args[:count]
    if self.match_all(zip(pattern.args, args, strict=True)):
        return True
    declared = declaration_of(call.op)
    commutes = declared is not None and declared.commutative and count == 2
    return commutes and self.match_all(zip(pattern.args, reversed(args), strict=True))


def _function(self: Matcher, pattern: Any, expr: Any) -> bool:
    func = self.unwrap(expr)
    if not isinstance(func, Function):
        return False
    if pattern.params is not None and (
        len(pattern.params) != len(func.params)
        or not self.match_all(zip(pattern.params, func.params, strict=True))
    ):
        return False
    for var, value in get_var2val(func).items():
        self._values.setdefault(var.vid, value)
    return self.match(pattern.body, func.body.body)


def _tuple(self: Matcher, pattern: Any, expr: Any) -> bool:
    value = self.unwrap(expr)
    return (
        isinstance(value, Tuple)
        and len(value.fields) == len(pattern.fields)
        and self.match_all(zip(pattern.fields, value.fields, strict=True))
    )


def _unordered_tuple(self: Matcher, pattern: Any, expr: Any) -> bool:
    value = self.unwrap(expr)
    if not isinstance(value, Tuple) or len(value.fields) != len(pattern.fields):
        return False
    return any(
        self.match_all(zip(pattern.fields, order, strict=True)) for order in permutations(value.fields)
    )


def _tuple_getitem(self: Matcher, pattern: Any, expr: Any) -> bool:
    value = self.unwrap(expr)
    if not isinstance(value, TupleGetItem) or pattern.index not in (None, value.index):
        return False
    return self.match(pattern.tuple, value.tuple_value)


def _or(self: Matcher, pattern: Any, expr: Any) -> bool:
    return self.match(pattern.left, expr) or self.match(pattern.right, expr)


def _and(self: Matcher, pattern: Any, expr: Any) -> bool:
    return self.match_all([(pattern.left, expr), (pattern.right, expr)])


def _not(self: Matcher, pattern: Any, expr: Any) -> bool:
    mark = len(self.memo)
    if self.match(pattern.reject, expr):
        self.restore(mark)
        return False
    return True


def _attrs_agree(found: Any, wanted: Mapping[str, Any]) -> bool:
    for name, value in wanted.items():
        if name not in found:
            return False
        have = found[name]
        if isinstance(value, list):
            value = tuple(value)
        if isinstance(value, Mapping) and hasattr(have, "items"):
            if not _attrs_agree(have, value):
                return False
        elif not structural.structural_equal(have, value):
            return False
    return True


def _attr(self: Matcher, pattern: Any, expr: Any) -> bool:
    if not self.match(pattern.pattern, expr):
        return False
    value = self.unwrap(expr)
    if isinstance(value, Op):
        return all(
            value.has_attr(name) and value.get_attr(name) == wanted for name, wanted in pattern.attrs.items()
        )
    if isinstance(value, Call | Function):
        if _attrs_agree(value.attrs.dict, pattern.attrs):
            return True
        # an operator's own attributes (its fusion pattern and the like) are also a call's
        op = value.op if isinstance(value, Call) else None
        return isinstance(op, Op) and all(
            op.has_attr(name) and op.get_attr(name) == wanted for name, wanted in pattern.attrs.items()
        )
    return False


def _type(self: Matcher, pattern: Any, expr: Any) -> bool:
    info = expr.struct_info_
    return (
        info is not None
        and structural.structural_equal(get_static_type(info), pattern.type)
        and self.match(pattern.pattern, expr)
    )


def _struct_info(self: Matcher, pattern: Any, expr: Any) -> bool:
    info = expr.struct_info_
    if info is None or struct_info_base_check(pattern.struct_info, info) is not BaseCheckResult.PASS:
        return False
    return self.match(pattern.pattern, expr)


def _dtype(self: Matcher, pattern: Any, expr: Any) -> bool:
    info = expr.struct_info_
    return (
        isinstance(info, TensorStructInfo | PrimStructInfo)
        and info.dtype == pattern.dtype
        and self.match(pattern.pattern, expr)
    )


def _shape(self: Matcher, pattern: Any, expr: Any) -> bool:
    info = expr.struct_info_
    return (
        isinstance(info, TensorStructInfo)
        and info.shape_values is not None
        and can_prove_shape_equal(info.shape_values, pattern.shape)
        and self.match(pattern.pattern, expr)
    )


def _dims(expr: Any) -> Any:
    info = expr.struct_info_
    if isinstance(info, TensorStructInfo):
        return info.shape_values
    return info.values if isinstance(info, ShapeStructInfo) else None


def _same_shape(self: Matcher, pattern: Any, expr: Any) -> bool:
    if not self.match(pattern.pattern, expr):
        return False
    other = self.memo.get(pattern.other)
    if other is None:
        return True  # the other one is checked when it is matched after this one, by the context or its own constraint
    left, right = _dims(expr), _dims(other)
    return left is not None and right is not None and can_prove_shape_equal(left, right)


def _prim_array(self: Matcher, pattern: Any, expr: Any) -> bool:
    value = self.unwrap(expr)
    return isinstance(value, ShapeExpr) and can_prove_shape_equal(value.values, pattern.shape)


_MATCH: dict[type, Callable[[Matcher, Any, Any], bool]] = {
    P.WildcardPattern: _wildcard,
    P.ExprPattern: _expr,
    P.VarPattern: _var,
    P.DataflowVarPattern: _dataflow_var,
    P.GlobalVarPattern: _global_var,
    P.ExternFuncPattern: _extern,
    P.ConstantPattern: _constant,
    P.CallPattern: _call,
    P.FunctionPattern: _function,
    P.TuplePattern: _tuple,
    P.UnorderedTuplePattern: _unordered_tuple,
    P.TupleGetItemPattern: _tuple_getitem,
    P.OrPattern: _or,
    P.AndPattern: _and,
    P.NotPattern: _not,
    P.AttrPattern: _attr,
    P.TypePattern: _type,
    P.StructInfoPattern: _struct_info,
    P.DataTypePattern: _dtype,
    P.ShapePattern: _shape,
    P.SameShapePattern: _same_shape,
    P.PrimArrPattern: _prim_array,
}


def _same_shapes_hold(matcher: Matcher) -> bool:
    """Check the same-shape constraints whose other side was matched later."""
    for pattern, expr in matcher.memo.items():
        if isinstance(pattern, P.SameShapePattern):
            other = matcher.memo.get(pattern.other)
            if other is None:
                continue
            left, right = _dims(expr), _dims(other)
            if left is None or right is None or not can_prove_shape_equal(left, right):
                return False
    return True


def extract_matched_expr(
    pattern: P.DFPattern, expr: RelaxExpr, var2val: Mapping[Any, RelaxExpr] | None = None
) -> dict[P.DFPattern, RelaxExpr] | None:
    """What each part of the pattern matched, or None."""
    matcher = Matcher(var2val)
    if not matcher.match(pattern, expr) or not _same_shapes_hold(matcher):
        return None
    return dict(matcher.memo)
