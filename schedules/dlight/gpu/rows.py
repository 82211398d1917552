"""One kernel for chains of reductions over the same rows: a block of threads computes a row, its reductions shared by all threads.

for i: m[i] = max_j(A[i, j])                for i (blockIdx.x):
for i: s[i] = sum_j(exp(A[i, j] - m[i]))      for t (threadIdx.x): m_shared = max over the thread's j, and then over threads
for i, j: B[i, j] = exp(...) / s[i]           for t (threadIdx.x): s_shared = ...
                                              for j, t (threadIdx.x): B[i, j] = ...
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ir import tir

from ...random_variable import BlockRV, LoopRV
from ...rule.block_facts import (
    elementwise_prefix,
    node_of,
    reduce_vars,
    spatial_vars,
    stands_alone,
)
from ...schedule import Schedule
from ...tree import BlockNode, loops_around
from .rule import Nests
from .sharing import move_reduction_inside, number_of, reduced_elements, share_reduction

_FEWEST, _MOST = 32, 256
"""Threads of a row: a warp exchanges without shared memory, and more than eight of them wait for each other long."""
_LONG = 1 << 13
"""Elements of rows that many threads share, where there are fewer rows than multiprocessors."""
_PER_THREAD = 4
"""Elements of a row that a thread has at least, where a row has as many."""


def schedule_rows(nests: Nests, blocks: Sequence[BlockRV]) -> bool:
    """Put the nests of some blocks, of which each but the last is read by later ones only, into one kernel.

    Returns:
        False where their loops do not run over common rows.
    """
    sch = nests.sch
    nodes = [node_of(sch, block) for block in blocks]
    # What is made of a number has no loops.
    if not all(stands_alone(node) or not loops_around(node) for node in nodes):
        return False
    count = _common_rows(nodes)
    if count is None:
        return False
    threads = nests.number(_threads_of_a_row(nests, nodes), [32, 64, 128, 256, 512])
    last = blocks[-1]
    if reduce_vars(nodes[-1]):
        move_reduction_inside(sch, last)
    row, inner = _split_rows(sch, last, count, nodes)
    sch.bind(row, "blockIdx.x")
    if reduce_vars(nodes[-1]):
        share_reduction(sch, last, threads)
    else:
        _outer, own = sch.split(inner, [None, threads])
        sch.bind(own, "threadIdx.x")
    for block in reversed(blocks[:-1]):
        sch.compute_at(block, row, preserve_unit_loops=True)
        for position in range(len(node_of(sch, block).writes)):
            sch.set_scope(block, position, "shared")
        share_reduction(sch, block, threads)
    return True


def _common_rows(nodes: Sequence[BlockNode]) -> int | None:
    """How many outer loops of the last block are rows: those that select what it reads of the reductions before it."""
    last = nodes[-1]
    if len(nodes) == 1:
        return len(spatial_vars(last))
    written = {region.buffer for node in nodes[:-1] for region in node.writes}
    producers = [node for node in nodes[:-1] if any(_reads(last, region.buffer) for region in node.writes)]
    counts = {elementwise_prefix(node, last) for node in producers}
    if not written or len(counts) != 1 or not all(reduce_vars(node) for node in nodes[:-1]):
        return None
    (count,) = counts
    whole = all(not _wide_spatial(node) for node in nodes[:-1])
    return count if count or whole else None


def _reads(node: BlockNode, buffer: tir.Buffer) -> bool:
    return any(region.buffer is buffer for region in node.reads)


def _wide_spatial(node: BlockNode) -> list[tir.PrimExpr]:
    """The extents of a block's data-parallel variables, without those of one."""
    return [
        item.dom.extent
        for item in node.iter_vars
        if item.iter_type == tir.IterVar.DataPar and number_of(item.dom.extent) != 1
    ]


def _split_rows(
    sch: Schedule, last: BlockRV, count: int, nodes: Sequence[BlockNode]
) -> tuple[LoopRV, LoopRV]:
    """The last block's loops as one over rows, and one within a row."""
    loops = sch.get_loops(last)
    outer, inner = loops[:count], loops[count:]
    if not outer:
        outer = [sch.add_unit_loop(loops[0] if loops else last)]
    elif len(nodes) > 1:
        # Of a group of channels, say, with one mean: a row has several of them.
        rows, groups = _product(_loop_extents(nodes[-1])[:count]), _product(_wide_spatial(nodes[0]))
        shared = None if rows is None or not groups or rows % groups else rows // groups
        innermost = number_of(_loop_extents(nodes[-1])[count - 1])
        if shared is not None and shared > 1 and innermost is not None and innermost % shared == 0:
            group, within = sch.split(outer[-1], [None, shared])
            outer, inner = [*outer[:-1], group], [within, *inner]
    if reduce_vars(nodes[-1]):
        return sch.fuse(*outer), inner[0] if inner else outer[-1]
    if not inner:
        inner = [sch.add_unit_loop(last)]
    return sch.fuse(*outer), sch.fuse(*inner)


def _loop_extents(node: BlockNode) -> list[tir.PrimExpr]:
    return [loop.extent for loop in loops_around(node)]


def _threads_of_a_row(nests: Nests, nodes: Sequence[BlockNode]) -> int:
    """Threads for the longest row, of known lengths: so many that each has a few elements."""
    most = int(nests.target.max_threads_per_block)
    lengths = [reduced_elements(node) for node in nodes if reduce_vars(node)]
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths):
        return min(_MOST, most)
    longest = max(known, default=1)
    limit = _MOST
    rows = _product(_wide_spatial(nodes[0]))
    if (
        longest >= _LONG
        and rows is not None
        and rows < int(nests.target.attrs.get("multi_processor_count", 1))
    ):
        limit = 1024
    threads = _FEWEST
    while threads * 2 * _PER_THREAD <= longest and threads < min(limit, most):
        threads *= 2
    return threads


def _product(extents: Sequence[tir.PrimExpr]) -> int | None:
    numbers = [number_of(extent) for extent in extents]
    return None if None in numbers else prod(number for number in numbers if number is not None)
