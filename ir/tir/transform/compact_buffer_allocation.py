"""CompactBufferAllocation: shrink each allocated buffer to the box that is accessed where it lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...arith.index_range import IndexRanges
from ...arith.index_simplifier import IndexSimplifier, Linear
from ...module import IRModule
from ...node import Visitor
from ...transform import PassContext
from .. import expr as E
from ..analysis.thread_groups import WARP
from ..buffer import Buffer
from ..expr import BufferLoad, IntImm, PrimExpr, Range, Var
from ..function import PrimFunc
from ..operators import const
from ..row_alignment import BUFFER_DIM_ALIGN, RowAlignment, row_alignments
from ..stmt import AttrStmt, Block, BufferRegion, BufferStore, For, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator, variables_in
from ..thread_axis import LAUNCH_ORDER, is_block_scope, is_virtual
from .prim_func_pass import PrimFuncPass

_WIDEST_TILE = 64
"""Elements along the contiguous axis of a register tile, at most."""


class _Box:
    """What is accessed of one dimension: ``[start, start + extent)``; ``start`` is None when it is everything."""

    __slots__ = ("extent", "start")

    def __init__(self, start: Linear | None, extent: int) -> None:
        self.start = start
        self.extent = extent

    def union(self, other: _Box) -> _Box:
        """The smallest box with both, or everything when their distance is not constant."""
        if self.start is None or other.start is None:
            return _WHOLE
        distance = other.start.plus(self.start, -1)
        if distance.terms:
            return _WHOLE
        if distance.const < 0:
            return other.union(self)
        return _Box(self.start, max(self.extent, distance.const + other.extent))


_WHOLE = _Box(None, 0)


class _Collect(Visitor):
    """The boxes that are accessed of every buffer allocated in a block."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.simplifier = IndexSimplifier()
        self._ranges = IndexRanges(self.simplifier)
        self.boxes: dict[Buffer, list[_Box] | None] = {}
        self.alignment: dict[Buffer, list[RowAlignment]] = {}
        self._depth: dict[Buffer, int] = {}  # loops met before the allocation
        self._by_data: dict[Var, Buffer] = {}
        self._position: dict[
            Var, int
        ] = {}  # of a loop variable: those of loops around an allocation are less than its depth
        self._loops = 0
        self._threads: set[Var] = set()
        """Variables that tell threads of a block apart, which share its memory."""
        self._lanes: set[Var] = set()
        """Those of them that tell threads of a warp apart."""
        self._has_whole_warps = False
        """Whether threads along ``threadIdx.x`` are whole warps, so that those of a warp differ in nothing else."""
        self._differing: set[Var] = set()
        """Other variables that have different values, or run over different ranges, in different threads."""

    def visit_For(self, loop: For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        self._position[loop.loop_var] = self._loops
        self._loops += 1
        if loop.thread_binding is not None and not loop.thread_binding.thread_tag.startswith("blockIdx"):
            self._add_thread(loop.loop_var, loop.thread_binding.thread_tag, loop.extent)
        elif self._differs(loop.min) or self._differs(loop.extent):
            self._differing.add(loop.loop_var)
        self.visit(loop.body)

    def visit_AttrStmt(self, stmt: AttrStmt) -> None:
        thread = stmt.thread
        if thread is not None and not thread.thread_tag.startswith("blockIdx"):
            self.simplifier.bind_range(thread.var, const(0, thread.var.dtype), stmt.value)
            self._add_thread(thread.var, thread.thread_tag, stmt.value)
        self.generic_visit(stmt)

    def _add_thread(self, var: Var, tag: str, extent: PrimExpr) -> None:
        self._threads.add(var)
        is_first = tag == LAUNCH_ORDER[3]
        if is_first:
            self._has_whole_warps = isinstance(extent, IntImm) and extent.value % WARP == 0
        if is_first or is_virtual(tag) or not self._has_whole_warps:
            self._lanes.add(var)

    def _differs(self, expr: PrimExpr) -> bool:
        """Whether threads of a block see different values of an expression, as far as variables tell."""
        return any(var in self._threads or var in self._differing for var in variables_in(expr))

    def visit_LetStmt(self, let: LetStmt) -> None:
        self.visit(let.value)
        self._position[let.var] = self._loops  # changes with the loops around
        self._loops += 1
        if self._differs(let.value):
            self._differing.add(let.var)
        self.visit(let.body)

    def visit_Block(self, block: Block) -> None:
        for buffer in block.alloc_buffers:
            self._depth[buffer] = self._loops
            self._by_data[buffer.data] = buffer
            self.boxes[buffer] = []
        for alignment in row_alignments(block.annotations):
            self.alignment.setdefault(block.writes[alignment.position].buffer, []).append(alignment)
        if block.init is not None:
            self.visit(block.init)
        for match in block.match_buffers:
            self._view(match.source)
        self.visit(block.body)

    def _view(self, region: BufferRegion) -> None:
        """Through a view all of its region may be accessed, and nothing else."""
        for end in (False, True):
            indices = [item.min + (item.extent - 1) if end else item.min for item in region.region]
            self._access(region.buffer, tuple(indices))
        for item in region.region:
            self.visit(item.min)
            self.visit(item.extent)

    def _give_up(self, buffer: Buffer) -> None:
        if buffer in self.boxes:
            self.boxes[buffer] = None

    def visit_Var(self, var: Var) -> None:
        if var in self._by_data:
            self._give_up(self._by_data[var])

    def visit_Call(self, call: E.Call) -> None:
        if getattr(call.op, "name", "") == "tir.address_of" and isinstance(call.args[0], BufferLoad):
            self._give_up(call.args[0].buffer)  # whoever gets the address may go anywhere from there
        self.generic_visit(call)

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self._access(load.buffer, load.indices)
        for index in load.indices:
            self.visit(index)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self._access(store.buffer, store.indices)
        for index in store.indices:
            self.visit(index)
        self.visit(store.value)
        if store.predicate is not None:
            self.visit(store.predicate)

    def _access(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        known = self.boxes.get(buffer)
        if known is None:
            return
        is_of_warp = buffer.scope() == "warp"
        sharing = self._lanes if is_of_warp else self._threads if is_block_scope(buffer.scope()) else None
        boxes = [self._box(index, self._depth[buffer], sharing) for index in indices]
        self.boxes[buffer] = [a.union(b) for a, b in zip(known, boxes)] if known else boxes

    def _box(self, index: PrimExpr, depth: int, sharing: set[Var] | None) -> _Box:
        """What an index reaches while the loops inside of a depth run, and the threads that share the buffer, if any do."""
        threads = sharing or set()
        if sharing is not None and any(var in self._differing for var in variables_in(index)):
            return _WHOLE
        lanes = 1
        if isinstance(index, E.Ramp) and isinstance(index.stride, IntImm) and index.stride.value > 0:
            lanes, index = (index.lanes - 1) * index.stride.value + 1, index.base
        if not E.dt.is_index(index.dtype):
            return _WHOLE
        found = self._ranges.split(
            self.simplifier.linear(index),
            lambda var: self._position.get(var, -1) >= depth or var in threads,
        )
        if found is None:
            return _WHOLE
        start, low, high = found
        # Of other accesses the same start may be written as the parts of a digit.
        return _Box(self.simplifier.recombine(start.plus(Linear({}, low))), high - low + lanes)


class _Shrink(StmtExprMutator):
    def __init__(
        self, simplifier: IndexSimplifier, plan: dict[Buffer, tuple[Buffer, list[Linear | None]]]
    ) -> None:
        super().__init__()
        self.simplifier = simplifier
        self.plan = plan

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return self.plan[buffer][0] if buffer in self.plan else buffer

    def visit_Block(self, block: Block) -> Block:
        mapped = self.generic_visit(block)
        if BUFFER_DIM_ALIGN in mapped.annotations:
            rest = {k: v for k, v in mapped.annotations.items() if k != BUFFER_DIM_ALIGN}
            mapped = mapped.replace(annotations=rest)
        return mapped

    def _relative(self, index: PrimExpr, start: Linear | None) -> PrimExpr:
        index = self.visit(index)
        if start is None or (not start.terms and start.const == 0):
            return index
        if isinstance(index, E.Ramp):
            return E.Ramp(self._relative(index.base, start), index.stride, index.lanes)
        simplifier = self.simplifier
        moved = simplifier.try_build(simplifier.linear(index).plus(start, -1), index.dtype)
        # a part may lie beyond the type, the difference does not
        return E.Sub(index, simplifier.build(start, index.dtype)) if moved is None else moved

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        found = self.plan.get(load.buffer)
        if found is None:
            return self.generic_visit(load)
        buffer, starts = found
        return BufferLoad(
            buffer, [self._relative(i, s) for i, s in zip(load.indices, starts)], load.predicate, load.span
        )

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        found = self.plan.get(store.buffer)
        if found is None:
            return self.generic_visit(store)
        buffer, starts = found
        indices = [self._relative(i, s) for i, s in zip(store.indices, starts)]
        return BufferStore(buffer, self.visit(store.value), indices, store.predicate, store.span)

    def visit_BufferRegion(self, region: BufferRegion) -> BufferRegion:
        found = self.plan.get(region.buffer)
        if found is None:
            return region
        buffer, starts = found
        ranges = [
            Range.from_min_extent(self._relative(r.min, s), r.extent) for r, s in zip(region.region, starts)
        ]
        return BufferRegion(buffer, ranges)


def _is_padded_tile(buffer: Buffer, box: _Box, extent: int) -> bool:
    """Whether rows of accumulators are accessed a little beyond their ends, under a predicate.

    Room for that lets whole vectors of them stay in registers.
    """
    if buffer.scope() != "local" or box.start is None or box.start.terms or box.start.const != 0:
        return False
    return box.extent - extent < _WIDEST_TILE


def _aligned_strides(shape: list[PrimExpr], alignments: list[RowAlignment]) -> list[PrimExpr] | None:
    """Row-major strides that are aligned so; a scalar has none."""
    if not shape:
        return None
    wanted = {alignment.axis % len(shape): alignment for alignment in alignments}
    strides: list[int] = []
    dense = 1
    for axis in reversed(range(len(shape))):
        extent = shape[axis]
        if not isinstance(extent, IntImm):
            return None
        if axis in wanted:
            dense = wanted[axis].step(dense)
        strides.insert(0, dense)
        dense *= extent.value
    return [const(stride, shape[0].dtype) for stride in strides]


@dataclass(frozen=True)
class CompactBufferAllocation(PrimFuncPass):
    """Shrink allocated buffers to what is accessed within the scope of their allocation, of shared memory by all threads of a block, and of
    a warp's by its threads.

    Runs behind ConvertBlocksToOpaque; ``storage_align`` annotations become strides here.

    Before::

        for i in range(16):
            with T.block(""):
                B = T.alloc_buffer((16, 16))
                for j in range(16):
                    B[i, j] = A[i, j] + 1.0
                for j in range(16):
                    C[i, j] = B[i, j] * 2.0

    After::

        for i in range(16):
            with T.block(""):
                B = T.alloc_buffer((1, 16))
                for j in range(16):
                    B[0, j] = A[i, j] + 1.0
                for j in range(16):
                    C[i, j] = B[0, j] * 2.0
    """

    pass_name = "tir.CompactBufferAllocation"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with smaller allocations."""
        collector = _Collect()
        collector.visit(func.body)
        plan: dict[Buffer, tuple[Buffer, list[Linear | None]]] = {}
        for buffer, boxes in collector.boxes.items():
            rules = collector.alignment.get(buffer)
            if buffer.strides or buffer.elem_offset is not None:
                continue
            shape = list(buffer.shape)
            starts: list[Linear | None] = [None] * len(shape)
            for axis, box in enumerate(boxes or ()):
                extent = shape[axis]
                if box.start is None:
                    continue
                if isinstance(extent, IntImm) and box.extent >= extent.value:
                    if axis == len(shape) - 1 and _is_padded_tile(buffer, box, extent.value):
                        shape[axis] = const(box.extent, extent.dtype)
                    continue
                starts[axis] = box.start
                shape[axis] = const(box.extent, extent.dtype)
            strides = _aligned_strides(shape, rules) if rules else None
            if strides or any(new is not old for new, old in zip(shape, buffer.shape)):
                plan[buffer] = (buffer.replace(shape=tuple(shape), strides=tuple(strides or ())), starts)
        if not plan:
            return func
        return func.replace(body=_Shrink(collector.simplifier, plan).visit(func.body))
