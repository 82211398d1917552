"""Primitives that merge a block into its consumers (compute_inline) or its producer (reverse_compute_inline)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ir import tir
from ir.tir.functor import StmtExprMutator, substitute

from ..access import access_regions
from ..affine import polynomial, simplify_polynomial
from ..analysis import (
    consumers_of,
    is_output_block,
    producers_of,
    read_buffers,
    require,
    scope_children,
    why_not_complete,
    written_buffers,
)
from ..error import ScheduleError
from ..tree import BlockNode, LeafNode, detach, scope_of, walk


def _single_store(block: BlockNode, primitive: str) -> tir.BufferStore:
    require(
        isinstance(block.body, LeafNode) and isinstance(block.body.leaf, tir.BufferStore) and block.init is None,
        primitive,
        f"the body of block {block.name!r} is not a single store",
    )
    return block.body.leaf  # type: ignore[attr-defined,no-any-return]


class _InlineLoads(StmtExprMutator):
    """Replaces loads of a buffer by the expression that its producer stored, with the producer's variables solved."""

    def __init__(self, store: tir.BufferStore) -> None:
        super().__init__()
        self._store = store

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        if load.buffer is not self._store.buffer:
            return mapped
        values = {}
        for var, index in zip(self._store.indices, mapped.indices, strict=True):
            if isinstance(var, tir.Var):
                values[var] = index
        return _SimplifyIndices().visit(substitute(self._store.value, values))


class _SimplifyIndices(StmtExprMutator):
    """Collects like terms in the indices that a substitution made."""

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        indices = tuple(simplify_polynomial(index) for index in mapped.indices)
        return tir.BufferLoad(mapped.buffer, indices, mapped.predicate)


def compute_inline(block: BlockNode) -> None:
    """Put the block's expression in place of every load of its result, and remove the block."""
    store = _single_store(block, "compute_inline")
    reason = why_not_complete(block)
    require(reason is None, "compute_inline", f"block {block.name!r} is not complete: {reason}")
    require(
        not is_output_block(block), "compute_inline", f"block {block.name!r} writes an output of the function"
    )
    _require_plain_indices(block, store)
    consumers = consumers_of(block)
    require(consumers, "compute_inline", f"block {block.name!r} has no consumer to be inlined into")
    require(
        not any(store.buffer in written_buffers(item) for item in consumers),
        "compute_inline",
        f"a consumer of block {block.name!r} writes its buffer too",
    )
    inliner = _InlineLoads(store)
    scope = scope_of(block)
    assert scope is not None
    for consumer in consumers:
        _rewrite_body(consumer, inliner)
    detach(block)
    _drop_buffer(scope, store.buffer)


def _require_plain_indices(block: BlockNode, store: tir.BufferStore) -> None:
    """The stored indices must be distinct block variables (constants where the dimension has extent 1)."""
    seen = set()
    for index, dim in zip(store.indices, store.buffer.shape, strict=True):
        if isinstance(index, tir.IntImm) and isinstance(dim, tir.IntImm) and dim.value == 1:
            continue
        require(
            isinstance(index, tir.Var) and index not in seen,
            "compute_inline",
            f"block {block.name!r} stores at index {index}; inlining needs distinct iteration variables",
        )
        seen.add(index)
    needed = {item.var for item in block.iter_vars} - seen
    used: set[Any] = set()
    tir.post_order_visit(store.value, lambda node: used.add(node) if isinstance(node, tir.Var) else None)
    unsolved = [var for var in needed if var in used and not _is_unit(block, var)]
    require(
        not unsolved, "compute_inline", f"variable {unsolved[0].name if unsolved else ''} of block {block.name!r} is not an index of its result"
    )


def _is_unit(block: BlockNode, var: tir.Var) -> bool:
    extent = next(item.dom.extent for item in block.iter_vars if item.var is var)
    return isinstance(extent, tir.IntImm) and extent.value == 1


def _rewrite_body(block: BlockNode, mutator: StmtExprMutator) -> None:
    """Rewrite the leaves in a block (and blocks inside it), and recompute what they read and write."""
    for node in list(walk(block)):
        if isinstance(node, LeafNode):
            leaf = mutator.visit(node.leaf)
            if leaf is not node.leaf:
                node.leaf = leaf
                node.touch()
    for node in reversed(list(walk(block))):
        if isinstance(node, BlockNode):
            init = None if node.init is None else mutator.visit(node.init)
            reads, writes = access_regions(node, init)
            node.change(init=init, reads=reads, writes=writes)


def _drop_buffer(scope: BlockNode, buffer: tir.Buffer) -> None:
    scope.change(alloc_buffers=tuple(item for item in scope.alloc_buffers if item is not buffer))


def reverse_compute_inline(block: BlockNode) -> None:
    """Put the block's expression around the value that its only producer stores, and remove the block."""
    store = _single_store(block, "reverse_compute_inline")
    reason = why_not_complete(block)
    require(reason is None, "reverse_compute_inline", f"block {block.name!r} is not complete: {reason}")
    producers = producers_of(block)
    require(
        len(producers) == 1,
        "reverse_compute_inline",
        f"block {block.name!r} has {len(producers)} producers; it needs exactly one",
    )
    producer = producers[0]
    reason = why_not_complete(producer)
    require(reason is None, "reverse_compute_inline", f"producer {producer.name!r} is not complete: {reason}")
    source = _single_store(producer, "reverse_compute_inline")
    require(
        not is_output_block(producer), "reverse_compute_inline", f"producer {producer.name!r} writes an output of the function"
    )
    others = [
        item
        for item in scope_children(block)
        if item is not block and source.buffer in read_buffers(item)
    ]
    require(
        not others, "reverse_compute_inline", f"{others[0].name if others else ''!r} reads the producer's buffer as well"
    )
    require(
        isinstance(block.predicate, tir.IntImm) and block.predicate.value == 1,
        "reverse_compute_inline",
        f"block {block.name!r} has a predicate",
    )
    values = _solve_consumer(block, store, source)
    body = substitute(_ReplaceLoads(source).visit(store), values)
    body = _SimplifyIndices().visit(body)
    indices = tuple(simplify_polynomial(index) for index in body.indices)
    producer_leaf = producer.body
    assert isinstance(producer_leaf, LeafNode)
    producer_leaf.leaf = tir.BufferStore(body.buffer, body.value, indices)
    producer_leaf.touch()
    scope = scope_of(block)
    assert scope is not None
    reads, writes = access_regions(producer, None)
    producer.change(reads=reads, writes=writes)
    detach(block)
    _drop_buffer(scope, source.buffer)


class _ReplaceLoads(StmtExprMutator):
    """Every load of the producer's buffer is the value that it stored."""

    def __init__(self, source: tir.BufferStore) -> None:
        super().__init__()
        self._source = source

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        return self._source.value if load.buffer is self._source.buffer else self.generic_visit(load)


def _solve_consumer(
    block: BlockNode, store: tir.BufferStore, source: tir.BufferStore
) -> Mapping[Any, Any]:
    """The consumer's variables in terms of the producer's, from the index at which it reads."""
    loads: list[tir.BufferLoad] = []
    tir.post_order_visit(
        store.value,
        lambda node: loads.append(node) if isinstance(node, tir.BufferLoad) and node.buffer is source.buffer else None,
    )
    require(loads, "reverse_compute_inline", f"block {block.name!r} does not read the producer's buffer")
    values: dict[Any, Any] = {}
    for load in loads:
        for read, written in zip(load.indices, source.indices, strict=True):
            if isinstance(read, tir.Var):
                if read in values and polynomial(values[read] - written).constant() != 0:
                    raise ScheduleError(f"reverse_compute_inline: {read.name} is read at two different indices")
                values[read] = written
            elif not (isinstance(read, tir.IntImm) and isinstance(written, tir.IntImm) and read.value == written.value):
                raise ScheduleError(
                    f"reverse_compute_inline: block {block.name!r} reads {source.buffer.name} at {read},"
                    " which is not an iteration variable"
                )
    for item in block.iter_vars:
        if item.var not in values:
            require(
                _is_unit(block, item.var),
                "reverse_compute_inline",
                f"variable {item.var.name!r} of block {block.name!r} is not determined by what it reads",
            )
            values[item.var] = item.dom.min
    return values

