"""RewriteUnsafeSelect: a Select whose sides may fault evaluates only the side it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import dtype as dt
from ...module import IRModule
from ...node import Mutator
from ...transform import PassContext
from ..expr import BufferLoad, Call, Div, FloorDiv, FloorMod, IntImm, Mod, PrimExpr, Select
from ..function import PrimFunc
from ..intrinsic.control import if_then_else
from ..intrinsic.declaration import CallEffectKind, effect_of
from .prim_func_pass import PrimFuncPass


def _may_fault(expr: Any) -> bool:
    """Loads may be out of bounds, divisors zero, calls impure; a guarded choice faults only by its condition."""
    if isinstance(expr, BufferLoad):
        return True
    if isinstance(expr, Div | Mod | FloorDiv | FloorMod) and dt.is_integral(expr.dtype):
        if not isinstance(expr.b, IntImm) or expr.b.value == 0:
            return True
    if isinstance(expr, Call):
        if getattr(expr.op, "name", "") == "tir.if_then_else":
            return _may_fault(expr.args[0])
        if effect_of(expr) > CallEffectKind.PURE:
            return True
    found: list[bool] = []
    expr._visit_children(
        lambda child: found.append(_may_fault(child)) if isinstance(child, PrimExpr) else None
    )
    return any(found)


class _Rewrite(Mutator):
    def visit_Select(self, node: Select) -> PrimExpr:
        mapped: Select = self.generic_visit(node)
        if dt.lanes(mapped.condition.dtype) == 1 and (
            _may_fault(mapped.true_value) or _may_fault(mapped.false_value)
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
