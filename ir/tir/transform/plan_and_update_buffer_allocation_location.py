"""PlanAndUpdateBufferAllocationLocation: allocate each buffer in the innermost scope that holds all its accesses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ...module import IRModule
from ...node import Mutator, Visitor, post_order_visit
from ...transform import PassContext
from .. import expr as E
from ..analysis.block_access_region import get_block_read_write_region
from ..analysis.carried_values import CarriedValues, carries
from ..analysis.reads_memory import reads_memory
from ..buffer import Buffer
from ..expr import IterVar, Var
from ..function import PrimFunc
from ..operators import const
from ..row_alignment import BUFFER_DIM_ALIGN, row_alignments
from ..stmt import Block, BlockRealize, BufferRegion, For, ForKind, MatchBufferRegion, Stmt, While
from .prim_func_pass import PrimFuncPass

_PARALLEL = (ForKind.PARALLEL, ForKind.VECTORIZED)


class _FindScopes(Visitor):
    """For every buffer that blocks allocate, the path of loops and blocks down to the innermost common scope."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.path: list[Any] = []
        self.common: dict[Var, list[Any]] = {}  # by data pointer, which views share
        self.buffers: dict[Var, Buffer] = {}
        self.order: dict[Var, None] = {}
        self._loop_of: dict[Var, int] = {}  # depth in the path of the loop that defines a variable
        self._ceiling: dict[Var, int] = {}  # inside the current block: deepest scope allowed for a buffer
        self.depth: dict[Var, int] = {}  # in the path, of the block that allocates
        self.repeated: dict[
            Var, int
        ] = {}  # of the first scope in a while loop below that block, where there is one
        self._whiles: list[int] = []

    def _access(self, data: Var) -> None:
        if data not in self.buffers:
            return
        if self._whiles:
            depth = next((n for n in self._whiles if n > self.depth[data]), None)
            if depth is not None:
                self.repeated[data] = min(depth, self.repeated.get(data, depth))
        path = self.path[: self._ceiling.get(data, len(self.path))]
        known = self.common.get(data)
        if known is None:
            self.common[data] = path
            self.order[data] = None
            return
        depth = 0
        for a, b in zip(known, path):
            if a is not b:
                break
            depth += 1
        self.common[data] = known[:depth]

    def visit_For(self, loop: For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self._loop_of[loop.loop_var] = len(self.path)
        self.path.append(loop)
        self.visit(loop.body)
        self.path.pop()

    def visit_While(self, loop: While) -> None:
        self._whiles.append(len(self.path))
        self.generic_visit(loop)
        self._whiles.pop()

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        # What a reduction block writes lives across its reduction loops, so it belongs outside of them.
        block = realize.block
        outermost = len(self.path)
        for axis, value in zip(block.iter_vars, realize.iter_values):
            if axis.iter_type != IterVar.DataPar:
                outermost = min(outermost, self._outermost_loop(value, outermost))
        saved = self._ceiling
        if outermost < len(self.path):
            self._ceiling = dict(saved)
            for region in block.writes:
                data = region.buffer.data
                self._ceiling[data] = min(outermost, self._ceiling.get(data, outermost))
        for value in realize.iter_values:
            self.visit(value)
        self.visit(realize.predicate)
        self.visit(block)
        self._ceiling = saved

    def _outermost_loop(self, value: E.PrimExpr, depth: int) -> int:
        """Depth of the outermost loop whose variable the value mentions, ``depth`` if there is none."""
        depths = [depth]

        def note(node: Any) -> None:
            if node in self._loop_of:
                depths.append(self._loop_of[node])

        post_order_visit(value, note)
        return min(depths)

    def visit_Block(self, block: Block) -> None:
        for buffer in block.alloc_buffers:
            self.buffers[buffer.data] = buffer
            self.depth[buffer.data] = len(self.path)
        self.path.append(block)
        for match in block.match_buffers:
            self._access(match.source.buffer.data)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        self.path.pop()

    def visit_Buffer(self, buffer: Buffer) -> None:
        self._access(buffer.data)

    def visit_Var(self, var: Var) -> None:
        self._access(var)  # an opaque use of the pointer


class _Place(Mutator):
    def __init__(self, at: dict[int, list[Buffer]], buffers: dict[Var, Buffer]) -> None:
        super().__init__()
        self.at, self.buffers = at, buffers
        self._single: dict[Var, E.PrimExpr] = {}  # variables of loops that run once: what they are
        self._placed: set[Var] = set()
        """Data pointers of the buffers that have their place inside of what was visited."""

    def visit_PrimExpr(self, node: E.PrimExpr) -> E.PrimExpr:
        return node

    def visit_BufferRegion(self, node: object) -> object:
        return node

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> MatchBufferRegion:
        return node

    def visit_For(self, loop: For) -> Stmt:
        if isinstance(loop.extent, E.IntImm) and loop.extent.value == 1 and not reads_memory(loop.min):
            self._single[loop.loop_var] = loop.min
        mapped = self.generic_visit(loop)
        found = self.at.get(id(loop))
        if found:
            mapped = mapped.replace(body=self._scope(mapped.body, tuple(found)))
        self._single.pop(loop.loop_var, None)
        return mapped

    def _scope(self, body: Stmt, buffers: tuple[Buffer, ...]) -> BlockRealize:
        """A loop's body as a block that allocates buffers."""
        self._placed.update(buffer.data for buffer in buffers)
        block = Block((), (), (), "", body, None, buffers)
        reads, writes = get_block_read_write_region(block, self.buffers, self._single)
        return BlockRealize((), const(True), block.replace(reads=tuple(reads), writes=tuple(writes)))

    def visit_Block(self, block: Block) -> Block:
        mapped = self.generic_visit(block)
        found = tuple(self.at.get(id(block), ()))
        self._placed.update(buffer.data for buffer in found)
        writes = self._from_outside(mapped.writes)
        return mapped.replace(
            alloc_buffers=found,
            reads=self._from_outside(mapped.reads),
            writes=writes,
            annotations=_renumbered(mapped.annotations, mapped.writes, writes),
        )

    def _from_outside(self, regions: tuple[BufferRegion, ...]) -> tuple[BufferRegion, ...]:
        """The regions that a block shares with what is around it: a buffer that moved into it is its own."""
        return tuple([region for region in regions if region.buffer.data not in self._placed])


def _renumbered(
    annotations: Mapping[str, Any], old: tuple[BufferRegion, ...], new: tuple[BufferRegion, ...]
) -> Mapping[str, Any]:
    """Annotations whose ``storage_align`` entries, which name a write by its position, follow the writes that are left."""
    if BUFFER_DIM_ALIGN not in annotations or len(old) == len(new):
        return annotations
    position_of = {region.buffer: position for position, region in enumerate(new)}
    moved = [
        tuple(alignment._replace(position=position_of[old[alignment.position].buffer]))
        for alignment in row_alignments(annotations)
        if old[alignment.position].buffer in position_of
    ]
    others = {key: value for key, value in annotations.items() if key != BUFFER_DIM_ALIGN}
    return {**others, BUFFER_DIM_ALIGN: moved} if moved else others


def _begin(path: list[Any], depth: int) -> int:
    """From where on in a path loops may carry values: iterations of a parallel loop own what all of them only use, so that loops around
    it carry nothing.
    """
    own = [n for n, node in enumerate(path) if isinstance(node, For) and node.kind in _PARALLEL]
    return max([depth, *own]) + 1


def _outside_of_what_carries(func: PrimFunc, finder: _FindScopes) -> dict[Var, list[Any]]:
    """The paths down to the scopes of buffers, cut before loops whose iterations may read what earlier ones wrote."""
    begins = {data: _begin(path, finder.depth[data]) for data, path in finder.common.items()}
    moving = {
        data: finder.buffers[data]
        for data, path in finder.common.items()
        if any(carries(node) for node in path[begins[data] :]) or data in finder.repeated
    }
    if not moving:
        return finder.common
    carried = CarriedValues(moving, {data: finder.common[data][begins[data] :] for data in moving})
    carried.visit(func.body)
    paths = dict(finder.common)
    for data in carried.found:
        path = paths[data]
        end = next((n for n in range(begins[data], len(path)) if carries(path[n])), len(path))
        paths[data] = path[: max(begins[data], min(end, finder.repeated.get(data, end)))]
    return paths


@dataclass(frozen=True)
class PlanAndUpdateBufferAllocationLocation(PrimFuncPass):
    """Move the allocation of each buffer to the innermost loop or block that contains all accesses to it.

    A buffer that a reduction writes stays outside of the reduction's loops, and one in which an iteration of a loop may read what an
    earlier one wrote outside of that loop; but in a parallel loop that holds all uses each iteration has its own.

    Before::

        with T.block("root"):
            B = T.alloc_buffer((16, 16))
            for i in range(16):
                for j in range(16):
                    with T.block("B"):
                        B[i, j] = A[i, j] + 1.0
                for j in range(16):
                    with T.block("C"):
                        C[i, j] = B[i, j] * 2.0

    After (the unnamed block holds the allocation)::

        for i in range(16):
            with T.block(""):
                B = T.alloc_buffer((16, 16))
                for j in range(16): ...
                for j in range(16): ...
    """

    pass_name = "tir.PlanAndUpdateBufferAllocationLocation"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with its allocations moved; buffers that nothing accesses are dropped."""
        finder = _FindScopes()
        finder.visit(func.body)
        if not finder.buffers:
            return func
        at: dict[int, list[Buffer]] = {}
        paths = _outside_of_what_carries(func, finder)
        for data in finder.order:
            path = paths[data]
            # A path is never empty for a function with a root block: that block allocates.
            at.setdefault(id(path[-1]), []).append(finder.buffers[data])
        return func.replace(body=_Place(at, finder.buffers).visit(func.body))
