"""Pools over windows and whole images, in both layouts; averages count the elements inside of the image only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .workload import Array, Language, Peers, Workload, in_float64, table


def _image(lang: Language, layout: str, n: int, c: int, h: int, w: int) -> Any:
    extents = {"N": n, "C": c, "H": h, "W": w}
    return lang.te.placeholder([extents[axis] for axis in layout], "float32", name="x")


def _named(layout: str, shape: Sequence[int]) -> list[int]:
    """(N, C, H, W) of the first numbers of a shape, which has them in the order of the layout."""
    return [shape[layout.index(axis)] for axis in "NCHW"]


def _pool(kind: str, layout: str) -> Callable[..., list[Any]]:
    def build(lang: Language, *shape: int) -> list[Any]:
        x = _image(lang, layout, *_named(layout, shape))
        kernel, stride, padding = shape[4:]
        out = lang.topi.nn.pool2d(
            x, [kernel] * 2, [stride] * 2, [1, 1], [padding] * 4, kind, False, layout, False
        )
        return [x, out]

    return build


def _pool_reference(kind: str, layout: str) -> Callable[..., Array]:
    def reference(arrays: Sequence[Array], *shape: int) -> Array:
        kernel, stride, padding = shape[4:]
        axes = layout.index("H"), layout.index("W")
        around = [(padding, padding) if axis in axes else (0, 0) for axis in range(4)]
        x = np.pad(arrays[0].astype("float64"), around, constant_values=np.nan)
        windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=axes)
        inner = tuple(slice(None, None, stride) if axis in axes else slice(None) for axis in range(4))
        # what is NaN lies outside of the image
        fold: Callable[..., Array] = np.nanmax if kind == "max" else np.nanmean
        return fold(windows[inner], axis=(-2, -1))

    return reference


def _pool_flops(layout: str) -> Callable[..., int]:
    def flops(*shape: int) -> int:
        n, c, h, w = _named(layout, shape)
        kernel, stride, padding = shape[4:]
        outs = [(extent + 2 * padding - kernel) // stride + 1 for extent in (h, w)]
        return n * c * outs[0] * outs[1] * kernel * kernel

    return flops


def _torch_pool(kind: str) -> Callable[..., Callable[..., Any]]:
    def form(torch: Any, *shape: int) -> Callable[..., Any]:
        kernel, stride, padding = shape[4:]
        if kind == "max":
            return lambda x: torch.nn.functional.max_pool2d(x, kernel, stride, padding)
        return lambda x: torch.nn.functional.avg_pool2d(x, kernel, stride, padding, count_include_pad=False)

    return form


def _onnx_pool(kind: str) -> Callable[..., list[Any]]:
    operator = {"max": "MaxPool", "avg": "AveragePool"}[kind]

    def nodes(node: Callable[..., Any], *shape: int) -> list[Any]:
        kernel, stride, padding = shape[4:]
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return [node(operator, ["x0"], ["y"], **window)]

    return nodes


def _pool_workload(kind: str, layout: str) -> Workload:
    return Workload(
        f"{kind}_pool_{layout.lower()}",
        f"{kind} pool ({', '.join(layout)}, kernel, stride, padding)",
        ((*(1, 64, 112, 112), 3, 2, 1) if layout == "NCHW" else (*(1, 112, 112, 64), 3, 2, 1),),
        _pool(kind, layout),
        _pool_reference(kind, layout),
        _pool_flops(layout),
        peers=Peers(_torch_pool(kind), _onnx_pool(kind), channels_last=layout == "NHWC"),
    )


def _global_pool(layout: str) -> Callable[..., list[Any]]:
    def build(lang: Language, *shape: int) -> list[Any]:
        x = _image(lang, layout, *_named(layout, shape))
        return [x, lang.topi.nn.adaptive_pool(x, (1, 1), "avg", layout)]

    return build


def _global_pool_by_numpy(layout: str) -> Callable[..., Array]:
    axes = layout.index("H"), layout.index("W")
    return lambda arrays, *shape: arrays[0].mean(axes, keepdims=True)


def _torch_global_pool(torch: Any, *shape: int) -> Callable[..., Any]:
    return lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 1)


def _global_pool_workload(layout: str) -> Workload:
    sizes = ((1, 512, 7, 7), (1, 1280, 7, 7))
    by_numpy = _global_pool_by_numpy(layout)
    return Workload(
        f"global_pool_{layout.lower()}",
        f"average of each channel ({', '.join(layout)})",
        tuple(tuple(dict(zip("NCHW", size, strict=True))[axis] for axis in layout) for size in sizes),
        _global_pool(layout),
        in_float64(by_numpy),
        lambda *shape: int(np.prod(shape)),
        peers=Peers(
            _torch_global_pool,
            lambda node, *shape: [node("GlobalAveragePool", ["x0"], ["y"])],
            by_numpy,
            channels_last=layout == "NHWC",
        ),
    )


WORKLOADS: dict[str, Workload] = table(
    *[_pool_workload(kind, layout) for kind in ("max", "avg") for layout in ("NCHW", "NHWC")],
    *[_global_pool_workload(layout) for layout in ("NCHW", "NHWC")],
)
