"""Layer, RMS and group normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .workload import Array, Language, Peers, Workload, in_float64, table

EPSILON = 1e-5


def _layer_norm(lang: Language, rows: int, columns: int) -> list[Any]:
    x = lang.te.placeholder((rows, columns), "float32", name="x")
    scale, shift = (lang.te.placeholder((columns,), "float32", name=name) for name in ("scale", "shift"))
    return [x, scale, shift, lang.topi.nn.layer_norm(x, scale, shift, [1], EPSILON)]


def _standardized(x: Array, axes: tuple[int, ...]) -> Array:
    centered = x - x.mean(axes, keepdims=True)
    return np.asarray(centered / np.sqrt((centered * centered).mean(axes, keepdims=True) + EPSILON))


def _layer_norm_by_numpy(arrays: Sequence[Array], rows: int, columns: int) -> Array:
    x, scale, shift = arrays
    return _standardized(x, (1,)) * scale + shift


def _torch_layer_norm(torch: Any, rows: int, columns: int) -> Callable[..., Any]:
    return lambda x, scale, shift: torch.nn.functional.layer_norm(x, (columns,), scale, shift, EPSILON)


def _onnx_layer_norm(node: Callable[..., Any], rows: int, columns: int) -> list[Any]:
    return [node("LayerNormalization", ["x0", "x1", "x2"], ["y"], axis=1, epsilon=EPSILON)]


def _rms_norm(lang: Language, rows: int, columns: int) -> list[Any]:
    x = lang.te.placeholder((rows, columns), "float32", name="x")
    scale = lang.te.placeholder((columns,), "float32", name="scale")
    return [x, scale, lang.topi.nn.rms_norm(x, scale, [1], EPSILON)]


def _rms_norm_by_numpy(arrays: Sequence[Array], rows: int, columns: int) -> Array:
    x, scale = arrays
    return np.asarray(x / np.sqrt((x * x).mean(1, keepdims=True) + EPSILON) * scale)


def _torch_rms_norm(torch: Any, rows: int, columns: int) -> Callable[..., Any]:
    return lambda x, scale: torch.nn.functional.rms_norm(x, (columns,), scale, EPSILON)


def _onnx_rms_norm(node: Callable[..., Any], rows: int, columns: int) -> list[Any]:
    return [node("RMSNormalization", ["x0", "x1"], ["y"], axis=1, epsilon=EPSILON)]


def _group_norm(lang: Language, n: int, c: int, h: int, w: int, groups: int) -> list[Any]:
    x = lang.te.placeholder((n, c, h, w), "float32", name="x")
    scale, shift = (lang.te.placeholder((c,), "float32", name=name) for name in ("scale", "shift"))
    return [x, scale, shift, lang.topi.nn.group_norm(x, scale, shift, groups, 1, [2, 3], EPSILON)]


def _group_norm_by_numpy(arrays: Sequence[Array], n: int, c: int, h: int, w: int, groups: int) -> Array:
    x, scale, shift = arrays
    grouped = _standardized(x.reshape(n, groups, c // groups, h, w), (2, 3, 4)).reshape(n, c, h, w)
    return grouped * scale[:, None, None] + shift[:, None, None]


def _torch_group_norm(torch: Any, n: int, c: int, h: int, w: int, groups: int) -> Callable[..., Any]:
    return lambda x, scale, shift: torch.nn.functional.group_norm(x, groups, scale, shift, EPSILON)


def _onnx_group_norm(node: Callable[..., Any], n: int, c: int, h: int, w: int, groups: int) -> list[Any]:
    return [node("GroupNormalization", ["x0", "x1", "x2"], ["y"], num_groups=groups, epsilon=EPSILON)]


WORKLOADS: dict[str, Workload] = table(
    Workload(
        "layer_norm",
        "layer norm over the columns (rows, columns)",
        ((128, 768), (8, 16384)),
        _layer_norm,
        in_float64(_layer_norm_by_numpy),
        lambda rows, columns: 7 * rows * columns,
        peers=Peers(_torch_layer_norm, _onnx_layer_norm, _layer_norm_by_numpy, weights=2),
    ),
    Workload(
        "rms_norm",
        "RMS norm over the columns (rows, columns)",
        ((128, 4096),),
        _rms_norm,
        in_float64(_rms_norm_by_numpy),
        lambda rows, columns: 4 * rows * columns,
        peers=Peers(_torch_rms_norm, _onnx_rms_norm, _rms_norm_by_numpy, weights=1),
    ),
    Workload(
        "group_norm",
        "group norm NCHW (N, C, H, W, groups)",
        ((1, 64, 56, 56, 32),),
        _group_norm,
        in_float64(_group_norm_by_numpy),
        lambda n, c, h, w, groups: 7 * n * c * h * w,
        peers=Peers(_torch_group_norm, _onnx_group_norm, _group_norm_by_numpy, weights=2),
    ),
)
