"""Whether indices take all values of a box while loops run: sums of steps without gaps, each of loops of its own.

What that says of a block, which may leave out instances or store under conditions, is asked in :mod:`.coverage`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ir import tir
from ir.arith import Analyzer, detect_iter_map
from ir.arith.analyzer import constraints
from ir.tir.analysis.empty_domains import may_be_empty
from ir.tir.analysis.undefined_vars import undefined_vars
from ir.tir.stmt_functor import loads_in, substitute, variables_in

from .affine import mentions, polynomial, without_casts
from .bounds import analyzer_of, is_open
from .region import extents_from, relax_domains, relax_index, starts_of
from .tree import BlockNode, loops_around


def fills_box(indices: Sequence[Any], running: Mapping[Any, tir.Range]) -> bool:
    """Whether indices take all values of a box while loops run over ranges, which may depend on each other.

    The loops that no index mentions do not count, as far as they have iterations (see :func:`may_pass_over`).
    """
    starts = {var: item.min + var for var, item in running.items() if mentions(item.min, running)}
    if starts:
        if any(mentions(running[var].min, starts) for var in starts):
            return False
        indices = [substitute(index, starts) for index in indices]
    if any(mentions(item.extent, running) for item in running.values()):
        used = {var: running[var] for var in running if any(mentions(index, {var}) for index in indices)}
        if any(mentions(item.extent, running) for item in used.values()):
            return False
        running = used
    ranges = {
        var: tir.Range.from_min_extent(tir.const(0, var.dtype), item.extent) if var in starts else item
        for var, item in running.items()
    }
    return _fills_rectangle(indices, ranges)


def says_how_far(indices: Sequence[Any], running: Mapping[Any, tir.Range], shape: Sequence[Any]) -> bool:
    """Whether the box of indices depends on all that the extents of the loops in them do: where intervals bound these by constants, such
    as those of a narrow type, the box is not what is filled.
    """
    if all(isinstance(item.extent, tir.IntImm) for item in running.values()):
        return True
    used = [item.extent for var, item in running.items() if any(mentions(index, {var}) for index in indices)]
    free = {var for extent in used for var in variables_in(extent)}
    points = [tir.Range.from_min_extent(index, tir.const(1, index.dtype)) for index in indices]
    ends = [extent for _, extent in relax_domains(points, running, shape)] if free else []
    return all(any(mentions(end, {var}) for end in ends) for var in free)


def may_pass_over(
    block: BlockNode,
    indices: Sequence[Any],
    running: Mapping[Any, tir.Range],
    *,
    asked: Collection[Any] | None = None,
    reduced: Sequence[tir.PrimExpr] = (),
) -> bool:
    """Whether a loop around a block, or in it, may have no iterations, so that nothing is done at the indices, though their box has
    elements: as that of ``i + j`` has while ``j`` runs, for which it is no matter whether ``i`` does.

    Args:
        block: has the indices.
        indices: in terms of the loops around the block.
        running: the loops, and those inside of the block whose indices they are.
        asked: the loops that count; all, if that is not given.
        reduced: domains over which an init is as good as an iteration: it runs where they are empty, too.
    """
    around = loops_around(block)
    doubtful = [
        var
        for var, item in running.items()
        if may_be_empty(item.extent)
        and not is_open(item.extent)
        and (asked is None or var in asked)
        and not _bounds_box(var, indices, running)
    ]
    if not doubtful:
        return False
    analyzer = analyzer_of(around)
    outer = {loop.var for loop in around}
    for var, item in reversed(list(running.items())):
        if var not in outer:
            analyzer.bind(var, item)
    with constraints(analyzer, *[extent > 0 for extent in reduced]):
        return not all(analyzer.can_prove(running[var].extent > 0) for var in doubtful)


def _bounds_box(var: tir.Var, indices: Sequence[tir.PrimExpr], running: Mapping[Any, tir.Range]) -> bool:
    """Whether the box of indices is empty where a loop has no iterations."""
    starts, analyzer = starts_of(running), Analyzer()
    extents = extents_from(starts, running)
    boxes = [relax_index(substitute(index, starts), extents) for index in indices if mentions(index, {var})]
    others = [extent >= 0 for other, extent in extents.items() if other is not var]
    with constraints(analyzer, extents[var] <= 0, *others):
        return any(box is not None and analyzer.can_prove(box[1] <= 0) for box in boxes)


def reduced_extents(block: BlockNode) -> tuple[tir.PrimExpr, ...]:
    """The extents that a block reduces over, if it has an init that runs also where they are empty."""
    if block.init is None:
        return ()
    reduced = [item for item in block.iter_vars if item.iter_type == tir.IterVar.CommReduce]
    extents = tuple(item.dom.extent for item in reduced)
    if any(map(may_be_empty, extents)) and init_names(block, {item.var for item in reduced}):
        return ()
    return extents


def init_names(block: BlockNode, variables: Collection[Any]) -> bool:
    """Whether the init of a block names some variables, by itself or by the views in it."""
    used = set(undefined_vars(block.init))
    sources = [view.source.region for view in block.match_buffers if view.buffer.data in used]
    return not used.isdisjoint(variables) or any(
        mentions(end, variables) for region in sources for item in region for end in (item.min, item.extent)
    )


def may_reduce_over_nothing(block: BlockNode) -> bool:
    """Whether the init of a block may run where no instance does."""
    return any(map(may_be_empty, reduced_extents(block)))


def _fills_rectangle(indices: Sequence[Any], running: Mapping[Any, Any]) -> bool:
    """The same for loops that do not depend on each other."""
    seen: set[Any] = set()
    if all(_fills_interval(index, running, seen) for index in indices):
        return True
    if any(loads_in(index) for index in indices):
        return False
    # Other variables have a value that is not known, and loops begin where they begin: 0 in their place would hide a factor, or what
    # moves beyond the end of a remainder.
    found = detect_iter_map(
        [_of_loops(index, running) for index in indices], dict(running), True, "surjective"
    )
    steps = [item.args[0].scale for item in found.indices if item.args]
    return (
        bool(found.indices)
        and not found.is_padded
        and all(isinstance(step, tir.IntImm) and step.value in (1, -1) for step in steps)
    )


def _of_loops(index: tir.PrimExpr, running: Mapping[Any, Any]) -> tir.PrimExpr:
    """An index in the type that its loops count in: digits of one loop are cast to the types of several variables."""
    return without_casts(index) if running.keys() >= set(variables_in(index)) else index


def _fills_interval(index: Any, running: Mapping[Any, Any], seen: set[Any]) -> bool:
    """Whether an index takes all values between its ends: it is a sum of steps of running loops that no other index has, none of
    which is longer than what the shorter ones reach; or a quotient of such a sum, or all remainders of one.
    """
    if (
        isinstance(index, tir.FloorDiv | tir.FloorMod)
        and isinstance(index.b, tir.IntImm)
        and index.b.value > 0
        and running.keys() >= set(variables_in(index))  # others would move the ends of the remainder's box
    ):
        reach = _reach_without_gaps(index.a, running, seen)
        if isinstance(index, tir.FloorDiv):
            return reach is not None
        return isinstance(reach, int) and reach >= index.b.value
    return _reach_without_gaps(index, running, seen) is not None


def _reach_without_gaps(index: Any, running: Mapping[Any, Any], seen: set[Any]) -> int | tir.PrimExpr | None:
    """How many values a sum of steps takes, or an extent that is not known; None where there may be gaps between them."""
    steps: list[tuple[int, Any]] = []
    for monomial, coefficient in polynomial(index).terms.items():
        inside = [atom for atom in monomial if mentions(atom, running)]
        if not inside:
            continue
        if len(monomial) != 1 or monomial[0] not in running or monomial[0] in seen:
            return None
        seen.add(monomial[0])
        extent = running[monomial[0]].extent
        if not (isinstance(extent, tir.IntImm) and extent.value == 1):
            steps.append((abs(coefficient), extent))
    reach: int | tir.PrimExpr = 1
    for coefficient, extent in sorted(steps, key=lambda step: step[0]):
        if not isinstance(reach, int) or coefficient > reach:
            return None
        reach = reach + coefficient * (extent.value - 1) if isinstance(extent, tir.IntImm) else extent
    return reach
