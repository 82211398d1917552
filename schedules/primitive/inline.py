"""Primitives that merge a block into its consumers (compute_inline) or its producer (reverse_compute_inline)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.arith import detect_iter_map, inverse_affine_iter_map
from ir.tir.operators import index_number
from ir.tir.stmt_functor import StmtExprMutator, loads_in, substitute, variables_in

from ..access import access_regions
from ..affine import constant_difference, mentions, polynomial, simplify_polynomial, widened
from ..analysis import (
    consumers_of,
    is_output_block,
    producers_of,
    read_buffers,
    require,
    require_blocks_only,
    scope_children,
    why_not_complete,
    written_buffers,
)
from ..argument import Block
from ..bounds import analyzer_of
from ..coverage import why_not_over_all_values
from ..declaration import PrimitiveFamily, primitive
from ..dependence import writes_one_value
from ..effects import require_no_effects_of_indices
from ..error import ScheduleError
from ..order import require_order_kept
from ..random_variable import BlockRV
from ..region import lies_inside
from ..rewriting import rewrite_inside
from ..surroundings import loads_around, why_not_only_loops
from ..tree import BlockNode, LeafNode, TreeNode, detach, loops_around, scope_of, tree_of, walk


def _single_store(block: BlockNode, primitive: str) -> tir.BufferStore:
    require(
        isinstance(block.body, LeafNode)
        and isinstance(block.body.leaf, tir.BufferStore)
        and block.init is None,
        primitive,
        f"the body of block {block.name!r} is not a single store",
    )
    return block.body.leaf  # type: ignore[attr-defined,no-any-return]


class _Substitution(StmtExprMutator):
    """Puts what a producer stored in place of the loads of its buffer, as data.

    What a buffer holds wraps, index arithmetic does not (rules ``[data-wrap]`` and ``[index-atom]`` of ``docs/semantics.md``): a value
    that may wrap is marked by a cast there and back wherever it would become index arithmetic.
    """

    def __init__(self, store: tir.BufferStore, producer: BlockNode) -> None:
        super().__init__()
        self._store = store
        analyzer = analyzer_of(variables=producer.iter_vars)
        loaded = tir.BufferLoad(store.buffer, store.indices)
        self._wraps = analyzer.changes_meaning(loaded, store.value)
        self._wraps_as_index = self._wraps or (
            dt.is_index(store.value.dtype) and not analyzer.is_exact(store.value)
        )
        self._is_index = False

    def value_at(self, indices: tuple[tir.PrimExpr, ...]) -> tir.PrimExpr:
        """What the producer stored at some indices."""
        return self._store.value

    def rewritten(self, node: Any) -> Any:
        """A statement, a condition, or the bounds and bindings of loops and blocks, which are index arithmetic."""
        self._is_index = isinstance(node, tir.PrimExpr) and node.dtype != "bool"
        found = self.visit(node)
        self._is_index = False
        return found

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        indices = self._indices(load)
        if load.buffer is not self._store.buffer:
            predicate = None if load.predicate is None else self.visit(load.predicate)
            return load.replace(indices=indices, predicate=predicate)
        value = self.value_at(indices)
        return _as_data(value) if (self._wraps_as_index if self._is_index else self._wraps) else value

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        predicate = None if store.predicate is None else self.visit(store.predicate)
        return store.replace(value=self.visit(store.value), indices=self._indices(store), predicate=predicate)

    def _indices(self, access: tir.BufferLoad | tir.BufferStore) -> tuple[tir.PrimExpr, ...]:
        outside, self._is_index = self._is_index, True
        with self.forgetting():  # what stands as data, too, is no index there
            found = tuple(self.visit(item) for item in access.indices)
        self._is_index = outside
        return found


def _as_data(value: tir.PrimExpr) -> tir.PrimExpr:
    other = "uint8" if value.dtype == "bool" else f"u{value.dtype}"
    return tir.Cast(value.dtype, tir.Cast(other, value))


class _InlineLoads(_Substitution):
    """Replaces loads of a buffer by the expression that its producer stored, with the producer's variables solved."""

    def __init__(self, store: tir.BufferStore, block: BlockNode) -> None:
        super().__init__(store, block)
        self._units = {item.var: item.dom.min for item in block.iter_vars if _is_unit(block, item.var)}

    def value_at(self, indices: tuple[tir.PrimExpr, ...]) -> tir.PrimExpr:
        values = dict(self._units)  # of variables that no index has
        for stored, index in zip(self._store.indices, indices, strict=True):
            if isinstance(var := widened(stored), tir.Var):
                values[var] = tir.cast(var.dtype, index_number(index))
        found: tir.PrimExpr = _SimplifyIndices().visit(substitute(self._store.value, values))
        return found


class _SimplifyIndices(StmtExprMutator):
    """Collects like terms in the indices that a substitution made."""

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        indices = tuple(simplify_polynomial(index) for index in mapped.indices)
        return mapped.replace(indices=indices)


class InlinePrimitives(PrimitiveFamily):
    """Blocks inside of others."""

    @primitive("ComputeInline", moves=True, block=Block())
    def compute_inline(self, block: BlockRV | str) -> None:
        """Replace every load of the block's result by its expression, and remove the block.

        ``B[i] = A[i] + 1; C[i] = B[i] * 2`` becomes ``C[i] = (A[i] + 1) * 2``.

        Raises:
            ScheduleError: the block is not one complete store to an intermediate, or what it reads is overwritten before a consumer.
        """
        inline_into_consumers(self._block(block))

    @primitive("ReverseComputeInline", moves=True, block=Block())
    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Merge a block into its only producer, around the value that that stores.

        ``B[i] = A[i] + 1; C[i] = B[i] * 2`` becomes ``C[i] = (A[i] + 1) * 2``.

        Raises:
            ScheduleError: there is not one complete producer of single elements, its buffer is an output or read by others, or several
                instances of the block store to one element.
        """
        inline_into_producer(self._block(block))


def inline_into_consumers(block: BlockNode) -> None:
    """Put the block's expression in place of every load of its result, and remove the block."""
    primitive = "compute_inline"
    store, scope = _inlinable(block, primitive)
    consumers = consumers_of(block)
    require(consumers, primitive, f"block {block.name!r} has no consumer to be inlined into")
    for item in consumers:
        require(
            store.buffer not in written_buffers(item),
            primitive,
            f"consumer {item.name!r} of block {block.name!r} writes its buffer {store.buffer.name} too",
        )
    _require_plain_loads(consumers, store.buffer, primitive)
    require_no_effects_of_indices(consumers, store.buffer, primitive)
    for item in consumers:
        require_order_kept(block, item, primitive)
    inliner = _InlineLoads(store, block)
    for consumer in consumers:
        _rewrite_body(consumer, inliner, store.buffer)
    detach(block)
    _drop_buffer(scope, store.buffer)


def why_not_inlinable(block: BlockNode) -> str | None:
    """The reason why ``compute_inline`` would refuse a block, or None."""
    try:
        store, _ = _inlinable(block, "compute_inline")
        consumers = consumers_of(block)
        require(consumers, "compute_inline", f"block {block.name!r} has no consumer to be inlined into")
        _require_plain_loads(consumers, store.buffer, "compute_inline")
    except ScheduleError as error:
        return str(error)
    return None


def _inlinable(block: BlockNode, primitive: str) -> tuple[tir.BufferStore, BlockNode]:
    """The only store of a block that may be inlined, and its scope."""
    scope = scope_of(block)
    require(scope is not None, primitive, f"block {block.name!r} is a root block")
    assert scope is not None
    store = _single_store(block, primitive)
    require_blocks_only(block, primitive)
    reason = why_not_complete(block)
    require(reason is None, primitive, f"block {block.name!r} is not complete: {reason}")
    require(
        not is_output_block(block),
        primitive,
        f"block {block.name!r} writes {store.buffer.name}, which is an output of the function or of the scope around it",
    )
    _require_own_variables(block, store, primitive)
    _require_plain_indices(block, store)
    return store, scope


def _require_own_variables(block: BlockNode, store: tir.BufferStore, primitive: str) -> None:
    """A block that uses the loops around it directly cannot leave them."""
    used = [
        loop.var.name
        for loop in loops_around(block)
        if any(mentions(part, {loop.var}) for part in (store.value, *store.indices))
    ]
    require(
        not used,
        primitive,
        f"block {block.name!r} uses loop {used[0] if used else ''!r} beside its own variables; it cannot leave it",
    )


def _require_plain_loads(blocks: list[BlockNode], buffer: tir.Buffer, primitive: str) -> None:
    """The buffer may be used by loads of single elements only: no pointers to it, no views of it, no loads of some lanes."""

    def visit(node: Any) -> bool:
        if node is buffer.data:
            raise ScheduleError(
                f"{primitive}: block {name!r} uses buffer {buffer.name} by its pointer, not by loads"
            )
        if isinstance(node, tir.Call) and getattr(node.op, "name", "") == "tir.address_of":
            loads = [item for item in node.args if isinstance(item, tir.BufferLoad) and item.buffer is buffer]
            require(
                not loads,
                primitive,
                f"block {name!r} takes the address of an element of buffer {buffer.name}",
            )
        if isinstance(node, tir.BufferLoad) and node.buffer is buffer:
            require(
                node.predicate is None,
                primitive,
                f"block {name!r} loads lanes of buffer {buffer.name} under a condition",
            )
        return not isinstance(node, tir.Buffer)

    for block in blocks:
        name = block.name
        for node in walk(block):
            if isinstance(node, LeafNode):
                tir.pre_order_visit(node.leaf, visit)
            elif isinstance(node, BlockNode):
                for match in node.match_buffers:
                    require(
                        match.source.buffer is not buffer,
                        primitive,
                        f"block {node.name!r} has a view of buffer {buffer.name}",
                    )


def _require_plain_indices(block: BlockNode, store: tir.BufferStore) -> None:
    """The stored indices must be distinct block variables (constants where the dimension has extent 1)."""
    seen = set()
    for stored, dim in zip(store.indices, store.buffer.shape, strict=True):
        index = widened(stored)
        if isinstance(index, tir.IntImm) and isinstance(dim, tir.IntImm) and dim.value == 1:
            continue
        require(
            isinstance(index, tir.Var) and index not in seen,
            "compute_inline",
            f"block {block.name!r} stores at index {stored}; inlining needs distinct iteration variables",
        )
        seen.add(index)
    for var in sorted(
        {item.var for item in block.iter_vars}.intersection(variables_in(store.value)) - seen,
        key=lambda item: item.name,
    ):
        require(
            _is_unit(block, var),
            "compute_inline",
            f"variable {var.name} of block {block.name!r} is not an index of its result",
        )


def _is_unit(block: BlockNode, var: tir.Var) -> bool:
    extent = next(item.dom.extent for item in block.iter_vars if item.var is var)
    return isinstance(extent, tir.IntImm) and extent.value == 1


def _rewrite_body(block: BlockNode, substitution: _Substitution, inlined: tir.Buffer) -> None:
    """Rewrite all that is evaluated in a block (and blocks inside it), and recompute what they read.

    What they state besides stays: pointers, and other names of a buffer, lead to more than is seen.
    """
    rewrite_inside(block, substitution.rewritten, region=lambda region: region)
    _state_reads(block, inlined)


def _state_reads(top: TreeNode, inlined: tir.Buffer) -> None:
    """Recompute what blocks in a tree read, inner ones first."""
    for node in reversed(list(walk(top))):
        if not isinstance(node, BlockNode):
            continue
        if node.init is not None:
            init = tree_of(node.init)
            _state_reads(init, inlined)
            node.change(init=init.stmt())
        reads, writes = access_regions(node, node.init)
        seen = {region.buffer for region in reads}
        beyond = [
            region
            for region in node.reads
            if region.buffer not in seen and region.buffer is not inlined and not _loads_of(inlined, [region])
        ]
        kept = node.writes if not _loads_of(inlined, node.writes) else writes
        node.change(reads=(*reads, *beyond), writes=kept)


def _loads_of(buffer: tir.Buffer, regions: Sequence[tir.BufferRegion]) -> bool:
    """Whether the ends of regions are read from a buffer."""
    return any(
        load.buffer is buffer
        for region in regions
        for item in region.region
        for end in (item.min, item.extent)
        for load in loads_in(end)
    )


def _drop_buffer(scope: BlockNode, buffer: tir.Buffer) -> None:
    scope.change(alloc_buffers=tuple(item for item in scope.alloc_buffers if item is not buffer))


def inline_into_producer(block: BlockNode) -> None:
    """Put the block's expression around the value that its only producer stores, and remove the block."""
    primitive = "reverse_compute_inline"
    scope = scope_of(block)
    require(scope is not None, primitive, f"block {block.name!r} is a root block")
    assert scope is not None
    store = _single_store(block, primitive)
    require_blocks_only(block, primitive)
    reason = why_not_complete(block)
    require(reason is None, primitive, f"block {block.name!r} is not complete: {reason}")
    _require_own_variables(block, store, primitive)
    producers = producers_of(block)
    require(
        len(producers) == 1,
        primitive,
        f"block {block.name!r} has {len(producers)} producers; it needs exactly one",
    )
    (producer,) = producers
    reason = why_not_complete(producer)
    require(reason is None, primitive, f"producer {producer.name!r} is not complete: {reason}")
    source = _single_store(producer, primitive)
    for item in (store, source):
        require(
            dt.lanes(item.value.dtype) == 1,
            primitive,
            f"block {block.name!r} and its producer {producer.name!r} must store single elements, not vectors of {item.buffer.name}",
        )
    reason = why_not_only_loops(producer)
    require(reason is None, primitive, f"{reason}")
    require(
        not is_output_block(producer),
        primitive,
        f"producer {producer.name!r} writes {source.buffer.name}, which is an output of the function or of the scope around it",
    )
    others = [
        item
        for item in scope_children(block)
        if item is not block
        and source.buffer in read_buffers(item) | {around.load.buffer for around in loads_around(item)}
    ]
    require(
        not others, primitive, f"{others[0].name if others else ''!r} reads the producer's buffer as well"
    )
    _require_plain_loads([block], source.buffer, primitive)
    require(
        writes_one_value(block),
        primitive,
        f"several instances of block {block.name!r} may store to one element of {store.buffer.name}; which of them is the last would be"
        f" said by the loops of producer {producer.name!r}",
    )
    require_order_kept(block, producer, primitive, but=producer)
    require_no_effects_of_indices([producer], source.buffer, primitive)
    reason = why_not_over_all_values(block, block.iter_vars)
    require(reason is None, primitive, f"{reason}, but its producer would store all of them")
    values = _solve_consumer(block, store, source)
    _require_own_reads(producer, substitute(store, values), primitive)
    guard = _consumer_guard(block, producer, source, values)
    body = substitute(_Substitution(source, producer).visit(store), values)
    simplify = _Simplifier(producer)
    body = simplify.visit(body)
    stored = tir.BufferStore(body.buffer, body.value, tuple(simplify.index(index) for index in body.indices))
    leaf: tir.Stmt = stored if guard is None else tir.IfThenElse(guard, stored)
    producer_leaf = producer.body
    assert isinstance(producer_leaf, LeafNode)
    producer_leaf.leaf = leaf
    producer_leaf.touch()
    reads, writes = access_regions(producer, None)
    producer.change(reads=reads, writes=writes)
    detach(block)
    _drop_buffer(scope, source.buffer)


def _require_own_reads(producer: BlockNode, store: tir.BufferStore, primitive: str) -> None:
    """A producer that reads what will be stored along with it may read the very element only: others would be new too early."""

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad) and node.buffer is store.buffer:
            for read, written in zip(node.indices, store.indices, strict=True):
                require(
                    constant_difference(read, written) == 0,
                    primitive,
                    f"producer {producer.name!r} reads {store.buffer.name} at {read}, of which elements would be overwritten too early",
                )

    if store.buffer in read_buffers(producer):
        require(
            writes_one_value(producer),
            primitive,
            f"producer {producer.name!r} reads {store.buffer.name} more than once for one element",
        )
        assert isinstance(producer.body, LeafNode)
        tir.post_order_visit(producer.body.leaf, visit)


class _Simplifier(StmtExprMutator):
    """Simplifies indices and conditions under the ranges of a block's variables."""

    def __init__(self, block: BlockNode) -> None:
        super().__init__()
        self._analyzer = analyzer_of(variables=block.iter_vars)

    def index(self, index: tir.PrimExpr) -> tir.PrimExpr:
        """An index in simplest form."""
        poly = polynomial(index)
        return poly.to_expr() if poly.is_polynomial() else self._analyzer.simplify(index)

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        return tir.BufferLoad(
            mapped.buffer, tuple(self.index(item) for item in mapped.indices), mapped.predicate
        )


def _solve_consumer(block: BlockNode, store: tir.BufferStore, source: tir.BufferStore) -> Mapping[Any, Any]:
    """The consumer's variables in terms of the indices at which the producer stores, from the index at which it reads."""
    loads = [load for load in loads_in(store.value) if load.buffer is source.buffer]
    require(loads, "reverse_compute_inline", f"block {block.name!r} does not read the producer's buffer")
    for load in loads[1:]:
        for first, index in zip(loads[0].indices, load.indices, strict=True):
            require(
                constant_difference(first, index) == 0,
                "reverse_compute_inline",
                f"block {block.name!r} reads {source.buffer.name} at different indices, {first} and {index}",
            )
    load = loads[0]
    domains = {item.var: item.dom for item in block.iter_vars}
    for index, dim in zip(load.indices, source.buffer.shape, strict=True):
        require(
            lies_inside(tir.Range.from_min_extent(index, 1), domains, dim),
            "reverse_compute_inline",
            f"block {block.name!r} reads {source.buffer.name} at {index}, which is beside it for some iterations: nothing is"
            " produced that they could go along with",
        )
    values: dict[Any, Any] = {}
    if all(isinstance(read, tir.Var | tir.IntImm) for read in load.indices):
        for read, written in zip(load.indices, source.indices, strict=True):
            if isinstance(read, tir.Var):
                require(
                    read not in values,
                    "reverse_compute_inline",
                    f"block {block.name!r} reads {source.buffer.name} with {read.name} in two dimensions",
                )
                values[read] = written
    else:
        values = _solve_affine(block, load, source)
    for item in block.iter_vars:
        if item.var not in values:
            require(
                _is_unit(block, item.var),
                "reverse_compute_inline",
                f"variable {item.var.name!r} of block {block.name!r} is not determined by what it reads",
            )
            values[item.var] = item.dom.min
    return values


def _solve_affine(block: BlockNode, load: tir.BufferLoad, source: tir.BufferStore) -> dict[Any, Any]:
    """Invert a bijective affine read such as ``B[(v0 * 8 + v1) // 16, (v0 * 8 + v1) % 16]``."""
    ranges = {
        item.var: item.dom
        for item in block.iter_vars
        if any(mentions(index, {item.var}) for index in load.indices)
    }
    found = detect_iter_map(list(load.indices), ranges, True, "bijective")
    require(
        found.indices,
        "reverse_compute_inline",
        f"block {block.name!r} reads {source.buffer.name} at {', '.join(map(str, load.indices))}, which is no bijective affine"
        " map of its iteration variables",
    )
    return dict(inverse_affine_iter_map(found.indices, list(source.indices)))


def _consumer_guard(
    block: BlockNode, producer: BlockNode, source: tir.BufferStore, values: Mapping[Any, Any]
) -> tir.PrimExpr | None:
    """The condition under which the consumer uses a produced element, or None when it uses all."""
    analyzer = analyzer_of(loops_around(producer), variables=producer.iter_vars)
    # What the producer's own predicate says of its variables holds where it stores.
    inverse = {
        value: item.var
        for item, value in zip(producer.iter_vars, producer.iter_values, strict=True)
        if isinstance(value, tir.Var)
    }
    known = substitute(producer.predicate, inverse)
    conditions: list[Any] = []
    for item in block.iter_vars:
        value = values[item.var]
        conditions += [value >= item.dom.min, value < item.dom.min + item.dom.extent]
    store = _single_store(block, "reverse_compute_inline")
    loads = [load for load in loads_in(store.value) if load.buffer is source.buffer]
    if not _reads_each_element(block, loads[0]):
        for read, written in zip(loads[0].indices, source.indices, strict=True):
            wanted = substitute(read, values)
            if constant_difference(wanted, written) != 0:
                conditions.append(index_number(wanted).equal(index_number(written)))
    conditions += _predicate_over_variables(block, values)
    guard: tir.PrimExpr | None = None
    with analyzer.constraint_scope(known):
        for condition in conditions:
            if not analyzer.can_prove(condition):
                condition = analyzer.simplify(condition)
                guard = condition if guard is None else tir.operators.logical_and(guard, condition)
    return guard


def _reads_each_element(block: BlockNode, load: tir.BufferLoad) -> bool:
    """Whether as many elements are read as there are: an injective read then has an inverse everywhere.

    A strided one does not: ``B[v * 2]`` is read for every second element, and the others belong to no iteration.
    """
    counts = []
    for sizes in ([item.dom.extent for item in block.iter_vars], load.buffer.shape):
        numbers = [int(size.value) for size in sizes if isinstance(size, tir.IntImm)]
        if len(numbers) != len(sizes):
            return False
        counts.append(math.prod(numbers))
    return counts[0] == counts[1]


def _predicate_over_variables(block: BlockNode, values: Mapping[Any, Any]) -> list[tir.PrimExpr]:
    """The consumer's predicate in terms of the producer: possible where bindings are plain loops."""
    if block.is_unconditional:
        return []
    loops: dict[Any, Any] = {}
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if isinstance(value, tir.Var):
            loops[value] = values[item.var]
    free = {loop.var for loop in loops_around(block)} - set(loops)
    require(
        not mentions(block.predicate, free),
        "reverse_compute_inline",
        f"the predicate of block {block.name!r} uses loops that are no iteration variable by themselves",
    )
    return [substitute(block.predicate, loops)]
