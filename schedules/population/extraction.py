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
from ir import structural_equal, tir
from ir.arith.deep_equal import expr_deep_equal
from ir.node import Visitor
from ir.tir import ForKind, IterVar
from ir.tir.evaluate import evaluate
from ir.tir.intrinsic.declaration import is_transparent
from ir.tir.kernel_attributes import DOT_PRODUCT, LAYOUT_REWRITE_PREPROC, MATRIX_TILE
from ir.tir.row_alignment import RowAlignment, row_alignments
from ir.tir.stmt_functor import loads_in, substitute

from ..affine import mentions
from ..annotation import COOPERATIVE_FETCH, PARALLEL, SKIP_MASKED, UNROLL, VECTORIZE
from ..tree import BlockNode, LeafNode, LoopNode, SeqNode, TreeNode, WrapNode, tree_of
from .instruction_nests import by_groups, by_matrix_tiles
from .linear import IndexSteps, Values, is_arithmetic, steps_of
from .skeleton import WARP, Access, LoopAxis, Nest, OperationGroup, Skeleton

_FAR_APART = 1 << 12
"""Elements between what the threads of a warp access where nobody knows."""
_TYPICAL_EXTENT = 16
"""Iterations of a loop whose extent is data, as far as anybody can say."""


class _Operations(Visitor):
    """Counts arithmetic and collects accesses in a leaf statement."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.sites: list[tuple[str, Any]] = []
        """(kind, expression) of every operation."""
        self.accesses: list[tuple[tir.Buffer, tuple[Any, ...], bool]] = []
        self.inner: list[tir.For] = []
        self.lets: list[tuple[Any, Any]] = []
        """Names in the order in which they are bound."""

    def _count(self, name: str, node: Any) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        self.sites.append((name, node))

    def visit_BufferLoad(self, load: tir.BufferLoad) -> None:
        self.accesses.append((load.buffer, load.indices, False))

    def visit_BufferStore(self, store: tir.BufferStore) -> None:
        value = store.value
        fused = (
            isinstance(value, tir.Add)
            and dt.is_float(value.dtype)
            and any(isinstance(side, tir.Mul) for side in (value.a, value.b))
        )
        if fused:
            assert isinstance(value, tir.Add)
            self._count("float_mad", value)
            for side in (value.a, value.b):
                for part in (side.a, side.b) if isinstance(side, tir.Mul) else (side,):
                    self.visit(part)
        else:
            self.visit(value)
        self.accesses.append((store.buffer, store.indices, True))

    def visit_LetStmt(self, let: tir.LetStmt) -> None:
        self.visit(let.value)
        self.lets.append((let.var, let.value))
        self.visit(let.body)

    def visit_For(self, loop: tir.For) -> None:
        self.inner.append(loop)
        self.visit(loop.body)

    def _arithmetic(self, node: Any) -> None:
        kind = "float" if dt.is_float(node.a.dtype) else "int"
        if kind == "int":
            self._count("int_ops", node)
        else:
            self._count(_FLOAT_NAMES.get(type(node).__name__, "float_cmp"), node)
        self.generic_visit(node)

    visit_BinaryOpExpr = visit_CmpExpr = _arithmetic

    def visit_LogicalExpr(self, node: Any) -> None:
        self._count("bool_ops", node)
        self.generic_visit(node)

    def visit_Select(self, node: Any) -> None:
        self._count("select", node)
        self.generic_visit(node)

    def visit_Call(self, node: tir.Call) -> None:
        name = getattr(node.op, "name", "call")
        if name == "tir.if_then_else" or is_transparent(node):
            self._count("select", node)
        elif dt.is_float(node.dtype):
            self._count("float_math", node)
        else:
            self._count("int_ops", node)
        self.generic_visit(node)

    def accumulates(self) -> bool:
        """Whether a store adds to what it replaces."""
        found = [(buffer, indices) for buffer, indices, is_write in self.accesses if is_write]
        return any(
            buffer is other and all(map(structural_equal, indices, places))
            for buffer, indices in found
            for other, places, is_write in self.accesses
            if not is_write
        )

    def groups(self, variables: frozenset[Any]) -> dict[frozenset[Any], dict[str, int]]:
        """Counts of operations by those of the variables on which their values depend: on all, where they depend on what is stored."""
        stored = {buffer for buffer, _, is_write in self.accesses if is_write}
        known: dict[Any, _Names] = {}
        for name, value in self.lets:
            known[name] = _Names(stored, known)
            known[name].visit(value)
        found: dict[frozenset[Any], dict[str, int]] = {}
        for kind, node in self.sites:
            names = _Names(stored, known)
            names.visit(node)
            counts = found.setdefault(variables if names.changes else variables & names.variables, {})
            counts[kind] = counts.get(kind, 0) + 1
        return found


class _Names(Visitor):
    """The variables of an expression, and whether it reads one of the buffers that are stored to; names for values stand for theirs."""

    def __init__(self, stored: set[tir.Buffer], known: Mapping[Any, _Names] | None = None) -> None:
        super().__init__()
        self._stored, self._known = stored, known or {}
        self.variables: set[Any] = set()
        self.changes = False

    def visit_Var(self, var: Any) -> None:
        named = self._known.get(var)
        if named is None:
            self.variables.add(var)
        else:
            self.variables |= named.variables
            self.changes |= named.changes

    def visit_BufferLoad(self, load: tir.BufferLoad) -> None:
        self.changes |= load.buffer in self._stored
        for index in load.indices:
            self.visit(index)


_FLOAT_NAMES = {
    "Add": "float_addsub",
    "Sub": "float_addsub",
    "Mul": "float_mul",
    "Div": "float_divmod",
    "Mod": "float_divmod",
    "FloorDiv": "float_divmod",
    "FloorMod": "float_divmod",
}


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
            loop = _SymbolicLoop(node.var, begin, extent, _mark_of(node), id(node))
            self._walk(node.body, [*loops, loop], values, block)
        elif isinstance(node, BlockNode):
            bound = {
                item.var: substitute(value, values) if values else value
                for item, value in zip(node.iter_vars, node.iter_values, strict=True)
            }
            self._walk(node.body, loops, {**values, **bound}, node)
        elif isinstance(node, LeafNode):
            if block is not None and loops:
                self._add_nest(node, loops, values, block)
        elif not _is_rarely_run(node):
            for child in node.children():
                self._walk(child, loops, values, block)

    def _add_nest(
        self, leaf: LeafNode, loops: list[_SymbolicLoop], values: Mapping[Any, Any], block: BlockNode
    ) -> None:
        operations = _Operations()
        operations.visit(leaf.leaf)
        if not operations.accesses:
            return
        inner = [
            _SymbolicLoop(
                item.loop_var, substitute(item.min, values), substitute(item.extent, values), "", id(leaf)
            )
            for item in operations.inner
        ]
        all_loops = [*loops, *inner]
        reduce_values = [values[item.var] for item in block.iter_vars if item.iter_type == IterVar.CommReduce]
        variables = frozenset(
            [item.var for item in block.iter_vars] + [item.loop_var for item in operations.inner]
        )
        accesses = []
        for buffer, indices, is_write in operations.accesses:
            number = self._buffers.setdefault(buffer, len(self._buffers))
            accesses.append((number, buffer, tuple(substitute(index, values) for index in indices), is_write))
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

    def known(self, loops: frozenset[Any]) -> _SymbolicLoop:
        """The same loop with numbers for what is data."""
        extent = _known(self.extent, loops, _TYPICAL_EXTENT)
        begin = _known(self.begin, loops, 0)
        return replace(self, begin=begin, extent=extent, follows_others=mentions(extent, loops))


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
    names = _Names(set())
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
        is_preprocessing: bool,
        shared_out: Any,
        alignments: Mapping[tir.Buffer, Mapping[int, RowAlignment]],
    ) -> None:
        self._alignments = alignments
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
            LoopAxis(loop.var.name, extents[loop.var], loop.mark, loop.var in feeding, loop.key)
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
            if is_write and access.scope.startswith("shared"):
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
        )
        if axes and axes[-1].mark == "dot":
            nest = by_groups(nest)
        return by_matrix_tiles(nest) if any(loop.mark == "matrix" for loop in nest.loops) else nest

    def _lanes(self, known: Values, shared_out: np.ndarray | None, size: int) -> dict[Any, np.ndarray] | None:
        """Values [N, WARP] of all variables in the first warp's threads where loops begin; None where no threads run the nest."""
        thread = next((loop for loop in reversed(self.loops) if loop.mark == "threadIdx.x"), None)
        if thread is None:
            return None
        threads = np.maximum(_array(known.extents[thread.var], size), 1)[:, None]
        number = np.arange(WARP)[None] % threads
        values = {var: _array(value, size)[:, None] for var, value in known.begins.items()}
        if shared_out is None:
            values[thread.var] = values[thread.var] + number
        else:  # the copy's own loop, the innermost one
            own = self.loops[-1].var
            last = np.maximum(_array(known.extents[own], size), 1)[:, None] - 1
            values[own] = values[own] + np.minimum(number * shared_out[:, None], last)
        return values

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
