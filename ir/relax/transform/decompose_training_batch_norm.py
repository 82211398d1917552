"""DecomposeTrainingBatchNorm: batch normalization by the statistics of the batch becomes simpler operators."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..expr import Call, Expr
from .decompose_ops import declared, decompose


def _written_for_training(call: Call) -> Expr | None:
    """Calls with the attribute ``training=True``; others stay."""
    rule = declared(call).training
    return rule(call) if rule is not None and call.attrs.get("training", False) else None


@dataclass(frozen=True)
class DecomposeTrainingBatchNorm(ModulePass):
    """Replace the batch normalizations that are written with ``training=True`` as DecomposeOpsForTraining does.

    A build runs it before DecomposeOpsForInference and FoldBatchnormToConv2D, which take every batch normalization as one
    by running statistics: what a program asks for is what it gets.

    Before: ``bn = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1, training=True)``

    After: ``bn`` is a tuple of the tensor normalized by the batch's statistics, and both moving averages.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The decomposed module."""
        return decompose(mod, None, _written_for_training)
