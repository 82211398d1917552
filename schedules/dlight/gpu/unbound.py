"""Kernels of nests that no other rule knows: loops that can run in any order on blocks and threads, others by one thread."""

from __future__ import annotations

from math import prod

from ir import dtype as dt
from ir import tir
from ir.target import Target
from ir.target.gpu_facts import ACCESS_BYTES
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ...analysis import producers_of, why_not_reduction
from ...random_variable import BlockRV
from ...rule.auto_bind import bind_block, is_in_blocks
from ...rule.block_facts import (
    elementwise_consumer,
    extent_at,
    is_injective,
    is_plain_nest,
    node_of,
    reduce_vars,
    reduces_side_by_side,
    reduction_loops,
    stands_alone,
)
from ...rule.memory_order import contiguous_loop
from ...schedule import Schedule
from ...tree import BlockNode, child_blocks, loops_around
from .sharing import is_short, number_of, share_columns, share_rows

THREADS = 256
"""Of a block: of elementwise kernels as good as any number on every architecture."""
_WARP = 32
_BLOCKS = 1 << 16
"""At most where the extent is known; the rest becomes a loop of each thread."""
_WORK_PER_PROCESSOR = 2048
"""Threads that keep a multiprocessor busy: vectors that leave fewer are not worth it."""


def bind_unbound_blocks(sch: Schedule, target: Target) -> None:
    """Bind the nests that are bound to no blocks of threads yet, each in a kernel of its own, reductions with elementwise consumers."""
    func = sch.func_working_on
    assert func is not None
    threads = min(THREADS, int(target.max_threads_per_block))
    for node in child_blocks(sch._root(func)):
        if LAYOUT_REWRITE_PREPROC in node.annotations or is_in_blocks(loops_around(node)):
            continue
        block = sch.get_block(node.name)
        if reduce_vars(node) and stands_alone(node):
            _bind_reduction(sch, block, target, threads)
        elif (lanes := _lanes(node, target)) > 1:
            _bind_vectors(sch, block, lanes)
        else:
            bind_block(sch, block, _BLOCKS, threads)


def _bind_reduction(sch: Schedule, block: BlockRV, target: Target, threads: int) -> None:
    """Threads share a long reduction of few results, and have one each of many."""
    node = node_of(sch, block)
    consumer = elementwise_consumer(node)
    if consumer is not None and (len(producers_of(consumer)) > 1 or not stands_alone(consumer)):
        consumer = None
    last = None if consumer is None else sch.get_block(consumer.name)
    results = [number_of(item.dom.extent) for item in node.iter_vars if item.iter_type == tir.IterVar.DataPar]
    busy = int(target.attrs.get("multi_processor_count", 1)) * _WORK_PER_PROCESSOR
    is_enough = None in results or prod(number for number in results if number is not None) >= busy
    is_known = why_not_reduction(node) is None and reduction_loops(node)
    if is_known and not is_short(node) and not is_enough:
        if reduces_side_by_side(node):
            share_columns(sch, block, last)
        else:
            share_rows(sch, block, _WARP)
    elif is_known and last is not None:
        blocks, own = sch.split(sch.fuse(*sch.get_loops(last)), [None, threads])
        sch.bind(blocks, "blockIdx.x")
        sch.bind(own, "threadIdx.x")
        sch.compute_at(block, own, preserve_unit_loops=True)
        sch.set_scope(block, 0, "local")
    else:
        bind_block(sch, block, _BLOCKS, threads)


def _lanes(node: BlockNode, target: Target) -> int:
    """Neighbouring results that a thread computes at once: 16 bytes of them, where results and operands lie so and keep the device busy."""
    if not is_injective(node) or not is_plain_nest(node):
        return 1
    written = contiguous_loop(node, node.writes[0])
    positions = range(len(loops_around(node)))
    if written is None or written != positions[-1]:
        return 1
    lanes = ACCESS_BYTES // max(dt.bytes_of(region.buffer.dtype) for region in (*node.reads, *node.writes))
    total = prod(extent_at(node, position) for position in positions)
    busy = int(target.attrs.get("multi_processor_count", 1)) * _WORK_PER_PROCESSOR
    while lanes > 1 and (extent_at(node, written) % lanes or total // lanes < busy):
        lanes //= 2
    return max(lanes, 1)


def _bind_vectors(sch: Schedule, block: BlockRV, lanes: int) -> None:
    node = node_of(sch, block)
    assert all(isinstance(loop.extent, tir.IntImm) for loop in loops_around(node))
    fused = sch.fuse(*sch.get_loops(block))
    blocks, threads, elements = sch.split(fused, [None, THREADS, lanes])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    sch.vectorize(elements)
