"""Whether the iterations of a loop may run in any order, or at once: no iteration may write what another reads or writes.

That an iteration touches elements of its own follows, in this order, from linear indices whose equations no two iterations solve; from
a block whose instances write an element each; from a step of the loop that is as long as what an iteration touches in some dimension;
from counting what iterations touch; or from their boxes, compared with each other. A buffer that every iteration fills before it
reads from it is the iteration's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ir import structural_equal, tir
from ir.arith.analyzer import constraints
from ir.tir import IterVar
from ir.tir.analysis.reads_memory import reads_memory
from ir.tir.evaluate import evaluate
from ir.tir.stmt_functor import variables_in

from .affine import (
    Polynomial,
    coefficient_of,
    constant_difference,
    exact_quotient,
    mentions,
    polynomial,
)
from .analysis import is_affine, leaves_beside_blocks, read_buffers, require, scope_children, written_buffers
from .bounds import analyzer_of, is_open
from .disjoint import Access, is_one_to_one, linear_never_meet, never_meet
from .first_instance import are_numbers, digits_of
from .private_memory import is_memory_of_one_thread, is_private
from .region import Box
from .surroundings import loads_around
from .touches import Iteration, Touch, buffers_read_elsewhere, is_steady, memory_written_by
from .tree import BlockNode, LeafNode, LoopNode, loops_around

_MOST_PAIRS = 1024
"""Iterations of which every pair is compared."""
_MOST_TILES = 1 << 20
"""Iterations of which the tiles are counted."""


def why_iterations_conflict(
    loop: LoopNode,
    blocks: Sequence[BlockNode],
    between_blocks: bool = False,
    *,
    as_threads: bool = False,
    is_left: bool = False,
) -> str | None:
    """The reason why two iterations of a loop may touch the same element, one of them writing it; or None where that is ruled out.

    Args:
        loop: the loop; of one with open decisions nothing is said.
        blocks: those below it that count, with the loads around them.
        between_blocks: whether only conflicts of different blocks count, where instances of one may run in any order.
        as_threads: iterations are threads of one block: they share a reduction that the loop runs over, and hand over between blocks
            what lies in shared memory.
        is_left: some of the blocks leave the loop, so that what an iteration keeps to itself counts as well.
    """
    found = conflicts_of_iterations(loop, blocks, between_blocks, as_threads=as_threads, is_left=is_left)
    return next(found, None)


def conflicts_of_iterations(
    loop: LoopNode,
    blocks: Sequence[BlockNode],
    between_blocks: bool = False,
    *,
    as_threads: bool = False,
    is_left: bool = False,
) -> Iterator[str]:
    """All the reasons of :func:`why_iterations_conflict`, one for each write and other access that may meet."""
    if (isinstance(loop.extent, tir.IntImm) and loop.extent.value <= 1) or is_open(loop.extent):
        return
    if any(_stores_something(leaf) for leaf in leaves_beside_blocks(loop)):
        yield f"loop {loop.var.name!r} holds stores that are in no block"
    elif all(_runs_in_first_only(block, loop) for block in blocks):
        return
    iteration = Iteration(loop)
    for buffer in dict.fromkeys(region.buffer for block in blocks for region in block.writes):
        if is_memory_of_one_thread(buffer, loop):
            continue
        touches = [item for block in blocks for item in iteration.touches(block, buffer)]
        pairs = [pair for pair in _pairs(touches) if not (as_threads and _threads_agree(*pair, buffer, loop))]
        if between_blocks:
            pairs = [pair for pair in pairs if not _are_of_one_block(*pair)]
        pairs = [
            (one, other)
            for one, other in pairs
            if not linear_never_meet(one.access, other.access, loop, iteration.outer)
        ]
        if not pairs or (not is_left and is_private(buffer, iteration, touches)):
            continue
        if any(
            buffer in written_buffers(item) and _is_open_and_numbers(item, blocks, loop) for item in blocks
        ):
            continue
        for one, other in pairs:
            if one.is_write and other.is_write and one.block is other.block and _runs_once(one.block, loop):
                continue
            if not _are_disjoint(one, other, loop, iteration.outer):
                kind = "writes" if other.is_write else "reads"
                where = "block" if other.is_stated else "a condition or an index around block"
                yield (
                    f"one iteration of loop {loop.var.name!r} may write to {buffer.name}, in block {one.block.name!r}, what"
                    f" {where} {other.block.name!r} {kind} in another"
                )


def why_overwritten(loop: LoopNode, one: BlockNode, other: BlockNode, buffer: tir.Buffer) -> str | None:
    """The reason why the one block may write, in an iteration of a loop, an element of a buffer that the other writes in another; or None.

    Of a loop with open decisions nothing is said.
    """
    if (isinstance(loop.extent, tir.IntImm) and loop.extent.value <= 1) or is_open(loop.extent):
        return None
    blocks = [one] if one is other else [one, other]
    if is_memory_of_one_thread(buffer, loop) or any(
        _is_open_and_numbers(item, blocks, loop) for item in blocks
    ):
        return None
    iteration = Iteration(loop)
    first, second = (
        [item for item in iteration.touches(block, buffer) if item.is_write] for block in (one, other)
    )
    if all(_are_disjoint(a, b, loop, iteration.outer) for a in first for b in second):
        return None
    who = f"{one.name!r} writes" if one is other else f"{one.name!r} or {other.name!r} writes"
    return (
        f"an iteration of loop {loop.var.name!r} may overwrite what block {who} to {buffer.name} in another"
    )


def _runs_in_first_only(block: BlockNode, loop: LoopNode) -> bool:
    """Whether the predicate of a block holds in the first iteration of a loop only."""
    if block.is_unconditional or not mentions(block.predicate, {loop.var}) or reads_memory(block.predicate):
        return False
    analyzer = analyzer_of(loops_around(block))
    with constraints(analyzer, block.predicate):
        return analyzer.can_prove(tir.EQ(loop.var, loop.min))


def _pairs(touches: Sequence[Touch]) -> list[tuple[Touch, Touch]]:
    """Each write with every other access and with itself."""
    return [
        (one, other)
        for position, one in enumerate(touches)
        if one.is_write
        for number, other in enumerate(touches)
        if number >= position or not other.is_write
    ]


def _are_of_one_block(one: Touch, other: Touch) -> bool:
    """Whether accesses are those of one block: a load around it is not, which runs before and decides of its instances."""
    return one.block is other.block and one.is_stated and other.is_stated


def _threads_agree(one: Touch, other: Touch, buffer: tir.Buffer, loop: LoopNode) -> bool:
    """Whether threads that meet there are ordered by a barrier, share a reduction, or write the same values into shared memory, as
    they do before they share the work of a copy.
    """
    if _is_reduced_over(one.block, loop):
        return True
    is_shared = buffer.scope().startswith("shared")
    return is_shared and (not _are_of_one_block(one, other) or writes_one_value(one.block))


def _is_reduced_over(block: BlockNode, loop: LoopNode) -> bool:
    return any(
        item.iter_type == IterVar.CommReduce and mentions(value, {loop.var})
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
    )


def require_own_elements(block: BlockNode, loops: Sequence[LoopNode], primitive: str) -> None:
    """Refuse to run the instances of a block in another order where :func:`why_order_matters` knows a reason.

    Raises:
        ScheduleError: there is one.
    """
    reason = why_order_matters(block, loops)
    require(reason is None, primitive, f"{reason}")


def why_order_matters(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    """The reason why the instances of a block may not run in another order, or None: several may write one element, whose last value
    stays, or one reads what another writes.

    Args:
        block: says of its variables that they are data-parallel, which is not proved by that.
        loops: those around it whose order changes; what feeds reductions only may.
    """
    if writes_one_value(block):
        return None
    for loop in loops:
        feeds = {
            item.iter_type
            for item, value in zip(block.iter_vars, block.iter_values, strict=True)
            if mentions(value, {loop.var})
        }
        if feeds == {IterVar.CommReduce}:
            continue
        reason = why_iterations_conflict(loop, [block])
        if reason is not None:
            return reason
    return None


def writes_one_value(block: BlockNode) -> bool:
    """Whether the place of an element tells which instance of a block writes it: written again, it gets the same value."""
    return (
        bool(block.iter_vars)
        and not written_buffers(block) & _loaded_buffers(block)
        and has_elements_of_its_own(block)
    )


def _loaded_buffers(block: BlockNode) -> set[tir.Buffer]:
    """What a block reads, and what loads around it do."""
    around = {item.load.buffer for item in loads_around(block)}
    return read_buffers(block) | buffers_read_elsewhere(block) | around


def has_elements_of_its_own(block: BlockNode, loops: Sequence[LoopNode] | None = None) -> bool:
    """Whether the place of an element tells the data-parallel variables of the instances that write it, of those alone that some loops
    feed if these are given.
    """
    running = None if loops is None else {loop.var for loop in loops}
    needed = {
        item.var
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.iter_type == IterVar.DataPar
        and constant_difference(item.dom.extent, 1) != 0
        and (running is None or mentions(value, running))
    }
    changing = memory_written_by(scope_children(block))
    return all(
        needed <= _determined(place, block, changing) or _tells_apart(place, block, needed, changing)
        for place in _places_written(block)
    )


def _places_written(block: BlockNode) -> list[list[tir.Range]]:
    """For each buffer that a block writes: the dimensions in which all of its stores write the same place.

    Two stores that each reach every element once may well meet: ``y[i]`` and ``y[15 - i]``.
    """
    regions: dict[tir.Buffer, list[Sequence[tir.Range]]] = {}
    for item in block.writes:
        regions.setdefault(item.buffer, []).append(item.region)
    return [
        [
            dims[0]
            for dims in zip(*stores, strict=True)
            if all(structural_equal(dims[0], dim) for dim in dims[1:])
        ]
        for stores in regions.values()
    ]


def runs_each_instance_once(block: BlockNode, loops: Sequence[LoopNode]) -> bool:
    """Whether no two iterations of some loops around a block, the others standing still, run the same instance of it; of open tiles that
    is looked at again when decisions are made.
    """
    extents = [loop.extent for loop in loops]
    if any(is_open(extent) for extent in extents):
        return True
    if are_numbers([polynomial(value) for value in block.iter_values], loops):
        return True
    if not all(isinstance(extent, tir.IntImm) for extent in extents):
        return digits_of(block, loops) is not None
    around = loops_around(block)
    # Of symbolic extents an affine map says nothing: they are not counted.
    is_counted = all(isinstance(item.extent, tir.IntImm) or is_open(item.extent) for item in around)
    if is_counted and is_affine(block) and _runs_no_more_than_instances(block):
        return True
    values = [tir.Range.from_min_extent(value, 1) for value in block.iter_values]
    others = [item for item in around if not any(item is loop for loop in loops)]
    for position, loop in enumerate(loops):
        access = Access(values, loops[position + 1 :], block.predicate)
        if not never_meet(access, access, loop, [*others, *loops[:position]]):
            return False
    return True


def _determined(place: Sequence[tir.Range], block: BlockNode, changing: set[tir.Var]) -> set[Any]:
    """The variables whose values the place of an element tells: indices themselves, and those of which two indices are both digits to one
    base, which is the same for all instances.
    """
    variables = {item.var for item in block.iter_vars}
    found: set[Any] = set()
    quotients: list[tuple[Any, Any]] = []
    remainders: list[tuple[Any, Any]] = []
    for item in place:
        index = item.min
        if constant_difference(item.extent, 1) != 0:
            continue
        if isinstance(index, tir.Var):
            found.add(index)
        elif isinstance(index, tir.FloorDiv | tir.FloorMod) and is_steady(index.b, changing, variables):
            (quotients if isinstance(index, tir.FloorDiv) else remainders).append((index.a, index.b))
    for value, base in quotients:
        if any(value is other and structural_equal(base, digit) for other, digit in remainders):
            found.add(value)
    return found


def _tells_apart(
    place: Sequence[tir.Range], block: BlockNode, needed: set[Any], changing: set[tir.Var]
) -> bool:
    """Whether two instances of a block that differ in some variables never write places that meet.

    Other variables of the block that stand in an index must be told, too.
    """
    steady = [item for item in place if is_steady(item.min, changing) and is_steady(item.extent, changing)]
    domains = {
        item.var: item.dom
        for item in block.iter_vars
        if item.var in needed or any(mentions(part.min, {item.var}) for part in steady)
    }
    moving: list[tir.PrimExpr] = []
    for item in steady:
        total = tir.const(0, item.min.dtype)
        for term in _moving_terms(item.min, set(domains)):
            step = exact_quotient(term, item.extent)
            if step is None:
                return False
            total = total + step
        moving.append(total)
    return is_one_to_one(moving, domains)


def _moving_terms(index: Any, variables: set[Any]) -> list[tir.PrimExpr]:
    """The terms of an index in which some variables are."""
    return [
        Polynomial({monomial: factor}, index.dtype).to_expr()
        for monomial, factor in polynomial(index).terms.items()
        if any(mentions(atom, variables) for atom in monomial)
    ]


def _stores_something(leaf: LeafNode) -> bool:
    found: list[Any] = []
    tir.post_order_visit(
        leaf.leaf,
        lambda node: found.append(node) if isinstance(node, tir.BufferStore | tir.Call) else None,
    )
    return bool(found)


def _is_open_and_numbers(block: BlockNode, blocks: Sequence[BlockNode], loop: LoopNode) -> bool:
    """Whether, in a sketch, every instance of a block may be taken to write an element that no other instance of any block touches.

    The indices are its data-parallel variables themselves; that every instance runs once is looked at again when decisions are made.
    """
    if not any(is_open(item.extent) for item in loops_around(block)):
        return False
    if not isinstance(block.body, LeafNode) or not any(
        mentions(value, {loop.var}) for value in block.iter_values
    ):
        return False
    written = written_buffers(block)
    if written & _loaded_buffers(block):
        return False
    if any(
        written & (_loaded_buffers(other) | written_buffers(other)) for other in blocks if other is not block
    ):
        return False
    needed = {
        item.var
        for item in block.iter_vars
        if item.iter_type == IterVar.DataPar
        and not (isinstance(item.dom.extent, tir.IntImm) and item.dom.extent.value == 1)
    }
    for region in block.writes:
        plain = {item.min for item in region.region if isinstance(item.min, tir.Var)}
        if not needed <= plain:
            return False
    return is_affine(block) and _runs_no_more_than_instances(block)


def _runs_once(block: BlockNode, loop: LoopNode) -> bool:
    """Whether every instance of a block writes an element of its own, and runs in one iteration of a loop."""
    return (
        all(item.iter_type == IterVar.DataPar for item in block.iter_vars)
        and any(mentions(value, {loop.var}) for value in block.iter_values)
        # Of symbolic extents an affine map says nothing, and open tiles are looked at when decisions are made.
        and all(isinstance(item.extent, tir.IntImm) for item in loops_around(block))
        and has_elements_of_its_own(block)
        and is_affine(block)
    )


def _runs_no_more_than_instances(block: BlockNode) -> bool:
    """Whether no instance of a block whose bindings are affine runs twice: ``v = i % 2`` does. As many iterations as instances do not."""
    loops = [loop for loop in loops_around(block) if any(mentions(v, {loop.var}) for v in block.iter_values)]
    if all(isinstance(value, tir.Var | tir.IntImm) for value in block.iter_values):
        return True
    sizes = [constant_difference(loop.extent, 0) for loop in loops]
    wanted = [constant_difference(item.dom.extent, 0) for item in block.iter_vars]
    if None in sizes or None in wanted or any(loop.thread_binding is not None for loop in loops):
        # Nothing is counted of tiles with open decisions, of symbolic extents, and of threads that copy for each other.
        return True
    instances, count = math.prod(wanted), math.prod(sizes)  # type: ignore[arg-type]
    if count <= instances or block.is_unconditional:
        return count <= instances
    starts = [constant_difference(loop.min, 0) for loop in loops]
    if count > _MOST_TILES or None in starts:
        return False
    grid = np.indices(sizes, sparse=True)  # type: ignore[call-overload]
    values = {loop.var: axis + start for loop, axis, start in zip(loops, grid, starts, strict=True)}
    if not all(var in values for var in variables_in(block.predicate)):
        return False
    holds = np.broadcast_to(evaluate(block.predicate, values), sizes)  # type: ignore[arg-type]
    return int(np.count_nonzero(holds)) <= instances


def _are_disjoint(first: Touch, second: Touch, loop: LoopNode, outer: Sequence[LoopNode]) -> bool:
    """Whether what two different iterations touch never meets."""
    if any(_steps_apart(a, b, loop.var) for a, b in zip(first.box, second.box, strict=True)):
        return True
    decided = never_meet(first.access, second.access, loop, outer)
    return _boxes_apart(first.box, second.box, loop) if decided is None else decided


def _steps_apart(first: tuple[Any, Any], second: tuple[Any, Any], var: tir.Var) -> bool:
    """Whether in a dimension the loop goes on by as much as both boxes reach together."""
    coefficient = coefficient_of(first[0], var)
    if coefficient is None or coefficient == 0 or coefficient_of(second[0], var) != coefficient:
        return False
    if mentions(first[1], {var}) or mentions(second[1], {var}):
        return False
    offset = constant_difference(second[0], first[0])
    sizes = [constant_difference(size, 0) for _, size in (first, second)]
    if offset is None:
        return False
    if sizes[0] is None or sizes[1] is None:
        return False
    reach = max(sizes[0], offset + sizes[1]) - min(0, offset)
    return abs(coefficient) >= reach


def _boxes_apart(first: Box, second: Box, loop: LoopNode) -> bool:
    """Compares the boxes of all iterations, as far as they are numbers once what stands still is left out."""
    if not isinstance(loop.extent, tir.IntImm) or not isinstance(loop.min, tir.IntImm):
        return False
    size = loop.extent.value
    if size > _MOST_TILES:
        return False
    iterations = np.arange(loop.min.value, loop.min.value + size)
    lows, others, reach, other_reach = [], [], [], []
    for (low, extent), (other, other_extent) in zip(first, second, strict=True):
        found = _moving_part(low, loop.var), _moving_part(other, loop.var)
        standing = constant_difference(_standing_part(low, loop.var), _standing_part(other, loop.var))
        sizes = constant_difference(extent, 0), constant_difference(other_extent, 0)
        if None in found or standing is None or None in sizes:
            continue  # nothing is known of this dimension
        values = {loop.var: iterations}
        lows.append(np.broadcast_to(evaluate(found[0], values), size) + standing)
        others.append(np.broadcast_to(evaluate(found[1], values), size))
        reach.append(sizes[0])
        other_reach.append(sizes[1])
    if not lows:
        return False
    start, other_start = np.stack(lows, 1), np.stack(others, 1)
    length, other_length = np.array(reach), np.array(other_reach)
    if np.array_equal(start, other_start) and np.array_equal(length, other_length):
        aligned = (start - start[0]) % np.maximum(length, 1) == 0
        tiles = (start[:, aligned.all(0)] - start[0, aligned.all(0)]) // np.maximum(length[aligned.all(0)], 1)
        if len(np.unique(tiles, axis=0)) == size:
            return True
    if size > _MOST_PAIRS:
        return False
    meets = (start[:, None] < other_start[None] + other_length) & (
        other_start[None] < start[:, None] + length
    )
    pairs = meets.all(2)
    np.fill_diagonal(pairs, False)
    return not pairs.any()


def _standing_part(index: Any, var: tir.Var) -> tir.PrimExpr:
    """The terms of an index that a variable is not in."""
    terms = polynomial(index).terms
    standing = {m: c for m, c in terms.items() if not any(mentions(atom, {var}) for atom in m)}
    return Polynomial(standing, index.dtype).to_expr()


def _moving_part(index: Any, var: tir.Var) -> tir.PrimExpr | None:
    """The terms of an index that a variable is in, beside no other one; None where they cannot be told apart."""
    moving = sum(_moving_terms(index, {var}), tir.const(0, index.dtype))
    return moving if set(variables_in(moving)) <= {var} else None
