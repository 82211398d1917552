"""DecomposeOpsForInference: composite operators become simpler ones, by what they mean when a model is run."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..expr import Call, Expr
from .decompose_ops import declared, decompose


def _for_inference(call: Call) -> Expr | None:
    """What a call is made of; one that is written with ``training=True`` keeps that meaning."""
    rules = declared(call)
    rule = rules.training if call.attrs.get("training", False) else rules.inference
    return None if rule is None else rule(call)


@dataclass(frozen=True)
class DecomposeOpsForInference(ModulePass):
    """Replace operators by what they declare to be made of when a model is run.

    Batch normalization (by its running statistics) and dropout (by nothing) become elementwise operators. A batch
    normalization with ``training=True`` asks for the statistics of the batch, and gets them here as well.

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
        return decompose(mod, self.func_name, _for_inference)
