"""Reductions over what may be nothing: where no iteration comes to write the first value, statements beside the loops write it."""

from __future__ import annotations

from typing import Any

from ...node import Visitor
from ..analysis.undefined_vars import undefined_vars
from ..expr import IntImm, IterVar, Or, PrimExpr, Range, Var
from ..operators import const
from ..stmt import Block, BlockRealize, BufferRegion, For, ForKind, IfThenElse, Stmt
from ..stmt_functor import substitute
from .loop_partition import conjunction, split_conjunction


def identities_beside_loops(body: Stmt) -> dict[int, list[Stmt]]:
    """By identity of a loop: the statements that stand before it.

    The loops are the outermost ones of reductions with an extent that is no number; each statement initializes what the reduction
    writes in this loop, if the extent is 0. A loop that is of the reduction and of what it writes at once has none.
    """
    finder = _Find()
    finder.visit(body)
    return finder.found


class _Find(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.loops: list[For] = []
        self.found: dict[int, list[Stmt]] = {}

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        pass

    def visit_BufferRegion(self, node: BufferRegion) -> None:
        pass

    def visit_For(self, loop: For) -> None:
        self.loops.append(loop)
        self.visit(loop.body)
        self.loops.pop()

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        self._look(realize)
        outer, self.loops = self.loops, []
        self.visit(realize.block.body)
        self.loops = outer

    def _look(self, realize: BlockRealize) -> None:
        block = realize.block
        axes = list(zip(block.iter_vars, realize.iter_values, strict=True))
        reduced = [(axis, value) for axis, value in axes if axis.iter_type == IterVar.CommReduce]
        empty = _is_empty([axis for axis, _ in reduced])
        if block.init is None or empty is None:
            return
        of_reduction = _variables([value for _, value in reduced])
        kept = _variables([value for axis, value in axes if axis.iter_type != IterVar.CommReduce])
        first = next((n for n, loop in enumerate(self.loops) if loop.loop_var in of_reduction), None)
        if first is None or any(loop.loop_var in of_reduction & kept for loop in self.loops[first:]):
            return
        inner = [loop for loop in self.loops[first:] if loop.loop_var in kept]
        dropped = {loop.loop_var for loop in self.loops[first:]} - {loop.loop_var for loop in inner}
        if _variables([part for loop in inner for part in (loop.min, loop.extent)]) & dropped:
            return
        nest = _nest(inner, _initialization(realize, dropped))
        self.found.setdefault(id(self.loops[first]), []).append(IfThenElse(empty, nest))


def _is_empty(axes: list[IterVar]) -> PrimExpr | None:
    """Whether one of the extents that are no numbers is 0; None where all are numbers."""
    condition: PrimExpr | None = None
    for axis in axes:
        if not isinstance(axis.dom.extent, IntImm):
            clause = axis.dom.extent <= const(0, axis.dom.extent.dtype)
            condition = clause if condition is None else Or(condition, clause)
    return condition


def _variables(exprs: list[PrimExpr]) -> set[Var]:
    return {var for expr in exprs for var in undefined_vars(expr)}


def _initialization(realize: BlockRealize, dropped: set[Var]) -> BlockRealize:
    """The block without its reduction: what is left of its variables, its predicate and its regions."""
    block = realize.block
    axes: list[IterVar] = []
    values: list[PrimExpr] = []
    fresh: dict[Any, Any] = {}
    for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
        if axis.iter_type != IterVar.CommReduce:
            fresh[axis.var] = Var(axis.var.name, axis.var.dtype)
            axes.append(IterVar(axis.dom, fresh[axis.var], axis.iter_type, axis.thread_tag))
            values.append(value)
    clauses = split_conjunction(realize.predicate)
    predicate = conjunction([clause for clause in clauses if not _variables([clause]) & dropped])
    writes = [
        BufferRegion(
            region.buffer,
            [
                Range.from_min_extent(substitute(r.min, fresh), substitute(r.extent, fresh))
                for r in region.region
            ],
        )
        for region in block.writes
    ]
    assert block.init is not None
    first = Block(axes, (), writes, f"{block.name_hint}_identity", substitute(block.init, fresh))
    return BlockRealize(values, const(True) if predicate is None else predicate, first)


def _nest(loops: list[For], body: Stmt) -> Stmt:
    """Serial loops with variables of their own around a body."""
    fresh: dict[Any, Any] = {loop.loop_var: Var(loop.loop_var.name, loop.loop_var.dtype) for loop in loops}
    body = substitute(body, fresh)
    for loop in reversed(loops):
        start, extent = substitute(loop.min, fresh), substitute(loop.extent, fresh)
        body = For(fresh[loop.loop_var], start, extent, ForKind.SERIAL, body)
    return body
