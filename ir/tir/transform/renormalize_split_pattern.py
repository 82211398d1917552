"""RenormalizeSplitPattern: remainders of quotients become quotients of remainders."""

from __future__ import annotations

from dataclasses import dataclass

from ... import dtype as dt
from ...module import IRModule
from ...node import Mutator
from ...transform import PassContext
from ..expr import FloorDiv, FloorMod, IntImm, PrimExpr
from ..function import PrimFunc
from ..operators import const, floordiv, floormod
from .prim_func_pass import PrimFuncPass


class _Renormalize(Mutator):
    def visit_FloorMod(self, node: FloorMod) -> PrimExpr:
        mapped: FloorMod = self.generic_visit(node)
        quotient, modulus = mapped.a, mapped.b
        if not isinstance(quotient, FloorDiv) or not isinstance(modulus, IntImm):
            return mapped
        divisor = quotient.b
        if not isinstance(divisor, IntImm) or divisor.value <= 0 or modulus.value <= 0:
            return mapped
        both = divisor.value * modulus.value
        if both > dt.integer_range(node.dtype)[1]:
            return mapped
        # (x // c1) % c2 = (x % (c1 c2)) // c1
        return floordiv(floormod(quotient.a, const(both, node.dtype)), divisor)


@dataclass(frozen=True)
class RenormalizeSplitPattern(PrimFuncPass):
    """Write ``x // c1 % c2`` as ``x % (c1 * c2) // c1``, so that copies of one thread's index are seen to be such.

    Before::

        A[i // 4 % 8] = 0.0

    After::

        A[i % 32 // 4] = 0.0
    """

    pass_name = "tir.RenormalizeSplitPattern"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with indices in that form."""
        return func.replace(body=_Renormalize().visit(func.body))
