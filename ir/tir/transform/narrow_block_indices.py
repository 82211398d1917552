"""NarrowBlockIndices: kernels whose arrays are small enough count in 32 bits, blocks and buffers included, before they are scheduled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...node import post_order_visit
from ...transform import PassContext
from .. import expr as E
from ..buffer import Buffer
from ..expr import IntImm, IterVar, PrimExpr, Range, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import Allocate, AttrStmt, Block, BlockRealize, BufferRegion, DeclBuffer, For, Stmt, While
from .narrow_data_type import Narrower
from .prim_func_pass import PrimFuncPass

_WIDE, _NARROW = "int64", "int32"
_LIMIT = 1 << 31


class _BlockNarrower(Narrower):
    """Narrows what the base class does, and what blocks and buffers say of indices."""

    def __init__(self) -> None:
        super().__init__(32)
        self._buffers: dict[Buffer, Buffer] = {}

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        found = self._buffers.get(buffer)
        if found is None:
            shape, strides = (tuple(map(_narrowed, items)) for items in (buffer.shape, buffer.strides))
            found = buffer.replace(shape=shape, strides=strides, elem_offset=_narrowed(buffer.elem_offset))
            self._buffers[buffer] = found
        return found

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        values = [self._narrow(value) for value in realize.iter_values]
        predicate = self.visit(realize.predicate)
        block: Any = self._block(realize.block)
        values = [
            value if value.dtype == axis.var.dtype else E.Cast(axis.var.dtype, value)
            for value, axis in zip(values, block.iter_vars)
        ]
        return realize.replace(iter_values=values, predicate=predicate, block=block)

    def _block(self, block: Block) -> Block:
        axes = [self._axis(axis) for axis in block.iter_vars]
        allocated = tuple(map(self.visit, block.alloc_buffers))
        return block.replace(
            iter_vars=axes,
            reads=[self._region(region) for region in block.reads],
            writes=[self._region(region) for region in block.writes],
            body=self.visit(block.body),
            init=None if block.init is None else self.visit(block.init),
            alloc_buffers=allocated,
        )

    def _axis(self, axis: IterVar) -> IterVar:
        self.simplifier.bind_range(axis.var, axis.dom.min, axis.dom.extent)
        if axis.var.dtype != _WIDE:
            return axis
        var = self.vars[axis.var] = Var(axis.var.name, _NARROW)
        start, extent = _narrowed(axis.dom.min), _narrowed(axis.dom.extent)
        self.simplifier.bind_range(var, start, extent)
        return axis.replace(dom=Range.from_min_extent(start, extent), var=var)

    def _region(self, region: BufferRegion) -> BufferRegion:
        ranges = [
            Range.from_min_extent(*self._alike(self._narrow(item.min), self._narrow(item.extent)))
            for item in region.region
        ]
        return BufferRegion(self.visit(region.buffer), ranges)

    @staticmethod
    def _alike(first: PrimExpr, second: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Both in the wider type of the two."""
        if first.dtype == second.dtype:
            return first, second
        return tuple(  # type: ignore[return-value]
            item
            if item.dtype == _WIDE
            else const(item.value, _WIDE)
            if isinstance(item, IntImm)
            else E.Cast(_WIDE, item)
            for item in (first, second)
        )

    def visit_BufferLoad(self, load: E.BufferLoad) -> PrimExpr:
        narrow: Any = super().visit_BufferLoad(load)
        return narrow.replace(buffer=self.visit(load.buffer))  # type: ignore[no-any-return]

    def visit_BufferStore(self, store: Any) -> Stmt:
        narrow: Any = super().visit_BufferStore(store)
        return narrow.replace(buffer=self.visit(store.buffer))  # type: ignore[no-any-return]


def _narrowed(value: Any) -> Any:
    return const(value.value, _NARROW) if isinstance(value, IntImm) and value.dtype == _WIDE else value


def narrowed_function(func: PrimFunc) -> PrimFunc | None:
    """The function with 32-bit indices; None where something is symbolic, too large, or of another form than unscheduled kernels have."""
    is_wide = False

    def fits(value: Any) -> bool:
        return isinstance(value, IntImm) and abs(value.value) < _LIMIT

    def all_fit(start: Any, extent: Any) -> bool:
        return fits(start) and fits(extent) and start.value + extent.value < _LIMIT

    def small(buffer: Buffer) -> bool:
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        parts = (*buffer.shape, *buffer.strides, *offset)
        extents = [item.value for item in buffer.shape if isinstance(item, IntImm)]
        return all(map(fits, parts)) and math.prod(extents) < _LIMIT

    odd: list[Any] = []
    found: list[Any] = [*func.buffer_map.values()]

    def look(node: Any) -> None:
        nonlocal is_wide
        if isinstance(node, Block):
            found.extend(node.alloc_buffers)
            odd.extend(node.match_buffers)
            for axis in node.iter_vars:
                is_wide |= axis.var.dtype == _WIDE
                if not all_fit(axis.dom.min, axis.dom.extent):
                    odd.append(axis)
        elif isinstance(node, For):
            is_wide |= node.loop_var.dtype == _WIDE
            if node.thread_binding is not None or not all_fit(node.min, node.extent):
                odd.append(node)
        elif isinstance(node, Allocate | AttrStmt | DeclBuffer | While):
            odd.append(node)

    post_order_visit(func.body, look)
    if odd or not all(map(small, found)) or not is_wide or len(func.buffer_map) != len(func.params):
        return None
    narrower = _BlockNarrower()
    buffers = {param: narrower.visit(buffer) for param, buffer in func.buffer_map.items()}
    return func.replace(buffer_map=buffers, body=narrower.visit(func.body))


@dataclass(frozen=True)
class NarrowBlockIndices(PrimFuncPass):
    """Count in 32 bits in kernels that are not scheduled yet: loops, axes of blocks, indices, and shapes of buffers.

    What is symbolic, or has 2 ** 31 elements or more, stays as it is. Values keep their types: an index that is stored becomes a cast.

    Before::

        for i in T.serial(T.int64(64)):
            with T.block("B"):
                vi = T.axis.spatial(T.int64(64), i)
                B[vi] = A[T.int64(63) - vi]

    After::

        for i in range(64):
            with T.block("B"):
                vi = T.axis.spatial(64, i)
                B[vi] = A[63 - vi]
    """

    pass_name = "tir.NarrowBlockIndices"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with narrower indices."""
        return narrowed_function(func) or func
