"""Resizing images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....error import IRValueError
from ....expr import RelaxExpr
from ....tir.expr import PrimExpr
from ...expr import Call, Expr, ShapeExpr
from ...struct_info import StructInfo, TensorStructInfo
from ..declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from ..inference import check_arity, fail, require_ndim, shape_arg, tensor_arg
from ..layout import axes_of, canonical_shape, check_layout, shape_in
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
        topi_function("image.resize2d"), node.args[0], list(attrs["roi"]), node.args[1], attrs["layout"], attrs["method"],
        attrs["coordinate_transformation_mode"], attrs["rounding_method"], attrs["cubic_alpha"], attrs["cubic_exclude"],
        attrs["extrapolation_value"], attrs["out_dtype"] or None, primfunc_name_hint="resize2d",
    )


def _np_resize2d(x: np.ndarray, size: Any, **attrs: Any) -> np.ndarray:
    """The reference that topi's own tests use."""
    from ....topi import testing

    return testing.resize2d_python(
        x, (size[0] / x.shape[attrs["layout"].index("H")], size[1] / x.shape[attrs["layout"].index("W")]),
        attrs["layout"], attrs["method"], attrs["coordinate_transformation_mode"],
    )


@operator(
    "relax.image.resize2d", infer=_infer_resize2d, legalize=_legalize_resize2d, reference=_np_resize2d,
    mixed_precision=MixedPrecisionPolicy.FOLLOW, pattern=OpPatternKind.kInjective,
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
        raise IRValueError(f"relax.image.resize2d: unknown method {method!r}; use nearest_neighbor, linear or cubic")
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
        "out_dtype": out_dtype or "",
    }
    return call("relax.image.resize2d", data, size, attrs=attrs)
