"""Primitives that stage data in another buffer: cache_read and cache_write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.stmt_functor import loads_in, substitute

from ..access import access_regions, reads_with_init, relaxed_below, state_around
from ..affine import constant_difference
from ..analysis import read_buffers, require, require_blocks_only, scope_children, written_buffers
from ..argument import Argument, Block, Blocks, BufferIndex
from ..bounds import clipped, guards
from ..coverage import changing_source, why_not_begun, why_not_covered
from ..declaration import PrimitiveFamily, primitive
from ..random_variable import BlockRV
from ..reduction_order import why_not_run
from ..region import Box, contains
from ..returns import returns_below
from ..rewriting import rewrite_inside
from ..surroundings import evaluated_by
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    SeqNode,
    TreeNode,
    child_blocks,
    fresh_block_name,
    insert_beside,
    is_ancestor,
    loops_around,
    scope_of,
)
from .boxes import comparable
from .filled import require_read_or_filled
from .window import access_window, copy_window, has_window


class CachingPrimitives(PrimitiveFamily):
    """Copies of buffers in other scopes."""

    @primitive(
        "CacheRead",
        moves=True,
        block=Block(),
        read_buffer_index=BufferIndex(is_write=False),
        storage_scope=Argument(),
        consumer_blocks=Blocks(),
    )
    def cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Stage a buffer that a block reads: a new block copies it to ``storage_scope``, and consumers read the copy.

        ``B[i] = A[i]`` becomes ``A_local[i] = A[i]; B[i] = A_local[i]``.

        Returns:
            The copying block, placed before the first consumer (behind the producer, if there is one).

        Raises:
            ScheduleError: several blocks write the buffer, or no consumer of it only reads it.
        """
        assert isinstance(read_buffer_index, int)
        consumers = [self._block(item) for item in consumer_blocks or ()]
        return self._new(_cache_read(self._block(block), read_buffer_index, storage_scope, consumers))

    @primitive(
        "CacheWrite",
        moves=True,
        block=Block(),
        write_buffer_index=BufferIndex(is_write=True),
        storage_scope=Argument(),
        consumer_blocks=Blocks(),
    )
    def cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Let a block write to ``storage_scope`` first: a new block behind it copies the result to the buffer.

        ``B[i] = A[i]`` becomes ``B_local[i] = A[i]; B[i] = B_local[i]``; consumers that are named read the copy.

        Raises:
            ScheduleError: several blocks write the buffer, or the block updates it without initialising it.
        """
        assert isinstance(write_buffer_index, int)
        consumers = [self._block(item) for item in consumer_blocks or ()]
        return self._new(_cache_write(self._block(block), write_buffer_index, storage_scope, consumers))


def replace_buffer(block: BlockNode, old: tir.Buffer, new: tir.Buffer) -> None:
    """Make a block and all in it access ``new`` where it accessed ``old`` (same shape): statements, conditions, bounds, regions, views."""
    names = {old: new, old.data: new.data}
    rewrite_inside(block, lambda item: substitute(item, names))


_STORAGE_SCOPES = ("global", "shared", "warp", "local", "texture", "wmma", "m16n8k8", "amx", "metal")


def require_storage_scope(scope: str, primitive: str) -> None:
    """Refuse what names no kind of memory; a suffix, as in ``shared.dyn``, is the target's own."""
    require(
        scope == "" or scope.split(".")[0] in _STORAGE_SCOPES,
        primitive,
        f"unknown storage scope {scope!r}; they begin with one of {', '.join(_STORAGE_SCOPES)}",
    )


def similar_buffer(buffer: tir.Buffer, scope: str, name: str | None = None) -> tir.Buffer:
    """A new buffer of the same shape in another storage scope, named ``<buffer>_<scope>``."""
    return tir.decl_buffer(
        buffer.shape,
        buffer.dtype,
        name or cache_name(buffer, scope),
        scope="" if scope == "global" else scope,
    )


def insertion_point(
    scope: BlockNode, writer: BlockNode, readers: Sequence[BlockNode]
) -> tuple[TreeNode, TreeNode | None]:
    """Where a stage between a writer and its readers goes: the sequence around both, and its child to insert before.

    That is the innermost sequence in which a reader comes behind the writer; without readers it is the end of the scope
    (child None).
    """
    child: TreeNode = writer
    while child.parent is not None and child is not scope:
        parent = child.parent
        if isinstance(parent, SeqNode):
            for later in parent.nodes[parent.index(child) + 1 :]:
                if any(is_ancestor(later, reader) for reader in readers):
                    return parent, later
        child = parent
    return scope, None


def write_back_point(
    scope: BlockNode, writer: BlockNode, readers: Sequence[TreeNode]
) -> tuple[TreeNode, TreeNode, bool]:
    """Where a copy goes back of what a writer makes, so that every reader finds it: (place below which the loops have run, node to
    insert beside, whether before it).

    That is in the innermost sequence, or loop, around the writer in which there is a reader that runs behind it, be it in the next
    iteration of a loop around both; without such readers it is the end of the scope.

    Args:
        scope: of the writer.
        writer: makes the values.
        readers: blocks, nodes that read before what is in them runs, and returns, behind which the caller reads.
    """
    child: TreeNode = writer
    while child is not scope:
        parent = child.parent
        assert parent is not None
        met = [item for item in readers if item is child or _meet_at(parent, child, item)]
        behind = parent.nodes[parent.index(child) + 1 :] if isinstance(parent, SeqNode) else []
        for later in behind:
            if any(is_ancestor(later, item) for item in met):
                return parent, later, True
        if met and _repeats(parent, scope):
            return parent, child, False
        child = parent
    return scope, scope.body.nodes[-1] if isinstance(scope.body, SeqNode) else scope.body, False


def _meet_at(parent: TreeNode, child: TreeNode, other: TreeNode) -> bool:
    """Whether a node lies below another one, but not below one of its children."""
    return other is not parent and is_ancestor(parent, other) and not is_ancestor(child, other)


def _repeats(node: TreeNode, scope: BlockNode) -> bool:
    """Whether a node, in one run of a scope, may run several times, or runs what is in it several times."""
    current: TreeNode | None = node
    while current is not None and current is not scope:
        if isinstance(current, LoopNode) or isinstance(getattr(current, "template", None), tir.While):
            return True
        current = current.parent
    return False


def _nodes_that_load(scope: BlockNode, buffer: tir.Buffer) -> list[TreeNode]:
    """The nodes of a scope that load a buffer before what is in them runs: in bounds, bindings, predicates, conditions."""
    found: list[TreeNode] = []
    pending = [scope.body]
    while pending:
        node = pending.pop()
        if any(load.buffer is buffer for expr in evaluated_by(node) for load in loads_in(expr)):
            found.append(node)
        if not isinstance(node, BlockNode):
            pending += node.children()
    return found


def copy_block(
    source: tir.Buffer, target: tir.Buffer, box: Box, name: str, around: Sequence[LoopNode]
) -> tuple[TreeNode, BlockNode]:
    """Loops ``ax0, ax1, ...`` around a block that copies a box of ``source`` to ``target``, inside the loops ``around``."""
    loop_vars, block_vars, values, indices = [], [], [], []
    predicate: Any = tir.const(True)
    for axis, ((start, size), dim) in enumerate(zip(box, source.shape, strict=True)):
        low, extent, inside = clipped(start, size, dim)
        loop_var = tir.Var(f"ax{axis}", extent.dtype)
        block_var = tir.Var(f"v{axis}", dim.dtype)
        dom = tir.Range.from_min_extent(tir.const(0, dim.dtype), dim)
        value = tir.cast(dim.dtype, low + loop_var)  # loops around may count in another type than the buffer
        loop_vars.append((loop_var, extent))
        block_vars.append(IterVar(dom, block_var, IterVar.DataPar))
        values.append(value)
        indices.append(block_var)
        for condition in [] if inside else guards(value, loop_var, extent, dom, around):
            predicate = tir.operators.logical_and(predicate, condition)
    point = [tir.Range.from_min_extent(index, tir.const(1, index.dtype)) for index in indices]
    block = BlockNode(
        name,
        tuple(block_vars),
        tuple(values),
        (tir.BufferRegion(source, point),),
        (tir.BufferRegion(target, point),),
        LeafNode(tir.BufferStore(target, tir.BufferLoad(source, indices), indices)),
        predicate,
    )
    node: TreeNode = block
    for loop_var, extent in reversed(loop_vars):
        node = LoopNode(loop_var, extent, node)
    return node, block


def cache_name(buffer: tir.Buffer, storage_scope: str) -> str:
    """What a copy of a buffer in a storage scope is called, and the block that fills it."""
    return f"{buffer.name}_{storage_scope or 'global'}"


def _scope_for_copy(block: BlockNode, primitive: str) -> BlockNode:
    scope = scope_of(block)
    require(
        scope is not None,
        primitive,
        f"block {block.name!r} is a root block; there is no scope to put the copy into",
    )
    assert scope is not None
    return scope


def _chosen(block: BlockNode, blocks: Sequence[BlockNode], primitive: str) -> list[BlockNode]:
    """The consumer blocks that the caller names; all must be in the block's scope."""
    chosen = list(blocks)
    siblings = scope_children(block)
    for item in chosen:
        require(
            any(item is other for other in siblings),
            primitive,
            f"consumer block {item.name!r} is not in the scope of block {block.name!r}",
        )
    return chosen


def _cache_read(
    block: BlockNode, read_buffer_index: int, storage_scope: str, consumer_blocks: Sequence[BlockNode]
) -> BlockNode:
    require_storage_scope(storage_scope, "cache_read")
    require(
        0 <= read_buffer_index < len(block.reads),
        "cache_read",
        f"block {block.name!r} reads {len(block.reads)} buffers, there is no read buffer {read_buffer_index}",
    )
    scope = _scope_for_copy(block, "cache_read")
    require_blocks_only(block, "cache_read")
    buffer = block.reads[read_buffer_index].buffer
    writers = [item for item in scope_children(block) if buffer in written_buffers(item)]
    require(
        len(writers) <= 1,
        "cache_read",
        f"buffer {buffer.name} is written by {len(writers)} blocks of the scope; it can be cached when one block writes it",
    )
    chosen = _chosen(block, consumer_blocks, "cache_read")
    consumers = [
        item
        for item in scope_children(block)
        if buffer in read_buffers(item)
        and buffer not in written_buffers(item)
        and (not chosen or any(item is other for other in chosen))
    ]
    if writers:
        consumers = _behind(writers[0], consumers, chosen, buffer, "cache_read")
    require(consumers, "cache_read", f"no consumer of {buffer.name} in the scope reads it without writing it")
    is_own = any(item is buffer for item in scope.alloc_buffers)
    place: TreeNode
    if writers:
        (writer,) = writers
        place, child = insertion_point(scope, writer, consumers)
        require(
            child is not None,
            "cache_read",
            f"no consumer of {buffer.name} runs behind block {writer.name!r} wherever that runs",
        )
        region = next((item for item in writer.writes if item.buffer is buffer), None)
        box = _declared_box(scope, buffer) if region is None else relaxed_below(writer, region, place)
        if is_own:
            _require_covered(writer, buffer, place, "cache_read")
        elif not reads_within(box, consumers, buffer, place):
            # What the writer leaves as it was is read as well: memory from outside of the scope holds something there.
            box = _declared_box(scope, buffer)
    else:
        place, child = scope, _first_child(scope)
        box = _declared_box(scope, buffer)
    assert child is not None
    if not is_own:
        require_read_or_filled(consumers, buffer, box, place, loops_around(child), "cache_read")
    return _stage(scope, child, True, buffer, storage_scope, box, consumers, False)


def _behind(
    writer: BlockNode,
    consumers: Sequence[BlockNode],
    chosen: Sequence[BlockNode],
    buffer: tir.Buffer,
    primitive: str,
) -> list[BlockNode]:
    """The consumers behind a writer: those before it read what the buffer held until then, of which no copy is made."""
    order = scope_children(writer)
    later = order[next(n for n, item in enumerate(order) if item is writer) :]
    found = [item for item in consumers if any(item is other for other in later)]
    for item in consumers:
        require(
            not any(item is other for other in chosen) or any(item is other for other in later),
            primitive,
            f"consumer block {item.name!r} comes before block {writer.name!r}, which writes {buffer.name}",
        )
    return found


def reads_within(box: Box, consumers: Sequence[BlockNode], buffer: tir.Buffer, place: TreeNode) -> bool:
    """Whether consumers, while the loops below a place run, read nothing outside of a box."""
    around = [*loops_around(place), *([place] if isinstance(place, LoopNode) else [])]
    for item in consumers:
        reads = [region for region in reads_with_init(item) if region.buffer is buffer]
        known, *needed = comparable([box, *(relaxed_below(item, region, place) for region in reads)], around)
        if not needed or not all(contains(known, other) for other in needed):
            return False
    return _is_steady(box, place)


def _is_steady(box: Box, place: TreeNode) -> bool:
    """Whether a box is one place all the time, because nothing below ``place`` writes what its bounds are loaded from."""
    return changing_source([item for bounds in box for item in bounds], place) is None


def _stage(
    scope: BlockNode,
    anchor: TreeNode,
    before: bool,
    buffer: tir.Buffer,
    storage_scope: str,
    box: Box,
    users: Sequence[BlockNode],
    is_write: bool,
) -> BlockNode:
    """Insert beside a node the block that copies a box between a buffer and its copy, and let the users access the copy."""
    name = fresh_block_name(scope, cache_name(buffer, storage_scope))
    if has_window(scope, anchor, buffer, box, users):
        lows = [low for low, _ in box]
        cache = tir.decl_buffer(
            [size for _, size in box],
            buffer.dtype,
            name,
            scope="" if storage_scope == "global" else storage_scope,
        )
        nest, copy = copy_window(buffer, cache, lows, name, is_write)
        for item in users:
            access_window(item, buffer, cache, lows)
    else:
        cache = similar_buffer(buffer, storage_scope)
        source, target = (cache, buffer) if is_write else (buffer, cache)
        nest, copy = copy_block(source, target, box, name, loops_around(anchor))
        for item in users:
            replace_buffer(item, buffer, cache)
    insert_beside(anchor, nest, before)
    scope.change(alloc_buffers=(*scope.alloc_buffers, cache))
    state_around(copy)
    return copy


def _declared_box(scope: BlockNode, buffer: tir.Buffer) -> Box:
    """What a scope says that it reads of an input; the whole buffer when it says nothing."""
    for region in scope.reads:
        box: Box = [(item.min, item.extent) for item in region.region]
        if region.buffer is buffer and _is_steady(box, scope):
            return box
    return [(tir.const(0, dim.dtype), dim) for dim in buffer.shape]


def _first_child(scope: BlockNode) -> TreeNode:
    body = scope.body
    return body.nodes[0] if isinstance(body, SeqNode) else body


def _writes_first(block: BlockNode, buffer: tir.Buffer) -> bool:
    """Whether the first block inside of a block that accesses a buffer writes all that the block reads of it."""
    inside = [
        item
        for item in child_blocks(block)
        if buffer in read_buffers(item) or buffer in written_buffers(item)
    ]
    if not inside or buffer in read_buffers(inside[0]):
        return False
    written = [
        relaxed_below(inside[0], region, block) for region in inside[0].writes if region.buffer is buffer
    ]
    read = [region.region for region in block.reads if region.buffer is buffer]
    return all(
        constant_difference(low, item.min) == 0 and constant_difference(size, item.extent) == 0
        for (low, size), item in zip(written[0], read[0], strict=True)
    )


def _require_covered(
    writer: BlockNode,
    buffer: tir.Buffer,
    place: TreeNode,
    primitive: str,
    region: tir.BufferRegion | None = None,
) -> None:
    """A copy is made of the box that the writer touches: it must have written all of that."""
    reason = why_not_covered(writer, buffer, place, region)
    require(reason is None, primitive, f"{reason}; the copy would read elements that nobody wrote")


def _stored_region(block: BlockNode, write_buffer_index: int) -> tir.BufferRegion:
    """What a block stores to a buffer; its statement may say more, which must not be copied back."""
    declared = block.writes[write_buffer_index]
    if not isinstance(block.body, LeafNode):
        return declared
    _, stored = access_regions(block, block.init)
    return next((item for item in stored if item.buffer is declared.buffer), declared)


def _cache_write(
    block: BlockNode, write_buffer_index: int, storage_scope: str, consumer_blocks: Sequence[BlockNode]
) -> BlockNode:
    require_storage_scope(storage_scope, "cache_write")
    require(
        0 <= write_buffer_index < len(block.writes),
        "cache_write",
        f"block {block.name!r} writes {len(block.writes)} buffers, there is no write buffer {write_buffer_index}",
    )
    scope = _scope_for_copy(block, "cache_write")
    require_blocks_only(block, "cache_write")
    buffer = block.writes[write_buffer_index].buffer
    region = _stored_region(block, write_buffer_index)
    writers = [item for item in scope_children(block) if buffer in written_buffers(item)]
    require(
        len(writers) == 1,
        "cache_write",
        f"buffer {buffer.name} is written by {len(writers)} blocks of the scope, not one",
    )
    reason = why_not_begun(block, buffer, scope)
    if reason is None and block.init is not None:
        reason = why_not_run(block, loops_around(block))
    begins = reason is None or (buffer in read_buffers(block) and _writes_first(block, buffer))
    require(begins, "cache_write", f"{reason}; the copy would have no values to start from")
    chosen = _chosen(block, consumer_blocks, "cache_write")
    for consumer in chosen:
        require(
            consumer is not block,
            "cache_write",
            f"block {block.name!r} writes the buffer; it is no consumer of it",
        )
    _behind(block, chosen, chosen, buffer, "cache_write")
    readers: list[TreeNode] = [
        item
        for item in scope_children(block)
        if item is not block and buffer in read_buffers(item) and not any(item is other for other in chosen)
    ]
    is_own = any(item is buffer for item in scope.alloc_buffers)
    readers += (
        _nodes_that_load(scope, buffer)
        if is_own
        else [*_nodes_that_load(scope, buffer), *returns_below(scope)]
    )
    place, anchor, before = write_back_point(scope, block, readers)
    if not is_own:
        for consumer in chosen:
            together, _ = insertion_point(scope, block, [consumer])
            _require_covered(block, buffer, together, "cache_write", region)
            require(
                reads_within(relaxed_below(block, region, together), [consumer], buffer, together),
                "cache_write",
                f"consumer block {consumer.name!r} reads more of {buffer.name} than block {block.name!r} has written then",
            )
    _require_covered(block, buffer, place, "cache_write", region)
    box = relaxed_below(block, region, place)
    return _stage(scope, anchor, before, buffer, storage_scope, box, [block, *chosen], True)
