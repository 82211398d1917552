"""The layers of the nn library."""

from __future__ import annotations

from typing import Any

from ir.tir.expr import PrimExpr

from . import op
from .effects import IOEffect, KVCache
from .error import NNError, NNTypeError, NNValueError
from .module import Module, ModuleList
from .tensor import Parameter, Tensor

__all__ = [
    "IOEffect",
    "KVCache",
    "ReLU",
    "SiLU",
    "GELU",
    "Identity",
    "Linear",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "ConvTranspose1D",
    "LayerNorm",
    "RMSNorm",
    "GroupNorm",
    "Embedding",
    "TimestepEmbedding",
    "Timesteps",
    "Attention",
]

Extent = int | str | PrimExpr


class ReLU(Module):
    """``max(x, 0)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the activation."""
        return op.relu(x)


class SiLU(Module):
    """``x * sigmoid(x)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the activation."""
        return op.silu(x)


class GELU(Module):
    """The Gaussian error linear unit."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the activation."""
        return op.gelu(x)


class Identity(Module):
    """Returns its input; a placeholder that can replace any layer."""

    def forward(self, x: Tensor) -> Tensor:
        """The input."""
        return x


class Linear(Module):
    """``x @ weight.T + bias``; ``weight`` is ``[out_features, in_features]``.

    With ``out_dtype`` the product is accumulated and returned in that dtype, which the bias has as well.
    """

    def __init__(
        self,
        in_features: Extent,
        out_features: Extent,
        bias: bool = True,
        dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:
        self.in_features = in_features
        self.out_features = out_features
        self.out_dtype = out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = (
            Parameter((out_features,), dtype=dtype if out_dtype is None else out_dtype) if bias else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """``[*, in_features]`` to ``[*, out_features]``."""
        x = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        if self.bias is not None:
            x = x + self.bias
        return x

    def to(self, dtype: str | None = None) -> None:
        """Convert to a dtype; the bias keeps ``out_dtype``, which it is added in."""
        self.weight.to(dtype=dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype


class _Conv(Module):
    """What the convolutions share: a weight ``[O, C/groups, *kernel]`` and a bias ``[O]``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        dtype: str | None,
        spatial: int,
    ) -> None:
        kernel = [kernel_size] * spatial if isinstance(kernel_size, int) else list(kernel_size)
        if len(kernel) != spatial:
            raise NNValueError(f"{type(self).__name__}: expected {spatial} kernel sizes, got {kernel_size}")
        if in_channels % groups:
            raise NNValueError(
                f"{type(self).__name__}: {in_channels} input channels do not divide into {groups} groups"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        self.weight = Parameter((out_channels, in_channels // groups, *kernel), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None


class Conv1D(_Conv):
    """1D convolution of ``[B, C, W]``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype, spatial=1
        )

    def forward(self, x: Tensor) -> Tensor:
        """``[B, C, W]`` to ``[B, O, oW]``."""
        return op.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2D(_Conv):
    """2D convolution; ``data_layout`` is that of input and output."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: list[int] | int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str = "NCHW",
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype, spatial=2
        )
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        """``[B, C, H, W]`` to ``[B, O, oH, oW]``."""
        return op.conv2d(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups, self.data_layout
        )


class Conv3D(_Conv):
    """3D convolution; ``data_layout`` is that of input and output."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: list[int] | int,
        stride: list[int] | int = 1,
        padding: list[int] | int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str = "NCDHW",
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype, spatial=3
        )
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        """``[B, C, D, H, W]`` to ``[B, O, oD, oH, oW]``."""
        return op.conv3d(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups, self.data_layout
        )


class ConvTranspose1D(Module):
    """1D transposed convolution of ``[B, C, W]``; the weight is ``[C, O/groups, kW]``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.dilation = dilation
        self.groups = groups
        self.weight = Parameter((in_channels, out_channels // groups, kernel_size), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """``[B, C, W]`` to ``[B, O, oW]``."""
        return op.conv1d_transpose(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.dilation,
            self.groups,
        )


class LayerNorm(Module):
    """Layer normalization over the last axis, of extent ``normalized_shape``."""

    def __init__(
        self,
        normalized_shape: int,
        eps: float | None = 1e-5,
        elementwise_affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.normalized_shape = normalized_shape
        self.eps = 1e-5 if eps is None else eps
        self.elementwise_affine = elementwise_affine
        self.weight = Parameter((normalized_shape,), dtype=dtype) if elementwise_affine else None
        self.bias = Parameter((normalized_shape,), dtype=dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """Normalize; the shape stays."""
        return op.layer_norm(
            x, normalized_shape=self.normalized_shape, weight=self.weight, bias=self.bias, eps=self.eps
        )


class RMSNorm(Module):
    """Root mean square normalization over ``axes``, with a scale of extent ``hidden_size`` and an optional offset."""

    def __init__(
        self,
        hidden_size: int,
        axes: int | list[int],
        epsilon: float = 1e-5,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.axes = axes
        self.weight = Parameter((hidden_size,), dtype=dtype)
        self.bias = Parameter((hidden_size,), dtype=dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Normalize; the shape stays."""
        out = op.rms_norm(x, weight=self.weight, axes=self.axes, epsilon=self.epsilon)
        if self.bias is not None:
            out = op.add(out, self.bias)
        return out


class GroupNorm(Module):
    """Group normalization of ``num_channels`` channels in ``num_groups`` groups."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        if num_channels % num_groups:
            raise NNValueError(f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = Parameter((num_channels,), dtype=dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype=dtype) if affine else None

    def forward(self, x: Tensor, channel_axis: int = 1, axes: list[int] | None = None) -> Tensor:
        """Normalize; ``axes`` are those to normalize over besides the channels of a group."""
        return op.group_norm(x, self.num_groups, self.weight, self.bias, self.eps, channel_axis, axes)


class Embedding(Module):
    """A table of ``num`` vectors of length ``dim``, looked up by index."""

    def __init__(self, num: Extent, dim: Extent, dtype: str | None = None) -> None:
        self.num = num
        self.dim = dim
        self.weight = Parameter((num, dim), dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Integers ``[*]`` to vectors ``[*, dim]``."""
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        flat = op.take(self.weight, op.reshape(x, shape=[-1]), axis=0)
        return op.reshape(flat, shape=[*x.shape, self.weight.shape[1]])


class TimestepEmbedding(Module):
    """Two linear layers with an activation, for the embedding of diffusion time steps."""

    def __init__(
        self,
        in_channels: int,
        time_embed_dim: int,
        act_fn: str = "silu",
        out_dim: int | None = None,
        post_act_fn: str | None = None,
        cond_proj_dim: int | None = None,
    ) -> None:
        if act_fn != "silu":
            raise NNValueError(f"TimestepEmbedding: act_fn is 'silu', got {act_fn!r}")
        if post_act_fn not in (None, "silu"):
            raise NNValueError(f"TimestepEmbedding: post_act_fn is 'silu' or None, got {post_act_fn!r}")
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = Linear(cond_proj_dim, in_channels, bias=False) if cond_proj_dim is not None else None
        self.act = SiLU()
        self.linear_2 = Linear(time_embed_dim, time_embed_dim if out_dim is None else out_dim)
        self.post_act = SiLU() if post_act_fn is not None else None

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Tensor:
        """``[N, in_channels]`` to ``[N, out_dim]``; ``condition`` is projected and added to the input."""
        if condition is not None:
            if self.cond_proj is None:
                raise NNError("TimestepEmbedding: a condition needs cond_proj_dim on construction")
            sample = sample + self.cond_proj(condition)
        sample = self.linear_2(self.act(self.linear_1(sample)))
        return sample if self.post_act is None else self.post_act(sample)


class Timesteps(Module):
    """Sinusoidal embedding of diffusion time steps; see :func:`ir.relax.frontend.nn.op.get_timestep_embedding`."""

    def __init__(
        self, num_channels: int, flip_sin_to_cos: bool = False, downscale_freq_shift: float = 1
    ) -> None:
        self.num_channels = num_channels
        self.flip_sin_to_cos = flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift

    def forward(self, x: Tensor) -> Tensor:
        """``[N]`` to ``[N, num_channels]``."""
        return op.get_timestep_embedding(
            x,
            embedding_dim=self.num_channels,
            flip_sin_to_cos=self.flip_sin_to_cos,
            downscale_freq_shift=self.downscale_freq_shift,
        )


class Attention(Module):
    """Multi-head cross attention as diffusion models use it, with an optional group normalization in front."""

    def __init__(
        self,
        query_dim: int,
        cross_attention_dim: int | None = None,
        heads: int = 8,
        dim_head: int = 64,
        bias: bool = False,
        norm_num_groups: int | None = None,
        out_bias: bool = True,
        scale_qk: bool = True,
    ) -> None:
        self.query_dim = query_dim
        self.cross_attention_dim = query_dim if cross_attention_dim is None else cross_attention_dim
        self.heads = heads
        self.dim_head = dim_head
        self.bias = bias
        self.norm_num_groups = norm_num_groups
        self.out_bias = out_bias
        self.scale_qk = scale_qk
        self.scale = dim_head**-0.5 if scale_qk else 1.0
        self.inner_dim = dim_head * heads
        self.to_q = Linear(query_dim, self.inner_dim, bias=bias)
        self.to_k = Linear(self.cross_attention_dim, self.inner_dim, bias=bias)
        self.to_v = Linear(self.cross_attention_dim, self.inner_dim, bias=bias)
        self.group_norm = None
        if norm_num_groups is not None:
            self.group_norm = GroupNorm(num_channels=query_dim, num_groups=norm_num_groups, affine=True)
        self.to_out = ModuleList([Linear(self.inner_dim, query_dim, bias=out_bias)])

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **cross_attention_kwargs: Any,
    ) -> Tensor:
        """``[batch, length, query_dim]`` attends to ``encoder_hidden_states``, or to itself without any."""
        if cross_attention_kwargs:
            raise NNTypeError(f"Attention takes no {sorted(cross_attention_kwargs)}")
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        query = self.to_q(hidden_states)
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        key, value = self.to_k(source), self.to_v(source)
        out = op.scaled_dot_product_attention(
            self._heads(query),
            self._heads(key),
            self._heads(value),
            attention_mask,
            is_causal=False,
            scale=None if self.scale_qk else 1.0,
        )
        out = op.reshape(out, [*query.shape[:2], self.inner_dim])
        return self.to_out[0](out)

    def _heads(self, x: Tensor) -> Tensor:
        return op.reshape(x, [*x.shape[:2], self.heads, self.dim_head])
