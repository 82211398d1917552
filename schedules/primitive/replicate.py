"""replicate: store each result several times, so that every thread that needs it has a copy of its own.

The lanes of a warp that hold parts of one row each need the row's maximum. Where one of them computed it, the others would wait for what
it stores in shared memory; where all of them compute it, from parts that they hand each other, nothing leaves the registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir import tir
from ir.tir import IterVar

from ..analysis import read_buffers, require, scope_children, written_buffers
from ..argument import Argument, Blocks
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..moved_accesses import MovedAccesses
from ..random_variable import BlockRV
from ..region import point_region
from ..rewriting import rewrite_block
from ..surroundings import loads_around
from ..tree import BlockNode, LeafNode, LoopNode, replace_node, scope_of

_NAME = "replicate"


class ReplicatePrimitives(PrimitiveFamily):
    """Copies of results."""

    @primitive("Replicate", blocks=Blocks(), extent=Argument(), group=Argument())
    def replicate(self, blocks: Sequence[BlockRV | str], extent: int, group: int = 1) -> None:
        """Store what blocks compute ``extent`` times, along a new last dimension; each copy is computed by itself.

        ``for i: B[i] = A[i]``, ``for i: C[i] = B[i] + 1``, ``for i, j: D[i, j] = X[i, j] - C[i]`` for ("B", "C"), 4, 2 becomes::

            for i, c: B[i, c] = A[i]
            for i, c: C[i, c] = B[i, c] + 1
            for i, j: D[i, j] = X[i, j] - C[i, j % 8 // 2]

        Args:
            blocks: all that write some intermediate buffers; those among them that read one read the copy that they are computed for.
            extent: the number of copies.
            group: other blocks take the copies in turns, along the last dimension of what they write; so many neighbours take one.

        Raises:
            ScheduleError: a number is not positive; a buffer is no intermediate, or others write it, too; or a block that reads or writes
                one has more than a store, or reads it in its bindings or its predicate.
        """
        for name, number in (("extent", extent), ("group", group)):
            require(
                isinstance(number, int) and 0 < number < 1 << 31,
                _NAME,
                f"{name} must be a positive integer of 31 bits, got {number!r}",
            )
        nodes = [self._block(block) for block in blocks]
        require(nodes, _NAME, "needs at least one block")
        twice = [node.name for node in nodes if sum(node is other for other in nodes) > 1]
        require(not twice, _NAME, f"block {twice[0] if twice else ''!r} is given twice")
        require_no_effects(nodes, _NAME)
        scope = scope_of(nodes[0])
        require(
            scope is not None and all(scope_of(node) is scope for node in nodes),
            _NAME,
            "the blocks are not in one scope",
        )
        assert scope is not None
        buffers = _written_by(scope, nodes)
        others = _readers(nodes, buffers)
        table = {buffer: _with_copies(buffer, extent) for buffer in buffers}
        for node in others:
            store = _store_of(node)
            copy = tir.floordiv(tir.floormod(store.indices[-1], group * extent), group)
            _rewrite(node, table, copy)
        for node in nodes:
            _run_copies(node, table, extent)
        scope.change(alloc_buffers=tuple(table.get(item, item) for item in scope.alloc_buffers))


def _written_by(scope: BlockNode, nodes: Sequence[BlockNode]) -> list[tir.Buffer]:
    """What the blocks write: intermediate buffers that nothing else writes."""
    own = {id(node) for node in nodes}
    buffers = [region.buffer for node in nodes for region in node.writes]
    for buffer in buffers:
        require(
            any(buffer is item for item in scope.alloc_buffers),
            _NAME,
            f"buffer {buffer.name} is not allocated by the block around",
        )
    for other in scope_children(nodes[0]):
        also = [buffer.name for buffer in buffers if buffer in written_buffers(other)]
        require(
            id(other) in own or not also,
            _NAME,
            f"block {other.name!r}, which is not among those given, writes {', '.join(also)}, too",
        )
    return buffers


def _readers(nodes: Sequence[BlockNode], buffers: Sequence[tir.Buffer]) -> list[BlockNode]:
    """The other blocks that read the buffers; all of both kinds are such that can be rewritten."""
    own, names = {id(node) for node in nodes}, set(buffers)
    found = []
    for other in scope_children(nodes[0]):
        around = [item.load.buffer.name for item in loads_around(other) if item.load.buffer in names]
        require(
            not around,
            _NAME,
            f"the bindings or the predicate of block {other.name!r} read {', '.join(around)}",
        )
        if id(other) in own or names & read_buffers(other):
            _store_of(other)
            found += [] if id(other) in own else [other]
    return found


def _store_of(node: BlockNode) -> tir.BufferStore:
    """The only statement of a block, its init aside."""
    store = node.body.leaf if isinstance(node.body, LeafNode) else None
    is_plain = isinstance(store, tir.BufferStore) and store.indices and not node.match_buffers
    require(is_plain, _NAME, f"block {node.name!r} is more than one store to a buffer that has dimensions")
    return store  # type: ignore[return-value]


def _with_copies(buffer: tir.Buffer, extent: int) -> tir.Buffer:
    count = tir.const(extent, buffer.shape[0].dtype if buffer.shape else "int32")
    return buffer.replace(shape=(*buffer.shape, count), strides=())


class _Copies(MovedAccesses):
    """Accesses of a buffer become accesses of one of the copies of its elements."""

    def __init__(self, old: tir.Buffer, new: tir.Buffer, copy: tir.PrimExpr) -> None:
        super().__init__(old, new)
        self._copy = copy

    def indices(self, indices: Sequence[Any]) -> Sequence[Any]:
        return [*indices, tir.cast(self._new.shape[-1].dtype, self._copy)]

    def visit_BufferRegion(self, region: tir.BufferRegion) -> tir.BufferRegion:
        return self.region(region)

    def region(self, region: tir.BufferRegion) -> tir.BufferRegion:
        """With the copy that is accessed."""
        if region.buffer is not self._old:
            return region
        (point,) = point_region(self._new, [tir.cast(self._new.shape[-1].dtype, self._copy)]).region
        return tir.BufferRegion(self._new, [*region.region, point])


def _rewrite(node: BlockNode, table: Mapping[tir.Buffer, tir.Buffer], copy: tir.PrimExpr) -> None:
    for old, new in table.items():
        mapper = _Copies(old, new, copy)
        rewrite_block(node, mapper.visit, mapper.region)


def _run_copies(node: BlockNode, table: Mapping[tir.Buffer, tir.Buffer], extent: int) -> None:
    """A loop over copies, right around a block."""
    dtype = next(table[region.buffer].shape[-1].dtype for region in node.writes)
    loop, var = tir.Var("copy", dtype), tir.Var("v_copy", dtype)
    _rewrite(node, table, var)
    place = LeafNode(tir.Evaluate(tir.const(0)))
    replace_node(node, place)
    replace_node(place, LoopNode(loop, tir.const(extent, dtype), node))
    axis = IterVar(
        tir.Range.from_min_extent(tir.const(0, dtype), tir.const(extent, dtype)), var, IterVar.DataPar
    )
    node.change(iter_vars=(*node.iter_vars, axis), iter_values=(*node.iter_values, loop))
