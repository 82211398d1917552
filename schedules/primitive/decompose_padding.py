"""The primitive that stores padding apart from what is inside: decompose_padding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from ir import tir
from ir.arith import Analyzer
from ir.tir import IterVar
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import StmtExprMutator, substitute

from ..access import access_regions
from ..affine import constant_difference, mentions, polynomial, simplify_polynomial
from ..analysis import require, why_not_complete, written_buffers
from ..argument import Block, Loop
from ..declaration import PrimitiveFamily, primitive
from ..dependence import require_own_elements
from ..random_variable import BlockRV, LoopRV
from ..surroundings import loads_around, nodes_around
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    TreeNode,
    blocks_below,
    insert_beside,
    is_ancestor,
    loops_around,
    scope_of,
)
from .block_domains import is_constant


class DecomposePaddingPrimitives(PrimitiveFamily):
    """Padding apart from what is inside."""

    @primitive("DecomposePadding", block=Block(), loop=Loop())
    def decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split padding into filling with the constant (returned, placed before ``loop``) and copying the inside.

        ``for i in 10: B[i] = if_then_else(1 <= i < 9, A[i - 1], 0)`` becomes
        ``for i in 10: B[i] = 0`` and ``for i in 8: B[i + 1] = A[i]``. Loops of the block's variables shrink; where a variable is bound
        otherwise a predicate keeps it inside.

        Raises:
            ScheduleError: the block stores no ``if_then_else(inside, value, constant)`` with bounds of its variables, or the loop
                is not around it alone.
        """
        return self._new(_decompose_padding(self._block(block), self._loop(loop)))


def _decompose_padding(block: BlockNode, loop: LoopNode) -> BlockNode:
    primitive = "decompose_padding"
    require(scope_of(block) is not None, primitive, f"block {block.name!r} is a root block")
    reason = why_not_complete(block)
    require(reason is None, primitive, f"block {block.name!r} is not complete: {reason}")
    loops = loops_around(block)
    require(
        any(item is loop for item in loops),
        primitive,
        f"loop {loop.var.name!r} is not around block {block.name!r}",
    )
    require(
        len(blocks_below(loop)) == 1,
        primitive,
        f"loop {loop.var.name!r} holds other blocks than {block.name!r} as well",
    )
    position = next(i for i, item in enumerate(loops) if item is loop)
    moved = loops[position:]
    _require_fillable(block, moved, primitive)
    store = block.body.leaf if isinstance(block.body, LeafNode) else None
    require(
        isinstance(store, tir.BufferStore),
        primitive,
        f"the body of block {block.name!r} is not a single store",
    )
    assert isinstance(store, tir.BufferStore)
    require(store.predicate is None, primitive, f"block {block.name!r} stores under a predicate")
    call = store.value
    is_padding = isinstance(call, tir.Call) and getattr(call.op, "name", "") == "tir.if_then_else"
    require(
        is_padding, primitive, f"block {block.name!r} does not store if_then_else(inside, value, constant)"
    )
    assert isinstance(call, tir.Call)
    condition, inside, constant = call.args
    require(
        isinstance(constant, tir.IntImm | tir.FloatImm),
        primitive,
        f"block {block.name!r} pads with {constant}, which is no constant",
    )
    bounds = _inside_of(block, condition, primitive)
    units = {item.var: item.min for item in loops[:position] if is_constant(item.extent, 1)}
    block.change(iter_values=tuple(substitute(value, units) for value in block.iter_values))
    fill_nest, fill_block = _fill_nest(block, moved, store, constant)
    insert_beside(loop, fill_nest, before=True)
    values, predicate = [], block.predicate
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        first, count = bounds[item.var]
        own = next(
            (
                other
                for other in moved
                if other.var is value and constant_difference(other.extent, item.dom.extent) == 0
            ),
            None,
        )
        if own is not None and not _is_used_beside(own, item, block, moved, store):
            own.extent = tir.const(count, own.var.dtype)
            own.touch()
            values.append(value)
            continue
        values.append(simplify_polynomial(value - first))
        end = item.dom.extent.value  # type: ignore[attr-defined]
        conditions = ([tir.LE(tir.const(first, value.dtype), value)] if first else []) + (
            [value < first + count] if first + count < end else []
        )
        for guard in conditions:
            predicate = tir.operators.logical_and(predicate, guard)
    shift = {
        item.var: simplify_polynomial(item.var + bounds[item.var][0])
        for item in block.iter_vars
        if bounds[item.var][0]
    }
    analyzer = Analyzer()
    new_vars = []
    for item in block.iter_vars:
        dom = tir.Range.from_min_extent(
            tir.const(0, item.var.dtype), tir.const(bounds[item.var][1], item.var.dtype)
        )
        analyzer.bind(item.var, dom)
        new_vars.append(IterVar(dom, item.var, item.iter_type))
    body = substitute(tir.BufferStore(store.buffer, inside, store.indices), shift)
    assert isinstance(block.body, LeafNode)
    block.body.leaf = _simplified(body, analyzer)
    block.change(iter_vars=tuple(new_vars), iter_values=tuple(values), predicate=predicate)
    reads, writes = access_regions(block, None)
    block.change(reads=reads, writes=writes)
    return fill_block


def _require_fillable(block: BlockNode, loops: Sequence[LoopNode], primitive: str) -> None:
    """Constants are stored by loops of their own, ahead: only where the block stores as well, and once for each element."""
    outermost = loops[0]
    require(
        all(
            isinstance(node, LoopNode)
            for node in takewhile(lambda node: node is not outermost, nodes_around(block))
            if node is not block
        ),
        primitive,
        f"a condition or another statement lies between loop {outermost.var.name!r} and block {block.name!r}",
    )
    writes = written_buffers(block)
    for node, load in loads_around(block):
        require(
            not is_ancestor(outermost, node) or load.buffer not in writes,
            primitive,
            f"where block {block.name!r} runs depends on {load.buffer.name}, which it writes",
        )
    require_own_elements(block, loops, primitive)


def _is_used_beside(
    loop: LoopNode, item: IterVar, block: BlockNode, loops: Sequence[LoopNode], store: tir.BufferStore
) -> bool:
    """Whether a loop that feeds a variable says anything else, which would change if it ran over fewer values."""
    bound = zip(block.iter_vars, block.iter_values, strict=True)
    others = [value for other, value in bound if other is not item]
    ends = [end for other in loops for end in (other.min, other.extent)]
    return any(mentions(part, {loop.var}) for part in (*others, *ends, block.predicate, store))


def _simplified(stmt: Any, analyzer: Analyzer) -> Any:
    class Simplify(StmtExprMutator):
        """Indices under the ranges of the new variables; a variable stays itself even where it has one value only."""

        def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
            mapped = self.generic_visit(load)
            indices = [
                item if isinstance(item, tir.Var) else analyzer.simplify(item) for item in mapped.indices
            ]
            return tir.BufferLoad(mapped.buffer, indices, mapped.predicate)

    return Simplify().visit(stmt)


def _inside_of(block: BlockNode, condition: Any, primitive: str) -> dict[Any, tuple[int, int]]:
    """(first, count) of each variable's values for which a conjunction of bounds holds."""
    bounds: dict[Any, tuple[int, int]] = {}
    for item in block.iter_vars:
        require(
            isinstance(item.dom.extent, tir.IntImm)
            and isinstance(item.dom.min, tir.IntImm)
            and item.dom.min.value == 0,
            primitive,
            f"variable {item.var.name!r} of block {block.name!r} has no constant domain from 0",
        )
        assert isinstance(item.dom.extent, tir.IntImm)
        bounds[item.var] = (0, item.dom.extent.value)
    for part in conjuncts(condition):
        require(
            isinstance(part, tir.LT | tir.LE | tir.GT | tir.GE),
            primitive,
            f"the condition {part} of block {block.name!r} is no bound of a variable",
        )
        assert isinstance(part, tir.LT | tir.LE | tir.GT | tir.GE)
        lower, upper = (part.a, part.b) if isinstance(part, tir.LT | tir.LE) else (part.b, part.a)
        strict = isinstance(part, tir.LT | tir.GT)
        poly = polynomial(upper - lower)  # at least 1 when strict, else at least 0
        variables = [m for m in poly.terms if m]
        fits = (
            len(variables) == 1
            and len(variables[0]) == 1
            and variables[0][0] in bounds
            and abs(poly.terms[variables[0]]) == 1
        )
        require(fits, primitive, f"the condition {part} of block {block.name!r} is no bound of one variable")
        var, sign = variables[0][0], poly.terms[variables[0]]
        rest = poly.terms.get((), 0) - (1 if strict else 0)  # sign * var + rest >= 0
        first, count = bounds[var]
        last = first + count - 1
        if sign > 0:
            first = max(first, -rest)
        else:
            last = min(last, rest)
        require(last >= first, primitive, f"the condition {part} of block {block.name!r} never holds")
        bounds[var] = (first, last - first + 1)
    return bounds


def _fill_nest(
    block: BlockNode, loops: Sequence[LoopNode], store: tir.BufferStore, constant: Any
) -> tuple[TreeNode, BlockNode]:
    """Copies of the loops around a block that stores the constant everywhere."""
    loop_vars: dict[Any, Any] = {loop.var: tir.Var(loop.var.name, loop.var.dtype) for loop in loops}
    fresh: dict[Any, Any] = {item.var: tir.Var(item.var.name, item.var.dtype) for item in block.iter_vars}
    fill = BlockNode(
        f"{block.name}_pad_const",
        tuple(IterVar(item.dom, fresh[item.var], item.iter_type) for item in block.iter_vars),
        tuple(substitute(value, loop_vars) for value in block.iter_values),
        (),
        tuple(
            tir.BufferRegion(region.buffer, [substitute(item, fresh) for item in region.region])
            for region in block.writes
        ),
        LeafNode(
            tir.BufferStore(store.buffer, constant, [substitute(index, fresh) for index in store.indices])
        ),
        substitute(block.predicate, loop_vars),
    )
    node: TreeNode = fill
    for loop in reversed(list(loops)):
        low, extent = substitute(loop.min, loop_vars), substitute(loop.extent, loop_vars)
        node = LoopNode(
            loop_vars[loop.var], extent, node, loop.kind, low, loop.annotations, loop.thread_binding
        )
    return node, fill
