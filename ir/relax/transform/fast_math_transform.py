"""FastMathTransform: expensive functions become fast, approximate ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import topi
from ...module import IRModule
from ...op import Op
from ...transform import ModulePass, PassContext
from .legalize_ops import LegalizeOps


def _fast(name: str) -> Any:
    def legalize(builder: Any, call: Any) -> Any:
        return builder.call_te(getattr(topi, name), call.args[0])

    return legalize


def _softmax(builder: Any, call: Any) -> Any:
    return builder.call_te(topi.nn.fast_softmax, call.args[0], call.attrs.axis)


FAST = {
    "relax.exp": _fast("fast_exp"),
    "relax.erf": _fast("fast_erf"),
    "relax.tanh": _fast("fast_tanh"),
    "relax.nn.softmax": _softmax,
}


@dataclass(frozen=True)
class FastMathTransform(ModulePass):
    """Legalize exp, erf, tanh and softmax to polynomial approximations.

    Before: ``y = R.exp(x)``

    After: ``y = R.call_tir(cls.fast_exp, (x,), out_sinfo=...)``
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with approximations; other operators stay."""
        others = tuple(name for name in Op.list_op_names() if name.startswith("relax.") and name not in FAST)
        return LegalizeOps(FAST, skip_ops=others)(mod, ctx)
