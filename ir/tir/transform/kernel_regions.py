"""The kernels of a program: each outermost statement that launches threads."""

from __future__ import annotations

from collections.abc import Callable

from ..expr import PrimExpr
from ..stmt import AttrStmt, Stmt
from ..stmt_functor import StmtExprMutator


class KernelRegions(StmtExprMutator):
    """Applies a function to each kernel of a program.

    Args:
        rewrite: what becomes of a kernel.
    """

    def __init__(self, rewrite: Callable[[Stmt], Stmt]) -> None:
        super().__init__()
        self._rewrite = rewrite

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        """Expressions hold no kernels."""
        return node

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        """A kernel is one piece."""
        return self._rewrite(stmt) if stmt.thread is not None else self.generic_visit(stmt)
