"""GEMV: products of a matrix and a vector, bound by reading the matrix once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.target.gpu_facts import ACCESS_BYTES, WARP

from ...block_facts import elementwise_consumer, is_one, is_spatial, loop_position, node_of
from ...error import ScheduleError
from ...random_variable import BlockRV, LoopRV
from ...rule.product_form import extent_of, product_axes
from ...rule.shared_reduction import move_reduction_inside
from ...tree import BlockNode
from .rule import GPUScheduleRule, Nests
from .sharing import share_columns

_THREADS = (8, 16, 32, 64, 128, 256)
"""Candidates of the threads of a row."""
_STEPS = 4
"""Loads of each thread at least, before a row has more threads than a warp."""
_ROWS = 4
"""Rows of a block of threads, of which each has a warp or more."""


class GEMV(GPUScheduleRule):
    """Share each row of ``y[i] = sum_k(A[i, k] * x[k])`` among threads that read neighbouring vectors of it.

    Each thread adds up the products of its own elements, which it loads 16 bytes at a time where rows have a known and fitting length, and
    the threads of a row add up their sums by shuffles. Where the matrix is contiguous along i, neighbouring
    threads have neighbouring rows instead. An elementwise consumer is computed in the same kernel.
    """

    def stays(self, node: BlockNode) -> bool:
        return self._axes(node) is not None

    def schedule(self, nests: Nests) -> bool:
        return schedule_rows_of_matrix(nests, self._axes)

    def _axes(self, node: BlockNode) -> RowAxes | None:
        axes = product_axes(node)
        if axes is None or len(axes.k) != 1 or bool(axes.m) == bool(axes.n):
            return None
        rows = (*axes.batch, *axes.m, *axes.n)
        return RowAxes(rows, (), axes.k[0], axes.lhs if axes.m else axes.rhs)


@dataclass(frozen=True)
class RowAxes:
    """The axes of a product whose time goes into reading a matrix."""

    rows: tuple[Any, ...]
    own: tuple[Any, ...]
    """Axes that the matrix does not have: each of its elements is used for all of their values."""
    k: Any
    matrix: int
    """Its position among what the block reads."""


def schedule_rows_of_matrix(nests: Nests, axes_of: Any) -> bool:
    """Schedule the only nest of a function, but for an elementwise consumer, that has such axes."""
    sch = nests.sch
    found = [(block, axes) for block in nests.blocks() if (axes := axes_of(node_of(sch, block))) is not None]
    if len(found) != 1:
        return False
    ((block, axes),) = found
    consumer = elementwise_consumer(node_of(sch, block))
    matrix = node_of(sch, block).reads[axes.matrix]
    contiguous = _is_last(matrix, axes.k)
    while makers := [item for item in sch.get_producers(block) if is_spatial(node_of(sch, item))]:
        sch.compute_inline(makers[0])
    if len(nests.blocks()) != (1 if consumer is None else 2):
        return False
    last = None if consumer is None else sch.get_block(consumer.name)
    if contiguous:
        _share_rows(nests, block, last, axes)
    elif not axes.own:
        share_columns(sch, block, last)
    return contiguous or not axes.own


def _is_last(region: tir.BufferRegion, var: Any) -> bool:
    """Whether a buffer is contiguous along a variable."""
    wide = [item for item, dim in zip(region.region, region.buffer.shape, strict=True) if not is_one(dim)]
    return bool(wide) and wide[-1].min is var


def _share_rows(nests: Nests, block: BlockRV, last: BlockRV | None, axes: RowAxes) -> None:
    sch = nests.sch
    node = node_of(sch, block)
    length, n_rows = extent_of(node, [axes.k]), extent_of(node, axes.rows)
    if length is None:
        raise ScheduleError("GEMV: how threads share rows of unknown length is not known beforehand")
    lanes = _lanes(node, axes, length)
    fitting = [count for count in _THREADS if length % (count * lanes) == 0]
    if not fitting:
        raise ScheduleError(f"GEMV: no warp shares rows of {length} elements evenly")
    threads = nests.number(_threads(length, lanes, fitting), fitting)
    others, own = _rows_and_own(nests, block, [*axes.own, axes.k])
    sch.reorder(*others, *own)
    *own, reduced = own
    last_own = [] if last is None else _read_at(node_of(sch, last), node, axes.own)
    _step, shared, _elements = sch.split(reduced, [None, threads, lanes])
    parts = sch.rfactor(shared, 0)
    sch.set_scope(parts, 0, "local")
    if last is None:
        row = _bind_rows(nests, sch.get_loops(block)[: len(others)], n_rows)
    else:
        rows, within = _rows_and_own(nests, last, last_own)
        sch.reorder(*rows, *within)
        row = _bind_rows(nests, rows, n_rows)
        inner = sch.fuse(*within) if within else sch.add_unit_loop(last)
        _outer, writing = sch.split(inner, [None, threads])
        sch.bind(writing, "threadIdx.x")
        sch.compute_at(block, row, preserve_unit_loops=True)
        sch.set_scope(block, 0, "shared")
    move_reduction_inside(sch, block)
    sch.bind(sch.get_loops(block)[-1], "threadIdx.x")
    sch.compute_at(parts, row, preserve_unit_loops=True)
    _add_up_parts(nests, parts, lanes)


def _rows_and_own(
    nests: Nests, block: BlockRV, variables: Sequence[Any]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """The loops of a nest that some variables are not bound to, and those that they are, in the order of the variables."""
    node, loops = node_of(nests.sch, block), nests.sch.get_loops(block)
    positions = [position for var in variables if (position := loop_position(node, var)) is not None]
    rows = [loop for position, loop in enumerate(loops) if position not in positions]
    return rows, [loops[position] for position in positions]


def _read_at(consumer: BlockNode, producer: BlockNode, variables: Sequence[Any]) -> list[Any]:
    """The variables by which an elementwise consumer reads the dimensions that some variables of the producer index."""
    written = producer.writes[0]
    read = next(region for region in consumer.reads if region.buffer is written.buffer)
    return [
        mine.min
        for mine, item in zip(read.region, written.region, strict=True)
        if any(item.min is var for var in variables)
    ]


def _bind_rows(nests: Nests, loops: list[LoopRV], count: int | None) -> LoopRV:
    """Rows on blocks of threads, some rows each where they are known to share evenly; returns the innermost loop."""
    sch = nests.sch
    row = sch.fuse(*loops)
    if count is None or count % _ROWS or count < _ROWS * nests.target.multi_processor_count:
        sch.bind(row, "blockIdx.x")
        return row
    blocks, row = sch.split(row, [None, _ROWS])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(row, "threadIdx.y")
    return row


def _add_up_parts(nests: Nests, parts: BlockRV, lanes: int) -> None:
    """The sums of each thread, in loops of its own: the matrix is loaded once for all results that use it, in vectors."""
    sch = nests.sch
    count = len(node_of(sch, parts).iter_vars)
    thread, *spatial, step, elements = sch.get_loops(parts)[-count:]
    sch.reorder(thread, step, *spatial, elements)
    sch.bind(thread, "threadIdx.x")
    if lanes > 1:
        for position in range(len(node_of(sch, parts).reads)):
            _load_vectors(nests, parts, position, step)
    sch.decompose_reduction(parts, step)


def _load_vectors(nests: Nests, parts: BlockRV, position: int, step: LoopRV) -> None:
    sch = nests.sch
    copy = sch.cache_read(parts, position, "local")
    sch.compute_at(copy, step, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(copy)[-1])


def _lanes(node: BlockNode, axes: RowAxes, length: int) -> int:
    """Neighbours that a thread loads at once: as many as fit 16 bytes of every operand, and rows of a known length."""
    if not all(_is_last(region, axes.k) for region in node.reads):
        return 1
    lanes = ACCESS_BYTES // max(dt.bytes_of(region.buffer.dtype) for region in node.reads)
    while lanes > 1 and length % lanes:
        lanes //= 2
    return max(lanes, 1)


def _threads(length: int, lanes: int, fitting: list[int]) -> int:
    """Threads of a row: a warp or less, and more where rows are long."""
    return max(
        [item for item in fitting if item <= WARP or item * lanes * _STEPS <= length], default=fitting[0]
    )
