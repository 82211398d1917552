"""ConvertSSA: every variable is defined once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...module import IRModule
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import Let, PrimExpr, Var
from ..function import PrimFunc
from ..stmt import Allocate, AllocateConst, For, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass


class _Rename(StmtExprMutator):
    """Renames second and later definitions; a definition holds in the body that follows it."""

    remembers: ClassVar[bool] = False  # every definition that is met again becomes another one

    def __init__(self, taken: set[Var]) -> None:
        super().__init__()
        self.taken = taken
        self.renamed: dict[Var, Var] = {}

    def _define(self, var: Var) -> tuple[Var, Var | None]:
        """The variable to use for a definition, and what it stood for outside."""
        outer = self.renamed.get(var)
        if var in self.taken:
            self.renamed[var] = type(var)(var.name, var.type_annotation or var.dtype)
            self._buffers.clear()
        else:
            self.taken.add(var)
            self.renamed.pop(var, None)
        return self.renamed.get(var, var), outer

    def _restore(self, var: Var, outer: Var | None) -> None:
        if self.renamed.get(var) is not outer:
            self._buffers.clear()
        if outer is None:
            self.renamed.pop(var, None)
        else:
            self.renamed[var] = outer

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.renamed.get(var, var)

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        if buffer.data not in self.renamed:
            return buffer
        found = self._buffers.get(buffer)
        if found is None:
            found = self._buffers[buffer] = buffer.replace(data=self.renamed[buffer.data])
        return found

    def visit_For(self, loop: For) -> Stmt:
        start, extent = self.visit(loop.min), self.visit(loop.extent)
        var, outer = self._define(loop.loop_var)
        mapped = loop.replace(loop_var=var, min=start, extent=extent, body=self.visit(loop.body))
        self._restore(loop.loop_var, outer)
        return mapped

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        var, outer = self._define(node.var)
        mapped = node.replace(var=var, value=value, body=self.visit(node.body))
        self._restore(node.var, outer)
        return mapped

    def visit_Let(self, node: Let) -> PrimExpr:
        value = self.visit(node.value)
        var, outer = self._define(node.var)
        mapped = node.replace(var=var, value=value, body=self.visit(node.body))
        self._restore(node.var, outer)
        return mapped

    def visit_Allocate(self, node: Allocate | AllocateConst) -> Stmt:
        var, outer = self._define(node.buffer_var)
        mapped = self.generic_visit(node).replace(buffer_var=var)
        self._restore(node.buffer_var, outer)
        return mapped

    visit_AllocateConst = visit_Allocate


@dataclass(frozen=True)
class ConvertSSA(PrimFuncPass):
    """Give each loop, let and allocation a variable of its own.

    Before (both loops define the same variable)::

        for i in range(4): A[i] = 0.0
        for i in range(4): B[i] = 0.0

    After (two variables called ``i``)::

        for i in range(4): A[i] = 0.0
        for i in range(4): B[i] = 0.0
    """

    pass_name = "tir.ConvertSSA"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function in which no variable is defined twice."""
        return func.replace(body=_Rename(set(func.params)).visit(func.body))
