"""Kernels of nests that no other rule knows: loops that can run in any order on blocks and threads, others by one thread."""

from __future__ import annotations

from functools import partial
from math import prod

from ir import dtype as dt
from ir import tir
from ir.target import Target
from ir.target.gpu_facts import ACCESS_BYTES, WARP
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ...analysis import producers_of, why_not_reduction
from ...block_facts import (
    elementwise_consumer,
    extent_at,
    is_injective,
    is_plain_nest,
    node_of,
    number_of,
    reduce_vars,
    reduces_side_by_side,
    stands_alone,
)
from ...block_threads import bind_block, is_in_blocks
from ...random_variable import BlockRV
from ...rule.base import unless_refused
from ...rule.memory_order import contiguous_loop
from ...schedule import Schedule
from ...tree import BlockNode, child_blocks, loops_around
from .sharing import is_short, share_columns, share_rows

THREADS = 256
"""Of a block: of elementwise kernels as good as any number on every architecture."""
_BLOCKS = 1 << 16
"""At most where the extent is known; the rest becomes a loop of each thread."""
_WORK_PER_PROCESSOR = 2048
"""Threads that keep a multiprocessor busy."""


def bind_unbound_blocks(sch: Schedule, target: Target) -> Schedule:
    """A schedule whose nests that are bound to no blocks of threads yet are kernels, reductions with what is computed of their results.

    What does what no thread can is left as it is.
    """
    func = sch.func_working_on
    assert func is not None
    for name in [node.name for node in child_blocks(sch._root(func))]:
        block = sch.get_block(name)
        node = node_of(sch, block)
        if LAYOUT_REWRITE_PREPROC in node.annotations or is_in_blocks(loops_around(node)):
            continue
        offers = [partial(_bind_in_any_order, name=name, target=target)]
        if reduce_vars(node) and stands_alone(node) and why_not_reduction(node) is None:
            offers.insert(0, partial(_bind_reduction, name=name, target=target))
        made = (unless_refused(sch, offer) for offer in offers)
        sch = next((found[0] for found in made if found), sch)
    return sch


def _threads(target: Target) -> int:
    return min(THREADS, int(target.max_threads_per_block))


def _busy(target: Target) -> int:
    """How many threads keep a device busy."""
    return target.multi_processor_count * _WORK_PER_PROCESSOR


def _bind_reduction(sch: Schedule, name: str, target: Target) -> list[Schedule]:
    """Threads share a long reduction of few results, and have one each of many."""
    block = sch.get_block(name)
    node = node_of(sch, block)
    consumer = elementwise_consumer(node)
    if consumer is not None and (len(producers_of(consumer)) > 1 or not stands_alone(consumer)):
        consumer = None
    last = None if consumer is None else sch.get_block(consumer.name)
    results = [number_of(item.dom.extent) for item in node.iter_vars if item.iter_type == tir.IterVar.DataPar]
    is_enough = None in results or prod(item for item in results if item is not None) >= _busy(target)
    if not is_short(node) and not is_enough:
        if reduces_side_by_side(node):
            share_columns(sch, block, last)
        else:
            share_rows(sch, block, WARP)
        return [sch]
    return [] if last is None else _bind_with_consumer(sch, block, last, target)


def _bind_with_consumer(sch: Schedule, block: BlockRV, consumer: BlockRV, target: Target) -> list[Schedule]:
    """Each thread computes a result of a reduction, and what its consumer makes of it."""
    blocks, own = sch.split(sch.fuse(*sch.get_loops(consumer)), [None, _threads(target)])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(own, "threadIdx.x")
    sch.compute_at(block, own, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    return [sch]


def _bind_in_any_order(sch: Schedule, name: str, target: Target) -> list[Schedule]:
    """The loops whose iterations do not depend on each other, as far as they stand outside, and neighbours as vectors."""
    block = sch.get_block(name)
    lanes = _lanes(node_of(sch, block), target)
    if lanes == 1:
        bind_block(sch, block, _BLOCKS, _threads(target))
        return [sch]
    blocks, threads, elements = sch.split(sch.fuse(*sch.get_loops(block)), [None, _threads(target), lanes])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    sch.vectorize(elements)
    return [sch]


def _lanes(node: BlockNode, target: Target) -> int:
    """Neighbouring results that a thread computes at once: 16 bytes of them, where they lie side by side and keep the device busy."""
    if not is_injective(node) or not is_plain_nest(node):
        return 1
    written = contiguous_loop(node, node.writes[0])
    positions = range(len(loops_around(node)))
    if written is None or written != positions[-1]:
        return 1
    lanes = ACCESS_BYTES // max(dt.bytes_of(region.buffer.dtype) for region in (*node.reads, *node.writes))
    total = prod(extent_at(node, position) for position in positions)
    while lanes > 1 and (extent_at(node, written) % lanes or total // lanes < _busy(target)):
        lanes //= 2
    return max(lanes, 1)
