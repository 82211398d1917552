"""Pooling windows and adaptive pooling in one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import dtype as dt
from ....tir.op import min as tir_min
from ...expr import Call, Expr, Var
from ...struct_info import StructInfo, TensorStructInfo
from ..array import in_float32
from ..declaration import Gradient, MixedPrecisionPolicy, OpPatternKind, call, make, operator
from ..inference import int64, require_ndim, require_number, simplify, tensor_args
from ..layout import axes_of, canonical_shape, check_layout, shape_in
from ..layout_rule import Desired, LayoutPlan, Layouts, is_permuted, stored_letters
from ..legalization import topi_function
from ..requirement import require_at_most
from .conv import full_padding, per_axis

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def _infer_pool(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    require_number(node, info)
    attrs, count = node.attrs, len(node.attrs["pool_size"])
    canonical = "NC" + _SPATIAL[count]
    require_ndim(node, info, len(axes_of(attrs["layout"])), "data")
    if info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, len(axes_of(attrs["out_layout"])))
    shape = canonical_shape(attrs["layout"], info.shape_values, canonical)
    for i in range(count):
        window = (attrs["pool_size"][i] - 1) * attrs["dilation"][i] + 1
        extent, before, step = shape[2 + i], attrs["padding"][i], attrs["strides"][i]
        space = extent + (before + attrs["padding"][i + count] - window)
        if attrs["ceil_mode"]:
            # The last window starts inside the data or the padding before it, never behind.
            last = extent + (before - 1)
            shape[2 + i] = simplify(tir_min((space + (step - 1)) // step, last // step) + 1)
        else:
            shape[2 + i] = simplify(space // step + 1)
        text = f"the window of {window} exceeds the padded extent of spatial axis {i}: at least {{}} is needed, {{}} fit"
        require_at_most(node, int64(1), shape[2 + i], text)
    return TensorStructInfo(shape_in(attrs["out_layout"], canonical, shape), info.dtype, info.vdevice)


def _legalize_pool(kind: str) -> Any:
    def legalize(bb: Any, node: Call) -> Expr:
        attrs = node.attrs
        if attrs["out_layout"] != attrs["layout"]:
            return node
        count = len(attrs["pool_size"])
        return bb.call_te(
            topi_function(f"nn.pool{count}d"),
            node.args[0],
            kernel=list(attrs["pool_size"]),
            stride=list(attrs["strides"]),
            dilation=list(attrs["dilation"]),
            padding=list(attrs["padding"]),
            pool_type=kind,
            ceil_mode=attrs["ceil_mode"],
            layout=attrs["layout"],
            count_include_pad=attrs["count_include_pad"],
            primfunc_name_hint=f"{kind}_pool{count}d",
        )

    return legalize


def _least(dtype: np.dtype[Any]) -> Any:
    """What a maximum starts at, and stays in a window of padding alone."""
    name = dt.from_numpy(dtype)
    return dtype.type(-np.inf if dt.is_float(name) else dt.integer_range(name)[0])


def np_pool(kind: str) -> Any:
    """Pooling by the definition, one window at a time."""

    def pool(x: np.ndarray, **attrs: Any) -> np.ndarray:
        count = len(attrs["pool_size"])
        canonical = "NC" + _SPATIAL[count]
        x = x.transpose([attrs["layout"].index(letter) for letter in canonical])
        spatial, pads = x.shape[2:], attrs["padding"]
        out = []
        for i in range(count):
            space = (
                spatial[i]
                + pads[i]
                + pads[i + count]
                - (attrs["pool_size"][i] - 1) * attrs["dilation"][i]
                - 1
            )
            step = attrs["strides"][i]
            starts = range(-pads[i], space - pads[i] + (step if attrs["ceil_mode"] else 1), step)
            out.append(len([start for start in starts if not attrs["ceil_mode"] or start < spatial[i]]))
        y = np.zeros((*x.shape[:2], *out), x.dtype)
        for place in np.ndindex(*out):
            taps, padded = [], []
            for i in range(count):
                start = place[i] * attrs["strides"][i] - pads[i]
                every = [start + k * attrs["dilation"][i] for k in range(attrs["pool_size"][i])]
                taps.append([t for t in every if 0 <= t < spatial[i]])
                padded.append([t for t in every if t < spatial[i] + pads[i + count]])
            patch = x[(slice(None), slice(None))][(..., *np.ix_(*taps))]
            axes = tuple(range(2, 2 + count))
            if kind == "max":
                y[(slice(None), slice(None), *place)] = patch.max(axes, initial=_least(x.dtype))
            else:
                size = np.prod([len(p) for p in (padded if attrs["count_include_pad"] else taps)])
                y[(slice(None), slice(None), *place)] = patch.sum(axes) / max(size, 1)
        return y.transpose([canonical.index(letter) for letter in attrs["out_layout"]])

    return pool


def _pool_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    (layout,) = layouts
    if not is_permuted(layout):
        return None
    attrs = {name: stored_letters(node.attrs[name], layout) for name in ("layout", "out_layout")}
    return LayoutPlan((layout,), layout, attrs)


def _pool2d_gradient(kind: str) -> Gradient:
    def gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
        backward = getattr(make.grad, f"{kind}_pool2d_backward")
        return [backward(grad, node.args[0], **dict(node.attrs.dict))]

    return gradient


def _pool(kind: str, count: int, layout_default: str, include_pad: bool = False) -> Any:
    name = f"relax.nn.{kind}_pool{count}d"
    ones, zeros = (1,) * count, (0,) * count

    def build(
        data: Expr,
        pool_size: int | Sequence[int] = ones,
        strides: int | Sequence[int] = ones,
        padding: int | Sequence[int] = zeros,
        dilation: int | Sequence[int] = ones,
        ceil_mode: bool = False,
        count_include_pad: bool = include_pad,
        layout: str = layout_default,
        out_layout: str | None = None,
    ) -> Expr:
        out_layout = out_layout or layout
        check_layout(name, "layout", layout, "NC" + _SPATIAL[count])
        check_layout(name, "out_layout", out_layout, "NC" + _SPATIAL[count])
        attrs = {
            "pool_size": per_axis(pool_size, count, name, "pool_size"),
            "strides": per_axis(strides, count, name, "strides"),
            "padding": full_padding(padding, count, name),
            "dilation": per_axis(dilation, count, name, "dilation"),
            "ceil_mode": bool(ceil_mode),
            "count_include_pad": bool(count_include_pad),
            "layout": layout,
            "out_layout": out_layout,
        }
        return call(name, data, attrs=attrs)

    build.__name__ = build.__qualname__ = f"{kind}_pool{count}d"
    build.__doc__ = f"""{"The largest element" if kind == "max" else "The mean"} of each window, {count}D.

    Args:
        data: the input, of layout ``layout``.
        pool_size, strides, dilation: of the window, one number or one per spatial axis.
        padding: 1, {count} or {2 * count} numbers.
        ceil_mode: round the number of windows up, so that the last one may exceed the padding.
        count_include_pad: average over the padding too.
        layout, out_layout: of input and output; ``out_layout`` defaults to ``layout``.
    """
    return operator(
        name,
        infer=_infer_pool,
        legalize=_legalize_pool(kind),
        reference=in_float32(np_pool(kind)),
        gradient=_pool2d_gradient(kind) if count == 2 else None,
        mixed_precision=MixedPrecisionPolicy.FOLLOW,
        pattern=OpPatternKind.kOutEWiseFusable,
        layout=_pool_layout,
    )(build)


max_pool1d = _pool("max", 1, "NCW")
max_pool2d = _pool("max", 2, "NCHW")
max_pool3d = _pool("max", 3, "NCDHW")
avg_pool1d = _pool("avg", 1, "NCW", include_pad=True)
avg_pool2d = _pool("avg", 2, "NCHW")
avg_pool3d = _pool("avg", 3, "NCDHW", include_pad=True)


def _infer_adaptive(count: int) -> Any:
    canonical = "NC" + _SPATIAL[count]

    def infer(node: Call, builder: Any) -> StructInfo:
        (info,) = tensor_args(node, 1)
        require_number(node, info)
        attrs = node.attrs
        require_ndim(node, info, len(axes_of(attrs["layout"])), "data")
        size = attrs.get("output_size")
        if info.shape_values is None:
            return TensorStructInfo(None, info.dtype, info.vdevice, len(axes_of(attrs["out_layout"])))
        shape = canonical_shape(attrs["layout"], info.shape_values, canonical)
        if size is not None:
            shape[2:] = [int64(extent) for extent in size]
        return TensorStructInfo(shape_in(attrs["out_layout"], canonical, shape), info.dtype, info.vdevice)

    return infer


def _legalize_adaptive(count: int) -> Any:
    def legalize(bb: Any, node: Call) -> Expr:
        attrs = node.attrs
        if attrs["out_layout"] != attrs["layout"]:
            return node
        size = attrs.get("output_size")
        info = node.args[0].struct_info
        if size is None:
            assert isinstance(info, TensorStructInfo)
            size = canonical_shape(attrs["layout"], info.shape_values, "NC" + _SPATIAL[count])[2:]  # type: ignore[arg-type]
        path = "nn.adaptive_pool" if count == 2 else f"nn.adaptive_pool{count}d"
        return bb.call_te(
            topi_function(path),
            node.args[0],
            list(size),
            "avg",
            attrs["layout"],
            primfunc_name_hint=f"adaptive_avg_pool{count}d",
        )

    return legalize


def _np_adaptive(count: int) -> Any:
    canonical = "NC" + _SPATIAL[count]

    def pool(x: np.ndarray, output_size: Any, layout: str, out_layout: str) -> np.ndarray:
        x = x.transpose([layout.index(letter) for letter in canonical])
        size = x.shape[2:] if output_size is None else output_size
        y = np.zeros((*x.shape[:2], *size), x.dtype)
        for place in np.ndindex(*size):
            index = tuple(
                slice(p * n // o, -(-(p + 1) * n // o))
                for p, n, o in zip(place, x.shape[2:], size, strict=True)
            )
            y[(slice(None), slice(None), *place)] = x[(slice(None), slice(None), *index)].mean(
                tuple(range(2, 2 + count))
            )
        return y.transpose([canonical.index(letter) for letter in out_layout])

    return pool


def _adaptive(count: int, layout_default: str) -> Any:
    name = f"relax.nn.adaptive_avg_pool{count}d"

    def build(
        data: Expr,
        output_size: int | Sequence[int] | None = None,
        layout: str = layout_default,
        out_layout: str | None = None,
    ) -> Expr:
        check_layout(name, "layout", layout, "NC" + _SPATIAL[count])
        attrs = {
            "output_size": None if output_size is None else per_axis(output_size, count, name, "output_size"),
            "layout": layout,
            "out_layout": out_layout or layout,
        }
        return call(name, data, attrs=attrs)

    build.__name__ = build.__qualname__ = f"adaptive_avg_pool{count}d"
    build.__doc__ = f"""{count}D average pooling to a given output size, with windows chosen to fit.

    Args:
        data: the input, of layout ``layout``.
        output_size: the spatial extents of the output; default those of the input.
        layout, out_layout: of input and output.
    """
    return operator(
        name,
        infer=_infer_adaptive(count),
        legalize=_legalize_adaptive(count),
        reference=in_float32(_np_adaptive(count)),
        mixed_precision=MixedPrecisionPolicy.FOLLOW,
        pattern=OpPatternKind.kOutEWiseFusable,
        layout=_pool_layout,
    )(build)


adaptive_avg_pool1d = _adaptive(1, "NCW")
adaptive_avg_pool2d = _adaptive(2, "NCHW")
adaptive_avg_pool3d = _adaptive(3, "NCDHW")


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]
