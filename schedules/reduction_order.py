"""Whether the init of a reduction comes once to each element, and before its updates: what other orders of its instances stand on.

A block's init runs in its own first instance, where all reduction variables are at their begin. What moves the init away from
there, or other instances in front of it, computes the same only where that instance is the first of its element, and the only one.
"""

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
from ir.tir.stmt_functor import substitute

from .affine import Polynomial, constant_difference, mentions, polynomial, variables_in
from .analysis import require, written_buffers
from .bounds import clause_beyond, is_open
from .coverage import only_reduces
from .dependence import has_elements_of_its_own, runs_each_instance_once
from .surroundings import loads_around, nodes_around
from .touches import buffers_read_elsewhere
from .tree import BlockNode, LoopNode, WrapNode, loops_around

_MOST_POINTS = 1 << 18
"""Iterations that are counted."""


def loops_of_sums(block: BlockNode, order: Sequence[LoopNode]) -> Sequence[LoopNode]:
    """Those of the loops around a block that run while an element is reduced: from the outermost on that feeds a reduction."""
    reduced = _values_of_kind(block, IterVar.CommReduce)
    for position, loop in enumerate(order):
        if any(mentions(value, {loop.var}) for value in reduced):
            return order[position:]
    return ()


def why_not_begun_once(block: BlockNode, *orders: Sequence[LoopNode]) -> str | None:
    """The reason why, while some loops around a block run, an element's first instance may not be the one that runs its init, or that one
    may run again; or None.

    Args:
        block: with an init.
        orders: in which the innermost loops around it run, or shall run, outermost first; all that feed its reductions are among them.
    """
    longest = max(orders, key=len)
    if buffers_read_elsewhere(block) and any(not only_reduces(loop, block) for loop in longest):
        return f"block {block.name!r} reads elements that other instances of it initialise"
    if all(loop in longest for order in orders for loop in order) and _is_tiled(block, longest):
        return _why_elements_are_shared(block, longest)
    return next((reason for order in orders if (reason := _why_not_begun_once(block, order))), None)


def _why_not_begun_once(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    name = block.name
    reason = _why_not_free(block, loops)
    if reason is not None:
        return reason
    for loop in loops:
        if not _is_unit(loop.extent) and not any(mentions(value, {loop.var}) for value in block.iter_values):
            return (
                f"loop {loop.var.name!r} repeats block {name!r} without feeding its variables; what is initialised once would be"
                " summed up again"
            )
    if not _runs_once(block, loops):
        names = ", ".join(repr(loop.var.name) for loop in loops)
        return (
            f"the iterations of {names} run instances of block {name!r} more than once; what is initialised once would be summed up"
            " again"
        )
    return _why_elements_are_shared(block, loops) or _why_not_begun_first(block, loops)


def _why_elements_are_shared(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    if has_elements_of_its_own(block, loops):
        return None
    return f"several instances of block {block.name!r} may sum into one element, each of which it initialises"


def _is_tiled(block: BlockNode, loops: Sequence[LoopNode]) -> bool:
    """The common case, in which an init comes first in any order: loops from 0 that are digits of one variable each."""
    if not isinstance(block.predicate, tir.IntImm) or any(
        isinstance(node, WrapNode) for node in nodes_around(block)
    ):
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
    return all(_is_unit(loop.extent) or loop.var in used for loop in loops) and _are_numbers(
        polynomials, loops
    )


def _is_unit(extent: Any) -> bool:
    return isinstance(extent, tir.IntImm) and extent.value == 1


def _is_counted(loop: LoopNode) -> bool:
    """Whether a loop runs from 0 over a number of iterations."""
    return (
        isinstance(loop.extent, tir.IntImm)
        and loop.extent.value > 0
        and isinstance(loop.min, tir.IntImm)
        and loop.min.value == 0
    )


def why_not_run(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    """The reason why loops that feed the reductions of a block may have no iterations over domains that have some; or None.

    They do nothing then, where over an empty domain ``init`` runs: rule ``[reduce-empty]`` of ``docs/semantics.md``.
    """
    reduced = _values_of_kind(block, IterVar.CommReduce)
    domains = _domains(block, IterVar.CommReduce)
    if any(constant_difference(dom.extent, 0) == 0 for dom in domains):
        return None
    for loop in loops:
        if not may_be_empty(loop.extent) or is_open(loop.extent):
            continue
        if not any(mentions(value, {loop.var}) for value in reduced):
            continue
        if any(constant_difference(loop.extent, dom.extent) == 0 for dom in domains):
            continue
        analyzer = _analyzer_of(loops_around(block))
        with constraints(analyzer, *_inhabited(domains)):
            if not analyzer.can_prove(loop.extent > 0):
                return (
                    f"loop {loop.var.name!r} may have no iterations where the domain of the reduction has some, so that block"
                    f" {block.name!r} initialises nothing"
                )
    return None


def predicate_at_begin(
    block: BlockNode, conditions: Sequence[tir.PrimExpr], loops: Sequence[LoopNode], primitive: str
) -> list[tir.PrimExpr]:
    """What conditions say of an element's first instance, where loops that feed no data-parallel variable are at their begin.

    Over a domain that may be empty the init is under those conditions alone that do not depend on such a loop; others must hold by
    themselves.
    """
    if not conditions:
        return []
    begins = _begins(loops)
    domains = _domains(block, IterVar.CommReduce)
    is_inhabited = not any(may_be_empty(dom.extent) for dom in domains)
    analyzer = _analyzer_of(loops_around(block))
    reduced = [
        (item, value)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.iter_type == IterVar.CommReduce
    ]
    kept: list[tir.PrimExpr] = []
    with constraints(analyzer, *_inhabited(domains)):
        for condition in conditions:
            if not mentions(condition, begins):
                kept.append(condition)
                continue
            first = substitute(condition, begins)
            if analyzer.can_prove(first):
                continue
            require(
                all(_is_at_begin(item, value, begins, analyzer) for item, value in reduced),
                primitive,
                f"{condition} says which instance of block {block.name!r} is the first, which is not where the loops begin",
            )
            require(
                is_inhabited,
                primitive,
                f"block {block.name!r} is initialised over an empty domain whether or not {condition} holds, else only where it does",
            )
            kept.append(first)
    return kept


def _is_at_begin(item: IterVar, value: tir.PrimExpr, begins: Mapping[Any, Any], analyzer: Analyzer) -> bool:
    """Whether a variable has its least value where loops are at their begin."""
    first = substitute(value, begins)
    return constant_difference(first, item.dom.min) == 0 or analyzer.can_prove(first == item.dom.min)


def _why_not_free(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    """The reason why what stands around a block may see when its elements are initialised, or decide it; or None."""
    written = written_buffers(block)
    for item in loads_around(block):
        if item.load.buffer in written:
            return f"whether block {block.name!r} runs depends on {item.load.buffer.name}, which it writes"
    below = 0
    for node in nodes_around(block):
        below += any(node is loop for loop in loops)
        if isinstance(node, WrapNode) and below < len(loops):
            return f"a statement {type(node.template).__name__} lies between loop {loops[0].var.name!r} and block {block.name!r}"
    return None


# -- once ----------------------------------------------------------------------------------
def _runs_once(block: BlockNode, loops: Sequence[LoopNode]) -> bool:
    """Whether no two iterations of some loops run one instance; of open tiles that is looked at again when decisions are made."""
    extents = [loop.extent for loop in loops]
    if any(is_open(extent) for extent in extents):
        return True
    if _are_numbers([polynomial(value) for value in block.iter_values], loops):
        return True
    if all(isinstance(extent, tir.IntImm) for extent in extents):
        return runs_each_instance_once(block, loops)
    return _splits(block, loops) is not None


def _are_numbers(values: Sequence[Polynomial], loops: Sequence[LoopNode]) -> bool:
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
            if _is_unit(extent):
                continue
            if step is None or coefficient < step:
                return False
            step = coefficient * extent.value if isinstance(extent, tir.IntImm) else None
    return True


def _splits(block: BlockNode, loops: Sequence[LoopNode]) -> Sequence[IterSumExpr] | None:
    """The variables as digits of loops, all combinations of which run once each; None where they are not known to be that."""
    analyzer = _analyzer_of([item for item in loops_around(block) if item not in loops])
    with constraints(analyzer, *_inhabited([item.dom for item in block.iter_vars])):
        found = detect_iter_map(
            list(block.iter_values),
            {loop.var: loop.range() for loop in loops},
            block.predicate,
            "bijective",
            analyzer=analyzer,
        )
    return found.indices or None


# -- first ---------------------------------------------------------------------------------
def _why_not_begun_first(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    """The reason why an instance may come before the one of its element that has all reduction variables at their begin; or None."""
    spatial, reduced = (_values_of_kind(block, kind) for kind in (IterVar.DataPar, IterVar.CommReduce))
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
    begins = _begins(feeding)
    analyzer = _analyzer_of(loops_around(block))
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
            if not _is_at_begin(item, value, begins, analyzer):
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
    indices = _splits(block, loops)
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
            tir.post_order_visit(
                node, lambda item: found.setdefault(item) if isinstance(item, tir.Var) else None
            )
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


# -- what a block is made of ---------------------------------------------------------------
def _values_of_kind(block: BlockNode, kind: int) -> list[tir.PrimExpr]:
    return [
        value
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.iter_type == kind
    ]


def _domains(block: BlockNode, kind: int) -> list[tir.Range]:
    return [item.dom for item in block.iter_vars if item.iter_type == kind]


def _inhabited(domains: Sequence[tir.Range]) -> list[tir.PrimExpr]:
    return [dom.extent > 0 for dom in domains if may_be_empty(dom.extent)]


def _begins(loops: Sequence[LoopNode]) -> dict[Any, tir.PrimExpr]:
    """The variables of loops at their begin; that of one may depend on those before it."""
    begins: dict[Any, tir.PrimExpr] = {}
    for loop in loops:
        begins[loop.var] = substitute(loop.min, begins)
    return begins


def _analyzer_of(loops: Sequence[LoopNode]) -> Analyzer:
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.var, loop.range())
    return analyzer
