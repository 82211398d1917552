"""What blocks, and loads around them, touch of buffers in one iteration of a loop, in terms of the loops."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property
from typing import Any

from ir import structural_equal, tir
from ir.tir.intrinsic.declaration import CallEffectKind, effect_of
from ir.tir.stmt_functor import substitute

from .access import reads_with_init
from .analysis import written_buffers
from .disjoint import Access
from .region import Box, bind_region, relax_loops
from .surroundings import LoadAround, loads_around, names_around
from .tree import BlockNode, LeafNode, LoopNode, TreeNode, blocks_below, is_ancestor, loops_around, walk

_ALWAYS = tir.const(True)


class Iteration:
    """An iteration of a loop, and what changes while the loop runs."""

    def __init__(self, loop: LoopNode) -> None:
        self.loop = loop
        self.outer = loops_around(loop)
        self._changing = memory_written_by(blocks_below(loop))

    def touches(self, block: BlockNode, buffer: tir.Buffer) -> list[Touch]:
        """What a block, and what stands around it in the loop, touches of a buffer."""
        values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
        stated = [
            Touch(self, block, block, buffer, bind_region(region.region, values), is_write, True)
            for regions, is_write in ((reads_with_init(block), False), (block.writes, True))
            for region in regions
            if region.buffer is buffer
        ]
        if buffer in buffers_read_elsewhere(block):
            stated.append(
                Touch(self, block, block, buffer, [_whole(dim) for dim in buffer.shape], False, True)
            )
        return stated + [
            Touch(self, block, item.node, buffer, item.region, False, False)
            for item in self.loads_around(block)
            if item.load.buffer is buffer
        ]

    def loads_around(self, block: BlockNode) -> list[LoadAround]:
        """The loads around a block that every iteration runs again."""
        return [item for item in loads_around(block) if self.is_around(item.node)]

    def is_around(self, node: TreeNode) -> bool:
        """Whether every iteration runs a node again."""
        return node is not self.loop and is_ancestor(self.loop, node)

    def is_steady(self, expr: tir.PrimExpr, threads: Container[tir.Var]) -> bool:
        """Whether an expression has one value for as long as loops inside of the iteration, and around it, stand still."""
        return is_steady(expr, self._changing, threads)


class Touch:
    """Elements of a buffer that a block touches in an iteration.

    Attributes:
        block: the block.
        node: where that happens: the block itself, or what evaluates a load around it.
        is_write: whether they are written.
        is_stated: whether the block states it; otherwise it is a load around the block.
        is_exact: the region is the stated one. Of an index that changes while variables stand still all of the dimension is taken.
        access: the region, in terms of the loops.
    """

    def __init__(
        self,
        iteration: Iteration,
        block: BlockNode,
        node: TreeNode,
        buffer: tir.Buffer,
        region: Sequence[tir.Range],
        is_write: bool,
        is_stated: bool,
    ) -> None:
        self.block, self.node = block, node
        self.is_write, self.is_stated = is_write, is_stated
        self._iteration, self._shape = iteration, buffer.shape
        names = names_around(node, iteration.loop)
        self._threads = {var for var, value in names.items() if value is None}
        values = {var: value for var, value in names.items() if value is not None}
        predicate = block.predicate if is_stated else _ALWAYS
        if values:
            region, predicate = bind_region(region, values), substitute(predicate, values)
        known = [
            item if self._is_steady(item.min, item.extent) else _whole(dim)
            for item, dim in zip(region, self._shape, strict=True)
        ]
        self.is_exact = all(one is other for one, other in zip(region, known, strict=True))
        inner = [item for item in loops_around(node) if iteration.is_around(item)]
        self.access = Access(known, inner, predicate if self._is_steady(predicate) else _ALWAYS)

    def _is_steady(self, *expressions: tir.PrimExpr) -> bool:
        return all(self._iteration.is_steady(expr, self._threads) for expr in expressions)

    @cached_property
    def box(self) -> Box:
        """A box around it."""
        return self.box_below(self._iteration.loop)

    def box_below(self, place: TreeNode) -> Box:
        """A box around what is touched while the loops below a place in the iteration run."""
        box = relax_loops(self.access.region, self.loops_below(place), self._shape)
        return [
            item if self._is_steady(*item) else (tir.const(0, dim.dtype), dim)
            for item, dim in zip(box, self._shape, strict=True)
        ]

    def loops_below(self, place: TreeNode) -> list[LoopNode]:
        """The loops around it that lie below a place in the iteration."""
        return [item for item in self.access.inner if item is not place and is_ancestor(place, item)]


def buffers_read_elsewhere(block: BlockNode) -> set[tir.Buffer]:
    """What a reduction block reads of its own buffers where it does not store: such a block states only that it writes them."""
    if block.init is None:
        return set()
    written = written_buffers(block)
    loads: list[tir.BufferLoad] = []
    stores: list[tir.BufferStore] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad) and node.buffer in written:
            loads.append(node)
        elif isinstance(node, tir.BufferStore):
            stores.append(node)

    for node in walk(block.body):
        if isinstance(node, LeafNode):
            tir.post_order_visit(node.leaf, visit)
    return {
        load.buffer
        for load in loads
        if not any(
            store.buffer is load.buffer
            and all(structural_equal(a, b) for a, b in zip(store.indices, load.indices, strict=True))
            for store in stores
        )
    }


def memory_written_by(blocks: Sequence[BlockNode]) -> set[tir.Var]:
    """The pointers of the buffers that some blocks write."""
    return {buffer.data for block in blocks for buffer in written_buffers(block)}


def is_steady(expr: tir.PrimExpr, changing: Container[tir.Var], moving: Container[tir.Var] = ()) -> bool:
    """Whether nothing in an expression changes by itself: no load from memory that changes, no call that reads memory, no variable that
    moves.
    """
    stack: list[Any] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, tir.Var):
            if node in moving:
                return False
        elif isinstance(node, tir.BufferLoad):
            if node.buffer.data in changing:
                return False
            stack += node.indices
        elif isinstance(node, tir.Call) and effect_of(node) > CallEffectKind.PURE:
            return False
        elif isinstance(node, tir.PrimExpr):
            node._visit_children(stack.append)
    return True


def _whole(dim: tir.PrimExpr) -> tir.Range:
    return tir.Range.from_min_extent(tir.const(0, dim.dtype), dim)
