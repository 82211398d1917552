"""Resizing images."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ....error import IRValueError
from ....expr import RelaxExpr
from ....tir.expr import PrimExpr
from ...expr import Call, Expr, ShapeExpr
from ...struct_info import StructInfo, TensorStructInfo
from ..declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from ..inference import (
    check_arity,
    fail,
    optional_dtype,
    require_ndim,
    shape_arg,
    tensor_arg,
)
from ..layout import axes_of, canonical_shape, check_layout, shape_in
from ..layout_rule import Desired, LayoutPlan, Layouts, is_permuted, stored_letters
from ..legalization import topi_function


def _infer_resize2d(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info, size = tensor_arg(node, 0), shape_arg(node, 1)
    layout = node.attrs["layout"]
    require_ndim(node, info, len(axes_of(layout)), "data")
    if size.ndim not in (-1, 2):
        raise fail(node, f"size must have 2 entries (height, width), got {size.ndim}")
    dtype = node.attrs["out_dtype"] or info.dtype
    if info.shape_values is None or size.values is None:
        return TensorStructInfo(None, dtype, info.vdevice, len(axes_of(layout)))
    shape = canonical_shape(layout, info.shape_values, "NCHW")
    return TensorStructInfo(shape_in(layout, "NCHW", [*shape[:2], *size.values]), dtype, info.vdevice)


def _legalize_resize2d(bb: Any, node: Call) -> Expr:
    attrs = node.attrs
    return bb.call_te(
        topi_function("image.resize2d"),
        node.args[0],
        list(attrs["roi"]),
        node.args[1],
        attrs["layout"],
        attrs["method"],
        attrs["coordinate_transformation_mode"],
        attrs["rounding_method"],
        attrs["cubic_alpha"],
        attrs["cubic_exclude"],
        attrs["extrapolation_value"],
        attrs["out_dtype"] or None,
        primfunc_name_hint="resize2d",
    )


def _source_places(mode: str, count: int, size: int) -> list[Fraction]:
    """Where each of ``size`` results lies among ``count`` source elements."""
    at, half = [Fraction(number) for number in range(size)], Fraction(1, 2)
    if size == 1 and mode in ("align_corners", "pytorch_half_pixel"):
        return [Fraction(0)]
    if mode == "align_corners":
        return [x * (count - 1) / (size - 1) for x in at]
    if mode == "asymmetric":
        return [x * count / size for x in at]
    if mode == "tf_half_pixel_for_nn":
        return [(x + half) * count / size for x in at]
    return [(x + half) * count / size - half for x in at]


_ROUNDED: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round": lambda place: math.floor(place + Fraction(1, 2)),
    "round_prefer_floor": lambda place: math.ceil(place - Fraction(1, 2)),
    "round_prefer_ceil": lambda place: math.floor(place + Fraction(1, 2)),
}


def keys_cubic(distance: float, a: float) -> float:
    """The weight of an element at a distance, by the piecewise cubic kernel of Keys (1981); exactly 0 at whole distances but 0.

    Args:
        distance: from the place to the element, in elements.
        a: the slope of the kernel at distance 1.
    """
    d = abs(distance)
    if d <= 1:
        return (1 - d) * (1 + d - (a + 2) * d * d)
    return a * (d - 1) * (d - 2) ** 2 if d < 2 else 0.0


def _np_axis_taps(attrs: dict[str, Any], count: int, size: int) -> list[list[tuple[int, float]]]:
    """For each result along an axis, the elements that count, with their weights.

    One beyond the border is the last one at it, which then counts more than once: with infinities this is not the sum of its weights.
    """
    places = _source_places(attrs["coordinate_transformation_mode"], count, size)
    if attrs["method"] == "nearest_neighbor":
        default = "round" if attrs["coordinate_transformation_mode"] == "align_corners" else "floor"
        how = attrs["rounding_method"] or default
        if attrs["coordinate_transformation_mode"] == "asymmetric" and how == "round" and size % count == 0:
            how = "floor"  # by the field's convention
        return [[(min(max(_ROUNDED[how](place), 0), count - 1), 1.0)] for place in places]
    found = []
    for place in places:
        low, share = math.floor(place), float(place - math.floor(place))
        if attrs["method"] == "linear":
            weights = {low: 1 - share, low + 1: share}
        else:
            weights = {low + k: keys_cubic(share - k, attrs["cubic_alpha"]) for k in range(-1, 3)}
        found.append([(min(max(index, 0), count - 1), weight) for index, weight in weights.items() if weight])
    return found


def _np_resize2d(x: np.ndarray, size: Any, **attrs: Any) -> np.ndarray:
    """One spatial axis after the other; regions of interest and excluded borders are not covered."""
    h, w = attrs["layout"].index("H"), attrs["layout"].index("W")
    y = x
    for axis, extent in ((h, size[0]), (w, size[1])):
        y = _np_resized_axis(y, axis, _np_axis_taps(attrs, x.shape[axis], extent))
    dtype = np.dtype(attrs["out_dtype"] or x.dtype)
    if dtype.kind in "iu" and attrs["method"] != "nearest_neighbor":
        y = np.floor(y + 0.5)
    return y.astype(dtype)


def _np_resized_axis(x: np.ndarray, axis: int, taps: list[list[tuple[int, float]]]) -> np.ndarray:
    """The weighted sums along an axis; elements without weight do not count, even if they are infinite."""
    if not taps:
        return x.take(np.arange(0), axis)
    rows = [sum(x.take(index, axis) * weight for index, weight in row) for row in taps]
    return np.stack([np.asarray(row) for row in rows], axis)


def _resize2d_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    layout = layouts[0]
    if not is_permuted(layout):
        return None
    return LayoutPlan((layout, None), layout, {"layout": stored_letters(node.attrs["layout"], layout)})


@operator(
    "relax.image.resize2d",
    infer=_infer_resize2d,
    legalize=_legalize_resize2d,
    reference=_np_resize2d,
    layout=_resize2d_layout,
    mixed_precision=MixedPrecisionPolicy.FOLLOW,
    pattern=OpPatternKind.kInjective,
)
def resize2d(
    data: Expr,
    size: Any,
    roi: Any = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Expr:
    """Resize images.

    Args:
        data: the images, of layout ``layout``.
        size: (height, width) of the result: a shape, or one or two extents.
        roi: the region to crop, for "tf_crop_and_resize".
        method: "nearest_neighbor", "linear" or "cubic".
        coordinate_transformation_mode: how places in the result map to places in the source: "half_pixel", "align_corners",
            "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn", "tf_crop_and_resize".
        rounding_method: of nearest neighbors: "round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil".
        cubic_alpha, cubic_exclude: the spline's coefficient, and whether to leave out what is outside the image.
        extrapolation_value: what is outside the region, for "tf_crop_and_resize".
        out_dtype: default that of ``data``.
    """
    check_layout("relax.image.resize2d", "layout", layout, "NCHW")
    if method not in ("nearest_neighbor", "linear", "cubic"):
        raise IRValueError(
            f"relax.image.resize2d: unknown method {method!r}; use nearest_neighbor, linear or cubic"
        )
    if isinstance(size, int | PrimExpr):
        size = (size, size)
    if not isinstance(size, RelaxExpr):
        size = list(size)
        size = ShapeExpr(size * 2 if len(size) == 1 else size)
    if roi is None:
        roi = (0.0, 0.0, 0.0, 0.0)
    elif isinstance(roi, float | int):
        roi = (float(roi),) * 4
    attrs = {
        "roi": [float(getattr(v, "value", v)) for v in roi],
        "layout": layout,
        "method": method,
        "coordinate_transformation_mode": coordinate_transformation_mode,
        "rounding_method": rounding_method,
        "cubic_alpha": float(cubic_alpha),
        "cubic_exclude": int(cubic_exclude),
        "extrapolation_value": float(extrapolation_value),
        "out_dtype": optional_dtype(out_dtype),
    }
    return call("relax.image.resize2d", data, size, attrs=attrs)


__all__ = ["resize2d"]
