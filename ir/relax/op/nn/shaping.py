"""Padding and rearrangements that networks use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import te
from ....error import IRValueError
from ....tir.expr import PrimExpr
from ....tir.op import all as tir_all
from ....tir.op import if_then_else
from ....tir.op import max as tir_max
from ....tir.op import min as tir_min
from ....tir.operators import const, floordiv, floormod
from ...expr import Call, Expr, Var
from ...struct_info import StructInfo, TensorStructInfo
from ..declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from ..gradient import back_to_shape
from ..inference import fail, int64, product, simplify, tensor_args
from ..layout_rule import Desired, LayoutPlan, Layouts, is_permuted
from ..legalization import topi_function
from ..memory_effect import view_of
from ..requirement import require_at_most, require_multiple

_MOVES: dict[str, Any] = {"mixed_precision": MixedPrecisionPolicy.FOLLOW, "pattern": OpPatternKind.kInjective}

_NUMPY_MODE = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "edge": "edge",
    "circular": "wrap",
}


def _infer_pad(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    widths = node.attrs["pad_width"]
    if info.ndim == -1:
        return TensorStructInfo(None, info.dtype, info.vdevice)
    if len(widths) != 2 * info.ndim:
        raise fail(
            node, f"pad_width must have {2 * info.ndim} entries for {info.ndim} dimensions, got {len(widths)}"
        )
    if info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    for axis, dim in enumerate(info.shape_values):
        _check_widths(node, axis, dim, widths[2 * axis], widths[2 * axis + 1])
    dims = [simplify(dim + (widths[2 * i] + widths[2 * i + 1])) for i, dim in enumerate(info.shape_values)]
    return TensorStructInfo(dims, info.dtype, info.vdevice)


def _check_widths(node: Call, axis: int, extent: PrimExpr, before: int, after: int) -> None:
    """No more is cut off than there is, and what is repeated is there."""
    if before + after < 0:
        text = f"pad_width cuts {{}} of the {{}} elements of axis {axis}"
        require_at_most(node, int64(-before - after), extent, text)
    widest, mode = max(before, after), node.attrs["pad_mode"]
    if widest > 0 and mode != "constant":
        needed = widest + 1 if mode == "reflect" else 1
        text = f"{mode} padding by {widest} needs {{}} elements, axis {axis} has {{}}"
        require_at_most(node, int64(needed), extent, text)


def _np_pad(x: np.ndarray, pad_width: Any, pad_mode: str, pad_value: float) -> np.ndarray:
    pairs = [(pad_width[2 * i], pad_width[2 * i + 1]) for i in range(x.ndim)]
    if pad_mode == "constant":
        # What is cut at one end may reach over the elements and into the padding of the other.
        out = np.full([n + b + a for (b, a), n in zip(pairs, x.shape, strict=True)], pad_value, x.dtype)
        kept = [
            (max(b, 0), max(min(n + b, n + b + a), b, 0)) for (b, a), n in zip(pairs, x.shape, strict=True)
        ]
        source = tuple(slice(low - b, high - b) for (low, high), (b, _) in zip(kept, pairs, strict=True))
        out[tuple(slice(*place) for place in kept)] = x[source]
        return out
    cut = x[tuple(slice(max(-b, 0), n - max(-a, 0)) for (b, a), n in zip(pairs, x.shape, strict=True))]
    pairs = [(max(b, 0), max(a, 0)) for b, a in pairs]
    return np.pad(cut, pairs, mode=_NUMPY_MODE[pad_mode])  # type: ignore[call-overload]


def _legalize_pad(bb: Any, node: Call) -> Expr:
    mode, widths = node.attrs["pad_mode"], node.attrs["pad_width"]
    before, after = list(widths[::2]), list(widths[1::2])
    info = node.args[0].struct_info
    assert isinstance(info, TensorStructInfo)
    if mode == "constant" and min(widths, default=0) >= 0:
        value = const(node.attrs["pad_value"], info.dtype)
        return bb.call_te(
            topi_function("nn.pad"), node.args[0], before, after, value, primfunc_name_hint="pad"
        )

    def te_pad(data: Any) -> Any:
        """Every destination computes the place that it copies from."""
        out_shape = [n + b + a for n, b, a in zip(data.shape, before, after, strict=True)]

        def element(*indices: Any) -> Any:
            source, inside = [], []
            for axis, index in enumerate(indices):
                if not before[axis] and not after[axis]:
                    source.append(index)
                    continue
                extent, place = data.shape[axis], index - before[axis]
                if mode == "constant":
                    inside += [place >= 0, place < extent]
                elif mode == "reflect":
                    last = extent - 1
                    place = if_then_else(place < 0, -place, place)
                    place = if_then_else(place > last, last * 2 - place, place)
                elif mode == "circular":
                    place = floormod(place, extent)
                else:
                    place = tir_min(tir_max(place, const(0, place.dtype)), extent - 1)
                source.append(place)
            if mode == "constant":
                return if_then_else(
                    tir_all(*inside), data(*source), const(node.attrs["pad_value"], data.dtype)
                )
            return data(*source)

        return te.compute(out_shape, element, name="PadInput")

    name = "pad" if mode == "constant" else f"{'replicate' if mode == 'edge' else mode}_pad"
    return bb.call_te(te_pad, node.args[0], primfunc_name_hint=name)


def _pad_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    layout, width = layouts[0], node.attrs["pad_width"]
    if not is_permuted(layout):
        return None
    moved = tuple(width[2 * axis + side] for axis in layout for side in (0, 1))
    return LayoutPlan((layout, *[None] * (len(node.args) - 1)), layout, {"pad_width": moved})


def _pad_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """Cut off what was added, which is padding by negative widths."""
    if node.attrs["pad_mode"] != "constant":
        raise IRValueError(
            f"the gradient of relax.nn.pad needs constant padding, got {node.attrs['pad_mode']!r}"
        )
    return [pad(grad, [-width for width in node.attrs["pad_width"]])]


@operator(
    "relax.nn.pad",
    infer=_infer_pad,
    legalize=_legalize_pad,
    reference=_np_pad,
    layout=_pad_layout,
    gradient=_pad_gradient,
    **_MOVES,
)
def pad(data: Expr, pad_width: Sequence[Any], pad_mode: str = "constant", pad_value: float = 0.0) -> Expr:
    """Pad every axis.

    Args:
        data: the tensor.
        pad_width: before and after every axis: flat (before_0, after_0, ...) or pairs; negative numbers cut.
        pad_mode: "constant", "reflect", "replicate" (or "edge"), "circular".
        pad_value: of constant padding; an integer keeps all of its bits.
    """
    flat: list[int] = []
    for item in pad_width:
        flat += [int(v) for v in item] if isinstance(item, list | tuple) else [int(item)]
    if pad_mode not in _NUMPY_MODE:
        raise IRValueError(
            f"relax.nn.pad: pad_mode must be one of {', '.join(_NUMPY_MODE)}, got {pad_mode!r}"
        )
    exact = float(pad_value) == pad_value
    attrs = {"pad_width": flat, "pad_mode": pad_mode, "pad_value": float(pad_value) if exact else pad_value}
    return call("relax.nn.pad", data, attrs=attrs)


def _infer_pixel_shuffle(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    factor = node.attrs["upscale_factor"]
    if 0 <= info.ndim < 3:
        raise fail(node, f"expected at least 3 dimensions (channels, height, width), got {info.ndim}")
    if info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    *lead, channels, height, width = info.shape_values
    text = f"{{}} channels are not divisible by {factor} squared"
    require_multiple(node, channels, factor * factor, text)
    dims = [
        *lead,
        simplify(channels // (factor * factor)),
        simplify(height * factor),
        simplify(width * factor),
    ]
    return TensorStructInfo(dims, info.dtype, info.vdevice)


def _np_pixel_shuffle(x: np.ndarray, upscale_factor: int) -> np.ndarray:
    r = upscale_factor
    *lead, c, h, w = x.shape
    k = len(lead)
    y = x.reshape(*lead, c // (r * r), r, r, h, w)
    y = y.transpose(*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return y.reshape(*lead, c // (r * r), h * r, w * r)


def _legalize_pixel_shuffle(bb: Any, node: Call) -> Expr:
    r = node.attrs["upscale_factor"]

    def te_pixel_shuffle(data: Any) -> Any:
        *lead, channels, height, width = data.shape
        out_shape = [*lead, floordiv(channels, r * r), height * r, width * r]

        def element(*indices: Any) -> Any:
            *lead, c, h, w = indices
            channel = c * (r * r) + floormod(h, r) * r + floormod(w, r)
            return data(*lead, channel, floordiv(h, r), floordiv(w, r))

        return te.compute(out_shape, element, name="pixel_shuffle")

    return bb.call_te(te_pixel_shuffle, node.args[0], primfunc_name_hint="pixel_shuffle")


@operator(
    "relax.nn.pixel_shuffle",
    infer=_infer_pixel_shuffle,
    legalize=_legalize_pixel_shuffle,
    reference=_np_pixel_shuffle,
    **_MOVES,
)
def pixel_shuffle(data: Expr, upscale_factor: int) -> Expr:
    """(..., C * r * r, H, W) to (..., C, H * r, W * r)."""
    return call("relax.nn.pixel_shuffle", data, attrs={"upscale_factor": int(upscale_factor)})


def _infer_batch_flatten(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    if 0 <= info.ndim < 1:
        raise fail(node, "expected at least 1 dimension")
    if info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, 2)
    return TensorStructInfo(
        [info.shape_values[0], simplify(product(info.shape_values[1:]))], info.dtype, info.vdevice
    )


def _legalize_batch_flatten(bb: Any, node: Call) -> Expr:
    return bb.call_te(topi_function("reshape"), node.args[0], list(node.struct_info.shape_values))


@operator(
    "relax.nn.batch_flatten",
    infer=_infer_batch_flatten,
    legalize=_legalize_batch_flatten,
    reference=lambda x: x.reshape(x.shape[0], math.prod(x.shape[1:])),
    gradient=back_to_shape,
    memory=view_of(0),
    **_MOVES,
)
def batch_flatten(data: Expr) -> Expr:
    """All dimensions but the first as one."""
    return call("relax.nn.batch_flatten", data)


__all__ = ["batch_flatten", "pad", "pixel_shuffle"]
