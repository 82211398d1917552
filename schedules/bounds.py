"""Guards: the conditions that keep an index inside its domain where the loops around it could leave it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ir import tir
from ir.arith import Analyzer, ConstIntBound
from ir.arith.analyzer import constraints
from ir.arith.domain import is_number
from ir.dtype import integer_range
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import loads_in, substitute, variables_in

from .affine import coefficient_of, constant_difference, polynomial
from .random_variable import DecisionVar
from .tree import LoopNode


def _decisions_in(expr: Any) -> list[DecisionVar]:
    if isinstance(expr, int | tir.IntImm):
        return []
    found: list[DecisionVar] = []
    tir.post_order_visit(
        tir.convert(expr), lambda node: found.append(node) if isinstance(node, DecisionVar) else None
    )
    return found


def is_open(expr: Any) -> bool:
    """Whether open decisions of a sketch occur in an expression."""
    return bool(_decisions_in(expr))


def tiles_at_most(expr: Any, limit: Any) -> bool:
    """Whether an open extent is a tile, or a multiple of one, of an extent whose multiple is at most ``limit`` (unless that is not
    constant).
    """
    terms = polynomial(expr).terms
    if len(terms) != 1:
        return False
    tiled = max((getattr(decision, "tiled", None) or 0 for decision in _decisions_in(expr)), default=0)
    return not isinstance(limit, tir.IntImm) or next(iter(terms.values())) * tiled <= limit.value


def analyzer_of(loops: Iterable[LoopNode] = (), *, variables: Iterable[tir.IterVar] = ()) -> Analyzer:
    """An analyzer that knows where loops run, and the domains of variables of blocks."""
    analyzer = Analyzer()
    for var, domain in [(item.var, item.dom) for item in variables] + [
        (loop.var, loop.range()) for loop in loops
    ]:
        analyzer.bind(var, domain)
        most = _most_iterations(domain)
        if most is not None:
            analyzer.update(var, ConstIntBound(0, most - 1), override=True)
    return analyzer


def _most_iterations(domain: tir.Range) -> int | None:
    """How many values a domain that begins at 0 and ends at an open decision has at most; None of other domains."""
    extent = domain.extent
    while isinstance(extent, tir.Cast):
        extent = extent.value
    begins_at_zero = isinstance(domain.min, tir.IntImm) and domain.min.value == 0
    return getattr(extent, "at_most", None) if begins_at_zero else None


def nonempty(loops: Iterable[LoopNode]) -> list[tir.PrimExpr]:
    """What holds in every iteration of loops, since there is one: their extents are positive, and no factor of an extent is zero.

    An extent that memory tells says nothing, since the memory may change in the loop.
    """
    found: list[tir.PrimExpr] = []
    for loop in loops:
        extent = loop.extent
        if isinstance(extent, tir.IntImm) or is_open(extent) or loads_in(extent):
            continue
        found.append(extent > 0)
        terms = polynomial(extent).terms
        factors = [*(next(iter(terms)) if len(terms) == 1 else ()), *_factors(extent)]
        found += [factor != 0 for factor in dict.fromkeys(factors) if not isinstance(factor, tir.IntImm)]
    return found


def _factors(extent: tir.PrimExpr) -> list[tir.PrimExpr]:
    """What an extent that is positive is a product of, as it is written, or what a part of it is: ``(a * b + 255) // 256`` is positive
    where ``a * b`` is.
    """
    if isinstance(extent, tir.Mul):
        return [*_factors(extent.a), *_factors(extent.b)]
    if isinstance(extent, tir.FloorDiv) and isinstance(extent.b, tir.IntImm) and extent.b.value > 0:
        whole = extent.a
        if (
            isinstance(whole, tir.Add)
            and isinstance(whole.b, tir.IntImm)
            and 0 <= whole.b.value < extent.b.value
        ):
            whole = whole.a
        return _factors(whole)
    return [extent]


def guards(
    value: Any, running: Any, extent: Any, dom: tir.Range, around: Sequence[LoopNode]
) -> list[tir.PrimExpr]:
    """What must hold for ``value`` to lie in ``dom`` while ``running`` goes up to ``extent`` inside the loops ``around``."""
    analyzer = analyzer_of(around)
    if running is not None:
        analyzer.bind(running, tir.Range.from_min_extent(tir.const(0, running.dtype), extent))
    conditions = [value >= dom.min, value < dom.min + dom.extent]
    with constraints(analyzer, *nonempty(around)):
        return [analyzer.simplify(item) for item in conditions if not analyzer.can_prove(item)]


def inside(value: Any, dom: tir.Range) -> tir.PrimExpr:
    """The condition that a value lies in a domain."""
    return tir.operators.logical_and(value >= dom.min, value < dom.min + dom.extent)


def clause_beyond(
    predicate: tir.PrimExpr,
    kept: Sequence[tir.PrimExpr],
    around: Sequence[LoopNode],
    values: Mapping[Any, Any] | None = None,
) -> tir.PrimExpr | None:
    """A clause of a predicate that does not follow from some conditions, or None.

    Args:
        predicate: of a block.
        kept: conditions that hold.
        around: the loops around the block.
        values: of some of the loops' variables, for which alone the clauses are asked.
    """
    clauses = conjuncts(predicate)
    if not clauses:
        return None
    analyzer = analyzer_of(around)
    with constraints(analyzer, *kept):
        open_clauses = [
            (clause, asked)
            for clause in clauses
            if not analyzer.can_prove(asked := substitute(clause, values) if values else clause)
        ]
    for clause, asked in open_clauses:
        if not any(_follows(asked, condition, analyzer) for item in kept for condition in conjuncts(item)):
            return clause
    return None


def _follows(clause: tir.PrimExpr, condition: tir.PrimExpr, analyzer: Analyzer) -> bool:
    """Whether a clause follows from one condition: of several that never hold together an analyzer knows nothing."""
    asked, given = slack(clause), slack(condition)
    if asked is not None and given is not None:
        # An analyzer may divide one of two comparisons that say the same by a common factor, and not see the other in it.
        more = constant_difference(asked, given)
        if more is not None and more >= 0:
            return True
        # In doing so it leaves out what is less than the factor: 2 * i + j < 8 is i < 4 for j < 2. Of integers, what is more than
        # -factor times itself is not negative.
        if any(
            analyzer.can_prove(asked * factor + (factor - 1) - given >= 0)
            for factor in _common_factors(given, asked)
        ):
            return True
    with constraints(analyzer, condition):
        return analyzer.can_prove(clause)


def _common_factors(whole: tir.PrimExpr, part: tir.PrimExpr) -> set[int]:
    """By what multiples, of at least 2, variables of a part are in the whole."""
    pairs = [(coefficient_of(whole, var), coefficient_of(part, var)) for var in variables_in(part)]
    return {more // less for more, less in pairs if more and less and more % less == 0 and more // less > 1}


def slack(clause: tir.PrimExpr) -> tir.PrimExpr | None:
    """What is not negative exactly where a comparison of index numbers holds; None of other clauses, and of data, which wraps."""
    if not isinstance(clause, tir.LE | tir.LT | tir.GE | tir.GT) or not is_number(clause.a.dtype):
        return None
    if loads_in(clause):
        return None
    small, large = (clause.a, clause.b) if isinstance(clause, tir.LE | tir.LT) else (clause.b, clause.a)
    if not all(_fits_negated(side) for side in (small, large)):
        return None
    return large - small - (1 if isinstance(clause, tir.LT | tir.GT) else 0)


def _fits_negated(number: tir.PrimExpr) -> bool:
    """Whether another number minus this one, and one less, has constants that its type holds."""
    most = integer_range(number.dtype)[1]
    return all(abs(coefficient) < most // 2 for coefficient in polynomial(number).terms.values())


def clipped(low: Any, extent: Any, dim: Any) -> tuple[Any, Any, bool]:
    """(min, extent, whether it surely lies inside) of a box of a dimension, cut where both are constant."""
    if constant_difference(extent, dim) == 0 and constant_difference(low, 0) == 0:
        return low, extent, True
    if isinstance(low, tir.IntImm) and isinstance(extent, tir.IntImm) and isinstance(dim, tir.IntImm):
        first, last = max(low.value, 0), min(low.value + extent.value, dim.value)
        return tir.const(first, low.dtype), tir.const(max(last - first, 0), extent.dtype), True
    return low, extent, is_open(low) or is_open(extent)
