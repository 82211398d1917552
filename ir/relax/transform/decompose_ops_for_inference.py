"""DecomposeOpsForInference: composite operators become simpler ones, by what they mean when a model is run."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import ModulePass, PassContext
from .decompose_ops import INFERENCE, decompose


@dataclass(frozen=True)
class DecomposeOpsForInference(ModulePass):
    """Replace batch normalization (by its running statistics) and dropout (by nothing) with elementwise operators.

    Before::

        bn = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1)
        y = bn[0]

    After::

        lv = R.expand_dims(mean, axis=[0, 2, 3])
        lv1 = R.subtract(x, lv)
        ...
        lv9 = R.add(lv7, lv8)
        bn = (lv9, mean, var)
        y = bn[0]

    Args:
        func_name: the function to change; None changes all.
    """

    func_name: str | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The decomposed module."""
        return decompose(mod, self.func_name, INFERENCE)
