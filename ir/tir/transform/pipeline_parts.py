"""The statements of a software pipeline: prologue, steady state and epilogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_

from ...arith.analyzer import Analyzer
from ...arith.index_simplifier import IndexSimplifier
from ..analysis.block_access_region import get_block_read_write_region
from ..buffer import Buffer
from ..expr import IntImm, PrimExpr, Range, Var
from ..operators import const, logical_and, logical_not
from ..stmt import AttrStmt, Block, BlockRealize, BufferRegion, Evaluate, For, ForKind, Stmt, seq
from ..stmt_functor import substitute
from .fresh_copy import fresh_copy
from .pipeline_dependences import Child, Dependences
from .pipeline_queues import ASYNC, COMMIT, Queues, commit_groups
from .pipeline_versions import Versions, fragment_sizes
from .simplify_indices import SimplifyMutator

STAGE, ORDER = "software_pipeline_stage", "software_pipeline_order"
ASYNC_STAGES = "software_pipeline_async_stages"
PIPELINE = (STAGE, ORDER, ASYNC_STAGES)
"""The annotations of a loop that is to become a pipeline."""


def stated(block: Block, buffers: Mapping[Var, Buffer]) -> Block:
    """The block with what its body reads and writes; ``buffers`` are those around it, by address."""
    reads, writes = get_block_read_write_region(block, buffers)
    result: Block = block.replace(reads=tuple(map(_inside, reads)), writes=tuple(map(_inside, writes)))
    return result


def _inside(region: BufferRegion) -> BufferRegion:
    """A region without what lies outside of its buffer, for which only the predicate of a block would have accounted."""
    ranges = [_clipped(item, extent) for item, extent in zip(region.region, region.buffer.shape, strict=True)]
    return region if all(map(is_, ranges, region.region)) else BufferRegion(region.buffer, ranges)


def _clipped(item: Range, extent: PrimExpr) -> Range:
    low, size = item.min, item.extent
    if not (isinstance(low, IntImm) and isinstance(size, IntImm) and isinstance(extent, IntImm)):
        return item
    first, end = max(low.value, 0), min(low.value + size.value, extent.value)
    if (first, end) == (low.value, low.value + size.value):
        return item
    return Range.from_min_extent(const(first, low.dtype), const(max(end - first, 0), size.dtype))


class Tidy(SimplifyMutator):
    """Simplifies indices and conditions; declarations of buffers stay."""

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer


class PipelineParts:
    """Makes the parts of a pipeline.

    At time ``t`` of the pipeline the child of stage ``s`` runs for iteration ``t - s``, where there is such a one. The last stage is
    ``S``, the loop has ``N`` iterations: the prologue are the times before ``S``, the epilogue those from the larger of ``N`` and ``S`` on.

    Args:
        buffers: all that are known around, by address.
        ranges: of the variables around the loop.
        loop: the loop, as it was.
        dependences: of its children.
        versioned: the buffers that have several versions, by address.
    """

    def __init__(
        self,
        buffers: Mapping[Var, Buffer],
        ranges: Mapping[Var, Range],
        loop: For,
        dependences: Dependences,
        versioned: Mapping[Var, Buffer],
    ) -> None:
        self._buffers, self._ranges, self._loop = buffers, ranges, loop
        children = dependences.children
        counts = {data: int(buffer.shape[0]) for data, buffer in versioned.items()}
        self._groups = commit_groups(children, dependences)
        self._queues = Queues(self._groups, dependences, counts)
        versions = Versions(
            versioned, loop.loop_var - loop.min, loop.loop_var.name, fragment_sizes(loop.body)
        )
        self._statements = {child: versions.visit(child.statement) for child in children}
        self._last_stage = max(child.stage for child in children)

    def parts(self) -> tuple[Stmt | None, Stmt | None, Stmt | None]:
        """Prologue, steady state and epilogue; None for what does nothing."""
        extent, last = self._loop.extent, self._last_stage
        begin, fill = const(0, extent.dtype), const(last, extent.dtype)
        if isinstance(extent, IntImm) and extent.value < last:
            return self._part(begin, fill), None, self._part(fill, extent, is_last=True)
        return (
            self._part(begin, fill),
            self._part(fill, extent - fill, is_steady=True),
            self._part(extent, fill, is_last=True),
        )

    def _part(
        self, first: PrimExpr, count: PrimExpr, is_steady: bool = False, is_last: bool = False
    ) -> Stmt | None:
        """``count`` times from ``first`` on; in the last part those that the prologue has are left out."""
        is_single = isinstance(count, IntImm) and count.value == 1
        if isinstance(count, IntImm) and count.value <= 0:
            return None
        var = Var(self._loop.loop_var.name, self._loop.loop_var.dtype)
        time = first if is_single else first + var
        scope = _Scope(self._ranges, var, count)
        statements = [
            item
            for group in self._groups
            for item in self._group(
                group, time, scope, self._guards(group[0], time, is_steady, is_last), is_steady
            )
        ]
        if not statements:
            return None
        body = seq(statements)
        if not is_single:
            kind = self._loop.kind if is_steady else ForKind.UNROLLED
            notes = {key: value for key, value in self._loop.annotations.items() if key not in PIPELINE}
            body = For(var, const(0, count.dtype), count, kind, body, None, notes if is_steady else {})
        return _realized(self._as_block(body), const(True))

    def _guards(self, child: Child, time: PrimExpr, is_steady: bool, is_last: bool) -> list[PrimExpr]:
        """The conditions under which a child runs at a time."""
        if is_steady:
            return []
        iteration = time - child.stage
        first = time >= self._last_stage if is_last else iteration >= 0
        return [first, iteration < self._loop.extent]

    def _group(
        self,
        group: Sequence[Child],
        time: PrimExpr,
        scope: _Scope,
        guards: Sequence[PrimExpr],
        is_steady: bool,
    ) -> list[Stmt]:
        """The statements of children that are committed together, or of one child."""
        predicate = scope.condition(guards)
        if isinstance(predicate, IntImm) and not predicate.value:
            return []
        iteration = scope.simplified(time - group[0].stage)
        blocks = [
            self._block(child, iteration, scope, is_steady)
            for child in group
            if not _is_nothing(self._statements[child])
        ]
        if not blocks or not group[0].is_async:
            return [_realized(block, predicate) for block in blocks]
        if len(blocks) == 1:
            (whole,) = blocks
            whole = whole.replace(body=self._committed(group[0], whole.body))
        else:
            body = seq([_realized(block, const(True)) for block in blocks])
            whole = self._as_block(self._committed(group[0], body))
        return [_realized(whole, predicate)]

    def _committed(self, child: Child, body: Stmt) -> Stmt:
        return AttrStmt(0, COMMIT, const(child.stage), body)

    def _block(self, child: Child, iteration: PrimExpr, scope: _Scope, is_steady: bool) -> Block:
        """A child in one iteration, which is counted from 0 on."""
        loop = self._loop
        value = scope.simplified(loop.min + iteration)
        statement = scope.tidy(fresh_copy(substitute(self._statements[child], {loop.loop_var: value})))
        block = self._as_block(statement)
        body = block.body
        if child.is_async:
            body = AttrStmt(0, ASYNC, const(1), body)
        body = self._queues.waiting(child, iteration, is_steady, body, scope.simplified)
        result: Block = block.replace(body=body)
        return result

    def _as_block(self, statement: Stmt) -> Block:
        """A statement as a block that says what it reads and writes."""
        if isinstance(statement, BlockRealize) and _is_true(statement.predicate):
            return statement.block
        return stated(Block((), (), (), "", statement), self._buffers)


class _Scope:
    """What is known where a part of a pipeline runs."""

    def __init__(self, ranges: Mapping[Var, Range], var: Var, count: PrimExpr) -> None:
        self._analyzer = Analyzer()
        simplifier = IndexSimplifier()
        inside = Range.from_min_extent(const(0, count.dtype), count)
        for name, domain in (*ranges.items(), (var, inside)):
            self._analyzer.bind(name, domain)
            simplifier.bind_range(name, domain.min, domain.extent)
        self._tidy = Tidy(simplifier)

    def simplified(self, expr: PrimExpr) -> PrimExpr:
        """An index in short form."""
        found: PrimExpr = self._analyzer.simplify_index(expr)
        return found

    def tidy(self, statement: Stmt) -> Stmt:
        """A statement with its indices in short form."""
        found: Stmt = self._tidy.visit(statement)
        return found

    def condition(self, parts: Sequence[PrimExpr]) -> PrimExpr:
        """All of some conditions; those that always hold are left out."""
        result: PrimExpr = const(True)
        for part in parts:
            short = self.simplified(part)
            if self._analyzer.can_prove(logical_not(short)):
                return const(False)
            if not self._analyzer.can_prove(short):
                result = logical_and(result, short)
        return result


def _realized(block: Block, predicate: PrimExpr) -> BlockRealize:
    return BlockRealize((), predicate, block)


def _is_true(condition: PrimExpr) -> bool:
    return isinstance(condition, IntImm) and condition.value != 0


def _is_nothing(statement: Stmt) -> bool:
    return isinstance(statement, Evaluate) and isinstance(statement.value, IntImm)
