"""Primitives for reductions: decompose_reduction and rfactor."""

from __future__ import annotations

from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.functor import StmtExprMutator, substitute

from ..affine import mentions, simplify_polynomial
from ..analysis import require, scope_children, why_not_reduction, written_buffers
from ..error import ScheduleError
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    SeqNode,
    TreeNode,
    insert_beside,
    loops_around,
    replace_node,
    scope_of,
)


def _conjuncts(predicate: tir.PrimExpr) -> list[tir.PrimExpr]:
    if isinstance(predicate, tir.And):
        return _conjuncts(predicate.a) + _conjuncts(predicate.b)
    return [] if isinstance(predicate, tir.IntImm) and predicate.value else [predicate]


def decompose_reduction(block: BlockNode, loop: LoopNode) -> BlockNode:
    """Split a reduction into a block that initialises, placed before ``loop``, and one that only updates."""
    require(block.init is not None, "decompose_reduction", f"block {block.name!r} has no init")
    reason = why_not_reduction(block)
    require(reason is None, "decompose_reduction", f"block {block.name!r} is not a reduction block: {reason}")
    loops = loops_around(block)
    require(
        any(item is loop for item in loops),
        "decompose_reduction",
        f"loop {loop.var.name!r} is not around block {block.name!r}",
    )
    position = next(i for i, item in enumerate(loops) if item is loop)
    outer = {item.var for item in loops[:position]}
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if item.iter_type == IterVar.CommReduce:
            require(
                not mentions(value, outer),
                "decompose_reduction",
                f"reduction {item.var.name!r} also runs outside loop {loop.var.name!r}; choose an outer loop",
            )
    node, init_block = _init_nest(block, loops[position:])
    insert_beside(loop, node, before=True)
    update_reads = [tir.BufferRegion(region.buffer, region.region) for region in block.writes]
    kept = [region for region in block.reads if region.buffer not in written_buffers(block)]
    block.change(init=None, name=f"{block.name}_update", reads=(*update_reads, *kept))
    return init_block


def _init_nest(block: BlockNode, inner_loops: list[LoopNode]) -> tuple[TreeNode, BlockNode]:
    """The init block under copies of those loops that its data-parallel variables need."""
    spatial = [
        (item, value)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.iter_type == IterVar.DataPar
    ]
    needed = [item for item in inner_loops if any(mentions(value, {item.var}) for _, value in spatial)]
    loop_vars: dict[Any, Any] = {item.var: tir.Var(f"{item.var.name}_init", item.var.dtype) for item in needed}
    block_vars: dict[Any, Any] = {item.var: tir.Var(f"{item.var.name}_init", item.var.dtype) for item, _ in spatial}
    dropped = {item.var for item in inner_loops if item.var not in loop_vars}
    predicate: Any = tir.const(True)
    for condition in _conjuncts(block.predicate):
        if not mentions(condition, dropped):
            predicate = tir.expr.logical_and(predicate, substitute(condition, loop_vars))
    assert block.init is not None
    init_block = BlockNode(
        f"{block.name}_init",
        tuple(IterVar(item.dom, block_vars[item.var], item.iter_type) for item, _ in spatial),
        tuple(substitute(value, loop_vars) for _, value in spatial),
        (),
        tuple(
            tir.BufferRegion(region.buffer, [substitute(item, block_vars) for item in region.region])
            for region in block.writes
        ),
        LeafNode(substitute(block.init, block_vars)),
        predicate,
    )
    node: TreeNode = init_block
    for item in reversed(needed):
        kind = item.kind if item.thread_binding is None else item.kind
        node = LoopNode(
            loop_vars[item.var], item.extent, node, kind, item.min, item.annotations, item.thread_binding
        )
    return node, init_block


def rfactor(loop: LoopNode, factor_axis: int) -> BlockNode:
    """Factor a reduction over ``loop``: partial results per iteration in a new buffer, then their reduction.

    (Suriana, Adams, Kamil: "Parallel associative reductions in Halide", CGO 2017.)
    """
    block = _block_of_rfactor(loop)
    stores, inits, combine = _reduction_pattern(block)
    outputs = [region.buffer for region in block.writes]
    ndim = len(outputs[0].shape)
    require(
        -(ndim + 1) <= factor_axis <= ndim,
        "rfactor",
        f"factor_axis {factor_axis} is outside [{-(ndim + 1)}, {ndim}] for buffer {outputs[0].name}",
    )
    axis = factor_axis if factor_axis >= 0 else factor_axis + ndim + 1
    partial = [_partial_buffer(buffer, loop.extent, axis) for buffer in outputs]
    rf_block = _partial_block(block, loop, axis, dict(zip(outputs, partial, strict=True)))
    final_nest, final_block = _final_block(block, loop, axis, partial, stores, inits, combine)
    scope = scope_of(block)
    assert scope is not None
    top = _top_of_nest(block)
    replace_node(block, rf_block)
    insert_beside(top, final_nest, before=False)
    scope.change(alloc_buffers=(*scope.alloc_buffers, *partial))
    # The caller's reference to the block follows the final block; the partial block is returned.
    block.change(
        **{name: getattr(final_block, name) for name in ("iter_vars", "iter_values", "reads", "writes", "predicate", "init", "annotations")}
    )
    replace_node(final_block, block)
    block.set_body(final_block.body)
    return rf_block


def _top_of_nest(block: BlockNode) -> TreeNode:
    node: TreeNode = block
    while isinstance(node.parent, LoopNode):
        node = node.parent
    return node


def _block_of_rfactor(loop: LoopNode) -> BlockNode:
    from ..tree import blocks_below

    blocks = list(blocks_below(loop))
    require(len(blocks) == 1, "rfactor", f"loop {loop.var.name!r} has {len(blocks)} blocks below it, it needs one")
    block = blocks[0]
    reason = why_not_reduction(block)
    require(reason is None, "rfactor", f"block {block.name!r} is not a reduction block: {reason}")
    for item in loops_around(block):
        require(
            not isinstance(item.body, SeqNode), "rfactor", f"loop {item.var.name!r} has more than one child"
        )
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if item.iter_type == IterVar.DataPar:
            require(
                not mentions(value, {loop.var}),
                "rfactor",
                f"loop {loop.var.name!r} feeds data-parallel variable {item.var.name!r}; it must be a reduction loop",
            )
    require(
        any(mentions(value, {loop.var}) for value in block.iter_values),
        "rfactor",
        f"loop {loop.var.name!r} is not used by block {block.name!r}",
    )
    require(
        not any(item is not block and written_buffers(item) & written_buffers(block) for item in scope_children(block)),
        "rfactor",
        f"another block writes the output of {block.name!r}",
    )
    return block


def _reduction_pattern(block: BlockNode) -> tuple[list[tir.BufferStore], list[tir.BufferStore], Any]:
    """The update stores, the init stores, and the combiner: for ``out = f(out, x)`` a function (lhs, rhs) -> f(lhs, rhs)."""
    body = block.body
    stores = _stores(body.leaf if isinstance(body, LeafNode) else None, "update")
    inits = _stores(block.init, "init")
    if len(stores) != 1 or len(inits) != 1:
        raise ScheduleError(
            f"rfactor: block {block.name!r} reduces {len(stores)} values at once; only single-value reductions are supported"
        )
    store = stores[0]
    value = store.value
    own = [arg for arg in _arguments(value) if isinstance(arg, tir.BufferLoad) and arg.buffer is store.buffer]
    require(
        isinstance(value, tir.Add | tir.Mul | tir.Max | tir.Min) and len(own) == 1,
        "rfactor",
        f"the update of block {block.name!r} is not out = out (+, *, max, min) value",
    )
    return stores, inits, type(value)


def _arguments(value: tir.PrimExpr) -> list[tir.PrimExpr]:
    return [value.a, value.b] if isinstance(value, tir.BinaryOpExpr) else []


def _stores(stmt: tir.Stmt | None, what: str) -> list[tir.BufferStore]:
    if isinstance(stmt, tir.BufferStore):
        return [stmt]
    if isinstance(stmt, tir.SeqStmt) and all(isinstance(item, tir.BufferStore) for item in stmt.seq):
        return list(stmt.seq)  # type: ignore[arg-type]
    raise ScheduleError(f"rfactor: the {what} of the reduction is not a plain store")


def _partial_buffer(buffer: tir.Buffer, extent: tir.PrimExpr, axis: int) -> tir.Buffer:
    shape = list(buffer.shape)
    shape.insert(axis, extent)
    return tir.decl_buffer(shape, buffer.dtype, f"{buffer.name}_rf", scope="" if buffer.scope() == "global" else buffer.scope())


class _WidenAccesses(StmtExprMutator):
    """Accesses of the output become accesses of the partial buffer with one more index."""

    def __init__(self, buffers: dict[tir.Buffer, tir.Buffer], axis: int, index: tir.PrimExpr) -> None:
        super().__init__()
        self._widened, self._axis, self._index = buffers, axis, index

    def _indices(self, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*indices[: self._axis], self._index, *indices[self._axis :])

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        new = self._widened.get(load.buffer)
        return mapped if new is None else tir.BufferLoad(new, self._indices(mapped.indices))

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        mapped = self.generic_visit(store)
        new = self._widened.get(store.buffer)
        return mapped if new is None else tir.BufferStore(new, mapped.value, self._indices(mapped.indices))


def _partial_block(
    block: BlockNode, loop: LoopNode, axis: int, buffers: dict[tir.Buffer, tir.Buffer]
) -> BlockNode:
    """The block that reduces over everything but ``loop``, which becomes data-parallel."""
    factor_var = tir.Var(f"v{loop.var.name}", loop.var.dtype)
    iter_vars = [IterVar(loop.range(), factor_var, IterVar.DataPar)]
    values: list[Any] = [loop.var]
    renamed: dict[Any, Any] = {}
    reduce_vars: dict[Any, Any] = {loop.var: factor_var}
    tail: list[tuple[IterVar, Any]] = []
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if item.iter_type == IterVar.DataPar or not mentions(value, {loop.var}):
            fresh = tir.Var(item.var.name, item.var.dtype)
            renamed[item.var] = fresh
            entry = (IterVar(item.dom, fresh, item.iter_type), value)
            if item.iter_type == IterVar.DataPar:
                iter_vars.append(entry[0])
                values.append(value)
            else:
                tail.append(entry)
            continue
        for around in loops_around(block):
            if around.var not in reduce_vars and mentions(value, {around.var}):
                fresh = tir.Var(f"v{around.var.name}", around.var.dtype)
                reduce_vars[around.var] = fresh
                tail.append((IterVar(around.range(), fresh, IterVar.CommReduce), around.var))
        renamed[item.var] = simplify_polynomial(substitute(value, reduce_vars))
    iter_vars += [item for item, _ in tail]
    values += [value for _, value in tail]
    widen = _WidenAccesses(buffers, axis, factor_var)

    def rewrite(stmt: Any) -> Any:
        return widen.visit(substitute(stmt, renamed))

    def widened(region: tir.BufferRegion) -> tir.BufferRegion:
        ranges = [tir.Range.from_min_extent(simplify_polynomial(substitute(item.min, renamed)), item.extent) for item in region.region]
        new = buffers.get(region.buffer)
        if new is None:
            return tir.BufferRegion(region.buffer, ranges)
        point = tir.Range.from_min_extent(factor_var, tir.const(1, factor_var.dtype))
        return tir.BufferRegion(new, [*ranges[:axis], point, *ranges[axis:]])

    body = block.body
    assert isinstance(body, LeafNode)
    assert block.init is not None
    return BlockNode(
        f"{block.name}_rf",
        tuple(iter_vars),
        tuple(values),
        tuple(widened(region) for region in block.reads),
        tuple(widened(region) for region in block.writes),
        LeafNode(rewrite(body.leaf)),
        block.predicate,
        rewrite(block.init),
        annotations=block.annotations,
    )


def _final_block(
    block: BlockNode,
    loop: LoopNode,
    axis: int,
    partial: list[tir.Buffer],
    stores: list[tir.BufferStore],
    inits: list[tir.BufferStore],
    combine: Any,
) -> tuple[TreeNode, BlockNode]:
    """The block that reduces the partial results, under copies of the data-parallel loops and ``loop``."""
    spatial = [
        (item, value)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.iter_type == IterVar.DataPar
    ]
    needed = [
        item for item in loops_around(block) if item is loop or any(mentions(value, {item.var}) for _, value in spatial)
    ]
    loop_vars: dict[Any, Any] = {item.var: tir.Var(item.var.name, item.var.dtype) for item in needed}
    reduce_var = tir.Var(f"v{loop.var.name}", loop.var.dtype)
    block_vars: dict[Any, Any] = {item.var: tir.Var(item.var.name, item.var.dtype) for item, _ in spatial}
    indices = [substitute(index, block_vars) for index in stores[0].indices]
    output = stores[0].buffer
    rf_indices = [*indices[:axis], reduce_var, *indices[axis:]]
    value = combine(tir.BufferLoad(output, indices), tir.BufferLoad(partial[0], rf_indices))
    dropped = {item.var for item in loops_around(block) if item.var not in loop_vars}
    predicate: Any = tir.const(True)
    for condition in _conjuncts(block.predicate):
        if not mentions(condition, dropped | {loop.var}):
            predicate = tir.expr.logical_and(predicate, substitute(condition, loop_vars))

    def point(points: list[Any]) -> list[tir.Range]:
        return [tir.Range.from_min_extent(item, tir.const(1, item.dtype)) for item in points]

    final = BlockNode(
        block.name,
        (
            IterVar(loop.range(), reduce_var, IterVar.CommReduce),
            *[IterVar(item.dom, block_vars[item.var], item.iter_type) for item, _ in spatial],
        ),
        (loop_vars[loop.var], *[substitute(item_value, loop_vars) for _, item_value in spatial]),
        (tir.BufferRegion(partial[0], point(rf_indices)),),
        (tir.BufferRegion(output, point(indices)),),
        LeafNode(tir.BufferStore(output, value, indices)),
        predicate,
        tir.BufferStore(output, inits[0].value, indices),
        annotations=block.annotations,
    )
    node: TreeNode = final
    for item in reversed(needed):
        node = LoopNode(loop_vars[item.var], item.extent, node)
    return node, final
