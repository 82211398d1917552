"""Which buffers may carry values from one iteration of a loop to a later one, so that their memory must live outside of the loop.

A read carries nothing where a store before it in the same iteration of all loops that both are in writes all that it may read. What is
not known to be so may be carried. Parallel loops carry nothing: rule ``[parallel-local]`` of ``docs/semantics.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...arith.analyzer import Analyzer, constraints
from ...arith.int_set.region_bounds import estimate_region_lower_bound, eval_region
from ...node import Visitor, post_order_visit
from ...structural import structural_equal
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..operators import const, logical_and
from ..stmt_functor import substitute

_IN_ORDER = (S.ForKind.SERIAL, S.ForKind.UNROLLED)


class _Branch:
    """A statement that may be passed over: a side of a choice, an ``init``. Each is itself only."""


@dataclass(frozen=True)
class _Store:
    """A region that is written, in terms of the loops around it."""

    path: tuple[S.For | S.While | _Branch, ...]
    """What is around it, the outermost first."""
    region: tuple[E.Range, ...]
    clauses: tuple[E.PrimExpr, ...]
    """Conditions under which it is written, apart from the guards of its block's variables."""


def carries(loop: Any) -> bool:
    """Whether a later iteration of a statement may read what an earlier one wrote."""
    if isinstance(loop, S.For):
        is_single = isinstance(loop.extent, E.IntImm) and loop.extent.value <= 1
        return loop.kind in _IN_ORDER and not is_single
    return isinstance(loop, S.While)


class CarriedValues(Visitor):
    """Finds the buffers of some blocks that may carry values, by their data pointers.

    Args:
        buffers: those that are asked for, by data pointer.
    """

    remembers: ClassVar[bool] = False

    def __init__(self, buffers: dict[E.Var, Buffer]) -> None:
        super().__init__()
        self.found: set[E.Var] = set()
        """Data pointers of buffers that may carry values from one iteration of some loop to another."""
        self._buffers = buffers
        self._path: list[S.For | S.While | _Branch] = []
        self._values: dict[E.Var, E.PrimExpr] = {}
        self._stores: dict[E.Var, list[_Store]] = {}

    # -- where ---------------------------------------------------------------------
    def visit_For(self, loop: S.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self._inside(loop, loop.body)

    def visit_IfThenElse(self, node: S.IfThenElse) -> None:
        self.visit(node.condition)
        for case in (node.then_case, node.else_case):
            if case is not None:
                self._inside(_Branch(), case)  # what one side writes is not there on the other

    def visit_While(self, loop: S.While) -> None:
        self._path.append(loop)
        self.visit(loop.condition)
        self.visit(loop.body)
        self._path.pop()

    def _inside(self, node: S.For | _Branch, body: S.Stmt) -> None:
        self._path.append(node)
        self.visit(body)
        self._path.pop()

    def visit_BlockRealize(self, realize: S.BlockRealize) -> None:
        block = realize.block
        for value in realize.iter_values:
            self.visit(value)
        self.visit(realize.predicate)
        values = [substitute(value, self._values) for value in realize.iter_values]
        self._values |= dict(zip([item.var for item in block.iter_vars], values, strict=True))
        if _states_all(block):
            self._stated(realize, values)
        else:
            if block.init is not None:
                self._inside(_Branch(), block.init)
            self.visit(block.body)

    # -- what ----------------------------------------------------------------------
    def _stated(self, realize: S.BlockRealize, values: Sequence[E.PrimExpr]) -> None:
        """What a block says that it reads and writes; a reduction begins what it goes on with itself."""
        block = realize.block
        is_reduction = any(item.iter_type != E.IterVar.DataPar for item in block.iter_vars)
        own = {region.buffer for region in block.writes} if is_reduction else set()
        for region in block.reads:
            if region.buffer not in own:
                self._read(region.buffer, region.region)
        clauses = self._clauses(realize, values)
        for region in block.writes:
            self._write(region.buffer, region.region, clauses)

    def _clauses(self, realize: S.BlockRealize, values: Sequence[E.PrimExpr]) -> tuple[E.PrimExpr, ...]:
        if isinstance(realize.predicate, E.IntImm):
            return ()
        analyzer = self._analyzer()
        inside = [
            logical_and(value >= item.dom.min, value < item.dom.min + item.dom.extent)
            for item, value in zip(realize.block.iter_vars, values, strict=True)
        ]
        pending, kept = [substitute(realize.predicate, self._values)], []
        with constraints(analyzer, *inside):
            while pending:
                clause = pending.pop()
                if isinstance(clause, E.And):
                    pending += [clause.b, clause.a]
                elif not analyzer.can_prove(clause):
                    kept.append(clause)
        return tuple(kept)

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        for index in load.indices:
            self.visit(index)
        self._read(load.buffer, _point(load.indices))

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        for index in store.indices:
            self.visit(index)
        self.visit(store.value)
        clauses = () if store.predicate is None else (store.predicate,)
        self._write(store.buffer, _point(store.indices), clauses)

    def visit_Var(self, var: E.Var) -> None:
        if var in self._buffers:
            self.found.add(var)  # a pointer that is passed on: nothing is known of what is read

    def _write(self, buffer: Buffer, region: Sequence[E.Range], clauses: Sequence[E.PrimExpr]) -> None:
        if self._buffers.get(buffer.data) is buffer:
            bound = tuple([substitute(item, self._values) for item in region])
            conditions = tuple([substitute(item, self._values) for item in clauses])
            store = _Store(tuple(self._path), bound, conditions)
            self._stores.setdefault(buffer.data, []).append(store)

    def _read(self, buffer: Buffer, region: Sequence[E.Range]) -> None:
        data = buffer.data
        if data not in self._buffers or data in self.found or not any(carries(node) for node in self._path):
            return
        bound = [substitute(item, self._values) for item in region]
        is_declared = self._buffers[data] is buffer
        stores = self._stores.get(data, ()) if is_declared else ()
        if not any(self._covers(store, bound, buffer) for store in reversed(stores)):
            self.found.add(data)

    # -- whether -------------------------------------------------------------------
    def _covers(self, store: _Store, region: Sequence[E.Range], buffer: Buffer) -> bool:
        """Whether a store writes, in the same iteration of the loops around both, all of a region that is read here."""
        shared = 0
        for one, other in zip(store.path, self._path, strict=False):
            if one is not other:
                break
            shared += 1
        writing, reading = store.path[shared:], self._path[shared:]
        if not all(isinstance(node, S.For) for node in writing):
            return False
        analyzer = self._analyzer(shared)
        loops = [node for node in writing if isinstance(node, S.For)]
        written = _certain(store, loops, analyzer)
        if written is None:
            return _is_the_same(store, loops, region, [node for node in reading if isinstance(node, S.For)])
        running = {node.loop_var: _range(node) for node in reading if isinstance(node, S.For)}
        for sure, perhaps, extent in zip(
            written, eval_region(region, running, analyzer), buffer.shape, strict=True
        ):
            low, high = perhaps.min_value, perhaps.max_value
            is_low = analyzer.can_prove(sure.min_value <= low) or analyzer.can_prove(sure.min_value <= 0)
            if not is_low:
                return False
            if not (
                analyzer.can_prove(sure.max_value >= high) or analyzer.can_prove(sure.max_value >= extent - 1)
            ):
                return False
        return True

    def _analyzer(self, depth: int | None = None) -> Analyzer:
        analyzer = Analyzer()
        for node in self._path[:depth]:
            if isinstance(node, S.For):
                analyzer.bind(node.loop_var, _range(node))
        return analyzer


def _states_all(block: S.Block) -> bool:
    """Whether what a block states is what is asked of it: not of one that only holds others, or statements without variables."""
    if block.match_buffers:
        return True
    has_blocks = False

    def look(node: Any) -> None:
        nonlocal has_blocks
        has_blocks = has_blocks or isinstance(node, S.BlockRealize)

    post_order_visit(block.body, look)
    return not has_blocks and bool(block.iter_vars)


def _certain(store: _Store, loops: Sequence[S.For], analyzer: Analyzer) -> Any:
    """The sets of indices that a store surely writes while some loops run; None where none are known."""
    if not loops and not store.clauses:
        return eval_region(store.region, {}, analyzer)
    condition: Any = True
    for clause in store.clauses:
        condition = clause if condition is True else logical_and(condition, clause)
    running = {loop.loop_var: _range(loop) for loop in loops}
    return estimate_region_lower_bound(store.region, running, condition, analyzer)


def _is_the_same(
    store: _Store, writing: Sequence[S.For], region: Sequence[E.Range], reading: Sequence[S.For]
) -> bool:
    """Whether a read is what was stored, iteration by iteration of the loops around either."""
    if store.clauses or len(writing) != len(reading):
        return False
    values = {one.loop_var: other.loop_var for one, other in zip(writing, reading, strict=True)}
    bounds = [(item.min, item.extent) for item in reading]
    return structural_equal(
        [substitute(item, values) for item in store.region], list(region)
    ) and structural_equal([(item.min, item.extent) for item in writing], bounds)


def _range(loop: S.For) -> E.Range:
    return E.Range.from_min_extent(loop.min, loop.extent)


def _point(indices: Sequence[E.PrimExpr]) -> list[E.Range]:
    found = []
    for index in indices:
        first, count = (index.base, index.lanes) if isinstance(index, E.Ramp) else (index, 1)
        found.append(E.Range.from_min_extent(first, const(count, first.dtype)))
    return found
