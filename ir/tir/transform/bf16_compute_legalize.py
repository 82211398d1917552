"""BF16ComputeLegalize: numbers of bfloat16 are computed with in float32."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import PassContext
from ..function import PrimFunc
from .float_promotion import promoted
from .prim_func_pass import PrimFuncPass


@dataclass(frozen=True)
class BF16ComputeLegalize(PrimFuncPass):
    """Compute with bfloat16 in float32, and round where a value is stored, cast, or passed to a function that takes bfloat16.

    Values that are moved only are not converted. Functions whose target computes with bfloat16 (:meth:`ir.target.Target.computes_with`)
    stay as they are.

    Before::

        B[i] = A[i] * A[i] + T.bfloat16(1)
        C[i] = A[i]

    After::

        B[i] = T.Cast("bfloat16", T.Cast("float32", A[i]) * T.Cast("float32", A[i]) + T.float32(1))
        C[i] = A[i]
    """

    pass_name = "tir.BF16ComputeLegalize"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without arithmetic of bfloat16."""
        return promoted(func, ["bfloat16"], "float32")
