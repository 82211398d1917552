"""Whether two accesses of a buffer never meet in different iterations of a loop.

Indices that are linear in the loops, and in quotients and remainders by numbers, are decided by
:mod:`~schedules.integer_feasibility`; of others, and under predicates, all iterations are counted where there are few. Where extents are
symbolic, maps are recognized that number the iterations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ir import structural_equal, tir
from ir.arith import Analyzer, detect_iter_map
from ir.arith.analyzer import constraints
from ir.error import IRError
from ir.tir.conjunction import conjunction, conjuncts
from ir.tir.evaluate import Evaluator
from ir.tir.stmt_functor import StmtExprMutator, loads_in, variables_in

from .affine import (
    Monomial,
    Polynomial,
    exact_quotient,
    mentions,
    polynomial,
    simplify_polynomial,
    without_casts,
)
from .bounds import analyzer_of
from .integer_feasibility import Unknown, has_solution
from .tree import LoopNode

_ANY_EXTENT = 1 << 62
"""In place of an extent that is no number."""
_MOST_POINTS = 1 << 16
"""Elements that are counted."""


@dataclass(frozen=True)
class Access:
    """A region of a buffer, touched by a statement in loops.

    Attributes:
        region: in terms of the loops.
        inner: the loops between the one that is judged and the statement.
        predicate: where the statement runs, in terms of the loops.
    """

    region: Sequence[tir.Range]
    inner: Sequence[LoopNode]
    predicate: tir.PrimExpr

    @cached_property
    def variables(self) -> set[Any]:
        """What the indices and the predicate are made of."""
        return set(variables_in(*[item.min for item in self.region], self.predicate))

    @cached_property
    def linear(self) -> list[tuple[Polynomial, int] | None]:
        """The least index and the extent of each dimension; None where the extent is no number."""
        return [
            (polynomial(item.min), item.extent.value) if isinstance(item.extent, tir.IntImm) else None
            for item in self.region
        ]


def never_meet(first: Access, second: Access, loop: LoopNode, outer: Sequence[LoopNode]) -> bool | None:
    """Whether what an iteration touches by one access is never what another iteration of the loop touches by the other.

    Args:
        first, second: may be the same.
        loop: of which two different iterations are compared.
        outer: the loops around it, which are in the same iteration for both.

    Returns:
        True or False; None where that is not decided.
    """
    around = [*outer, loop]
    simpler = [_simplified(item, around) for item in (first, second)]
    if linear_never_meet(simpler[0], simpler[1] if second is not first else simpler[0], loop, outer):
        return True
    counted = _counted_never_meet(first, second, loop, outer)
    if counted is None and first is second:
        return True if _tells_loop(first, loop) or _is_injective(first, loop, outer) else None
    return counted


# -- linear indices ----------------------------------------------------------------
def linear_never_meet(first: Access, second: Access, loop: LoopNode, outer: Sequence[LoopNode]) -> bool:
    """The same as far as indices are quasi-linear: whether no two iterations solve the equations of the dimensions.

    Other dimensions are left out, and so are predicates: the answer False says nothing.
    """
    if not isinstance(loop.min, tir.IntImm):
        return False
    system = _System(first, second, loop, outer)
    for one, other in zip(first.linear, second.linear, strict=True):
        if one is not None and other is not None:
            system.equate(*one, *other)
    return system.has_solution() is False


Terms = dict[Any, int]
"""Unknowns with their coefficients. An unknown is known by its name: a loop variable is its value in both accesses, "step" how far the
second iteration is from the first one, (variable, "first") and the like what the variable is there, (variable or digit, "difference")
how far the first access is from the second one.
"""


class _System:
    """Equations that hold where two accesses meet in different iterations of a loop."""

    def __init__(self, first: Access, second: Access, loop: LoopNode, outer: Sequence[LoopNode]) -> None:
        self._loop = loop.var
        self._inner = [{item.var for item in access.inner} for access in (first, second)]
        self._domains = {
            item.var: _values_of(item)
            for item in (*outer, loop, *first.inner, *second.inner)
            if isinstance(item.min, tir.IntImm)
        }
        self._bounds: dict[Any, tuple[int, int]] = {}
        self._equations: list[tuple[Terms, int]] = []
        self._digits: list[tir.PrimExpr] = []

    def has_solution(self) -> bool | None:
        """Whether integers within their bounds solve all equations; None where that is not decided."""
        if not self._equations:
            return None
        answers = [self._solvable(group) for group in self._independent()]
        return False if False in answers else None if None in answers else True

    def _independent(self) -> list[list[tuple[Terms, int]]]:
        """The equations in groups that share no unknowns: each is solved by itself."""
        groups: list[tuple[set[Any], list[tuple[Terms, int]]]] = []
        for terms, constant in self._equations:
            names, members = set(terms), [(terms, constant)]
            for other in [group for group in groups if group[0] & names]:
                names |= other[0]
                members += other[1]
                groups.remove(other)
            groups.append((names, members))
        return [members for _, members in groups]

    def _solvable(self, equations: Sequence[tuple[Terms, int]]) -> bool | None:
        low, high = self._domains[self._loop]
        bounds = {"step": (low - high, high - low), **self._bounds}
        names = dict.fromkeys(name for terms, _ in equations for name in terms)
        unknowns = [
            Unknown(
                tuple(terms.get(name, 0) for terms, _ in equations), *bounds[name], may_be_zero=name != "step"
            )
            for name in names
        ]
        return has_solution(unknowns, [constant for _, constant in equations])

    def equate(self, left: Polynomial, size: int, right: Polynomial, other_size: int) -> None:
        """Adds that two indices are of one element, unless they are not linear in loops with numbers as extents."""
        terms: Terms = {}
        constant = 0
        if size > 1 or other_size > 1:
            terms[self._unknown(("element", len(self._equations)), 1 - other_size, size - 1)] = 1
        theirs = self._by_atom(right)
        for monomial, a in {**dict.fromkeys(theirs, 0), **self._by_atom(left)}.items():
            b = theirs.get(monomial, 0)
            if not monomial:
                constant += a - b
                continue
            part = self._difference(monomial) if a == b else self._apart(monomial, a, b)
            if part is None:
                return
            for name, coefficient in part.items():
                terms[name] = terms.get(name, 0) + coefficient * (a if a == b else 1)
        self._equations.append((terms, constant))

    def _by_atom(self, poly: Polynomial) -> dict[Monomial, int]:
        """The terms of a polynomial; digits that are written alike are one."""
        return {tuple(self._canonical(atom) for atom in m): c for m, c in poly.terms.items()}

    def _canonical(self, atom: Any) -> Any:
        if isinstance(atom, tir.Var):
            return atom
        for known in self._digits:
            if structural_equal(known, atom):
                return known
        self._digits.append(atom)
        return atom

    def _apart(self, monomial: Monomial, a: int, b: int) -> Terms | None:
        """``a`` times a variable in the first access less ``b`` times the same in the second."""
        var = monomial[0] if len(monomial) == 1 else None
        if var not in self._domains:
            return None
        low, high = self._domains[var]
        if var is self._loop:
            return {self._unknown(var, low, high): a - b, "step": -b}
        if var in self._inner[0] or var in self._inner[1]:
            names = [self._unknown((var, which), low, high) for which in ("first", "second")]
            return {names[0]: a, names[1]: -b}
        return {self._unknown(var, low, high): a - b}

    def _difference(self, monomial: Monomial) -> Terms | None:
        """What a term of both accesses is in the first one, less what it is in the second."""
        if not any(self._moves(atom) for atom in monomial):
            return {}
        if len(monomial) > 1:
            return None
        (atom,) = monomial
        if atom is self._loop:
            return {"step": -1}
        if isinstance(atom, tir.Var):
            if atom not in self._domains:
                return None
            low, high = self._domains[atom]
            return {self._unknown((atom, "difference"), low - high, high - low): 1}
        return self._difference_of_digit(atom)

    def _difference_of_digit(self, atom: Any) -> Terms | None:
        """That of a quotient or a remainder by a number: ``a == quotient * number + remainder`` holds of differences, too."""
        if not isinstance(atom, tir.FloorDiv | tir.FloorMod):
            return None
        divisor = atom.b.value if isinstance(atom.b, tir.IntImm) else 0
        if divisor <= 0:
            return None
        whole = self._canonical(atom.a)
        quotient, remainder = (whole, divisor, "quotient"), (whole, divisor, "remainder")
        wanted = quotient if isinstance(atom, tir.FloorDiv) else remainder
        if wanted not in self._bounds:
            equation: Terms = {}
            for monomial, coefficient in self._by_atom(polynomial(whole)).items():
                part = self._difference(monomial)
                if part is None:
                    return None
                for name, count in part.items():
                    equation[name] = equation.get(name, 0) + coefficient * count
            reach = sum(abs(count) * self._reach(name) for name, count in equation.items())
            most = (reach + divisor - 1) // divisor
            self._unknown(quotient, -most, most)
            self._unknown(remainder, 1 - divisor, divisor - 1)
            self._equations.append(({**equation, quotient: -divisor, remainder: -1}, 0))
        return {wanted: 1}

    def _reach(self, name: Any) -> int:
        low, high = self._bounds[name] if name != "step" else self._domains[self._loop]
        return high - low if name == "step" else max(abs(low), abs(high))

    def _moves(self, expr: Any) -> bool:
        return mentions(expr, self._inner[0] | self._inner[1] | {self._loop})

    def _unknown(self, name: Any, low: int, high: int) -> Any:
        self._bounds[name] = (low, high)
        return name


def _values_of(loop: LoopNode) -> tuple[int, int]:
    """The least and the greatest value of a loop that begins at a number."""
    assert isinstance(loop.min, tir.IntImm)
    count = loop.extent.value if isinstance(loop.extent, tir.IntImm) else _ANY_EXTENT
    return loop.min.value, loop.min.value + count - 1


def _simplified(access: Access, around: Sequence[LoopNode]) -> Access:
    """The access with its indices simplified: the digits of a fused loop, put together again, are the loop."""
    analyzer = analyzer_of((*around, *access.inner))
    region = [
        tir.Range.from_min_extent(simplify_polynomial(analyzer.simplify(item.min)), item.extent)
        for item in access.region
    ]
    return Access(region, access.inner, access.predicate)


# -- all iterations ----------------------------------------------------------------
def _counted_never_meet(
    first: Access, second: Access, loop: LoopNode, outer: Sequence[LoopNode]
) -> bool | None:
    """Compares what all iterations touch; None where there are too many, or where indices are no numbers."""
    accesses = [first] if first is second else [first, second]
    used = {var for access in accesses for var in access.variables}
    standing = [item for item in outer if item.var in used]
    groups = []
    for access in accesses:
        found = _touched(
            access,
            [*standing, loop, *[item for item in access.inner if item.var in used]],
            loop,
            len(standing),
        )
        if found is None:
            return None
        groups.append(found)
    elements = _numbered(np.concatenate([item for item, _ in groups]))
    iterations = np.concatenate([item for _, item in groups])
    if not len(elements):
        return True
    least = np.full((len(groups), int(elements.max()) + 1), np.iinfo(np.int64).max)
    most = np.full(least.shape, np.iinfo(np.int64).min)
    sides = np.repeat(np.arange(len(groups)), [len(item) for item, _ in groups])
    np.minimum.at(least, (sides, elements), iterations)
    np.maximum.at(most, (sides, elements), iterations)
    in_all = (least <= most).all(0)
    return bool((least.min(0) == most.max(0))[in_all].all())


def _numbered(rows: np.ndarray) -> np.ndarray:
    """For each row [N, columns] of small numbers the number of those that are equal: int64 [N]."""
    numbers = np.zeros(len(rows), np.int64)
    for column in rows.T:
        if len(column):
            _, numbers = np.unique(
                numbers * (column.max() - column.min() + 1) + column - column.min(), return_inverse=True
            )
    return numbers.reshape(-1)


def _touched(
    access: Access, running: Sequence[LoopNode], loop: LoopNode, n_standing: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """(iterations of the loops that stand still, and indices: [N, columns]; iterations of the loop [N]); None as above."""
    sizes = [item.extent.value for item in access.region if isinstance(item.extent, tir.IntImm)]
    bounds = [
        (item.min.value, item.extent.value)
        for item in running
        if isinstance(item.min, tir.IntImm) and isinstance(item.extent, tir.IntImm)
    ]
    if len(bounds) != len(running) or len(sizes) != len(access.region):
        return None
    if math.prod([*[extent for _, extent in bounds], *sizes]) > _MOST_POINTS:
        return None
    grid = [
        axis.reshape(-1) for axis in np.meshgrid(*[np.arange(a, a + n) for a, n in bounds], indexing="ij")
    ]
    values = dict(zip([item.var for item in running], grid, strict=True))
    evaluator = Evaluator(values)
    try:
        indices = [np.broadcast_to(evaluator.visit(item.min), grid[0].shape) for item in access.region]
        runs = np.broadcast_to(np.asarray(evaluator.visit(access.predicate), dtype=bool), grid[0].shape)
    except IRError:
        return None  # data, or variables of nobody
    table = np.stack([*grid[:n_standing], *indices, values[loop.var]], 1)[runs]
    offsets = np.zeros((math.prod(sizes), table.shape[1]), np.int64)
    if sizes:
        steps = np.meshgrid(*[np.arange(size) for size in sizes], indexing="ij")
        offsets[:, n_standing:-1] = np.stack([axis.reshape(-1) for axis in steps], 1)
    table = (table[:, None] + offsets[None]).reshape(-1, table.shape[1])
    return table[:, :-1], table[:, -1]


# -- symbolic extents --------------------------------------------------------------
def _tells_loop(access: Access, loop: LoopNode) -> bool:
    """Whether an element tells the iteration of a loop, whatever loops inside of it do: its dimensions tell quotients and remainders of
    the loop's number, which tell the number.
    """
    digits: list[tir.PrimExpr] = []
    for item in access.region:
        if isinstance(item.extent, tir.IntImm):
            digits += _told_by(item.min, item.extent.value, access, loop)
    for digit in digits:  # and those that are found on the way
        if digit is loop.var:
            return True
        for other in list(digits):
            for quotient, remainder in ((digit, other), (other, digit)):
                if _make_up_a_number(quotient, remainder):
                    found = _told_by(quotient.a, 1, access, loop)  # type: ignore[attr-defined]
                    digits += [
                        item for item in found if not any(structural_equal(item, known) for known in digits)
                    ]
    return False


def _told_by(index: tir.PrimExpr, size: int, access: Access, loop: LoopNode) -> list[tir.PrimExpr]:
    """What one of ``size`` elements from an index on tells: the part of the index that moves with a loop, if that goes in steps that the
    loops inside, from one number to another, do not make up for.
    """
    extents = {item.var: item.extent if isinstance(item.min, tir.IntImm) else None for item in access.inner}
    terms = polynomial(index).terms
    moving = [m for m in terms if any(mentions(atom, {loop.var}) for atom in m)]
    if len(moving) != 1 or len(moving[0]) != 1 or loads_in(index):
        return []
    reach = size - 1
    for monomial, coefficient in terms.items():
        if monomial is moving[0] or not any(mentions(atom, extents) for atom in monomial):
            continue
        extent = extents.get(monomial[0]) if len(monomial) == 1 else None
        if not isinstance(extent, tir.IntImm):
            return []
        reach += abs(coefficient) * (extent.value - 1)
    part = without_casts(moving[0][0])
    stands = isinstance(part, tir.FloorDiv | tir.FloorMod) and not mentions(part.b, {loop.var, *extents})
    return [part] if reach < abs(terms[moving[0]]) and (part is loop.var or stands) else []


def _make_up_a_number(one: tir.PrimExpr, other: tir.PrimExpr) -> bool:
    """Whether the one is a quotient and the other the remainder of one number by one divisor (which is not 0, or they would be none).

    The remainder by a divisor of ``e`` is that of ``x % e`` as well as that of ``x``.
    """
    if not (isinstance(one, tir.FloorDiv) and isinstance(other, tir.FloorMod)):
        return False
    if not structural_equal(one.b, other.b):
        return False
    return structural_equal(one.a, other.a) or (
        isinstance(one.a, tir.FloorMod)
        and structural_equal(one.a.a, other.a)
        and exact_quotient(one.a.b, one.b) is not None
    )


def _is_injective(access: Access, loop: LoopNode, outer: Sequence[LoopNode]) -> bool:
    """Whether the loop and those inside of it are recognized to touch an element of its own in each iteration."""
    if any(not isinstance(item.extent, tir.IntImm) or item.extent.value != 1 for item in access.region):
        return False
    indices = [item.min for item in access.region]
    running = _running(indices, loop, access.inner)
    ranges = {item.var: item.range() for item in running}
    left_out = {item.var for item in access.inner} - set(ranges)
    clauses = [part for part in conjuncts(access.predicate) if not mentions(part, left_out)]
    predicate = tir.const(True, "bool") if (kept := conjunction(clauses)) is None else kept
    return is_one_to_one(indices, ranges, predicate) or any(
        is_one_to_one([whole], ranges)
        and is_one_to_one([part for digit in digits for part in _parts_told_by(digit)], {number: domain})
        for whole, number, domain, digits in _as_digits(indices, ranges, predicate, [*outer, *running])
    )


def _running(
    indices: Sequence[tir.PrimExpr], loop: LoopNode, inner: Sequence[LoopNode]
) -> tuple[LoopNode, ...]:
    """The loop, and those inside of it on which the indices depend: others, such as those of a reduction, do not change the element."""
    needed = {var for index in indices for var in variables_in(index)}
    kept: list[LoopNode] = []
    for item in reversed(inner):
        if item.var in needed:
            kept.insert(0, item)
            needed |= {*variables_in(item.min), *variables_in(item.extent)}
    return loop, *kept


def _as_digits(
    indices: Sequence[tir.PrimExpr],
    ranges: Mapping[Any, tir.Range],
    predicate: tir.PrimExpr,
    around: Sequence[LoopNode],
) -> Iterator[tuple[tir.PrimExpr, tir.Var, tir.Range, list[tir.PrimExpr]]]:
    """Sums of loops that a guard keeps below a bound, as the parts of a fused loop, where indices depend on the loops by them alone: (the
    sum, a variable for it, what that runs over, the indices in terms of it).
    """
    analyzer = analyzer_of(around)
    for clause in conjuncts(predicate):
        if not isinstance(clause, tir.LT) or mentions(clause.b, ranges):
            continue
        number = tir.Var("number", clause.a.dtype)
        digits = [_Naming(clause.a, number).visit(index) for index in indices]
        if not any(mentions(digit, ranges) for digit in digits) and analyzer.can_prove(clause.a >= 0):
            yield clause.a, number, tir.Range(clause.b), digits


class _Naming(StmtExprMutator):
    """Puts a variable in place of a sum or a difference."""

    def __init__(self, whole: tir.PrimExpr, name: tir.Var) -> None:
        super().__init__()
        self._whole, self._name = whole, name

    def visit_Add(self, node: tir.Add | tir.Sub) -> Any:
        is_whole = node.dtype == self._name.dtype and structural_equal(node, self._whole)
        return self._name if is_whole else self.generic_visit(node)

    visit_Sub = visit_Add


def _parts_told_by(index: tir.PrimExpr) -> list[tir.PrimExpr]:
    """Numbers that the value of an index tells: each term of the sum that it is, if none goes in steps that others make up for."""
    analyzer = Analyzer()
    terms = sorted(polynomial(index).terms.items(), key=lambda term: abs(term[1]))
    parts: list[tir.PrimExpr] = []
    reach = 0
    for monomial, coefficient in terms:
        if not monomial:
            continue
        if len(monomial) > 1 or abs(coefficient) <= reach:
            return [index]
        bound = analyzer.const_int_bound(monomial[0])
        reach += abs(coefficient) * (bound.max_value - bound.min_value)
        parts.append(monomial[0])
    return parts


def _with_named_factors(
    exprs: Sequence[tir.PrimExpr], ranges: Mapping[Any, tir.Range]
) -> tuple[list[tir.PrimExpr], dict[Any, tir.Range]]:
    """The same with variables in place of the sums by which indices are divided, such as the extents of what a window is moved over.

    What is one-to-one whatever the variables are is so for the sums.
    """
    exprs, ranges = list(exprs), dict(ranges)
    while (factor := next(_sums_that_divide(exprs, ranges), None)) is not None:
        naming = _Naming(factor, tir.Var("factor", factor.dtype))
        exprs = [naming.visit(expr) for expr in exprs]
        ranges = {
            var: tir.Range.from_min_extent(item.min, naming.visit(item.extent))
            for var, item in ranges.items()
        }
    return exprs, ranges


def _sums_that_divide(
    exprs: Sequence[tir.PrimExpr], ranges: Mapping[Any, tir.Range]
) -> Iterator[tir.Add | tir.Sub]:
    """The sums among the factors of divisors, in which no loop is."""
    divisors: list[tir.PrimExpr] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.FloorDiv | tir.FloorMod):
            divisors.append(node.b)

    for expr in exprs:
        tir.post_order_visit(expr, visit)
    while divisors:
        divisor = divisors.pop()
        if isinstance(divisor, tir.Mul):
            divisors += [divisor.a, divisor.b]
        elif (
            isinstance(divisor, tir.Add | tir.Sub) and not mentions(divisor, ranges) and not loads_in(divisor)
        ):
            yield divisor


def is_one_to_one(
    exprs: Sequence[tir.PrimExpr], ranges: Mapping[Any, tir.Range], predicate: Any = True
) -> bool:
    """Whether expressions are recognized to have other values for all other values of the variables."""
    exprs, ranges = _with_named_factors(exprs, ranges)
    analyzer = Analyzer()
    products = [polynomial(item.extent).terms for item in ranges.values()]
    # Where the loops run, no factor of an extent is 0; quotient and remainder tell a number apart from all others whatever its sign.
    factors = [atom for terms in products if len(terms) == 1 for monomial in terms for atom in monomial]
    with constraints(analyzer, *[atom > 0 for atom in factors if isinstance(atom, tir.Var)]):
        found = detect_iter_map(list(exprs), dict(ranges), predicate, "bijective", analyzer=analyzer)
    scales = [part.scale for index in found.indices for part in index.args]
    # A scale that may be 0 makes one value of all.
    return bool(found.indices) and all(
        isinstance(scale, tir.IntImm) or Analyzer().can_prove(scale != 0) for scale in scales
    )
