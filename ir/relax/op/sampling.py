"""Drawing from distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt
from ... import te
from ...tir.expr import Select
from ...tir.op import min as tir_min
from ...tir.operators import const
from ..expr import Call, Expr
from ..struct_info import StructInfo, TensorStructInfo
from .declaration import call, operator
from .inference import require_dtype, require_ndim, tensor_args
from .requirement import require_equal


def _infer_multinomial(node: Call, builder: Any) -> StructInfo:
    prob, uniform, indices = tensor_args(node, 3)
    for name, info in (("prob", prob), ("uniform_sample", uniform), ("sample_indices", indices)):
        require_ndim(node, info, 2, name)
    require_dtype(node, prob, dt.is_float, "float probabilities")
    require_dtype(node, uniform, dt.is_float, "float samples")
    require_dtype(node, indices, dt.is_integral, "integer indices")
    if uniform.shape_values is None:
        return TensorStructInfo(None, node.attrs["dtype"], prob.vdevice, 2)
    if indices.shape_values is not None:
        text = "uniform_sample has {} rows, sample_indices {}"
        require_equal(node, uniform.shape_values[0], indices.shape_values[0], text)
    return TensorStructInfo([uniform.shape_values[0], 1], node.attrs["dtype"], prob.vdevice)


def _np_multinomial(prob: np.ndarray, uniform: np.ndarray, indices: np.ndarray, dtype: str) -> np.ndarray:
    cumulative = prob.cumsum(1)[indices[:, 0]]
    return (cumulative <= uniform).sum(1, keepdims=True).clip(max=prob.shape[1] - 1).astype(dtype)


def _legalize_multinomial(bb: Any, node: Call) -> Expr:
    """The first class whose cumulative probability exceeds the sample: count those that do not."""
    dtype = node.attrs["dtype"]

    def te_multinomial(prob: Any, uniform: Any, indices: Any) -> Any:
        rows, classes = prob.shape
        k = te.reduce_axis((0, classes), name="k")
        cumulative = te.compute(
            (rows, classes),
            lambda r, c: te.sum(Select(k <= c, prob[r, k], const(0, prob.dtype)), axis=k),
            name="cumulative",
        )
        j = te.reduce_axis((0, classes), name="j")
        count = te.compute(
            (uniform.shape[0], 1),
            lambda i, z: te.sum((cumulative[indices[i, 0], j] <= uniform[i, 0]).astype(dtype), axis=j),
            name="count",
        )
        last = const(1, dtype)
        return te.compute(
            count.shape, lambda i, z: tir_min(count[i, z], classes.astype(dtype) - last), name="multinomial"
        )

    return bb.call_te(te_multinomial, *node.args, primfunc_name_hint="multinomial_from_uniform")


@operator(
    "relax.multinomial_from_uniform",
    infer=_infer_multinomial,
    legalize=_legalize_multinomial,
    reference=_np_multinomial,
    undefined=(IndexError,),
)
def multinomial_from_uniform(
    prob: Expr, uniform_sample: Expr, sample_indices: Expr, dtype: str = "int64"
) -> Expr:
    """Draw a class for each uniform sample from the distribution that ``sample_indices`` names.

    Args:
        prob: (batch, classes), each row a distribution.
        uniform_sample: (n, 1), samples from [0, 1).
        sample_indices: (n, 1), the row of ``prob`` for each.
        dtype: of the result, (n, 1).
    """
    return call(
        "relax.multinomial_from_uniform", prob, uniform_sample, sample_indices, attrs={"dtype": dtype}
    )


__all__ = ["multinomial_from_uniform"]
