"""Which instance of an element a reduction block runs first: the one that has all reduction variables at their begin runs its init."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ir import tir
from ir.arith import Analyzer, detect_iter_map
from ir.arith.analyzer import constraints
from ir.arith.iter_map_expr import IterSplitExpr, IterSumExpr
from ir.error import IRError
from ir.tir import IterVar
from ir.tir.analysis.empty_domains import may_be_empty
from ir.tir.evaluate import Evaluator
from ir.tir.stmt_functor import substitute, variables_in

from .affine import Polynomial, constant_difference, mentions, polynomial
from .bounds import analyzer_of, clause_beyond, is_open
from .surroundings import nodes_around
from .tree import BlockNode, LoopNode, WrapNode, loops_around

_MOST_POINTS = 1 << 18
"""Iterations that are counted."""


def why_not_begun_first(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    """The reason why an instance may come before the one of its element that has all reduction variables at their begin; or None."""
    spatial, reduced = (values_of_kind(block, kind) for kind in (IterVar.DataPar, IterVar.CommReduce))
    feeding = [loop for loop in loops if any(mentions(value, {loop.var}) for value in reduced)]
    mixed = [loop for loop in feeding if any(mentions(value, {loop.var}) for value in spatial)]
    if any(is_open(loop.extent) for loop in mixed):
        return None  # looked at again when decisions are made
    reason = (
        _why_digits_do_not_begin(block, loops) if mixed else _why_loops_do_not_begin(block, loops, feeding)
    )
    return None if reason is None or _begins_by_count(block, loops) else reason


def _why_loops_do_not_begin(
    block: BlockNode, loops: Sequence[LoopNode], feeding: Sequence[LoopNode]
) -> str | None:
    """The same where loops feed variables of one kind: those of the reductions stand at their begin, the others anywhere."""
    begins = begins_of(feeding)
    analyzer = analyzer_of(loops_around(block))
    for loop in loops:
        if not mentions(loop.extent, begins) and not mentions(loop.min, begins):
            continue
        if loop not in feeding or not analyzer.can_prove(substitute(loop.extent, begins) > 0):
            return (
                f"loop {loop.var.name!r} around block {block.name!r} runs over {loop.extent}, which need not have iterations where the"
                " reduction begins"
            )
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if item.iter_type == IterVar.CommReduce:
            if not is_at_begin(item, value, begins, analyzer):
                return (
                    f"the reduction {item.var.name!r} of block {block.name!r}, bound to {value}, does not begin at {item.dom.min}, where it"
                    " is initialised"
                )
    clause = clause_beyond(block.predicate, [block.predicate], loops_around(block), begins)
    if clause is not None:
        return f"the predicate {clause} of block {block.name!r} may not hold where the reduction begins, which is where it is initialised"
    return None


def _why_digits_do_not_begin(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    """The same where a loop feeds variables of both kinds: where they are digits of numbers that the loops count up, those of the
    reductions are all 0 first.
    """
    indices = digits_of(block, loops)
    if indices is None:
        return f"the variables of block {block.name!r} are no digits of the loops around it, so that its init need not be first"
    kinds: dict[Any, set[int]] = {}
    for item, index in zip(block.iter_vars, indices, strict=True):
        if item.iter_type == IterVar.CommReduce and constant_difference(index.base, item.dom.min) != 0:
            return (
                f"the reduction {item.var.name!r} of block {block.name!r} begins at {index.base}, not at {item.dom.min}, where it is"
                " initialised"
            )
        for split in index.args:
            for part in _numbers_of(split):
                kinds.setdefault(part, set()).add(item.iter_type)
    nest = {loop.var: position for position, loop in enumerate(loops)}
    for index in indices:
        for split in index.args:
            names = _numbers_of(split)
            if any(len(kinds[part]) > 1 for part in names) and not _counts_up(split, nest):
                text = ", ".join(repr(part.name) for part in names)
                return (
                    f"loops {text} feed variables of both kinds of block {block.name!r} and do not run in the order of its elements, so"
                    " that its init is not first"
                )
    return None


def _numbers_of(split: IterSplitExpr) -> list[tir.Var]:
    """The loops whose number a split is a digit of."""
    found: dict[tir.Var, None] = {}
    pending: list[Any] = [split.source.source]
    while pending:
        node = pending.pop()
        if isinstance(node, IterSumExpr):
            pending += [part.source.source for part in node.args]
        else:
            found.update(dict.fromkeys(variables_in(node)))
    return list(found)


def _counts_up(split: IterSplitExpr, nest: Mapping[Any, int]) -> bool:
    """Whether the number that a split is a digit of grows from iteration to iteration: that of a loop, or of loops in their order."""
    source = split.source.source
    if isinstance(source, tir.Var):
        return True
    if not isinstance(source, IterSumExpr):
        return False
    steps: list[tuple[int, int]] = []
    for part in source.args:
        var, scale = part.source.source, part.scale
        is_whole = (
            constant_difference(part.lower_factor, 1) == 0
            and constant_difference(part.extent, part.source.extent) == 0
        )
        if var not in nest or not is_whole or not isinstance(scale, tir.IntImm) or scale.value <= 0:
            return False
        steps.append((nest[var], scale.value))
    scales = [scale for _, scale in sorted(steps)]
    return scales == sorted(scales, reverse=True)


def _begins_by_count(block: BlockNode, loops: Sequence[LoopNode]) -> bool:
    """Whether a look at each iteration, where these are few, finds the init of an element in its first one, and in no other."""
    exprs = [*block.iter_values, block.predicate]
    used = {var for expr in exprs for var in variables_in(expr)}
    outer = [item for item in loops_around(block) if item not in loops and item.var in used]
    running = [*outer, *[item for item in loops if item.var in used]]
    bounds = [
        (item.min.value, item.extent.value)
        for item in running
        if isinstance(item.min, tir.IntImm) and isinstance(item.extent, tir.IntImm)
    ]
    if len(bounds) < len(running) or math.prod([max(extent, 0) for _, extent in bounds]) > _MOST_POINTS:
        return False
    grid = [
        axis.reshape(-1) for axis in np.meshgrid(*[np.arange(a, a + n) for a, n in bounds], indexing="ij")
    ]
    values = Evaluator(dict(zip([item.var for item in running], grid, strict=True)))
    shape = (math.prod([extent for _, extent in bounds]),)
    try:
        found = [np.broadcast_to(values.visit(expr), shape) for expr in exprs]
    except IRError:
        return False  # loads, and variables that no loop runs over
    holds = found.pop().astype(bool)
    if not holds.any():
        return False  # an init over nothing runs all the same: rule [reduce-empty]
    key = [axis[holds] for axis in grid[: len(outer)]]
    begins = np.ones(int(holds.sum()), bool)
    for item, value in zip(block.iter_vars, found, strict=True):
        if item.iter_type != IterVar.CommReduce:
            key.append(value[holds])
        elif isinstance(item.dom.min, tir.IntImm):
            begins &= value[holds] == item.dom.min.value
        else:
            return False
    rows = np.stack([np.zeros(len(begins), np.int64), *key], 1)
    elements, first = np.unique(rows, axis=0, return_index=True)
    return bool(begins[first].all()) and int(begins.sum()) == len(elements)


def is_at_begin(item: IterVar, value: tir.PrimExpr, begins: Mapping[Any, Any], analyzer: Analyzer) -> bool:
    """Whether a variable has its least value where loops are at their begin."""
    first = substitute(value, begins)
    return constant_difference(first, item.dom.min) == 0 or analyzer.can_prove(first == item.dom.min)


def is_tiled(block: BlockNode, loops: Sequence[LoopNode]) -> bool:
    """The common case, in which an init comes first in any order: loops from 0 that are digits of one variable each."""
    if not block.is_unconditional or any(isinstance(node, WrapNode) for node in nodes_around(block)):
        return False
    if not all(_is_counted(loop) for loop in loops_around(block)):
        return False
    running = {loop.var for loop in loops}
    polynomials = [polynomial(value) for value in block.iter_values]
    for item, poly in zip(block.iter_vars, polynomials, strict=True):
        if item.iter_type == IterVar.CommReduce:
            begins = constant_difference(item.dom.min, poly.terms.get((), 0)) == 0
            if not begins or any(atom not in running for monomial in poly.terms for atom in monomial):
                return False
    used = {atom for poly in polynomials for monomial in poly.terms for atom in monomial}
    return all(is_unit(loop.extent) or loop.var in used for loop in loops) and are_numbers(polynomials, loops)


def is_unit(extent: Any) -> bool:
    return isinstance(extent, tir.IntImm) and extent.value == 1


def _is_counted(loop: LoopNode) -> bool:
    """Whether a loop runs from 0 over a number of iterations."""
    return (
        isinstance(loop.extent, tir.IntImm)
        and loop.extent.value > 0
        and isinstance(loop.min, tir.IntImm)
        and loop.min.value == 0
    )


def are_numbers(values: Sequence[Polynomial], loops: Sequence[LoopNode]) -> bool:
    """The common case: each value is a number whose digits are loops of its own, the first of which may have any extent."""
    running = {loop.var: loop for loop in loops}
    seen: set[Any] = set()
    for value in values:
        digits: list[tuple[int, tir.PrimExpr]] = []
        for monomial, coefficient in value.terms.items():
            atom = monomial[0] if len(monomial) == 1 else None
            if atom in running:
                if atom in seen:
                    return False
                seen.add(atom)
                digits.append((abs(coefficient), running[atom].extent))
            elif any(mentions(item, running) for item in monomial):
                return False
        step: int | None = 1
        for coefficient, extent in sorted(digits, key=lambda digit: digit[0]):
            if is_unit(extent):
                continue
            if step is None or coefficient < step:
                return False
            step = coefficient * extent.value if isinstance(extent, tir.IntImm) else None
    return True


def digits_of(block: BlockNode, loops: Sequence[LoopNode]) -> Sequence[IterSumExpr] | None:
    """The variables as digits of loops, all combinations of which run once each; None where they are not known to be that."""
    analyzer = analyzer_of([item for item in loops_around(block) if item not in loops])
    with constraints(analyzer, *inhabited([item.dom for item in block.iter_vars])):
        found = detect_iter_map(
            list(block.iter_values),
            {loop.var: loop.range() for loop in loops},
            block.predicate,
            "bijective",
            analyzer=analyzer,
        )
    return found.indices or None


def values_of_kind(block: BlockNode, kind: int) -> list[tir.PrimExpr]:
    return [
        value
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.iter_type == kind
    ]


def domains_of(block: BlockNode, kind: int) -> list[tir.Range]:
    return [item.dom for item in block.iter_vars if item.iter_type == kind]


def inhabited(domains: Sequence[tir.Range]) -> list[tir.PrimExpr]:
    return [dom.extent > 0 for dom in domains if may_be_empty(dom.extent)]


def begins_of(loops: Sequence[LoopNode]) -> dict[Any, tir.PrimExpr]:
    """The variables of loops at their begin; that of one may depend on those before it."""
    begins: dict[Any, tir.PrimExpr] = {}
    for loop in loops:
        begins[loop.var] = substitute(loop.min, begins)
    return begins
