"""Canonical form of integer expressions: sums of scaled splits, ``sum((index % upper) // lower * scale) + base``.

Splits of the same index recombine (``x // 8 * 8 + x % 8`` is ``x``), constants divide through, and terms are ordered by
falling scale, so that equal expressions come out equal. The method is the one described for Halide-derived simplifiers
in TVM (Chen et al., OSDI 2018); products of symbolic extents go through :mod:`ir.arith.polynomial`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from .. import dtype as dt
from ..tir import expr as E
from ..tir.expr import IntImm
from ..tir.intrinsic.declaration import is_transparent
from . import build
from .canonical_division import CanonicalDivision
from .canonical_form import UNBOUNDED, Split, Sum, recombined
from .deep_equal import expr_deep_equal
from .domain import INDEX_TYPES, is_number


class CanonicalSimplifier(CanonicalDivision):
    """Brings expressions to canonical form for one analyzer."""

    def _lt(self, e: Any) -> Any:
        """``sum < c``: terms that cannot matter are dropped, and common factors divided out."""
        a, b = self.visit(e.a), self.visit(e.b)
        simplified = self._less(a, b)
        if simplified is not None:
            return simplified
        return self._by_rules(e, a, b)

    def _less(self, a: Any, b: Any) -> Any:
        """``a < b`` as ``sum < constant`` without what cannot matter; None where nothing goes."""
        form = self._as_sum(self._form(build.sub(a, b)), a.dtype)
        args = recombined(form.args)
        if not args:
            return build.boolean(form.base < 0)
        form, changed = Sum(form.dtype, args, form.base), False
        low, high = self._parent._bounds(self._normalized(form))
        if high < 0 or low >= 0:
            return build.boolean(high < 0)
        while True:
            reduced = self._reduced(form)
            if reduced is None:
                break
            form, changed = reduced, True
        return self._less_than_zero(form) if changed else None

    def _reduced(self, form: Sum) -> Sum | None:
        """A shorter sum that is negative for the same values; None when there is none."""
        common = 0
        for item in form.args:
            common = gcd(common, item.scale)
        if common > 1:
            # x c + b < 0 is x + floor(b / c) < 0 for integer x, b rounded down
            return Sum(form.dtype, form.args, form.base - form.base % common).divided(common)
        for candidate in sorted({abs(item.scale) for item in form.args}, reverse=True):
            if candidate <= 1:
                break
            whole, rest = self._separate(form, candidate)
            # x c + y + b < 0, where c divides all of x c and 0 <= y + b % c < c, is x + b // c < 0
            constant, rest.base = form.base - form.base % candidate, form.base % candidate
            low, high = self._parent._bounds(self._normalized(rest))
            if 0 <= low and high < candidate:
                return Sum(form.dtype, whole.args, constant).divided(candidate)
            if len(rest.args) == 1 and rest.base == 0:
                # x c + (y % m) // l < 0 with c l dividing m is x + (y % m) // (c l) < 0
                extra = rest.args[0]
                if (
                    extra.scale == 1
                    and extra.upper != UNBOUNDED
                    and extra.upper % (candidate * extra.lower) == 0
                ):
                    shorter = self._split_div(extra, candidate, extra.mode)
                    return (
                        Sum(form.dtype, whole.args, constant)
                        .divided(candidate)
                        .plus(self._as_split(shorter), 1)
                    )
        return None

    def _less_than_zero(self, form: Sum) -> Any:
        """The comparison ``form < 0`` with the constant right of the sign."""
        rewrite = self._parent._rewrite
        if not form.args:
            return build.boolean(form.base < 0)
        left: Any = self._normalized(Sum(form.dtype, form.args, 0))
        right: Any = build.number(-form.base, form.dtype)
        if len(form.args) == 1 and form.args[0].scale < 0:
            # -x < c is -c < x
            left, right = build.number(form.base, form.dtype), self._normalized(form.args[0].scaled(-1))
        result = rewrite.combine(E.LT, left, right)
        return build.lt(left, right) if result is None else result

    def _cast(self, e: Any) -> Any:
        if not self._parent._is_index(e):
            return self._parent._data._rewrite.visit(e)
        value = self._form(e.value)
        if value.__class__ is Sum and self._may_push(value, e.dtype):
            args = [self._cast_split(item, e.dtype) for item in value.args]
            return Sum(e.dtype, [], value.base).plus(Sum(e.dtype, args, 0), 1)
        if value.__class__ is Split and self._may_push_split(value, e.dtype):
            return self._cast_split(value, e.dtype)
        found = build.index_cast(e.dtype, self._normalized(value))
        return found if found.__class__ is E.Cast else self._form(found)

    def _cast_split(self, item: Split, dtype: str) -> Split:
        return Split(build.index_cast(dtype, item.index), item.lower, item.upper, item.scale, item.mode)

    def _fits(self, expr: Any, dtype: str) -> bool:
        low, high = self._parent._bounds(expr)
        minimum, maximum = dt.integer_range(dtype)
        return minimum <= low and high <= maximum

    def _may_push_split(self, item: Split, dtype: str) -> bool:
        if dt.code(dtype) == dt.code(item.dtype) == "int" and dt.bits(dtype) >= dt.bits(item.dtype):
            return True  # signed arithmetic does not overflow
        return self._fits(item.index, dtype) and self._fits(item.normalized(), dtype)

    def _may_push(self, form: Sum, dtype: str) -> bool:
        if dt.code(dtype) == dt.code(form.dtype) == "int" and dt.bits(dtype) >= dt.bits(form.dtype):
            return True
        partial = Sum(form.dtype, [], 0)
        minimum, maximum = dt.integer_range(dtype)
        if not minimum <= form.base <= maximum:
            return False
        for item in form.args:
            partial = partial.plus(item, 1)
            if not self._may_push_split(item, dtype) or not self._fits(self._normalized(partial), dtype):
                return False
        return self._fits(self._normalized(form), dtype)

    def _other(self, e: Any) -> Any:
        """Nodes without a canonical form: children canonical, then the rewrite rules."""
        rewrite = self._parent._rewrite
        cls = e.__class__
        if cls is E.Select or cls is E.Call or cls is E.Let:
            return self._choice(e)
        if cls in _COMPARISONS:
            return self.comparison(e) if self._parent._is_index(e) else self._parent._data._rewrite.visit(e)
        if cls in _ARITHMETIC and not is_number(e.dtype):
            return self._parent._data._rewrite.visit(e)
        mapped = e._map_children(self._child)
        if mapped.__class__ in _RULED:
            result = rewrite.combine(mapped.__class__, mapped.a, mapped.b)
            mapped = mapped if result is None else result
        elif mapped.__class__ is E.Not:
            mapped = rewrite.negate(mapped.a)
        if rewrite.literals and dt.is_bool(mapped.dtype) and mapped.__class__ is not IntImm:
            mapped = rewrite._known(mapped)
        return mapped

    def comparison(self, e: Any) -> Any:
        """A comparison of numbers of ℤ, whatever they are made of."""
        try:
            result = self._compared(e)
        except build.DoesNotFit:
            result = self._parts(e)
        rewrite = self._parent._rewrite
        if rewrite.literals and result.__class__ is not IntImm:
            result = rewrite._known(result)
        return result

    def _compared(self, e: Any) -> Any:
        if e.__class__ is E.LT and e.a.dtype in INDEX_TYPES:
            return self._lt(e)
        mapped = self._parts(e)
        result = self._comparison(mapped)
        if result is None:
            result = self._parent._rewrite.compare(mapped.__class__, mapped.a, mapped.b)
        return mapped if result is None else result

    def _child(self, e: Any) -> Any:
        if isinstance(e, E.PrimExpr):
            return self.visit(e)
        return (
            e
            if e.is_variable or not e._fields
            else self._parent._rewrite.visit(e)
            if isinstance(e, E.Range)
            else e
        )

    def _comparison(self, e: Any) -> Any:
        """``<=``, ``>`` and ``>=`` by way of ``<``; ``==`` of canonical differences."""
        if e.a.dtype not in INDEX_TYPES:
            return None
        cls, rewrite = e.__class__, self._parent._rewrite
        if cls is E.GT:
            return self._less(e.b, e.a)
        if cls in (E.LE, E.GE):
            a, b = (e.b, e.a) if cls is E.LE else (e.a, e.b)
            less = self._less(a, b)
            return None if less is None else rewrite.negate(less)
        difference = self.visit(build.sub(e.a, e.b))
        if difference.__class__ is IntImm:
            return build.boolean((difference.value == 0) is (cls is E.EQ))
        coeff, base = self._parent._modular(difference)
        low, high = self._parent._bounds(difference)
        if low > 0 or high < 0 or (base % coeff if coeff else base):
            return build.boolean(cls is E.NE)
        form = self._form(difference)
        if form.__class__ is Sum and len(form.args) == 1 and abs(form.args[0].scale) > 1:
            # x c + b == 0 with c dividing b is x == -b / c
            only = form.args[0]
            index = Split(only.index, only.lower, only.upper, 1, only.mode).normalized()
            value = -form.base // only.scale
            return rewrite.compare(cls, index, build.number(value, index.dtype))
        return None

    def _choice(self, e: Any) -> Any:
        """Select, if_then_else and other calls: branches are canonical under their condition."""
        rewrite = self._parent._rewrite
        cls = e.__class__
        if cls is E.Select or getattr(getattr(e, "op", None), "name", "") == "tir.if_then_else":
            parts = (e.condition, e.true_value, e.false_value) if cls is E.Select else e.args
            condition = self.visit(parts[0])
            value = condition.value if condition.__class__ is E.Broadcast else condition
            if value.__class__ is IntImm:
                return self._form(parts[1] if value.value else parts[2])
            yes, no = rewrite.branches(self.visit, condition, *parts[1:], lazy=cls is not E.Select)
            if expr_deep_equal(yes, no):
                return yes
            if condition is parts[0] and yes is parts[1] and no is parts[2]:
                return e
            return E.Select(condition, yes, no) if cls is E.Select else e.replace(args=(condition, yes, no))
        if cls is E.Let:
            simplified = rewrite.visit(e)
            return simplified if simplified.__class__ is E.Let else self._form(simplified)
        if is_transparent(e):
            return rewrite.visit(e._map_children(self._child))
        return self._parent._data._rewrite.visit(e)


_COMPARISONS = frozenset((E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE))
_ARITHMETIC = frozenset((E.Min, E.Max, E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod))
_RULED = _ARITHMETIC | {E.And, E.Or}
_TABLE: dict[type, Callable[[CanonicalSimplifier, Any], Any]] = {
    E.Add: CanonicalSimplifier._add,
    E.Sub: CanonicalSimplifier._sub,
    E.Mul: CanonicalSimplifier._mul,
    E.FloorDiv: CanonicalSimplifier._floordiv,
    E.FloorMod: CanonicalSimplifier._floormod,
    E.Div: CanonicalSimplifier._truncdiv,
    E.Mod: CanonicalSimplifier._truncmod,
    E.Cast: CanonicalSimplifier._cast,
}

CanonicalSimplifier._table = _TABLE
