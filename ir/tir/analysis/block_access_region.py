"""What a block reads and writes: the regions of buffers that its body touches, loops inside it relaxed away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...arith.analyzer import Analyzer
from ...arith.deep_equal import expr_deep_equal
from ...arith.int_set.evaluation import eval_set
from ...arith.int_set.interval_set import IntervalSet, from_range, neg_inf, pos_inf
from ...arith.int_set.interval_set import union as union_sets
from ...node import Visitor
from .. import expr as E
from .. import operators
from .. import stmt as S
from ..buffer import Buffer
from ..expr import Range
from ..operators import const
from ..stmt_functor import substitute

Region = list[IntervalSet]


class _Regions:
    """Regions of buffers in the order of their first access, grown to hold every access."""

    def __init__(self) -> None:
        self.regions: dict[Buffer, Region] = {}

    def add(self, buffer: Buffer, region: Region, analyzer: Analyzer) -> None:
        known = self.regions.get(buffer)
        if known is None:
            self.regions[buffer] = region
        else:
            self.regions[buffer] = [
                a if _equal(a, b) else union_sets([a, b], analyzer)
                for a, b in zip(known, region, strict=True)
            ]


def _equal(a: IntervalSet, b: IntervalSet) -> bool:
    return expr_deep_equal(a.min_value, b.min_value) and expr_deep_equal(a.max_value, b.max_value)


class _Detector(Visitor):
    """Collects accesses; variables of inner loops are relaxed to their ranges."""

    remembers: ClassVar[bool] = True

    def __init__(self, buffer_var_map: Mapping[E.Var, Buffer]) -> None:
        super().__init__()
        self.analyzer = Analyzer()
        self.reads, self.writes, self.opaque = _Regions(), _Regions(), _Regions()
        self._by_data = dict(buffer_var_map)
        self._domains: dict[E.Var, IntervalSet] = {}
        self._sources: dict[Buffer, S.MatchBufferRegion] = {}
        self._lets: dict[E.Var, Any] = {}

    def detect(self, block: S.Block) -> None:
        """Visit the block's initialization and body."""
        for match in block.match_buffers:
            self._sources[match.buffer] = match
            self._by_data[match.buffer.data] = match.buffer
        for buffer in block.alloc_buffers:
            self._by_data.setdefault(buffer.data, buffer)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def visit_For(self, loop: S.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self._domains[loop.loop_var] = from_range(Range.from_min_extent(loop.min, loop.extent))
        self.visit(loop.body)
        del self._domains[loop.loop_var]

    def visit_LetStmt(self, stmt: S.LetStmt) -> None:
        self.visit(stmt.value)
        self._lets[stmt.var] = stmt.value
        self.visit(stmt.body)
        del self._lets[stmt.var]

    def visit_Let(self, expr: E.Let) -> None:
        self.visit(expr.value)
        self._lets[expr.var] = expr.value
        with self.forgetting():  # what is shared with another scope touches other elements there
            self.visit(expr.body)
        del self._lets[expr.var]

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        self._access(self.reads, load.buffer, [(index, None) for index in load.indices])
        for index in load.indices:
            self.visit(index)

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self._access(self.writes, store.buffer, [(index, None) for index in store.indices])
        self.visit(store.value)
        for index in store.indices:
            self.visit(index)

    def visit_BufferRealize(self, stmt: S.BufferRealize) -> None:
        self.visit(stmt.body)

    def visit_DeclBuffer(self, stmt: S.DeclBuffer) -> None:
        self.visit(stmt.body)

    def visit_Allocate(self, stmt: S.Allocate) -> None:
        self.visit(stmt.body)

    visit_AllocateConst = visit_Allocate

    def visit_BlockRealize(self, realize: S.BlockRealize) -> None:
        """An inner block accesses what it declares, for the values of its iteration variables."""
        for value in realize.iter_values:
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
        self.generic_visit(call)

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
        region = [
            from_range(Range.from_min_extent(const(0, extent.dtype), extent)) for extent in buffer.shape
        ]
        self._add(self.opaque, buffer, region)

    def _access(
        self,
        found: _Regions,
        buffer: Buffer,
        indices: list[tuple[Any, Any]],
        values: Mapping[Any, Any] | None = None,
    ) -> None:
        region = []
        for low, extent in indices:
            first = self._relaxed(low, values)
            if extent is None or (extent.__class__ is E.IntImm and extent.value == 1):
                region.append(first)
            else:
                last = self._relaxed(operators.subtract(operators.add(low, extent), 1), values)
                region.append(IntervalSet(first.min_value, last.max_value))
        self._add(found, buffer, region)

    def _add(self, found: _Regions, buffer: Buffer, region: Region) -> None:
        match = self._sources.get(buffer)
        if match is not None:
            region = _source_region(match, region, self.analyzer)
            buffer = match.source.buffer
        found.add(buffer, region, self.analyzer)

    def _relaxed(self, index: Any, values: Mapping[Any, Any] | None) -> IntervalSet:
        replaced = {**self._lets, **values} if values else self._lets
        while replaced:
            substituted = substitute(index, replaced)
            if substituted is index:
                break
            index = substituted
            replaced = self._lets
        return eval_set(index, self._domains, self.analyzer)


def _source_region(match: S.MatchBufferRegion, region: Region, analyzer: Analyzer) -> Region:
    """A region of a matched buffer as a region of the buffer that it views (leading dimensions may be dropped)."""
    source = match.source.region
    offset = len(source) - len(region)
    result = [from_range(item) for item in source[:offset]]
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
    """Regions of the buffers that are not skipped; bounds that depend on what the block changes are not known around it."""
    result = []
    for buffer, region in found.regions.items():
        if buffer in skip:
            continue
        ranges = []
        for item, extent in zip(region, buffer.shape, strict=True):
            low, high = item.min_value, item.max_value
            if low is neg_inf() or high is pos_inf() or _reads_any(item, changing):
                ranges.append(Range.from_min_extent(const(0, extent.dtype), extent))
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


def _detected(block: S.Block, buffer_var_map: Mapping[E.Var, Buffer] | None) -> tuple[_Detector, set[Buffer]]:
    detector = _Detector(buffer_var_map or {})
    detector.detect(block)
    # A reduction reads what its initialization wrote; that is no input of the block.
    local = set(block.alloc_buffers)
    skip = set(detector.writes.regions) if block.init is not None else set()
    return detector, skip | local


def get_block_access_region(
    block: S.Block, buffer_var_map: Mapping[E.Var, Buffer] | None = None
) -> list[list[S.BufferRegion]]:
    """The regions that a block's body reads, writes, and touches through pointers (opaque), in order of first access.

    Args:
        block: the block; its own declared regions are not looked at.
        buffer_var_map: data pointers to buffers, for accesses through pointers.

    Returns:
        ``[reads, writes, opaque]``. A block with an initialization does not read the buffers that it writes.
    """
    detector, skip = _detected(block, buffer_var_map)
    analyzer, local = detector.analyzer, set(block.alloc_buffers)
    opaque = set(detector.opaque.regions)
    changing = {*detector.writes.regions, *opaque, *local}
    return [
        _collected(detector.reads, analyzer, skip | opaque, changing),
        _collected(detector.writes, analyzer, local | opaque, changing),
        _collected(detector.opaque, analyzer, local, changing),
    ]


def get_block_read_write_region(
    block: S.Block, buffer_var_map: Mapping[E.Var, Buffer] | None = None
) -> list[list[S.BufferRegion]]:
    """``[reads, writes]`` as :func:`get_block_access_region`; what is touched through pointers counts as both."""
    reads, writes, opaque = get_block_access_region(block, buffer_var_map)
    return [reads + opaque, writes + opaque]
