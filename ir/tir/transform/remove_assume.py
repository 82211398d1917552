"""RemoveAssume: promises that simplification has made use of disappear."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...node import Mutator
from ...transform import PassContext
from ..expr import Call, PrimExpr
from ..function import PrimFunc
from ..operators import const
from ..stmt import Evaluate, SeqStmt, Stmt, seq
from .prim_func_pass import PrimFuncPass


def is_nothing(stmt: Stmt) -> bool:
    """Whether a statement is ``T.evaluate`` of a constant."""
    return isinstance(stmt, Evaluate) and not isinstance(stmt.value, Call)


class _Remove(Mutator):
    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        value = node.value
        if isinstance(value, Call) and getattr(value.op, "name", "") == "tir.assume":
            return Evaluate(const(0))
        return node

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        mapped = [self.visit(item) for item in node.seq]
        kept = [new for new, old in zip(mapped, node.seq) if new is old or not is_nothing(new)]
        if all(a is b for a, b in zip(mapped, node.seq)):
            return node
        return seq(kept) if kept else Evaluate(const(0))


@dataclass(frozen=True)
class RemoveAssume(PrimFuncPass):
    """Drop every ``T.assume(condition)``.

    Before::

        T.assume(n < 16)
        A[0] = n

    After::

        A[0] = n
    """

    pass_name = "tir.RemoveAssume"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without assumptions."""
        return func.replace(body=_Remove().visit(func.body))
