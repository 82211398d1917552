"""separate_rest: the last iterations of a loop around a reduction become a reduction of their own, which may be scheduled otherwise.

for i in 10, k: C[i] += A[i, k]        ->    for i in 8, k: C_first[i] += A[i, k]
                                             for i in 2, k: C_rest[i] += A[i + 8, k]
                                             for i in 8: C[i] = C_first[i]
                                             for i in 2: C[i + 8] = C_rest[i]
"""

from __future__ import annotations

from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.stmt_functor import StmtExprMutator, substitute
from ir.tir.transform.fresh_copy import fresh_copy

from ..analysis import require
from ..argument import Argument, Loop
from ..declaration import PrimitiveFamily, primitive
from ..random_variable import BlockRV, LoopRV
from ..region import bind_region, point_region
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    blocks_below,
    fresh_block_name,
    insert_beside,
    loops_around,
    scope_of,
    tree_of,
)
from .rfactor import reduction_of
from .separate import reduction_alone

_NAME = "separate_rest"


class SeparateRestPrimitives(PrimitiveFamily):
    """Parts of results by blocks of their own."""

    @primitive("SeparateRest", loop=Loop(), extent=Argument())
    def separate_rest(self, loop: LoopRV, extent: int) -> BlockRV:
        """Compute the last iterations of a data-parallel loop in a block of its own: returns that block.

        The results of both have buffers of their own, from which other blocks, named behind them with ``_placed``, copy them to their
        place. Such a copy is computed with a block by :meth:`reverse_compute_inline` or :meth:`compute_at`.

        Args:
            loop: around a reduction, alone in its nest.
            extent: how many of its iterations.

        Raises:
            ScheduleError: the extent is not between 1 and the loop's less one, or the nest is no reduction of one buffer whose loops bind
                its variables one by one, or its results are not at these variables, each dimension at one of them.
        """
        node = self._loop(loop)
        block = reduction_alone(node, _NAME)
        before = _iterations_before(node, extent)
        dim = _dimension(block, node)
        scope = scope_of(block)
        assert scope is not None
        result, outermost = block.writes[0].buffer, loops_around(block)[0]
        first, rest = (
            _part_of(result, dim, count, name) for count, name in ((before, "first"), (extent, "rest"))
        )
        nest, made = _rest(block, loops_around(block).index(node), before, extent, rest)
        insert_beside(outermost, _placed(made, rest, result, dim, before), before=False)
        insert_beside(outermost, _placed(block, first, result, dim, 0), before=False)
        insert_beside(outermost, nest, before=False)
        _write_to(block, first, {})
        _shorten(block, node, before)
        scope.change(alloc_buffers=(*scope.alloc_buffers, first, rest))
        return self._new(made)


def _part_of(result: tir.Buffer, dim: int, extent: int, name: str) -> tir.Buffer:
    """A buffer for some of the results."""
    shape = list(result.shape)
    shape[dim] = tir.const(extent, result.shape[dim].dtype)
    return tir.decl_buffer(shape, result.dtype, f"{result.name}_{name}")


def _iterations_before(loop: LoopNode, extent: int) -> int:
    """How many iterations are left to the loop."""
    total = loop.extent
    require(
        isinstance(total, tir.IntImm),
        _NAME,
        f"loop {loop.var.name!r} has extent {total}, it must be constant",
    )
    assert isinstance(total, tir.IntImm)
    require(
        isinstance(extent, int) and 0 < extent < total.value,
        _NAME,
        f"extent must be between 1 and {total.value - 1}, as loop {loop.var.name!r} has {total.value} iterations, got {extent!r}",
    )
    return total.value - extent


def _dimension(block: BlockNode, loop: LoopNode) -> int:
    """The dimension of the result that a loop goes along."""
    reduction = reduction_of(block, _NAME)
    require(
        len(reduction.outputs) == 1,
        _NAME,
        f"block {block.name!r} has {len(reduction.outputs)} results, it needs one",
    )
    (result,) = reduction.outputs
    domains: dict[Any, tir.PrimExpr] = {item.var: item.dom.extent for item in block.iter_vars}
    plain = all(
        (isinstance(index, tir.IntImm) and index.value == 0) or _is_all(domains.get(index), size)
        for index, size in zip(reduction.indices, result.shape, strict=True)
    )
    chosen = [index for index in reduction.indices if not isinstance(index, tir.IntImm)]
    require(
        plain and len({id(index) for index in chosen}) == len(chosen),
        _NAME,
        f"block {block.name!r} writes {result.name}{list(reduction.indices)}, each dimension must be at a variable of its own",
    )
    (var,) = (
        item.var for item, value in zip(block.iter_vars, block.iter_values, strict=True) if value is loop.var
    )
    found = [dim for dim, index in enumerate(reduction.indices) if index is var]
    require(
        bool(found),
        _NAME,
        f"loop {loop.var.name!r} goes along no dimension of the result of block {block.name!r}",
    )
    return found[0]


def _is_all(extent: Any, size: tir.PrimExpr) -> bool:
    return isinstance(extent, tir.IntImm) and isinstance(size, tir.IntImm) and extent.value == size.value


class _Own(StmtExprMutator):
    """Accesses another buffer in place of the result, at indices as they were before."""

    def __init__(self, result: tir.Buffer, own: tir.Buffer, indices: tuple[tir.PrimExpr, ...]) -> None:
        super().__init__()
        self._result, self._own, self._indices = result, own, indices

    def visit_BufferLoad(self, load: tir.BufferLoad) -> tir.PrimExpr:
        if load.buffer is self._result:
            return tir.BufferLoad(self._own, self._indices)
        mapped: tir.PrimExpr = self.generic_visit(load)
        return mapped

    def visit_BufferStore(self, store: tir.BufferStore) -> tir.Stmt:
        return tir.BufferStore(self._own, self.visit(store.value), self._indices)


def _rest(
    block: BlockNode, position: int, before: int, extent: int, own: tir.Buffer
) -> tuple[LoopNode, BlockNode]:
    """A nest for the last iterations of a loop, and its block."""
    nest = tree_of(fresh_copy(loops_around(block)[0].stmt()))
    assert isinstance(nest, LoopNode)
    (made,) = blocks_below(nest)
    loop = loops_around(made)[position]
    var = next(
        item.var for item, value in zip(made.iter_vars, made.iter_values, strict=True) if value is loop.var
    )
    made.change(name=fresh_block_name(block, f"{block.name}_rest"))
    _write_to(made, own, {var: var + tir.const(before, var.dtype)})
    _shorten(made, loop, extent)
    return nest, made


def _write_to(block: BlockNode, own: tir.Buffer, moved: dict[Any, tir.PrimExpr]) -> None:
    """Let a reduction write to another buffer, and read where its variables are moved to."""
    result, indices = block.writes[0].buffer, list(reduction_of(block, _NAME).indices)
    rewrite = _Own(result, own, tuple(indices))
    assert isinstance(block.body, LeafNode) and block.init is not None
    body, init = (rewrite.visit(substitute(stmt, moved)) for stmt in (block.body.leaf, block.init))
    block.change(
        reads=tuple(
            point_region(own, indices)
            if item.buffer is result
            else tir.BufferRegion(item.buffer, bind_region(item.region, moved))
            for item in block.reads
        ),
        writes=(point_region(own, indices),),
        init=init,
    )
    block.set_body(LeafNode(body))


def _shorten(block: BlockNode, loop: LoopNode, extent: int) -> None:
    """Give a loop, and the variable that it is bound to, fewer iterations."""
    block.change(
        iter_vars=tuple(
            IterVar(tir.Range(0, tir.const(extent, item.var.dtype)), item.var, item.iter_type)
            if value is loop.var
            else item
            for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        )
    )
    loop.extent = tir.const(extent, loop.var.dtype)
    loop.touch()


def _placed(maker: BlockNode, own: tir.Buffer, result: tir.Buffer, dim: int, before: int) -> LoopNode:
    """The nest that copies results to their place."""
    dtype = own.shape[dim].dtype
    places: list[Any] = [tir.Var(f"v{axis}", dtype) for axis in range(len(own.shape))]
    target = [place + tir.const(before, dtype) if axis == dim else place for axis, place in enumerate(places)]
    loops = [tir.Var(f"ax{axis}", dtype) for axis in range(len(places))]
    nest: Any = BlockNode(
        fresh_block_name(maker, f"{maker.name}_placed"),
        tuple(
            IterVar(tir.Range(0, extent), place, IterVar.DataPar)
            for place, extent in zip(places, own.shape, strict=True)
        ),
        tuple(loops),
        (point_region(own, places),),
        (point_region(result, target),),
        LeafNode(tir.BufferStore(result, tir.BufferLoad(own, places), target)),
    )
    for var, extent in zip(reversed(loops), reversed(own.shape), strict=True):
        nest = LoopNode(var, extent, nest)
    return nest
