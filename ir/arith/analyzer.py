"""The analyzer: what is known of variables, and every question about integer expressions that builds on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from itertools import combinations
from typing import Any

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..external import external
from ..tir import expr as E
from ..tir import operators
from ..tir.expr import IntImm, PrimExpr, Range
from . import build
from .affine import affine_form, canonical_sum
from .canonical_simplify import CanonicalSimplifier
from .comparison import CompareResult, Extension, and_of_ors, compare
from .const_int_bound import (
    NEG_INF,
    POS_INF,
    Bound,
    ConstIntBound,
    ConstIntBounds,
    add_bounds,
    intersect,
    multiply_bounds,
)
from .deep_equal import expr_deep_equal
from .effects import HasEffect, has_effect, part_by_part
from .modular_set import Modular, ModularSet, ModularSets, normalized
from .modular_set import intersect as intersect_modular
from .polynomial import Atoms, Polynomial, TooLarge, coefficient_of, plus, quotient_of, replace_atom, times
from .rewrite_simplify import RewriteSimplifier

_AFFINE = (E.Add, E.Sub, E.Mul)


class ProofStrength(IntEnum):
    """How hard :meth:`Analyzer.can_prove` tries: in the time of a simplification, or also bounding quotients by what they divide."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Analyzer:
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
        self._bounds = ConstIntBounds(self)
        self._modular = ModularSets(self)
        self._rewrite = RewriteSimplifier(self)
        self._canonical = CanonicalSimplifier(self)
        self._symbolic: dict[Any, tuple[Any, Any]] = {}
        """(smallest, largest) value of variables whose range is symbolic."""
        self._facts: list[Any] = []
        """Expressions known to be at least zero."""
        self._proving = 0
        self._strength = ProofStrength.DEFAULT
        self._parts: dict[tuple[int, str], tuple[Any, Any]] = {}
        """What became of expressions that hold calls with effects."""
        self._extensions = Extension.NoExtensions

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

    def _forget(self) -> None:
        self._bounds.memo, self._modular.memo = {}, {}
        self._rewrite.memo, self._canonical.memo, self._rewrite.loading, self._parts = {}, {}, {}, {}

    def constraint_scope(self, constraint: PrimExpr) -> _ConstraintScope:
        """A scope, ``with analyzer.constraint_scope(x < 8):``, in which the condition holds."""
        return _ConstraintScope(self, constraint)

    def enter_constraint(self, constraint: PrimExpr) -> Any:
        """Let a condition hold from now on; returns a function that ends it."""
        scope = _ConstraintScope(self, constraint)
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

    def rewrite_simplify(self, expr: Any) -> Any:
        """The expression after the rewrite rules (:mod:`ir.arith.rewrite_rules`)."""
        try:
            return self._rewrite(expr)
        except HasEffect:
            return self._part_by_part(expr, self.rewrite_simplify)

    def canonical_simplify(self, expr: Any) -> Any:
        """The expression in canonical form (:mod:`ir.arith.canonical_simplify`)."""
        try:
            return self._canonical.visit(expr)
        except HasEffect:
            return self._part_by_part(expr, self.canonical_simplify)

    def _part_by_part(self, expr: Any, simplify: Callable[[Any], Any]) -> Any:
        """An expression that holds a call with effects, its operands simplified; remembered as the simplifiers do."""
        key = (id(expr), simplify.__name__)
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = (expr, part_by_part(expr, simplify))
        return found[1]

    def simplify(self, expr: Any, steps: int = 2) -> Any:
        """Rewrite rules, then canonical form, alternately for ``steps`` steps.

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
        result = expr
        try:
            for step in range(steps):
                before = result
                result = self._canonical.visit(result) if step % 2 else self._rewrite(result)
                if result.__class__ is IntImm or (result is before and step):
                    break
        except HasEffect:
            return self._part_by_part(expr, self.simplify)
        if self._extensions & Extension.ConvertBooleanToAndOfOrs and result.__class__ in (E.And, E.Or):
            result = self._rewrite(and_of_ors(result))
        return expr if result is not expr and expr_deep_equal(result, expr) else result

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
        low, high = self._bounds(operators.convert(expr) if not isinstance(expr, PrimExpr) else expr)
        return ConstIntBound(low, high)

    def const_int_bound_is_bound(self, var: E.Var) -> bool:
        """Whether bounds of the variable have been set."""
        return var in self._bounds.variables

    def modular_set(self, expr: Any) -> ModularSet:
        """The modular set of an integer expression."""
        return ModularSet(*self._modular(operators.convert(expr) if not isinstance(expr, PrimExpr) else expr))

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
        if cls is E.Call and getattr(condition.op, "name", "") == "tir.likely":
            return self.can_prove(condition.args[0], self._strength)
        if cls in _SIGNED and not dt.is_index(condition.a.dtype):
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

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether two expressions have the same value always."""
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
        try:
            difference = self._canonical.visit(build.sub(lhs, rhs))
        except HasEffect:
            return False
        if difference.__class__ is IntImm:
            return bool(difference.value == 0)
        difference = self.simplify(build.sub(lhs, rhs))
        return build.is_const(difference, 0)

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

    def _prove_polynomial(self, expr: Any) -> bool:
        """``expr >= 0``: expressions bounded by others are replaced by the worse bound, then all signs must agree."""
        if self._proving > 2:
            return False
        self._proving += 1
        try:
            atoms = Atoms()
            poly = atoms.expand(self._canonical.visit(expr))
            if self._nonnegative(atoms, poly, 8):
                return True
            facts = [atoms.expand(fact) for fact in self._facts[-8:]]
            if any(self._nonnegative(atoms, plus(poly, fact, -1), 8) for fact in facts):
                return True
            if not self._extensions & Extension.TransitivelyProveInequalities:
                return False
            # e - f1 - f2 >= 0 with known f1, f2 >= 0 proves e >= 0.
            return any(
                self._nonnegative(atoms, plus(plus(poly, first, -1), second, -1), 8)
                for first, second in combinations(facts, 2)
            )
        except TooLarge:
            return False
        finally:
            self._proving -= 1

    def _nonnegative(self, atoms: Atoms, poly: Polynomial, depth: int) -> bool:
        bounded = self._bounded_below(atoms, poly)
        if bounded:
            return True
        if depth == 0:
            return False
        for number in range(len(atoms.items) - 1, -1, -1):
            coefficient = coefficient_of(poly, number)
            if not coefficient:
                continue
            limits = self._limits(atoms.items[number])
            if limits is None:
                scaled = self._times_divisor(atoms, poly, number, coefficient) if self._strength else None
                if scaled is not None:
                    return self._nonnegative(atoms, scaled, depth - 1)
                continue
            low, high = limits
            if self._bounded_below(atoms, coefficient):
                worst = low
            elif self._bounded_below(atoms, {key: -value for key, value in coefficient.items()}):
                worst = high
            else:
                continue
            replaced = replace_atom(poly, number, atoms.expand(worst))
            return self._nonnegative(atoms, replaced, depth - 1)
        return False

    def _times_divisor(
        self, atoms: Atoms, poly: Polynomial, number: int, coefficient: Polynomial
    ) -> Polynomial | None:
        """What is at least zero only if ``poly`` is, without its atom ``a // d``: multiplied by d, that is between a - d + 1 and a."""
        atom = atoms.items[number]
        if atom.__class__ is not E.FloorDiv or atom.b.__class__ is not IntImm or atom.b.value <= 0:
            return None
        divisor = atom.b.value
        product = atoms.expand(atom.a)
        if self._bounded_below(atoms, coefficient):
            product = plus(product, {(): 1 - divisor})
        elif not self._bounded_below(atoms, {key: -value for key, value in coefficient.items()}):
            return None
        rest = plus({}, replace_atom(poly, number, {}), divisor)
        # A whole number whose d-fold is above -d is at least zero.
        return plus(plus(rest, times(coefficient, product)), {(): divisor - 1})

    def _limits(self, atom: Any) -> tuple[Any, Any] | None:
        """Symbolic bounds of an atom: of a variable with a symbolic range, or a remainder of a symbolic divisor."""
        found = self._symbolic.get(atom)
        if found is not None:
            return found
        cls = atom.__class__
        if cls is E.FloorMod and atom.b.__class__ is not IntImm and self._bounds(atom.b)[0] >= 0:
            return build.const(0, atom.dtype), build.sub(atom.b, build.const(1, atom.dtype))
        return None

    def _bounded_below(self, atoms: Atoms, poly: Polynomial) -> bool:
        """Whether a polynomial is at least zero, by the constant bounds of its atoms.

        With atoms written as ``lower bound + something not negative``, all coefficients must be non-negative.
        """
        negative = any(coeff < 0 for coeff in poly.values())
        numbers = {number for monomial in poly for number in monomial}
        lows = {number: self._bounds(atoms.items[number]) for number in numbers}
        if not negative:
            return all(lows[number][0] >= 0 for monomial in poly for number in monomial)
        # Interval arithmetic, term by term.
        total: Bound = (0, 0)
        for monomial, coeff in poly.items():
            term: Bound = (coeff, coeff)
            for number in monomial:
                term = multiply_bounds(term, lows[number])
            total = add_bounds(total, term)
        if total[0] >= 0:
            return True
        if any(bound[0] < 0 for bound in lows.values()):
            return False
        # Where all atoms are smallest the value is the constant term of what follows: mostly that decides.
        smallest = 0
        for monomial, coeff in poly.items():
            for number in monomial:
                coeff *= lows[number][0]
            smallest += coeff
        if smallest < 0:
            return False
        lowest = {number: bound[0] for number, bound in lows.items()}
        if _dominated(poly, lowest):
            return True
        if len(poly) > 6 or max(len(monomial) for monomial in poly) > 3:
            return False  # multiplying out costs more than it finds
        shifted = poly
        try:
            for number, low in lowest.items():
                if low:
                    shifted = replace_atom(shifted, number, {(number,): 1, (): low})
        except TooLarge:
            return False
        return all(coeff >= 0 for coeff in shifted.values())


def _dominated(poly: Polynomial, lowest: dict[int, int]) -> bool:
    """Whether each negative term is made up for by a positive one of which it is a factor, as ``x y - x`` for y >= 1."""
    credit = {monomial: coeff for monomial, coeff in poly.items() if coeff > 0}
    for monomial, coeff in sorted(poly.items(), key=lambda item: -len(item[0])):
        debt = -coeff
        if debt <= 0:
            continue
        for larger in sorted(credit, key=len):
            rest = quotient_of(larger, monomial)
            if rest is None or not credit[larger]:
                continue
            worth = 1
            for number in rest:
                worth *= lowest[number]
            if worth > 0:
                used = min(credit[larger], -(-debt // worth))
                credit[larger] -= used
                debt -= used * worth
            if debt <= 0:
                break
        if debt > 0:
            return False
    return True


_SIGNED = frozenset((E.LT, E.LE, E.GT, E.GE, E.NE))


def _has_product(expr: Any) -> bool:
    cls = expr.__class__
    if cls is E.Mul:
        return expr.b.__class__ is not IntImm or _has_product(expr.a)
    return cls in (E.Add, E.Sub) and (_has_product(expr.a) or _has_product(expr.b))


class _ConstraintScope:
    """Enters a condition into every part of an analyzer, and takes it out again."""

    def __init__(self, analyzer: Analyzer, constraint: PrimExpr) -> None:
        self._analyzer, self._constraint = analyzer, constraint
        self._saved: Any = None

    def __enter__(self) -> None:
        a = self._analyzer
        try:
            condition = a._rewrite.visit(self._constraint)
        except HasEffect:
            condition = build.boolean(True)  # asked again, it may say something else: nothing is learnt
        self._saved = (
            a._bounds.memo, a._modular.memo, a._rewrite.memo, a._canonical.memo,
            a._bounds.variables, a._bounds.constraints, a._modular.variables, a._rewrite.literals, a._facts,
        )  # fmt: skip
        a._forget()
        a._bounds.variables = dict(a._bounds.variables)
        a._bounds.constraints = list(a._bounds.constraints)
        a._modular.variables = dict(a._modular.variables)
        a._rewrite.literals = list(a._rewrite.literals)
        a._facts = list(a._facts)
        for part in _conjuncts(condition):
            self._learn(part)

    def __exit__(self, *exc: Any) -> None:
        a = self._analyzer
        (
            a._bounds.memo, a._modular.memo, a._rewrite.memo, a._canonical.memo,
            a._bounds.variables, a._bounds.constraints, a._modular.variables, a._rewrite.literals, a._facts,
        ) = self._saved  # fmt: skip

    def _learn(self, condition: Any) -> None:
        a = self._analyzer
        if condition.__class__ is E.Call and getattr(condition.op, "name", "") == "tir.likely":
            for part in _conjuncts(condition.args[0]):
                self._learn(part)
            return
        if condition.__class__ is not IntImm:
            a._rewrite.literals.append(condition)
        cls = condition.__class__
        if cls not in _BOUNDING or not dt.is_index(condition.a.dtype):
            return
        left, right = condition.a, condition.b
        low, high = a._bounds(left), a._bounds(right)
        if cls is E.EQ:
            if right.__class__ is IntImm:
                self._limit(left, (right.value, right.value))
                self._learn_remainder(left, right.value)
            a._facts += [build.sub(left, right), build.sub(right, left)]
            return
        if cls in (E.GT, E.GE):
            left, right, low, high = right, left, high, low
            cls = E.LT if cls is E.GT else E.LE
        strict = 1 if cls is E.LT else 0
        # left + strict <= right
        if high[1] < POS_INF:
            self._limit(left, (NEG_INF, high[1] - strict))
        if low[0] > NEG_INF:
            self._limit(right, (low[0] + strict, POS_INF))
        fact = build.sub(right, left)
        if left.__class__ is not IntImm and right.__class__ is not IntImm:
            for difference, bound in (
                (a._rewrite.visit(fact), (strict, POS_INF)),
                (a._rewrite.visit(build.sub(left, right)), (NEG_INF, -strict)),
            ):
                if difference.__class__ is not IntImm:
                    a._bounds.constraints.append((difference, bound))
            a._forget()
        a._facts.append(build.sub(fact, build.const(strict, fact.dtype)) if strict else fact)

    def _limit(self, expr: Any, bound: Bound) -> None:
        a = self._analyzer
        cls = expr.__class__
        if cls is E.Var or cls is E.SizeVar:
            both = intersect(a._bounds._var(expr), bound)
            if both[0] <= both[1]:
                a._bounds.variables[expr] = both
                a._bounds.memo.pop(id(expr), None)
        elif cls is E.Add and expr.b.__class__ is IntImm:
            offset = expr.b.value
            self._limit(expr.a, (_shift(bound[0], -offset), _shift(bound[1], -offset)))
        elif cls is E.Mul and expr.b.__class__ is IntImm and expr.b.value > 0:
            factor = expr.b.value
            low = bound[0] if bound[0] <= NEG_INF else -(-bound[0] // factor)
            high = bound[1] if bound[1] >= POS_INF else bound[1] // factor
            self._limit(expr.a, (low, high))
        elif cls is E.FloorDiv and expr.b.__class__ is IntImm and expr.b.value > 0:
            factor = expr.b.value
            low = bound[0] if bound[0] <= NEG_INF else bound[0] * factor
            high = bound[1] if bound[1] >= POS_INF else bound[1] * factor + factor - 1
            a._bounds.constraints.append((expr, bound))
            self._limit(expr.a, (low, high))
        elif cls is not IntImm:
            a._bounds.constraints.append((expr, bound))

    def _learn_remainder(self, left: Any, value: int) -> None:
        """``x % c == b`` says which modular set x is in."""
        a = self._analyzer
        if left.__class__ in (E.FloorMod, E.Mod) and left.b.__class__ is IntImm and isinstance(left.a, E.Var):
            known: Modular = a._modular._var(left.a)
            a._modular.variables[left.a] = intersect_modular(known, normalized(left.b.value, value))
            a._forget()


def _shift(value: int, by: int) -> int:
    return value if value in (NEG_INF, POS_INF) else value + by


_BOUNDING = frozenset((E.LT, E.LE, E.GT, E.GE, E.EQ))


def _conjuncts(condition: Any) -> Iterator[Any]:
    if condition.__class__ is E.And:
        yield from _conjuncts(condition.a)
        yield from _conjuncts(condition.b)
    else:
        yield condition


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
