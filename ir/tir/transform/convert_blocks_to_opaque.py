"""ConvertBlocksToOpaque: replace block axes by the values that they are bound to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..expr import PrimExpr, Var
from ..function import PrimFunc
from ..stmt import BlockRealize, Stmt
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass


class _Substitute(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Var, PrimExpr] = {}
        self._constant_buffers: set[Any] = set()

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        block = realize.block
        values = [self.visit(value) for value in realize.iter_values]
        for axis, value in zip(block.iter_vars, values):
            self.values[axis.var] = value
        # A buffer whose declaration mentions an axis depends on the block; those are few, and dropping what was
        # mapped before is enough because every block maps its own.
        predicate = self.visit(realize.predicate)
        mapped = block.replace(iter_vars=())
        mapped = self.generic_visit(mapped)
        annotations = self.visit_annotations(block.annotations) if block.annotations else block.annotations
        if annotations is not block.annotations:
            mapped = mapped.replace(annotations=annotations)
        return BlockRealize((), predicate, mapped, realize.span)


@dataclass(frozen=True)
class ConvertBlocksToOpaque(PrimFuncPass):
    """Substitute the values of block axes into block bodies, so that blocks only carry scopes and predicates.

    Before::

        for i0, i1 in T.grid(4, 4):
            with T.block("B"):
                vi = T.axis.spatial(16, i0 * 4 + i1)
                B[vi] = A[vi] + 1.0

    After::

        for i0, i1 in T.grid(4, 4):
            with T.block("B"):
                B[i0 * 4 + i1] = A[i0 * 4 + i1] + 1.0
    """

    pass_name = "tir.ConvertBlocksToOpaque"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function whose blocks have no axes."""
        return func.replace(body=_Substitute().visit(func.body))
