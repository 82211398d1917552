"""Numpy references of the operators that numpy lacks: convolutions, pools, resizing, normalizations.

Data is channel-first (N, C, spatial...) with any number of spatial axes; everything is computed in float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray


def _f64(*arrays: Array) -> list[Array]:
    return [np.asarray(item, "float64") for item in arrays]


def conv(
    data: Array,
    kernel: Array,
    strides: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Array:
    """Convolution of (N, C, spatial...) by (O, C / groups, spatial...)."""
    data, kernel = _f64(data, kernel)
    data = np.pad(data, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    sizes = kernel.shape[2:]
    outs = [
        (extent - d * (k - 1) - 1) // s + 1
        for extent, k, s, d in zip(data.shape[2:], sizes, strides, dilation, strict=True)
    ]
    n, o, per = data.shape[0], kernel.shape[0], kernel.shape[1]
    result = np.zeros((n, o, *outs))
    for tap in np.ndindex(*sizes):
        window = tuple(
            slice(t * d, t * d + (out - 1) * s + 1, s)
            for t, d, out, s in zip(tap, dilation, outs, strides, strict=True)
        )
        patch = data[(slice(None), slice(None), *window)]
        for g in range(groups):
            rows = slice(g * o // groups, (g + 1) * o // groups)
            weight = kernel[(rows, slice(None), *tap)]
            result[:, rows] += np.einsum("nc...,oc->no...", patch[:, g * per : (g + 1) * per], weight)
    return result


def conv_transpose(
    data: Array,
    kernel: Array,
    strides: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    output_padding: Sequence[int],
    groups: int = 1,
) -> Array:
    """Transposed convolution of (N, C, spatial...) by (C, O / groups, spatial...)."""
    data, kernel = _f64(data, kernel)
    n, c, *extents = data.shape
    sizes, per = kernel.shape[2:], kernel.shape[1]
    full = np.zeros(
        (
            n,
            per * groups,
            *[(e - 1) * s + k + p for e, s, k, p in zip(extents, strides, sizes, output_padding)],
        )
    )
    for tap in np.ndindex(*sizes):
        window = tuple(
            slice(t, t + (e - 1) * s + 1, s) for t, e, s in zip(tap, extents, strides, strict=True)
        )
        for g in range(groups):
            part = data[:, g * c // groups : (g + 1) * c // groups]
            weight = kernel[(slice(g * c // groups, (g + 1) * c // groups), slice(None), *tap)]
            target = (slice(None), slice(g * per, (g + 1) * per), *window)
            full[target] += np.einsum("nc...,co->no...", part, weight)
    crop = tuple(slice(b, extent - a) for b, a, extent in zip(before, after, full.shape[2:], strict=True))
    return full[(slice(None), slice(None), *crop)]


def pool(
    data: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    kind: str,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """Pooling, ``kind`` "max" or "avg"; windows start inside the data or the padding before it."""
    (data,) = _f64(data)
    extents = data.shape[2:]
    outs = []
    for extent, k, s, d, b, a in zip(extents, kernel, strides, dilation, before, after, strict=True):
        span = extent + b + a - d * (k - 1) - 1
        out = (-(-span // s) if ceil_mode else span // s) + 1
        outs.append(min(out, (extent + b - 1) // s + 1) if ceil_mode else out)
    result = np.zeros((*data.shape[:2], *outs))
    for place in np.ndindex(*outs):
        axes = []
        count = 1
        for i, s, k, d, b, a, extent in zip(
            place, strides, kernel, dilation, before, after, extents, strict=True
        ):
            taps = [i * s - b + r * d for r in range(k)]
            inside = [t for t in taps if 0 <= t < extent]
            axes.append(inside)
            count *= len([t for t in taps if t < extent + a]) if count_include_pad else len(inside)
        values = data[(slice(None), slice(None), *np.ix_(*axes))].reshape(*data.shape[:2], -1)
        result[(slice(None), slice(None), *place)] = (
            values.max(-1) if kind == "max" else values.sum(-1) / count
        )
    return result


def adaptive_pool(data: Array, output_size: Sequence[int], kind: str) -> Array:
    """Pooling from ``floor(i * in / out)`` to ``ceil((i + 1) * in / out)``."""
    (data,) = _f64(data)
    result = np.zeros((*data.shape[:2], *output_size))
    for place in np.ndindex(*output_size):
        window = tuple(
            slice(i * extent // out, -(-(i + 1) * extent // out))
            for i, extent, out in zip(place, data.shape[2:], output_size, strict=True)
        )
        values = data[(slice(None), slice(None), *window)].reshape(*data.shape[:2], -1)
        result[(slice(None), slice(None), *place)] = values.max(-1) if kind == "max" else values.mean(-1)
    return result


def normalize(data: Array, axes: Sequence[int], epsilon: float) -> Array:
    """``(x - mean) / sqrt(var + epsilon)`` over ``axes``."""
    (data,) = _f64(data)
    mean = data.mean(tuple(axes), keepdims=True)
    return (data - mean) / np.sqrt(data.var(tuple(axes), keepdims=True) + epsilon)


def softmax(data: Array, axis: int = -1) -> Array:
    """Softmax along ``axis``."""
    (data,) = _f64(data)
    e = np.exp(data - data.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _coordinate(x: int, in_size: int, out_size: int, mode: str) -> Fraction:
    scale, half = Fraction(in_size, out_size), Fraction(1, 2)
    if mode == "align_corners":
        return Fraction(x * (in_size - 1), out_size - 1) if out_size > 1 else Fraction(0)
    if mode == "asymmetric":
        return x * scale
    if mode == "tf_half_pixel_for_nn":
        return (x + half) * scale
    if mode == "pytorch_half_pixel" and out_size == 1:
        return Fraction(0)
    return (x + half) * scale - half


def _round(value: Fraction, rounding: str) -> int:
    half = Fraction(1, 2)
    return {
        "round": lambda: math.floor(value + half),
        "round_prefer_floor": lambda: math.ceil(value - half),
        "round_prefer_ceil": lambda: math.floor(value + half),
        "floor": lambda: math.floor(value),
        "ceil": lambda: math.ceil(value),
    }[rounding]()


def _taps(
    x: int, in_size: int, out_size: int, method: str, mode: str, rounding: str, alpha: float
) -> list[tuple[int, float]]:
    place = _coordinate(x, in_size, out_size, mode)
    if method == "nearest_neighbor":
        return [(min(max(_round(place, rounding), 0), in_size - 1), 1.0)]
    left = math.floor(place)
    t = float(place - left)
    if method == "linear":
        weights = {left: 1 - t, left + 1: t}
    else:
        distances = [(left + n, abs(t - n)) for n in (-1, 0, 1, 2)]
        weights = {
            index: (alpha + 2) * d**3 - (alpha + 3) * d**2 + 1
            if d <= 1
            else alpha * d**3 - 5 * alpha * d**2 + 8 * alpha * d - 4 * alpha
            for index, d in distances
        }
    return [(min(max(index, 0), in_size - 1), weight) for index, weight in weights.items()]


def resize(
    data: Array,
    size: Sequence[int],
    method: str,
    mode: str = "half_pixel",
    rounding: str = "round",
    alpha: float = -0.75,
) -> Array:
    """Resizing of the spatial axes to ``size``, by the definitions of ONNX."""
    (data,) = _f64(data)
    result = np.zeros((*data.shape[:2], *size))
    for place in np.ndindex(*size):
        taps = [
            _taps(x, extent, out, method, mode, rounding, alpha)
            for x, extent, out in zip(place, data.shape[2:], size, strict=True)
        ]
        for combination in itertools.product(*taps):
            index: tuple[Any, ...] = (slice(None), slice(None), *[item[0] for item in combination])
            target: tuple[Any, ...] = (slice(None), slice(None), *place)
            result[target] += data[index] * math.prod(item[1] for item in combination)
    return result
