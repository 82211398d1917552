"""RewriteUnsafeSelect: a Select whose sides may fault evaluates only the side it takes."""

from __future__ import annotations

from dataclasses import dataclass

from ... import dtype as dt
from ...module import IRModule
from ...node import Mutator
from ...transform import PassContext
from ..expr import PrimExpr, Select
from ..faults import may_fault
from ..function import PrimFunc
from ..intrinsic.control import if_then_else
from .prim_func_pass import PrimFuncPass


class _Rewrite(Mutator):
    def visit_Select(self, node: Select) -> PrimExpr:
        mapped: Select = self.generic_visit(node)
        if dt.lanes(mapped.condition.dtype) == 1 and (
            may_fault(mapped.true_value) or may_fault(mapped.false_value)
        ):
            return if_then_else(mapped.condition, mapped.true_value, mapped.false_value)
        return mapped


@dataclass(frozen=True)
class RewriteUnsafeSelect(PrimFuncPass):
    """Turn a Select into ``T.if_then_else`` where evaluating the side that is not taken could fault.

    Before::

        B[i] = T.Select(1 <= i, A[i - 1], T.float32(0))

    After::

        B[i] = T.if_then_else(1 <= i, A[i - 1], T.float32(0))
    """

    pass_name = "tir.RewriteUnsafeSelect"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with guarded choices."""
        return func.replace(body=_Rewrite().visit(func.body))
