"""One kernel for chains of reductions over the same rows: the threads of a block compute a row, or some rows, of which each has threads.

for i: m[i] = max_j(A[i, j])                for i (blockIdx.x): for i' (threadIdx.y):
for i: s[i] = sum_j(exp(A[i, j] - m[i]))      for t (threadIdx.x): m_shared = max over the thread's j, and then over threads
for i, j: B[i, j] = exp(...) / s[i]           for t (threadIdx.x): s_shared = ...
                                              for j, t (threadIdx.x): B[i, j] = ...

Default schedules and the design space make it alike: they differ in who chooses the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.target.gpu_facts import ACCESS_BYTES

from ..affine import mentions
from ..block_facts import (
    elementwise_prefix,
    is_one,
    node_of,
    number_of,
    reduce_vars,
    reduction_loops,
    stands_alone,
)
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, loops_around
from .shared_reduction import move_reduction_inside, share_reduction

MOST_KEPT = 32
"""Elements of a row that a thread keeps in registers."""


@dataclass(frozen=True)
class Rows:
    """What some blocks, of which each but the last is read by later ones only, have in common."""

    outer: int
    """How many outer loops of the last block choose a row."""
    together: int
    """Iterations of the innermost of them that belong to one row, as the channels of a group with one mean do."""
    count: int | None
    """Rows; None where that is symbolic."""
    neighbours: int | None
    """Rows that the innermost of those loops runs through."""
    written: int | None
    """Elements of a row that the last block computes side by side, or reduces."""
    source: tir.Buffer | None
    """A tensor whose rows several blocks read, all in the same order and whole."""
    part: tuple[tuple[int, int], ...]
    """Dimensions of that tensor that a row goes along, the outermost first, and how far: of the others it has one element."""
    widest_bytes: int
    """Of what is loaded and stored: that tensor, and what the last block reads and writes of each element."""

    @property
    def length(self) -> int:
        """Elements of a row of the tensor that several blocks read; 0 where there is no such tensor."""
        return prod(extent for _, extent in self.part) if self.source is not None else 0


@dataclass(frozen=True)
class RowNumbers:
    """How a block of threads computes rows; numbers may be open decisions."""

    threads: int | ExprRV
    """Of a row."""
    lanes: int | ExprRV = 1
    """Neighbours that a thread loads and stores at once; they divide a row evenly among all threads."""
    rows: int | ExprRV = 1
    """Of a block; a divisor of the number of neighbours."""
    keeps: bool = False
    """Whether each thread has its part of a row in registers, so that memory is read once."""


def rows_of(nodes: Sequence[BlockNode]) -> Rows | None:
    """The common rows of some blocks; None where their loops run over none, or are not as they were written."""
    # What is made of a number has no loops.
    if not all(stands_alone(node) or not loops_around(node) for node in nodes):
        return None
    outer = _common_loops(nodes)
    if outer is None:
        return None
    extents = [loop.extent for loop in loops_around(nodes[-1])]
    together = _together(nodes, extents[:outer])
    chosen, within = _product(extents[:outer]), _product(extents[outer:])
    source, part = _source(nodes, outer, together)
    return Rows(
        outer,
        together,
        None if chosen is None else chosen // together,
        _neighbours(extents[:outer], together),
        None if within is None else within * together,
        source,
        part,
        max(
            dt.bytes_of(buffer.dtype)
            for buffer in (
                *([] if source is None else [source]),
                *[region.buffer for region in (*nodes[-1].reads, *nodes[-1].writes)],
            )
        ),
    )


def compute_rows(sch: Schedule, blocks: Sequence[BlockRV], rows: Rows, numbers: RowNumbers) -> None:
    """Put the nests of some blocks into one kernel.

    Args:
        sch: has the blocks.
        blocks: in order, each but the last read by later ones only.
        rows: what :func:`rows_of` says of them.
        numbers: how they are computed.

    Raises:
        ScheduleError: a primitive refuses a step.
    """
    threads, lanes = numbers.threads, numbers.lanes
    # Reductions take neighbours only from registers: out of memory they are better read side by side by neighbouring threads.
    reduced_lanes = lanes if numbers.keeps else 1
    last = blocks[-1]
    if reduce_vars(node_of(sch, last)):
        move_reduction_inside(sch, last)
    row, inner = _split_rows(sch, last, rows, numbers.rows)
    if reduce_vars(node_of(sch, last)):
        share_reduction(sch, last, threads, lanes=reduced_lanes)
    else:
        _share_elements(sch, inner, threads, lanes)
    for block in reversed(blocks[:-1]):
        sch.compute_at(block, row, preserve_unit_loops=True)
        for position in range(len(node_of(sch, block).writes)):
            sch.set_scope(block, position, "shared")
        share_reduction(sch, block, threads, lanes=reduced_lanes)
    if numbers.keeps:
        _keep_in_registers(sch, blocks, rows, row, numbers)


def lanes_of_rows(rows: Rows) -> list[int]:
    """Numbers of neighbours that are one access of a thread, the most first."""
    lanes = max(1, ACCESS_BYTES // rows.widest_bytes)
    return [lanes >> shift for shift in range(lanes.bit_length())]


# ---- what blocks have in common ------------------------------------------------------------------------------------


def _common_loops(nodes: Sequence[BlockNode]) -> int | None:
    """How many outer loops of the last block are rows: those that select what it reads of the reductions before it."""
    last = nodes[-1]
    if len(nodes) == 1:
        return len([item for item in last.iter_vars if item.iter_type == tir.IterVar.DataPar])
    producers = [node for node in nodes[:-1] if any(_reads(last, region.buffer) for region in node.writes)]
    counts = {elementwise_prefix(node, last) for node in producers}
    if len(counts) != 1 or not all(reduce_vars(node) for node in nodes[:-1]):
        return None
    (count,) = counts
    whole = all(not _wide_spatial(node) for node in nodes[:-1])
    return count if count or whole else None


def _reads(node: BlockNode, buffer: tir.Buffer) -> bool:
    return any(region.buffer is buffer for region in node.reads)


def results_of(node: BlockNode) -> int | None:
    """How many results a block has; None where that is symbolic."""
    return _product([item.dom.extent for item in node.iter_vars if item.iter_type == tir.IterVar.DataPar])


def _wide_spatial(node: BlockNode) -> list[tir.PrimExpr]:
    """The extents of a block's data-parallel variables, without those of one."""
    return [
        item.dom.extent
        for item in node.iter_vars
        if item.iter_type == tir.IterVar.DataPar and not is_one(item.dom.extent)
    ]


def _together(nodes: Sequence[BlockNode], chosen: Sequence[tir.PrimExpr]) -> int:
    """How many iterations of the innermost loop over rows have one result of the reductions, as the channels of a group do."""
    if not chosen or len(nodes) == 1:
        return 1
    rows, results = _product(chosen), results_of(nodes[0])
    shared = None if rows is None or not results or rows % results else rows // results
    innermost = number_of(chosen[-1])
    if shared is None or innermost is None or innermost % shared:
        return 1
    return shared


def _neighbours(chosen: Sequence[tir.PrimExpr], together: int) -> int | None:
    """Rows that the innermost loop over rows runs through; None where that is symbolic."""
    extent = number_of(chosen[-1]) if chosen else 1
    return None if extent is None else extent // together


def _source(
    nodes: Sequence[BlockNode], outer: int, together: int
) -> tuple[tir.Buffer | None, tuple[tuple[int, int], ...]]:
    """The tensor whose rows several blocks read in the same order, and which part of it a row is."""
    last = nodes[-1]
    for region in nodes[0].reads:
        buffer = region.buffer
        readers = [node for node in nodes if _reads(node, buffer)]
        if len(readers) < 2 or len(buffer.shape) < 2:
            continue
        walked = {
            tuple(_walk(node, buffer, _within_row(node, node is last, outer, together))) for node in readers
        }
        part = _part(buffer, walked.pop())
        if part and not walked:
            return buffer, part
    return None, ()


def _part(
    buffer: tir.Buffer, walked: Sequence[tuple[tuple[int, ...], int | None]]
) -> tuple[tuple[int, int], ...]:
    """Dimensions and extents of a row that is one piece of a tensor, read from its begin to its end; none of another one."""
    shape = [number_of(extent) for extent in buffer.shape]
    found = tuple((axes[0], extent) for axes, extent in walked if len(axes) == 1 and extent is not None)
    if len(found) < len(walked) or not found:
        return ()
    (first, begun), *rest = found
    behind = [(axis, shape[axis]) for axis in range(first + 1, len(shape)) if shape[axis] != 1]
    size = shape[first]
    return found if rest == behind and size is not None and size % begun == 0 else ()


def _within_row(
    node: BlockNode, is_last: bool, outer: int, together: int
) -> list[tuple[LoopNode, int | None]]:
    """The loops over the elements of a row, with their extents."""
    loops = loops_around(node)
    if reduce_vars(node):
        return [(loops[i], number_of(loops[i].extent)) for i in reduction_loops(node)]
    assert is_last
    group = [(loops[outer - 1], together)] if together > 1 else []
    return [*group, *((loop, number_of(loop.extent)) for loop in loops[outer:])]


def _walk(
    node: BlockNode, buffer: tir.Buffer, loops: Sequence[tuple[LoopNode, int | None]]
) -> list[tuple[tuple[int, ...], int | None]]:
    """In which dimensions of a tensor each loop goes on, and how far."""
    region = next(item for item in node.reads if item.buffer is buffer).region
    var_of = {
        value: item.var
        for item, value in zip(node.iter_vars, node.iter_values, strict=True)
        if isinstance(value, tir.Var)
    }
    return [
        (
            tuple(axis for axis, item in enumerate(region) if mentions(item.min, {var_of.get(loop.var, loop.var)})),
            extent,
        )
        for loop, extent in loops
        if extent != 1
    ]  # fmt: skip


def _product(extents: Sequence[tir.PrimExpr]) -> int | None:
    numbers = [number_of(extent) for extent in extents]
    return None if None in numbers else prod(number for number in numbers if number is not None)


# ---- loops ---------------------------------------------------------------------------------------------------------


def _split_rows(sch: Schedule, last: BlockRV, rows: Rows, of_block: int | ExprRV) -> tuple[LoopRV, LoopRV]:
    """The last block's loops: the innermost one over rows, all of which are bound, and one within a row."""
    loops = sch.get_loops(last)
    outer, inner = loops[: rows.outer], loops[rows.outer :]
    if not outer:
        outer = [sch.add_unit_loop(loops[0] if loops else last)]
    elif rows.together > 1:
        group, within = sch.split(outer[-1], [None, rows.together])
        outer, inner = [*outer[:-1], group], [within, *inner]
    # The rows of a block are neighbours in one loop, before others are fused with it: so places in memory stay simple.
    *outer, row = [*outer[:-1], *([outer[-1]] if of_block == 1 else sch.split(outer[-1], [None, of_block]))]
    if reduce_vars(node_of(sch, last)):
        within = inner[0] if inner else row
    else:
        within = sch.fuse(*inner) if inner else sch.add_unit_loop(last)
    if of_block == 1:
        row = sch.fuse(*outer, row)
        sch.bind(row, "blockIdx.x")
    else:
        sch.bind(sch.fuse(*outer), "blockIdx.x")
        sch.bind(row, "threadIdx.y")
    return row, within


def _share_elements(sch: Schedule, loop: LoopRV, threads: int | ExprRV, lanes: int | ExprRV) -> None:
    """Neighbouring threads have neighbouring vectors."""
    _outer, own, *elements = sch.split(loop, [None, threads, *([] if lanes == 1 else [lanes])])
    sch.bind(own, "threadIdx.x")
    for element in elements:
        sch.vectorize(element)


def _keep_in_registers(
    sch: Schedule, blocks: Sequence[BlockRV], rows: Rows, row: LoopRV, numbers: RowNumbers
) -> None:
    """Load a row once: each thread has the elements that it reduces, and computes of, in its registers."""
    readers = [
        block for block in blocks if any(item.buffer is rows.source for item in node_of(sch, block).reads)
    ]
    reads = node_of(sch, readers[0]).reads
    position = next(i for i, region in enumerate(reads) if region.buffer is rows.source)
    copy = sch.cache_read(readers[0], position, "local", consumer_blocks=readers)
    sch.compute_at(copy, row, preserve_unit_loops=True)
    before = len(sch.get_loops(copy)) - len(node_of(sch, copy).iter_vars)
    _share_elements(sch, sch.fuse(*sch.get_loops(copy)[before:]), numbers.threads, numbers.lanes)
    (first, begun), *rest = rows.part
    kept = node_of(sch, copy).writes[0].buffer
    if rest or begun != number_of(kept.shape[first]):
        sch.transform_layout(copy, ("write", 0), _row_by_row(rows.part))


def _row_by_row(part: Sequence[tuple[int, int]]) -> Callable[..., list[Any]]:
    """The layout in which a row is one dimension, so that what a thread has of it is as easily told as of a matrix' row."""
    (first, begun), *rest = part

    def place(*indices: Any) -> list[Any]:
        within = indices[first] % begun
        for axis, extent in rest:
            within = within * extent + indices[axis]
        return [*indices[:first], indices[first] // begun, within]

    return place
