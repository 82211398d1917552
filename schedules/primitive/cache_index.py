"""The primitive that computes the indices of a block ahead of it: cache_index."""

from __future__ import annotations

from typing import Any

from ir import structural_equal, tir
from ir.tir import IterVar
from ir.tir.stmt_functor import StmtExprMutator, loads_in, substitute

from ..affine import mentions
from ..analysis import require, require_blocks_only
from ..argument import Argument, Block
from ..coverage import why_not_whole
from ..declaration import PrimitiveFamily, primitive
from ..early import is_conditional, may_be_idle, may_be_undefined
from ..random_variable import BlockRV
from ..region import point_region
from ..returns import returns_below
from ..surroundings import names_given_in
from ..tree import BlockNode, LeafNode, LoopNode, SeqNode, TreeNode, insert_beside, scope_of
from .caching import require_storage_scope
from .reindex import knowing_domains


class CacheIndexPrimitives(PrimitiveFamily):
    """Indices that are computed ahead."""

    @primitive("CacheIndex", block=Block(), storage_scope=Argument(), cse_thresh=Argument())
    def cache_index(self, block: BlockRV | str, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Compute the indices that a block needs into buffers first; returns the computing blocks.

        ``B[i] = A[i // 4]`` becomes ``index_var_0[i] = i // 4; B[i] = A[index_var_0[i]]``. ``cse_thresh`` 0 takes every index that is
        computed; above 0 only parts of indices that occur that often. What may be undefined where the block does not evaluate it stays.

        Raises:
            ScheduleError: the block has loops or blocks inside.
        """
        return self._new(_cache_index(self._block(block), storage_scope, cse_thresh))


def _cache_index(block: BlockNode, storage_scope: str, cse_thresh: int) -> list[BlockNode]:
    primitive = "cache_index"
    require_storage_scope(storage_scope, primitive)
    scope = scope_of(block)
    require(scope is not None, primitive, f"block {block.name!r} is a root block")
    require_blocks_only(block, primitive)
    require(isinstance(block.body, LeafNode), primitive, f"block {block.name!r} has loops or blocks inside")
    require(cse_thresh >= 0, primitive, f"cse_thresh must not be negative, got {cse_thresh}")
    assert scope is not None and isinstance(block.body, LeafNode)
    chosen = [
        expr for expr in _computed_indices(block, cse_thresh) if _may_be_computed_first(block, scope, expr)
    ]
    blocks: list[BlockNode] = []
    top: TreeNode = block
    while top.parent is not scope and not (isinstance(top.parent, SeqNode) and top.parent.parent is scope):
        assert top.parent is not None
        top = top.parent
    replaced: list[tuple[Any, Any]] = []
    for number, expr in enumerate(chosen):
        used = [item for item in block.iter_vars if mentions(expr, {item.var})]
        buffer = tir.decl_buffer(
            [item.dom.extent for item in used],
            expr.dtype,
            f"index_var_{number}",
            scope="" if storage_scope == "global" else storage_scope,
        )
        fresh: dict[Any, Any] = {item.var: tir.Var(f"v{n}", item.var.dtype) for n, item in enumerate(used)}
        loops = [(tir.Var(f"ax{n}", item.var.dtype), item.dom.extent) for n, item in enumerate(used)]
        point = [_from_zero(fresh[item.var], item.dom) for item in used]
        node = BlockNode(
            f"index_{number}",
            tuple(IterVar(item.dom, fresh[item.var], IterVar.DataPar) for item in used),
            tuple(item.dom.min + var for item, (var, _) in zip(used, loops, strict=True)),
            (),
            (point_region(buffer, point),),
            LeafNode(tir.BufferStore(buffer, substitute(expr, fresh), point)),
        )
        nest: TreeNode = node
        for var, extent in reversed(loops):
            nest = LoopNode(var, extent, nest)
        insert_beside(top, nest, before=True)
        scope.change(alloc_buffers=(*scope.alloc_buffers, buffer))
        replaced.append((expr, tir.BufferLoad(buffer, [_from_zero(item.var, item.dom) for item in used])))
        blocks.append(node)
    if replaced:
        swap = _ReplaceIndices(replaced)
        block.body.leaf = swap.visit(block.body.leaf)
        extra = []
        for _, load in replaced:
            ranges = [tir.Range.from_min_extent(item, tir.const(1, item.dtype)) for item in load.indices]
            extra.append(tir.BufferRegion(load.buffer, ranges))
        block.change(reads=(*block.reads, *extra))
    return blocks


def _may_be_computed_first(block: BlockNode, scope: BlockNode, expr: tir.PrimExpr) -> bool:
    """Whether an index may be computed for all values of the block's variables, also where the block does not use it."""
    if not may_be_undefined(expr, knowing_domains(block)):
        return True
    used = [item for item in block.iter_vars if mentions(expr, {item.var})]
    return not (
        is_conditional(block, scope)
        or returns_below(scope)
        or may_be_idle(block, scope, used)
        or why_not_whole(block, used) is not None
    )


def _from_zero(var: tir.Var, dom: tir.Range) -> tir.PrimExpr:
    """The place of a variable's value among those of its domain."""
    return var if isinstance(dom.min, tir.IntImm) and dom.min.value == 0 else var - dom.min


def _computed_indices(block: BlockNode, threshold: int) -> list[Any]:
    """Index expressions worth a buffer, without repetition, in order of appearance; not those of loops and lets in the block."""
    assert isinstance(block.body, LeafNode)
    own, given = {item.var for item in block.iter_vars}, names_given_in(block.body.leaf)
    counts: list[list[Any]] = []

    def count(expr: Any) -> None:
        if mentions(expr, given):
            return
        for entry in counts:
            if structural_equal(entry[0], expr):
                entry[1] += 1
                return
        counts.append([expr, 1])

    def parts(expr: Any) -> None:
        if isinstance(expr, tir.BinaryOpExpr) and mentions(expr, own):
            parts(expr.a)
            parts(expr.b)
            count(expr)

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad):
            for index in node.indices:
                if not isinstance(index, tir.BinaryOpExpr) or not mentions(index, own) or loads_in(index):
                    continue
                if threshold == 0:
                    count(index)
                else:
                    parts(index)

    tir.post_order_visit(block.body.leaf, visit)
    return [expr for expr, number in counts if number >= max(1, threshold)]


class _ReplaceIndices(StmtExprMutator):
    """Replaces expressions inside indices by loads of what was computed before, larger ones first."""

    def __init__(self, table: list[tuple[Any, Any]]) -> None:
        super().__init__()
        self._entries = table[::-1]
        self._depth = 0

    def visit(self, node: Any) -> Any:
        if self._depth and isinstance(node, tir.BinaryOpExpr):
            for expr, load in self._entries:
                if structural_equal(node, expr):
                    return load
        return super().visit(node)

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        self._depth += 1
        with self.forgetting():  # outside of indices nothing is replaced
            indices = tuple(self.visit(index) for index in load.indices)
        self._depth -= 1
        return tir.BufferLoad(load.buffer, indices, load.predicate)
