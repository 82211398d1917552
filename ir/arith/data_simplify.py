"""Simplification of data: integers that wrap, floats, and the indices and conditions inside of them.

Whatever bounds prove to be computed without wrapping is a number of ℤ as well, and is simplified as such if that holds for the result
too; all else sees the rules that hold for integers of every width (:mod:`.rewrite_rules`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import frexp
from typing import TYPE_CHECKING, Any, ClassVar

from .. import dtype as dt
from ..tir import expr as E
from ..tir import operators
from ..tir.effects import is_effect
from ..tir.expr import IntImm, PrimExpr
from ..tir.intrinsic.declaration import find, is_transparent
from . import build
from .const_int_bound import POS_INF, Bound, add_bounds
from .const_int_bound import negate as negate_bound
from .deep_equal import expr_deep_equal
from .domain import Domain, is_number
from .effects import HasEffect
from .pattern import RULE_TABLES
from .rewrite_simplify import BUILDERS, RewriteSimplifier

if TYPE_CHECKING:
    from .analyzer import Analyzer


class DataArithmetic:
    """The parts of an analyzer for data; variables, conditions and bindings are the analyzer's.

    Args:
        index: the analyzer, whose own parts take integers for numbers of ℤ.
    """

    def __init__(self, index: Analyzer) -> None:
        self._index = index
        self._bounds: Any = index._bounds.of_data
        self._modular: Any = index._modular.of_data
        self._rewrite = DataSimplifier(self, index)
        self._data = self
        self._is_index = index._is_index
        self._branching = index._branching
        self._mark_data = index._mark_data

    def can_prove(self, expr: Any) -> bool:
        """Whether a condition holds for all values that the variables can have."""
        return self._index.can_prove(expr)

    def _below(self, a: Any, b: Any) -> bool:
        high = self._bounds(a)[1]
        return bool(high < POS_INF and high < self._bounds(b)[0])

    def _prove_ge(self, expr: Any, value: int) -> bool:
        return bool(self._bounds(expr)[0] >= value)

    def _prove_lt(self, expr: Any, value: int) -> bool:
        return bool(self._bounds(expr)[1] < min(value, POS_INF))  # numbers of uint64 may lie beyond

    def _prove_zero(self, expr: Any) -> bool:
        return build.is_const(self._rewrite.visit(expr), 0)


class DataSimplifier(RewriteSimplifier):
    """Applies rules to data; the parts that are index arithmetic go to the analyzer's other simplifiers."""

    domain: ClassVar[Domain] = Domain.WRAPPING

    def __init__(self, parent: DataArithmetic, index: Analyzer) -> None:
        self._parent: Any = parent
        self._analyzer = index
        self.memo: dict[int, tuple[Any, Any]] = {}
        self.loading: dict[int, tuple[Any, bool]] = {}
        self._depth = 0

    @property
    def substitutions(self) -> dict[Any, Any]:  # type: ignore[override]
        """What variables are bound to."""
        return self._analyzer._rewrite.substitutions

    @property
    def literals(self) -> list[Any]:  # type: ignore[override]
        """Conditions known to hold."""
        return self._analyzer._rewrite.literals

    @property
    def knowing_branches(self) -> bool:  # type: ignore[override]
        """Simplify each side of a connective knowing the other."""
        return self._analyzer._rewrite.knowing_branches

    # ---- numbers of ℤ among data --------------------------------------------------------------------------------

    def _binary(self, e: Any) -> Any:
        exact = self._parent._bounds.exact
        if is_number(e.dtype) and exact(e):
            result = self._analyzer._as_number(e)
            if exact(result):
                return result
        return self.arithmetic(e)

    def _compare(self, e: Any) -> Any:
        exact = self._parent._bounds.exact
        if is_number(e.a.dtype) and exact(e):
            result = self._analyzer._as_comparison_of_numbers(e)
            if exact(result):
                return result
        result = self.comparison(e)
        return e if self._parent._is_index.changes_meaning(e, result, exact) else result

    def _cast(self, e: Any) -> Any:
        if self._parent._is_index(e) and self._parent._bounds.exact(e):
            return self._analyzer._rewrite.visit(e)
        value = self.visit(e.value)
        if is_number(e.dtype) and self._parent._is_index.changes_meaning(
            e.value, value, self._parent._bounds.exact
        ):
            return e
        return self.converted(e, value)

    def _index_inside(self, e: Any) -> Any:
        """What stands in an index position or is a condition."""
        return self._analyzer._as_number(e) if isinstance(e, PrimExpr) else e

    def _load(self, e: Any) -> Any:
        return e._map_children(self._index_inside)

    def _condition(self, e: Any) -> Any:
        return self._index_inside(e)

    # ---- two operands -------------------------------------------------------------------------------------------

    def combine(self, cls: type, a: Any, b: Any) -> Any:
        """The simpler form of ``cls(a, b)`` for simplified operands; None when there is none."""
        if a.__class__ is IntImm and b.__class__ is IntImm:
            folded = BUILDERS[cls](a, b)
            return folded if folded.__class__ is IntImm else None
        code, _, lanes = dt.parse(a.dtype)
        if code in ("int", "uint"):
            return self._by_bounds_or_rules(cls, a, b) if lanes == 1 else self._combine_vectors(cls, a, b)
        if cls is E.And or cls is E.Or:
            return self._connective(cls, a, b)
        return self._floats_or_truths(cls, a, b)

    def _floats_or_truths(self, cls: type, a: Any, b: Any) -> Any:
        if lanes_of(a) != 1 and a.__class__ is E.Broadcast and b.__class__ is E.Broadcast:
            return E.Broadcast(self._scalar(cls, a.value, b.value), a.lanes)
        if not dt.is_float(a.dtype):
            if cls is E.EQ and expr_deep_equal(a, b):
                return build.boolean(True, a.dtype)
        else:
            if cls is E.Div and b.__class__ is E.FloatImm:
                product = by_power_of_two(a, b)
                if product is not None:
                    return product
            table = RULE_TABLES[Domain.FLOAT][cls]
            if table is not None and lanes_of(a) == 1:
                result = self._first_match(table(a.__class__, b.__class__), a, b, a.dtype)
                if result is not None:
                    return result
        made = _FLOAT_BUILDERS.get(cls, BUILDERS[cls])(a, b)
        return made if made.__class__ is not cls else None

    def _difference(self, a: Any, b: Any) -> Bound:
        """Bounds of ``a - b`` in ℤ, of the operands apart: their difference as data may wrap."""
        bounds = self._parent._bounds
        return add_bounds(bounds(a), negate_bound(bounds(b)))

    def _ramp_division(self, cls: type, a: Any, b: Any) -> Any:
        return None

    def compare(self, cls: type, a: Any, b: Any) -> Any:
        """A comparison of simplified operands; None where it stays."""
        if dt.parse(a.dtype)[0] in ("int", "uint"):
            return super().compare(cls, a, b)
        if cls is E.GT or cls is E.GE:  # the other way round, which holds for NaN as well
            cls, a, b = E.LT if cls is E.GT else E.LE, b, a
            result = self._floats_or_truths(cls, a, b)
            return BUILDERS[cls](a, b) if result is None else result
        return self._floats_or_truths(cls, a, b)

    # ---- other nodes --------------------------------------------------------------------------------------------

    def _call(self, e: Any) -> Any:
        name = getattr(e.op, "name", "")
        if name == "tir.if_then_else" or is_transparent(e):
            return super()._call(e)
        if is_effect(e):
            raise HasEffect
        args = tuple([self.visit(item) if isinstance(item, E.PrimExpr) else item for item in e.args])
        if args and all(item.__class__ is IntImm for item in args):
            record = find(e)
            if record is not None and record.elementwise and not record.dtype_first:
                built = record.build(*args)  # builders fold constants where they can
                if built.__class__ is IntImm:
                    return built
        if name in ("tir.shift_left", "tir.shift_right") and build.is_const(args[1], 0):
            return args[0]
        result = e if all(a is b for a, b in zip(args, e.args)) else e.replace(args=args)
        if name == "tir.shift_right" and dt.is_index(e.dtype):
            low, high = self._parent._bounds(result)
            if low == high:
                return build.const(low, e.dtype)
        return result


def lanes_of(expr: Any) -> int:
    """How many lanes a value has."""
    return dt.lanes(expr.dtype)


def by_power_of_two(a: Any, divisor: Any) -> Any:
    """``a / divisor`` as a product, for a power of two whose reciprocal is a normal number: then both round alike. Else None."""
    mantissa, exponent = frexp(divisor.value)
    if divisor.value == 1:
        return a
    if abs(mantissa) != 0.5 or divisor.dtype not in _LEAST_EXPONENT:
        return None
    least = _LEAST_EXPONENT[divisor.dtype]
    # divisor = ±2 ** (exponent - 1), and its reciprocal ±2 ** (1 - exponent)
    if not least <= 1 - exponent <= -least or not least <= exponent - 1 <= -least:
        return None
    return operators.multiply(a, operators.const(1.0 / divisor.value, divisor.dtype))


_LEAST_EXPONENT = {"float16": -14, "bfloat16": -126, "float32": -126, "float64": -1022}
"""Of normal numbers; the greatest is one more than its negative."""
_FLOAT_BUILDERS: dict[type, Callable[[Any, Any], Any]] = {
    E.Add: operators.add,
    E.Sub: operators.subtract,
    E.Mul: operators.multiply,
}
DataSimplifier.table = {
    **{
        cls: getattr(DataSimplifier, method.__name__, method)
        for cls, method in RewriteSimplifier.table.items()
    },
    E.BufferLoad: DataSimplifier._load,
    E.ProducerLoad: DataSimplifier._load,
}
