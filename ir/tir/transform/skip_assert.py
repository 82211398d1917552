"""SkipAssert: assertions disappear."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...node import Mutator
from ...transform import PassContext
from ..expr import PrimExpr
from ..function import PrimFunc
from ..stmt import AssertStmt, Stmt
from .prim_func_pass import PrimFuncPass


class _Skip(Mutator):
    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        return self.visit(node.body)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class SkipAssert(PrimFuncPass):
    """Drop every assertion, keeping what follows it.

    Before::

        assert n > 0, "n must be positive"
        A[0] = n

    After::

        A[0] = n
    """

    pass_name = "tir.SkipAssert"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without assertions."""
        return func.replace(body=_Skip().visit(func.body))
