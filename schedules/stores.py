"""Where a block stores to a buffer, and where it hands the buffer's memory to a call that may write there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ir import tir
from ir.arith.deep_equal import expr_deep_equal
from ir.node import Visitor
from ir.tir.intrinsic.declaration import CallEffectKind, effect_of
from ir.tir.stmt_functor import substitute

from .tree import BlockNode, LeafNode, TreeNode, scope_of, walk

_WRITES = 2
"""The bit of an access mask that says that a pointer is written through."""


@dataclass(frozen=True)
class Store:
    """Where a statement of a block stores.

    Attributes:
        buffer: what it stores to.
        indices: where, in terms of the loops and of what :attr:`nodes` define; none of a call, which does not say.
        loops: those that run around it inside of its leaf. A vector ``Ramp(base, stride, lanes)`` counts as a loop over its lanes.
        is_conditional: whether it is under a condition in the block.
        nodes: those around its leaf up to the block, innermost first.
        stated_by: of a call the block that states what it fills.
    """

    buffer: tir.Buffer
    indices: tuple[tir.PrimExpr, ...]
    loops: tuple[tuple[tir.Var, tir.Range], ...]
    is_conditional: bool
    nodes: tuple[TreeNode, ...] = ()
    stated_by: BlockNode | None = None


def stores_in(block: BlockNode, buffer: tir.Buffer) -> list[Store]:
    """The stores in a block to a buffer or to views of it. Those that differ in constant indices only, and together fill a box of these,
    are one store with a loop over each of them: straight-line code is an unrolled loop.
    """
    found = [
        store for visitor, leaf in _visited(block, buffer) for store in _placed(visitor.found, leaf, block)
    ]
    return _rolled(found)


def calls_in(block: BlockNode, buffer: tir.Buffer) -> list[Store]:
    """The calls in a block that may write to a buffer, or to views of it, through a pointer."""
    return [
        store for visitor, leaf in _visited(block, buffer) for store in _placed(visitor.calls, leaf, block)
    ]


def is_harmless(node: TreeNode) -> bool:
    """Whether what is in a node runs whenever the node does."""
    template = getattr(node, "template", None)
    return template is None or not isinstance(template, tir.IfThenElse | tir.While)


def _rolled(stores: Sequence[Store]) -> list[Store]:
    """Stores, in place of which one stands that runs in loops over their constant indices, where such loops would reach the same places."""
    first = stores[0] if stores else None
    if first is None or len(stores) == 1:
        return list(stores)
    points = [_constants(store.indices) for store in stores]
    if any(point.keys() != points[0].keys() or not point for point in points) or not all(
        _alike(first, store) for store in stores[1:]
    ):
        return list(stores)
    values = {axis: {point[axis] for point in points} for axis in points[0]}
    spans = {axis: (min(found), max(found) - min(found) + 1) for axis, found in values.items()}
    if len({tuple(point.values()) for point in points}) < prod(span for _, span in spans.values()):
        return list(stores)
    loops, indices = list(first.loops), list(first.indices)
    for axis, (begin, span) in spans.items():
        dtype = indices[axis].dtype
        number = tir.Var("number", dtype)
        loops.append((number, tir.Range.from_min_extent(tir.const(0, dtype), tir.const(span, dtype))))
        indices[axis] = number + tir.const(begin, dtype)
    return [replace(first, indices=tuple(indices), loops=tuple(loops))]


def _constants(indices: Sequence[tir.PrimExpr]) -> dict[int, int]:
    """The constant ones of some indices by their position."""
    return {axis: index.value for axis, index in enumerate(indices) if isinstance(index, tir.IntImm)}


def _alike(one: Store, other: Store) -> bool:
    """Whether two stores differ in constant indices at most."""
    return (
        one.buffer is other.buffer
        and one.is_conditional == other.is_conditional
        and one.loops == other.loops
        and [id(node) for node in one.nodes] == [id(node) for node in other.nodes]
        and all(
            isinstance(a, tir.IntImm) or expr_deep_equal(a, b)
            for a, b in zip(one.indices, other.indices, strict=True)
        )
    )


def _visited(block: BlockNode, buffer: tir.Buffer) -> Iterator[tuple[_Stores, LeafNode]]:
    """The leaves of a block, with what they do to a buffer."""
    names = _names(block, buffer)
    for node in walk(block):
        if isinstance(node, LeafNode):
            visitor = _Stores(buffer, {name.data for name in names})
            visitor.visit(node.leaf)
            yield visitor, node


def _names(block: BlockNode, buffer: tir.Buffer) -> list[tir.Buffer]:
    """A buffer and its views that blocks around a block, and in it, define."""
    around: list[BlockNode] = []
    scope: BlockNode | None = block
    while scope is not None:
        around.insert(0, scope)
        scope = scope_of(scope)
    names = [buffer]
    for item in (*around, *(node for node in walk(block) if isinstance(node, BlockNode))):
        names += [view.buffer for view in item.match_buffers if view.source.buffer in names]
    return names


def _placed(found: Sequence[Store], leaf: LeafNode, block: BlockNode) -> list[Store]:
    """The stores of a leaf as those of a block around it."""
    nodes = tuple(_nodes_from(leaf, block))
    is_conditional = not all(map(is_harmless, nodes))
    return [
        replace(store, nodes=nodes, is_conditional=store.is_conditional or is_conditional) for store in found
    ]


def _nodes_from(leaf: LeafNode, block: BlockNode) -> Iterator[TreeNode]:
    """The nodes around a leaf up to a block."""
    node = leaf.parent
    while node is not None:
        yield node
        if node is block:
            return
        node = node.parent


class _Stores(Visitor):
    """The stores to buffers in a statement without blocks, and the calls that may write to them."""

    def __init__(self, buffer: tir.Buffer, memory: set[tir.Var]) -> None:
        super().__init__()
        self.found: list[Store] = []
        self.calls: list[Store] = []
        self._buffer, self._memory = buffer, memory
        self._loops: list[tuple[tir.Var, tir.Range]] = []
        self._lets: dict[Any, Any] = {}
        self._conditions = 0

    def visit_BufferStore(self, store: tir.BufferStore) -> None:
        if store.buffer.data in self._memory:
            is_conditional = bool(self._conditions) or store.predicate is not None
            running = list(self._loops)
            indices = tuple(_over_lanes(substitute(item, self._lets), running) for item in store.indices)
            self.found.append(Store(store.buffer, indices, tuple(running), is_conditional))
        for item in (*store.indices, store.value):
            self.visit(item)

    def visit_Call(self, call: tir.Call) -> None:
        if effect_of(call) >= CallEffectKind.UPDATE_STATE and any(
            _is_written_through(argument, self._memory) for argument in call.args
        ):
            self.calls.append(Store(self._buffer, (), tuple(self._loops), bool(self._conditions)))
        is_lazy = getattr(call.op, "name", None) == "tir.if_then_else"
        self._visit_parts(call, is_conditional=is_lazy)

    def visit_For(self, loop: tir.For) -> None:
        bounds = tir.Range.from_min_extent(loop.min, loop.extent)
        self._loops.append((loop.loop_var, substitute(bounds, self._lets)))
        self.visit(loop.body)
        self._loops.pop()

    def visit_LetStmt(self, let: tir.LetStmt) -> None:
        self.visit(let.value)
        self._lets[let.var] = substitute(let.value, self._lets)
        if _is_written_through(let.value, self._memory):
            self._memory.add(let.var)
        self.visit(let.body)

    def visit_IfThenElse(self, node: tir.IfThenElse) -> None:
        self._visit_parts(node, is_conditional=True)

    visit_While = visit_IfThenElse  # type: ignore[assignment]

    def visit_Select(self, node: tir.Select) -> None:
        self._visit_parts(node, is_conditional=True)

    visit_And = visit_Or = visit_Select  # type: ignore[assignment]

    def _visit_parts(self, node: Any, *, is_conditional: bool) -> None:
        self._conditions += is_conditional
        self.generic_visit(node)
        self._conditions -= is_conditional


def _is_written_through(pointer: Any, memory: set[tir.Var]) -> bool:
    """Whether an argument of a call lets it write to memory: a pointer, but for one that says that it is read only."""
    if isinstance(pointer, tir.Call):
        name = getattr(pointer.op, "name", None)
        if name == "tir.address_of":
            return any(
                isinstance(item, tir.BufferLoad) and item.buffer.data in memory for item in pointer.args
            )
        if name == "tir.tvm_access_ptr":
            mask = pointer.args[-1]
            if isinstance(mask, tir.IntImm) and not mask.value & _WRITES:
                return False
    if isinstance(pointer, tir.Var):
        return pointer in memory
    if isinstance(pointer, tir.BufferLoad):
        return False
    parts: list[Any] = []
    if isinstance(pointer, tir.PrimExpr):
        pointer._visit_children(parts.append)
    return any(_is_written_through(part, memory) for part in parts)


def _over_lanes(index: tir.PrimExpr, running: list[tuple[tir.Var, tir.Range]]) -> tir.PrimExpr:
    """An index of a vector as that of one element, with a loop over the lanes among those that run."""
    if not isinstance(index, tir.Ramp):
        return index
    dtype = index.base.dtype
    lane = tir.Var("lane", dtype)
    running.append((lane, tir.Range.from_min_extent(tir.const(0, dtype), tir.const(index.lanes, dtype))))
    return index.base + index.stride * lane
