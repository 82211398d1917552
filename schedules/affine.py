"""Index arithmetic as polynomials: sums of integer multiples of products of variables.

Loop extents are integers in an ordinary schedule and products of decision variables in a sketch; this module treats both
alike, so that primitives (and the regions that they compute) have one implementation for one program and for a
population of programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ir import tir
from ir.arith.deep_equal import expr_deep_equal
from ir.arith.domain import is_number
from ir.arith.linear_form import combined, multiplied
from ir.dtype import bits, integer_range, is_int
from ir.tir import expr as E

Monomial = tuple[Any, ...]
"""Variables (or opaque expressions) multiplied together, in order of appearance; () is the constant."""


class Polynomial:
    """``sum(coefficient * product(monomial))``; atoms that are no variables are compared by identity."""

    __slots__ = ("dtype", "terms")

    def __init__(self, terms: dict[Monomial, int], dtype: str) -> None:
        self.terms, self.dtype = terms, dtype

    def to_expr(self) -> tir.PrimExpr:
        """The expression: positive terms in order of appearance, negative ones, the constant.

        Without positive terms a positive constant comes first: ``7 - v``.
        """
        result: Any = None
        constant = self.terms.get((), 0)
        if constant > 0 and not any(m and c > 0 for m, c in self.terms.items()):
            result, constant = tir.const(constant, self.dtype), 0
        ordered = [(m, c) for m, c in self.terms.items() if m and c > 0]
        ordered += [(m, c) for m, c in self.terms.items() if m and c < 0]
        for monomial, coefficient in ordered:
            product: Any = None
            for atom in monomial:
                product = atom if product is None else E.Mul(product, atom)
            size = abs(coefficient)
            if size != 1:
                product = E.Mul(product, tir.const(size, self.dtype))
            if result is None:
                result = product if coefficient > 0 else E.Mul(product, tir.const(-1, self.dtype))
            else:
                result = E.Add(result, product) if coefficient > 0 else E.Sub(result, product)
        if result is None:
            return tir.const(constant, self.dtype)
        if constant > 0:
            return E.Add(result, tir.const(constant, self.dtype))
        return E.Sub(result, tir.const(-constant, self.dtype)) if constant < 0 else result

    def constant(self) -> int | None:
        """The value if it is constant."""
        if not self.terms:
            return 0
        return self.terms[()] if len(self.terms) == 1 and () in self.terms else None

    def fits(self) -> bool:
        """Whether its type holds its coefficients and their negatives."""
        most = integer_range(self.dtype)[1]
        return all(-most <= coefficient <= most for coefficient in self.terms.values())

    def is_polynomial(self) -> bool:
        """Whether all atoms are variables."""
        return all(isinstance(atom, tir.Var) for monomial in self.terms for atom in monomial)


class _Order:
    """Numbers atoms by first appearance, to sort monomials the same way in every run."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __call__(self, atom: Any) -> int:
        return self.numbers.setdefault(atom, len(self.numbers))


def polynomial(expr: Any) -> Polynomial:
    """The polynomial form of an index expression; anything but +, -, * of integers becomes an opaque atom, and so does
    arithmetic that wraps, of types that are no index numbers.
    """
    order = _Order()
    expr = tir.convert(expr)
    if not is_number(expr.dtype) and not isinstance(expr, E.IntImm):
        return Polynomial({(expr,): 1}, expr.dtype)
    return Polynomial(_terms(expr, order), expr.dtype)


def _terms(expr: Any, order: _Order) -> dict[Monomial, int]:
    kind = expr.__class__
    if kind is E.IntImm:
        return {(): expr.value} if expr.value else {}
    if kind is E.Add or kind is E.Sub:
        return combined(_terms(expr.a, order), _terms(expr.b, order), 1 if kind is E.Add else -1)
    if kind is E.Mul:
        return multiplied(
            _terms(expr.a, order),
            _terms(expr.b, order),
            lambda x, y: tuple(sorted((*x, *y), key=order)) if x and y else x or y,
        )
    order(expr)
    return {(expr,): 1}


def simplify_polynomial(expr: Any) -> tir.PrimExpr:
    """Collect like terms; atoms stay as they are, and so does a sum whose constants add up to what its type does not hold."""
    expr = tir.convert(expr)
    if isinstance(expr, E.IntImm | E.Var):
        return expr
    found = polynomial(expr)
    return found.to_expr() if found.fits() else expr


def constant_difference(a: Any, b: Any) -> int | None:
    """``a - b`` when it is constant."""
    found = polynomial(tir.convert(a) - b)
    constant = found.constant()
    if constant is not None or found.is_polynomial():
        return constant
    return _with_like_atoms_joined(found).constant()


def difference(a: Any, b: Any) -> tir.PrimExpr:
    """``a - b`` with like terms collected; equal arithmetic of the same variables is one term."""
    whole = tir.convert(a) - b
    found = polynomial(whole)
    if not found.is_polynomial():
        found = _with_like_atoms_joined(found)
    return found.to_expr() if found.fits() else whole


def are_equal(one: Any, other: Any) -> bool:
    """Whether two integer expressions are known to be equal."""
    return constant_difference(one, other) == 0


def _with_like_atoms_joined(found: Polynomial) -> Polynomial:
    """The same where equal arithmetic of the same variables is one atom. What loads or calls is not: it may change in between."""
    order = _Order()
    known: list[Any] = []

    def representative(atom: Any) -> Any:
        if isinstance(atom, E.Var) or not _is_arithmetic(atom):
            return atom
        same = next((other for other in known if expr_deep_equal(other, atom)), None)
        if same is None:
            known.append(atom)
        return atom if same is None else same

    terms: dict[Monomial, int] = {}
    for monomial, coefficient in found.terms.items():
        joined = tuple(sorted(map(representative, monomial), key=order))
        terms[joined] = terms.get(joined, 0) + coefficient
    return Polynomial({monomial: count for monomial, count in terms.items() if count}, found.dtype)


def _is_arithmetic(expr: Any) -> bool:
    """Whether variables and constants alone say what an expression is."""
    doubtful: list[Any] = []
    tir.post_order_visit(
        expr, lambda node: doubtful.append(node) if isinstance(node, tir.BufferLoad | tir.Call) else None
    )
    return not doubtful


def exact_quotient(a: Any, b: Any) -> tir.PrimExpr | None:
    """``a / b`` where both are products and every factor of ``b`` is one of ``a``; None otherwise."""
    above, below = polynomial(a), polynomial(b)
    if len(above.terms) != 1 or len(below.terms) != 1:
        return None
    ((numerator, factor),), ((denominator, divisor),) = above.terms.items(), below.terms.items()
    left = list(numerator)
    for atom in denominator:
        position = next((i for i, item in enumerate(left) if item is atom), None)
        if position is None:
            return None
        del left[position]
    return None if factor % divisor else Polynomial({tuple(left): factor // divisor}, above.dtype).to_expr()


def floor_quotient(expr: Any, divisor: int) -> tir.PrimExpr | None:
    """``expr // divisor`` where the divisor, a positive number, divides all of a polynomial but its constant; None otherwise.

    >>> n = tir.Var("n", "int64")
    >>> print(floor_quotient(n * 8 + 7, 4))
    n * T.int64(2) + T.int64(1)
    """
    found = polynomial(expr)
    if any(coefficient % divisor for monomial, coefficient in found.terms.items() if monomial):
        return None
    quotients = {monomial: count // divisor for monomial, count in found.terms.items() if count // divisor}
    return Polynomial(quotients, found.dtype).to_expr()


def mentions(expr: Any, variables: Iterable[Any] | Mapping[Any, Any]) -> bool:
    """Whether any of the variables occurs in the expression."""
    wanted = variables if isinstance(variables, set | dict) else set(variables)
    stack = [expr]
    while stack:
        node = stack.pop()
        if node.__class__ is E.IntImm:
            continue
        if isinstance(node, E.Var):
            if node in wanted:
                return True
            continue
        node._visit_children(stack.append)
    return False


def without_casts(index: tir.PrimExpr) -> tir.PrimExpr:
    """A variable, or whatever an index is, in the type that it had before it was cast from one index type to another."""
    while isinstance(index, tir.Cast) and is_number(index.dtype) and is_number(index.value.dtype):
        index = index.value
    return index


def widened(index: tir.PrimExpr) -> tir.PrimExpr:
    """What an index is of which a cast keeps every value: ``v`` of ``T.Cast("int64", v)``."""
    while (
        isinstance(index, tir.Cast)
        and is_int(index.dtype)
        and is_int(index.value.dtype)
        and bits(index.dtype) >= bits(index.value.dtype)
    ):
        index = index.value
    return index


def split_by(
    poly: Polynomial, variables: Mapping[Any, Any]
) -> tuple[dict[Any, dict[Monomial, int]], dict[Monomial, int]] | None:
    """Coefficients of ``variables`` and the rest, or None when the polynomial is not linear in them."""
    coefficients: dict[Any, dict[Monomial, int]] = {}
    rest: dict[Monomial, int] = {}
    for monomial, factor in poly.terms.items():
        inside = [atom for atom in monomial if isinstance(atom, tir.Var) and atom in variables]
        opaque = [atom for atom in monomial if not isinstance(atom, tir.Var) and mentions(atom, variables)]
        if opaque or len(inside) > 1:
            return None
        if inside:
            others = list(monomial)
            others.remove(inside[0])
            coefficients.setdefault(inside[0], {})[tuple(others)] = factor
        else:
            rest[monomial] = factor
    return coefficients, rest


def coefficient_of(index: Any, var: tir.Var) -> int | None:
    """The constant that a variable is multiplied by in an index; None where it is none."""
    parts = split_by(polynomial(index), {var: 1})
    if parts is None:
        return None
    terms = parts[0].get(var, {})
    if not terms:
        return 0
    return terms.get(()) if set(terms) == {()} else None
