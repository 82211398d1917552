"""What moves elements to places that are known beforehand: transposed, joined, and resized by interpolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .workload import Array, Language, Peers, Workload, table


def _transpose(order: Sequence[int]) -> Callable[..., list[Any]]:
    def build(lang: Language, *shape: int) -> list[Any]:
        x = lang.te.placeholder(shape, "float32", name="x")
        return [x, lang.topi.transpose(x, list(order))]

    return build


def _transpose_workload(
    name: str, description: str, shapes: tuple[tuple[int, ...], ...], order: Sequence[int]
) -> Workload:
    def by_numpy(arrays: Sequence[Array], *shape: int) -> Array:
        return np.ascontiguousarray(arrays[0].transpose(order))

    def torch_form(torch: Any, *shape: int) -> Callable[..., Any]:
        return lambda x: x.permute(order).contiguous()

    def nodes(node: Callable[..., Any], *shape: int) -> list[Any]:
        return [node("Transpose", ["x0"], ["y"], perm=list(order))]

    peers = Peers(torch_form, nodes, by_numpy)
    return Workload(name, description, shapes, _transpose(order), by_numpy, None, peers=peers)


def _concat(lang: Language, rows: int, first: int, second: int) -> list[Any]:
    parts = [
        lang.te.placeholder((rows, columns), "float32", name=name)
        for name, columns in (("a", first), ("b", second))
    ]
    return [*parts, lang.topi.concatenate(tuple(parts), axis=1)]


def _resize(lang: Language, n: int, c: int, h: int, w: int, factor: int) -> list[Any]:
    x = lang.te.placeholder((n, c, h, w), "float32", name="x")
    whole = (0.0, 0.0, 0.0, 0.0)
    size = [h * factor, w * factor]
    return [x, lang.topi.image.resize2d(x, whole, size, "NCHW", "linear", "half_pixel")]


def _resize_reference(arrays: Sequence[Array], n: int, c: int, h: int, w: int, factor: int) -> Array:
    rows, columns = _weights(h, factor), _weights(w, factor)
    return np.asarray(
        np.einsum("yh,nchw,xw->ncyx", rows, arrays[0].astype("float64"), columns, optimize=True)
    )


def _weights(extent: int, factor: int) -> Array:
    """How much of each element an interpolated one has: of the two whose centres are nearest, or of the one at the edge."""
    place = np.clip((np.arange(extent * factor) + 0.5) / factor - 0.5, 0, extent - 1)
    return np.maximum(0, 1 - np.abs(place[:, None] - np.arange(extent)))


def _resize_flops(n: int, c: int, h: int, w: int, factor: int) -> int:
    return 6 * n * c * h * w * factor * factor


def _torch_resize(torch: Any, n: int, c: int, h: int, w: int, factor: int) -> Callable[..., Any]:
    interpolate = torch.nn.functional.interpolate
    return lambda x: interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)


def _onnx_resize(node: Callable[..., Any], n: int, c: int, h: int, w: int, factor: int) -> list[Any]:
    return [
        node("Constant", [], ["scales"], value_floats=[1.0, 1.0, factor, factor]),
        node("Resize", ["x0", "", "scales"], ["y"], mode="linear"),
    ]


WORKLOADS: dict[str, Workload] = table(
    _transpose_workload("transpose", "rows become columns (rows, columns)", ((1024, 768),), (1, 0)),
    _transpose_workload("nchw_to_nhwc", "channels last (N, C, H, W)", ((1, 64, 56, 56),), (0, 2, 3, 1)),
    _transpose_workload("nhwc_to_nchw", "channels first (N, H, W, C)", ((1, 56, 56, 64),), (0, 3, 1, 2)),
    Workload(
        "concat",
        "two matrices side by side (rows, columns of the first, of the second)",
        ((1024, 512, 256),),
        _concat,
        lambda arrays, *shape: np.concatenate(arrays, axis=1),
        None,
        peers=Peers(
            lambda torch, *shape: lambda a, b: torch.cat((a, b), dim=1),
            lambda node, *shape: [node("Concat", ["x0", "x1"], ["y"], axis=1)],
            lambda arrays, *shape: np.concatenate(arrays, axis=1),
        ),
    ),
    Workload(
        "resize",
        "bilinear interpolation between the centres of pixels NCHW (N, C, H, W, factor)",
        ((1, 64, 56, 56, 2),),
        _resize,
        _resize_reference,
        _resize_flops,
        peers=Peers(_torch_resize, _onnx_resize),
    ),
)
