"""The analyzer: what is known of variables, and every question about integer expressions that builds on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..external import external
from ..tir import expr as E
from ..tir import operators
from ..tir.effects import has_effect
from ..tir.expr import IntImm, PrimExpr, Range
from ..tir.faults import may_fault
from ..tir.intrinsic.declaration import is_transparent
from . import build
from .affine import affine_form, canonical_sum
from .canonical_simplify import CanonicalSimplifier
from .comparison import CompareResult, Extension, and_of_ors, compare
from .const_int_bound import (
    NEG_INF,
    POS_INF,
    ConstIntBound,
    ConstIntBounds,
)
from .constraint_scope import Branching, ConstraintScope
from .data_simplify import DataArithmetic
from .deep_equal import expr_deep_equal
from .domain import is_number
from .effects import HasEffect, part_by_part
from .index_arithmetic import IndexArithmetic
from .knowledge import Knowledge
from .modular_set import ModularSet, ModularSets, normalized
from .polynomial_proof import PolynomialProofs
from .rewrite_simplify import RewriteSimplifier

_AFFINE = (E.Add, E.Sub, E.Mul)


class ProofStrength(IntEnum):
    """How hard :meth:`Analyzer.can_prove` tries: in the time of a simplification, or also bounding quotients by what they divide."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Analyzer(PolynomialProofs):
    """Knows ranges and values of variables, and the conditions in force; simplifies, bounds and proves.

    Results are remembered by node, so one analyzer asked many questions is much quicker than many analyzers.

    >>> from ir.tir import Var
    >>> from ir import Range
    >>> analyzer, x, y = Analyzer(), Var("x"), Var("y")
    >>> analyzer.bind(y, Range(0, 8))
    >>> analyzer.simplify((x * 8 + y) // 8).same_as(x)
    True
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_index = IndexArithmetic()
        self._branching: Branching = Branching(self)
        self._mark_data = self._is_index.mark_data
        self._bounds: Any = ConstIntBounds(self)
        self._modular: Any = ModularSets(self)
        self._rewrite: RewriteSimplifier = RewriteSimplifier(self)
        self._canonical = CanonicalSimplifier(self)
        self._data: DataArithmetic = DataArithmetic(self)
        self._strength = ProofStrength.DEFAULT
        self._parts: dict[tuple[int, str], tuple[Any, Any]] = {}
        """What became of expressions that hold calls with effects."""
        self._extensions = Extension.NoExtensions
        self._knowledge = Knowledge(self)
        self._forget = self._knowledge.forget

    # ---- what is known ------------------------------------------------------------------------------------------

    def bind(self, var: E.Var, expr: Any) -> None:
        """Say that a variable lies in a Range, or that it is an expression (which then replaces it); the newest binding holds.

        Args:
            var: the variable.
            expr: a :class:`~ir.tir.expr.Range`, an expression or an int.
        """
        self._forget()
        if isinstance(expr, Range):
            self._bind_range(var, expr)
            return
        value = self.simplify(operators.convert(expr, var.dtype) if not isinstance(expr, PrimExpr) else expr)
        self._rewrite.substitutions[var] = value
        self._bounds.variables[var] = self._bounds(value)
        self._modular.variables[var] = self._modular(value)

    def _bind_range(self, var: E.Var, domain: Range) -> None:
        low, extent = domain.min, domain.extent
        if extent.__class__ is IntImm and extent.value == 1:
            self.bind(var, low)
            return
        self._rewrite.substitutions.pop(var, None)
        self._modular.variables.pop(var, None)
        self._symbolic.pop(var, None)
        if low.__class__ is IntImm and extent.__class__ is IntImm:
            bound = (low.value, low.value + extent.value - 1)
        else:
            high = self.simplify(build.sub(operators.add(low, extent), build.const(1, extent.dtype)))
            bound = (self._bounds(low)[0], self._bounds(high)[1])
            self._symbolic[var] = (low, high)
        if var.__class__ is E.SizeVar:
            bound = (max(bound[0], 0), bound[1])
        if bound[0] <= bound[1]:
            self._bounds.variables[var] = bound
        else:
            self._bounds.variables.pop(var, None)

    def update(self, var: E.Var, info: ConstIntBound | ModularSet, override: bool = False) -> None:
        """Set the bound or modular set of a variable.

        Raises:
            IRValueError: another one is set already, and ``override`` is not.
        """
        known: dict[E.Var, tuple[int, int]]
        if isinstance(info, ConstIntBound):
            known = self._bounds.variables
            value = (max(info.min_value, NEG_INF), min(info.max_value, POS_INF))
        elif isinstance(info, ModularSet):
            known, value = self._modular.variables, normalized(info.coeff, info.base)
        else:
            raise IRTypeError(
                f"update of {var.name} takes a ConstIntBound or ModularSet, got {type(info).__name__}"
            )
        if not override and known.get(var, value) != value:
            raise IRValueError(
                f"update of {var.name}: {known[var]} is known already, not {value}; pass override=True to replace it"
            )
        self._forget()
        known[var] = value

    def constraint_scope(self, constraint: PrimExpr) -> ConstraintScope:
        """A scope, ``with analyzer.constraint_scope(x < 8):``, in which the condition holds."""
        return ConstraintScope(self, constraint)

    def enter_constraint(self, constraint: PrimExpr) -> Any:
        """Let a condition hold from now on; returns a function that ends it."""
        scope = ConstraintScope(self, constraint)
        scope.__enter__()
        return lambda: scope.__exit__(None, None, None)

    @property
    def enabled_extensions(self) -> Extension:
        """The extra work on conditions that is done; assign to change it."""
        return self._extensions

    @enabled_extensions.setter
    def enabled_extensions(self, flags: Extension | int) -> None:
        self._extensions = Extension(flags)
        self._rewrite.knowing_branches = bool(self._extensions & Extension.ApplyConstraintsToBooleanBranches)
        self._forget()

    # ---- simplification -----------------------------------------------------------------------------------------

    # docs/semantics.md says which integers are numbers of ℤ and which are data. The simplifiers decide it for conditions; for
    # expressions of integers it depends on where they stand, which only the caller knows.

    def rewrite_simplify(self, expr: Any) -> Any:
        """The expression after the rewrite rules (:mod:`ir.arith.rewrite_rules`)."""
        try:
            return (self._data if self._holds_data(expr) else self)._rewrite(expr)
        except HasEffect:
            return self._part_by_part(expr, self.rewrite_simplify)

    def canonical_simplify(self, expr: Any) -> Any:
        """The expression in canonical form (:mod:`ir.arith.canonical_simplify`)."""
        try:
            return self._data._rewrite.visit(expr) if self._holds_data(expr) else self._canonical.visit(expr)
        except HasEffect:
            return self._part_by_part(expr, self.canonical_simplify)

    def simplify(self, expr: Any, steps: int = 2) -> Any:
        """Rewrite rules, then canonical form, alternately for ``steps`` steps.

        Sums, products and quotients of index variables are numbers of ℤ, and so are conditions on them; what holds data (loads, results of
        calls) wraps. Of what is stored, passed or bound as data :meth:`simplify_data` is to be asked, of indices that
        hold data :meth:`simplify_index`.

        Returns the expression itself when nothing became simpler. Plain Python numbers become constants.
        """
        cls = expr.__class__
        if cls is IntImm or cls is E.FloatImm:
            return expr
        if cls is E.Var or cls is E.SizeVar:
            return self._rewrite.substitutions.get(expr, expr)
        if not isinstance(expr, PrimExpr) or cls is E.IterVar:
            expr = operators.convert(expr)
        result = self._affine(expr) if cls in _AFFINE and steps > 1 else None
        if result is not None:
            return expr if expr_deep_equal(result, expr) else result
        if self._holds_data(expr):
            return self.simplify_data(expr)
        return self._simplified(expr, steps, self.simplify)

    def simplify_index(self, expr: Any) -> Any:
        """An integer expression in an index position: arithmetic of ℤ, with loads and other data as its atoms."""
        return self._simplified(expr, 2, self.simplify_index) if isinstance(expr, PrimExpr) else expr

    def simplify_data(self, expr: Any) -> Any:
        """A value that is stored, passed to a call, or bound by a let to data: integers wrap, unless bounds prove that they do not.

        >>> from ir.tir import Var
        >>> analyzer, x = Analyzer(), Var("x")
        >>> analyzer.simplify((x * 8) // 8), analyzer.simplify_data((x * 8) // 8)
        (x, x * 8 // 8)
        """
        try:
            result = self._data._rewrite(expr)
        except HasEffect:
            return self._part_by_part(expr, self.simplify_data)
        return expr if result is not expr and expr_deep_equal(result, expr) else result

    def is_index(self, expr: Any) -> bool:
        """Whether an expression is made of index variables and constants alone: arithmetic of ℤ, or a condition on such."""
        return self._is_index(expr)

    def changes_meaning(self, before: Any, after: Any) -> bool:
        """Whether data that may wrap has become index arithmetic (see :meth:`.IndexArithmetic.changes_meaning`)."""
        return self._is_index.changes_meaning(before, after, self._data._bounds.exact)

    def is_exact(self, expr: Any) -> bool:
        """Whether no operation of an integer expression can wrap, down to its atoms: data is then the number of ℤ that an index is."""
        return bool(self._data._bounds.exact(expr))

    def mark_data(self, var: E.Var) -> None:
        """Say that a variable holds data: a let has bound it to what is no index arithmetic."""
        self._is_index.mark_data(var)
        self._forget()

    def _holds_data(self, expr: Any) -> bool:
        """Whether an integer expression is data as a whole, not knowing where it stands."""
        return isinstance(expr, PrimExpr) and is_number(expr.dtype) and not self._is_index(expr)

    def _simplified(self, expr: Any, steps: int, each: Callable[[Any], Any]) -> Any:
        """The expression in ``steps`` steps; ``each`` simplifies what stands around a call with effects."""
        try:
            result = self._in_steps(expr, steps)
        except HasEffect:
            return self._part_by_part(expr, each)
        if self._extensions & Extension.ConvertBooleanToAndOfOrs and result.__class__ in (E.And, E.Or):
            if not may_fault(result):  # what is on the right may be evaluated although the left decides
                result = self._rewrite(and_of_ors(result))
        return expr if result is not expr and expr_deep_equal(result, expr) else result

    def _in_steps(self, expr: Any, steps: int) -> Any:
        result = expr
        for step in range(steps):
            before = result
            result = self._canonical.visit(result) if step % 2 else self._rewrite(result)
            if result.__class__ is IntImm or (result is before and step):
                break
        return result

    def _as_number(self, expr: Any) -> Any:
        """What data knows to be a number of ℤ, or a condition, simplified as such; raises HasEffect."""
        result = self._affine(expr) if expr.__class__ in _AFFINE else None
        return self._in_steps(expr, 2) if result is None else result

    def _as_comparison_of_numbers(self, condition: Any) -> Any:
        """A comparison of data of which it is known that nothing wraps; raises HasEffect."""
        result = self._rewrite.comparison(condition)
        return self._canonical.comparison(result) if result.__class__ in _COMPARISONS else result

    def _part_by_part(self, expr: Any, simplify: Callable[[Any], Any]) -> Any:
        """An expression that holds a call with effects, its operands simplified; remembered as the simplifiers do."""
        key = (id(expr), simplify.__name__)
        found = self._parts.get(key)
        if found is None:
            # With such a call in it, arithmetic is data; what loads and choices hold stands in positions of its own.
            in_data = expr.__class__ not in _POSITIONS and not dt.is_bool(expr.dtype)
            each = self.simplify_data if in_data or expr.__class__ in _COMPARISONS else simplify
            found = self._parts[key] = (expr, part_by_part(expr, each))
        return found[1]

    def _affine(self, expr: PrimExpr) -> PrimExpr | None:
        """The canonical form of a sum of multiples of variables of which nothing else is known."""
        if expr.dtype not in ("int32", "int64") or id(expr) in self._rewrite.memo:
            return None
        form = affine_form(expr)
        if form is None or not self._rewrite.substitutions.keys().isdisjoint(form.terms):
            return None
        return canonical_sum(form, expr.dtype)

    # ---- analysis -----------------------------------------------------------------------------------------------

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """Constant bounds of an integer expression."""
        expr = operators.convert(expr) if not isinstance(expr, PrimExpr) else expr
        return ConstIntBound(*(self._data if self._holds_data(expr) else self)._bounds(expr))

    def const_int_bound_is_bound(self, var: E.Var) -> bool:
        """Whether bounds of the variable have been set."""
        return var in self._bounds.variables

    def modular_set(self, expr: Any) -> ModularSet:
        """The modular set of an integer expression."""
        expr = operators.convert(expr) if not isinstance(expr, PrimExpr) else expr
        return ModularSet(*(self._data if self._holds_data(expr) else self)._modular(expr))

    def int_set(self, expr: PrimExpr, dom_map: dict[E.Var, Any] | None = None) -> Any:
        """The set of values of an expression while variables run over ``dom_map`` (IntSets, Ranges or IterVar domains)."""
        if dom_map is None:
            interval = external("interval")
            dom_map = {var: interval(*pair) for var, pair in self._symbolic.items()}
            for var, (low, high) in self._bounds.variables.items():
                if var not in dom_map and low > NEG_INF and high < POS_INF:
                    dom_map[var] = interval(build.const(low, var.dtype), build.const(high, var.dtype))
        return external("eval_set")(expr, dom_map, self)

    # ---- proofs -------------------------------------------------------------------------------------------------

    def can_prove(self, expr: Any, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """Whether a condition holds for all values that the variables can have (False: it could not be proved).

        Args:
            expr: the condition.
            strength: ``SYMBOLIC_BOUND`` also compares quotients of symbolic extents, such as ``x // 4 < (n + 3) // 4`` for x below n.
        """
        if isinstance(expr, bool):
            return expr
        if expr.__class__ is IntImm:
            return bool(expr.value)
        before, self._strength = self._strength, strength
        try:
            result = self._rewrite.visit(expr)
            if result.__class__ is IntImm:
                return bool(result.value)
            return self._prove(self._canonical.visit(result))
        except HasEffect:
            return False
        finally:
            self._strength = before

    def _prove(self, condition: Any) -> bool:
        cls = condition.__class__
        if cls is IntImm:
            return bool(condition.value)
        if cls is E.And:
            return self._prove(condition.a) and self._prove(condition.b)
        if cls is E.Or:
            return self._prove(condition.a) or self._prove(condition.b)
        if is_transparent(condition):
            return self.can_prove(condition.args[0], self._strength)
        if cls in _COMPARISONS and not self._compares_numbers(condition):
            return False
        if cls is E.LT:
            return self._prove_ge(build.sub(condition.b, condition.a), 1)
        if cls is E.LE:
            return self._prove_ge(build.sub(condition.b, condition.a), 0)
        if cls is E.GT:
            return self._prove_ge(build.sub(condition.a, condition.b), 1)
        if cls is E.GE:
            return self._prove_ge(build.sub(condition.a, condition.b), 0)
        if cls is E.NE:
            difference = build.sub(condition.a, condition.b)
            return self._prove_ge(difference, 1) or self._prove_ge(build.sub(condition.b, condition.a), 1)
        return False

    def _compares_numbers(self, condition: Any) -> bool:
        """Whether a comparison is one of numbers of ℤ: index arithmetic, or data that cannot wrap."""
        return dt.is_index(condition.a.dtype) and (
            self._is_index(condition) or self._data._bounds.exact(condition)
        )

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether two expressions have the same value always; int32 and int64 ones stand in index positions."""
        if lhs is rhs:
            return isinstance(lhs, int) or not has_effect(lhs)
        if isinstance(lhs, int) and isinstance(rhs, int):
            return lhs == rhs
        if isinstance(lhs, int) or isinstance(rhs, int):
            lhs, rhs = operators.operands(lhs, rhs)
        if lhs.__class__ is IntImm and rhs.__class__ is IntImm:
            return bool(lhs.value == rhs.value)
        if expr_deep_equal(lhs, rhs):
            return not has_effect(lhs)
        if lhs.dtype != rhs.dtype:
            if not (dt.is_integral(lhs.dtype) and dt.is_integral(rhs.dtype)):
                return False
            lhs, rhs = operators.match_dtypes(lhs, rhs)
        if not dt.is_integral(lhs.dtype) or dt.is_bool(lhs.dtype):
            left, right = self.simplify(lhs), self.simplify(rhs)
            return expr_deep_equal(left, right) and not has_effect(left)
        if not is_number(lhs.dtype):
            return build.is_const(self.simplify_data(build.sub(lhs, rhs)), 0)
        try:
            difference = self._canonical.visit(build.sub(lhs, rhs))
        except HasEffect:
            return False
        if difference.__class__ is IntImm:
            return bool(difference.value == 0)
        return build.is_const(self.simplify_index(build.sub(lhs, rhs)), 0)

    def try_compare(self, lhs: Any, rhs: Any, propagate_inequalities: bool = True) -> CompareResult:
        """How two expressions compare, as far as it can be proved.

        Args:
            lhs: an integer expression or number.
            rhs: likewise.
            propagate_inequalities: chain the known inequalities, ``a < b`` and ``b < c`` to ``a < c``.
        """
        before = self._extensions
        if propagate_inequalities:
            self._extensions = before | Extension.TransitivelyProveInequalities
        try:
            return compare(self, lhs, rhs)
        finally:
            self._extensions = before

    # The questions that conditions of rewrite rules ask. Bounds answer nearly all; the rest goes to polynomials.

    def _prove_ge(self, expr: Any, value: int) -> bool:
        low = self._bounds(expr)[0]
        if low >= value:
            return True
        if expr.__class__ is IntImm or not (
            self._symbolic or self._facts or self._strength or _has_product(expr)
        ):
            return False
        return self._prove_polynomial(build.sub(expr, build.const(value, expr.dtype)))

    def _prove_lt(self, expr: Any, value: int) -> bool:
        if self._bounds(expr)[1] < value:
            return True
        if expr.__class__ is IntImm or not (self._symbolic or self._facts):
            return False
        return self._prove_polynomial(build.sub(build.const(value - 1, expr.dtype), expr))

    def _prove_zero(self, expr: Any) -> bool:
        return build.is_const(self._rewrite.visit(expr), 0)

    def _below(self, a: Any, b: Any) -> bool:
        """``a < b``, for a symbolic b."""
        if self._bounds(a)[1] < self._bounds(b)[0]:
            return True
        return self._prove_polynomial(build.sub(build.sub(b, a), build.const(1, a.dtype)))


_COMPARISONS = frozenset((E.LT, E.LE, E.GT, E.GE, E.EQ, E.NE))
_POSITIONS = frozenset((E.BufferLoad, E.ProducerLoad, E.Select))


def _has_product(expr: Any) -> bool:
    cls = expr.__class__
    if cls is E.Mul:
        return expr.b.__class__ is not IntImm or _has_product(expr.a)
    return cls in (E.Add, E.Sub) and (_has_product(expr.a) or _has_product(expr.b))


@contextmanager
def constraints(analyzer: Analyzer, *conditions: PrimExpr) -> Iterator[Analyzer]:
    """A scope in which several conditions hold."""
    scopes = [analyzer.constraint_scope(item) for item in conditions]
    for scope in scopes:
        scope.__enter__()
    try:
        yield analyzer
    finally:
        for scope in reversed(scopes):
            scope.__exit__(None, None, None)
