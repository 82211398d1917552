"""Matrix products: dense layers, matmul with transpose flags, batched matmul."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...error import IRValueError
from ...te.operation import compute
from ...te.reduction import sum as te_sum
from ...te.tensor import Tensor
from ...tir.expr import IntImm, PrimExpr
from ...tir.operators import const
from .. import tag
from ..accumulate import accumulator, rounded
from ..shape import is_const
from .conv import reduce_over, refuse_rewritten_layout


def _check_inner(name: str, a: PrimExpr, b: PrimExpr) -> None:
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
        raise IRValueError(f"{name}: the inner extents {a.value} and {b.value} differ")


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """``a @ b`` of two matrices (``a`` may have more leading axes), each perhaps transposed, plus a bias vector.

    Products of narrow floats are summed in float32; the sum (with its bias) is rounded once to ``out_dtype``.
    """
    refuse_rewritten_layout("matmul", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    kind = out_dtype or tensor_a.dtype
    *batch, rows, inner_a = tensor_a.shape
    if transpose_a:
        rows, inner_a = inner_a, rows
    inner_b, columns = reversed(tensor_b.shape) if transpose_b else tensor_b.shape
    _check_inner("matmul", inner_a, inner_b)
    k = reduce_over(inner_a, "k")
    total = accumulator(kind)

    def element(*indices: Any) -> PrimExpr:
        *outer, i, j = indices
        a = tensor_a(*outer, k.var, i) if transpose_a else tensor_a(*outer, i, k.var)
        b = tensor_b(j, k.var) if transpose_b else tensor_b(k.var, j)
        return te_sum(a.astype(total) * b.astype(total), axis=k)

    suffix = ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    label = "dense" if suffix == "NT" else "matmul"
    names = ["i", "j"] if not batch else [*[f"b{n}" for n in range(len(batch))], "i", "j"]
    result = compute(
        (*batch, rows, columns),
        element,
        f"T_matmul_{suffix}",
        label,
        {"layout_free_placeholders": [tensor_b]},
        names,
    )
    if bias is None:
        return rounded(result, kind)
    return compute(
        result.shape,
        lambda *i: (result(*i) + bias(i[-1]).astype(total)).astype(kind),
        tag=tag.BROADCAST,
    )


def dense(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """``data @ weight.T + bias`` with weight (out, in)."""
    return matmul(
        data,
        weight,
        bias,
        out_dtype,
        False,
        True,
        auto_scheduler_rewritten_layout,
        meta_schedule_original_shape,
    )


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Sequence[Any] | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """``a[b] @ b[b]`` for each batch element, each perhaps transposed (by default b is); a batch of 1 is repeated."""
    refuse_rewritten_layout("batch_matmul", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    kind = out_dtype or tensor_a.dtype
    batch_a, rows, inner_a = tensor_a.shape
    batch_b, inner_b, columns = tensor_b.shape
    if transpose_a:
        rows, inner_a = inner_a, rows
    if transpose_b:
        inner_b, columns = columns, inner_b
    _check_inner("batch_matmul", inner_a, inner_b)
    one_a = is_const(batch_a) and batch_a.value == 1  # type: ignore[attr-defined]
    one_b = is_const(batch_b) and batch_b.value == 1  # type: ignore[attr-defined]
    if is_const(batch_a, batch_b) and not one_a and not one_b and batch_a.value != batch_b.value:  # type: ignore[attr-defined]
        raise IRValueError(f"batch_matmul: batches of {batch_a.value} and {batch_b.value} differ")  # type: ignore[attr-defined]
    k = reduce_over(inner_a, "k")
    batch = batch_b if one_a else batch_a
    total = accumulator(kind)

    def element(b: Any, i: Any, j: Any) -> PrimExpr:
        zero = const(0, b.dtype)
        at_a = zero if one_a and not one_b else b
        at_b = zero if one_b and not one_a else b
        left = tensor_a(at_a, k.var, i) if transpose_a else tensor_a(at_a, i, k.var)
        right = tensor_b(at_b, j, k.var) if transpose_b else tensor_b(at_b, k.var, j)
        return te_sum(left.astype(total) * right.astype(total), axis=k)

    suffix = ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    shape = tuple(oshape) if oshape is not None else (batch, rows, columns)
    result = compute(
        shape, element, f"T_batch_matmul_{suffix}", "batch_matmul", {"layout_free_placeholders": [tensor_b]}
    )
    return rounded(result, kind)


def bias_add(data: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """``data`` plus a vector along ``axis``."""
    along = axis % data.ndim
    return compute(data.shape, lambda *i: data(*i) + bias(i[along]), name="T_bias_add", tag=tag.BROADCAST)
