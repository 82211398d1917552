"""Activation functions and per-channel scaling."""

from __future__ import annotations

from typing import Any

from ...error import IRValueError
from ...te.operation import compute
from ...te.tensor import Tensor
from ...tir import op as T
from ...tir.expr import IntImm, PrimExpr, Select
from ...tir.operators import const, convert
from ...tir.operators import max as _max
from .. import tag
from ..shape import normalize_axis, same_extent


def relu(x: Tensor) -> Tensor:
    """``max(x, 0)``."""
    return compute(x.shape, lambda *i: _max(x(*i), const(0, x.dtype)), tag=tag.ELEMWISE)


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """``x`` where positive, else ``alpha * x``."""

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        return Select(const(0, value.dtype) < value, value, value * const(alpha, value.dtype))

    return compute(x.shape, element, tag=tag.ELEMWISE)


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """``x`` where positive, else ``slope[c] * x`` with c the index along ``axis``; one slope serves all."""
    along = normalize_axis(axis, x.ndim)
    if slope.ndim != 1:
        raise IRValueError(f"prelu: the slope must be a vector, {slope.name} has {slope.ndim} dimensions")

    def place(channel: Any) -> PrimExpr:
        count, zero = slope.shape[0], const(0, slope.shape[0].dtype)
        if isinstance(count, IntImm) or same_extent(count, x.shape[along]):
            return zero if isinstance(count, IntImm) and count.value == 1 else convert(channel)
        return Select(count.equal(1), zero, convert(channel).astype(count.dtype))

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        return Select(const(0, value.dtype) < value, value, value * slope(place(i[along])))

    return compute(x.shape, element, tag=tag.BROADCAST)


def gelu(x: Tensor) -> Tensor:
    """``x * 0.5 * (1 + erf(x / sqrt(2)))``."""

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        return value * (T.erf(value * const(0.5**0.5, x.dtype)) * const(0.5, x.dtype) + const(0.5, x.dtype))

    return compute(x.shape, element, tag=tag.ELEMWISE)


def silu(x: Tensor) -> Tensor:
    """``x * sigmoid(x)``."""
    return compute(x.shape, lambda *i: x(*i) * T.sigmoid(x(*i)), tag=tag.ELEMWISE)


def scale_shift(
    Input: Tensor, Scale: Tensor, Shift: Tensor, axis: int = 1, name: str = "ScaleShift"
) -> Tensor:
    """``x * scale[c] + shift[c]`` with c the index along ``axis``."""
    along = normalize_axis(axis, Input.ndim)
    return compute(
        Input.shape, lambda *i: Input(*i) * Scale(i[along]) + Shift(i[along]), name=name, tag=tag.BROADCAST
    )


def scale_shift_nchw(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Per-channel scaling of NCHW data."""
    return scale_shift(Input, Scale, Shift, 1)


def scale_shift_nhwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Per-channel scaling of NHWC data."""
    return scale_shift(Input, Scale, Shift, 3)
