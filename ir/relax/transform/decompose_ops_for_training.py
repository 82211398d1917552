"""DecomposeOpsForTraining: composite operators become simpler ones, by what they mean when a model is trained."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..expr import Call, Expr
from .decompose_ops import declared, decompose


def _for_training(call: Call) -> Expr | None:
    rule = declared(call).training
    return None if rule is None else rule(call)


@dataclass(frozen=True)
class DecomposeOpsForTraining(ModulePass):
    """Replace operators by what they declare to be made of when a model is trained.

    Batch and layer normalization become elementwise operators and reductions over the batch.

    Before: ``bn = R.nn.batch_norm(x, gamma, beta, moving_mean, moving_var, axis=1)``

    After: ``bn`` is a tuple of the normalized tensor and both moving averages, computed with R.mean and R.variance.

    Args:
        func_name: the function to change; None changes all.
    """

    func_name: str | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The decomposed module."""
        return decompose(mod, self.func_name, _for_training)
