"""rolling_buffer: keep only a window of an intermediate result, and compute only what is new in each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.operators import index_number

from ..access import relaxed_below, why_not_elementwise
from ..affine import constant_difference, mentions, polynomial, simplify_polynomial
from ..analysis import (
    consumers_of,
    is_output_block,
    read_buffers,
    require,
    require_complete_or_reduction,
    scope_children,
    written_buffers,
)
from ..argument import Block, BufferIndex
from ..coverage import why_conditional, why_not_covered
from ..declaration import PrimitiveFamily, primitive
from ..dependence import writes_one_value
from ..effects import require_no_effects, require_no_effects_of_indices
from ..error import ScheduleError
from ..moved_accesses import MovedAccesses
from ..random_variable import BlockRV
from ..region import Box
from ..rewriting import rewrite_inside
from ..surroundings import loads_around
from ..tree import BlockNode, LoopNode, blocks_below, is_ancestor, loops_around, scope_of
from .caching import reads_within


class RollingBufferPrimitives(PrimitiveFamily):
    """Buffers that hold a window of what passes through them."""

    @primitive("RollingBuffer", moves=True, block=Block(), write_buffer_index=BufferIndex(is_write=True))
    def rolling_buffer(self, block: BlockRV | str, write_buffer_index: int | str | tir.Buffer) -> None:
        """Keep only a window of what a block computes for overlapping tiles, and compute only what is new in each step.

        ``for i in 8: for k in 3: B[i + k] = f(i + k)`` becomes
        ``for i in 8: for k in 3: if i < 1 or 2 <= k: B[(i + k) % 3] = f(i + k)``.

        Raises:
            ScheduleError: the block writes an output, is not computed inside a loop of its consumers, or its tiles do not overlap.
        """
        assert isinstance(write_buffer_index, int)
        _rolling_buffer(self._block(block), write_buffer_index)


def _rolling_buffer(block: BlockNode, write_buffer_index: int) -> None:
    primitive = "rolling_buffer"
    scope = scope_of(block)
    require(scope is not None, primitive, f"block {block.name!r} is a root block")
    assert scope is not None
    require_complete_or_reduction(block, primitive)
    require_no_effects([block], primitive)
    require(
        0 <= write_buffer_index < len(block.writes),
        primitive,
        f"block {block.name!r} writes {len(block.writes)} buffers, there is no buffer {write_buffer_index}",
    )
    region = block.writes[write_buffer_index]
    buffer = region.buffer
    require(not is_output_block(block), primitive, f"block {block.name!r} writes an output of the function")
    consumers = consumers_of(block)
    require(consumers, primitive, f"block {block.name!r} has no consumer")
    require_no_effects_of_indices(consumers, buffer, primitive)
    loops = loops_around(block)
    shared = [loop for loop in loops if all(is_ancestor(loop, item) for item in consumers)]
    require(shared, primitive, f"block {block.name!r} is not computed inside a loop of its consumers")
    box = relaxed_below(block, region, shared[-1])
    rolling = _rolling_dimensions(shared, box, block)
    _require_kept(block, region, rolling[0][1], shared[-1], consumers)
    dim, _, window, _ = rolling[0]
    inner = [item for item in loops if not any(item is other for other in shared)]
    conditions = [
        _is_new(block, region, item_dim, loop, size - step, inner)
        for item_dim, loop, size, step in sorted(rolling, key=lambda item: item[0])
    ]
    extent = tir.const(window, buffer.shape[dim].dtype)
    shape = tuple(extent if n == dim else size for n, size in enumerate(buffer.shape))
    new = tir.decl_buffer(
        shape, buffer.dtype, buffer.name, scope="" if buffer.scope() == "global" else buffer.scope()
    )
    ring = _Ring(buffer, new, dim, window)
    rewrite_inside(scope, ring.visit, ring.region)
    for condition in conditions:
        block.change(predicate=tir.operators.logical_and(block.predicate, condition))
    scope.change(alloc_buffers=tuple(new if item is buffer else item for item in scope.alloc_buffers))
    for item in (block, *consumers):
        _mark_opaque(item, rolling[0][1])


def _require_kept(
    block: BlockNode,
    region: tir.BufferRegion,
    outermost: LoopNode,
    innermost: LoopNode,
    consumers: Sequence[BlockNode],
) -> None:
    """The steps before must have made, and left in the window, all that a step finds there: the same values that it would make."""
    primitive, buffer, scope = "rolling_buffer", region.buffer, scope_of(block)
    assert scope is not None
    for reason in (
        why_not_elementwise(scope, buffer),
        why_conditional(block),
        why_not_covered(block, buffer, innermost),
        _why_other_values(block, outermost),
    ):
        require(reason is None, primitive, f"{reason}; the window would not hold what the steps before left")
    around = [load.buffer for item in scope_children(block) for _, load in loads_around(item)]
    others = [
        item.name for item in scope_children(block) if buffer in read_buffers(item) and item not in consumers
    ]
    require(
        buffer not in around
        and not others
        and reads_within(relaxed_below(block, region, innermost), consumers, buffer, innermost),
        primitive,
        f"more of {buffer.name} is read than block {block.name!r} makes for a step of loop {innermost.var.name!r}",
    )


def _why_other_values(block: BlockNode, loop: LoopNode) -> str | None:
    """The reason why an element may get another value in another iteration of a loop, from what blocks there make; or None."""
    makers = [block]
    for maker in makers:
        if not writes_one_value(maker):
            return f"block {maker.name!r} may write several values to an element"
        needed = read_buffers(maker)
        makers += [
            item for item in blocks_below(loop) if written_buffers(item) & needed and item not in makers
        ]
    return None


def _rolling_dimensions(
    shared: list[LoopNode], box: Box, block: BlockNode
) -> list[tuple[int, LoopNode, int, int]]:
    """(dimension, loop, window, step) of the loops whose steps overlap, outermost first.

    The first one's dimension becomes the ring; the others keep their whole dimension, in which older elements stay.
    """
    found: list[tuple[int, LoopNode, int, int]] = []
    for loop in shared:
        for dim, (low, extent) in enumerate(box):
            terms = polynomial(low).terms
            step = terms.get((loop.var,))
            if step is None or not isinstance(extent, tir.IntImm):
                continue
            others = [other for other in shared if other is not loop and (other.var,) in terms]
            if 0 < step < extent.value and not others and loop.kind == tir.ForKind.SERIAL:
                if not _says_more(loop, dim, box, shared):
                    found.append((dim, loop, extent.value, step))
    require(
        found,
        "rolling_buffer",
        f"no serial loop around block {block.name!r} moves its tile by less than the tile's size along one dimension",
    )
    return found


def _says_more(loop: LoopNode, dim: int, box: Box, shared: Sequence[LoopNode]) -> bool:
    """Whether a loop moves a tile along more than one dimension, or says how far others run: the step before then made other elements."""
    elsewhere = [part for position, bounds in enumerate(box) if position != dim for part in bounds]
    ends = [end for other in shared for end in (other.min, other.extent)]
    return any(mentions(part, {loop.var}) for part in (*elsewhere, *ends))


def _is_new(
    block: BlockNode,
    region: tir.BufferRegion,
    dim: int,
    loop: LoopNode,
    overlap: int,
    inner: list[LoopNode],
) -> tir.PrimExpr:
    """Whether an iteration computes what the step of ``loop`` before has not: the condition on the tile's own loop."""
    index = region.region[dim].min
    if not isinstance(index, tir.Var):
        raise ScheduleError(
            f"rolling_buffer: block {block.name!r} stores dimension {dim} at {index}, not at a variable"
        )
    bound = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    own = [item for item in inner if mentions(bound[index], {item.var})]
    require(
        len(own) == 1 and not mentions(simplify_polynomial(bound[index] - own[0].var), {own[0].var}),
        "rolling_buffer",
        f"variable {index} of block {block.name!r} does not run through its tile by one loop",
    )
    first_new = simplify_polynomial(own[0].min + overlap)
    return tir.operators.logical_or(
        loop.var < loop.min + 1, tir.LE(tir.cast(own[0].var.dtype, first_new), own[0].var)
    )


def _mark_opaque(block: BlockNode, loop: LoopNode) -> None:
    """The order of the iterations of a rolling loop matters from now on: variables that it feeds say so."""
    block.change(
        iter_vars=tuple(
            IterVar(item.dom, item.var, IterVar.Opaque)
            if item.iter_type == IterVar.DataPar and mentions(value, {loop.var})
            else item
            for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        )
    )


class _Ring(MovedAccesses):
    """Accesses wrap around in one dimension."""

    def __init__(self, old: tir.Buffer, new: tir.Buffer, dim: int, window: int) -> None:
        super().__init__(old, new)
        self._dim, self._window = dim, window

    def indices(self, indices: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            tir.floormod(index_number(item), self._window) if n == self._dim else item
            for n, item in enumerate(indices)
        )

    def region(self, region: tir.BufferRegion) -> tir.BufferRegion:
        """The region in the ring; wider than one element it may wrap, and becomes the whole ring."""
        if region.buffer is not self._old:
            return region
        ranges = list(region.region)
        item = ranges[self._dim]
        one = constant_difference(item.extent, 1) == 0
        ranges[self._dim] = (
            tir.Range.from_min_extent(tir.floormod(item.min, self._window), item.extent)
            if one
            else tir.Range.from_min_extent(tir.const(0, item.min.dtype), self._new.shape[self._dim])
        )
        return tir.BufferRegion(self._new, ranges)
