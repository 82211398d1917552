"""What transform_layout does about the elements of a new layout that no old one maps to.

Blocks that compute the buffer element by element run over the new layout and choose between their value and the padding; behind
other writers a block of its own stores the padding; of an input the padding is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ir import tir
from ir.tir import ForKind, IndexMap, IterVar
from ir.tir.stmt_functor import StmtExprMutator

from ..affine import constant_difference, mentions
from ..analysis import require, written_buffers
from ..dependence import why_order_matters
from ..error import ScheduleError
from ..private_memory import loop_of_own_memory
from ..region import point_region
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    SeqNode,
    TreeNode,
    all_blocks,
    insert_beside,
    loops_around,
    replace_node,
    scope_of,
)

_PRIMITIVE = "transform_layout"


class Padding:
    """The padding of a buffer's new layout.

    Args:
        buffer: the buffer in its new layout.
        index_map: from old to new indices; its names become those of loops and variables.
        inverse: from new to old indices.
        condition: over the initial indices of ``inverse``, true where an element is padding.
        pad_value: a number, an expression, or an IndexMap from new indices to the value.

    Raises:
        ScheduleError: the value has another dtype than the buffer, or is read from another buffer.
    """

    def __init__(
        self,
        buffer: tir.Buffer,
        index_map: IndexMap,
        inverse: IndexMap,
        condition: tir.PrimExpr,
        pad_value: Any,
    ) -> None:
        self.buffer = buffer
        self.names = [
            item.name if isinstance(item, tir.Var) else f"axis{n}"
            for n, item in enumerate(index_map.final_indices)
        ]
        self._inverse = inverse
        self._condition = _LastValue(dict(zip(inverse.initial_indices, buffer.shape, strict=True))).visit(
            condition
        )
        self._pad_value = _typed(pad_value, buffer)

    def variables(self, prefix: str = "") -> list[tir.Var]:
        """Fresh variables for the new indices."""
        return [
            tir.Var(f"{prefix}{name}", dim.dtype)
            for name, dim in zip(self.names, self.buffer.shape, strict=True)
        ]

    def condition(self, point: Sequence[Any]) -> Any:
        """Whether the element at ``point`` is padding."""
        (found,) = IndexMap(self._inverse.initial_indices, [self._condition]).substituted(point)
        return found

    def value(self, point: Sequence[Any]) -> Any:
        """The padding at ``point``."""
        if isinstance(self._pad_value, IndexMap):
            return self._pad_value.map_indices(list(point))[0]
        return self._pad_value

    def old_indices(self, point: Sequence[Any]) -> list[Any]:
        """Where the element at ``point`` was in the old layout."""
        return self._inverse.substituted(point)


class _LastValue(StmtExprMutator):
    """``c <= v`` becomes ``v == c`` where c is the last value of v."""

    def __init__(self, extents: dict[Any, Any]) -> None:
        super().__init__()
        self._extents = extents

    def visit_LE(self, node: tir.LE) -> Any:
        extent = self._extents.get(node.b)
        if extent is not None and constant_difference(extent, node.a) == 1:
            return tir.EQ(node.b, node.a)
        return node


def _typed(pad_value: Any, buffer: tir.Buffer) -> Any:
    """The pad value in the buffer's dtype; Python numbers take it where they are of its kind."""
    floating = buffer.dtype.startswith(("float", "bfloat"))
    if isinstance(pad_value, bool | int | float) and isinstance(pad_value, float) == floating:
        return tir.const(pad_value, buffer.dtype)
    value = pad_value.final_indices[0] if isinstance(pad_value, IndexMap) else tir.convert(pad_value)
    require(
        value.dtype == buffer.dtype,
        _PRIMITIVE,
        f"pad_value has dtype {value.dtype}, buffer {buffer.name} has {buffer.dtype}",
    )

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad) and node.buffer.name != buffer.name:
            raise ScheduleError(
                f"{_PRIMITIVE}: pad_value reads buffer {node.buffer.name}; it may depend on {buffer.name} and the indices only"
            )

    tir.post_order_visit(value, visit)
    return pad_value if isinstance(pad_value, IndexMap) else value


# ---- blocks that compute the buffer element by element ------------------------------------------------------------


def element_loops(block: BlockNode, buffer: tir.Buffer) -> list[LoopNode] | None:
    """The nested loops of a block that stores each element of a buffer, and nothing else, at its own iteration, in whatever order these
    come; or None.
    """
    if [region.buffer for region in block.writes] != [buffer] or not isinstance(block.body, LeafNode):
        return None
    stores: list[tir.BufferStore] = []
    for stmt in (block.init, block.body.leaf):
        if stmt is None:
            continue
        if not isinstance(stmt, tir.BufferStore) or stmt.predicate is not None:
            return None
        stores.append(stmt)
    indices = stores[-1].indices
    variables: dict[Any, tuple[IterVar, Any]] = {
        item.var: (item, value) for item, value in zip(block.iter_vars, block.iter_values, strict=True)
    }
    around = {loop.var: loop for loop in loops_around(block)}
    if any(a is not b for store in stores for a, b in zip(store.indices, indices, strict=True)):
        return None
    if not block.is_unconditional or len(set(indices)) != len(indices):
        return None
    loops: list[LoopNode] = []
    for index, dim in zip(indices, buffer.shape, strict=True):
        if index not in variables:
            return None
        item, value = variables[index]
        loop = around.get(value)
        if (
            loop is None
            or item.iter_type != IterVar.DataPar
            or loop.kind != ForKind.SERIAL
            or loop.annotations
            or constant_difference(loop.min, 0) != 0
            or constant_difference(loop.extent, dim) != 0
        ):
            return None
        loops.append(loop)
    others = [value for var, (_, value) in variables.items() if var not in set(indices)]
    replaced = {loop.var for loop in loops}
    if any(mentions(value, replaced) for value in others):
        return None
    inside = [loop for loop in around.values() if loop.var not in replaced]
    if any(mentions(loop.extent, replaced) or mentions(loop.min, replaced) for loop in inside):
        return None
    alone = all(isinstance(loop.body, LoopNode | BlockNode) for loop in around.values())
    if not alone or any(outer.body is not inner for outer, inner in pairwise(loops)):
        return None
    return loops if why_order_matters(block, loops) is None else None


def iterate_new_layout(block: BlockNode, loops: Sequence[LoopNode], padding: Padding) -> dict[Any, Any]:
    """Let a block whose accesses are in the new layout run over it; returns its old variables in terms of the new ones."""
    loop_vars, block_vars = padding.variables(), padding.variables("v_")
    replaced = {loop.var for loop in loops}
    rows = list(zip(block.iter_vars, block.iter_values, strict=True))
    first = next(n for n, (_, value) in enumerate(rows) if value in replaced)
    by_loop = {value: item.var for item, value in rows if value in replaced}
    replaced_vars = [by_loop[loop.var] for loop in loops]
    values = {
        var: tir.cast(var.dtype, old)
        for var, old in zip(replaced_vars, padding.old_indices(block_vars), strict=True)
    }
    new: list[tuple[IterVar, Any]] = [
        (IterVar(tir.Range.from_min_extent(tir.const(0, var.dtype), dim), var, IterVar.DataPar), loop_var)
        for var, dim, loop_var in zip(block_vars, padding.buffer.shape, loop_vars, strict=True)
    ]
    rows = rows[:first] + new + rows[first:]
    rows = [(item, value) for item, value in rows if value not in replaced]
    node: TreeNode = loops[-1].body
    placeholder = LeafNode(tir.Evaluate(tir.const(0)))
    replace_node(loops[0], placeholder)
    for var, dim in zip(reversed(loop_vars), reversed(padding.buffer.shape), strict=True):
        node = LoopNode(var, dim, node)
    replace_node(placeholder, node)
    block.change(iter_vars=tuple(item for item, _ in rows), iter_values=tuple(value for _, value in rows))
    return values


class _ChoosePadding(StmtExprMutator):
    """Stores of the buffer store the padding where they are in it."""

    def __init__(self, padding: Padding) -> None:
        super().__init__()
        self._padding = padding

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        if store.buffer is not self._padding.buffer:
            return store
        value = tir.if_then_else(
            self._padding.condition(store.indices), self._padding.value(store.indices), store.value
        )
        return tir.BufferStore(store.buffer, value, store.indices)


def choose_padding(block: BlockNode, padding: Padding) -> None:
    """Let a block that runs over the new layout store the padding where it is in it."""
    choose = _ChoosePadding(padding)
    body = block.body
    assert isinstance(body, LeafNode)
    body.leaf = choose.visit(body.leaf)
    body.touch()
    block.change(init=None if block.init is None else choose.visit(block.init))


# ---- other writers, and inputs ---------------------------------------------------------------------------------------


def _nest(padding: Padding, name: str, body: tir.Stmt, point: list[Any], **fields: Any) -> TreeNode:
    """Loops over the whole new layout around a block."""
    buffer = padding.buffer
    loops = padding.variables()
    predicate = tir.const(True)
    if fields["writes"]:
        predicate = padding.condition(loops)
    node: TreeNode = BlockNode(
        name,
        tuple(
            IterVar(tir.Range.from_min_extent(tir.const(0, dim.dtype), dim), var, IterVar.DataPar)
            for var, dim in zip(point, buffer.shape, strict=True)
        ),
        tuple(loops),
        fields["reads"],
        fields["writes"],
        LeafNode(body),
        predicate,
    )
    for var, dim in zip(reversed(loops), reversed(buffer.shape), strict=True):
        node = LoopNode(var, dim, node)
    return node


def last_writer(scope: BlockNode, buffer: tir.Buffer) -> TreeNode | None:
    """What is in a block, next to which the padding of a buffer can be stored, behind all that writes it; None if nothing does.

    Where the iterations of a parallel loop have the buffer each for itself that is in the loop.

    Raises:
        ScheduleError: such a loop is in a block inside of the scope, which states nothing of the padding.
    """
    writers = [item for item in all_blocks(scope)[1:] if buffer in written_buffers(item)]
    if not writers:
        return None
    place: TreeNode = scope
    if any(item is buffer for item in scope.alloc_buffers):
        place = loop_of_own_memory(buffer, writers[-1], scope) or scope
    require(
        place is scope or scope_of(place) is scope,
        _PRIMITIVE,
        f"each iteration of a loop inside of a block has buffer {buffer.name} for itself, and its padding",
    )
    top: TreeNode = writers[-1]
    while top.parent is not place and not (isinstance(top.parent, SeqNode) and top.parent.parent is place):
        assert top.parent is not None
        top = top.parent
    return top


def store_padding(anchor: TreeNode, padding: Padding) -> None:
    """Store the padding by a block of its own behind a node (see :func:`last_writer`)."""
    buffer = padding.buffer
    point = padding.variables("v_")
    store = tir.BufferStore(buffer, padding.value(point), point)
    node = _nest(
        padding,
        f"buffer_{buffer.name}_padding",
        store,
        point,
        reads=(),
        writes=(point_region(buffer, point),),
    )
    insert_beside(anchor, node, before=False)


def assume_padding(root: BlockNode, padding: Padding) -> None:
    """State at the head of a function what the padding of an input holds."""
    buffer = padding.buffer
    point = padding.variables("v_")
    holds = tir.operators.logical_or(
        tir.Not(padding.condition(point)), tir.BufferLoad(buffer, point).equal(padding.value(point))
    )
    body = tir.Evaluate(tir.assume(holds))
    node = _nest(
        padding,
        f"buffer_{buffer.name}_assumptions",
        body,
        point,
        reads=(point_region(buffer, point),),
        writes=(),
    )
    first = root.body.nodes[0] if isinstance(root.body, SeqNode) else root.body
    insert_beside(first, node, before=True)
