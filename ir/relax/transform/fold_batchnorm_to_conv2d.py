"""FoldBatchnormToConv2D: scale a convolution's weights instead of normalizing what it computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...module import IRModule
from ...transform import PassContext
from .. import op
from ..analysis.binding import use_counts
from ..expr import Call, Constant, Expr, Tuple, Var, is_call_to
from ..function import Function
from .function_pass import FunctionPass
from .memory_mutator import MemoryMutator


class _Folder(MemoryMutator):
    def __init__(self, mod: IRModule, counts: dict[Var, int]) -> None:
        super().__init__(mod)
        self._counts = counts

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        folded = self._folded(call) if is_call_to(call, "relax.nn.batch_norm") else None
        return call if folded is None else folded

    def _folded(self, call: Call) -> Expr | None:
        source: Any = call.args[0]
        conv: Any = self.lookup_binding(source)
        bias: np.ndarray | None = None
        if (
            is_call_to(conv, "relax.add")
            and self._counts.get(source) == 1
            and isinstance(conv.args[1], Constant)
        ):
            added = conv.args[1].data
            inner = conv.args[0]
            source, conv = inner, self.lookup_binding(inner)
            bias = added
        if not is_call_to(conv, "relax.nn.conv2d") or self._counts.get(source) != 1:
            return None
        if self.aliases.is_written(conv.args[0], source):  # the convolution moves to the normalization
            return None
        statistics = [arg.data for arg in call.args[1:5] if isinstance(arg, Constant)]
        weight = conv.args[1]
        if len(statistics) != 4 or not isinstance(weight, Constant):
            return None
        layout = str(conv.attrs.get("kernel_layout", "OIHW"))
        out_layout = str(conv.attrs.get("out_layout") or conv.attrs.get("data_layout", "NCHW"))
        axis = int(call.attrs.axis)
        if len(layout) != 4 or len(out_layout) != 4 or out_layout[axis % 4] != "C":
            return None
        if call.attrs.get("training", False):  # normalizes by the statistics of the batch
            return None
        gamma, beta, mean, variance = statistics
        scale = 1.0 / np.sqrt(variance + float(call.attrs.epsilon))
        if call.attrs.get("scale", True):
            scale = scale * gamma
        shift = -mean * scale
        if call.attrs.get("center", True):
            shift = shift + beta
        if bias is not None:
            if not _is_per_channel(bias.shape, out_layout.index("C"), scale.size):
                return None
            shift = shift + bias.reshape(-1) * scale
        dtype = weight.data.dtype
        position = layout.index("O")
        scaled = weight.data * scale.reshape([-1 if i == position else 1 for i in range(4)])
        channel = out_layout.index("C")

        new_conv = self.builder_.emit(conv.with_args((conv.args[0], Constant(scaled.astype(dtype)))))
        offset = Constant(shift.astype(dtype).reshape([-1 if i == channel else 1 for i in range(4)]))
        result = self.builder_.emit(op.add(new_conv, offset))
        return Tuple([result, call.args[3], call.args[4]])


def _is_per_channel(shape: tuple[int, ...], channel: int, n_channels: int) -> bool:
    """Whether an array that is added to a tensor of four axes is broadcast along all of them but the channels."""
    padded = (1,) * (4 - len(shape)) + shape
    return len(padded) == 4 and all(
        extent == 1 or (axis == channel and extent == n_channels) for axis, extent in enumerate(padded)
    )


@dataclass(frozen=True)
class FoldBatchnormToConv2D(FunctionPass):
    """Fold batch normalization with constant statistics into the convolution (with a constant weight) before it.

    Before::

        lv = R.nn.conv2d(x, weight, ...)
        bn = R.nn.batch_norm(lv, gamma, beta, mean, var, axis=1)
        y = bn[0]

    After::

        lv1 = R.nn.conv2d(x, scaled_weight, ...)
        lv2 = R.add(lv1, offset)
        bn = (lv2, mean, var)
        y = bn[0]

    A constant bias between the two is folded as well. Run CanonicalizeBindings and DeadCodeElimination behind it.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with folded normalizations."""
        return _Folder(mod, use_counts(func)).visit_expr(func)


__all__ = ["FoldBatchnormToConv2D"]
