"""interleave: several iterations of a parallel loop run at a time, step by step, so that their chains of dependent operations overlap.

A core that waits for one running sum has nothing else to do; four of them it computes in the time of one. (Unroll and jam: Allen,
Cocke: "A catalogue of optimizing transformations", 1972.)
"""

from __future__ import annotations

from typing import Any

from ir import tir
from ir.tir import ForKind
from ir.tir.analysis.undefined_vars import undefined_vars
from ir.tir.stmt_functor import StmtExprMutator, loads_in

from ..affine import mentions
from ..analysis import require
from ..argument import Input, Loop
from ..declaration import PrimitiveFamily, primitive
from ..error import ScheduleError
from ..random_variable import DecisionVar, ExprRV, LoopRV
from ..returns import require_no_return
from ..tree import BlockNode, LeafNode, LoopNode, blocks_below, replace_node, tree_of


class InterleavePrimitives(PrimitiveFamily):
    """Several iterations side by side."""

    @primitive("Interleave", loop=Loop(), factor=Input())
    def interleave(self, loop: LoopRV, factor: int | ExprRV) -> LoopRV:
        """Run iterations of a parallel loop several at a time: the loops in them are shared, each statement runs for one after the other.

        ``for i in T.parallel(8): s[0] = 0; for k in 9: s[0] += A[i, k]`` with a factor of 4 becomes ``for i_0 in T.parallel(2):``
        ``for i_1 in 4: s[i_1, 0] = 0; for k in 9: for i_1 in 4: s[i_1, 0] += A[i_0 * 4 + i_1, k]``, the loops over i_1 unrolled. The
        loop holds one block without iteration variables, whose own buffers grow by a dimension. Iterations of a parallel loop are
        independent by its meaning, so that nothing else must hold.

        Returns:
            The parallel loop, over groups of iterations.

        Raises:
            ScheduleError: the loop is not parallel, has annotations or starts elsewhere than at 0; it holds anything but one such
                block; buffers of the block have shapes that the loop says, or other names; the factor does not divide its extent; or no
                loop in the block runs alike for all iterations.
        """
        node = self._loop(loop)
        value = self._value(factor)
        block = _block_in(node)
        _require_divides(node, value)
        return self._new([_interleave(node, block, value)])[0]


def _block_in(loop: LoopNode) -> BlockNode:
    method, name = "interleave", loop.var.name
    require(
        loop.kind == ForKind.PARALLEL,
        method,
        f"loop {name!r} is not parallel: its iterations may have an order",
    )
    plain = not loop.annotations and loop.thread_binding is None and loop.begins_at_zero
    require(plain, method, f"loop {name!r} has annotations or does not begin at 0")
    require_no_return([loop], method, f"loop {name!r}, whose iterations would end together")
    block = loop.body
    is_opaque = (
        isinstance(block, BlockNode)
        and not block.iter_vars
        and not block.match_buffers
        and block.init is None
        and block.is_unconditional
        and not blocks_below(block.body)
    )
    require(
        is_opaque,
        method,
        f"loop {name!r} does not hold one block without iteration variables, views and blocks in it",
    )
    assert isinstance(block, BlockNode)
    _require_one_shape(loop, block)
    return block


def _require_one_shape(loop: LoopNode, block: BlockNode) -> None:
    """Refuse buffers of a block of which there cannot be several side by side."""
    for buffer in block.alloc_buffers:
        require(
            not any(mentions(extent, {loop.var}) for extent in buffer.shape),
            "interleave",
            f"buffer {buffer.name} in block {block.name!r} has another shape in each iteration of loop {loop.var.name!r}",
        )


def _require_divides(loop: LoopNode, factor: Any) -> None:
    extent, name = loop.extent, loop.var.name
    if not isinstance(extent, tir.IntImm):
        raise ScheduleError(f"interleave: loop {name!r} has extent {extent}, it must be constant")
    if isinstance(factor, DecisionVar):
        divides = getattr(factor, "tiled", None) == extent.value
    else:
        divides = isinstance(factor, tir.IntImm) and factor.value > 0 and extent.value % factor.value == 0
    require(divides, "interleave", f"{factor} does not divide the extent {extent} of loop {name!r}")


def _interleave(loop: LoopNode, block: BlockNode, factor: Any) -> LoopNode:
    own = {
        buffer: tir.decl_buffer((factor, *buffer.shape), buffer.dtype, buffer.name, scope=buffer.scope())
        for buffer in block.alloc_buffers
    }
    jam = _Jam(loop, factor, own)
    body = jam.step(block.body.stmt())
    require(
        jam.n_shared > 0,
        "interleave",
        f"no loop in block {block.name!r} runs alike for all iterations of {loop.var.name!r}",
    )
    named = set(undefined_vars(body)).intersection(buffer.data for buffer in own)
    require(
        not named,
        "interleave",
        f"block {block.name!r} uses {', '.join(sorted(var.name for var in named))} by another name than that of its buffer",
    )
    block.set_body(tree_of(body))
    block.change(
        alloc_buffers=tuple(own.values()),
        reads=tuple(map(jam.region, block.reads)),
        writes=tuple(map(jam.region, block.writes)),
    )
    new = LoopNode(
        jam.group,
        tir.floordiv(loop.extent, tir.cast(loop.var.dtype, factor)),
        LeafNode(tir.Evaluate(tir.const(0))),
    )
    new.kind = ForKind.PARALLEL
    replace_node(loop, new)
    new.set_body(block)
    return new


class _Jam:
    """Statements of several iterations, merged."""

    def __init__(self, loop: LoopNode, factor: Any, own: dict[tir.Buffer, tir.Buffer]) -> None:
        dtype = loop.var.dtype
        self.loop, self.own = loop, own
        self.factor = tir.cast(dtype, factor)
        self.group = tir.Var(f"{loop.var.name}_0", dtype)
        self.n_shared = 0

    def step(self, stmt: tir.Stmt) -> tir.Stmt:
        """What a statement becomes."""
        if isinstance(stmt, tir.SeqStmt):
            return tir.seq(*[self.step(item) for item in stmt.seq])
        if isinstance(stmt, tir.For) and self._runs_alike(stmt):
            self.n_shared += 1
            return stmt.replace(body=self.step(stmt.body))
        number = tir.Var(f"{self.loop.var.name}_1", self.loop.var.dtype)
        one = _Iteration(self.loop.var, self.group * self.factor + number, number, self.own).visit(stmt)
        return tir.For(number, tir.const(0, number.dtype), self.factor, ForKind.UNROLLED, one)

    def region(self, region: tir.BufferRegion) -> tir.BufferRegion:
        """What all iterations of a group touch: whole dimensions where it moves with them."""
        ranges = [
            tir.Range.from_min_extent(tir.const(0, extent.dtype), extent)
            if mentions(item.min, {self.loop.var}) or mentions(item.extent, {self.loop.var})
            else item
            for item, extent in zip(region.region, region.buffer.shape, strict=True)
        ]
        return tir.BufferRegion(region.buffer, ranges)

    def _runs_alike(self, stmt: tir.For) -> bool:
        """Whether a loop has the same iterations whatever the parallel loop's is; bounds that are data may differ."""
        bounds = (stmt.min, stmt.extent)
        return stmt.kind in (ForKind.SERIAL, ForKind.UNROLLED) and not any(
            mentions(item, {self.loop.var}) or loads_in(item) for item in bounds
        )


class _Iteration(StmtExprMutator):
    """A statement as one iteration of a group runs it."""

    def __init__(self, var: Any, value: Any, number: tir.Var, own: dict[tir.Buffer, tir.Buffer]) -> None:
        super().__init__()
        self._var, self._value, self._number, self._own = var, value, number, own

    def visit_Var(self, var: tir.Var) -> Any:
        return self._value if var is self._var else var

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        found = self.generic_visit(load)
        if found.buffer not in self._own:
            return found
        return found.replace(buffer=self._own[found.buffer], indices=(self._number, *found.indices))

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        found = self.generic_visit(store)
        if found.buffer not in self._own:
            return found
        return found.replace(buffer=self._own[found.buffer], indices=(self._number, *found.indices))
