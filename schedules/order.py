"""Whether a block may run at another place: whatever touches the same memory stays on its side.

What a block gets from its producers and gives to its consumers moves along: primitives solve its new domains for that. Here are the
other pairs: a block that reads what the moved one overwrites, one that overwrites what the moved one reads, and those of which
iterations of a loop around both hand over to each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from ir import tir

from .analysis import is_output_block, read_buffers, require, scope_children, written_buffers
from .coverage import why_conditional
from .dependence import why_iterations_conflict, why_overwritten, writes_one_value
from .effects import require_no_effects
from .returns import nodes_between, require_no_return
from .surroundings import loads_around, nodes_around, why_not_only_loops
from .tree import BlockNode, LoopNode, TreeNode, WrapNode, is_ancestor, loops_around, scope_of


def require_order_kept(
    block: BlockNode, place: TreeNode, primitive: str, *, but: BlockNode | None = None
) -> None:
    """Refuse to run a block at another place where another block would then see, or leave, other values in memory.

    Args:
        block: what moves, within its scope.
        place: a loop that the block goes into, or a block with which it will run.
        primitive: its name, for the error.
        but: a block that the caller asks itself.
    """
    require_no_effects([block], primitive)
    scope = scope_of(block)
    assert scope is not None
    order = scope_children(block)
    # Nobody can have read before it was written what one block writes and the scope allocates.
    fresh = {
        buffer
        for buffer in scope.alloc_buffers
        if sum(buffer in written_buffers(item) for item in order) == 1
    }
    reads, writes = read_buffers(block), written_buffers(block)
    position = _index(order, block)
    under = [n for n, item in enumerate(order) if item is place or is_ancestor(place, item)]
    around = [item for item in (*loops_around(place), place) if isinstance(item, LoopNode)]
    _require_same_conditions(block, place, primitive)
    require_no_return(
        nodes_between(place, block), primitive, f"what block {block.name!r} would come to run before"
    )
    if is_output_block(block):
        require_no_return(
            nodes_between(block, place), primitive, f"what block {block.name!r} would come to run behind"
        )
    for index, other in enumerate(order):
        if other is block:
            continue
        asked = {item.load.buffer for item in loads_around(other)} & writes
        require(
            not asked,
            primitive,
            f"whether block {other.name!r} runs depends on {_names(asked)}, which block {block.name!r} writes",
        )
        if other is but:
            continue
        overwritten = written_buffers(other) & (reads | writes)
        needed = read_buffers(other) & writes
        if not overwritten and not needed:
            continue
        shared = [loop for loop in loops_around(block) if is_ancestor(loop, other)]
        is_before = index < position
        handed, crossed = (overwritten, needed) if is_before else (needed, overwritten)
        first, last = (other, block) if is_before else (block, other)
        lasting = handed <= fresh and all(keeps_its_values(first, loop) for loop in shared)
        if crossed - fresh or (shared and (crossed or not lasting)):
            _require_iterations_apart(shared, around, [first, last], primitive)
        if crossed - fresh:
            joined = [loop for loop in around if is_ancestor(loop, other) and not _is_in(loop, shared)]
            beside = index < under[0] if is_before else index > under[-1]
            require(
                beside and not joined,
                primitive,
                f"block {other.name!r} accesses {_names(crossed - fresh)}, which block {block.name!r} would then"
                f" {'overwrite too early' if is_before else 'access too late'}",
            )


def _require_same_conditions(block: BlockNode, place: TreeNode, primitive: str) -> None:
    """Nothing but loops may stand around a block that moves, and no statement that repeats others around its new place."""
    reason = why_not_only_loops(block)
    require(reason is None, primitive, f"{reason}")
    for node in nodes_around(place):
        require(
            not (isinstance(node, WrapNode) and isinstance(node.template, tir.While)),
            primitive,
            f"block {block.name!r} would be repeated by a while loop",
        )


def keeps_its_values(block: BlockNode, loop: LoopNode) -> bool:
    """Whether what a block writes in one iteration of a loop is what it would write there in any other, wherever it writes again.

    Its index says which instance writes an element, and what it reads keeps its values too.
    """
    return _keeps_its_values(block, loop, (), set())


def _keeps_its_values(
    block: BlockNode, loop: LoopNode, asking: Sequence[BlockNode], settled: set[BlockNode]
) -> bool:
    """The same, asked of what the blocks that are ``asking`` read; those ``settled`` keep their values."""
    if block in settled:
        return True
    if any(item is block for item in asking) or not writes_one_value(block):
        return False
    reads = read_buffers(block) | {item.load.buffer for item in loads_around(block)}
    writers = [
        item for item in scope_children(block) if is_ancestor(loop, item) and written_buffers(item) & reads
    ]
    if not all(_keeps_its_values(item, loop, (*asking, block), settled) for item in writers):
        return False
    settled.add(block)
    return True


def why_not_final(buffer: tir.Buffer, writers: Sequence[BlockNode], loop: LoopNode) -> str | None:
    """The reason why what some blocks write to a buffer in one iteration of a loop may have another value after the last one; or None.

    A block that writes the same values again, in each iteration, changes nothing. That a reduction is not finished is not asked here.
    """
    for position, one in enumerate(writers):
        for other in writers[position:]:
            if one is other and why_conditional(one, loop) is None and keeps_its_values(one, loop):
                continue
            reason = why_overwritten(loop, one, other, buffer)
            if reason is not None:
                return reason
    return None


def _require_iterations_apart(
    loops: Sequence[LoopNode], kept: Sequence[LoopNode], blocks: Sequence[BlockNode], primitive: str
) -> None:
    for loop in loops:
        reason = why_iterations_conflict(loop, blocks, between_blocks=True, is_left=not _is_in(loop, kept))
        require(reason is None, primitive, f"{reason}")


def _index(order: Sequence[BlockNode], block: BlockNode) -> int:
    return next(n for n, item in enumerate(order) if item is block)


def _is_in(loop: LoopNode, loops: Sequence[LoopNode]) -> bool:
    return any(loop is item for item in loops)


def _names(buffers: set[tir.Buffer]) -> str:
    return ", ".join(sorted(item.name for item in buffers))
