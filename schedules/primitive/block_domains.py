"""Which values of a block's variables touch given boxes of buffers: the indices of its accesses, solved for the variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ir import tir
from ir.arith import Analyzer, detect_iter_map, int_set, inverse_affine_iter_map

from ..affine import Polynomial, constant_difference, mentions, polynomial, simplify_polynomial, split_by
from ..analysis import producers_of, require
from ..bounds import analyzer_of, is_open
from ..region import Box, contains, relax_loops, union_boxes
from ..tree import BlockNode, LoopNode, is_ancestor, loops_around, loops_below


def solve_domains(
    block: BlockNode,
    regions: tuple[tir.BufferRegion, ...],
    boxes: Mapping[tir.Buffer, Box],
) -> dict[Any, tuple[Any, Any]]:
    """The (min, extent) of each block variable that covers the boxes; variables that some access does not determine are absent.

    Args:
        block: whose variables they are.
        regions: what the block accesses.
        boxes: what is to be covered, by buffer.
    """
    domains: dict[Any, tuple[Any, Any]] = {}
    unsolved: set[Any] = set()
    for region in regions:
        box = boxes.get(region.buffer)
        if box is None:
            continue
        solutions = [
            _solve_index(index, low, extent) for index, (low, extent) in zip(region.region, box, strict=True)
        ]
        if any(item is None for item in solutions):
            solutions = _solve_jointly(block, region, box) or solutions
        known = {solved[0] for solved in solutions if solved is not None}
        unsolved |= {
            item.var
            for item in block.iter_vars
            if item.var not in known and any(mentions(index.min, {item.var}) for index in region.region)
        }
        for solved in solutions:
            if solved is None:
                continue
            var, low, extent = solved
            if var not in domains:
                domains[var] = (low, extent)
            else:
                dom = domain_of(block, var)
                ((low_a, extent_a),) = union_boxes([[domains[var]], [(low, extent)]], [dom.extent])
                domains[var] = (low_a, extent_a)
    return {var: domain for var, domain in domains.items() if var not in unsolved}


def within_iteration(
    block: BlockNode, domains: Mapping[Any, tuple[Any, Any]], loop: LoopNode
) -> dict[Any, tuple[Any, Any]]:
    """The (min, extent) of each block variable without what other iterations of a loop around both the block and what it reads run.

    A box is covered by whole tiles, and more of them than it needs where its begin is not known to be that of one. In another iteration
    such an instance has its inputs; in this one nobody may have written them yet.

    Args:
        block: is where it was.
        domains: of its variables under the new loop.
        loop: under which it will be.

    Raises:
        ScheduleError: which of the instances this iteration runs is not known.
    """
    producers = producers_of(block)
    around = [item for item in loops_around(block) if is_ancestor(item, loop)]
    place = next(
        (item for item in reversed(around) if any(is_ancestor(item, other) for other in producers)), None
    )
    found = dict(domains)
    if place is None:
        return found
    inner = loops_below(block, place)
    analyzer = analyzer_of((*loops_around(loop), loop))
    for var, value, dom in _bound_variables(block):
        low, extent = domains.get(var, (dom.min, dom.extent))
        point = tir.Range.from_min_extent(value - dom.min, tir.const(1, value.dtype))
        ((first, size),) = relax_loops([point], inner, [dom.extent])
        own = analyzer.simplify(first + dom.min), size
        asked = analyzer.simplify(low), analyzer.simplify(extent)
        if contains([own], [asked]) or contains(
            [own], [(dom.min, dom.extent)]
        ):  # what is beyond the domain is guarded
            continue
        if _lies_in(own, asked, analyzer):
            found[var] = own
            continue
        known = any(is_open(part) for part in (*own, *asked)) or _lies_in(asked, own, analyzer)
        require(
            known,
            "compute_at",
            f"under loop {loop.var.name!r} block {block.name!r} would run for {asked[1]} values of {var.name} from {asked[0]} on, and"
            f" under loop {place.var.name!r}, where what it reads is made, it runs for {own[1]} from {own[0]} on",
        )
    return found


def _lies_in(inner: tuple[Any, Any], outer: tuple[Any, Any], analyzer: Analyzer) -> bool:
    """Whether one range is within another for all values of the loops around."""
    (low, extent), (first, size) = inner, outer
    return bool(
        contains([outer], [inner])
        or (analyzer.can_prove(low >= first) and analyzer.can_prove(low + extent <= first + size))
    )


def _bound_variables(block: BlockNode) -> list[tuple[Any, Any, tir.Range]]:
    return [
        (item.var, value, item.dom) for item, value in zip(block.iter_vars, block.iter_values, strict=True)
    ]


def domain_of(block: BlockNode, var: tir.Var) -> tir.Range:
    """The values that a block variable takes."""
    return next(item.dom for item in block.iter_vars if item.var is var)


def _solve_index(index: tir.Range, low: Any, extent: Any) -> tuple[Any, Any, Any] | None:
    """Solve for the variable where the index is ``var + c``, ``var * c`` or ``var // c``: (variable, min, extent).

    Windows that overlap are not solved: which of the instances that write an element is the last is said by more than the element.
    """
    if not isinstance(index.extent, tir.IntImm):
        return None
    if (
        isinstance(index.min, tir.FloorDiv)
        and isinstance(index.min.a, tir.Var)
        and isinstance(index.min.b, tir.IntImm)
    ):
        factor = index.min.b.value
        if index.extent.value > 1:
            return None
        return index.min.a, simplify_polynomial(low * factor), simplify_polynomial(extent * factor)
    poly = polynomial(index.min)
    variables = [m for m in poly.terms if m]
    if len(variables) != 1 or len(variables[0]) != 1:
        return None
    (var,), factor = variables[0], poly.terms[variables[0]]
    if not isinstance(var, tir.Var) or factor < max(index.extent.value, 1):
        return None
    low = simplify_polynomial(low - poly.terms.get((), 0))
    if factor == 1:
        return var, low, extent
    if not isinstance(extent, tir.IntImm):
        return None
    first, last = tir.floordiv(low, factor), tir.floordiv(low + (extent - 1), factor)
    exact = constant_difference(low, simplify_polynomial(polynomial_quotient(low, factor) * factor))
    if exact == 0:
        return (
            var,
            polynomial_quotient(low, factor),
            tir.const((extent.value - 1) // factor + 1, extent.dtype),
        )
    if isinstance(low, tir.IntImm):
        return var, first, last - first + 1
    # Where the box starts between two multiples, one more of them may lie in it.
    return var, first, tir.const((extent.value - 1) // factor + 2, extent.dtype)


def polynomial_quotient(expr: Any, factor: int) -> Any:
    """The expression with every coefficient divided by ``factor``, rounding down."""
    poly = polynomial(expr)
    return Polynomial({m: c // factor for m, c in poly.terms.items() if c // factor}, poly.dtype).to_expr()


def _solve_jointly(block: BlockNode, region: tir.BufferRegion, box: Box) -> list[Any] | None:
    """Solve a bijective map from block variables to indices, such as ``B[v // 16, v % 16]``, by its inverse."""
    if not all(is_constant(item.extent, 1) for item in region.region):
        return None
    used = [
        item for item in block.iter_vars if any(mentions(index.min, {item.var}) for index in region.region)
    ]
    if not all(isinstance(item.dom.extent, tir.IntImm) for item in used):
        return None
    found = detect_iter_map(
        [item.min for item in region.region], {item.var: item.dom for item in used}, True, "bijective"
    )
    if not found.indices:
        return None
    points = [tir.Var(f"i{n}", item.min.dtype) for n, item in enumerate(region.region)]
    inverse = inverse_affine_iter_map(found.indices, points)
    analyzer = Analyzer()
    lows = {point: low for point, (low, _) in zip(points, box, strict=True)}
    spans = {
        point: int_set.IntervalSet(tir.const(0, point.dtype), extent - 1)
        for point, (_, extent) in zip(points, box, strict=True)
    }
    result = []
    for item in used:
        value = inverse.get(item.var)
        if value is None:
            return None
        parts = split_by(polynomial(value), spans)
        if parts is not None:
            base = analyzer.simplify(tir.substitute(value, lows))
            reach: Any = tir.const(1, item.var.dtype)
            for point, terms in parts[0].items():
                coefficient = Polynomial(terms, item.var.dtype).constant()
                if coefficient is None or coefficient < 0:
                    return None
                reach = reach + coefficient * spans[point].max_value
            result.append((item.var, base, simplify_polynomial(reach)))
            continue
        domains = {
            point: int_set.IntervalSet(low, analyzer.simplify(low + extent - 1))
            for point, (low, extent) in zip(points, box, strict=True)
        }
        bounds = analyzer.int_set(value, domains)
        if bounds.is_everything() or bounds.is_nothing():
            return None
        result.append(
            (item.var, bounds.min_value, analyzer.simplify(bounds.max_value - bounds.min_value + 1))
        )
    return result


def is_constant(expr: Any, value: int) -> bool:
    """Whether an expression is this integer."""
    return isinstance(expr, tir.IntImm) and expr.value == value
