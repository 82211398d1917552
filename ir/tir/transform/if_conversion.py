"""IfConversion: small choices are computed on both sides instead of branched over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import dtype as dt
from ...module import IRModule
from ...transform import PassContext
from .. import expr as E
from ..analysis.contiguous import may_read_the_start
from ..expr import BufferLoad, Call, PrimExpr, Select
from ..faults import may_fault
from ..function import PrimFunc
from ..operators import logical_and, logical_not
from ..stmt_functor import StmtExprMutator, post_order_visit
from .prim_func_pass import PrimFuncPass

#: Nodes of both sides at most: about what a branch that is predicted wrongly costs.
_CHEAP_NODES = 24

_INNER = (E.BinaryOpExpr, E.Cast, E.CmpExpr, E.LogicalExpr, E.Not, E.Select, E.Broadcast, E.Ramp)


def _is_cheap(side: PrimExpr) -> bool:
    """Whether an expression is a little arithmetic on loads that may read elsewhere; calls and divisions are not.

    Indices do not count, which are short and shared, but they must have a value where the load is not wanted too.
    """
    count = 0
    cheap = True

    def check(node: Any) -> None:
        nonlocal count, cheap
        count += 1
        if not cheap or count > _CHEAP_NODES:
            cheap = False
        elif isinstance(node, BufferLoad):
            cheap = (
                node.predicate is None
                and may_read_the_start(node)
                and not any(may_fault(index, loads=False) or _binds(index) for index in node.indices)
            )
        elif isinstance(node, _INNER) and not isinstance(node, E.DIVISIONS):
            node._visit_children(check)
        else:
            cheap = isinstance(node, E.IntImm | E.FloatImm | E.Var)

    check(side)
    return cheap


def _binds(expr: PrimExpr) -> bool:
    """Whether variables are bound in an expression: a condition that moves into it, or is repeated, might mean others."""
    found = False

    def look(node: Any) -> None:
        nonlocal found
        found = found or isinstance(node, E.Let)

    post_order_visit(expr, look)
    return found


class _Convert(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.guard: PrimExpr | None = None  # under which the expression at hand counts

    def visit_Call(self, call: Call) -> PrimExpr:
        if getattr(call.op, "name", "") != "tir.if_then_else" or dt.lanes(call.args[0].dtype) > 1:
            return self.generic_visit(call)
        if (
            may_fault(call.args[0], loads=False)
            or _binds(call.args[0])
            or not all(_is_cheap(side) for side in call.args[1:])
        ):
            return self.generic_visit(call)  # the condition will stand at every load
        condition = self.visit(call.args[0])
        yes = self._under(condition, call.args[1])
        no = self._under(logical_not(condition), call.args[2])
        return Select(condition, yes, no)

    def _under(self, condition: PrimExpr, side: PrimExpr) -> PrimExpr:
        outer = self.guard  # of the load whose index holds this choice
        self.guard = condition if outer is None else logical_and(outer, condition)
        with self.forgetting():
            mapped = self.visit(side)
        self.guard = outer
        return mapped

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        if self.guard is None:
            return self.generic_visit(load)
        lanes = dt.lanes(load.dtype)
        return self.generic_visit(load).replace(
            predicate=self.guard if lanes == 1 else E.Broadcast(self.guard, lanes)
        )


@dataclass(frozen=True)
class IfConversion(PrimFuncPass):
    """Compute both sides of a small choice and select, where a branch would cost more.

    A load on a side that is not chosen is masked: it reads nothing, and gives zero. Only loads that may read the start of
    their buffer instead are taken, so that no branch comes back. (Allen, Kennedy, Porterfield and Warren,
    Conversion of control dependence to data dependence, POPL 1983.)

    Before::

        B[i] = T.if_then_else(1 <= i, A[i - 1], T.float32(0))

    After::

        B[i] = T.Select(1 <= i, A.vload(i - 1, predicate=1 <= i), T.float32(0))
    """

    pass_name = "tir.IfConversion"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with fewer branches."""
        body = _Convert().visit(func.body)
        return func if body is func.body else func.replace(body=body)
