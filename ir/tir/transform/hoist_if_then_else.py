"""HoistIfThenElse: a condition that a loop does not change is tested outside of the loop."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...node import Mutator, post_order_visit
from ...transform import PassContext
from ..conjunction import conjunction, marked_conjuncts
from ..expr import BufferLoad, PrimExpr, Var
from ..faults import may_fault
from ..function import PrimFunc
from ..stmt import For, IfThenElse, Stmt
from .prim_func_pass import PrimFuncPass


def _is_held(clause: PrimExpr, var: Var) -> bool:
    """Whether a clause stays in its loop: it may change from one iteration to the next, or fault where the loop has none."""
    if may_fault(clause):
        return True
    found = False

    def check(node: object) -> None:
        nonlocal found
        if node is var or isinstance(node, BufferLoad):
            found = True

    post_order_visit(clause, check)
    return found


class _Hoist(Mutator):
    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_For(self, loop: For) -> Stmt:
        body = self.visit(loop.body)
        return _hoisted(loop if body is loop.body else loop.replace(body=body))


def _hoisted(loop: For) -> Stmt:
    """A loop within the conditions of its body that it does not change, also those of a choice that stands in another one."""
    body = loop.body
    if not isinstance(body, IfThenElse):
        return loop
    fixed: list[PrimExpr] = []
    varying: list[PrimExpr] = []
    for clause in marked_conjuncts(body.condition):
        (varying if _is_held(clause, loop.loop_var) else fixed).append(clause)
    outer = conjunction(fixed)
    if outer is None or (varying and body.else_case is not None):
        return loop
    inner = conjunction(varying)
    then = loop.replace(body=body.then_case if inner is None else IfThenElse(inner, body.then_case))
    otherwise = _hoisted(loop.replace(body=body.else_case)) if body.else_case is not None else None
    return IfThenElse(outer, _hoisted(then), otherwise, body.span)


@dataclass(frozen=True)
class HoistIfThenElse(PrimFuncPass):
    """Move invariant conditions out of loops, clause by clause.

    Before::

        for i in range(16):
            for j in range(16):
                if n < 3 and i < 10:
                    A[i, j] = 0.0

    After::

        if n < 3:
            for i in range(16):
                if i < 10:
                    for j in range(16):
                        A[i, j] = 0.0
    """

    pass_name = "tir.HoistIfThenElse"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with conditions as far out as they go."""
        return func.replace(body=_Hoist().visit(func.body))
