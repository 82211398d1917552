"""scan_blocks: a running sum is computed block by block, so that the blocks of a row run at once.

    for k: s[0] += A[k]; B[k] = s[0]                       waits for every addition before the next one

    for b (parallel): for k: sums[b] += A[b, k]            what each block adds
    for b: sums[b], total = total, total + sums[b]         what stands before it
    for b (parallel): s[0] = sums[b]; for k: ...           the blocks, each from there

reads the data twice, and adds in another order. (Blelloch: Prefix sums and their applications, CMU-CS-90-190, section 1.3.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.te.access_region import full_region, line_region, point_region
from ir.tir import ForKind
from ir.tir.op import max_identity, min_identity
from ir.tir.stmt_functor import loads_in, substitute, variables_in
from ir.topi.scan import RUNNING_REDUCTION

from ..analysis import require, source_of, views_around
from ..argument import Argument, Loop
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..random_variable import BlockRV, LoopRV
from ..returns import require_no_return
from ..tree import (
    BlockNode,
    LoopNode,
    SeqNode,
    blocks_below,
    fresh_block_name,
    loops_around,
    replace_node,
    scope_of,
    tree_of,
)

_NAME = "scan_blocks"
IDENTITIES: dict[type, Callable[[str], Any]] = {
    tir.Add: lambda dtype: tir.const(-0.0 if dt.is_float(dtype) else 0, dtype),
    tir.Mul: lambda dtype: tir.const(1, dtype),
    tir.Max: max_identity,
    tir.Min: min_identity,
}
"""Associative and commutative operators, and their identities."""


@dataclass(frozen=True)
class Scan:
    """A running reduction along one loop, for each iteration of a loop around it.

    Attributes:
        rows: the loop around.
        block: the block of a row.
        running: the one element that is carried along.
        start: what it begins with.
        var: of the loop along the row.
        extent: of that loop.
        operator: class of the operator.
        term: what each step adds.
        result: where to, and in which form, the running value goes in each step.
        is_exclusive: whether that happens before the step adds its term.
    """

    rows: LoopNode
    block: BlockNode
    running: tir.Buffer
    start: tir.PrimExpr
    var: tir.Var
    extent: int
    operator: type
    term: tir.PrimExpr
    result: tir.BufferStore
    is_exclusive: bool

    @property
    def is_contiguous(self) -> bool:
        """Whether steps lie side by side in memory."""
        return self.result.indices[-1] is self.var


class ScanBlockPrimitives(PrimitiveFamily):
    """Running reductions in blocks."""

    @primitive("ScanBlocks", loop=Loop(), parts=Argument(), lanes=Argument())
    def scan_blocks(self, loop: LoopRV, parts: int, lanes: int = 1) -> list[BlockRV]:
        """Compute running sums (products, maxima, minima) of rows in ``parts`` blocks of equal length each.

        ``for i: s[0] = 0; for k in n: s[0] = s[0] + x(i, k); O[i, k] = s[0]``, where the loop over i is parallel or runs once and holds
        nothing but the block of a row, becomes three loops: a parallel one over all blocks of all rows, which sums up each in ``lanes``
        partial results; one over the rows, which turns the sums into what stands before each block; and a parallel one over all blocks
        again, which run from there.

        Sums and products of floats are taken in another order: the block of a row must carry the annotation ``running_reduction``,
        by which :func:`ir.topi.cumsum` says that any order is right. Integers, maxima and minima need none.

        Args:
            loop: the loop over rows.
            parts: blocks of a row; it divides the row's extent.
            lanes: partial results of a block's sum, side by side in a vector; it divides the block's extent.

        Returns:
            The blocks of the sums, of what stands before, and of the results.

        Raises:
            ScheduleError: the loop holds no running reduction of this form; its operator does not allow another order; results of
                different steps may be one element; or a number does not divide.
        """
        scan = scan_of(self._loop(loop))
        return self._new(_by_blocks(scan, parts, lanes))


def scan_of(rows: LoopNode) -> Scan:
    """The running reduction that a loop computes for each row.

    Raises:
        ScheduleError: it computes something else, or must not be computed in another order.
    """
    block = rows.body
    name = rows.var.name
    may_split = rows.kind == ForKind.PARALLEL or getattr(rows.extent, "value", None) == 1
    plain = not rows.annotations and rows.thread_binding is None and rows.begins_at_zero
    require(
        may_split and plain, _NAME, f"loop {name!r} is neither parallel nor runs once, or has annotations"
    )
    require(
        isinstance(rows.extent, tir.IntImm) and not loops_around(rows),
        _NAME,
        f"loop {name!r} runs several times, or nobody knows how many rows there are: sums of all of them are kept",
    )
    is_opaque = (
        isinstance(block, BlockNode)
        and not block.iter_vars
        and not block.match_buffers
        and block.init is None
        and block.is_unconditional
        and not blocks_below(block.body)
        and len(block.alloc_buffers) == 1
        and set(block.annotations) <= {RUNNING_REDUCTION}
    )
    require(
        is_opaque,
        _NAME,
        f"loop {name!r} does not hold one block with one buffer and without variables and annotations",
    )
    assert isinstance(block, BlockNode)
    require_no_return([rows], _NAME, f"loop {name!r}, whose blocks would end together")
    require_no_effects([block], _NAME)
    found = _matched(rows, block)
    require(
        found is not None,
        _NAME,
        f"block {block.name!r} is no running reduction: it sets one element, and in a loop combines it and stores it",
    )
    assert found is not None
    _require_any_order(found)
    _require_separate(found)
    return found


def _matched(rows: LoopNode, block: BlockNode) -> Scan | None:
    """The parts of ``s[0] = start; for k: s[0] = s[0] + term; result[...] = ... s[0] ...``."""
    (running,) = block.alloc_buffers
    if any(not isinstance(extent, tir.IntImm) or extent.value != 1 for extent in running.shape):
        return None
    match block.body.stmt():
        case tir.SeqStmt(seq=(tir.BufferStore() as first, tir.For() as loop)):
            pass
        case _:
            return None
    extent = loop.extent
    is_plain = (
        loop.kind == ForKind.SERIAL
        and not loop.annotations
        and isinstance(loop.min, tir.IntImm)
        and loop.min.value == 0
    )
    match loop.body:
        case tir.SeqStmt(seq=(tir.BufferStore() as one, tir.BufferStore() as other)):
            stores = (one, other)
        case _:
            return None
    is_exclusive = stores[1].buffer is running
    result, step = stores if is_exclusive else stores[::-1]
    fits = (
        is_plain
        and all(item.predicate is None for item in (first, *stores))
        and first.buffer is running
        and step.buffer is running
        and result.buffer is not running
        and not _loads(first.value, running)
    )
    if not fits or not isinstance(extent, tir.IntImm):
        return None
    if not isinstance(step.value, tir.Add | tir.Mul | tir.Max | tir.Min):
        return None
    sides = (step.value.a, step.value.b)
    position = next((i for i, side in enumerate(sides) if _is_element(side, running)), None)
    if position is None or _loads(sides[1 - position], running):
        return None
    return Scan(
        rows,
        block,
        running,
        first.value,
        loop.loop_var,
        extent.value,
        type(step.value),
        sides[1 - position],
        result,
        is_exclusive,
    )


def _is_element(expr: Any, buffer: tir.Buffer) -> bool:
    """Whether an expression is the one element of a buffer."""
    return isinstance(expr, tir.BufferLoad) and expr.buffer is buffer and expr.predicate is None


def _loads(expr: Any, buffer: tir.Buffer) -> bool:
    """Whether an expression reads memory of a buffer."""
    return any(load.buffer.data is buffer.data for load in loads_in(expr))


def _require_any_order(scan: Scan) -> None:
    rounds = dt.is_float(scan.running.dtype) and scan.operator in (tir.Add, tir.Mul)
    require(
        not rounds or RUNNING_REDUCTION in scan.block.annotations,
        _NAME,
        f"block {scan.block.name!r} adds or multiplies floats one after the other, and does not say that another order is right;"
        f" annotate it with {RUNNING_REDUCTION!r} where it is",
    )


def _require_separate(scan: Scan) -> None:
    """Refuse steps that store to one element, or read what others have stored."""
    places = scan.result.indices
    is_own = any(
        index is scan.var
        and not any(scan.var in variables_in(other) for j, other in enumerate(places) if j != i)
        for i, index in enumerate(places)
    )
    require(
        is_own and not any(loads_in(index) for index in places),
        _NAME,
        f"results in block {scan.block.name!r} do not lie one behind the other along a dimension of {scan.result.buffer.name}",
    )
    views = views_around(scan.block)
    written = source_of(scan.result.buffer, views)
    for load in loads_in(tir.seq(*map(tir.Evaluate, (scan.start, scan.term, scan.result.value)))):
        require(
            source_of(load.buffer, views).data is not written.data,
            _NAME,
            f"block {scan.block.name!r} reads {written.name}, which it writes",
        )


def _require_divides(number: Any, extent: int, what: str) -> None:
    divides = type(number) is int and number > 0 and extent % number == 0
    require(divides, _NAME, f"{number} {what} do not divide an extent of {extent}")


def _by_blocks(scan: Scan, parts: int, lanes: int) -> list[BlockNode]:
    _require_divides(parts, scan.extent, "blocks")
    _require_divides(lanes, scan.extent // parts, "lanes")
    n_rows, counted = scan.rows.extent, scan.rows.var.dtype
    require(
        getattr(n_rows, "value", 0) * parts <= dt.integer_range(counted)[1],
        _NAME,
        f"{parts} blocks each of {n_rows} rows are more than {counted} counts",
    )
    scope = scope_of(scan.rows)
    assert scope is not None
    made = _Blocks(scan, parts, lanes)
    names = [fresh_block_name(scope, f"{scan.block.name}_{suffix}") for suffix in ("sums", "before")]
    nests = [made.add_up(names[0]), made.look_back(names[1]), made.run(scan.block.name)]
    rows = scan.rows
    parent = rows.parent
    if isinstance(parent, SeqNode):
        place = parent.index(rows)
        for nest in reversed(nests[1:]):
            parent.insert(place + 1, nest)
        replace_node(rows, nests[0])
    else:
        replace_node(rows, SeqNode(list(nests)))
    scope.change(alloc_buffers=(*scope.alloc_buffers, made.sums))
    return [nest.body for nest in nests if isinstance(nest.body, BlockNode)]


class _Blocks:
    """The three loops that take the place of the loop over rows."""

    def __init__(self, scan: Scan, parts: int, lanes: int) -> None:
        self._scan, self._lanes = scan, lanes
        self._row_type, self._type = scan.rows.var.dtype, scan.var.dtype
        self._parts, self._length = parts, scan.extent // parts
        self._dtype = scan.running.dtype
        self.sums = tir.decl_buffer((scan.rows.extent, parts), self._dtype, f"{scan.block.name}_sums")

    def add_up(self, name: str) -> LoopNode:
        """What each block adds, in ``lanes`` partial results."""
        scan, lanes = self._scan, self._lanes
        number, row, part = self._of_blocks()
        step, lane = (tir.Var(name, self._type) for name in ("k", "lane"))
        partial = tir.decl_buffer((lanes,), self._dtype, scan.running.name, scope="local")
        identity = IDENTITIES[scan.operator](self._dtype)
        term = self._at(scan.term, row, part, step * self._constant(lanes) + lane)
        clear, other = (tir.Var("lane", self._type) for _ in range(2))
        body = tir.seq(
            self._over_lanes(clear, tir.BufferStore(partial, identity, [clear])),
            self._serial(
                step,
                self._length // lanes,
                self._over_lanes(lane, tir.BufferStore(partial, scan.operator(partial[lane], term), [lane])),
            ),
            tir.BufferStore(self.sums, identity, [row, part]),
            self._serial(
                other,
                lanes,
                tir.BufferStore(self.sums, scan.operator(self.sums[row, part], partial[other]), [row, part]),
            ),
        )
        own = [point_region(self.sums, [row, part])]
        reads = [*self._of_row(scan.block.reads, row), *own]
        return self._nest(name, number, self._parts, body, [partial], reads, own)

    def look_back(self, name: str) -> LoopNode:
        """What stands before each block."""
        scan = self._scan
        row = tir.Var(scan.rows.var.name, self._row_type)
        part = tir.Var("part", self._type)
        mine = tir.Var("sum", self._dtype)
        start = substitute(scan.start, {scan.rows.var: row})
        running = tir.decl_buffer((1,), self._dtype, scan.running.name, scope="local")
        body = tir.seq(
            tir.BufferStore(running, start, [0]),
            self._serial(
                part,
                self._parts,
                tir.LetStmt(
                    mine,
                    self.sums[row, part],
                    tir.seq(
                        tir.BufferStore(self.sums, running[0], [row, part]),
                        tir.BufferStore(running, scan.operator(running[0], mine), [0]),
                    ),
                ),
            ),
        )
        started_from = dict.fromkeys(load.buffer for load in loads_in(scan.start))
        own = [line_region(self.sums, [row], 1)]
        reads = [*own, *map(full_region, started_from)]
        return self._nest(name, row, 1, body, [running], reads, own)

    def run(self, name: str) -> LoopNode:
        """The results of each block."""
        scan = self._scan
        number, row, part = self._of_blocks()
        step = tir.Var(scan.var.name, self._type)
        zeros = [0] * len(scan.running.shape)
        running: Any = scan.running[tuple(zeros)]
        store = scan.result
        advance = tir.BufferStore(
            scan.running, scan.operator(running, self._at(scan.term, row, part, step)), zeros
        )
        emit = tir.BufferStore(
            store.buffer,
            self._at(store.value, row, part, step),
            [self._at(index, row, part, step) for index in store.indices],
        )
        body = tir.seq(
            tir.BufferStore(scan.running, self.sums[row, part], zeros),
            self._serial(
                step, self._length, tir.seq(emit, advance) if scan.is_exclusive else tir.seq(advance, emit)
            ),
        )
        reads = [*self._of_row(scan.block.reads, row), point_region(self.sums, [row, part])]
        writes = [self._of_block(region, part) for region in self._of_row(scan.block.writes, row)]
        return self._nest(name, number, self._parts, body, [scan.running], reads, writes)

    def _of_row(self, regions: Sequence[tir.BufferRegion], row: tir.PrimExpr) -> list[tir.BufferRegion]:
        """What the caller's block states of a row, of which no block touches more."""
        return [substitute(region, {self._scan.rows.var: row}) for region in regions]

    def _of_block(self, region: tir.BufferRegion, part: tir.PrimExpr) -> tir.BufferRegion:
        """What a block writes of what is written in a row."""
        ranges = list(region.region)
        for axis, index in enumerate(self._scan.result.indices):
            if index is self._scan.var:
                begin = tir.cast(self._type, part) * self._constant(self._length)
                ranges[axis] = tir.Range.from_min_extent(begin, self._constant(self._length))
        return tir.BufferRegion(region.buffer, ranges)

    def _of_blocks(self) -> tuple[tir.Var, tir.PrimExpr, tir.PrimExpr]:
        """A loop over all blocks of all rows: its variable, the row, and the block in it."""
        number = tir.Var(self._scan.rows.var.name, self._row_type)
        parts = tir.const(self._parts, self._row_type)
        return number, tir.floordiv(number, parts), tir.floormod(number, parts)

    def _at(self, expr: tir.PrimExpr, row: tir.PrimExpr, part: tir.PrimExpr, step: tir.PrimExpr) -> Any:
        """What the caller's expression is in a step of a block."""
        place = tir.cast(self._type, part) * self._constant(self._length) + step
        return substitute(expr, {self._scan.rows.var: row, self._scan.var: place})

    def _constant(self, number: int) -> Any:
        return tir.const(number, self._type)

    def _serial(self, var: tir.Var, extent: int, body: tir.Stmt) -> tir.Stmt:
        return tir.For(var, self._constant(0), self._constant(extent), ForKind.SERIAL, body)

    def _over_lanes(self, var: tir.Var, body: tir.Stmt) -> tir.Stmt:
        kind = ForKind.VECTORIZED if self._lanes > 1 else ForKind.SERIAL
        return tir.For(var, self._constant(0), self._constant(self._lanes), kind, body)

    def _nest(
        self,
        name: str,
        var: tir.Var,
        times: int,
        body: tir.Stmt,
        local: list[tir.Buffer],
        reads: list[tir.BufferRegion],
        writes: list[tir.BufferRegion],
    ) -> LoopNode:
        """A loop over so many times the rows, parallel where it runs more than once, and its block."""
        extent = self._scan.rows.extent * tir.const(times, self._row_type)
        once = getattr(extent, "value", None) == 1
        block = tir.Block((), reads, writes, name, body, None, local)
        realize = tir.BlockRealize((), tir.const(True), block)
        kind = ForKind.SERIAL if once else ForKind.PARALLEL
        node = tree_of(tir.For(var, tir.const(0, self._row_type), extent, kind, realize))
        assert isinstance(node, LoopNode)
        return node
