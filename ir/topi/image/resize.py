"""Resizing of images with one to three spatial axes: nearest, linear and cubic, in all coordinate conventions of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...error import IRValueError
from ...te.operation import compute
from ...te.tensor import Tensor
from ...tir import op as T
from ...tir.expr import PrimExpr, Select
from ...tir.operators import cast, const, convert, floordiv
from ...tir.operators import max as _max
from ...tir.operators import min as _min
from .. import tag
from ..shape import as_int, is_const

_EPSILON = 1e-5
"""Added before rounding the place in a crop down, so that one that is an integer up to float error stays there."""

_MODES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
    "half_pixel_symmetric",
)
_ROUNDING = ("round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _f32(value: Any) -> PrimExpr:
    expr = convert(value)
    return cast("float32", expr)


class _Axis:
    """One spatial axis: where an output index lies in the input, and which elements it reads there."""

    def __init__(self, in_size: PrimExpr, out_size: PrimExpr, mode: str, low: Any, high: Any) -> None:
        self.in_size = in_size
        self.out_size = out_size
        self.mode = mode
        self.low, self.high = low, high

    def _crop_coordinate(self, x: PrimExpr) -> PrimExpr:
        """The place of output index ``x`` in the input, of the mode "tf_crop_and_resize", in float32."""
        last = _f32(self.in_size - 1)
        low, high = _f32(self.low), _f32(self.high)
        if is_const(self.out_size) and as_int(self.out_size) == 1:
            return (low + high) * const(0.5, "float32") * last
        return low * last + _f32(x) * ((high - low) * last / _f32(self.out_size - 1))

    def inside(self, index: PrimExpr) -> PrimExpr:
        """An index brought into the input."""
        zero = const(0, index.dtype)
        return _max(_min(index, cast(index.dtype, self.in_size) - 1), zero)

    def _place(self, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """The element at or before the place of output index ``x``, and how far behind it, below 1, that is.

        Behind an element that is hit, the share is exactly 0: its neighbour does not count.
        """
        if self.mode == "tf_crop_and_resize":
            place = self._crop_coordinate(x)
            left = T.floor(place)
            return cast(x.dtype, left), place - left
        n, d = self._ratio(x)
        left = floordiv(n, d)
        return cast(x.dtype, left), _f32(n - left * d) / _f32(d)

    def _whole_ratio(self) -> bool:
        """Whether an input element gives a whole number of output elements."""
        return is_const(self.in_size, self.out_size) and as_int(self.out_size) % as_int(self.in_size) == 0

    def _ratio(self, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Numerator and denominator of the place of output index ``x`` in the input.

        They are integers: no rounding of floats moves a place between two elements.
        """
        if self._needs_int64():
            x = cast("int64", x)
        one = const(1, x.dtype)
        before, after = cast(x.dtype, self.in_size), cast(x.dtype, self.out_size)
        divisor = one if is_const(after) and as_int(after) == 0 else after  # no place is asked for then
        # The symmetric form of half_pixel differs only where a fractional scale was rounded to the size, which sizes cannot tell.
        factor, offset, denominator = {
            "align_corners": (before - one, 0 * one, _max(after - one, one)),
            "asymmetric": (before, 0 * one, divisor),
            "tf_half_pixel_for_nn": (2 * before, before, 2 * divisor),
        }.get(self.mode, (2 * before, before - after, 2 * divisor))
        if is_const(factor, offset, denominator):
            numbers = [as_int(item) for item in (factor, offset, denominator)]
            common = math.gcd(*numbers)
            factor, offset, denominator = (const(number // common, x.dtype) for number in numbers)
        numerator = factor * x + offset
        if self.mode == "pytorch_half_pixel":
            numerator = Select(after > one, numerator, 0 * one)
        return numerator, denominator

    def nearest(self, x: PrimExpr, rounding: str) -> PrimExpr:
        """The index of the nearest element."""
        if self.mode == "tf_crop_and_resize":
            return self.inside(cast(x.dtype, self._rounded_place(self._crop_coordinate(x), rounding)))
        if self.mode == "asymmetric" and rounding == "round" and self._whole_ratio():
            rounding = "floor"  # by the field's convention
        n, d = self._ratio(x)
        # The place n / d, rounded.
        rounded = {
            "round": lambda: floordiv(2 * n + d, 2 * d),
            "round_prefer_floor": lambda: floordiv(2 * n + (d - 1), 2 * d),
            "round_prefer_ceil": lambda: floordiv(2 * n + d, 2 * d),
            "floor": lambda: floordiv(n, d),
            "ceil": lambda: floordiv(n + (d - 1), d),
        }[rounding]()
        return cast(x.dtype, self.inside(rounded))

    def _needs_int64(self) -> bool:
        """Whether the terms of a place may leave int32."""
        return (
            is_const(self.in_size, self.out_size)
            and 8 * as_int(self.in_size) * as_int(self.out_size) >= 2**31
        )

    def _rounded_place(self, place: PrimExpr, rounding: str) -> PrimExpr:
        half, epsilon = const(0.5, "float32"), const(_EPSILON, "float32")
        return {
            "round": lambda: T.floor(place + half),
            "round_prefer_floor": lambda: T.ceil(place - half),
            "round_prefer_ceil": lambda: T.floor(place + half),
            "floor": lambda: T.floor(place + epsilon),
            "ceil": lambda: T.ceil(place - epsilon),
        }[rounding]()

    def outside(self, x: PrimExpr) -> PrimExpr | None:
        """Whether a cropped coordinate lies outside of the input; None when it cannot."""
        if self.mode != "tf_crop_and_resize":
            return None
        place = self._crop_coordinate(x)
        return T.any(place < 0.0, place > _f32(self.in_size - 1))

    def linear(self, x: PrimExpr) -> list[tuple[PrimExpr, PrimExpr]]:
        """(index, weight) of the two neighbours."""
        index, fraction = self._place(x)
        return [
            (self.inside(index), const(1.0, "float32") - fraction),
            (self.inside(index + 1), fraction),
        ]

    def cubic(self, x: PrimExpr, alpha: float, exclude: int) -> list[tuple[PrimExpr, PrimExpr]]:
        """(index, weight) of the four neighbours; ``exclude`` leaves those outside out and rescales the others."""
        index, t = self._place(x)
        a, one = const(alpha, "float32"), const(1.0, "float32")
        t2, t3 = t * t, t * t * t
        weights = [
            a * (t3 - 2.0 * t2 + t),
            (a + 2.0) * t3 - (a + 3.0) * t2 + one,
            -1.0 * (a + 2.0) * t3 + (2.0 * a + 3.0) * t2 - a * t,
            a * (t2 - t3),
        ]
        if exclude:
            weights = [
                Select(
                    T.any(index + (n - 1) < 0, index + (n - 1) >= cast(index.dtype, self.in_size)),
                    const(0.0, "float32"),
                    weight,
                )
                for n, weight in enumerate(weights)
            ]
            total = weights[0] + weights[1] + weights[2] + weights[3]
            weights = [weight / total for weight in weights]
        return [(self.inside(index + (n - 1)), weight) for n, weight in enumerate(weights)]


def _resize(
    data: Tensor,
    roi: Any,
    size: Sequence[Any],
    layout: str,
    letters: str,
    method: str,
    coordinate_transformation_mode: str,
    rounding_method: str,
    cubic_alpha: float,
    cubic_exclude: int,
    extrapolation_value: float,
    out_dtype: str | None,
    output_shape: Sequence[Any] | None,
) -> Tensor:
    if coordinate_transformation_mode not in _MODES:
        raise IRValueError(
            f"resize: no coordinate transformation {coordinate_transformation_mode!r}; there are {_MODES}"
        )
    if method not in ("nearest_neighbor", "linear", "cubic"):
        raise IRValueError(f"resize: method must be 'nearest_neighbor', 'linear' or 'cubic', got {method!r}")
    rounding = rounding_method or ("round" if coordinate_transformation_mode == "align_corners" else "floor")
    if rounding not in _ROUNDING:
        raise IRValueError(f"resize: rounding must be one of {_ROUNDING}, got {rounding!r}")
    plain = "".join(char for char in layout if not char.isdigit())
    if any(letter not in plain for letter in letters) or len(plain) != data.ndim:
        raise IRValueError(
            f"resize: layout {layout!r} does not fit {data.ndim} dimensions with the axes {letters}"
        )
    places = [plain.index(letter) for letter in letters]
    given = [size] * len(places) if not isinstance(size, tuple | list) else list(size)
    shape = list(data.shape)
    for axis, extent in zip(places, given, strict=True):
        shape[axis] = cast(data.shape[axis].dtype, convert(extent))
    if output_shape is not None:
        shape = [convert(item) for item in output_shape]
    corners = _corners(roi, len(places), coordinate_transformation_mode)
    axes = [
        _Axis(data.shape[axis], shape[axis], coordinate_transformation_mode, *corners[number])
        for number, axis in enumerate(places)
    ]
    kind = out_dtype or data.dtype

    def neighbours(axis: _Axis, x: PrimExpr) -> list[tuple[PrimExpr, PrimExpr]]:
        return axis.linear(x) if method == "linear" else axis.cubic(x, cubic_alpha, cubic_exclude)

    between, left = data, len(places)
    if method != "nearest_neighbor":
        taps = 2 if method == "linear" else 4
        between, left = _between(data, shape, places, axes, neighbours, taps)

    def element(*indices: Any) -> PrimExpr:
        if method == "nearest_neighbor":
            found = list(indices)
            for axis, place in zip(axes, places, strict=True):
                found[place] = axis.nearest(indices[place], rounding)
            value = data(*found)
        else:
            kept = list(zip(axes, places, strict=True))[:left]
            choices = [neighbours(axis, indices[place]) for axis, place in kept]
            value = _blend(between, indices, places[:left], choices)
        conditions = [
            c
            for axis, place in zip(axes, places, strict=True)
            if (c := axis.outside(indices[place])) is not None
        ]
        if conditions:
            value = T.if_then_else(T.any(*conditions), const(extrapolation_value, value.dtype), value)
        return _to_dtype(value, kind, method)

    return compute(shape, element, name="resize", tag=tag.INJECTIVE)


def _to_dtype(value: PrimExpr, dtype: str, method: str) -> PrimExpr:
    if value.dtype != dtype and method != "nearest_neighbor" and dtype.startswith(("int", "uint")):
        return cast(dtype, T.round(value))
    return cast(dtype, value)


_Neighbours = Callable[[_Axis, PrimExpr], list[tuple[PrimExpr, PrimExpr]]]


def _pays(axis: _Axis, taps: int) -> bool:
    """Whether an axis of the input is short enough to resize all of the next one first: of an image that shrinks most rows are unread."""
    if not is_const(axis.in_size, axis.out_size):
        return False
    return as_int(axis.in_size) < taps * as_int(axis.out_size)


def _between(
    data: Tensor,
    shape: Sequence[Any],
    places: Sequence[int],
    axes: Sequence[_Axis],
    neighbours: _Neighbours,
    taps: int,
) -> tuple[Tensor, int]:
    """The data resized along some of the last axes, the last one first, and how many axes are left.

    Each element between is used by several of the next axis.
    """
    left = len(places)
    while left > 1 and all(_pays(axis, taps) for axis in axes[: left - 1]):
        left -= 1
        data = _along(data, shape[places[left]], places[left], partial(neighbours, axes[left]))
    return data, left


def _along(
    data: Tensor, extent: Any, place: int, choices: Callable[[PrimExpr], list[tuple[PrimExpr, PrimExpr]]]
) -> Tensor:
    """The data resized along one axis."""
    shape = [*data.shape[:place], extent, *data.shape[place + 1 :]]
    return compute(
        shape,
        lambda *indices: _blend(data, indices, [place], [choices(indices[place])]),
        name="resize_axis",
        tag=tag.INJECTIVE,
    )


def _blend(
    data: Tensor,
    indices: Sequence[Any],
    places: Sequence[int],
    choices: Sequence[Sequence[tuple[PrimExpr, PrimExpr]]],
) -> PrimExpr:
    """The weighted sum over all combinations of neighbours along some axes, the last one innermost."""
    if not places:
        return cast("float32", data(*indices))
    place, total = places[0], None
    for index, weight in choices[0]:
        value = _blend(data, [*indices[:place], index, *indices[place + 1 :]], places[1:], choices[1:])
        # A neighbour without weight does not count, even if it is infinite.
        term: Any = Select(weight.equal(0), const(0.0, "float32"), value * weight)
        total = term if total is None else total + term
    assert total is not None
    return total


def _corners(roi: Any, count: int, mode: str) -> list[tuple[Any, Any]]:
    """(low, high) of the region of interest for each axis; ``roi`` lists all lows, then all highs."""
    if mode != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    if isinstance(roi, Tensor):
        values: list[Any] = [roi(const(n)) for n in range(2 * count)]
    else:
        values = list(roi)
    if len(values) != 2 * count:
        raise IRValueError(f"resize: the region of interest needs {2 * count} numbers, got {len(values)}")
    return list(zip(values[:count], values[count:], strict=True))


def resize1d(
    data: Tensor,
    roi: Any,
    size: Any,
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    output_shape: Sequence[Any] | None = None,
) -> Tensor:
    """Resize the W axis to ``size``; see :func:`resize2d`."""
    return _resize(
        data, roi, size, layout, "W", method, coordinate_transformation_mode, rounding_method,
        bicubic_alpha, bicubic_exclude, extrapolation_value, out_dtype, output_shape,
    )  # fmt: skip


def resize2d(
    data: Tensor,
    roi: Any,
    size: Any,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    output_shape: Sequence[Any] | None = None,
) -> Tensor:
    """Resize the H and W axes to ``size``.

    ``method``: "nearest_neighbor" (with ``rounding_method``: round, round_prefer_floor, round_prefer_ceil, floor, ceil),
    "linear" or "cubic" (with its coefficient and whether neighbours outside count). ``roi`` (top, left, bottom, right,
    relative) and ``extrapolation_value`` serve the mode "tf_crop_and_resize". Integer data is rounded.
    """
    return _resize(
        data, roi, size, layout, "HW", method, coordinate_transformation_mode, rounding_method,
        bicubic_alpha, bicubic_exclude, extrapolation_value, out_dtype, output_shape,
    )  # fmt: skip


def resize3d(
    data: Tensor,
    roi: Any,
    size: Any,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    output_shape: Sequence[Any] | None = None,
) -> Tensor:
    """Resize the D, H and W axes to ``size``; see :func:`resize2d`."""
    return _resize(
        data, roi, size, layout, "DHW", method, coordinate_transformation_mode, rounding_method,
        bicubic_alpha, bicubic_exclude, extrapolation_value, out_dtype, output_shape,
    )  # fmt: skip
