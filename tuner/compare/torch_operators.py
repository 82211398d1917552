"""One table: the PyTorch function of each Relax operator, by which an imported model runs in PyTorch as well.

Every function takes what the operator's numpy reference takes: tensors (shapes as tuples, scalars as numbers), then the
operator's attributes as keywords. Adding an operator is one more entry of :data:`TORCH_FUNCTIONS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Function = Callable[..., Any]


def torch_dtype(name: str) -> torch.dtype:
    """PyTorch's dtype of one of ours: ``"float32"``, ``"int64"``, ``"bool"``."""
    return getattr(torch, name)  # type: ignore[no-any-return]


def _as(x: Tensor, dtype: str | None) -> Tensor:
    return x.to(torch_dtype(dtype)) if dtype else x


def _axes(x: Tensor, axis: int | Sequence[int] | None) -> list[int]:
    if axis is None:
        return list(range(x.ndim))
    return [axis] if isinstance(axis, int) else list(axis)


def _along(x: Tensor, ndim: int, axes: Sequence[int]) -> Tensor:
    """``x``, whose dimensions are the given axes, ready to broadcast over ``ndim`` dimensions."""
    shape, places = [1] * ndim, sorted(axis % ndim for axis in axes)
    for place, extent in zip(places, x.shape, strict=True):
        shape[place] = extent
    return x.reshape(shape)


# ---- element by element -----------------------------------------------------------------------------------------


def _floor_mod(x: Any, y: Any) -> Tensor:
    return torch.remainder(x, y)


def _divide(x: Tensor, y: Tensor) -> Tensor:
    # integers truncate as the operator does; true_divide would make floats of them
    return torch.div(x, y) if x.is_floating_point() else torch.div(x, y, rounding_mode="floor")


def _prelu(x: Tensor, alpha: Tensor, axis: int) -> Tensor:
    return torch.where(x > 0, x, x * _along(alpha.reshape(-1), x.ndim, [axis]))


# ---- windows ----------------------------------------------------------------------------------------------------


def _channels_first(x: Tensor, layout: str) -> Tensor:
    """The canonical order N, C, D, H, W of whatever dimensions there are; a view."""
    wanted = "NC" + "".join(letter for letter in "DHW" if letter in layout)
    return x if layout == wanted else x.permute([layout.index(letter) for letter in wanted])


def _from_channels_first(x: Tensor, layout: str) -> Tensor:
    have = "NC" + "".join(letter for letter in "DHW" if letter in layout)
    return x if layout == have else x.permute([have.index(letter) for letter in layout])


def _kernel_first(w: Tensor, layout: str, lead: str) -> Tensor:
    wanted = lead + "".join(letter for letter in "DHW" if letter in layout)
    return w if layout == wanted else w.permute([layout.index(letter) for letter in wanted])


def _symmetric(x: Tensor, padding: Sequence[int], value: float = 0.0) -> tuple[Tensor, list[int]]:
    """The padding as PyTorch's convolutions take it: one number a dimension, the rest by an explicit pad."""
    count = len(padding) // 2
    before, after = list(padding[:count]), list(padding[count:])
    if before == after:
        return x, before
    pairs = [n for pair in zip(reversed(before), reversed(after), strict=True) for n in pair]
    return F.pad(x, pairs, value=value), [0] * count


def _conv(count: int) -> Function:
    function = (F.conv1d, F.conv2d, F.conv3d)[count - 1]

    def conv(x: Tensor, w: Tensor, **attrs: Any) -> Tensor:
        x, w = _channels_first(x, attrs["data_layout"]), _kernel_first(w, attrs["kernel_layout"], "OI")
        x, padding = _symmetric(x, attrs["padding"])
        y = function(x, w, None, attrs["strides"], padding, attrs["dilation"], attrs["groups"])  # type: ignore[operator]
        return _from_channels_first(_as(y, attrs["out_dtype"]), attrs["out_layout"])

    return conv


def _conv_transpose(count: int) -> Function:
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[count - 1]

    def conv_transpose(x: Tensor, w: Tensor, **attrs: Any) -> Tensor:
        x, w = _channels_first(x, attrs["data_layout"]), _kernel_first(w, attrs["kernel_layout"], "IO")
        before, after = attrs["padding"][:count], attrs["padding"][count:]
        least = [min(pair) for pair in zip(before, after, strict=True)]
        y = function(
            x, w, None, attrs["strides"], least, attrs["output_padding"], attrs["groups"], attrs["dilation"]
        )  # type: ignore[operator]
        for axis in range(count):
            cut = y.shape[2 + axis] - (before[axis] - least[axis]) - (after[axis] - least[axis])
            y = y.narrow(2 + axis, before[axis] - least[axis], cut)
        return _from_channels_first(_as(y, attrs["out_dtype"]), attrs["out_layout"])

    return conv_transpose


def _max_pool(count: int) -> Function:
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[count - 1]

    def pool(x: Tensor, **attrs: Any) -> Tensor:
        x = _channels_first(x, attrs["layout"])
        x, padding = _symmetric(x, attrs["padding"], -math.inf)
        y = function(x, attrs["pool_size"], attrs["strides"], padding, attrs["dilation"], attrs["ceil_mode"])
        return _from_channels_first(y, attrs["out_layout"])

    return pool


def _avg_pool(count: int) -> Function:
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[count - 1]

    def pool(x: Tensor, **attrs: Any) -> Tensor:
        x, size, strides = _channels_first(x, attrs["layout"]), attrs["pool_size"], attrs["strides"]
        before, after = attrs["padding"][:count], attrs["padding"][count:]
        plain = all(d == 1 for d in attrs["dilation"])
        if plain and before == after and all(2 * p <= k for p, k in zip(before, size, strict=True)):
            y = function(x, size, strides, before, attrs["ceil_mode"], attrs["count_include_pad"])
        else:
            y = _avg_by_sums(x, attrs, count)
        return _from_channels_first(y, attrs["out_layout"])

    return pool


def _avg_by_sums(x: Tensor, attrs: dict[str, Any], count: int) -> Tensor:
    """Averages that PyTorch has no operator for: sums by a convolution with ones over how many elements they have."""
    conv = (F.conv1d, F.conv2d, F.conv3d)[count - 1]
    before, after = attrs["padding"][:count], list(attrs["padding"][count:])
    inside = torch.ones_like(x[:1, :1])
    pairs = [n for pair in zip(reversed(before), reversed(after), strict=True) for n in pair]
    x, counted = F.pad(x, pairs), F.pad(inside, pairs, value=float(attrs["count_include_pad"]))
    if attrs["ceil_mode"]:
        more = []
        for i in range(count):
            reach = attrs["dilation"][i] * (attrs["pool_size"][i] - 1) + 1
            more += [-(x.shape[2 + i] - reach) % attrs["strides"][i], 0]
        x, counted = F.pad(x, more[::-1]), F.pad(counted, more[::-1])
    ones = torch.ones(1, 1, *attrs["pool_size"], dtype=x.dtype)
    shape = x.shape
    sums = conv(x.reshape(-1, 1, *shape[2:]), ones, None, attrs["strides"], 0, attrs["dilation"])  # type: ignore[operator]
    sizes = conv(counted, ones, None, attrs["strides"], 0, attrs["dilation"])  # type: ignore[operator]
    return (sums / sizes.clamp(min=1)).reshape(*shape[:2], *sums.shape[2:])


def _adaptive_avg_pool(count: int) -> Function:
    function = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[count - 1]

    def pool(x: Tensor, output_size: Any, layout: str, out_layout: str) -> Tensor:
        x = _channels_first(x, layout)
        y = function(x, tuple(x.shape[2:] if output_size is None else output_size))  # type: ignore[arg-type]
        return _from_channels_first(y, out_layout)

    return pool


# ---- normalization ----------------------------------------------------------------------------------------------


def _batch_norm(x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, var: Tensor, **attrs: Any) -> Any:
    weight, bias = gamma if attrs["scale"] else None, beta if attrs["center"] else None
    moved, axis = x, attrs["axis"] % x.ndim
    if axis != 1:
        moved = x.movedim(axis, 1)
    if attrs["training"]:
        others = [i for i in range(x.ndim) if i != axis]
        batch_mean, batch_var = x.mean(others), x.var(others, unbiased=False)
        y = F.batch_norm(moved, batch_mean, batch_var, weight, bias, eps=attrs["epsilon"])
        rest, momentum = 1 - attrs["momentum"], attrs["momentum"]
        mean, var = rest * mean + momentum * batch_mean, rest * var + momentum * batch_var
    else:
        y = F.batch_norm(moved, mean, var, weight, bias, eps=attrs["epsilon"])
    return y if axis == 1 else y.movedim(1, axis), mean, var


def _layer_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, axes: Any, epsilon: float, center: bool, scale: bool
) -> Tensor:
    places = [axis % x.ndim for axis in axes]
    if places == list(range(x.ndim - len(places), x.ndim)):
        shape = x.shape[places[0] :]
        weight = gamma.reshape(shape) if scale else None
        return F.layer_norm(x, shape, weight, beta.reshape(shape) if center else None, epsilon)
    y = _normalized(x, places, epsilon)
    y = y * _along(gamma, x.ndim, places) if scale else y
    return y + _along(beta, x.ndim, places) if center else y


def _normalized(x: Tensor, places: Sequence[int], epsilon: float) -> Tensor:
    mean = x.mean(list(places), keepdim=True)
    return (x - mean) * torch.rsqrt(x.var(list(places), unbiased=False, keepdim=True) + epsilon)


def _group_norm(x: Tensor, gamma: Tensor, beta: Tensor, num_groups: int, **attrs: Any) -> Tensor:
    channel = attrs["channel_axis"] % x.ndim
    places = [axis % x.ndim for axis in attrs["axes"]]
    weight, bias = gamma if attrs["scale"] else None, beta if attrs["center"] else None
    if channel == 1 and places == list(range(2, x.ndim)):
        return F.group_norm(x, num_groups, weight, bias, attrs["epsilon"])
    grouped = x.unflatten(channel, (num_groups, -1))
    reduced = [channel + 1, *(place + (place > channel) for place in places)]
    y = _normalized(grouped, reduced, attrs["epsilon"]).reshape(x.shape)
    y = y if weight is None else y * _along(weight, x.ndim, [channel])
    return y if bias is None else y + _along(bias, x.ndim, [channel])


def _instance_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, channel_axis: int, axes: Any, **attrs: Any
) -> Tensor:
    y = _normalized(x, [axis % x.ndim for axis in axes], attrs["epsilon"])
    y = y * _along(gamma, x.ndim, [channel_axis]) if attrs["scale"] else y
    return y + _along(beta, x.ndim, [channel_axis]) if attrs["center"] else y


def _rms_norm(x: Tensor, weight: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    places = [axis % x.ndim for axis in axes]
    if places == list(range(x.ndim - len(places), x.ndim)):
        shape = x.shape[places[0] :]
        return F.rms_norm(x, shape, weight.reshape(shape), epsilon)
    scale = torch.rsqrt(x.float().square().mean(places, keepdim=True) + epsilon)
    return (x * scale * _along(weight, x.ndim, places)).to(x.dtype)


# ---- products, reductions ---------------------------------------------------------------------------------------


def _matmul(x: Tensor, y: Tensor, out_dtype: str) -> Tensor:
    return _as(torch.matmul(x, y), out_dtype)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    *,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> Tensor:
    """Attention over ``(batch, sequence, heads, size)``."""
    q, k, v = (item.transpose(1, 2) for item in (query, key, value))
    if k.shape[1] != q.shape[1]:
        k, v = (item.repeat_interleave(q.shape[1] // item.shape[1], 1) for item in (k, v))
    mask = bias
    if causal_mask or window_size:
        rows, columns = q.shape[2], k.shape[2]
        offset = columns - rows if causal_mask == "BottomRight" else 0
        ahead = torch.arange(columns) - torch.arange(rows)[:, None] - offset
        keep = ahead <= 0
        if window_size:
            keep = keep & (ahead > -window_size)
        allowed = torch.zeros(rows, columns, dtype=q.dtype).masked_fill(~keep, -math.inf)
        mask = allowed if bias is None else bias + allowed
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale).transpose(1, 2)


def _reduction(function: Function) -> Function:
    def reduce(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
        return function(x, _axes(x, axis), keepdim=keepdims)  # type: ignore[no-any-return]

    return reduce


def _sum(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return x.sum(_axes(x, axis), keepdim=keepdims, dtype=x.dtype)


def _prod(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    for place in sorted((i % x.ndim for i in _axes(x, axis)), reverse=True):
        x = x.prod(place, keepdim=keepdims, dtype=x.dtype)
    return x


def _variance(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return x.var(_axes(x, axis), unbiased=False, keepdim=keepdims)


def _std(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return x.std(_axes(x, axis), unbiased=False, keepdim=keepdims)


def _arg(function: Function) -> Function:
    def arg(x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
        if axis is None:
            result = function(x.reshape(-1), 0)
            return result.reshape([1] * x.ndim) if keepdims else result  # type: ignore[no-any-return]
        return function(x, axis, keepdim=keepdims)  # type: ignore[no-any-return]

    return arg


def _scan(function: Function) -> Function:
    def scan(x: Tensor, axis: int | None, dtype: str, exclusive: bool) -> Tensor:
        if axis is None:
            x, axis = x.reshape(-1), 0
        y = function(x, axis, dtype=torch_dtype(dtype) if dtype else x.dtype)
        if exclusive:
            identity = 0 if function is torch.cumsum else 1
            y = torch.cat(
                [torch.full_like(y.narrow(axis, 0, 1), identity), y.narrow(axis, 0, y.shape[axis] - 1)], axis
            )
        return y  # type: ignore[no-any-return]

    return scan


# ---- order ------------------------------------------------------------------------------------------------------


def _topk(x: Tensor, k: int, axis: int, ret_type: str, largest: bool, dtype: str) -> Any:
    # by a stable sort, since ties go to the first element
    order = torch.sort(x, dim=axis, descending=largest, stable=True)
    count = k if k > 0 else x.shape[axis]
    values, indices = (item.narrow(axis, 0, count) for item in (order.values, order.indices))
    indices = _as(indices, dtype)
    return {"both": (values, indices), "values": values, "indices": indices}[ret_type]


def _argsort(x: Tensor, axis: int, descending: bool, dtype: str) -> Tensor:
    return _as(torch.argsort(x, dim=axis, descending=descending, stable=True), dtype)


def _one_hot(indices: Tensor, on: Any, off: Any, depth: int, axis: int) -> Tensor:
    hot = F.one_hot(indices.long(), depth).movedim(-1, axis)
    kind = torch.float32 if isinstance(on, float) else torch.int64
    return torch.where(hot.bool(), torch.tensor(on, dtype=kind), torch.tensor(off, dtype=kind))


# ---- data that only moves ---------------------------------------------------------------------------------------


def _take(x: Tensor, indices: Any, axis: int | None, mode: str) -> Tensor:
    axis = 0 if axis is None else axis % x.ndim
    indices = torch.as_tensor(indices)
    if mode == "clip":
        indices = indices.clamp(0, x.shape[axis] - 1)
    elif mode == "wrap":
        indices = indices % x.shape[axis]
    if axis == 0 and x.ndim == 2 and mode == "fast":
        # what a model's embedding is; a negative index counts from the end, which F.embedding does not know
        return F.embedding(torch.where(indices < 0, indices + x.shape[0], indices), x)
    place = torch.where(indices < 0, indices + x.shape[axis], indices).reshape(-1).long()
    picked = torch.index_select(x, axis, place)
    return picked.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _strided_slice(
    x: Tensor, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False
) -> Tensor:
    for i, axis in enumerate(axes):
        step = 1 if strides is None else strides[i]
        first, last, step = slice(begin[i], end[i], step).indices(x.shape[axis])
        if step < 0:
            x = torch.index_select(x, axis, torch.arange(first, last, step))
        else:
            x = x.narrow(axis, first, max(0, last - first))
            x = x if step == 1 else x[(slice(None),) * (axis % x.ndim) + (slice(None, None, step),)]
    return x


def _split(x: Tensor, indices_or_sections: Any, axis: int) -> tuple[Tensor, ...]:
    if isinstance(indices_or_sections, int):
        return torch.split(x, -(-x.shape[axis] // indices_or_sections), axis)
    return torch.tensor_split(x, list(indices_or_sections), axis)


def _expand_dims(x: Tensor, axis: Sequence[int]) -> Tensor:
    ndim = x.ndim + len(axis)
    for place in sorted(i % ndim for i in axis):
        x = x.unsqueeze(place)
    return x


def _squeeze(x: Tensor, axis: Sequence[int] | None) -> Tensor:
    return x.squeeze() if axis is None else x.squeeze(tuple(axis))


def _permute(x: Tensor, axes: Sequence[int] | None) -> Tensor:
    return x.permute(tuple(range(x.ndim))[::-1] if axes is None else tuple(axes))


def _pad(x: Tensor, pad_width: Sequence[int], pad_mode: str, pad_value: float) -> Tensor:
    pairs = [n for i in reversed(range(x.ndim)) for n in (pad_width[2 * i], pad_width[2 * i + 1])]
    if pad_mode == "constant":
        return F.pad(x, pairs, value=pad_value)
    for axis in range(x.ndim):
        # PyTorch pads the last few dimensions only; picking elements serves all of them
        before, after, n = pad_width[2 * axis], pad_width[2 * axis + 1], x.shape[axis]
        place = torch.arange(-before, n + after)
        if pad_mode == "reflect":
            place = (n - 1) - ((place % max(2 * n - 2, 1)) - (n - 1)).abs()
        elif pad_mode == "circular":
            place = place % n
        else:
            place = place.clamp(0, n - 1)
        x = torch.index_select(x, axis, place)
    return x


def _gather_nd(x: Tensor, indices: Tensor, batch_dims: int) -> Tensor:
    grid = (
        torch.meshgrid(*[torch.arange(n) for n in indices.shape[:batch_dims]], indexing="ij")
        if batch_dims
        else ()
    )
    extra = indices.ndim - 1 - batch_dims
    lead = tuple(item.reshape(*item.shape, *[1] * extra) for item in grid)
    return x[lead + tuple(indices[..., i] for i in range(indices.shape[-1]))]


_REDUCE = {"add": "sum", "mul": "prod", "mean": "mean", "min": "amin", "max": "amax"}


def _scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str) -> Tensor:
    indices = indices.long()
    indices = torch.where(indices < 0, indices + x.shape[axis], indices)
    if reduction == "update":
        return torch.scatter(x, axis, indices, updates)
    return torch.scatter_reduce(x, axis, indices, updates, _REDUCE[reduction])


def _scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    places = tuple(indices[..., i].long() for i in range(indices.shape[-1]))
    if reduction == "update":
        return x.index_put(places, updates)
    if reduction == "add":
        return x.index_put(places, updates, accumulate=True)
    flat = torch.zeros_like(places[0])
    for place, extent in zip(places, x.shape, strict=False):
        flat = flat * extent + torch.where(place < 0, place + extent, place)
    depth = indices.shape[-1]
    rows, tail = x.reshape(-1, *x.shape[depth:]), updates.reshape(-1, *x.shape[depth:])
    return rows.index_reduce(0, flat.reshape(-1), tail, _REDUCE[reduction]).reshape(x.shape)


# ---- new tensors, dtypes ----------------------------------------------------------------------------------------


def _full(shape: Sequence[int], value: Any, dtype: str) -> Tensor:
    value = value.item() if isinstance(value, Tensor) else value
    return torch.full(tuple(shape), value, dtype=torch_dtype(dtype) if dtype else None)


def _full_like(x: Tensor, value: Any, dtype: str | None) -> Tensor:
    value = value.item() if isinstance(value, Tensor) else value
    return torch.full_like(x, value, dtype=torch_dtype(dtype) if dtype else None)


def _quantize(x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, out_dtype: str) -> Tensor:
    if scale.ndim:
        scale, zero_point = (_along(item, x.ndim, [axis]) for item in (scale, zero_point))
    kind = torch.iinfo(torch_dtype(out_dtype))
    return torch.clamp(torch.round(x / scale) + zero_point, kind.min, kind.max).to(torch_dtype(out_dtype))


def _dequantize(x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, out_dtype: str) -> Tensor:
    if scale.ndim:
        scale, zero_point = (_along(item, x.ndim, [axis]) for item in (scale, zero_point))
    return ((x.int() - zero_point.int()) * scale).to(torch_dtype(out_dtype))


_SAME = """abs acos acosh asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clip cos cosh
    erf exp floor floor_divide greater greater_equal isfinite isinf isnan less less_equal log logical_and logical_not
    logical_or logical_xor maximum minimum multiply negative outer round rsqrt sigmoid sign sin sinh sqrt square
    subtract tan tanh tril triu trunc where add flatten""".split()

_OTHER: dict[str, Function] = {
    "divide": _divide,
    "equal": torch.eq,
    "ewise_fma": lambda x, y, z: x * y + z,
    "floor_mod": _floor_mod,
    "left_shift": torch.bitwise_left_shift,
    "log_add_exp": torch.logaddexp,
    "mod": _floor_mod,
    "not_equal": torch.ne,
    "power": torch.pow,
    "right_shift": torch.bitwise_right_shift,
    "nn.dropout": lambda x, rate: (x, torch.ones_like(x)),
    "nn.gelu": F.gelu,
    "nn.gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "nn.leakyrelu": lambda x, alpha: F.leaky_relu(x, alpha),
    "nn.log_softmax": lambda x, axis: F.log_softmax(x, axis),
    "nn.prelu": _prelu,
    "nn.relu": F.relu,
    "nn.relu6": F.relu6,
    "nn.selu": F.selu,
    "nn.silu": F.silu,
    "nn.softmax": lambda x, axis: F.softmax(x, axis),
    "nn.softplus": lambda x, beta, threshold: F.softplus(x, beta, threshold),
    **{f"nn.conv{n}d": _conv(n) for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": _conv_transpose(n) for n in (1, 2, 3)},
    **{f"nn.max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"nn.avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{n}d": _adaptive_avg_pool(n) for n in (1, 2, 3)},
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _layer_norm,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.rms_norm": _rms_norm,
    "nn.attention": _attention,
    "nn.attention_bias": _attention,
    "nn.batch_flatten": lambda x: x.flatten(1),
    "nn.pad": _pad,
    "nn.pixel_shuffle": lambda x, upscale_factor: F.pixel_shuffle(x, upscale_factor),
    "matmul": _matmul,
    "einsum": lambda operands, subscripts: torch.einsum(subscripts, *operands),
    "max": _reduction(torch.amax),
    "min": _reduction(torch.amin),
    "mean": _reduction(torch.mean),
    "sum": _sum,
    "prod": _prod,
    "variance": _variance,
    "std": _std,
    "argmax": _arg(torch.argmax),
    "argmin": _arg(torch.argmin),
    "cumsum": _scan(torch.cumsum),
    "cumprod": _scan(torch.cumprod),
    "topk": _topk,
    "sort": lambda x, axis, descending: torch.sort(x, axis, descending).values,
    "argsort": _argsort,
    "one_hot": _one_hot,
    "astype": lambda x, dtype: _as(x, dtype),
    "wrap_param": lambda x, dtype: _as(x, dtype),
    "broadcast_to": lambda x, shape: x.expand(tuple(shape)),
    "concat": lambda tensors, axis: torch.cat(tensors, 0 if axis is None else axis),
    "stack": lambda tensors, axis: torch.stack(tensors, axis),
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "permute_dims": _permute,
    "reshape": lambda x, shape: x.reshape(tuple(shape)),
    "flip": lambda x, axis: torch.flip(x, [axis] if isinstance(axis, int) else list(axis)),
    "repeat": lambda x, repeats, axis: torch.repeat_interleave(x, repeats, axis),
    "tile": lambda x, repeats: torch.tile(x, (repeats,) if isinstance(repeats, int) else tuple(repeats)),
    "split": _split,
    "strided_slice": _strided_slice,
    "take": _take,
    "gather_elements": lambda x, indices, axis: torch.gather(x, axis, indices.long()),
    "gather_nd": _gather_nd,
    "index_tensor": lambda x, indices: x[tuple(item.long() for item in indices)],
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "full": _full,
    "full_like": _full_like,
    "ones": lambda shape, dtype: _full(shape, 1, dtype),
    "zeros": lambda shape, dtype: _full(shape, 0, dtype),
    "ones_like": lambda x, dtype: _full_like(x, 1, dtype),
    "zeros_like": lambda x, dtype: _full_like(x, 0, dtype),
    "arange": lambda start, end, step, dtype: torch.arange(start, end, step, dtype=torch_dtype(dtype)),
    "quantize": _quantize,
    "dequantize": _dequantize,
}

TORCH_FUNCTIONS: dict[str, Function] = {
    f"relax.{name}": function
    for name, function in ({name: getattr(torch, name) for name in _SAME} | _OTHER).items()
}
"""By the operator's full name."""
