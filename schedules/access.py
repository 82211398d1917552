"""What a block reads and writes, found in its body: one box per buffer, in order of first access."""

from __future__ import annotations

from typing import Any, ClassVar

from ir import tir
from ir.node import Visitor
from ir.tir.stmt_functor import substitute

from .region import Box, bind_region, relax_region, union_boxes
from .tree import BlockNode, LeafNode, LoopNode, SeqNode, TreeNode, WrapNode

Regions = tuple[tir.BufferRegion, ...]


class _Accesses(Visitor):
    """Collects the boxes that statements and expressions touch, relaxed over loops and lets inside them."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.reads: dict[tir.Buffer, list[Box]] = {}
        self.writes: dict[tir.Buffer, list[Box]] = {}
        self._running: dict[Any, tir.PrimExpr] = {}
        self._starts: dict[Any, tir.PrimExpr] = {}
        self._local: set[tir.Buffer] = set()

    def visit_BufferLoad(self, load: tir.BufferLoad) -> None:
        self._add(self.reads, load.buffer, load.indices)
        for index in load.indices:
            self.visit(index)

    def visit_BufferStore(self, store: tir.BufferStore) -> None:
        for index in store.indices:
            self.visit(index)
        self.visit(store.value)
        self._add(self.writes, store.buffer, store.indices)

    def _add(self, table: dict[tir.Buffer, list[Box]], buffer: tir.Buffer, indices: Any) -> None:
        if buffer in self._local:
            return
        region = []
        for index in indices:
            if isinstance(index, tir.Ramp):
                region.append(tir.Range.from_min_extent(index.base, tir.const(index.lanes, index.base.dtype)))
            else:
                region.append(tir.Range.from_min_extent(index, tir.const(1, index.dtype)))
        self.add_region(table, tir.BufferRegion(buffer, region))

    def add_region(self, table: dict[tir.Buffer, list[Box]], region: tir.BufferRegion) -> None:
        """Add a region under the loops that run here."""
        if region.buffer not in self._local:
            ranges = (
                [substitute(item, self._starts) for item in region.region] if self._starts else region.region
            )
            box = relax_region(ranges, self._running, region.buffer.shape)
            table.setdefault(region.buffer, []).append(box)

    def visit_For(self, loop: tir.For) -> None:
        self._enter(loop.loop_var, loop.min, loop.extent)
        self.visit(loop.body)
        self._leave(loop.loop_var)

    def _enter(self, var: tir.Var, low: tir.PrimExpr, extent: tir.PrimExpr) -> None:
        self._running[var] = extent
        if not (isinstance(low, tir.IntImm) and low.value == 0):
            self._starts[var] = low + var

    def _leave(self, var: tir.Var) -> None:
        del self._running[var]
        self._starts.pop(var, None)

    def walk(self, node: TreeNode) -> None:
        """Collect from a loop tree."""
        if isinstance(node, LoopNode):
            self._enter(node.var, node.min, node.extent)
            self.walk(node.body)
            self._leave(node.var)
        elif isinstance(node, LeafNode):
            self.visit(node.leaf)
        elif isinstance(node, SeqNode | WrapNode):
            if isinstance(node, WrapNode):
                for item in type(node.template)._fields:
                    value = getattr(node.template, item.name)
                    if isinstance(value, tir.PrimExpr) and item.name not in node.bodies:
                        self.visit(value)
            for child in node.children():
                self.walk(child)
        elif isinstance(node, BlockNode):
            values = dict(zip([item.var for item in node.iter_vars], node.iter_values, strict=True))
            for regions, table in ((node.reads, self.reads), (node.writes, self.writes)):
                for region in regions:
                    if region.buffer not in node.alloc_buffers:
                        self.add_region(
                            table, tir.BufferRegion(region.buffer, bind_region(region.region, values))
                        )


def access_regions(block: BlockNode, init: tir.Stmt | None) -> tuple[Regions, Regions]:
    """(reads, writes) of a block from its body and ``init``; a reduction's own buffer counts as written only."""
    found = _Accesses()
    found._local = set(block.alloc_buffers)
    if init is not None:
        found.visit(init)
    found.walk(block.body)
    for view in reversed(block.match_buffers):
        for table in (found.reads, found.writes):
            if table.pop(view.buffer, None):
                found.add_region(table, view.source)
    if init is not None:
        for buffer in found.writes:
            found.reads.pop(buffer, None)
    return _as_regions(found.reads), _as_regions(found.writes)


def _as_regions(table: dict[tir.Buffer, list[Box]]) -> Regions:
    regions = []
    for buffer, boxes in table.items():
        box = union_boxes(boxes, buffer.shape)
        regions.append(
            tir.BufferRegion(buffer, [tir.Range.from_min_extent(low, extent) for low, extent in box])
        )
    return tuple(regions)
