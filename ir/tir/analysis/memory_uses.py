"""What statements of a scheduled program read and write of the buffers that its blocks allocate, in terms of the loops around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from ... import dtype as dt
from ...node import Visitor
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..conjunction import conjuncts
from ..expr import IntImm, PrimExpr, Range, Var
from ..operators import const, logical_not
from ..stmt_functor import loads_in, substitute, variables_in
from .reads_memory import reads_memory
from .thread_allreduce import ThreadAllreduce

Box = tuple[Range, ...]


@dataclass(frozen=True, eq=False)
class Use:
    """Elements that a statement touches."""

    is_write: bool
    box: Box
    """In terms of the loops around."""
    loops: tuple[S.For, ...]
    """Those around it, the outermost first."""
    guards: tuple[PrimExpr, ...]
    """Conditions that hold where it happens."""
    block: str
    """The name of the block that it stands in."""
    shared: frozenset[Var]
    """Variables of loops over a reduction that the iterations share: each of them has the result."""
    depends: frozenset[Var]
    """The variables that a write, and what it writes, depend on; of memory those that it loads from."""


@dataclass(eq=False)
class Uses:
    """Those of one buffer."""

    buffer: Buffer
    depth: int
    """How many loops are around its allocation."""
    found: list[Use]


class FindUses(Visitor):
    """Finds the uses of all buffers that blocks allocate, by their data pointers. Of what calls do that are given addresses it is
    known what the block around them states.
    """

    remembers: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[Var, Uses] = {}
        self.written: set[Var] = set()
        """Data pointers of all memory that is written."""
        self.alike: dict[Var, frozenset[Var]] = {}
        """For all memory that is written, by data pointer: the variables of loops whose iterations exchange what is written there, so that
        each of them has the same."""
        self._loops: tuple[S.For, ...] = ()
        self._guards: tuple[PrimExpr, ...] = ()
        self._shared: frozenset[Var] = frozenset()
        self._values: dict[Var, PrimExpr] = {}
        self._views: dict[Var, S.MatchBufferRegion] = {}
        self._blocks: list[S.Block] = []
        self._given: list[set[Var]] = []
        """For each block around: the data pointers that calls in it are given."""
        self._depends: frozenset[Var] = frozenset()

    # -- where ---------------------------------------------------------------------------------------------------------
    def visit_For(self, loop: S.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        before = self._loops
        self._loops = (*before, loop)
        with self._depending(loop.min, loop.extent):
            self.visit(loop.body)
        self._loops = before

    @contextmanager
    def _under(self, condition: PrimExpr, holds: bool = True) -> Iterator[None]:
        before = self._guards
        if not reads_memory(condition):
            self._guards = (
                *before,
                *map(self._known, conjuncts(condition if holds else logical_not(condition))),
            )
        yield
        self._guards = before

    def visit_IfThenElse(self, node: S.IfThenElse) -> None:
        self.visit(node.condition)
        with self._depending(node.condition):
            with self._under(node.condition):
                self.visit(node.then_case)
            if node.else_case is not None:
                with self._under(node.condition, False):
                    self.visit(node.else_case)

    def visit_While(self, loop: S.While) -> None:
        self.visit(loop.condition)
        with self._depending(loop.condition):
            self.visit(loop.body)

    def visit_LetStmt(self, let: S.LetStmt) -> None:
        self.visit(let.value)
        self._values[let.var] = self._known(let.value)
        self.visit(let.body)

    def visit_Let(self, let: E.Let) -> None:
        self.visit(let.value)
        self._values[let.var] = self._known(let.value)
        self.visit(let.body)

    @contextmanager
    def _depending(self, *values: PrimExpr) -> Iterator[None]:
        before = self._depends
        self._depends = before | self._variables(values)
        yield
        self._depends = before

    def visit_BlockRealize(self, realize: S.BlockRealize) -> None:
        block = realize.block
        for value in (*realize.iter_values, realize.predicate):
            self.visit(value)
        reduced: set[Var] = set()
        for item, value in zip(block.iter_vars, realize.iter_values, strict=True):
            self._values[item.var] = known = self._known(value)
            if item.iter_type == E.IterVar.CommReduce:
                reduced |= set(variables_in(known))
        before = self._shared
        self._shared = before | reduced
        with self._depending(realize.predicate), self._under(realize.predicate):
            self.visit(block)
        self._shared = before

    def visit_Block(self, block: S.Block) -> None:
        for buffer in block.alloc_buffers:
            self.of[buffer.data] = Uses(buffer, len(self._loops), [])
        for match in block.match_buffers:
            self._views[match.buffer.data] = match
        self._blocks.append(block)
        self._given.append(set())
        for part in (block.init, block.body):
            if part is not None:
                self.visit(part)
        self._state(block, self._given.pop())
        self._blocks.pop()

    def _state(self, block: S.Block, given: set[Var]) -> None:
        """What a block states of memory that calls in it are given; it may be all of it where it states nothing."""
        stated = [(region, False) for region in block.reads] + [(region, True) for region in block.writes]
        for region, is_write in stated:
            if region.buffer.data in given:
                self._add(region.buffer, tuple(region.region), is_write)
        for data in given - {region.buffer.data for region, _ in stated}:
            if self._given:
                self._given[-1].add(data)
                continue
            buffer = self.of[data].buffer
            for is_write in (False, True):
                self._add(buffer, _all_of(buffer), is_write)

    # -- what ----------------------------------------------------------------------------------------------------------
    def _known(self, node: Any) -> Any:
        """In terms of loops."""
        return substitute(node, self._values) if self._values else node

    def _variables(self, values: Sequence[PrimExpr]) -> frozenset[Var]:
        found = [self._known(value) for value in values]
        loaded = [load.buffer.data for value in found for load in loads_in(value)]
        return frozenset([*loaded, *variables_in(*found)])

    def _add(
        self,
        buffer: Buffer,
        box: Box,
        is_write: bool,
        *values: PrimExpr,
        alike: frozenset[Var] = frozenset(),
    ) -> None:
        if is_write:
            self.written.add(buffer.data)
            self.alike[buffer.data] = alike & self.alike.get(buffer.data, alike)
        match = self._views.get(buffer.data)
        if match is not None:
            self._add(match.source.buffer, _within(match, buffer, box), is_write, *values, alike=alike)
            return
        uses = self.of.get(buffer.data)
        if uses is None:
            return
        if uses.buffer is not buffer or any(reads_memory(item.min) for item in box):
            box = _all_of(uses.buffer)
        ends = [end for item in box for end in (item.min, item.extent)]
        depends = self._depends | self._variables([*ends, *values]) if is_write else frozenset()
        uses.found.append(
            Use(
                is_write,
                tuple([self._known(item) for item in box]),
                self._loops,
                self._guards,
                self._blocks[-1].name_hint if self._blocks else "",
                self._shared,
                depends,
            )
        )

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        for index in load.indices:
            self.visit(index)
        if load.predicate is not None:
            self.visit(load.predicate)
        self._add(load.buffer, _box(load.buffer, load.indices), False)

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        for part in (*store.indices, store.value, store.predicate):
            if part is not None:
                self.visit(part)
        self._add(store.buffer, _box(store.buffer, store.indices), True, store.value)

    def visit_Call(self, call: E.Call) -> None:
        if getattr(call.op, "name", "") == "tir.address_of" and isinstance(call.args[0], E.BufferLoad):
            for index in call.args[0].indices:
                self.visit(index)
            self.visit_Var(call.args[0].buffer.data)
            return
        exchange = ThreadAllreduce.of(call)
        if exchange is None:
            self.generic_visit(call)
            return
        for item in (*exchange.values, exchange.condition):
            self.visit(item)
        threads = frozenset(variables_in(*map(self._known, exchange.threads)))
        for result in exchange.results:  # all threads have them
            self._add(result.buffer, _box(result.buffer, result.indices), True, alike=threads)

    def visit_Buffer(self, buffer: Buffer) -> None:
        """Reached through accesses."""

    def visit_Var(self, var: Var) -> None:
        """An address that is given to a call."""
        while var in self._views:
            var = self._views[var].source.buffer.data
        if var in self.of and self._given:
            self._given[-1].add(var)


def _all_of(buffer: Buffer) -> Box:
    return tuple([Range.from_min_extent(const(0, dim.dtype), dim) for dim in buffer.shape])


def _box(buffer: Buffer, indices: Sequence[PrimExpr]) -> Box:
    """What indices reach: of a vector all from its first to its last lane."""
    found: list[Range] = []
    for index, dim in zip(indices, buffer.shape, strict=True):
        if isinstance(index, E.Broadcast):
            index = index.value
        if isinstance(index, E.Ramp) and isinstance(index.stride, IntImm) and index.stride.value > 0:
            reach = index.stride.value * (index.lanes - 1) + 1
            found.append(Range.from_min_extent(index.base, const(reach, index.base.dtype)))
        elif dt.lanes(index.dtype) == 1:
            found.append(Range.from_min_extent(index, const(1, index.dtype)))
        else:
            found.append(Range.from_min_extent(const(0, dim.dtype), dim))
    return tuple(found)


def _within(match: S.MatchBufferRegion, buffer: Buffer, box: Box) -> Box:
    """A region of a matched region as one of what that is a region of."""
    source = match.source.region
    if match.buffer is not buffer:
        return tuple(source)
    front = len(source) - len(box)
    return (
        *source[:front],
        *[
            Range.from_min_extent(outer.min + inner.min, inner.extent)
            for outer, inner in zip(source[front:], box, strict=True)
        ],
    )
