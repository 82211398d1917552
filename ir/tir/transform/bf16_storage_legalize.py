"""BF16StorageLegalize: memory of bfloat16 becomes memory of uint16, and conversions become arithmetic of integers."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import PassContext
from ..function import PrimFunc
from .float_storage import stored_as_codes
from .prim_func_pass import PrimFuncPass


@dataclass(frozen=True)
class BF16StorageLegalize(PrimFuncPass):
    """Keep numbers of bfloat16 as their bits in uint16; arrays that are passed to the function are then of uint16, numbers of float32.

    What is computed with bfloat16 was rewritten before (:class:`BF16ComputeLegalize`). Memory that ``atomic_add`` changes stays what it
    is. Functions whose target converts bfloat16 (:meth:`ir.target.Target.converts`) stay as they are.

    Before::

        C[i] = A[i]
        D[i] = T.Cast("float32", A[i])
        B[i] = T.Cast("bfloat16", D[i])

    After::

        C[i] = A[i]  # of uint16
        D[i] = T.reinterpret("float32", T.shift_left(T.Cast("uint32", A[i]), T.uint32(16)))
        with T.Let(...):  # the bits of D[i], rounded to nearest even
            B[i] = ...
    """

    pass_name = "tir.BF16StorageLegalize"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without memory of bfloat16."""
        return stored_as_codes(func, ["bfloat16"])
