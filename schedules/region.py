"""Regions: which box of a buffer is touched when some loops run and others stand still.

For an index that is linear in the running loops the box is exact per dimension: its extent is
``1 + sum(|coefficient| * (extent - 1))``. Extents may be integers or products of decision variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir import tir
from ir.arith import Analyzer, ProofStrength, int_set
from ir.tir.operators import index_number
from ir.tir.stmt_functor import substitute, variables_in

from .affine import (
    Polynomial,
    constant_difference,
    exact_quotient,
    floor_quotient,
    mentions,
    polynomial,
    simplify_polynomial,
    split_by,
    widened,
)
from .bounds import is_open
from .foreign import foreign_call
from .random_variable import DecisionVar
from .tree import LoopNode

Box = list[tuple[tir.PrimExpr, tir.PrimExpr]]
"""(min, extent) per dimension."""


def relax_index(
    index: Any, running: Mapping[Any, tir.PrimExpr], shape: Sequence[Any] = ()
) -> tuple[tir.PrimExpr, tir.PrimExpr] | None:
    """The (min, extent), as index numbers, that an index covers while the ``running`` variables go from 0 up to their extents.

    Symbolic extents in ``shape`` are not negative. None when the index is not affine in them and interval arithmetic finds no bound either.
    """
    index = index_number(tir.convert(index))
    if not isinstance(index, tir.Var | tir.IntImm) and foreign_call(index) is not None:
        return None  # called for the box as well, it might say another place
    if not running:
        return index, tir.const(1, index.dtype)
    poly = polynomial(index)
    parts = split_by(poly, running)
    if parts is None and (digits := {**_digits(poly, running), **_narrow(poly, running)}):
        moved = Polynomial(
            {tuple(digits[a][0] if a in digits else a for a in m): c for m, c in poly.terms.items()},
            poly.dtype,
        )
        running = {**running, **dict(digits.values())}
        parts = split_by(moved, running)
    if parts is None:
        return _relax_quotient(index, running, shape) or _relax_by_intervals(index, running)
    coefficients, rest = parts
    if not all(_has_known_sign(terms, running, shape) for terms in coefficients.values()):
        return _relax_by_intervals(index, running)
    low: Any = Polynomial(rest, index.dtype).to_expr()
    extent: Any = tir.const(1, index.dtype)
    for var, terms in coefficients.items():
        reach = tir.cast(index.dtype, running[var]) - 1
        coefficient = Polynomial(terms, index.dtype).to_expr()
        if all(value < 0 for value in terms.values()):
            low = low + coefficient * reach
            coefficient = simplify_polynomial(coefficient * -1)
        extent = extent + coefficient * reach
    return simplify_polynomial(low), simplify_polynomial(extent)


def _relax_quotient(
    index: tir.PrimExpr, running: Mapping[Any, tir.PrimExpr], shape: Sequence[Any]
) -> tuple[tir.PrimExpr, tir.PrimExpr] | None:
    """What a quotient by a number covers, from what is divided: of whole tiles the ends are quotients without a remainder, which intervals
    of open extents do not find.
    """
    if not isinstance(index, tir.FloorDiv) or not isinstance(index.b, tir.IntImm) or index.b.value <= 0:
        return None
    found = relax_index(index.a, running, shape)
    if found is None:
        return None
    low, high = (floor_quotient(end, index.b.value) for end in (found[0], found[0] + found[1] - 1))
    return None if low is None or high is None else (low, simplify_polynomial(high - low + 1))


def _has_known_sign(
    terms: Mapping[Any, int], running: Mapping[Any, tir.PrimExpr], shape: Sequence[Any]
) -> bool:
    """Whether a coefficient is known to be not negative, or not positive: a number, or a product of extents; data may be either."""
    atoms = {atom for monomial in terms for atom in monomial}
    if not atoms:
        return True
    if not (all(value > 0 for value in terms.values()) or all(value < 0 for value in terms.values())):
        return False
    unknown = [atom for atom in atoms if not isinstance(widened(atom), DecisionVar | tir.SizeVar)]
    extents = (*running.values(), *shape)
    return all(
        isinstance(atom, tir.Var) and any(mentions(extent, {atom}) for extent in extents) for atom in unknown
    )


def _digits(poly: Polynomial, running: Mapping[Any, tir.PrimExpr]) -> dict[Any, tuple[tir.Var, tir.PrimExpr]]:
    """For each digit of a running variable in an index with open extents, such as ``fused // b % a``, a variable and its extent.

    Intervals of quotients by open extents are not bounded; with numbers they are exact, and stay what they were.
    """
    found: dict[Any, tuple[tir.Var, tir.PrimExpr]] = {}
    if not any(is_open(extent) for extent in running.values()):
        return found
    for monomial in poly.terms:
        for atom in monomial:
            if isinstance(atom, tir.FloorDiv | tir.FloorMod) and mentions(atom, running):
                count = _values_of_digit(atom, running)
                if count is not None:
                    found[atom] = tir.Var("digit", atom.dtype), count
    return found


def _narrow(poly: Polynomial, running: Mapping[Any, tir.PrimExpr]) -> dict[Any, tuple[tir.Var, tir.PrimExpr]]:
    """For each running variable that is no index number, cast to one in an index, a variable that counts in its place and its extent.

    Intervals would bound the extent ``n + T.uint8(1)`` by what its type holds, also where it stands still.
    """
    return {
        atom: (tir.Var(atom.value.name, atom.dtype), tir.cast(atom.dtype, running[atom.value]))
        for monomial in poly.terms
        for atom in monomial
        if isinstance(atom, tir.Cast) and isinstance(atom.value, tir.Var) and atom.value in running
    }


def _values_of_digit(expr: Any, running: Mapping[Any, tir.PrimExpr]) -> tir.PrimExpr | None:
    """How many values, from 0, an expression takes whose variables run; None where that is not known."""
    if isinstance(expr, tir.Var):
        return running.get(expr)
    if not isinstance(expr, tir.FloorDiv | tir.FloorMod) or mentions(expr.b, running):
        return None
    count = _values_of_digit(expr.a, running)
    if count is None:
        return None
    quotient = exact_quotient(count, expr.b)
    if isinstance(expr, tir.FloorMod):
        return expr.b if quotient is not None else None
    return quotient


def _relax_by_intervals(index: tir.PrimExpr, running: Mapping[Any, tir.PrimExpr]) -> tuple[Any, Any] | None:
    analyzer = Analyzer()
    domains = {}
    for var in _that_matter(index, running):
        extent = running[var]
        last = index_number(tir.cast(var.dtype, extent)) - 1
        domains[var] = int_set.IntervalSet(tir.const(0, last.dtype), last)
        analyzer.bind(var, tir.Range.from_min_extent(tir.const(0, var.dtype), tir.cast(var.dtype, extent)))
    found = analyzer.int_set(index, domains)
    if found.is_nothing() or found.is_everything():
        return None
    low, high = found.min_value, found.max_value
    if not _finite(low) or not _finite(high):
        return None
    return analyzer.simplify(low), analyzer.simplify(high - low + 1)


def _that_matter(index: tir.PrimExpr, running: Mapping[Any, tir.PrimExpr]) -> list[Any]:
    """The running variables in an index and, as extents may name others, in the extents of those."""
    found: set[Any] = set()
    new = set(variables_in(index))
    while new := (new - found) & running.keys():
        found |= new
        new = set(variables_in(*[running[var] for var in new]))
    return [var for var in running if var in found]


def _finite(expr: tir.PrimExpr) -> bool:
    found: list[Any] = []
    tir.post_order_visit(expr, lambda node: found.append(node) if int_set.is_infinite(node) else None)
    return not found


def relax_region(
    region: Sequence[tir.Range], running: Mapping[Any, tir.PrimExpr], shape: Sequence[Any]
) -> Box:
    """The box that a region covers while ``running`` variables run, dimension by dimension; the whole dimension of
    ``shape`` where no bound is found.
    """
    box: Box = []
    for item, dim in zip(region, shape, strict=True):
        found = relax_index(item.min, running, shape)
        if found is None:
            box.append((tir.const(0, dim.dtype), dim))
            continue
        low, extent = found
        inner = relax_index(item.extent, running, shape)
        size = item.extent if inner is None else inner[0] + inner[1] - 1
        extent = simplify_polynomial(extent + size - 1)
        if mentions(low, running) or mentions(extent, running):
            low, extent = tir.const(0, dim.dtype), dim  # loops whose extents depend on each other
        box.append((low, extent))
    return box


def relax_loops(region: Sequence[tir.Range], loops: Sequence[LoopNode], shape: Sequence[Any]) -> Box:
    """:func:`relax_region` while loops run, wherever they start."""
    return relax_domains(region, {loop.var: loop.range() for loop in loops}, shape)


def relax_domains(region: Sequence[tir.Range], domains: Mapping[Any, tir.Range], shape: Sequence[Any]) -> Box:
    """:func:`relax_region` while variables take the values of ranges that may start anywhere."""
    starts = starts_of(domains)
    moved = [substitute(item, starts) for item in region] if starts else region
    return relax_region(moved, extents_from(starts, domains), shape)


def starts_of(domains: Mapping[Any, tir.Range]) -> dict[Any, tir.PrimExpr]:
    """What variables come to that do not start from 0, in terms of variables that do: their ranges may name each other."""
    found: dict[Any, tir.PrimExpr] = {}
    pending = {var: dom.min for var, dom in domains.items() if not _is_zero(dom.min)}
    while pending:
        ready = [var for var, low in pending.items() if not mentions(low, pending)]
        for var in ready:
            low = pending.pop(var)
            found[var] = (substitute(low, found) if found else low) + var
    return found


def extents_from(
    starts: Mapping[Any, tir.PrimExpr], domains: Mapping[Any, tir.Range]
) -> dict[Any, tir.PrimExpr]:
    """How far variables run, in terms of those of :func:`starts_of`."""
    return {
        var: substitute(dom.extent, starts) if starts and not _is_number(dom.extent) else dom.extent
        for var, dom in domains.items()
    }


def lies_inside(item: tir.Range, domains: Mapping[Any, tir.Range], dim: Any) -> bool:
    """Whether a range is part of ``[0, dim)`` for all values of the variables in their domains."""
    ((low, extent),) = relax_domains([item], domains, [dim])
    below, above = constant_difference(low, 0), constant_difference(low + extent, dim)
    if below is not None and above is not None and below >= 0 and above <= 0 and extent is not dim:
        return True
    analyzer = Analyzer()
    for var, dom in domains.items():
        analyzer.bind(var, dom)
    inside = item.min + item.extent <= dim
    return analyzer.can_prove(item.min >= 0) and (
        analyzer.can_prove(inside) or analyzer.can_prove(inside, ProofStrength.SYMBOLIC_BOUND)
    )


def _is_number(expr: Any) -> bool:
    return isinstance(expr, tir.IntImm)


def _is_zero(expr: Any) -> bool:
    return isinstance(expr, tir.IntImm) and expr.value == 0


def point_region(buffer: tir.Buffer, indices: Sequence[tir.PrimExpr]) -> tir.BufferRegion:
    """The region of one element."""
    return tir.BufferRegion(
        buffer, [tir.Range.from_min_extent(index, tir.const(1, index.dtype)) for index in indices]
    )


def union_boxes(boxes: Sequence[Box], shape: Sequence[Any]) -> Box:
    """The smallest box known to contain all; dimensions whose offsets cannot be compared become whole."""
    result = list(boxes[0])
    for box in boxes[1:]:
        for dim, ((low_a, extent_a), (low_b, extent_b)) in enumerate(zip(result, box, strict=True)):
            offset = constant_difference(low_b, low_a)
            if offset is None:
                result[dim] = (tir.const(0, shape[dim].dtype), shape[dim])
                continue
            if offset < 0:
                low_a, extent_a, low_b, extent_b, offset = low_b, extent_b, low_a, extent_a, -offset
            growth = constant_difference(extent_b + offset, extent_a)
            if growth is None:
                extent = tir.operators.max(extent_a, simplify_polynomial(extent_b + offset))
            else:
                extent = simplify_polynomial(extent_b + offset) if growth > 0 else extent_a
            result[dim] = (low_a, extent)
    return result


def contains(outer: Box, inner: Box) -> bool:
    """Whether one box is known to contain another, where both stand still or move alike."""
    for (first, size), (low, extent) in zip(outer, inner, strict=True):
        below = constant_difference(low, first)
        above = constant_difference(first + size, low + extent)
        if below is None or above is None or below < 0 or above < 0:
            return False
    return True


def bind_region(region: Sequence[tir.Range], values: Mapping[Any, Any]) -> list[tir.Range]:
    """A region of a block in terms of the loops around it: block variables replaced by their bindings."""
    return [
        tir.Range.from_min_extent(_bound(item.min, values), _bound(item.extent, values)) for item in region
    ]


def _bound(expr: tir.PrimExpr, values: Mapping[Any, Any]) -> tir.PrimExpr:
    if isinstance(expr, tir.IntImm):
        return expr
    return simplify_polynomial(
        values.get(expr, expr) if isinstance(expr, tir.Var) else substitute(expr, values)
    )
