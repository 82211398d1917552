"""Reductions over nothing: where no iteration comes to write the first value, statements beside the loops write it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...node import Node, Visitor
from ..analysis.block_access_region import stating_its_accesses
from ..analysis.empty_domains import may_be_empty
from ..analysis.undefined_vars import undefined_vars
from ..conjunction import conjunction, conjuncts
from ..expr import IterVar, Not, Or, PrimExpr, Range, Var
from ..operators import const
from ..stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
)
from ..stmt_functor import substitute
from .fresh_copy import fresh_copy

_Step = Stmt | PrimExpr
"""What stands around a block: a statement, or the condition that guards it."""


def identities_beside_loops(body: Stmt) -> dict[int, list[Stmt]]:
    """By identity of a loop: the statements that stand before it.

    The loops are the outermost ones that feed the reduction variables of a block with an ``init``; each statement initializes what the
    block writes, if the domain of such a variable is empty (rule ``[reduce-empty]`` of ``docs/semantics.md``).
    """
    finder = _Find()
    finder.visit(body)
    return finder.found


class _Find(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.path: list[_Step] = []
        self.found: dict[int, list[Stmt]] = {}

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        pass

    def visit_BufferRegion(self, node: BufferRegion) -> None:
        pass

    def _below(self, step: _Step, body: Node) -> None:
        self.path.append(step)
        self.visit(body)
        self.path.pop()

    def visit_Stmt(self, node: Stmt) -> None:
        self.path.append(node)
        self.generic_visit(node)
        self.path.pop()

    def visit_SeqStmt(self, node: SeqStmt) -> None:
        self.generic_visit(node)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self._below(node.condition, node.then_case)
        if node.else_case is not None:
            self._below(Not(node.condition), node.else_case)

    def visit_BlockRealize(self, realize: BlockRealize) -> None:
        placed = _identity(realize, self.path)
        if placed is not None:
            self.found.setdefault(id(placed[0]), []).append(placed[1])
        outer, self.path = self.path, []
        self.visit(realize.block.body)
        self.path = outer


def _identity(realize: BlockRealize, path: Sequence[_Step]) -> tuple[For, Stmt] | None:
    """The loop that the initialization of a block stands before, and this; None where nothing is to be initialized."""
    block = realize.block
    axes = list(zip(block.iter_vars, realize.iter_values, strict=True))
    reduced = [(axis, value) for axis, value in axes if axis.iter_type == IterVar.CommReduce]
    kept = [(axis, value) for axis, value in axes if axis.iter_type != IterVar.CommReduce]
    if block.init is None or not any(may_be_empty(axis.dom.extent) for axis, _ in reduced):
        return None
    absent = _loops_feeding([value for _, value in reduced], path)
    first = next(
        (n for n, step in enumerate(path) if isinstance(step, For) and step.loop_var in absent), None
    )
    steps = None if first is None else _kept_steps(path[first:], absent)
    if first is None or steps is None or _variables([value for _, value in kept]) & absent:
        return None
    absent |= {axis.var for axis, _ in reduced}
    initialization = _initialization(realize, kept, absent)
    empty = empty_domain([axis for axis, _ in reduced], absent)
    if initialization is None or empty is None:
        return None
    top = path[first]
    assert isinstance(top, For)
    return top, fresh_copy(_nest(steps, empty, initialization))


def _loops_feeding(values: Iterable[PrimExpr], path: Sequence[_Step]) -> set[Var]:
    """The variables of those loops that values are computed from, also through lets."""
    found = _variables(values)
    for step in reversed(path):
        if isinstance(step, LetStmt) and step.var in found:
            found |= _variables([step.value])
    return {step.loop_var for step in path if isinstance(step, For) and step.loop_var in found}


def _kept_steps(path: Sequence[_Step], absent: set[Var]) -> list[_Step] | None:
    """What of the path does not depend on what is absent; None where that cannot stand without the rest.

    Lets that depend on it become absent, too.
    """
    kept: list[_Step] = []
    for step in path:
        if isinstance(step, PrimExpr):
            kept += [clause for clause in conjuncts(step) if not _variables([clause]) & absent]
        elif isinstance(step, For):
            if step.loop_var in absent:
                continue
            if _variables([step.min, step.extent]) & absent:
                return None
            kept.append(step)
        elif not isinstance(step, LetStmt):
            return None
        elif _variables([step.value]) & absent:
            absent.add(step.var)
        else:
            kept.append(step)
    return kept


def empty_domain(axes: Sequence[IterVar], absent: set[Var] | frozenset[Var] = frozenset()) -> PrimExpr | None:
    """Whether the domain of one of the axes is empty, but for extents of absent variables; None where no domain can be."""
    condition: PrimExpr | None = None
    for axis in axes:
        extent = axis.dom.extent
        if may_be_empty(extent) and not _variables([extent]) & absent:
            clause = extent <= const(0, extent.dtype)
            condition = clause if condition is None else Or(condition, clause)
    return condition


def _variables(nodes: Iterable[Any]) -> set[Var]:
    return {var for node in nodes for var in undefined_vars(node)}


def _initialization(
    realize: BlockRealize, kept: Sequence[tuple[IterVar, PrimExpr]], absent: set[Var]
) -> BlockRealize | None:
    """The block without its reduction: what is left of its variables, its predicate, its regions and its views."""
    block = realize.block
    assert block.init is not None
    used = set(undefined_vars(block.init))
    matches = [match for match in block.match_buffers if match.buffer.data in used]
    if used & absent or _variables(item for match in matches for item in _bounds(match.source)) & absent:
        return None
    memory = used | {match.source.buffer.data for match in matches}
    clauses = conjuncts(realize.predicate)
    predicate = conjunction([clause for clause in clauses if not _variables([clause]) & absent])
    fresh: dict[Any, Any] = {axis.var: Var(axis.var.name, axis.var.dtype) for axis, _ in kept}
    first = Block(
        [IterVar(axis.dom, fresh[axis.var], axis.iter_type, axis.thread_tag) for axis, _ in kept],
        block.reads,
        block.writes,
        f"{block.name_hint}_identity",
        substitute(block.init, fresh),
        None,
        [item for item in block.alloc_buffers if item.data in memory],
        [MatchBufferRegion(match.buffer, _moved(match.source, fresh)) for match in matches],
    )
    return BlockRealize(
        [value for _, value in kept],
        const(True) if predicate is None else predicate,
        stating_its_accesses(first),
    )


def _bounds(region: BufferRegion) -> list[PrimExpr]:
    return [bound for item in region.region for bound in (item.min, item.extent)]


def _moved(region: BufferRegion, values: dict[Any, Any]) -> BufferRegion:
    return BufferRegion(
        region.buffer,
        [
            Range.from_min_extent(substitute(item.min, values), substitute(item.extent, values))
            for item in region.region
        ],
    )


def _nest(steps: Sequence[_Step], empty: PrimExpr, body: Stmt) -> Stmt:
    """A body in serial loops, lets and guards; the condition stands as far out as its variables allow."""
    open_condition: PrimExpr | None = empty
    used = _variables([empty])
    for step in reversed(steps):
        defined = step.loop_var if isinstance(step, For) else step.var if isinstance(step, LetStmt) else None
        if open_condition is not None and defined in used:
            body, open_condition = IfThenElse(open_condition, body), None
        if isinstance(step, For):
            body = For(step.loop_var, step.min, step.extent, ForKind.SERIAL, body)
        elif isinstance(step, LetStmt):
            body = LetStmt(step.var, step.value, body)
        elif isinstance(step, PrimExpr):
            body = IfThenElse(step, body)
    return body if open_condition is None else IfThenElse(open_condition, body)
