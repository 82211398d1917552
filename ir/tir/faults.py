"""Whether an expression may be evaluated where the program would not."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import dtype as dt
from ..node import Visitor
from . import expr as E
from .expr import PrimExpr
from .intrinsic.declaration import CallEffectKind, effect_of


def may_divide_by_zero(node: PrimExpr) -> bool:
    """Whether a node is a division of integers by something else than a number."""
    if not isinstance(node, E.DIVISIONS) or not dt.is_integral(node.dtype):
        return False
    divisor = node.b.value if isinstance(node.b, E.Broadcast) else node.b
    return not isinstance(divisor, E.IntImm) or divisor.value == 0


class _Faults(Visitor):
    remembers: ClassVar[bool] = True

    def __init__(self, loads: bool) -> None:
        super().__init__()
        self.loads = loads
        self.found = False

    def visit_Buffer(self, buffer: Any) -> None:
        pass

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        if self.loads:
            self.found = True
        else:
            self.generic_visit(load)

    def visit_BinaryOpExpr(self, node: E.BinaryOpExpr) -> None:
        self.found |= may_divide_by_zero(node)
        self.generic_visit(node)

    def visit_Call(self, call: E.Call) -> None:
        # the condition of a choice guards its sides, but perhaps not from what else guards the choice
        self.found |= effect_of(call) > CallEffectKind.PURE
        self.generic_visit(call)


def may_fault(expr: PrimExpr, loads: bool = True) -> bool:
    """Whether evaluating an expression may do more than give a value: read out of bounds, divide by zero, have an effect.

    Args:
        expr: the expression.
        loads: whether loads count; not where they will be masked.
    """
    visitor = _Faults(loads)
    visitor.visit(expr)
    return visitor.found
