"""Primitives that stage data beside a block: cache_inplace, read_at, write_at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.arith import Analyzer
from ir.tir import IterVar
from ir.tir.stmt_functor import loads_in, substitute

from ..access import reads_with_init, state_around, state_loads_of_indices
from ..affine import constant_difference, mentions, polynomial, simplify_polynomial
from ..analysis import (
    read_buffers,
    require,
    require_blocks_only,
    require_complete_or_reduction,
    scope_children,
    written_buffers,
)
from ..argument import Argument, Block, BufferIndex, Loop
from ..bounds import analyzer_of, clipped
from ..coverage import changing_source, why_not_begun, why_not_covered
from ..declaration import PrimitiveFamily, primitive
from ..early import always_runs, may_be_undefined
from ..random_variable import BlockRV, LoopRV
from ..reduction_order import require_made_for_init, why_not_run
from ..region import Box, bind_region, extents_from, relax_index, relax_loops, starts_of, union_boxes
from ..returns import nodes_between, require_no_return
from ..surroundings import loads_around
from ..tree import (
    BlockNode,
    LoopNode,
    SeqNode,
    TreeNode,
    blocks_below,
    fresh_block_name,
    insert_beside,
    is_ancestor,
    loops_around,
    loops_below,
    scope_of,
    tree_of,
)
from .block_domains import polynomial_quotient
from .boxes import required_boxes
from .caching import (
    cache_name,
    copy_block,
    reads_within,
    replace_buffer,
    require_storage_scope,
    similar_buffer,
)
from .filled import require_filled


class StagingPrimitives(PrimitiveFamily):
    """Copies beside one block or in each iteration of a loop."""

    @primitive(
        "CacheInplace",
        moves=True,
        block=Block(),
        read_buffer_index=BufferIndex(is_write=False),
        storage_scope=Argument(),
    )
    def cache_inplace(
        self, block: BlockRV | str, read_buffer_index: int | str | tir.Buffer, storage_scope: str
    ) -> list[BlockRV]:
        """Let a block that updates a buffer in place work on a copy: [block that copies in, block that copies out].

        ``A[i] = f(A[i])`` becomes ``A_local[i] = A[i]; A_local[i] = f(A_local[i]); A[i] = A_local[i]``.

        Raises:
            ScheduleError: the block does not write the buffer.
        """
        assert isinstance(read_buffer_index, int)
        return self._new(_cache_inplace(self._block(block), read_buffer_index, storage_scope))

    @primitive(
        "ReadAt",
        moves=True,
        loop=Loop(),
        block=Block(),
        read_buffer_index=BufferIndex(is_write=False),
        storage_scope=Argument(),
    )
    def read_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        read_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
    ) -> BlockRV:
        """Copy what the blocks under ``loop`` read of a buffer, by one block at the head of each iteration.

        ``for i: B[i] = f(A[i])`` becomes ``for i: A_local[i] = A[i]; B[i] = f(A_local[i])``.

        Raises:
            ScheduleError: the loop is not around the block, or a block under it writes the buffer.
        """
        assert isinstance(read_buffer_index, int)
        node, place = self._block(block), self._loop(loop)
        return self._new(_stage_at("read_at", place, node, read_buffer_index, storage_scope, False))

    @primitive(
        "WriteAt",
        moves=True,
        loop=Loop(),
        block=Block(),
        write_buffer_index=BufferIndex(is_write=True),
        storage_scope=Argument(),
    )
    def write_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        write_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
    ) -> BlockRV:
        """Let the blocks under ``loop`` write to a copy, written back by one block at the end of each iteration.

        ``for i: B[i] = f(A[i])`` becomes ``for i: B_local[i] = f(A[i]); B[i] = B_local[i]``.

        Raises:
            ScheduleError: the buffer is written outside of the loop as well, or one iteration does not finish what it writes.
        """
        assert isinstance(write_buffer_index, int)
        node, place = self._block(block), self._loop(loop)
        return self._new(_stage_at("write_at", place, node, write_buffer_index, storage_scope, True))


# ---- cache_inplace ----------------------------------------------------------------------------------------------


def _cache_inplace(block: BlockNode, buffer_index: int, storage_scope: str) -> list[BlockNode]:
    primitive = "cache_inplace"
    require_storage_scope(storage_scope, primitive)
    require(
        0 <= buffer_index < len(block.reads),
        primitive,
        f"block {block.name!r} reads {len(block.reads)} buffers, there is no read buffer {buffer_index}",
    )
    buffer = block.reads[buffer_index].buffer
    scope = scope_of(block)
    require(scope is not None, primitive, f"block {block.name!r} is a root block")
    require_blocks_only(block, primitive)
    assert scope is not None
    require(
        buffer in written_buffers(block),
        primitive,
        f"block {block.name!r} does not write buffer {buffer.name}",
    )
    place: TreeNode = block
    while isinstance(place.parent, LoopNode):
        place = place.parent
    # The copies go directly around the block where its loops do not index the buffer, around its nest otherwise.
    values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    regions = [item for item in (*reads_with_init(block), *block.writes) if item.buffer is buffer]
    node: TreeNode = block
    indices = [item.min for read in regions for item in bind_region(read.region, values)]
    top: TreeNode = block
    while isinstance(node.parent, LoopNode):
        node = node.parent
        if any(mentions(index, {node.var}) for index in indices):
            top = node
    inner = [item for item in loops_around(block) if is_ancestor(top, item)]
    box = union_boxes(
        [relax_loops(bind_region(item.region, values), inner, buffer.shape) for item in regions],
        buffer.shape,
    )
    for other in blocks_below(top):
        require(
            other is block or buffer not in read_buffers(other) | written_buffers(other),
            primitive,
            f"block {other.name!r} in the same nest as block {block.name!r} accesses {buffer.name}, too",
        )
    require(
        not isinstance(top, LoopNode) or not _depends_on(block, buffer, top),
        primitive,
        f"in the nest of which the copies go around, {buffer.name} says whether block {block.name!r} runs, or for which values of its"
        " variables: what the block writes would not be seen there",
    )
    source = changing_source([item for bounds in box for item in bounds], top)
    require(
        source is None,
        primitive,
        f"where block {block.name!r} accesses {buffer.name} is read from {getattr(source, 'name', '')}, which it changes",
    )
    require_filled(block, buffer, box, loops_around(top), primitive)
    cache = similar_buffer(buffer, storage_scope)
    name = fresh_block_name(block, cache_name(buffer, storage_scope))
    before, read_block = copy_block(buffer, cache, box, name, loops_around(top))
    after, write_block = copy_block(cache, buffer, box, name, loops_around(top))
    replace_buffer(block, buffer, cache)
    insert_beside(top, before, before=True)
    insert_beside(top, after, before=False)
    scope.change(alloc_buffers=(*scope.alloc_buffers, cache))
    state_around(read_block)
    state_around(write_block)
    return [read_block, write_block]


# ---- read_at, write_at ------------------------------------------------------------------------------------------


def _stage_at(
    primitive: str, loop: LoopNode, block: BlockNode, buffer_index: int, storage_scope: str, is_write: bool
) -> BlockNode:
    require_storage_scope(storage_scope, primitive)
    regions = block.writes if is_write else block.reads
    kind = "writes" if is_write else "reads"
    require(
        0 <= buffer_index < len(regions),
        primitive,
        f"block {block.name!r} {kind} {len(regions)} buffers, there is no buffer {buffer_index}",
    )
    require_blocks_only(block, primitive)
    require(is_ancestor(loop, block), primitive, f"loop {loop.var.name!r} is not around block {block.name!r}")
    scope = scope_of(block)
    require(
        scope is not None and scope_of(loop) is scope,
        primitive,
        f"block {block.name!r} and loop {loop.var.name!r} are in different scopes",
    )
    assert scope is not None
    buffer = regions[buffer_index].buffer
    below = list(blocks_below(loop))
    writers = [item for item in below if buffer in written_buffers(item)]
    readers = [item for item in below if buffer in read_buffers(item) and item not in writers]
    if is_write:
        require_complete_or_reduction(block, primitive)
        outside = [
            item
            for item in scope_children(block)
            if not is_ancestor(loop, item) and buffer in written_buffers(item)
        ]
        require(
            not outside, primitive, f"buffer {buffer.name} is written outside loop {loop.var.name!r} as well"
        )
        first = writers[0]
        for item in writers:
            reason = why_not_begun(item, buffer, loop)
            begun = reason is None or (item is not first and item.init is None)
            require(begun, primitive, f"{reason}; the copy would have no values to start from")
        reason = why_not_covered(first, buffer, loop)
        if reason is None:
            reason = why_not_run(first, loops_below(first, loop))
        require(reason is None, primitive, f"{reason}; the copy would write back elements that nobody wrote")
    else:
        require(
            not writers,
            primitive,
            f"block {writers[0].name if writers else ''!r} under loop {loop.var.name!r} writes buffer {buffer.name}",
        )
        require_made_for_init(readers, {buffer}, loop, primitive)
    users = writers + readers if is_write else readers
    boxes = required_boxes(writers if is_write else readers, loop, {buffer}, writes=is_write)
    changing = changing_source([end for dimension in boxes[buffer] for end in dimension], loop)
    require(
        changing is None,
        primitive,
        f"what is accessed of {buffer.name} depends on {changing and changing.name}, which changes under loop {loop.var.name!r}",
    )
    around_copy = [*loops_around(loop), loop]
    _require_defined(boxes[buffer], users, loop, buffer, primitive)
    for _, extent in boxes[buffer]:
        require(
            not mentions(extent, {item.var for item in around_copy}),
            primitive,
            f"how much of {buffer.name} one iteration of loop {loop.var.name!r} {kind} changes from one to the next: {extent}",
        )
    if is_write:
        early = [item for item in readers if below.index(item) < below.index(first)]
        early += [item for item in below if _depends_on(item, buffer, loop)]
        require(
            not early,
            primitive,
            f"block {early[0].name if early else ''!r} reads {buffer.name}, or depends on it, before that is copied back",
        )
        ((_, own),) = required_boxes([first], loop, {buffer}, writes=True).items()
        for (low, size), (first_low, first_size) in zip(boxes[buffer], own, strict=True):
            require(
                constant_difference(low, first_low) == 0 and constant_difference(size, first_size) == 0,
                primitive,
                f"block {first.name!r} writes less of {buffer.name} than the blocks behind it",
            )
    if is_write and not any(item is buffer for item in scope.alloc_buffers):
        require(
            reads_within(boxes[buffer], readers, buffer, loop),
            primitive,
            f"under loop {loop.var.name!r} more of {buffer.name} is read than block {first.name!r} has written then",
        )
    children = loop.body.nodes if isinstance(loop.body, SeqNode) else [loop.body]
    touching = [child for child in children if any(is_ancestor(child, item) for item in users)]
    if is_write:
        require_no_return(
            nodes_between(touching[0], touching[-1]) or touching,
            primitive,
            f"what writes {buffer.name} under loop {loop.var.name!r}",
        )
    else:
        require_filled(block, buffer, boxes[buffer], [*loops_around(loop), loop], primitive)
    cache = similar_buffer(buffer, storage_scope)
    name = fresh_block_name(block, cache_name(buffer, storage_scope))
    source, target = (cache, buffer) if is_write else (buffer, cache)
    is_used = any(always_runs(item, loop) for item in users)
    around_scope = _variables_around(scope)
    copy = _auto_copy(source, target, boxes[buffer], name, around_copy, around_scope, is_used, primitive)
    for item in users:
        replace_buffer(item, buffer, cache)
    if is_write:
        insert_beside(touching[-1], copy, before=False)
    else:
        insert_beside(touching[0], copy, before=True)
    scope.change(alloc_buffers=(*scope.alloc_buffers, cache))
    state_around(copy)
    return copy


def _depends_on(block: BlockNode, buffer: tir.Buffer, loop: LoopNode) -> bool:
    """Whether a buffer says, under a loop, if and for which values of its variables a block runs."""
    return any(
        load.buffer is buffer and node is not loop and is_ancestor(loop, node)
        for node, load in loads_around(block)
    )


def _require_defined(
    box: Box, users: Sequence[BlockNode], loop: LoopNode, buffer: tir.Buffer, primitive: str
) -> None:
    """The copy evaluates where its box lies in every iteration of the loop, without the conditions of the blocks that use it."""
    analyzer = analyzer_of([*loops_around(loop), loop])
    for expr in (part for dimension in box for part in dimension):
        if not may_be_undefined(expr, analyzer):
            continue
        for block in users:
            require(
                always_runs(block, loop),
                primitive,
                f"{expr}, where {buffer.name} is accessed, may be undefined where block {block.name!r} does not use it",
            )


_FAR = 1 << 30
"""A bound from which on a loop's extent counts as unknown."""


def _variables_around(scope: BlockNode | None) -> list[IterVar]:
    """The variables of a block and of the blocks around it."""
    found: list[IterVar] = []
    while scope is not None:
        found += scope.iter_vars
        scope = scope_of(scope)
    return found


def _end_of(
    value: tir.PrimExpr, around: Sequence[LoopNode], variables: Sequence[IterVar], dim: tir.PrimExpr
) -> tir.PrimExpr | None:
    """What a value stays below while loops and block variables run: of an uneven split that is more than the dimension.

    None where data, or loops that depend on each other, say it: no domain may name them.
    """
    domains = {item.var: item.dom for item in variables} | {loop.var: loop.range() for loop in around}
    starts = starts_of(domains)
    found = relax_index(substitute(value, starts), extents_from(starts, domains))
    if found is None:
        return None
    end = simplify_polynomial(found[0] + found[1])
    return None if mentions(end, domains) or loads_in(end) else tir.operators.max(end, dim)


def _domain_of(
    value: tir.PrimExpr,
    analyzer: Analyzer,
    around: Sequence[LoopNode],
    variables: Sequence[IterVar],
    source: tir.Buffer,
    dim: tir.PrimExpr,
    is_used: bool,
    primitive: str,
) -> tir.Range:
    """A domain that holds the positions of a copy along a dimension; where they are used, that is the dimension at worst."""
    reach = analyzer.const_int_bound(value)
    require(
        reach.min_value > -_FAR or analyzer.can_prove(value >= 0),
        primitive,
        f"it is not known how far below zero {source.name} is accessed: at {value}",
    )
    first = min(0, reach.min_value) if reach.min_value > -_FAR else 0
    if reach.max_value < _FAR:
        end: tir.PrimExpr = tir.const(reach.max_value + 1, dim.dtype)
    else:
        known = _end_of(value, around, variables, dim)
        require(
            known is not None or is_used,
            primitive,
            f"it is not known how far {source.name} is accessed where no block needs it: at {value}",
        )
        end = dim if known is None else known
    return tir.Range.from_min_extent(tir.const(first, dim.dtype), simplify_polynomial(end - first))


def _auto_copy(
    source: tir.Buffer,
    target: tir.Buffer,
    box: Any,
    name: str,
    around: list[LoopNode],
    variables: list[IterVar],
    is_used: bool,
    primitive: str,
) -> BlockNode:
    """A block that copies a box; its variables are the box's position, in units of its size where it moves in such steps.

    ``is_used`` says that some block accesses the box in every iteration.
    """
    iter_vars: list[IterVar] = []
    values, lows, loops, sizes = [], [], [], []
    analyzer = analyzer_of(around, variables=variables)
    for axis, ((start_at, size_at), dim) in enumerate(zip(box, source.shape, strict=True)):
        low, extent, _ = clipped(start_at, size_at, dim)
        dtype = dim.dtype
        start: Any = low
        terms = polynomial(low).terms
        if any(terms):
            var = tir.Var(f"v{len(iter_vars)}", dtype)
            size = extent.value if isinstance(extent, tir.IntImm) else 0
            in_steps = size and isinstance(dim, tir.IntImm) and all(c % size == 0 for c in terms.values())
            value = polynomial_quotient(low, size) if in_steps else low
            start = var * size if in_steps else var
            dom = _domain_of(value, analyzer, around, variables, source, dim, is_used, primitive)
            iter_vars.append(IterVar(dom, var, IterVar.DataPar))
            values.append(tir.cast(dtype, value))
        lows.append(start)
        sizes.append(extent)
        loops.append((tir.Var(f"ax{axis}", dtype), extent))
    indices = [simplify_polynomial(low + var) for low, (var, _) in zip(lows, loops, strict=True)]
    store: tir.Stmt = tir.BufferStore(target, tir.BufferLoad(source, indices), indices)
    condition = _inside(indices, source, iter_vars, loops)
    if condition is not None:
        store = tir.IfThenElse(condition, store)
    for var, extent in reversed(loops):
        store = tir.For(var, tir.const(0, var.dtype), extent, tir.ForKind.SERIAL, store)
    region = [tir.Range.from_min_extent(low, extent) for low, extent in zip(lows, sizes, strict=True)]
    copy = BlockNode(
        name,
        tuple(iter_vars),
        tuple(values),
        (tir.BufferRegion(source, region),),
        (tir.BufferRegion(target, region),),
        tree_of(store),
        annotations={"auto_copy": True},
    )
    if any(loads_in(size) for size in sizes):
        state_loads_of_indices(copy)
    return copy


def _inside(
    indices: list[Any], buffer: tir.Buffer, iter_vars: list[IterVar], loops: list[Any]
) -> tir.PrimExpr | None:
    """The condition that indices lie in a buffer, as far as it is not certain."""
    analyzer = analyzer_of(variables=iter_vars)
    for var, extent in loops:
        analyzer.bind(var, tir.Range.from_min_extent(tir.const(0, var.dtype), extent))
    condition: tir.PrimExpr | None = None
    for index, dim in zip(indices, buffer.shape, strict=True):
        for part in (index >= 0, index < dim):
            if not analyzer.can_prove(part):
                condition = part if condition is None else tir.operators.logical_and(condition, part)
    return condition
