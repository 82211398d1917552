"""Kernels of nests that no other rule knows: loops that can run in any order on blocks and threads, others by one thread."""

from __future__ import annotations

from math import prod

from ir import dtype as dt
from ir import tir
from ir.target import Target
from ir.target.gpu_facts import ACCESS_BYTES
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ...random_variable import BlockRV
from ...rule.auto_bind import bind_block, is_in_blocks
from ...rule.block_facts import extent_at, is_injective, is_plain_nest, node_of
from ...rule.memory_order import contiguous_loop
from ...schedule import Schedule
from ...tree import BlockNode, child_blocks, loops_around

THREADS = 256
"""Of a block: of elementwise kernels as good as any number on every architecture."""
_BLOCKS = 1 << 16
"""At most where the extent is known; the rest becomes a loop of each thread."""
_WORK_PER_PROCESSOR = 2048
"""Threads that keep a multiprocessor busy: vectors that leave fewer are not worth it."""


def bind_unbound_blocks(sch: Schedule, target: Target) -> None:
    """Bind the nests that are bound to no blocks of threads yet."""
    func = sch.func_working_on
    assert func is not None
    for node in child_blocks(sch._root(func)):
        if LAYOUT_REWRITE_PREPROC in node.annotations or is_in_blocks(loops_around(node)):
            continue
        block = sch.get_block(node.name)
        lanes = _lanes(node, target)
        if lanes > 1:
            _bind_vectors(sch, block, lanes)
        else:
            bind_block(sch, block, _BLOCKS, min(THREADS, int(target.max_threads_per_block)))


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
