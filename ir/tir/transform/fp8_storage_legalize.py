"""FP8StorageLegalize: memory of float8 becomes memory of uint8, and conversions become arithmetic of integers."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...narrow_float import FLOAT8
from ...transform import PassContext
from ..function import PrimFunc
from .float_storage import stored_as_codes
from .prim_func_pass import PrimFuncPass


@dataclass(frozen=True)
class FP8StorageLegalize(PrimFuncPass):
    """Keep numbers of float8 as their bits in uint8; arrays that are passed to the function are then of uint8, numbers of float32.

    What is computed with float8 was rewritten before (:class:`FP8ComputeLegalize`). Formats that the function's target converts
    (:meth:`ir.target.Target.converts`) stay as they are.

    Before::

        B[i] = A[i]
        C[i] = T.Cast("float32", A[i])

    After, of float8_e5m2::

        B[i] = A[i]  # of uint8
        with T.Let(x, where=...):  # the bits of A[i]
            C[i] = T.reinterpret("float32", ...)
    """

    pass_name = "tir.FP8StorageLegalize"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without memory of those formats."""
        return stored_as_codes(func, FLOAT8)
