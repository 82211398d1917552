"""Which buffers may carry values from one iteration of a loop to a later one, so that their memory must live outside of the loop.

A read carries nothing where stores before it surely write all that it may read in the same iteration. What is not known to be so may
be carried. Parallel loops carry nothing: rule ``[parallel-local]`` of ``docs/semantics.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from ... import dtype as dt
from ...arith.analyzer import Analyzer, constraints
from ...arith.int_set.interval_set import IntervalSet
from ...arith.int_set.region_bounds import estimate_region_lower_bound, eval_region
from ...node import Visitor
from ...structural import structural_equal
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..conjunction import conjunction, conjuncts
from ..intrinsic.address_arguments import ADDRESSES
from ..operators import const, logical_not
from ..stmt_functor import substitute
from .reads_memory import reads_memory
from .thread_allreduce import ThreadAllreduce
from .thread_groups import WARP
from .undefined_vars import undefined_vars

_IN_ORDER = (S.ForKind.SERIAL, S.ForKind.UNROLLED)


@dataclass(frozen=True)
class _Move:
    """A call of a warp that moves or computes tiles: which arguments it reads, and which it writes as a whole."""

    read: tuple[int, ...]
    written: tuple[int, ...]
    bits: Callable[[E.Call], int | None] | None = None
    """How much all lanes write together; None of calls that write a fragment, whatever its size."""


def _of_rows(call: E.Call) -> int | None:
    """Of matrices of 8 by 8 elements of 16 bits."""
    return 8 * 8 * 16 * call.args[1].value if isinstance(call.args[1], E.IntImm) else None


def _of_filled(call: E.Call) -> int | None:
    return WARP * call.args[0].value * dt.bits(call.dtype) if isinstance(call.args[0], E.IntImm) else None


def _of_stored(call: E.Call) -> int | None:
    rows, columns = call.args[:2]
    known = isinstance(rows, E.IntImm) and isinstance(columns, E.IntImm)
    return rows.value * columns.value * dt.bits(call.dtype) if known else None  # type: ignore[attr-defined]


_MATRIX_MOVES: dict[str, _Move] = {
    "tir.tvm_load_matrix_sync": _Move((5,), (0,)),
    "tir.tvm_store_matrix_sync": _Move((0,), (5,)),
    "tir.tvm_fill_fragment": _Move((), (0,)),
    "tir.tvm_mma_sync": _Move((2, 4, 6), (0,)),
    "tir.ptx_ldmatrix": _Move((5,), (3,), _of_rows),
    "tir.ptx_stmatrix": _Move((5,), (3,), _of_rows),
    "tir.ptx_mma": _Move((6, 8, 10), ()),  # it writes sums that it reads
    "tir.mma_fill": _Move((), (1,), _of_filled),
    "tir.mma_store": _Move((3,), (2,), _of_stored),
}


def _pointer_of(arg: Any) -> Any:
    """The pointer that an argument is, or leads into."""
    return arg.args[1] if getattr(getattr(arg, "op", None), "name", "") == "tir.tvm_access_ptr" else arg


@dataclass(frozen=True, eq=False)
class _Loop:
    """A loop; its variable and bounds are in terms of the loops around it."""

    node: S.For
    var: E.Var
    min: E.PrimExpr
    extent: E.PrimExpr

    @property
    def range(self) -> E.Range:
        """What its variable runs over."""
        return E.Range.from_min_extent(self.min, self.extent)


@dataclass(frozen=True, eq=False)
class _Scope:
    """A statement that may be passed over, or run any number of times."""

    node: S.Stmt | None
    clauses: tuple[E.PrimExpr, ...] | None = ()
    """It runs, once, where these hold; None where that is not known."""
    unknown: tuple[E.Var, ...] = ()
    """Stand for what was loaded when it was entered."""


_Step = _Loop | _Scope
_Path = tuple[_Step, ...]


@dataclass(frozen=True)
class _Store:
    """Elements that a store writes, in terms of the loops around it."""

    buffer: Buffer
    path: _Path
    """What is around it, the outermost first."""
    region: tuple[E.Range, ...]
    clauses: tuple[E.PrimExpr, ...]
    """Its own predicate."""


def carries(loop: Any) -> bool:
    """Whether a later iteration of a statement may read what an earlier one wrote."""
    if isinstance(loop, S.For):
        is_single = isinstance(loop.extent, E.IntImm) and loop.extent.value <= 1
        return loop.kind in _IN_ORDER and not is_single
    return isinstance(loop, S.While)


class CarriedValues(Visitor):
    """Finds the buffers whose values some loops may carry, by their data pointers.

    Args:
        buffers: those that are asked for, by data pointer.
        around: for each of them the loops and blocks that are asked about, which are around all its accesses.
    """

    remembers: ClassVar[bool] = False

    def __init__(self, buffers: Mapping[E.Var, Buffer], around: Mapping[E.Var, Iterable[S.Stmt]]) -> None:
        super().__init__()
        self.found: set[E.Var] = set()
        """Data pointers of buffers of which an iteration may read what an earlier one wrote."""
        self._buffers = buffers
        self._around = {data: {id(node) for node in nodes} for data, nodes in around.items()}
        self._path: _Path = ()
        self._values: dict[E.Var, E.PrimExpr] = {}
        self._views: dict[E.Var, tuple[Buffer, S.BufferRegion]] = {}
        """By data pointer: a matched region, and what it is a region of."""
        self._stores: dict[E.Var, list[_Store]] = {}

    # -- where ---------------------------------------------------------------------
    @contextmanager
    def _below(self, step: _Step) -> Iterator[None]:
        outer = self._path
        self._path = (*outer, step)
        yield
        self._path = outer

    def visit_For(self, loop: S.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        low, extent = E.Var("min", loop.min.dtype), E.Var("extent", loop.extent.dtype)
        unknown = self._bind({low: loop.min, extent: loop.extent})
        var = E.Var(loop.loop_var.name, loop.loop_var.dtype)
        step = _Loop(loop, var, self._values[low], self._values[extent])
        self._values[loop.loop_var] = var
        with self._below(_Scope(None, (), unknown)), self._below(step):
            self.visit(loop.body)

    def visit_IfThenElse(self, node: S.IfThenElse) -> None:
        self.visit(node.condition)
        clauses = self._clauses(node.condition)
        first = self._written_below(_Scope(None, clauses), node.then_case)
        if node.else_case is not None:
            second = self._written_below(
                _Scope(None, self._clauses(logical_not(node.condition))), node.else_case
            )
            for store in first if clauses is not None else ():
                if any(
                    store.buffer is other.buffer and structural_equal(list(store.region), list(other.region))
                    for other in second
                ):
                    self._stores[store.buffer.data].append(store)

    def _written_below(self, scope: _Scope, body: S.Stmt) -> list[_Store]:
        """Visits one side of a choice; what it writes in any case, as stores that stand where the choice does."""
        before = {data: len(stores) for data, stores in self._stores.items()}
        with self._below(scope):
            path = self._path
            self.visit(body)
        return [
            replace(store, path=self._path)
            for data, stores in self._stores.items()
            for store in stores[before.get(data, 0) :]
            if store.path == path and not store.clauses
        ]

    def visit_While(self, loop: S.While) -> None:
        with self._below(_Scope(loop, None)):
            self.visit(loop.condition)
            self.visit(loop.body)

    def visit_LetStmt(self, node: S.LetStmt) -> None:
        self.visit(node.value)
        with self._below(_Scope(None, (), self._bind({node.var: node.value}))):
            self.visit(node.body)

    def visit_Let(self, node: E.Let) -> None:
        self.visit(node.value)
        self._bind({node.var: node.value})
        self.visit(node.body)

    def visit_BlockRealize(self, realize: S.BlockRealize) -> None:
        block = realize.block
        for value in realize.iter_values:
            self.visit(value)
        self.visit(realize.predicate)
        clauses = self._clauses(realize.predicate)
        variables = [item.var for item in block.iter_vars]
        unknown = self._bind(dict(zip(variables, realize.iter_values, strict=True)))
        for match in block.match_buffers:
            self._match(match)
        with self._below(_Scope(block, clauses, unknown)):
            if block.init is not None:
                with self._below(_Scope(None, self._first(block))):
                    self.visit(block.init)
            self.visit(block.body)

    def _first(self, block: S.Block) -> tuple[E.PrimExpr, ...]:
        """The conditions under which a block initializes what it reduces."""
        reduced = [item for item in block.iter_vars if item.iter_type == E.IterVar.CommReduce]
        return tuple([self._known(E.EQ(item.var, item.dom.min)) for item in reduced])

    def _match(self, match: S.MatchBufferRegion) -> None:
        source = match.source
        region = [self._known(item) for item in source.region]
        self._views[match.buffer.data] = (match.buffer, source.replace(region=region))

    # -- what expressions are --------------------------------------------------------
    def _known(self, node: Any) -> Any:
        """An expression or a range in terms of loops."""
        return substitute(node, self._values)

    def _bind(self, values: Mapping[E.Var, E.PrimExpr]) -> tuple[E.Var, ...]:
        """Gives variables their values; what was loaded may be another value later on, and gets a variable instead."""
        known = {var: self._known(value) for var, value in values.items()}
        unknown = {var: E.Var(var.name, var.dtype) for var, value in known.items() if reads_memory(value)}
        self._values |= known | unknown
        return tuple(unknown.values())

    def _clauses(self, condition: E.PrimExpr) -> tuple[E.PrimExpr, ...] | None:
        return None if reads_memory(condition) else tuple(conjuncts(self._known(condition)))

    # -- accesses --------------------------------------------------------------------
    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        for index in load.indices:
            self.visit(index)
        if load.predicate is not None:
            self.visit(load.predicate)
        if self._is_asked(load.buffer):
            points = map(_range_of, load.indices)
            box = [item or _all_of(extent) for item, extent in zip(points, load.buffer.shape, strict=True)]
            self._read(load.buffer, [self._known(item) for item in box])

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        for index in store.indices:
            self.visit(index)
        self.visit(store.value)
        clauses: tuple[E.PrimExpr, ...] | None = ()
        if store.predicate is not None:
            self.visit(store.predicate)
            clauses = self._clauses(store.predicate)
        self._store(store.buffer, store.indices, clauses)

    def _store(
        self, buffer: Buffer, indices: Sequence[E.PrimExpr], clauses: tuple[E.PrimExpr, ...] | None
    ) -> None:
        region = [item for item in map(_range_of, indices) if item is not None]
        if self._is_asked(buffer) and clauses is not None and len(region) == len(indices):
            self._write(buffer, [self._known(item) for item in region], clauses)

    def visit_Call(self, call: E.Call) -> None:
        moved = _MATRIX_MOVES.get(getattr(call.op, "name", ""))
        if moved is not None:
            self._move(call, moved)
            return
        if getattr(call.op, "name", "") == "tir.address_of" and isinstance(call.args[0], E.BufferLoad):
            self.visit_Var(call.args[0].buffer.data)
        shared = ThreadAllreduce.of(call)
        if shared is None:
            self.generic_visit(call)
            return
        for item in (*shared.values, shared.condition, *shared.threads):
            self.visit(item)
        for result in shared.results:
            for index in result.indices:
                self.visit(index)
            self._store(result.buffer, result.indices, ())

    def _move(self, call: E.Call, move: _Move) -> None:
        """A call that reads all of what some arguments are views of, writes all of what others are, and nothing else. Of pointers that are
        no views, nothing is known.
        """
        addresses = {*move.read, *move.written} | {
            at for at, _ in ADDRESSES.get(getattr(call.op, "name", ""), ())
        }
        for at, arg in enumerate(call.args):
            if at not in addresses:
                self.visit(arg)
        for at in {*move.read, *move.written}:
            if _pointer_of(call.args[at]) not in self._views:
                self.visit(call.args[at])
        for view, source in self._viewed(call, move.read):
            self._read(view, source.region)
        for view, _ in self._viewed(call, move.written):
            if move.bits is None or move.bits(call) == _bits_of(view):
                self._write(view, [_all_of(extent) for extent in view.shape], ())

    def _viewed(self, call: E.Call, at: Iterable[int]) -> list[tuple[Buffer, S.BufferRegion]]:
        """What views are that are arguments at some positions."""
        pointers = [_pointer_of(call.args[position]) for position in at]
        return [self._views[pointer] for pointer in pointers if pointer in self._views]

    def visit_Var(self, var: E.Var) -> None:
        """A pointer that is passed on: nothing is known of what is read."""
        if var in self._views:
            self.visit_Var(self._views[var][1].buffer.data)
        elif var in self._buffers:
            self.found.add(var)

    def _is_asked(self, buffer: Buffer) -> bool:
        return buffer.data in self._buffers or buffer.data in self._views

    def _write(self, buffer: Buffer, region: Sequence[E.Range], clauses: tuple[E.PrimExpr, ...]) -> None:
        data = buffer.data
        if data in self._views:
            view, source = self._views[data]
            if view is buffer:
                self._write(source.buffer, _inside(source.region, region), clauses)
        elif self._buffers.get(data) is buffer:
            self._stores.setdefault(data, []).append(_Store(buffer, self._path, tuple(region), clauses))

    def _read(self, buffer: Buffer, region: Sequence[E.Range]) -> None:
        data = buffer.data
        if data in self._views:
            view, source = self._views[data]
            if view is buffer:
                self._read(source.buffer, source.region)
            else:
                self.visit_Var(data)
        elif data in self._buffers and data not in self.found:
            read = [
                _all_of(extent) if _loads(item) else item
                for item, extent in zip(region, buffer.shape, strict=True)
            ]
            if self._buffers[data] is not buffer or not self._is_written(buffer, read):
                self.found.add(data)

    # -- whether ---------------------------------------------------------------------
    def _is_written(
        self, buffer: Buffer, region: Sequence[E.Range], assumed: tuple[E.PrimExpr, ...] = ()
    ) -> bool:
        """Whether stores write all of a region that is read here, before it is read and in the same iteration."""
        for store in reversed(self._stores.get(buffer.data, ())):
            for depth in self._depths(store):
                doubts = _Question(self._path, store, depth, region, assumed).doubts()
                if doubts is None or (doubts and assumed):
                    continue
                # another store may have written it where a loop has no iterations
                if all(self._is_written(buffer, region, (logical_not(doubt),)) for doubt in doubts):
                    return True
        return False

    def _depths(self, store: _Store) -> Iterator[int]:
        """How many of the steps around both a store and what is read here are in the same iteration.

        That may be all. It may also be those around a loop that is not asked about and does not say what is written: its first
        iteration, in which a reduction begins, comes before the one at hand.
        """
        path, asked = self._path, self._around[store.buffer.data]
        shared = next(
            (n for n, (one, other) in enumerate(zip(store.path, path, strict=False)) if one is not other),
            min(len(store.path), len(path)),
        )
        begin = max((n + 1 for n, step in enumerate(path) if id(step.node) in asked), default=0)
        yield shared
        used = _variables(store.region)
        for depth in range(begin, shared):
            step = path[depth]
            if isinstance(step, _Loop) and step.var not in used:
                yield depth
                return


class _Question:
    """Whether a store writes all of a region that is read behind it.

    Args:
        path: what is around the read.
        store: the store.
        depth: the steps that are around both, in the same iteration.
        region: what is read.
        assumed: conditions under which the question is asked.
    """

    def __init__(
        self,
        path: _Path,
        store: _Store,
        depth: int,
        region: Sequence[E.Range],
        assumed: Sequence[E.PrimExpr],
    ) -> None:
        self._store, self._region = store, region
        inner = store.path[depth:]
        used = _variables(store.region)
        around = [step for step in path if isinstance(step, _Loop)]
        loops = [step for step in inner if isinstance(step, _Loop)]
        self._scopes = [step for step in inner if isinstance(step, _Scope)]
        self._alike = [loop for loop in loops if loop.var in used and loop in around]
        self._running = [loop for loop in loops if loop.var in used and loop not in around]
        self._first: dict[E.Var, E.PrimExpr] = {}
        """Variables of loops that do not say what is written: their first value stands for them."""
        for loop in loops:
            if loop.var not in used:
                self._first[loop.var] = substitute(loop.min, self._first)
        self._once = [self._at_first(loop.extent) for loop in loops if loop.var in self._first]
        self._reading = [loop for loop in around if loop in path[depth:] and loop not in self._alike]
        self._analyzer = Analyzer()
        for loop in around:
            self._analyzer.bind(loop.var, loop.range)
        for loop in self._running:
            self._analyzer.bind(loop.var, self._at_first(loop.range))
        known = [clause for step in path if isinstance(step, _Scope) for clause in step.clauses or ()]
        runs = [_is_run(loop.extent) for loop in around if not isinstance(loop.extent, E.IntImm)]
        self._facts = [*known, *runs, *assumed]

    def _at_first(self, node: Any) -> Any:
        return substitute(node, self._first)

    def doubts(self) -> list[E.PrimExpr] | None:
        """The conditions that must hold beside what is known here so that it does; None where it may not even then."""
        if any(step.clauses is None for step in self._scopes):
            return None
        clauses = [clause for step in self._scopes for clause in step.clauses or ()]
        self._clauses = [self._at_first(clause) for clause in (*clauses, *self._store.clauses)]
        bounds = [item for loop in (*self._alike, *self._running) for item in (loop.min, loop.extent)]
        unknown = {var for step in self._scopes for var in step.unknown}
        if _variables([*self._store.region, *self._clauses, *bounds, *self._once]) & unknown:
            return None
        own = {loop.var for loop in self._running} | set(self._first)
        if _variables([item for loop in self._alike for item in (loop.min, loop.extent)]) & own:
            return None
        with constraints(self._analyzer, *self._facts):
            found = self._same()
            return self._box(own) if found is None else found

    def _same(self) -> list[E.PrimExpr] | None:
        """Where what is read is what was stored, iteration by iteration of the loops around either."""
        used = _variables(self._region)
        reading = [loop for loop in self._reading if loop.var in used]
        if len(reading) != len(self._running):
            return None
        values = {one.var: other.var for one, other in zip(self._running, reading, strict=True)}

        def renamed(node: Any) -> Any:
            return substitute(self._at_first(node), values)

        if not structural_equal([renamed(item) for item in self._store.region], list(self._region)):
            return None
        bounds = [(renamed(loop.min), renamed(loop.extent)) for loop in self._running]
        if not structural_equal(bounds, [(loop.min, loop.extent) for loop in reading]):
            return None
        if not all(self._analyzer.can_prove(renamed(clause)) for clause in self._beyond_bounds()):
            return None
        return self._unproved(renamed(extent) for extent in self._once)

    def _box(self, own: set[E.Var]) -> list[E.PrimExpr] | None:
        """Where a box of what is surely stored holds a box of what may be read."""
        bounds = [self._at_first(loop.range) for loop in self._running]
        if _variables(item for bound in bounds for item in (bound.min, bound.extent)) & own:
            return None
        doubts = self._unproved([*self._once, *[bound.extent for bound in bounds]])
        known = dict(zip([loop.var for loop in self._running], bounds, strict=True))
        with constraints(self._analyzer, *doubts):
            written = self._written(known)
        if written is None:
            written, doubts = self._stretches(known), self._unproved(self._once)
        if written is None:
            return None
        running = {loop.var: loop.range for loop in self._reading}
        read = eval_region(self._region, running, self._analyzer)
        holds = all(map(self._holds, written, read, self._store.buffer.shape))
        return doubts if holds else None

    def _written(self, running: Mapping[E.Var, E.Range]) -> list[IntervalSet] | None:
        """The sets of indices of which all elements are surely written; None where none are known."""
        region, clauses = self._store.region, self._beyond_bounds()
        if not running and not clauses:
            return eval_region(region, {}, self._analyzer)
        for known in (
            clauses,
            self._clauses,
        ):  # which say where digits of a number end, though bounds tell that, too
            condition = conjunction(known)
            found = estimate_region_lower_bound(
                region, running, True if condition is None else condition, self._analyzer
            )
            if found is not None or len(known) == len(self._clauses):
                return found
        return None

    def _stretches(self, running: Mapping[E.Var, E.Range]) -> list[IntervalSet] | None:
        """What is written where each loop steps through one dimension: all that it reaches, however far that is. What holds an element
        is not empty, so that these loops run where something is read.
        """
        if self._beyond_bounds():
            return None
        found, left = [], set(running)
        for item in self._store.region:
            low = item.min
            high = item.min + item.extent - 1
            mine = _variables([item.min]) & running.keys()
            if not isinstance(item.extent, E.IntImm):
                return None
            for var in mine:
                begin = substitute(item.min, {var: const(0, var.dtype)})
                if (
                    len(mine) > 1
                    or var not in left
                    or not self._analyzer.can_prove(item.min.equal(begin + var))
                ):
                    return None
                low = begin + running[var].min
                high = low + running[var].extent - 1 + (item.extent - 1)
            left -= mine
            found.append(IntervalSet(low, high))
        return None if left else found

    def _holds(self, written: IntervalSet, read: IntervalSet, extent: E.PrimExpr) -> bool:
        """Whether one dimension of what is written holds what is read; there is nothing to read outside of the buffer."""
        prove = self._analyzer.can_prove
        low, high = written.min_value, written.max_value
        return (prove(low <= read.min_value) or prove(low <= 0)) and (
            prove(high >= read.max_value) or prove(high >= extent - 1)
        )

    def _beyond_bounds(self) -> list[E.PrimExpr]:
        """The conditions of the store, without those that hold for all elements that the buffer has."""
        if not self._clauses:
            return []
        inside = [
            condition
            for item, extent in zip(self._store.region, self._store.buffer.shape, strict=True)
            for condition in (item.min >= 0, item.min + item.extent <= extent)
        ]
        with constraints(self._analyzer, *inside):
            return [clause for clause in self._clauses if not self._analyzer.can_prove(clause)]

    def _unproved(self, extents: Iterable[E.PrimExpr]) -> list[E.PrimExpr]:
        """What must be so for loops with these extents to have iterations, as far as it is not known."""
        return [run for run in map(_is_run, extents) if not self._analyzer.can_prove(run)]


def _is_run(extent: E.PrimExpr) -> E.PrimExpr:
    """Whether a loop has iterations."""
    return extent >= const(1, extent.dtype)


def _bits_of(buffer: Buffer) -> int | None:
    """Of all elements; None where their number is not known."""
    extents = [extent.value for extent in buffer.shape if isinstance(extent, E.IntImm)]
    return prod(extents) * dt.bits(buffer.dtype) if len(extents) == len(buffer.shape) else None


def _variables(nodes: Iterable[Any]) -> set[E.Var]:
    return {var for node in nodes for var in undefined_vars(node)}


def _range_of(index: E.PrimExpr) -> E.Range | None:
    """The box of numbers that an index stands for; None where it is not known to be one."""
    if isinstance(index, E.Ramp) and isinstance(index.stride, E.IntImm) and index.stride.value == 1:
        return E.Range.from_min_extent(index.base, const(index.lanes, index.base.dtype))
    number = index.value if isinstance(index, E.Broadcast) else index
    return E.Range.from_min_extent(number, const(1, number.dtype)) if dt.lanes(number.dtype) == 1 else None


def _all_of(extent: E.PrimExpr) -> E.Range:
    return E.Range.from_min_extent(const(0, extent.dtype), extent)


def _loads(item: E.Range) -> bool:
    return reads_memory(item.min) or reads_memory(item.extent)


def _inside(outer: Sequence[E.Range], region: Sequence[E.Range]) -> list[E.Range]:
    """A region of a matched region, as one of what that is a region of."""
    dropped = len(outer) - len(region)
    fixed = [E.Range.from_min_extent(item.min, const(1, item.min.dtype)) for item in outer[:dropped]]
    moved = [
        E.Range.from_min_extent(item.min + part.min, part.extent)
        for item, part in zip(outer[dropped:], region, strict=True)
    ]
    return [*fixed, *moved]
