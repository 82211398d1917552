"""Whether a buffer is an iteration's own: it fills all that it reads of it before, in program order, and nobody else touches it.

What is read must have been written by one block behind which the read stands in a sequence: in each iteration of the loops around both,
whatever conditions there are around both of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import dtype as dt
from ir import structural_equal, tir
from ir.arith import Analyzer
from ir.tir import ForKind
from ir.tir.stmt_functor import loads_in

from .affine import constant_difference
from .analysis import read_buffers, written_buffers
from .bounds import analyzer_of
from .coverage import why_conditional, why_not_begun, why_not_covered
from .surroundings import evaluated_by
from .touches import Iteration, Touch
from .tree import BlockNode, LeafNode, LoopNode, SeqNode, TreeNode, is_ancestor, loops_around, scope_of


def is_private(buffer: tir.Buffer, iteration: Iteration, touches: Sequence[Touch]) -> bool:
    """Whether each iteration of a loop may have a buffer for itself.

    Args:
        buffer: what blocks below the loop touch.
        iteration: of the loop.
        touches: all that they touch of it in an iteration.
    """
    scope = scope_of(iteration.loop)
    if scope is None or not any(item is buffer for item in scope.alloc_buffers):
        return False
    if _is_touched_beside(buffer, iteration.loop, scope):
        return False
    writes = [item for item in touches if item.is_write]
    if any(
        item.block.init is not None and why_not_begun(item.block, buffer, iteration.loop) is not None
        for item in writes
    ):
        return False
    return all(any(_fills(one, item, buffer) for one in writes) for item in touches if not item.is_write)


def loop_of_own_memory(buffer: tir.Buffer, block: BlockNode, scope: BlockNode) -> LoopNode | None:
    """The innermost loop around a block whose iterations run at once and have a buffer each, because it holds all uses of the buffer:
    what touches that outside of the loop would make them share one (``[parallel-local]`` of ``docs/semantics.md``).

    Args:
        buffer: what the scope allocates.
        block: touches it, at any depth in the scope.
        scope: allocates it.
    """
    node = block.parent
    while node is not None and node is not scope:
        if isinstance(node, LoopNode):
            is_own = node.kind in (ForKind.PARALLEL, ForKind.VECTORIZED) or is_memory_of_one_thread(
                buffer, node
            )
            if is_own and not _is_touched_beside(buffer, node, scope):
                return node
        node = node.parent
    return None


def is_memory_of_one_thread(buffer: tir.Buffer, loop: LoopNode) -> bool:
    """Whether each thread of a loop, or each block of threads, has such a buffer for itself: then none meets another there."""
    if loop.thread_binding is None:
        return False
    kind = buffer.scope().partition(".")[0]
    is_of_blocks = loop.thread_binding.thread_tag.startswith("blockIdx")
    return kind != "global" if is_of_blocks else kind == "local"


def _is_touched_beside(buffer: tir.Buffer, loop: LoopNode, scope: BlockNode) -> bool:
    """Whether anything in a scope touches a buffer outside of the iterations of a loop."""
    pending = scope.children()
    while pending:
        node = pending.pop()
        if any(load.buffer is buffer for expr in evaluated_by(node) for load in loads_in(expr)):
            return True
        if isinstance(node, LeafNode) and _mentions(node.leaf, buffer):
            return True
        if isinstance(node, BlockNode) and not is_ancestor(node, loop):
            if buffer in read_buffers(node) | written_buffers(node):
                return True
        elif node is not loop:
            pending += node.children()
    return False


def _mentions(leaf: tir.Stmt, buffer: tir.Buffer) -> bool:
    found: list[Any] = []
    tir.post_order_visit(
        leaf,
        lambda node: (
            found.append(node) if node is buffer.data or getattr(node, "buffer", None) is buffer else None
        ),
    )
    return bool(found)


def _fills(writer: Touch, reader: Touch, buffer: tir.Buffer) -> bool:
    """Whether a block has written all that is read, in the same iteration of all loops that are around both."""
    place = _sequence_of_both(writer.node, reader.node)
    if place is None or not writer.is_exact or why_conditional(writer.block, place) is not None:
        return False
    if why_not_begun(writer.block, buffer, place) is not None:
        return False
    if why_not_covered(writer.block, buffer, place) is not None:
        return False
    analyzer = analyzer_of(loops_around(place))
    return all(
        _contains(mine, other, dim, analyzer)
        for mine, other, dim in zip(
            writer.box_below(place), reader.box_below(place), buffer.shape, strict=True
        )
    )


def _sequence_of_both(first: TreeNode, second: TreeNode) -> SeqNode | None:
    """The innermost sequence in which the one node comes before the other; None where neither waits for the other."""
    path: dict[int, TreeNode] = {}
    below = first
    while below.parent is not None:
        path[id(below.parent)] = below
        below = below.parent
    child, above = second, second.parent
    while above is not None and id(above) not in path:
        child, above = above, above.parent
    if not isinstance(above, SeqNode) or id(second) in path:
        return None
    return above if above.index(path[id(above)]) < above.index(child) else None


def _without_cast(bound: Any) -> Any:
    """A bound in the type that it was computed in: a cast of an index keeps its value (``[index-cast]``)."""
    while isinstance(bound, tir.Cast) and dt.is_index(bound.dtype) and dt.is_index(bound.value.dtype):
        bound = bound.value
    return bound


def _contains(outer: tuple[Any, Any], inner: tuple[Any, Any], dim: Any, analyzer: Analyzer) -> bool:
    """Whether one (min, extent) contains that part of another which lies in a dimension."""
    outer, inner = (_without_cast(outer[0]), outer[1]), (_without_cast(inner[0]), inner[1])
    below = constant_difference(inner[0], outer[0])
    above = constant_difference(outer[0] + outer[1], inner[0] + inner[1])
    starts = (
        (below is not None and below >= 0)
        or constant_difference(outer[0], 0) == 0
        or structural_equal(outer[0], inner[0])
    )
    ends = (above is not None and above >= 0) or constant_difference(outer[0] + outer[1], dim) == 0
    return (starts or analyzer.can_prove(outer[0] <= inner[0])) and (
        ends or analyzer.can_prove(inner[0] + inner[1] <= outer[0] + outer[1])
    )
