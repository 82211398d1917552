"""rolling_buffer: keep only a window of an intermediate result, and compute only what is new in each step."""

from __future__ import annotations

from typing import Any

from ir import tir
from ir.tir.functor import StmtExprMutator

from ..affine import constant_difference, polynomial
from ..analysis import consumers_of, is_output_block, require, require_complete_or_reduction, why_not_complete
from ..error import ScheduleError
from ..tree import BlockNode, LeafNode, LoopNode, is_ancestor, loops_around, scope_of, walk
from .caching import relaxed_below


def rolling_buffer(block: BlockNode, write_buffer_index: int) -> None:
    """Turn the buffer that a block writes into a ring along the dimension in which its tiles overlap.

    Elements that the step before has computed already are not computed again.
    """
    primitive = "rolling_buffer"
    scope = scope_of(block)
    require(scope is not None, primitive, f"block {block.name!r} is a root block")
    assert scope is not None
    require_complete_or_reduction(block, primitive)
    require(
        why_not_complete(block) is None,
        primitive,
        f"block {block.name!r} is a reduction; its steps cannot be skipped",
    )
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
    loops = loops_around(block)
    shared = [loop for loop in loops if all(is_ancestor(loop, item) for item in consumers)]
    require(shared, primitive, f"block {block.name!r} is not computed inside a loop of its consumers")
    box = relaxed_below(block, region, shared[-1])
    dim, loop, window, step = _rolling_dimension(shared, box, block)
    overlap = window - step
    inner = [item for item in loops if not any(item is other for other in shared)]
    bound = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    index = region.region[dim].min
    require(
        isinstance(index, tir.Var),
        primitive,
        f"block {block.name!r} stores dimension {dim} at {index}, not at a variable",
    )
    assert isinstance(index, tir.Var)
    value = bound[index]
    own = [item for item in inner if (item.var,) in polynomial(value).terms]
    require(
        len(own) == 1 and polynomial(value).terms[(own[0].var,)] == 1,
        primitive,
        f"variable {index} of block {block.name!r} does not run through its tile by one loop",
    )
    extent = tir.const(window, buffer.shape[dim].dtype)
    shape = tuple(extent if n == dim else size for n, size in enumerate(buffer.shape))
    new = tir.decl_buffer(
        shape, buffer.dtype, buffer.name, scope="" if buffer.scope() == "global" else buffer.scope()
    )
    ring = _Ring(buffer, new, dim, window)
    for node in walk(scope):
        if isinstance(node, LeafNode):
            leaf = ring.visit(node.leaf)
            if leaf is not node.leaf:
                node.leaf = leaf
                node.touch()
        elif isinstance(node, BlockNode) and any(
            item.buffer is buffer for item in (*node.reads, *node.writes)
        ):
            node.change(
                reads=tuple(ring.region(item) for item in node.reads),
                writes=tuple(ring.region(item) for item in node.writes),
                init=None if node.init is None else ring.visit(node.init),
            )
    condition = tir.expr.logical_or(
        loop.var < loop.min + 1, tir.LE(tir.const(overlap, own[0].var.dtype), own[0].var)
    )
    block.change(predicate=tir.expr.logical_and(block.predicate, condition))
    scope.change(alloc_buffers=tuple(new if item is buffer else item for item in scope.alloc_buffers))


def _rolling_dimension(shared: list[LoopNode], box: Any, block: BlockNode) -> tuple[int, LoopNode, int, int]:
    """(dimension, loop, window, step) of the outermost loop whose steps overlap."""
    for loop in shared:
        for dim, (low, extent) in enumerate(box):
            terms = polynomial(low).terms
            step = terms.get((loop.var,))
            if step is None or not isinstance(extent, tir.IntImm):
                continue
            others = [other for other in shared if other is not loop and (other.var,) in terms]
            if 0 < step < extent.value and not others and loop.kind == tir.ForKind.SERIAL:
                return dim, loop, extent.value, step
    raise ScheduleError(
        f"rolling_buffer: no serial loop around block {block.name!r} moves its tile by less than the tile's size along one dimension"
    )


class _Ring(StmtExprMutator):
    """Accesses wrap around in one dimension."""

    def __init__(self, old: tir.Buffer, new: tir.Buffer, dim: int, window: int) -> None:
        super().__init__()
        self._old, self._new, self._dim, self._window = old, new, dim, window

    def _indices(self, indices: Any) -> tuple[Any, ...]:
        return tuple(
            tir.floormod(item, self._window) if n == self._dim else item for n, item in enumerate(indices)
        )

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        return (
            tir.BufferLoad(self._new, self._indices(mapped.indices)) if load.buffer is self._old else mapped
        )

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        mapped = self.generic_visit(store)
        if store.buffer is not self._old:
            return mapped
        return tir.BufferStore(self._new, mapped.value, self._indices(mapped.indices))

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
