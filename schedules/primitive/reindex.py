"""Primitives that stage data in the order in which a block uses it: reindex, reindex_cache_read, reindex_cache_write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import structural_equal, tir
from ir.arith import Analyzer, detect_iter_map
from ir.tir import IndexMap, IterVar
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import StmtExprMutator, substitute

from ..access import relaxed_below, state_around, state_loads_of_indices, why_not_elementwise
from ..affine import constant_difference, mentions, simplify_polynomial, without_casts
from ..analysis import read_buffers, require, require_blocks_only, scope_children, written_buffers
from ..argument import AnyBuffer, Argument, Block, BufferIndex, Map
from ..bounds import analyzer_of, guards
from ..coverage import (
    changing_source,
    why_conditional,
    why_not_begun,
    why_not_covered,
    why_not_unconditional,
    why_not_whole,
)
from ..declaration import PrimitiveFamily, primitive
from ..dependence import require_own_elements
from ..early import is_conditional, may_be_idle, may_be_undefined
from ..effects import require_no_effects_of_indices
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..reduction_order import why_not_run
from ..region import point_region
from ..returns import require_no_return
from ..state import ScheduleState
from ..surroundings import loads_around, names_around, names_given_in
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    TreeNode,
    blocks_below,
    fresh_block_name,
    insert_beside,
    is_ancestor,
    loops_around,
    scope_of,
)
from .caching import cache_name, require_storage_scope, similar_buffer
from .filled import require_filled
from .layout import allocating_scope, injective_inverse, map_indices
from .reduction import conjuncts_without
from .wide_maps import all_held, in_int64


def _variables(sch: ScheduleState, given: Mapping[str, Any]) -> int:
    """What a map from the block's variables takes."""
    return len(sch._block(given["block"]).iter_vars)


class ReindexPrimitives(PrimitiveFamily):
    """Copies of buffers in the order in which a block uses them."""

    @primitive("ReIndex", moves=True, block=Block(), buffer=AnyBuffer())
    def reindex(self, block: BlockRV | str, buffer: tuple[str, int] | str | tir.Buffer) -> BlockRV:
        """Stage a buffer in a copy whose dimensions are the block's iteration variables; returns the copying block.

        ``buffer`` is ("read" or "write", position), a name, or a Buffer. ``C[i, j] = A[j, i]`` becomes
        ``A_reindex[i, j] = A[j, i]; C[i, j] = A_reindex[i, j]``.

        Raises:
            ScheduleError: the block accesses the buffer in several ways, or does not compute all of what the copy writes back.
        """
        assert isinstance(buffer, tuple)
        kind, position = buffer
        return self._new(_reindex(self._block(block), position, kind == "write"))

    @primitive(
        "ReindexCacheRead",
        block=Block(),
        read_buffer_index=BufferIndex(is_write=False),
        storage_scope=Argument(),
        index_map=Map(_variables),
    )
    def reindex_cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Like ``cache_read`` for one consumer, with the copy laid out by a map from the block's variables.

        ``C[i, j] = A[j, i]`` with ``lambda i, j: (i, j)`` becomes ``A_local[i, j] = A[j, i]; C[i, j] = A_local[i, j]``.

        Raises:
            ScheduleError: the map sends two elements to one place, or uses variables that do not index the buffer.
        """
        assert isinstance(read_buffer_index, int) and isinstance(index_map, IndexMap)
        resolved = self._resolved_map(index_map)
        return self._new(
            _reindex_cache(self._block(block), read_buffer_index, storage_scope, resolved, False)
        )

    @primitive(
        "ReindexCacheWrite",
        moves=True,
        block=Block(),
        write_buffer_index=BufferIndex(is_write=True),
        storage_scope=Argument(),
        index_map=Map(_variables),
    )
    def reindex_cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | tir.Buffer,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Like ``cache_write``, with the copy laid out by a map from the block's variables.

        ``C[j, i] = A[i, j]`` with ``lambda i, j: (i, j)`` becomes ``C_local[i, j] = A[i, j]; C[j, i] = C_local[i, j]``.

        Raises:
            ScheduleError: the map sends two elements to one place, or uses variables that do not index the buffer.
        """
        assert isinstance(write_buffer_index, int) and isinstance(index_map, IndexMap)
        resolved = self._resolved_map(index_map)
        return self._new(
            _reindex_cache(self._block(block), write_buffer_index, storage_scope, resolved, True)
        )


def _reindex(block: BlockNode, buffer_index: int, is_write: bool) -> BlockNode:
    primitive = "reindex"
    buffer, indices = _only_access(block, buffer_index, is_write, primitive)
    used = _used_vars(block, indices, primitive)
    for item in block.iter_vars:
        if is_write and item.iter_type == IterVar.CommReduce:
            require(
                item not in used,
                primitive,
                f"reduction variable {item.var.name!r} indexes the output of block {block.name!r}",
            )
    reason = why_not_whole(block, used)
    if is_write:
        _require_last_values(block, used, primitive)
        require(reason is None, primitive, f"{reason}; the copy would write back elements that nobody wrote")
    elif reason is not None:
        is_given = allocating_scope(block, buffer) is None
        require(is_given, primitive, f"{reason}; the copy would read elements that nobody wrote")
        _require_in_bounds(block, buffer, indices, primitive)
    scope = scope_of(block)
    assert scope is not None
    if reason is not None or is_conditional(block, scope) or may_be_idle(block, scope, used):
        _require_defined(block, buffer, indices, primitive)
    index_map = IndexMap([item.var for item in block.iter_vars], [item.var for item in used])
    shape = [_end(item) for item in used]
    cache = tir.decl_buffer(
        shape,
        buffer.dtype,
        f"{buffer.name}_reindex",
        scope="" if buffer.scope() == "global" else buffer.scope(),
    )
    loops = [
        (tir.Var(f"ax{n}", item.var.dtype), item.dom.extent, item.dom.min) for n, item in enumerate(used)
    ]
    values = [var for var, _, _ in loops]
    fresh = {item.var: tir.Var(f"v{n}", item.var.dtype) for n, item in enumerate(used)}
    name = f"{(buffer if is_write else cache).name}_reindex"
    return _stage(block, buffer, indices, cache, index_map, used, loops, values, fresh, name, is_write)


def _require_last_values(block: BlockNode, used: Sequence[IterVar], primitive: str) -> None:
    """The copy runs in the order of the variables: of several values for one element, the one that the block stores last must stay."""
    bound = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    values = [bound[item.var] for item in used]
    running = [loop for loop in loops_around(block) if any(mentions(value, {loop.var}) for value in values)]
    is_same_order = len(values) == len(running) and all(
        without_casts(value) is loop.var for value, loop in zip(values, running, strict=True)
    )
    if not is_same_order:
        require_own_elements(block, running, primitive)


def _end(item: IterVar) -> Any:
    """One past the last value of a variable: what a dimension indexed by it must hold."""
    return simplify_polynomial(item.dom.min + item.dom.extent)


def _reindex_cache(
    block: BlockNode, buffer_index: int, storage_scope: str, index_map: IndexMap, is_write: bool
) -> BlockNode:
    primitive = "reindex_cache_write" if is_write else "reindex_cache_read"
    require_storage_scope(storage_scope, primitive)
    buffer, indices = _only_access(block, buffer_index, is_write, primitive)
    require(
        len(index_map.initial_indices) == len(block.iter_vars),
        primitive,
        f"the index map takes {len(index_map.initial_indices)} indices, block {block.name!r} has {len(block.iter_vars)}"
        " iteration variables",
    )
    used = _used_vars(block, indices, primitive)
    finals = map_indices(index_map, [item.var for item in block.iter_vars])
    other = {item.var for item in block.iter_vars} - {item.var for item in used}
    for final in finals:
        require(
            not mentions(final, other),
            primitive,
            f"index {final} of the map uses a variable of block {block.name!r} that does not index {buffer.name}",
        )
    shape = index_map.map_shape([_end(item) for item in block.iter_vars])
    if not all(any(constant_difference(index, final) == 0 for final in finals) for index in indices):
        # Where the map repeats the indices of the access, the same place is the same element.
        _require_injective(index_map, block, used, primitive)
    if not all_held(shape):
        index_map = in_int64(index_map)
        shape = [tir.const(item, "int64") if isinstance(item, int) else item for item in shape]
    cache = tir.decl_buffer(
        shape,
        buffer.dtype,
        similar_buffer(buffer, storage_scope).name,
        scope="" if storage_scope == "global" else storage_scope,
    )
    around = loops_around(block)
    bound = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    needed = _needed_loops(around, [bound[item.var] for item in used])
    fresh: dict[Any, Any] = {loop.var: tir.Var(loop.var.name, loop.var.dtype) for loop in needed}
    loops = [
        (fresh[loop.var], substitute(loop.extent, fresh), substitute(loop.min, fresh)) for loop in needed
    ]
    values = [substitute(bound[item.var], fresh) for item in used]
    name = fresh_block_name(block, cache_name(buffer, storage_scope))
    predicate: Any = tir.const(True)
    gone = [loop for loop in around if loop.var not in fresh]
    kept = conjuncts_without(block.predicate, gone)
    scope = scope_of(block)
    assert scope is not None
    if len(kept) < len(conjuncts(block.predicate)):  # a guard of several loops, of which some are gone
        for item in used:
            kept += guards(bound[item.var], None, None, item.dom, needed)
    if (
        len(kept) < len(conjuncts(block.predicate))
        or is_conditional(block, scope)
        or may_be_idle(block, scope, used)
    ):
        _require_defined(block, buffer, indices, primitive)
    for condition in kept:
        predicate = tir.operators.logical_and(predicate, substitute(condition, fresh))
    copied = {item.var: tir.Var(item.var.name, item.var.dtype) for item in used}
    return _stage(
        block, buffer, indices, cache, index_map, used, loops, values, copied, name, is_write, predicate
    )


def _needed_loops(around: list[LoopNode], values: list[Any]) -> list[LoopNode]:
    """The loops that values mention, those that say how far they run, and those that do not run at all."""
    needed: list[LoopNode] = []
    mentioning = list(values)
    for loop in reversed(around):
        is_empty = isinstance(loop.extent, tir.IntImm) and loop.extent.value <= 0
        if is_empty or any(mentions(value, {loop.var}) for value in mentioning):
            needed.insert(0, loop)
            mentioning += [loop.min, loop.extent]
    return needed


def _require_injective(index_map: IndexMap, block: BlockNode, used: list[IterVar], primitive: str) -> None:
    """No two elements may share a place in the copy."""
    finals = map_indices(index_map, [item.var for item in block.iter_vars])
    ranges = {item.var: item.dom for item in used}
    if not detect_iter_map(finals, ranges, True, "nocheck").indices:
        raise ScheduleError(
            f"{primitive}: the index map is not an affine map of the variables of block {block.name!r}"
        )
    injective_inverse(
        IndexMap([item.var for item in used], finals), [_end(item) for item in used], primitive, "elements"
    )


def _only_access(
    block: BlockNode, buffer_index: int, is_write: bool, primitive: str
) -> tuple[tir.Buffer, tuple[tir.PrimExpr, ...]]:
    """The buffer at a position and the only indices at which the block accesses it."""
    regions = block.writes if is_write else block.reads
    kind = "writes" if is_write else "reads"
    require(scope_of(block) is not None, primitive, f"block {block.name!r} is a root block")
    require_blocks_only(block, primitive)
    require(
        0 <= buffer_index < len(regions),
        primitive,
        f"block {block.name!r} {kind} {len(regions)} buffers, there is no buffer {buffer_index}",
    )
    buffer = regions[buffer_index].buffer
    require_no_effects_of_indices([block], buffer, primitive)
    require(isinstance(block.body, LeafNode), primitive, f"block {block.name!r} has loops or blocks inside")
    assert isinstance(block.body, LeafNode)
    reason = why_not_elementwise(block, buffer)
    require(reason is None, primitive, f"{reason}; the copy is made of elements")
    found: list[tuple[Any, ...]] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer is buffer:
            require(
                node.predicate is None,
                primitive,
                f"block {block.name!r} accesses {buffer.name} under a predicate, without which the copy would",
            )
            if not any(all(_same(a, b) for a, b in zip(node.indices, item, strict=True)) for item in found):
                found.append(node.indices)

    for stmt in (block.init, block.body.leaf):
        if stmt is not None:
            tir.post_order_visit(stmt, visit)
    require(
        len(found) == 1,
        primitive,
        f"block {block.name!r} accesses buffer {buffer.name} at {len(found)} different places, not at one",
    )
    outer = {loop.var for loop in loops_around(block)}
    require(
        not any(mentions(index, outer) for index in found[0]),
        primitive,
        f"block {block.name!r} accesses {buffer.name} by the loops around it and not by its variables",
    )
    given = names_given_in(block.body.leaf)
    require(
        not any(mentions(index, given) for index in found[0]),
        primitive,
        f"block {block.name!r} accesses {buffer.name} by loops or lets in it and not by its variables",
    )
    scope = scope_of(block)
    assert scope is not None
    if is_conditional(block, scope) or not block.is_unconditional:
        _require_in_bounds(block, buffer, found[0], primitive)
        if not is_write:
            _require_written(block, buffer, primitive)
    if is_write:
        writers = [item for item in scope_children(block) if buffer in written_buffers(item)]
        require(
            len(writers) == 1,
            primitive,
            f"buffer {buffer.name} is written by {len(writers)} blocks of the scope, not by one",
        )
        reason = why_not_begun(block, buffer, scope)
        if reason is None and block.init is not None:
            reason = why_not_run(block, loops_around(block))
        require(
            reason is None, primitive, f"{reason}; a new buffer does not hold what {buffer.name} held before"
        )
        reason = why_not_unconditional(block, buffer) or why_conditional(block)
        require(reason is None, primitive, f"{reason}; the copy would write back elements that nobody wrote")
    else:
        require(
            buffer not in written_buffers(block),
            primitive,
            f"block {block.name!r} writes buffer {buffer.name} as well",
        )
    return buffer, found[0]


def _require_in_bounds(
    block: BlockNode, buffer: tir.Buffer, indices: tuple[Any, ...], primitive: str
) -> None:
    """The copy runs over all values of the block's variables, without the conditions around the access."""
    analyzer = knowing_domains(block)
    for index, dim in zip(indices, buffer.shape, strict=True):
        require(
            analyzer.can_prove(index >= 0) and analyzer.can_prove(index < dim),
            primitive,
            f"index {index} of {buffer.name} may lie outside the buffer where block {block.name!r} does not use it",
        )


def _require_defined(block: BlockNode, buffer: tir.Buffer, indices: tuple[Any, ...], primitive: str) -> None:
    """The copy evaluates the indices for all values of the block's variables."""
    analyzer = knowing_domains(block)
    for index in indices:
        require(
            not may_be_undefined(index, analyzer),
            primitive,
            f"index {index} of {buffer.name} may be undefined where block {block.name!r} does not use it",
        )


def knowing_domains(block: BlockNode) -> Analyzer:
    """An analyzer that knows the domains of a block's variables."""
    analyzer = analyzer_of(variables=block.iter_vars)
    return analyzer


def _require_written(block: BlockNode, buffer: tir.Buffer, primitive: str) -> None:
    """What a block reads under conditions is copied without them: all of a buffer of the scope must have been written."""
    scope = scope_of(block)
    assert scope is not None
    if not any(item is buffer for item in scope.alloc_buffers):
        require_filled(block, buffer, [(tir.const(0, dim.dtype), dim) for dim in buffer.shape], [], primitive)
        return
    for writer in scope_children(block):
        for region in writer.writes:
            if region.buffer is not buffer:
                continue
            reason = why_not_covered(writer, buffer, scope)
            box = relaxed_below(writer, region, scope)
            is_whole = all(
                constant_difference(low, 0) == 0 and constant_difference(extent, dim) == 0
                for (low, extent), dim in zip(box, buffer.shape, strict=True)
            )
            require(
                reason is None and is_whole,
                primitive,
                f"block {block.name!r} reads {buffer.name} under conditions, of which block {writer.name!r} may write a part only",
            )


def _same(a: Any, b: Any) -> bool:
    return structural_equal(a, b)


def _used_vars(block: BlockNode, indices: tuple[Any, ...], primitive: str) -> list[IterVar]:
    """The variables in the indices of an access, which become indices of the copy."""
    used = [item for item in block.iter_vars if any(mentions(index, {item.var}) for index in indices)]
    for item in used:
        require(
            Analyzer().can_prove(item.dom.min >= 0),
            primitive,
            f"variable {item.var.name!r} of block {block.name!r} starts at {item.dom.min}; indices of a copy count from zero",
        )
    return used


class _Redirect(StmtExprMutator):
    """Accesses of one buffer become accesses of another at given indices."""

    def __init__(self, old: tir.Buffer, new: tir.Buffer, indices: list[Any]) -> None:
        super().__init__()
        self._old, self._new, self._indices = old, new, indices

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        return (
            tir.BufferLoad(self._new, self._indices) if load.buffer is self._old else self.generic_visit(load)
        )

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        mapped = self.generic_visit(store)
        return (
            tir.BufferStore(self._new, mapped.value, self._indices) if store.buffer is self._old else mapped
        )


def _stage(
    block: BlockNode,
    buffer: tir.Buffer,
    indices: tuple[Any, ...],
    cache: tir.Buffer,
    index_map: IndexMap,
    used: list[IterVar],
    loops: list[tuple[Any, Any, Any]],
    values: list[Any],
    fresh: dict[Any, Any],
    name: str,
    is_write: bool,
    predicate: tir.PrimExpr | None = None,
) -> BlockNode:
    """Insert the block that copies between a buffer and its copy, and let ``block`` use the copy.

    ``fresh`` gives each used variable of ``block`` its twin in the copying block.
    """
    scope = scope_of(block)
    assert scope is not None
    staged = map_indices(index_map, [item.var for item in block.iter_vars])
    outside = [substitute(index, fresh) for index in indices]
    inside = [substitute(index, fresh) for index in staged]
    source, target = (cache, buffer) if is_write else (buffer, cache)
    read_at, write_at = (inside, outside) if is_write else (outside, inside)
    copy = BlockNode(
        name,
        tuple(IterVar(item.dom, fresh[item.var], IterVar.DataPar) for item in used),
        tuple(values),
        (point_region(source, read_at),),
        (point_region(target, write_at),),
        LeafNode(tir.BufferStore(target, tir.BufferLoad(source, read_at), write_at)),
        predicate,
    )
    state_loads_of_indices(copy)
    nest: TreeNode = copy
    for var, extent, low in reversed(loops):
        nest = LoopNode(var, extent, nest, min_value=low)
    top = _top(block, scope)
    side = "behind" if is_write else "before"
    require_no_return([top], "reindex", f"the nest of block {block.name!r}, {side} which the copy would be")
    for other in blocks_below(top):
        require(
            other is block or buffer not in (read_buffers(other) if is_write else written_buffers(other)),
            "reindex",
            f"block {other.name!r} in the same nest as block {block.name!r} {'reads' if is_write else 'writes'} {buffer.name};"
            " the copy would come too late or too early",
        )
        asked = is_write and any(
            load.buffer is buffer and is_ancestor(top, node) for node, load in loads_around(other)
        )
        require(not asked, "reindex", f"whether block {other.name!r} runs depends on {buffer.name}")
    ends = [end for _, extent, low in loops for end in (low, extent)]
    exprs = [*indices, *values, *ends, block.predicate]
    changing = changing_source(exprs, top)
    require(
        changing is None,
        "reindex",
        f"where block {block.name!r} accesses {buffer.name} depends on {changing and changing.name}, which changes meanwhile",
    )
    for var in names_around(block, scope):
        require(
            not any(mentions(expr, {var}) for expr in exprs),
            "reindex",
            f"block {block.name!r} depends on {var.name}, a name that is known only around it",
        )
    redirect = _Redirect(buffer, cache, staged)
    body = block.body
    assert isinstance(body, LeafNode)
    body.leaf = redirect.visit(body.leaf)

    def moved(region: tir.BufferRegion) -> tir.BufferRegion:
        return point_region(cache, staged) if region.buffer is buffer else region

    block.change(
        init=None if block.init is None else redirect.visit(block.init),
        reads=tuple(moved(region) for region in block.reads),
        writes=tuple(moved(region) for region in block.writes),
    )
    insert_beside(top, nest, before=not is_write)
    scope.change(alloc_buffers=(*scope.alloc_buffers, cache))
    state_around(copy)
    return copy


def _top(block: BlockNode, scope: BlockNode) -> TreeNode:
    """The outermost node around a block directly in the scope (in its sequence, when it has one)."""
    node: TreeNode = block
    while node.parent is not scope and node.parent is not None and node.parent.parent is not scope:
        node = node.parent
    parent = node.parent
    return node if parent is scope or not isinstance(parent, LoopNode) else parent
