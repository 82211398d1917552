"""Simplification by rewrite rules: operands first, then bounds, then the first rule of the operator that matches.

:class:`RewriteSimplifier` takes integers for numbers of ℤ, as they are in index positions, and gives what is data to its sister
:class:`.data_simplify.DataSimplifier`, which sees rules of integers that wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from itertools import takewhile
from typing import Any, ClassVar

from .. import dtype as dt
from ..expr import GlobalVar
from ..op import Op
from ..tir import expr as E
from ..tir import operators
from ..tir.buffer import Buffer
from ..tir.expr import IntImm
from ..tir.faults import may_fault
from ..tir.intrinsic.declaration import is_transparent
from ..tir.stmt_functor import substitute
from . import build
from .const_int_bound import NEG_INF, POS_INF, add_bounds
from .const_int_bound import negate as negate_bound
from .deep_equal import expr_deep_equal
from .domain import INDEX_TYPES, Domain, is_number
from .parts import AnalyzerParts
from .pattern import RULE_TABLES, Rule

_MAX_DEPTH = 5
"""How often a replacement is simplified again before its rule is refused."""
BUILDERS: dict[type, Callable[[Any, Any], Any]] = {
    E.Add: build.add,
    E.Sub: build.sub,
    E.Mul: build.mul,
    E.Div: lambda a, b: operators.div(a, b) if dt.is_float(a.dtype) else build.truncdiv(a, b),
    E.Mod: build.truncmod,
    E.FloorDiv: build.floordiv,
    E.FloorMod: build.floormod,
    E.Min: build.minimum,
    E.Max: build.maximum,
    E.EQ: lambda a, b: build.compare(E.EQ, a, b),
    E.NE: lambda a, b: build.compare(E.NE, a, b),
    E.LT: lambda a, b: build.compare(E.LT, a, b),
    E.LE: lambda a, b: build.compare(E.LE, a, b),
    E.GT: lambda a, b: build.compare(E.GT, a, b),
    E.GE: lambda a, b: build.compare(E.GE, a, b),
    E.And: build.logical_and,
    E.Or: build.logical_or,
}


def _clauses(cls: Any, e: Any) -> Iterator[Any]:
    """The conditions that connectives of one kind join."""
    if not isinstance(e, cls):
        yield e
        return
    yield from _clauses(cls, e.a)
    yield from _clauses(cls, e.b)


class RewriteSimplifier:
    """Applies the rules for one analyzer; results are remembered until a binding or constraint changes."""

    domain: ClassVar[Domain] = Domain.INDEX
    """What integers are taken for."""
    table: ClassVar[dict[type, Callable[[Any, Any], Any]]]
    """The method for each class of node; others keep their class, with children simplified."""

    def __init__(self, parent: AnalyzerParts) -> None:
        self._parent = parent
        self.substitutions: dict[Any, Any] = {}
        self.literals: list[Any] = []
        """Conditions known to hold."""
        self.memo: dict[int, tuple[Any, Any]] = {}
        self.loading: dict[int, tuple[Any, bool]] = {}
        self._depth = 0
        self.knowing_branches = False
        """Simplify each side of a connective knowing the other."""

    def __call__(self, expr: Any) -> Any:
        """Visited, and once more where that changed something: replacements may have brought rules together."""
        result = self.visit(expr)
        return result if result is expr or result.__class__ is IntImm else self.visit(result)

    def visit(self, e: Any) -> Any:
        """The simplified form of an expression."""
        cls = e.__class__
        if cls is IntImm or cls is E.FloatImm:
            return e
        if cls is E.Var or cls is E.SizeVar:
            return self.substitutions.get(e, e) if self.substitutions else e
        found = self.memo.get(id(e))
        if found is not None:
            return found[1]
        method = self.table.get(cls)
        result = e._map_children(self.visit) if method is None else method(self, e)
        if self.literals and result.__class__ in _CONDITIONS:
            result = self._known(result)
        self.memo[id(e)] = (e, result)
        return result

    # ---- two operands -------------------------------------------------------------------------------------------

    def _binary(self, e: Any) -> Any:
        return self.arithmetic(e) if is_number(e.dtype) else self._parent._data._rewrite.visit(e)

    def arithmetic(self, e: Any) -> Any:
        """An operation of the numbers that this simplifier is for."""
        a, b = self.visit(e.a), self.visit(e.b)
        cls = e.__class__
        result = self.combine(cls, a, b)
        if result is not None:
            return result
        same = a is e.a and b is e.b
        if same and a.__class__ is not IntImm and b.__class__ is not IntImm:
            return e
        built = BUILDERS[cls](a, b)  # drops neutral operands, as in x * 1
        return e if same and built.__class__ is cls else built

    def _logical(self, e: Any) -> Any:
        if not self.knowing_branches or dt.lanes(e.dtype) != 1:
            return self.arithmetic(e)
        clauses = [self.visit(clause) for clause in _clauses(e.__class__, e)]
        for index in reversed(range(len(clauses))):
            if self._parent._branching.is_spent:
                break
            # a and b: b matters only where a holds; a or b: only where a fails. The other way round a may be why b is defined, or
            # what stands between them.
            early = list(takewhile(lambda clause: not may_fault(clause), clauses[index:]))
            others = clauses[:index] + early[1:]
            facts = others if e.__class__ is E.And else [self.negate(other) for other in others]
            clauses[index] = self._parent._branching.visit(self.visit, clauses[index], *facts)
        return reduce(partial(self._either, e.__class__), clauses)

    def combine(self, cls: type, a: Any, b: Any) -> Any:
        """The simpler form of ``cls(a, b)`` for simplified operands; None when there is none."""
        if a.__class__ is IntImm and b.__class__ is IntImm:
            folded = BUILDERS[cls](a, b)
            return folded if folded.__class__ is IntImm else None
        dtype = a.dtype
        if dtype in INDEX_TYPES:
            return self._by_bounds_or_rules(cls, a, b)
        if is_number(dtype):
            return self._combine_vectors(cls, a, b)
        if cls is E.And or cls is E.Or:
            return self._connective(cls, a, b)
        return self._parent._data._rewrite.combine(cls, a, b)

    def _by_bounds_or_rules(self, cls: type, a: Any, b: Any) -> Any:
        quick = _QUICK.get(cls)
        if quick is not None:
            result = quick(self, a, b)
            if result is not None:
                return result
        table = RULE_TABLES[self.domain][cls]
        return None if table is None else self._first_match(table(a.__class__, b.__class__), a, b, a.dtype)

    def _first_match(self, rules: tuple[Rule, ...], a: Any, b: Any, dtype: str) -> Any:
        parent = self._parent
        for rule in rules:
            if rule.again and self._depth >= _MAX_DEPTH:
                continue
            result = rule.apply(parent, a, b, dtype)
            if result is not None:
                return self.again(result) if rule.again else result
        return None

    def _connective(self, cls: type, a: Any, b: Any) -> Any:
        both = cls is E.And
        for left, right in ((a, b), (b, a)):
            value = left.value if left.__class__ is E.Broadcast else left
            if value.__class__ is IntImm:
                return right if bool(value.value) is both else left
        if dt.lanes(a.dtype) != 1:
            if a.__class__ is E.Broadcast and b.__class__ is E.Broadcast:
                return E.Broadcast(self._scalar(cls, a.value, b.value), a.lanes)
            return a if expr_deep_equal(a, b) else None
        # Rules with comparisons in them hold for some of the numbers that are compared.
        domain, dtype = Domain.BOOL, a.dtype
        if a.__class__ in _COMPARISONS:
            dtype = a.a.dtype
            if dt.is_float(dtype):
                domain = Domain.FLOAT
            elif dt.is_integral(dtype):
                is_index = self._parent._is_index
                domain = Domain.INDEX if is_index(a) and is_index(b) else Domain.WRAPPING
        table = RULE_TABLES[domain][cls]
        if table is None:
            return None
        result = self._first_match(table(a.__class__, b.__class__), a, b, dtype)
        if result is not None and result.dtype != "bool":
            result = build.boolean(bool(result.value))
        return result

    def again(self, expr: Any) -> Any:
        """Simplify a replacement, to a bounded depth."""
        self._depth += 1
        try:
            return self.visit(expr)
        finally:
            self._depth -= 1

    def _scalar(self, cls: type, a: Any, b: Any) -> Any:
        result = self.combine(cls, a, b)
        return BUILDERS[cls](a, b) if result is None else result

    # ---- what bounds decide -------------------------------------------------------------------------------------

    def _difference(self, a: Any, b: Any) -> tuple[int, int]:
        """Bounds of ``a - b``: of the operands apart, and if that leaves the sign open, of the simplified difference."""
        bounds = self._parent._bounds
        low, high = add_bounds(bounds(a), negate_bound(bounds(b)))
        if low > 0 or high < 0 or a.__class__ is IntImm or b.__class__ is IntImm or self._depth >= _MAX_DEPTH:
            return low, high
        d_low, d_high = bounds(self.again(build.sub(a, b)))
        return max(low, d_low), min(high, d_high)

    def _quick_floordiv(self, a: Any, b: Any) -> Any:
        bounds = self._parent._bounds
        if b.__class__ is IntImm:
            if b.value == 0:
                return None
            if b.value == 1:
                return a
            low, high = bounds(a)
            if low > NEG_INF and high < POS_INF and low // b.value == high // b.value:
                return build.const(low // b.value, a.dtype)
        elif bounds(a)[0] >= 0 and self._parent._below(a, b):
            return build.const(0, a.dtype)
        return None

    def _quick_floormod(self, a: Any, b: Any) -> Any:
        bounds = self._parent._bounds
        if b.__class__ is IntImm:
            divisor = b.value
            if divisor == 0:
                return None
            if divisor in (1, -1):
                return build.const(0, a.dtype)
            low, high = bounds(a)
            if divisor > 0 and low > NEG_INF and high < POS_INF:
                quotient = low // divisor
                if quotient == high // divisor == 0:
                    return a
            coeff, base = self._parent._modular(a)
            if coeff % divisor == 0 and divisor > 0:
                return build.const(base % divisor, a.dtype)
            if divisor > 0 and low > NEG_INF and high < POS_INF and quotient == high // divisor:
                shift = build.const(-quotient * divisor, a.dtype)
                if shift.value == -quotient * divisor or self.domain is Domain.WRAPPING:
                    return self._scalar(E.Add, a, shift)
        elif bounds(a)[0] >= 0 and self._parent._below(a, b):
            return a
        return None

    def _quick_truncmod(self, a: Any, b: Any) -> Any:
        if b.__class__ is IntImm and b.value:
            coeff, base = self._parent._modular(a)
            if coeff % b.value == 0 and base % b.value == 0:
                return build.const(0, a.dtype)
        return None

    def _quick_extreme(self, cls: type, a: Any, b: Any) -> Any:
        if a is b or expr_deep_equal(a, b):
            return a
        low, high = self._difference(a, b)
        if high <= 0:
            return a if cls is E.Min else b
        if low >= 0:
            return b if cls is E.Min else a
        return None

    def _quick_min(self, a: Any, b: Any) -> Any:
        return self._quick_extreme(E.Min, a, b)

    def _quick_max(self, a: Any, b: Any) -> Any:
        return self._quick_extreme(E.Max, a, b)

    def _quick_eq(self, a: Any, b: Any) -> Any:
        if a is b:
            return build.boolean(True)
        low, high = self._difference(a, b)
        if low == high == 0:
            return build.boolean(True)
        if low > 0 or high < 0:
            return build.boolean(False)
        (c1, b1), (c2, b2) = self._parent._modular(a), self._parent._modular(b)
        from math import gcd

        step = gcd(c1, c2)
        if step > 1 and (b1 - b2) % step:
            return build.boolean(False)
        return None

    def _quick_lt(self, a: Any, b: Any) -> Any:
        if a is b:
            return build.boolean(False)
        low, high = self._difference(a, b)
        if high < 0:
            return build.boolean(True)
        if low >= 0:
            return build.boolean(False)
        return None

    # ---- comparisons, all by way of == and < --------------------------------------------------------------------

    def _compare(self, e: Any) -> Any:
        return self.comparison(e) if self._parent._is_index(e) else self._parent._data._rewrite.visit(e)

    def comparison(self, e: Any) -> Any:
        """A comparison of the numbers that this simplifier is for."""
        a, b = self.visit(e.a), self.visit(e.b)
        result = self.compare(e.__class__, a, b)
        if result is not None:
            return result
        return e if a is e.a and b is e.b else BUILDERS[e.__class__](a, b)

    def compare(self, cls: type, a: Any, b: Any) -> Any:
        """A comparison of simplified operands: ``a <= b`` is ``not b < a``, ``a > b`` is ``b < a``; None where it stays."""
        if dt.parse(a.dtype)[0] not in ("int", "uint"):
            return self._parent._data._rewrite.compare(cls, a, b)
        if cls is E.NE:
            return self._not_equal(a, b)
        if cls is E.GT:
            return self._either(E.LT, b, a)
        if cls is E.LE:
            return self._negated(E.LT, b, a)
        if cls is E.GE:
            return self._negated(E.LT, a, b)
        return self.combine(cls, a, b)

    def _either(self, cls: type, a: Any, b: Any) -> Any:
        result = self.combine(cls, a, b)
        return BUILDERS[cls](a, b) if result is None else result

    def _negated(self, cls: type, a: Any, b: Any) -> Any:
        return self.negate(self._either(cls, a, b))

    def _not_equal(self, a: Any, b: Any) -> Any:
        """``a != b``, as ``<`` where bounds exclude one side."""
        result = self._negated(E.EQ, a, b)
        if result.__class__ is E.NE and dt.lanes(result.dtype) == 1 and result.b.__class__ is IntImm:
            low, high = self._parent._bounds(result.a)
            if low == result.b.value and low > NEG_INF:
                return build.lt(result.b, result.a)
            if high == result.b.value and high < POS_INF:
                return build.lt(result.a, result.b)
        return result

    def negate(self, a: Any) -> Any:
        """The opposite of a simplified condition, with the negation moved inwards."""
        cls = a.__class__
        if cls is IntImm:
            return build.boolean(not a.value)
        if cls is E.Broadcast:
            return E.Broadcast(self.negate(a.value), a.lanes)
        if cls is E.Not:
            return a.a
        if cls in _ORDERS and dt.is_float(a.a.dtype):
            return build.logical_not(a)  # with NaN neither this nor the opposite order holds
        if cls is E.LT:
            return build.le(a.b, a.a)
        if cls is E.LE:
            return build.lt(a.b, a.a)
        if cls is E.GT:
            return build.le(a.a, a.b)
        if cls is E.GE:
            return build.lt(a.a, a.b)
        if cls is E.EQ:
            return build.ne(a.a, a.b)
        if cls is E.NE:
            return build.eq(a.a, a.b)
        if cls is E.And:
            return self._scalar(E.Or, self.negate(a.a), self.negate(a.b))
        if cls is E.Or:
            return self._scalar(E.And, self.negate(a.a), self.negate(a.b))
        return build.logical_not(a)

    def _not(self, e: Any) -> Any:
        a = self.visit(e.a)
        return self.negate(a) if a.__class__ in _NEGATABLE else (e if a is e.a else build.logical_not(a))

    def _known(self, condition: Any) -> Any:
        """True or False where a constraint says so."""
        opposite = None
        for literal in self.literals:
            if expr_deep_equal(literal, condition):
                return build.boolean(True)
            opposite = self.negate(condition) if opposite is None else opposite
            if expr_deep_equal(literal, opposite):
                return build.boolean(False)
        return condition

    # ---- other nodes --------------------------------------------------------------------------------------------

    def branches(
        self, visit: Callable[[Any], Any], condition: Any, yes: Any, no: Any, *, lazy: bool
    ) -> tuple[Any, Any]:
        """Both sides of a choice, each visited knowing how the condition turned out.

        Where both are evaluated, as a Select's are, one that may fault is visited without: it must not fault where it is not chosen.
        What a condition over loaded data says is not worth its price: what the sides share would be visited once for each
        of all the ways to get there.
        """
        if dt.lanes(condition.dtype) != 1 or self._loads(condition):
            return visit(yes), visit(no)

        def side(value: Any, known: Any) -> Any:
            if not lazy and may_fault(value):
                return visit(value)
            return self._parent._branching.visit(visit, value, known)

        return side(yes, condition), side(no, self.negate(condition))

    def _loads(self, e: Any) -> bool:
        """Whether there is data in an expression."""
        if e.__class__ in _LOADS or not e.is_compound:
            return e.__class__ in _LOADS
        found = self.loading.get(id(e))
        if found is None:
            below: list[Any] = []
            e._visit_children(below.append)
            found = self.loading[id(e)] = (e, any(map(self._loads, below)))
        return found[1]

    def _condition(self, e: Any) -> Any:
        return self.visit(e)

    def _select(self, e: Any) -> Any:
        condition = self._condition(e.condition)
        value = condition.value if condition.__class__ is E.Broadcast else condition
        if value.__class__ is IntImm:
            return self.visit(e.true_value if value.value else e.false_value)
        yes, no = self.branches(self.visit, condition, e.true_value, e.false_value, lazy=False)
        if expr_deep_equal(yes, no):
            return yes
        if condition is e.condition and yes is e.true_value and no is e.false_value:
            return e
        return E.Select(condition, yes, no)

    def _call(self, e: Any) -> Any:
        name = getattr(e.op, "name", "")
        if name == "tir.if_then_else":
            condition = self._condition(e.args[0])
            if condition.__class__ is IntImm:
                return self.visit(e.args[1] if condition.value else e.args[2])
            yes, no = self.branches(self.visit, condition, e.args[1], e.args[2], lazy=True)
            if expr_deep_equal(yes, no):
                return yes
            if condition is e.args[0] and yes is e.args[1] and no is e.args[2]:
                return e
            return e.replace(args=(condition, yes, no))
        if is_transparent(e):
            args = (self.visit(e.args[0]),)
            return e if args[0] is e.args[0] else e.replace(args=args)
        return self._parent._data._rewrite.visit(e)

    def _cast(self, e: Any) -> Any:
        if not self._parent._is_index(e):
            return self._parent._data._rewrite.visit(e)
        value = self.visit(e.value)
        found = build.index_cast(e.dtype, value)
        return self.converted(e, value) if found.__class__ is E.Cast else found

    def converted(self, e: Any, value: Any) -> Any:
        """The cast of a simplified value."""
        folded = operators.cast(e.dtype, value)
        return e if folded.__class__ is E.Cast and value is e.value else folded

    def _let(self, e: Any) -> Any:
        is_index = is_number(e.value.dtype) and self._parent._is_index(e.value)
        value = (self._parent if is_index else self._parent._data)._rewrite.visit(e.value)
        if not is_index:
            self._parent._mark_data(e.var)
            exact = self._parent._data._bounds.exact
            if self._parent._is_index.changes_meaning(e.value, value, exact):
                value = e.value
        if value.__class__ in (IntImm, E.Var, E.SizeVar) and e.var not in self.substitutions:
            return self.visit(substitute(e.body, {e.var: value}))
        body = self.visit(e.body)
        return e if value is e.value and body is e.body else E.Let(e.var, value, body)

    def _ramp(self, e: Any) -> Any:
        base, stride = self.visit(e.base), self.visit(e.stride)
        if build.is_const(stride, 0):
            return E.Broadcast(base, e.lanes)
        return e if base is e.base and stride is e.stride else E.Ramp(base, stride, e.lanes)

    def _same(self, e: Any) -> Any:
        return e

    # ---- vectors ------------------------------------------------------------------------------------------------

    def _combine_vectors(self, cls: type, a: Any, b: Any) -> Any:
        """Arithmetic of ramps and broadcasts is arithmetic of their bases and strides."""
        if a.__class__ is E.Broadcast and b.__class__ is E.Broadcast:
            return E.Broadcast(self._scalar(cls, a.value, b.value), a.lanes)
        if cls in (E.Add, E.Sub):
            return self._vector_sum(cls, a, b)
        if cls is E.Mul:
            if a.__class__ is E.Broadcast and b.__class__ is E.Ramp:
                a, b = b, a
            if a.__class__ is E.Ramp and b.__class__ is E.Broadcast:
                return self._ramp_of(
                    self._scalar(cls, a.base, b.value), self._scalar(cls, a.stride, b.value), a.lanes
                )
        if cls in (E.FloorDiv, E.FloorMod) and a.__class__ is E.Ramp and b.__class__ is E.Broadcast:
            return self._ramp_division(cls, a, b)
        if cls in (E.LT, E.EQ):
            low, high = add_bounds(self._parent._bounds(a), negate_bound(self._parent._bounds(b)))
            if high < 0 or low > 0 or (low >= 0 and cls is E.LT):
                return build.boolean(cls is E.LT and high < 0, a.dtype)
        return None

    def _ramp_of(self, base: Any, stride: Any, lanes: int) -> Any:
        return E.Broadcast(base, lanes) if build.is_const(stride, 0) else E.Ramp(base, stride, lanes)

    def _vector_sum(self, cls: type, a: Any, b: Any) -> Any:
        if a.__class__ is E.Ramp and b.__class__ is E.Ramp:
            return self._ramp_of(
                self._scalar(cls, a.base, b.base), self._scalar(cls, a.stride, b.stride), a.lanes
            )
        if a.__class__ is E.Ramp and b.__class__ is E.Broadcast:
            return E.Ramp(self._scalar(cls, a.base, b.value), a.stride, a.lanes)
        if a.__class__ is E.Broadcast and b.__class__ is E.Ramp:
            stride = (
                b.stride if cls is E.Add else self._scalar(E.Sub, build.const(0, b.stride.dtype), b.stride)
            )
            return E.Ramp(self._scalar(cls, a.value, b.base), stride, b.lanes)
        if build.is_const(b, 0):
            return a
        if cls is E.Add and build.is_const(a, 0):
            return b
        return None

    def _ramp_division(self, cls: type, a: Any, b: Any) -> Any:
        if a.stride.__class__ is not IntImm or b.value.__class__ is not IntImm or b.value.value <= 0:
            return None
        stride, divisor = a.stride.value, b.value.value
        if stride % divisor == 0:
            # (b + i s) // c = b // c + i (s / c);  (b + i s) % c = b % c
            base = self._scalar(cls, a.base, b.value)
            if cls is E.FloorMod:
                return E.Broadcast(base, a.lanes)
            return self._ramp_of(base, build.const(stride // divisor, a.stride.dtype), a.lanes)
        coeff, base = self._parent._modular(a.base)
        if coeff % divisor == 0:
            first = base % divisor
            last = first + (a.lanes - 1) * stride
            if 0 <= last < divisor:  # all lanes lie in one period
                inner = self._scalar(cls, a.base, b.value)
                return E.Broadcast(inner, a.lanes) if cls is E.FloorDiv else E.Ramp(inner, a.stride, a.lanes)
        return None


RewriteSimplifier.table = {
    **{cls: RewriteSimplifier._binary for cls in BUILDERS},
    **{cls: RewriteSimplifier._compare for cls in (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)},
    E.And: RewriteSimplifier._logical,
    E.Or: RewriteSimplifier._logical,
    E.Not: RewriteSimplifier._not,
    E.Select: RewriteSimplifier._select,
    E.Call: RewriteSimplifier._call,
    E.Cast: RewriteSimplifier._cast,
    E.Let: RewriteSimplifier._let,
    E.Ramp: RewriteSimplifier._ramp,
    E.StringImm: RewriteSimplifier._same,
    Buffer: RewriteSimplifier._same,
    Op: RewriteSimplifier._same,
    GlobalVar: RewriteSimplifier._same,
}
_QUICK: dict[type, Callable[[RewriteSimplifier, Any, Any], Any]] = {
    E.FloorDiv: RewriteSimplifier._quick_floordiv,
    E.FloorMod: RewriteSimplifier._quick_floormod,
    E.Mod: RewriteSimplifier._quick_truncmod,
    E.Min: RewriteSimplifier._quick_min,
    E.Max: RewriteSimplifier._quick_max,
    E.EQ: RewriteSimplifier._quick_eq,
    E.LT: RewriteSimplifier._quick_lt,
}
_LOADS = frozenset((E.BufferLoad, E.ProducerLoad))
_ORDERS = frozenset((E.LT, E.LE, E.GT, E.GE))
_COMPARISONS = _ORDERS | {E.EQ, E.NE}
_CONDITIONS = _COMPARISONS | {E.And, E.Or, E.Not}
_NEGATABLE = _CONDITIONS | {IntImm, E.Broadcast}
