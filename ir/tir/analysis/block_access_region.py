"""What a block reads and writes: the regions of buffers that its body touches, loops inside it relaxed away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ... import dtype as dt
from ...arith.affine import canonical_sum
from ...arith.analyzer import Analyzer
from ...arith.deep_equal import expr_deep_equal, expr_deep_hash
from ...arith.index_range import IndexRanges
from ...arith.index_simplifier import IndexSimplifier, Linear
from ...arith.int_set.evaluation import eval_set
from ...arith.int_set.interval_set import IntervalSet, from_range, neg_inf, pos_inf
from ...arith.int_set.interval_set import union as union_sets
from ...node import Visitor
from .. import expr as E
from .. import operators
from .. import stmt as S
from ..buffer import Buffer
from ..expr import PrimExpr, Range
from ..operators import const
from ..stmt_functor import substitute
from .thread_allreduce import ThreadAllreduce


@dataclass(frozen=True, slots=True)
class _Span:
    """One dimension of a region as a sum: from ``first`` on, ``extent`` elements."""

    first: Linear
    extent: int
    dtype: str

    def union(self, other: _Span) -> _Span | None:
        """The smallest span with both; None when their distance is not constant."""
        distance = other.first.plus(self.first, -1)
        if distance.terms:
            return None
        if distance.const < 0:
            return other.union(self)
        extent = max(self.extent, distance.const + other.extent)
        return self if extent == self.extent else _Span(self.first, extent, self.dtype)


Region = list[IntervalSet | _Span]


class _Parts:
    """What the accesses of a buffer reach in one dimension: spans at constant distances are one, and equal sets."""

    def __init__(self) -> None:
        self.items: Region = []
        self._places: dict[Any, list[int]] = {}
        """Where items may be that one joins, by a key: of a sum its variables, of a set a hash."""

    def add(self, item: IntervalSet | _Span) -> None:
        """Makes an item longer, or adds one."""
        places = self._places.setdefault(_key(item), [])
        for place in places:
            joined = _joined(self.items[place], item)
            if joined is not None:
                self.items[place] = joined
                return
        places.append(len(self.items))
        self.items.append(item)

    def become(self, item: IntervalSet) -> None:
        """Have one item, which has all that there were."""
        self.items = [item]
        self._places = {_key(item): [0]}


def _key(item: IntervalSet | _Span) -> Any:
    if isinstance(item, _Span):
        return frozenset(item.first.terms.items())
    return expr_deep_hash(item.min_value), expr_deep_hash(item.max_value)


def _joined(part: IntervalSet | _Span, item: IntervalSet | _Span) -> IntervalSet | _Span | None:
    """One item with both, if there is a simple one."""
    if isinstance(part, _Span):
        return part.union(item) if isinstance(item, _Span) else None
    return part if isinstance(item, IntervalSet) and _equal(part, item) else None


class _Regions:
    """Regions of buffers in the order of their first access, grown to hold every access.

    What an access reaches in a dimension is kept apart from what others reach until the whole region is asked for: an end that
    is made larger access by access would be simplified as often.
    """

    def __init__(self, analyzer: Analyzer, simplifier: IndexSimplifier) -> None:
        self._parts: dict[Buffer, list[_Parts]] = {}  # of every dimension
        self._analyzer, self._simplifier = analyzer, simplifier

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._parts)

    def add(self, buffer: Buffer, region: Region) -> None:
        parts = self._parts.setdefault(buffer, [_Parts() for _ in region])
        for known, item in zip(parts, region, strict=True):
            known.add(item)

    def region(self, buffer: Buffer) -> Region:
        """All that is accessed of a buffer."""
        parts = self._parts[buffer]
        for known in parts:
            if len(known.items) > 1:
                known.become(union_sets(list(map(self.interval, known.items)), self._analyzer))
        return [known.items[0] for known in parts]

    def are_within(self, buffer: Buffer, region: Region) -> bool:
        """Whether all that is accessed of a buffer is known to lie in a region."""
        return buffer not in self._parts or all(map(self._is_within, self.region(buffer), region))

    def _is_within(self, inner: IntervalSet | _Span, outer: IntervalSet | _Span) -> bool:
        if isinstance(inner, _Span) and isinstance(outer, _Span):
            distance = inner.first.plus(outer.first, -1)
            if not distance.terms:
                return 0 <= distance.const <= outer.extent - inner.extent
        x, y = self.interval(inner), self.interval(outer)
        if _equal(x, y):
            return True
        prove = self._analyzer.can_prove
        return (
            y.min_value is neg_inf() or (x.min_value is not neg_inf() and prove(x.min_value >= y.min_value))
        ) and (
            y.max_value is pos_inf() or (x.max_value is not pos_inf() and prove(x.max_value <= y.max_value))
        )

    def interval(self, item: IntervalSet | _Span) -> IntervalSet:
        """One dimension of a region with its ends as expressions."""
        if not isinstance(item, _Span):
            return item
        first = self._end(item, 0)
        return IntervalSet(first, first if item.extent == 1 else self._end(item, item.extent - 1))

    def _end(self, span: _Span, offset: int) -> PrimExpr:
        end = span.first.plus(Linear({}, offset))
        canonical = canonical_sum(end, span.dtype)
        if canonical is not None:
            return canonical
        return self._analyzer.simplify(self._simplifier.build(end, span.dtype))


def _equal(a: IntervalSet, b: IntervalSet) -> bool:
    return expr_deep_equal(a.min_value, b.min_value) and expr_deep_equal(a.max_value, b.max_value)


def _is_canonical(form: Linear) -> bool:
    """Whether no rule makes something else of a sum: it is one of variables, and of one quotient or remainder of each."""
    variables = [_divided_variable(term) for term in form.terms]
    return None not in variables and len(set(variables)) == len(variables)


def _divided_variable(term: Any) -> E.Var | None:
    """``x`` of ``x``, ``x // 4``, ``x % 4`` and ``x % 8 // 2``."""
    if isinstance(term, E.FloorDiv) and isinstance(term.b, E.IntImm):
        term = term.a
    if isinstance(term, E.FloorMod) and isinstance(term.b, E.IntImm):
        term = term.a
    return term if isinstance(term, E.Var) else None


class _Detector(Visitor):
    """Collects accesses; variables of inner loops are relaxed to their ranges."""

    remembers: ClassVar[bool] = True

    def __init__(self, buffer_var_map: Mapping[E.Var, Buffer], known: Mapping[E.Var, PrimExpr]) -> None:
        super().__init__()
        self.analyzer = Analyzer()
        self._simplifier = IndexSimplifier()
        for var, value in known.items():
            self._simplifier.define(var, value)
        self._ranges = IndexRanges(self._simplifier, is_exact=True)
        self.reads, self.writes, self.opaque = (_Regions(self.analyzer, self._simplifier) for _ in range(3))
        self._by_data = dict(buffer_var_map)
        self._loops: dict[E.Var, S.For] = {}  # around what is visited
        self._sources: dict[Buffer, S.MatchBufferRegion] = {}
        self._lets: dict[E.Var, Any] = dict(known)
        self._begun: set[E.Var] = set()  # data pointers of memory that begins inside of the block
        self._aliases: dict[Buffer, Buffer] = {}  # other names of what is known around the block
        self.inner: set[Buffer] = set()
        """Buffers that are not known around the block: over memory that begins inside of it, other names, matched ones."""

    def detect(self, block: S.Block) -> None:
        """Visit the places of the block's views, its initialization and its body."""
        for match in block.match_buffers:
            for item in match.source.region:
                self.visit(item.min)
                self.visit(item.extent)
            self._sources[match.buffer] = match
            self._by_data[match.buffer.data] = match.buffer
            self.inner.add(match.buffer)
        for buffer in block.alloc_buffers:
            self._by_data.setdefault(buffer.data, buffer)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def visit_For(self, loop: S.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self._loops[loop.loop_var] = loop
        self._simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        self.visit(loop.body)
        del self._loops[loop.loop_var]

    def visit_AttrStmt(self, stmt: S.AttrStmt) -> None:
        """Threads run through their numbers as a loop does."""
        if stmt.thread is not None:
            var = stmt.thread.var
            self.visit_For(S.For(var, operators.const(0, var.dtype), stmt.value, S.ForKind.SERIAL, stmt.body))
        else:
            self.generic_visit(stmt)

    def visit_LetStmt(self, stmt: S.LetStmt) -> None:
        self.visit(stmt.value)
        self._lets[stmt.var] = stmt.value
        self._simplifier.define(stmt.var, stmt.value)
        self.visit(stmt.body)
        del self._lets[stmt.var]

    def visit_Let(self, expr: E.Let) -> None:
        self.visit(expr.value)
        self._lets[expr.var] = expr.value
        self._simplifier.define(expr.var, expr.value)
        with self.forgetting():  # what is shared with another scope touches other elements there
            self.visit(expr.body)
        del self._lets[expr.var]

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        self._access(self.reads, load.buffer, [(index, None) for index in load.indices])
        for item in load.indices if load.predicate is None else (*load.indices, load.predicate):
            self.visit(item)

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self._access(self.writes, store.buffer, [(index, None) for index in store.indices])
        self.visit(store.value)
        for item in store.indices if store.predicate is None else (*store.indices, store.predicate):
            self.visit(item)

    def visit_BufferRealize(self, stmt: S.BufferRealize) -> None:
        self._begun.add(stmt.buffer.data)
        self.visit(stmt.body)

    def visit_DeclBuffer(self, stmt: S.DeclBuffer) -> None:
        source = self._by_data.get(stmt.buffer.data)
        if source is None:
            self._begun.add(stmt.buffer.data)
        elif source is not stmt.buffer:
            self._aliases[stmt.buffer] = source
        self.visit(stmt.body)

    def visit_Allocate(self, stmt: S.Allocate) -> None:
        self._begun.add(stmt.buffer_var)
        self.visit(stmt.body)

    visit_AllocateConst = visit_Allocate

    def visit_BlockRealize(self, realize: S.BlockRealize) -> None:
        """An inner block accesses what it declares, for the values of its iteration variables."""
        for value in (*realize.iter_values, realize.predicate):
            self.visit(value)
        values = {
            iv.var: value for iv, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        }
        for found, declared in ((self.reads, realize.block.reads), (self.writes, realize.block.writes)):
            for item in declared:
                self._access(found, item.buffer, [(r.min, r.extent) for r in item.region], values)

    def visit_Call(self, call: E.Call) -> None:
        if getattr(call.op, "name", "") == "tir.address_of" and isinstance(call.args[0], E.BufferLoad):
            self._opaque(call.args[0].buffer)
            return
        shared = ThreadAllreduce.of(call)
        if shared is None:
            self.generic_visit(call)
            return
        for item in (*shared.values, shared.condition, *shared.threads):
            self.visit(item)
        for result in shared.results:
            self._access(self.writes, result.buffer, [(index, None) for index in result.indices])
            for index in result.indices:
                self.visit(index)

    def visit_Var(self, var: E.Var) -> None:
        """A pointer used other than through loads and stores touches the whole buffer, for all that is known."""
        buffer = self._by_data.get(var)
        if buffer is not None:
            self._opaque(buffer)

    def visit_Buffer(self, buffer: Buffer) -> None:
        """Declarations are no accesses."""

    def visit_Op(self, op: Any) -> None:
        """Operators hold nothing."""

    def _opaque(self, buffer: Buffer) -> None:
        self._add(self.opaque, buffer, [_whole(extent) for extent in buffer.shape])

    def _access(
        self,
        found: _Regions,
        buffer: Buffer,
        indices: list[tuple[Any, Any]],
        values: Mapping[Any, Any] | None = None,
    ) -> None:
        for var, value in (values or {}).items():
            self._simplifier.define(var, value)
        self._add(found, buffer, [self._range(low, extent, values) for low, extent in indices])

    def _range(self, low: Any, extent: Any, values: Mapping[Any, Any] | None) -> IntervalSet | _Span:
        """What ``[low, low + extent)`` reaches; one element where no extent is given."""
        is_point = extent is None or (extent.__class__ is E.IntImm and extent.value == 1)
        if is_point or extent.__class__ is E.IntImm:
            span = self._span(low, 1 if is_point else extent.value)
            if span is not None:
                return span
        first = self._relaxed(low, values)
        if is_point:
            return first
        last = self._relaxed(operators.subtract(operators.add(low, extent), 1), values)
        return IntervalSet(first.min_value, last.max_value)

    def _span(self, index: Any, extent: int) -> _Span | None:
        """The range of a sum of loop variables and their quotients; None for anything else."""
        if not dt.is_index(index.dtype):
            return None
        found = self._ranges.split(self._simplifier.linear(index), self._loops.__contains__)
        if found is None:
            return None
        fixed, low, high = found
        first = self._simplifier.recombine(fixed.plus(Linear({}, low)))
        span = _Span(first, high - low + extent, index.dtype)
        return span if _is_canonical(first) and first.fits(index.dtype, span.extent - 1) else None

    def _add(self, found: _Regions, buffer: Buffer, region: Region) -> None:
        match = self._sources.get(buffer)
        if match is not None:
            region = _source_region(match, [found.interval(item) for item in region], self.analyzer)
            buffer = match.source.buffer
        if buffer.data in self._begun:
            self.inner.add(buffer)
        elif buffer in self._aliases:
            self.inner.add(buffer)
            self._opaque(self._aliases[buffer])
        else:
            found.add(buffer, region)

    def _relaxed(self, index: Any, values: Mapping[Any, Any] | None) -> IntervalSet:
        """The range of an expression of any form."""
        replaced = {**self._lets, **values} if values else self._lets
        while replaced:
            substituted = substitute(index, replaced)
            if substituted is index:
                break
            index = substituted
            replaced = self._lets
        domains = {
            var: from_range(Range.from_min_extent(loop.min, loop.extent)) for var, loop in self._loops.items()
        }
        return eval_set(index, domains, self.analyzer)


def _whole(extent: PrimExpr) -> IntervalSet:
    return from_range(Range.from_min_extent(const(0, extent.dtype), extent))


def _source_region(match: S.MatchBufferRegion, region: list[IntervalSet], analyzer: Analyzer) -> Region:
    """A region of a matched buffer as a region of the buffer that it views (leading dimensions may be dropped)."""
    source = match.source.region
    offset = len(source) - len(region)
    result: Region = [from_range(item) for item in source[:offset]]
    for item, inner in zip(source[offset:], region, strict=True):
        if inner.min_value is neg_inf() or inner.max_value is pos_inf():
            result.append(from_range(item))
        else:
            low, high = operators.add(inner.min_value, item.min), operators.add(inner.max_value, item.min)
            result.append(IntervalSet(analyzer.simplify(low), analyzer.simplify(high)))
    return result


class _Loads(Visitor):
    """The buffers that an expression reads."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.buffers: set[Buffer] = set()

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        self.buffers.add(load.buffer)
        for index in load.indices:
            self.visit(index)


def _reads_any(bounds: IntervalSet, buffers: set[Buffer]) -> bool:
    loads = _Loads()
    loads.visit(bounds.min_value)
    if bounds.max_value is not bounds.min_value:
        loads.visit(bounds.max_value)
    return not loads.buffers.isdisjoint(buffers)


def _collected(
    found: _Regions, analyzer: Analyzer, skip: set[Buffer], changing: set[Buffer]
) -> list[S.BufferRegion]:
    """Regions of the buffers that are not skipped; bounds that depend on what the block changes or holds are not known around it."""
    result = []
    for buffer in found:
        if buffer in skip:
            continue
        ranges = []
        for dimension, extent in zip(found.region(buffer), buffer.shape, strict=True):
            item = found.interval(dimension)
            low, high = item.min_value, item.max_value
            if low is neg_inf() or high is pos_inf() or _reads_any(item, changing):
                ranges.append(Range.from_min_extent(const(0, extent.dtype), extent))
            elif isinstance(dimension, _Span):
                ranges.append(Range.from_min_extent(low, const(dimension.extent, low.dtype)))
            elif item.is_single_point():
                ranges.append(Range.from_min_extent(low, const(1, low.dtype)))
            else:
                ranges.append(
                    Range.from_min_extent(
                        low, analyzer.simplify(operators.add(operators.subtract(high, low), 1))
                    )
                )
        result.append(S.BufferRegion(buffer, ranges))
    return result


def _detected(
    block: S.Block, buffer_var_map: Mapping[E.Var, Buffer] | None, known: Mapping[E.Var, PrimExpr] | None
) -> tuple[_Detector, set[Buffer]]:
    detector = _Detector(buffer_var_map or {}, known or {})
    detector.detect(block)
    skip = set(block.alloc_buffers)
    if block.init is not None:
        # A reduction reads what its initialization wrote; that is no input of the block.
        skip.update(
            buffer
            for buffer in detector.writes
            if detector.reads.are_within(buffer, detector.writes.region(buffer))
        )
    return detector, skip


def get_block_access_region(
    block: S.Block,
    buffer_var_map: Mapping[E.Var, Buffer] | None = None,
    known: Mapping[E.Var, PrimExpr] | None = None,
) -> list[list[S.BufferRegion]]:
    """The regions that a block's body reads, writes, and touches through pointers (opaque), in order of first access.

    Args:
        block: the block; its own declared regions are not looked at.
        buffer_var_map: data pointers to buffers, for accesses through pointers.
        known: values of variables around the block, such as those of loops that run once.

    Returns:
        ``[reads, writes, opaque]``. A block with an initialization does not read the elements that it writes.
    """
    detector, skip = _detected(block, buffer_var_map, known)
    analyzer, local = detector.analyzer, set(block.alloc_buffers)
    opaque = set(detector.opaque)
    changing = {*detector.writes, *opaque, *local, *detector.inner}
    return [
        _collected(detector.reads, analyzer, skip | opaque, changing),
        _collected(detector.writes, analyzer, local | opaque, changing),
        _collected(detector.opaque, analyzer, local, changing),
    ]


def get_block_read_write_region(
    block: S.Block,
    buffer_var_map: Mapping[E.Var, Buffer] | None = None,
    known: Mapping[E.Var, PrimExpr] | None = None,
) -> list[list[S.BufferRegion]]:
    """``[reads, writes]`` as :func:`get_block_access_region`; what is touched through pointers counts as both."""
    reads, writes, opaque = get_block_access_region(block, buffer_var_map, known)
    return [reads + opaque, writes + opaque]


def stating_its_accesses(block: S.Block) -> S.Block:
    """The block with the regions that its body reads and writes in the place of those that it states, for a body that was changed.

    Pointers lead to the buffers that it stated.
    """
    buffers = {region.buffer.data: region.buffer for region in (*block.reads, *block.writes)}
    reads, writes = get_block_read_write_region(block, buffers)
    stated: S.Block = block.replace(reads=tuple(reads), writes=tuple(writes))
    return stated
