"""Running the loops of a block that is bound to nothing yet on the blocks and threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from ir import tir

from .affine import mentions
from .analysis import leaves_beside_blocks
from .block_facts import feeds_data_parallel_only, node_of
from .choice import one_of
from .dependence import why_iterations_conflict
from .effects import has_effects
from .error import ScheduleError
from .random_variable import BlockRV, ExprRV
from .returns import returns_below
from .schedule import Schedule
from .tree import BlockNode, LoopNode, blocks_below, child_blocks, loops_around


def bind_block(
    sch: Schedule,
    block: BlockRV,
    max_threadblocks: int,
    max_threads_per_block: int,
    thread_extents: Sequence[int] = (),
) -> None:
    """Bind the outer loops of a block that is bound to no thread yet; the threads are sampled where there are candidates.

    A block that holds nothing but nests of blocks, such as those of an operator that is written as loops, has each of them bound
    instead. Loops around threads that another rule has bound become blocks of them. A nest that must run in order is one thread's; one
    where the function may return, or that calls what has effects, is left as it is.
    """
    node = node_of(sch, block)
    if _holds_nests_only(node):
        for nested in sch.get_child_blocks(block):
            bind_block(sch, nested, max_threadblocks, max_threads_per_block, thread_extents)
        return
    nodes = loops_around(node)
    nest = nodes[0] if nodes else node
    free = list(takewhile(lambda loop: loop.thread_binding is None, nodes))
    has_threads = len(free) < len(nodes)
    if (has_threads and (not free or is_in_blocks(nodes))) or returns_below(nest):
        return
    if has_effects(blocks_below(nest)):
        return
    count = _parallel_prefix(free)
    loops = sch.get_loops(block)
    fused = sch.fuse(*loops[:count]) if count else sch.add_unit_loop(loops[0] if loops else block)
    if has_threads:
        sch.bind(fused, "blockIdx.x")
        return
    extent = sch.get(fused).extent
    total = extent.value if isinstance(extent, tir.IntImm) else None
    if total is not None and total > max_threadblocks * max_threads_per_block:
        rest, blocks, threads = sch.split(fused, [None, max_threadblocks, max_threads_per_block])
        sch.reorder(blocks, threads, rest)
    else:
        blocks, threads = sch.split(
            fused, [None, _threads(sch, total, max_threads_per_block, thread_extents)]
        )
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")


def is_in_blocks(loops: Sequence[LoopNode]) -> bool:
    """Whether one of some loops runs on blocks of threads."""
    tags = [loop.thread_binding.thread_tag for loop in loops if loop.thread_binding is not None]
    return any(tag.startswith("blockIdx") for tag in tags)


def _holds_nests_only(node: BlockNode) -> bool:
    """Whether a block runs once, and all that it holds are blocks with loops around them."""
    if node.iter_vars or loops_around(node) or leaves_beside_blocks(node):
        return False
    blocks = child_blocks(node)
    return bool(blocks) and all(map(loops_around, blocks))


def _parallel_prefix(loops: Sequence[LoopNode]) -> int:
    """How many loops from the outside in feed data-parallel variables only, are nested directly, begin at 0, and have extents that depend
    on none of them.

    Where no iterations of each conflict, none of the fused loop do, however it is split.
    """
    count = 0
    outer: set[tir.Var] = set()
    for loop in loops:
        if not feeds_data_parallel_only(loop) or not loop.begins_at_zero or mentions(loop.extent, outer):
            break
        if why_iterations_conflict(loop, blocks_below(loop)) is not None:
            break
        outer.add(loop.var)
        count += 1
        if not isinstance(loop.body, LoopNode):
            break
    return count


def _threads(sch: Schedule, total: int | None, limit: int, candidates: Sequence[int]) -> int | ExprRV:
    """The threads of a block: sampled among the candidates that the loop can fill."""
    useful = [item for item in candidates if item <= limit and (total is None or item <= total)]
    if not candidates:
        return limit if total is None else min(limit, max(total, 1))
    if not useful:
        if total is None or total > limit:
            raise ScheduleError(
                f"none of the thread extents {list(candidates)} is within {limit}, the threads of a block"
            )
        return max(total, 1)
    return one_of(sch, useful)
