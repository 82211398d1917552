"""Resizing of images and volumes.

What ``relax.image.resize2d`` can say becomes one call of it. ONNX says more: scales that do not divide the extents, antialiasing,
cropping, any number of axes. Since every interpolation is linear and separable, the rest becomes, axis by axis, a sum of elements
that are taken at indices and multiplied by weights, both computed while importing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.relax import op as _op
from ir.relax.expr import Expr, const
from ir.relax.op.image.resize import keys_cubic

from ..context import NodeContext
from ..registry import converter

_MODES = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_TRANSFORMATIONS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)


@dataclass(frozen=True)
class _Axis:
    """How one axis is resized: extents, the scale as the model gives it, and the part of the input that is taken."""

    extent: int
    target: int
    scale: float
    begin: float = 0.0
    end: float = 1.0

    @property
    def is_plain(self) -> bool:
        """Whether the scale is the ratio of the extents, as relax takes it to be."""
        return not self.extent or math.isclose(self.scale, self.target / self.extent, rel_tol=1e-6)


@dataclass(frozen=True)
class _Options:
    mode: str
    transformation: str
    rounding: str
    cubic: float
    exclude_outside: bool
    extrapolation: float
    antialias: bool


_MAX_TARGET = 1 << 20
"""Elements of an axis, each of which has its place in the input computed exactly when the model is read."""


@converter("Resize", since=11)
def _resize(ctx: NodeContext) -> Any:
    return _resized(
        ctx, ctx.ints(3, "sizes"), ctx.constant(2, "scales"), ctx.constant(1, "roi"), _options(ctx)
    )


@converter("Resize", since=10)
def _resize_v10(ctx: NodeContext) -> Any:
    return _resized(ctx, None, ctx.constant(1, "scales"), None, _options(ctx, "asymmetric", "floor"))


@converter("Upsample")
def _upsample(ctx: NodeContext) -> Any:
    scales = ctx.constant(1, "scales") if ctx.has(1) else np.asarray(ctx.attr("scales"), np.float32)
    return _resized(ctx, None, scales, None, _options(ctx, "asymmetric", "floor"))


def _options(
    ctx: NodeContext, transformation: str = "half_pixel", rounding: str = "round_prefer_floor"
) -> _Options:
    options = _Options(
        mode=ctx.attr("mode", "nearest"),
        transformation=ctx.attr("coordinate_transformation_mode", transformation),
        rounding=ctx.attr("nearest_mode", rounding),
        cubic=float(ctx.attr("cubic_coeff_a", -0.75)),
        exclude_outside=bool(ctx.attr("exclude_outside", 0)),
        extrapolation=float(ctx.attr("extrapolation_value", 0.0)),
        antialias=bool(ctx.attr("antialias", 0)),
    )
    for what, value, known in (
        ("mode", options.mode, _MODES),
        ("coordinate_transformation_mode", options.transformation, _TRANSFORMATIONS),
        ("nearest_mode", options.rounding, _ROUNDING),
    ):
        if value not in known:
            raise ctx.error(f"{what} {value!r} is not known; there are: {', '.join(known)}")
    return options


def _resized(
    ctx: NodeContext,
    sizes: list[int] | None,
    scales: np.ndarray | None,
    roi: np.ndarray | None,
    options: _Options,
) -> Any:
    x = ctx.expr(0)
    axes = _axes(ctx, x, sizes, scales, roi if options.transformation == "tf_crop_and_resize" else None)
    changed = {
        number: axis
        for number, axis in axes.items()
        if axis.extent != axis.target or not axis.is_plain or (axis.begin, axis.end) != (0.0, 1.0)
    }
    if not changed:
        return ctx.inputs[0]
    if any(axis.target == 0 for axis in changed.values()):
        shape = [axes[number].target if number in axes else dim for number, dim in enumerate(ctx.shape(x))]
        return _op.zeros(shape, ctx.dtype(x))
    for number, axis in changed.items():
        if axis.extent == 0:
            raise ctx.error(f"axis {number} has no elements to make {axis.target} of")
        if axis.target > _MAX_TARGET:
            raise ctx.error(
                f"axis {number} would have {axis.target} elements; at most {_MAX_TARGET} are made"
            )
    if ctx.rank(x) == 4 and set(changed) <= {2, 3} and _relax_can(options, changed):
        return _op.image.resize2d(
            x,
            [
                axes[number].target if number in axes else ctx.static_shape(x, [number])[0]
                for number in (2, 3)
            ],
            layout="NCHW",
            method=_MODES[options.mode],
            coordinate_transformation_mode=options.transformation,
            cubic_alpha=options.cubic,
            rounding_method=options.rounding if options.mode == "nearest" else "round",
        )
    for number, axis in changed.items():
        taps, outside = _taps(axis, options)
        x = _apply(ctx, x, number, taps)
        if outside.any():
            x = _fill(ctx, x, number, outside, options.extrapolation)
    return x


def _axes(
    ctx: NodeContext, x: Expr, sizes: list[int] | None, scales: np.ndarray | None, roi: np.ndarray | None
) -> dict[int, _Axis]:
    """What the sizes or scales say of each axis that they name."""
    rank = ctx.rank(x)
    numbers = [ctx.axis(int(axis), rank) for axis in ctx.attr("axes") or range(rank)]
    given = len(sizes) if sizes else scales.size if scales is not None else 0
    if not given:
        raise ctx.error("neither scales nor sizes are given")
    if given != len(numbers):
        raise ctx.error(f"{given} scales or sizes for {len(numbers)} axes")
    if sizes:
        ratios: list[float] | None = None
        moved = [i for i, axis in enumerate(numbers) if str(ctx.shape(x)[axis]) != str(sizes[i])]
    else:
        assert scales is not None
        ratios = [float(scale) for scale in scales.reshape(-1)]
        moved = [i for i, ratio in enumerate(ratios) if ratio != 1.0]
    if roi is not None:
        moved = list(range(len(numbers)))
    extents = dict(zip(moved, ctx.static_shape(x, [numbers[i] for i in moved])))
    policy = ctx.attr("keep_aspect_ratio_policy", "stretch")
    if sizes and policy != "stretch":
        choose = min if policy == "not_larger" else max
        everything = ctx.static_shape(x, numbers)
        if 0 in everything:
            raise ctx.error(
                f"{policy} needs the ratio of the sizes {sizes} to the extents {everything}, of which one is 0"
            )
        ratio = choose(size / extent for size, extent in zip(sizes, everything))
        sizes = [math.floor(ratio * extent + 0.5) for extent in everything]
        ratios, extents = [ratio] * len(numbers), dict(enumerate(everything))
    made: dict[int, _Axis] = {}
    for i, extent in extents.items():
        begin, end = (0.0, 1.0) if roi is None else (float(roi[i]), float(roi[i + len(numbers)]))
        if sizes:
            target = sizes[i]
            scale = ratios[i] if ratios else target / extent if extent else 1.0
        else:
            assert ratios is not None
            # Float32 scales such as 1/3 fall short of whole extents by their own rounding.
            target, scale = math.floor(extent * (end - begin) * ratios[i] + 1e-5), ratios[i]
        made[numbers[i]] = _Axis(extent, target, scale, begin, end)
    return made


def _relax_can(options: _Options, axes: dict[int, _Axis]) -> bool:
    if options.antialias or options.exclude_outside or not all(axis.is_plain for axis in axes.values()):
        return False
    return options.transformation in ("half_pixel", "align_corners", "asymmetric")


def _apply(ctx: NodeContext, x: Expr, number: int, taps: list[list[tuple[int, float]]]) -> Expr:
    """The weighted sums of an axis's elements; those without weight do not count, even if they are infinite."""
    count = max(len(row) for row in taps)
    if count == 1:
        return ctx.emit(_op.take(x, const(np.array([index for ((index, _),) in taps]), "int64"), number))
    dtype, total = ctx.dtype(x), None
    kind = dtype if dt.is_float(dtype) and dt.bits(dtype) >= 32 else "float32"
    wide = x if kind == dtype else ctx.emit(_op.astype(x, kind))
    shape = [len(taps) if axis == number else 1 for axis in range(ctx.rank(x))]
    for place in range(count):
        # A row with fewer elements repeats its first one, and leaves it out.
        chosen = [row[place] if place < len(row) else (row[0][0], 0.0) for row in taps]
        indices = const(np.array([index for index, _ in chosen]), "int64")
        weights = np.array([weight for _, weight in chosen]).reshape(shape)
        term = ctx.emit(_op.multiply(_op.take(wide, indices, number), const(weights, kind)))
        if not weights.all():
            term = ctx.emit(_op.where(const(weights != 0, "bool"), term, ctx.scalar(0, wide)))
        total = term if total is None else ctx.emit(_op.add(total, term))
    assert total is not None
    if kind == dtype:
        return total
    return ctx.emit(_op.astype(total if dt.is_float(dtype) else _op.round(total), dtype))


def _fill(ctx: NodeContext, x: Expr, number: int, outside: np.ndarray, value: float) -> Expr:
    shape = [-1 if axis == number else 1 for axis in range(ctx.rank(x))]
    mask = const(outside.reshape([outside.size if dim == -1 else 1 for dim in shape]), "bool")
    return ctx.emit(_op.where(mask, ctx.scalar(value, x), x))


def _positions(axis: _Axis, options: _Options) -> list[Fraction]:
    """Where in the input each output element lies, exactly: a rounding would move it to another element."""
    index = [Fraction(number) for number in range(axis.target)]
    extent, half = axis.extent, Fraction(1, 2)
    scale = Fraction(axis.target, extent) if axis.is_plain else Fraction(axis.scale)
    length = extent * scale  # of the output, before it is cut to an integer
    kind = options.transformation
    if kind == "asymmetric":
        return [x / scale for x in index]
    if kind == "align_corners":
        return [x * (extent - 1) / (length - 1) if length != 1 else Fraction(0) for x in index]
    if kind == "pytorch_half_pixel" and length <= 1:
        return [Fraction(0)] * axis.target
    if kind == "tf_half_pixel_for_nn":
        return [(x + half) / scale for x in index]
    if kind == "tf_crop_and_resize":
        begin, end = Fraction(axis.begin), Fraction(axis.end)
        if axis.target <= 1:
            return [half * (begin + end) * (extent - 1)] * axis.target
        return [begin * (extent - 1) + x * (end - begin) * (extent - 1) / (axis.target - 1) for x in index]
    center = Fraction(0)
    if kind == "half_pixel_symmetric":
        center = Fraction(extent, 2) * (1 - axis.target / length)
    return [center + (x + half) / scale - half for x in index]


def _taps(axis: _Axis, options: _Options) -> tuple[list[list[tuple[int, float]]], np.ndarray]:
    """The input elements of each output element, with their weights; and which of these lie outside of the input."""
    positions = _positions(axis, options)
    outside = np.zeros(axis.target, dtype=bool)
    if options.transformation == "tf_crop_and_resize":
        outside[:] = [place < 0 or place > axis.extent - 1 for place in positions]

    def inside(index: int) -> int:
        return min(max(index, 0), axis.extent - 1)

    if options.mode == "nearest":
        return [[(inside(_ROUNDED[options.rounding](place)), 1.0)] for place in positions], outside
    kernel, radius = (
        (_linear, 1.0) if options.mode == "linear" else (partial(keys_cubic, a=options.cubic), 2.0)
    )
    stretch = max(1.0, 1.0 / axis.scale) if options.antialias else 1.0
    reach = radius * stretch
    rows = []
    for place in positions:
        taps = range(math.floor(place - Fraction(reach)) + 1, math.ceil(place + Fraction(reach)))
        if options.exclude_outside:
            taps = range(max(taps.start, 0), min(taps.stop, axis.extent))
        weights = [kernel(float(tap - place) / stretch) for tap in taps]
        total = sum(weights)
        rows.append([(inside(tap), weight / total) for tap, weight in zip(taps, weights) if weight])
    return rows, outside


_ROUNDED: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda place: math.ceil(place - Fraction(1, 2)),
    "round_prefer_ceil": lambda place: math.floor(place + Fraction(1, 2)),
}


def _linear(distance: float) -> float:
    return max(0.0, 1.0 - abs(distance))
