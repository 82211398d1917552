"""UniteMasks: masks that are the same in all lanes become one condition."""

from __future__ import annotations

from dataclasses import dataclass

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...module import IRModule
from ...transform import PassContext
from .. import expr as E
from ..buffer import Buffer
from ..expr import Broadcast, IntImm, PrimExpr, Ramp
from ..function import PrimFunc
from .positions import PositionedMutator
from .prim_func_pass import PrimFuncPass

_AS_POSITIVE: dict[type, tuple[bool, int]] = {
    E.LT: (False, 0),
    E.LE: (False, 1),
    E.GT: (True, 0),
    E.GE: (True, 1),
}
"""A comparison of a and b holds where ``b - a`` (``a - b`` if swapped) plus a number is positive."""


class _Unite(PositionedMutator):
    def __init__(self) -> None:
        super().__init__()
        self._analyzer = Analyzer()

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def comparison(self, node: E.CmpExpr) -> PrimExpr:
        """One condition for all lanes of a comparison of numbers; that of data may wrap between them."""
        if self.in_data:
            return self.generic_visit(node)  # type: ignore[no-any-return]
        lanes = dt.lanes(node.a.dtype)
        shape = _AS_POSITIVE.get(node.__class__)
        if lanes == 1 or shape is None:
            return node
        first, second = _first_and_step(node.a), _first_and_step(node.b)
        if first is None or second is None:
            return node
        swapped, more = shape
        (a, a_step), (b, b_step) = (second, first) if swapped else (first, second)
        if self._is_crossed(b - a + more, (b_step - a_step) * (lanes - 1)):
            return node
        return Broadcast(node.__class__(first[0], second[0]), lanes)

    def _is_crossed(self, value: PrimExpr, change: int) -> bool:
        """Whether a number may be positive in the first lane and not in the last, which differs from it by ``change``, or the reverse."""
        low, high = (1 - change, 0) if change >= 0 else (1, -change)
        found = self._analyzer.modular_set(value)
        if found.coeff == 0:
            return low <= found.base <= high
        return low + (found.base - low) % found.coeff <= high

    def visit_And(self, node: E.And) -> PrimExpr:
        return self._connected(node)

    def visit_Or(self, node: E.Or) -> PrimExpr:
        return self._connected(node)

    def _connected(self, node: E.And | E.Or) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if isinstance(a, Broadcast) and isinstance(b, Broadcast):
            return Broadcast(node.__class__(a.value, b.value), a.lanes)
        return node if a is node.a and b is node.b else node.replace(a=a, b=b)


def _first_and_step(expr: PrimExpr) -> tuple[PrimExpr, int] | None:
    """The first lane of a vector and the distance of its lanes."""
    if isinstance(expr, Broadcast):
        return expr.value, 0
    if isinstance(expr, Ramp) and isinstance(expr.stride, IntImm):
        return expr.base, expr.stride.value
    return None


@dataclass(frozen=True)
class UniteMasks(PrimFuncPass):
    """Make one condition of a vectorized comparison of indices that holds in all lanes or in none.

    Neighbours that are read or written at once begin at multiples of their number; where a tile's end is one, too, no vector crosses
    it. Threads of GPUs have no masks, and a condition for all lanes leaves an access in one piece.

    Before::

        A[T.Ramp(i * 4, 1, 4), predicate=T.Ramp(i * 4, 1, 4) < T.Broadcast(100, 4)]

    After::

        A[T.Ramp(i * 4, 1, 4), predicate=T.Broadcast(i * 4 < 100, 4)]
    """

    pass_name = "tir.UniteMasks"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with fewer masks."""
        body = _Unite().visit(func.body)
        return func if body is func.body else func.replace(body=body)
