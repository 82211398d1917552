"""Layers that the zoo needs and the nn library does not have: pooling, trigonometry, tables and scales with marked weights."""

from __future__ import annotations

from ir.relax import op as _op
from ir.relax.frontend import nn
from ir.relax.frontend.nn import Tensor, wrap_nested


def max_pool2d(x: Tensor, size: int, stride: int, padding: int) -> Tensor:
    """Maximum over square windows of ``[B, C, H, W]``."""
    pooled = _op.nn.max_pool2d(
        x._expr, pool_size=(size, size), strides=(stride, stride), padding=(padding, padding)
    )
    return wrap_nested(pooled, "max_pool2d")


def global_average_pool(x: Tensor) -> Tensor:
    """``[B, C, H, W]`` to ``[B, C]``."""
    return wrap_nested(_op.mean(x._expr, [2, 3]), "global_average_pool")


def cos(x: Tensor) -> Tensor:
    """Cosine."""
    return wrap_nested(_op.cos(x._expr), "cos")


def sin(x: Tensor) -> Tensor:
    """Sine."""
    return wrap_nested(_op.sin(x._expr), "sin")


def heads_first(x: Tensor, heads: int, size: int) -> Tensor:
    """``[B, S, heads * size]`` to ``[B, heads, S, size]``."""
    batch, length, _ = x.shape
    return nn.op.permute_dims(nn.op.reshape(x, [batch, length, heads, size]), [0, 2, 1, 3])


class LayerNorm(nn.LayerNorm):
    """Layer normalization whose scale is marked for the weights' initialization."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__(size, eps)
        assert self.weight is not None
        self.weight.attrs["scale"] = True


class RMSNorm(nn.RMSNorm):
    """Root mean square normalization over the last axis, without offset."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__(size, [-1], eps, bias=False)
        self.weight.attrs["scale"] = True


class Embedding(nn.Embedding):
    """A table whose weights are small."""

    def __init__(self, num: int, dim: int) -> None:
        super().__init__(num, dim)
        self.weight.attrs["table"] = True
