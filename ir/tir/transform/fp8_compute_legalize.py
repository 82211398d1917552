"""FP8ComputeLegalize: numbers of float8 are computed with in float32 or float16."""

from __future__ import annotations

from dataclasses import dataclass

from ...error import IRValueError
from ...module import IRModule
from ...narrow_float import FLOAT8, POWERS_OF_TWO
from ...transform import PassContext
from ..function import PrimFunc
from .float_promotion import promoted
from .prim_func_pass import PrimFuncPass

_WIDER = {"float32": FLOAT8, "float16": FLOAT8 - {POWERS_OF_TWO}}
"""By what is computed in: the dtypes of which it holds all numbers."""


@dataclass(frozen=True)
class FP8ComputeLegalize(PrimFuncPass):
    """Compute with float8, of all formats, in a wider dtype, and round where a value is stored, cast, or passed to what takes float8.

    Values that are moved only are not converted. With ``"float16"`` operations are rounded to that, and ``float8_e8m0fnu``, of which it
    does not hold the numbers, is computed with in float32.

    Before::

        B[i] = A[i] * A[i] + T.float8_e4m3fn(1)

    After::

        B[i] = T.Cast("float8_e4m3fn", T.Cast("float32", A[i]) * T.Cast("float32", A[i]) + T.float32(1))

    Raises:
        IRValueError: another dtype to compute in.
    """

    promote_dtype_str: str = "float32"
    """``"float32"`` or ``"float16"``."""
    pass_name = "tir.FP8ComputeLegalize"

    def __post_init__(self) -> None:
        if self.promote_dtype_str not in _WIDER:
            raise IRValueError(
                f"float8 is computed with in {' or '.join(_WIDER)}, got promote_dtype_str={self.promote_dtype_str!r}"
            )

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without arithmetic of float8."""
        held = _WIDER[self.promote_dtype_str]
        return promoted(promoted(func, held, self.promote_dtype_str), FLOAT8 - held, "float32")
