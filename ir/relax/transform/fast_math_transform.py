"""FastMathTransform: expensive functions become fast, approximate ones."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...op import Op
from ...transform import ModulePass, PassContext
from ..op.declaration import OPERATORS
from .legalize_ops import LegalizeOps


@dataclass(frozen=True)
class FastMathTransform(ModulePass):
    """Legalize operators that declare it (exp, erf, tanh and softmax) to polynomial approximations.

    Before: ``y = R.exp(x)``

    After: ``y = R.call_tir(cls.fast_exp, (x,), out_sinfo=...)``
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with approximations; other operators stay."""
        fast = {
            name: declaration.fast_legalize
            for name, declaration in OPERATORS.items()
            if declaration.fast_legalize is not None
        }
        others = tuple(name for name in Op.list_op_names() if name.startswith("relax.") and name not in fast)
        return LegalizeOps(fast, skip_ops=others)(mod, ctx)
