"""A statement of several loops in parts that are straight-line code, each under the loops that run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ir import tir


@dataclass
class StraightPart:
    """Statements without loops."""

    loops: list[tir.For]
    """Around them, outermost first."""
    names: Mapping[Any, Any]
    """Values of the names that are bound around them."""
    statements: list[tir.Stmt] = field(default_factory=list)

    def stmt(self) -> tir.Stmt:
        """All of them."""
        return tir.seq(self.statements)


def straight_parts(stmt: tir.Stmt) -> list[StraightPart]:
    """The parts of a statement in program order; conditions and values of names are parts where what they are for has loops.

    Both branches of an ``if`` count, as the threads of a warp run both where they disagree.
    """
    return [part for part in _parts(stmt, [], {}) if part.statements]


def _parts(stmt: tir.Stmt, loops: list[tir.For], names: Mapping[Any, Any]) -> Iterator[StraightPart]:
    if not _has_loops(stmt):
        yield StraightPart(loops, names, [stmt])
    elif isinstance(stmt, tir.For):
        yield from _parts(stmt.body, [*loops, stmt], names)
    elif isinstance(stmt, tir.SeqStmt):
        straight = StraightPart(loops, names)
        for item in stmt.seq:
            if _has_loops(item):
                yield straight
                straight = StraightPart(loops, names)
                yield from _parts(item, loops, names)
            else:
                straight.statements.append(item)
        yield straight
    else:
        value = getattr(stmt, "condition", getattr(stmt, "value", None))
        if isinstance(value, tir.PrimExpr):
            yield StraightPart(loops, names, [tir.Evaluate(value)])
        inner = {**names, stmt.var: stmt.value} if isinstance(stmt, tir.LetStmt) else names
        for name in ("body", "then_case", "else_case"):
            below = getattr(stmt, name, None)
            if isinstance(below, tir.Stmt):
                yield from _parts(below, loops, inner)


def _has_loops(stmt: tir.Stmt) -> bool:
    found: list[tir.For] = []

    def visit(node: Any) -> bool:
        if found or isinstance(node, tir.PrimExpr):
            return False
        if isinstance(node, tir.For):
            found.append(node)
        return not found

    tir.pre_order_visit(stmt, visit)
    return bool(found)
