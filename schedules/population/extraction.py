"""Extraction: the skeleton of a loop tree, for all candidates at once.

One pass over the tree collects, for every block that computes, the loops around it, how it uses buffers, and what it computes.
Extents may contain open decisions; evaluating them over the columns of a population gives arrays [N].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ir import dtype as dt
from ir import tir
from ir.arith.deep_equal import expr_deep_equal
from ir.target.gpu_facts import WARP
from ir.tir import ForKind, IterVar
from ir.tir.evaluate import evaluate
from ir.tir.kernel_attributes import DOT_PRODUCT, LAYOUT_REWRITE_PREPROC, MATRIX_TILE
from ir.tir.row_alignment import RowAlignment, row_alignments
from ir.tir.stmt_functor import loads_in, substitute
from ir.tir.thread_axis import is_block_scope
from ir.tir.transform.pipeline_parts import ASYNC_STAGES, STAGE

from ..affine import mentions
from ..annotation import COOPERATIVE_FETCH, PARALLEL, SKIP_MASKED, UNROLL, VECTORIZE
from ..tree import BlockNode, LeafNode, LoopNode, SeqNode, TreeNode, WrapNode, tree_of
from .instruction_nests import by_groups, by_matrix_tiles
from .linear import IndexSteps, Values, is_arithmetic, steps_of
from .operations import NamesOf, Operations
from .skeleton import Access, LoopAxis, Nest, OperationGroup, Skeleton
from .straight_parts import straight_parts
from .surroundings import Surroundings
from .warp_tile import (
    TILE_ROWS,
    BoxCopy,
    GroupProduct,
    WarpTile,
    elements_of_lane,
)

_FAR_APART = 1 << 12
"""Elements between what the threads of a warp access where nobody knows."""
_TYPICAL_EXTENT = 16
"""Iterations of a loop whose extent is data, as far as anybody can say."""


class Extraction:
    """The structure found in a loop tree; :meth:`evaluate` fills in a population."""

    def __init__(self, root: TreeNode) -> None:
        self._buffers: dict[Any, int] = {}
        self._nests: list[_SymbolicNest] = []
        self._walk(root, [], {}, None)
        uses = Counter(loop.key for nest in self._nests for loop in nest.loops)
        self._own = frozenset(key for key, count in uses.items() if count == 1)
        """Keys of loops that run one nest alone."""

    def _walk(
        self, node: TreeNode, loops: list[_SymbolicLoop], values: Mapping[Any, Any], block: BlockNode | None
    ) -> None:
        if isinstance(node, LoopNode):
            bounds = (node.min, _typical_extent(node))
            begin, extent = (substitute(item, values) if values else item for item in bounds)
            loop = _SymbolicLoop(node.var, begin, extent, _mark_of(node), id(node), ahead=_ahead(node))
            self._walk(node.body, [*loops, loop], values, block)
        elif isinstance(node, BlockNode):
            bound = {
                item.var: substitute(value, values) if values else value
                for item, value in zip(node.iter_vars, node.iter_values, strict=True)
            }
            self._walk(node.body, loops, {**values, **bound}, node)
        elif isinstance(node, LeafNode):
            if block is not None and loops:
                self._add_leaf(node, loops, values, block)
        elif not _is_rarely_run(node):
            for child in node.children():
                self._walk(child, loops, values, block)

    def _add_leaf(
        self, leaf: LeafNode, loops: list[_SymbolicLoop], values: Mapping[Any, Any], block: BlockNode
    ) -> None:
        """Nests of a statement: of one that threads run as many as it has parts, for each of which there is a loop or an engine."""
        around = Surroundings.of(leaf, values)
        operations = Operations()
        operations.visit(leaf.leaf)
        on_threads = any(loop.mark.startswith("threadIdx") for loop in loops)
        if not on_threads or not (operations.inner or operations.products or operations.copies):
            inner = [
                _SymbolicLoop(
                    item.loop_var, substitute(item.min, values), substitute(item.extent, values), "", id(leaf)
                )
                for item in operations.inner
            ]
            self._add_nest(operations, [*loops, *inner], values, block, around)
            return
        around = replace(around, is_opaque=True)
        for part in straight_parts(leaf.leaf):
            named = dict(values)
            for name, value in part.names.items():
                if not loads_in(value):
                    named[name] = substitute(value, named)
            inner = [
                _SymbolicLoop(
                    item.loop_var,
                    substitute(item.min, named),
                    substitute(item.extent, named),
                    _KIND_MARKS.get(item.kind, ""),
                    id(item),
                )
                for item in part.loops
            ]
            operations = Operations(part.names)
            operations.visit(part.stmt())
            all_loops = [*loops, *inner]
            self._add_nest(operations, all_loops, named, block, around)
            for product, calls in Counter(operations.products).items():
                self._add_product(product, calls, all_loops, block)
            for copy in operations.copies:
                self._add_copy(copy, all_loops, named, block, around)

    def _add_product(
        self, product: GroupProduct, calls: int, loops: list[_SymbolicLoop], block: BlockNode
    ) -> None:
        """The nest of what a group of warps multiplies at once."""
        tile = WarpTile("wgmma", "multiply", product.operand, product.sums, calls)
        box, _ = _box_loops(product.shape)
        operations = {"float_mad": calls}
        nest = _SymbolicNest(block.name, [*loops, *box], [], operations, [], True, [], Surroundings(tile))
        self._nests.append(nest)

    def _add_copy(
        self,
        copy: BoxCopy,
        loops: list[_SymbolicLoop],
        values: Mapping[Any, Any],
        block: BlockNode,
        around: Surroundings,
    ) -> None:
        """The nest of a box that the copy engine brings."""
        box, places = _box_loops(copy.box)
        first = [index + start for index, start in zip(copy.source.indices, copy.coordinates, strict=True)]
        inside = [substitute(index, values) + place for index, place in zip(first, places, strict=True)]
        source, indices = around.source_of(copy.source.buffer, inside)
        begin = [substitute(index, values) for index in copy.target.indices]
        kept = len(begin) - len(places)
        target = [*begin[:kept], *(index + at for index, at in zip(begin[kept:], places, strict=True))]
        accesses = [
            (self._number(source), source, tuple(indices), False),
            (self._number(copy.target.buffer), copy.target.buffer, tuple(target), True),
        ]
        context = replace(around, box_dims=len(box))
        self._nests.append(_SymbolicNest(block.name, [*loops, *box], accesses, {}, [], False, [], context))

    def _number(self, buffer: tir.Buffer) -> int:
        return self._buffers.setdefault(buffer, len(self._buffers))

    def _add_nest(
        self,
        operations: Operations,
        all_loops: list[_SymbolicLoop],
        values: Mapping[Any, Any],
        block: BlockNode,
        around: Surroundings,
    ) -> None:
        if not operations.accesses:
            return
        reduce_values = [values[item.var] for item in block.iter_vars if item.iter_type == IterVar.CommReduce]
        variables = frozenset(
            [item.var for item in block.iter_vars] + [item.loop_var for item in operations.inner]
        )
        accesses = [
            (self._number(buffer), buffer, tuple(substitute(index, values) for index in indices), is_write)
            for buffer, indices, is_write in operations.accesses
        ]
        self._nests.append(
            _SymbolicNest(
                block.name,
                all_loops,
                accesses,
                operations.counts,
                [
                    OperationGroup(counts, _moved([values.get(var, var) for var in changing], all_loops))
                    for changing, counts in operations.groups(variables).items()
                ],
                block.init is not None or (not block.iter_vars and operations.accumulates()),
                reduce_values,
                around,
                LAYOUT_REWRITE_PREPROC in block.annotations,
                block.annotations.get(COOPERATIVE_FETCH),
                _alignments(block),
            )
        )

    def evaluate(self, values: Mapping[Any, np.ndarray], size: int) -> Skeleton:
        """The skeleton for ``size`` candidates with the given decision values [size]."""
        packed: dict[int, list[np.ndarray]] = {}
        return Skeleton(size, [nest.evaluate(values, size, self._own, packed) for nest in self._nests])


@dataclass
class _SymbolicLoop:
    var: Any
    begin: Any
    extent: Any
    mark: str
    key: int
    follows_others: bool = False
    """Whether the extent depends on other loops."""
    ahead: tir.PrimExpr | int = 0
    """See :attr:`.skeleton.LoopAxis.ahead`."""

    @property
    def is_ahead(self) -> bool:
        """Whether copies are ahead."""
        return not isinstance(self.ahead, int) or self.ahead > 0

    def known(self, loops: frozenset[Any]) -> _SymbolicLoop:
        """The same loop with numbers for what is data."""
        extent = _known(self.extent, loops, _TYPICAL_EXTENT)
        begin = _known(self.begin, loops, 0)
        return replace(self, begin=begin, extent=extent, follows_others=mentions(extent, loops))


def _box_loops(extents: Sequence[int]) -> tuple[list[_SymbolicLoop], list[tir.Var]]:
    """Loops over a box, which nobody wrote, and their variables."""
    places = [tir.Var(f"box{axis}", "int32") for axis in range(len(extents))]
    loops = [
        _SymbolicLoop(place, tir.const(0), tir.const(extent), "", id(place))
        for place, extent in zip(places, extents, strict=True)
    ]
    return loops, places


def _is_rarely_run(node: TreeNode) -> bool:
    """Whether a statement beside others runs only where two numbers of the data are equal, such as a counter and what it counts up to.

    They seldom are (the opcode heuristic of Ball, Larus: Branch prediction for free, PLDI 1993).
    """
    if not isinstance(node, WrapNode) or not isinstance(node.template, tir.IfThenElse):
        return False
    if not isinstance(node.parent, SeqNode):
        return False
    condition, otherwise = node.template.condition, node.template.else_case
    return isinstance(condition, tir.EQ) and bool(loads_in(condition)) and otherwise is None


def _moved(values: Sequence[Any], loops: Sequence[_SymbolicLoop]) -> tuple[bool, ...]:
    """For each loop whether one of the values depends on it."""
    names = NamesOf(set())
    for value in values:
        names.visit(value)
    return tuple(loop.var in names.variables for loop in loops)


def _known(expr: Any, loops: frozenset[Any], otherwise: int) -> Any:
    """An expression, and a number in its place where it depends on data."""
    return expr if is_arithmetic(expr, loops) else tir.const(otherwise)


_SymbolicAccess = tuple[int, tir.Buffer, tuple[Any, ...], bool]
"""A number for the buffer, the buffer, its indices, and whether it is written."""


def _counted(accesses: Sequence[_SymbolicAccess]) -> list[tuple[_SymbolicAccess, int]]:
    """Accesses of which none differs from another by constants alone, each with the number of those that do."""
    found: list[tuple[_SymbolicAccess, int]] = []
    for access in accesses:
        same = (place for place, (other, _) in enumerate(found) if _differ_by_constants(access, other))
        place = next(same, None)
        if place is None:
            found.append((access, 1))
        else:
            found[place] = (found[place][0], found[place][1] + 1)
    return found


def _differ_by_constants(one: _SymbolicAccess, other: _SymbolicAccess) -> bool:
    if one[0] != other[0] or one[3] != other[3]:
        return False
    return all(
        expr_deep_equal(_without_constant(a), _without_constant(b))
        for a, b in zip(one[2], other[2], strict=True)
    )


def _without_constant(index: Any) -> Any:
    """An index without what is added to it, which moves by the same steps."""
    while isinstance(index, tir.Add | tir.Sub) and isinstance(index.b, tir.IntImm):
        index = index.a
    return index


class _SymbolicNest:
    """A nest with open decisions; what does not depend on their values is found once."""

    def __init__(
        self,
        name: str,
        loops: list[_SymbolicLoop],
        accesses: list[_SymbolicAccess],
        operations: dict[str, int],
        groups: list[OperationGroup],
        is_reduction: bool,
        reduce_values: list[Any],
        around: Surroundings,
        is_preprocessing: bool = False,
        shared_out: Any = None,
        alignments: Mapping[tir.Buffer, Mapping[int, RowAlignment]] | None = None,
    ) -> None:
        self._alignments, self._around = alignments or {}, around
        self._name, self._operations, self._groups = name, operations, groups
        self._shared_out = None if shared_out is None else tir.convert(shared_out)
        self._is_reduction, self._is_preprocessing = is_reduction, is_preprocessing
        variables = frozenset(loop.var for loop in loops)
        self.loops = [loop.known(variables) for loop in loops]
        self._reductions = [steps_of(value, variables) for value in reduce_values]
        self._accesses = [
            (number, buffer, [steps_of(index, variables) for index in indices], is_write, count)
            for (number, buffer, indices, is_write), count in _counted(accesses)
        ]
        self._shapes = {
            number: [_known(extent, frozenset(), 1) for extent in buffer.shape]
            for number, buffer, _, _ in accesses
        }

    def evaluate(
        self,
        values: Mapping[Any, np.ndarray],
        size: int,
        own: Collection[int],
        packed: dict[int, list[np.ndarray]],
    ) -> Nest:
        """The nest of ``size`` candidates; ``own`` are the keys of loops that run one nest alone.

        ``packed`` has the steps of the dimensions of tiles in shared memory, by the buffer's number; those that the nest fills come to it.
        """
        extents: dict[Any, Any] = {}
        known = Values(self._begins(values), extents)
        lasts: dict[Any, Any] = dict(values)
        for loop in self.loops:
            extent = np.maximum(known.of(loop.extent), 0)
            if loop.follows_others:
                # A tile at the border is smaller than the first one, a row of a triangle longer.
                extent = np.maximum(extent, evaluate(loop.extent, lasts))
            extents[loop.var] = _array(extent, size)
            lasts[loop.var] = known.begins[loop.var] + np.maximum(extent - 1, 0)
        feeding: set[Any] = set()
        for index in self._reductions:
            feeding |= {var for var, step in index.evaluate(known).items() if np.any(np.asarray(step) != 0)}
        axes = [
            LoopAxis(
                loop.var.name,
                extents[loop.var],
                loop.mark,
                loop.var in feeding,
                loop.key,
                _array(evaluate(tir.convert(loop.ahead), values), size) if loop.is_ahead else 0,
            )
            for loop in self.loops
        ]
        shared_out = None if self._shared_out is None else _array(evaluate(self._shared_out, values), size)
        lanes = self._lanes(known, shared_out, size)
        merged: list[Access] = []
        shapes: dict[int, list[np.ndarray]] = {}
        for number, buffer, indices, is_write, count in self._accesses:
            if number not in shapes:
                shapes[number] = [_array(evaluate(item, values), size) for item in self._shapes[number]]
            access = self._access(number, buffer, indices, is_write, shapes[number], known, size)
            if is_write and is_block_scope(access.scope) and self._around.is_opaque:
                access.held = np.prod(shapes[number], axis=0)
            elif is_write and is_block_scope(access.scope):
                tile = self._tile(indices, shapes[number], known, own)
                packed[number] = _steps(tile, self._alignments.get(buffer, {}))
                access.held = _array(tile[0] * packed[number][0] if tile else 1, size)
            if lanes is not None:
                steps = packed.get(number) or _steps(shapes[number], {})
                access.warp = _offsets(indices, steps, lanes, size)
            alike = next((item for item in merged if item.moves_like(access)), None)
            if alike is None:
                access.count = count
                merged.append(access)
            else:
                alike.count += count
        nest = Nest(
            self._name,
            axes,
            merged,
            self._operations,
            self._is_reduction,
            self._groups,
            self._is_preprocessing,
            shared_out,
            self._around.tile,
            self._around.box_dims,
        )
        if axes and axes[-1].mark == "dot":
            nest = by_groups(nest)
        return by_matrix_tiles(nest) if any(loop.mark == "matrix" for loop in nest.loops) else nest

    def _lanes(self, known: Values, shared_out: np.ndarray | None, size: int) -> dict[Any, np.ndarray] | None:
        """Values [N, WARP] of all variables in the first warp's threads where loops begin; None where no threads run the nest."""
        thread = next((loop for loop in reversed(self.loops) if loop.mark == "threadIdx.x"), None)
        tile = self._around.tile
        if (thread is None and shared_out is None and tile is None) or self._around.box_dims:
            return None
        number = np.arange(WARP)[None]
        values = {var: _array(value, size)[:, None] for var, value in known.begins.items()}
        if tile is not None:
            if tile.role in (
                "load",
                "store",
            ):  # eight rows at a time, of whose elements neighbours have pairs or words
                row, column = (loop.var for loop in self.loops[-2:])
                values[row] = values[row] + number // (WARP // TILE_ROWS)
                values[column] = values[column] + number % (WARP // TILE_ROWS) * self._elements_of_lane()
            return values
        if thread is not None:
            number = number % np.maximum(_array(known.extents[thread.var], size), 1)[:, None]
        if shared_out is None:
            assert thread is not None
            values[thread.var] = values[thread.var] + number
        else:  # the copy's own loop, the innermost one
            own = self.loops[-1].var
            last = np.maximum(_array(known.extents[own], size), 1)[:, None] - 1
            values[own] = values[own] + np.minimum(number * shared_out[:, None], last)
        return values

    def _elements_of_lane(self) -> int:
        """Of a fragment, that a thread accesses at once."""
        return min(elements_of_lane(dt.bytes_of(buffer.dtype)) for _, buffer, *_ in self._accesses)

    def _tile(
        self, indices: Sequence[IndexSteps], shape: Sequence[np.ndarray], known: Values, own: Collection[int]
    ) -> list[np.ndarray]:
        """The extents [N] of what the nest fills of a buffer in shared memory, which is all that a block of threads has of it."""
        lasts = dict(known.begins)
        for loop in self.loops:
            if loop.key in own or loop.mark.startswith(("threadIdx", "vthread")):
                lasts[loop.var] = lasts[loop.var] + np.maximum(known.extents[loop.var], 1) - 1
        return [
            extent
            if index.is_gather
            else np.minimum(
                1 + np.abs(np.asarray(evaluate(index.index, lasts)) - evaluate(index.index, known.begins)),
                extent,
            )
            for index, extent in zip(indices, shape, strict=True)
        ]

    def _begins(self, values: Mapping[Any, Any]) -> dict[Any, Any]:
        """The values of decisions, and of loop variables where their loops begin, all of them for the first time."""
        begins = dict(values)
        for loop in self.loops:
            begins[loop.var] = evaluate(loop.begin, begins)
        return begins

    def _access(
        self,
        number: int,
        buffer: tir.Buffer,
        indices: list[IndexSteps],
        is_write: bool,
        shape: list[np.ndarray],
        known: Values,
        size: int,
    ) -> Access:
        positions = {loop.var: position for position, loop in enumerate(self.loops)}
        reach = np.zeros((len(indices), len(self.loops), size), dtype=np.int64)
        strides = np.zeros((len(self.loops), size), dtype=np.int64)
        step = np.ones(size, dtype=np.int64)
        for dim in range(len(indices) - 1, -1, -1):
            for var, distance in indices[dim].evaluate(known).items():
                # A loop that runs once moves nothing, whatever its factor in the index: a replayed program drops it there.
                moved = distance * (known.extents[var] > 1)
                reach[dim, positions[var]] = moved
                strides[positions[var]] += moved * step
            step = step * shape[dim]
        return Access(
            number, buffer.name, buffer.scope(), is_write, dt.bytes_of(buffer.dtype), shape, strides, reach
        )


def _alignments(block: BlockNode) -> dict[tir.Buffer, dict[int, RowAlignment]]:
    """How rows of the block's results are aligned, by buffer and axis."""
    found: dict[tir.Buffer, dict[int, RowAlignment]] = {}
    for alignment in row_alignments(block.annotations):
        found.setdefault(block.writes[alignment.position].buffer, {})[alignment.axis] = alignment
    return found


def _steps(shape: Sequence[np.ndarray], alignments: Mapping[int, RowAlignment]) -> list[np.ndarray]:
    """Elements from one index of each dimension to the next [N]."""
    found: list[np.ndarray] = []
    step = np.ones_like(shape[0]) if shape else np.ones(1, dtype=np.int64)
    for axis in reversed(range(len(shape))):
        if axis in alignments:
            step = alignments[axis].step(step)
        found.append(step)
        step = step * shape[axis]
    return found[::-1]


def _offsets(
    indices: Sequence[IndexSteps], steps: Sequence[np.ndarray], lanes: Mapping[Any, np.ndarray], size: int
) -> np.ndarray:
    """Elements from what the first thread of a warp accesses to what each one does, in ``size`` candidates: int64 [N, WARP]."""
    total: np.ndarray = np.zeros((size, WARP), dtype=np.int64)
    for index, step in zip(indices, steps, strict=True):
        if index.is_gather:  # data may send each thread to a place of its own
            total = total + np.arange(WARP) * _FAR_APART
        else:
            total = total + np.asarray(evaluate(index.index, lanes)) * step[:, None]
    return total - total[:, :1]


def _array(value: Any, size: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(value, dtype=np.int64), (size,))


_KIND_MARKS = {ForKind.PARALLEL: "parallel", ForKind.VECTORIZED: "vectorize", ForKind.UNROLLED: "unroll"}
_ANNOTATED_MARKS = {
    PARALLEL: "parallel",
    VECTORIZE: "vectorize",
    UNROLL: "unroll",
    DOT_PRODUCT: "dot",
    MATRIX_TILE: "matrix",
}


def _typical_extent(loop: LoopNode) -> tir.PrimExpr:
    """How many iterations of a loop run: of one whose masked iterations are to be left out, what is left on average."""
    percent = loop.annotations.get(SKIP_MASKED)
    return loop.extent if percent is None else (loop.extent * percent + 99) // 100


def _ahead(loop: LoopNode) -> tir.PrimExpr | int:
    """By how many iterations asynchronous copies are begun before what they bring is used; a number or an open decision."""
    if ASYNC_STAGES not in loop.annotations:
        return 0
    stages = [getattr(item, "value", item) for item in loop.annotations[STAGE]]
    chosen = [item for item in stages if isinstance(item, tir.PrimExpr)]
    known = [item for item in stages if not isinstance(item, tir.PrimExpr)]
    return chosen[0] - min(known) if chosen else max(known) - min(known)


def _mark_of(loop: LoopNode) -> str:
    if loop.thread_binding is not None:
        return loop.thread_binding.thread_tag
    if loop.kind in _KIND_MARKS:
        return _KIND_MARKS[loop.kind]
    return next((mark for key, mark in _ANNOTATED_MARKS.items() if key in loop.annotations), "")


def flops_of(func: tir.PrimFunc) -> float:
    """Floating-point operations of one run of an unscheduled kernel with static shapes: multiply-adds count twice.

    An estimate where extents of loops depend on other loops or on data.
    """
    skeleton = Extraction(tree_of(func.body)).evaluate({}, 1)
    total = 0.0
    for nest in skeleton.nests:
        per_iteration = sum(
            count * (2 if name == "float_mad" else 1)
            for name, count in nest.operations.items()
            if name.startswith("float_")
        )
        total += per_iteration * float(nest.iterations()[0])
    return total
