"""Whether the iterations of a loop may run in any order, or at once: no iteration may write what another reads or writes.

That an iteration touches elements of its own follows, in this order, from a block whose instances write an element each; from a
step of the loop that is as long as what an iteration touches in some dimension; or from the boxes of all iterations, compared
with each other. A buffer that every iteration fills before it reads from it is the iteration's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir import structural_equal, tir
from ir.arith import Analyzer
from ir.tir import IterVar
from ir.tir.evaluate import evaluate

from .affine import Polynomial, constant_difference, mentions, polynomial, split_by
from .analysis import is_affine, leaves_beside_blocks, read_buffers, written_buffers
from .bounds import is_open
from .coverage import why_not_covered
from .region import Box, bind_region, relax_loops
from .tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    blocks_below,
    child_blocks,
    is_ancestor,
    loops_around,
    scope_of,
)

_MOST_PAIRS = 1024
"""Iterations of which every pair is compared."""
_MOST_TILES = 1 << 20
"""Iterations of which the tiles are counted."""


@dataclass(frozen=True)
class _Access:
    """What one block touches of a buffer in one iteration of the loop."""

    block: BlockNode
    is_write: bool
    box: Box


def why_iterations_conflict(loop: LoopNode, blocks: Sequence[BlockNode]) -> str | None:
    """The reason why two iterations of a loop may touch the same element, one of them writing it; or None where that is ruled out.

    Args:
        loop: the loop; of one with open decisions nothing is said.
        blocks: those below it that count.
    """
    if (isinstance(loop.extent, tir.IntImm) and loop.extent.value <= 1) or is_open(loop.extent):
        return None
    if any(_stores_something(leaf) for leaf in leaves_beside_blocks(loop)):
        return f"loop {loop.var.name!r} holds stores that are in no block"
    own: set[int] = set()
    for block in blocks:
        if _writes_elements_of_its_own(block, blocks, loop):
            own |= {id(buffer) for buffer in written_buffers(block)}
    shared = {buffer for block in blocks for buffer in written_buffers(block) if id(buffer) not in own}
    for buffer in shared:
        accesses = [item for block in blocks for item in _accesses(block, buffer, loop)]
        if _is_private(buffer, loop, accesses):
            continue
        for first in accesses:
            for second in accesses:
                if first.is_write and not _are_disjoint(first.box, second.box, loop):
                    kind = "writes" if second.is_write else "reads"
                    return (
                        f"one iteration of loop {loop.var.name!r} may write to {buffer.name}, in block {first.block.name!r}, what"
                        f" block {second.block.name!r} {kind} in another"
                    )
    return None


def _stores_something(leaf: LeafNode) -> bool:
    found: list[Any] = []
    tir.post_order_visit(
        leaf.leaf,
        lambda node: found.append(node) if isinstance(node, tir.BufferStore | tir.Call) else None,
    )
    return bool(found)


def _writes_elements_of_its_own(block: BlockNode, blocks: Sequence[BlockNode], loop: LoopNode) -> bool:
    """Whether every instance of a block writes an element that no other instance of any block touches: the indices are its data-
    parallel variables themselves, and every instance runs once.
    """
    if not isinstance(block.body, LeafNode) or not any(
        mentions(value, {loop.var}) for value in block.iter_values
    ):
        return False
    written = written_buffers(block)
    if written & read_buffers(block):
        return False
    if any(
        written & (read_buffers(other) | written_buffers(other)) for other in blocks if other is not block
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
    return is_affine(block)


def _accesses(block: BlockNode, buffer: tir.Buffer, loop: LoopNode) -> list[_Access]:
    """What a block touches of a buffer in one iteration of the loop."""
    found = [(region, False) for region in block.reads if region.buffer is buffer]
    found += [(region, True) for region in block.writes if region.buffer is buffer]
    if not found:
        return []
    values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    inner = [item for item in loops_around(block) if item is not loop and is_ancestor(loop, item)]
    return [
        _Access(block, is_write, relax_loops(bind_region(region.region, values), inner, buffer.shape))
        for region, is_write in found
    ]


def _is_private(buffer: tir.Buffer, loop: LoopNode, accesses: Sequence[_Access]) -> bool:
    """Whether an iteration writes all that it reads of a buffer before, and nobody reads that after the loop."""
    scope = scope_of(loop)
    if scope is None or not any(item is buffer for item in scope.alloc_buffers):
        return False
    for other in child_blocks(scope):
        if not is_ancestor(loop, other) and buffer in read_buffers(other) | written_buffers(other):
            return False
    writer = next(
        (block for block in blocks_below(loop) if any(block is item.block for item in accesses)), None
    )
    written = next((item for item in accesses if item.block is writer and item.is_write), None)
    if writer is None or written is None:
        return False
    if writer.init is None and buffer in read_buffers(writer):
        return False
    analyzer = Analyzer()
    for around in [*loops_around(loop), loop]:
        analyzer.bind(around.var, around.range())
    return why_not_covered(writer, buffer, loop) is None and all(
        _contains(mine, other, dim, analyzer)
        for item in accesses
        for mine, other, dim in zip(written.box, item.box, buffer.shape, strict=True)
    )


def _contains(outer: tuple[Any, Any], inner: tuple[Any, Any], dim: Any, analyzer: Analyzer) -> bool:
    """Whether one (min, extent) contains that part of another which lies in a dimension."""
    below = constant_difference(inner[0], outer[0])
    above = constant_difference(outer[0] + outer[1], inner[0] + inner[1])
    starts = (
        (below is not None and below >= 0)
        or constant_difference(outer[0], 0) == 0
        or structural_equal(outer[0], inner[0])
    )
    ends = (above is not None and above >= 0) or constant_difference(outer[0] + outer[1], dim) == 0
    return (starts or analyzer.can_prove(outer[0] <= inner[0])) and (
        ends or analyzer.can_prove(inner[0] + inner[1] <= outer[0] + outer[1])
    )


def _are_disjoint(first: Box, second: Box, loop: LoopNode) -> bool:
    """Whether the boxes of two different iterations never meet."""
    if any(_steps_apart(a, b, loop.var) for a, b in zip(first, second, strict=True)):
        return True
    return _boxes_apart(first, second, loop)


def _steps_apart(first: tuple[Any, Any], second: tuple[Any, Any], var: tir.Var) -> bool:
    """Whether in a dimension the loop goes on by as much as both boxes reach together."""
    coefficient = _coefficient(first[0], var)
    if coefficient is None or coefficient == 0 or _coefficient(second[0], var) != coefficient:
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


def _coefficient(index: Any, var: tir.Var) -> int | None:
    """The constant that a variable is multiplied by in an index; None where it is none."""
    parts = split_by(polynomial(index), {var: 1})
    if parts is None:
        return None
    terms = parts[0].get(var, {})
    if not terms:
        return 0
    return terms.get(()) if set(terms) == {()} else None


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
    terms = polynomial(index).terms
    moving = Polynomial(
        {m: c for m, c in terms.items() if any(mentions(atom, {var}) for atom in m)}, index.dtype
    ).to_expr()
    found: set[Any] = set()
    tir.post_order_visit(moving, lambda node: found.add(node) if isinstance(node, tir.Var) else None)
    return moving if found <= {var} else None
