"""Resizing of images and volumes.

What ``relax.image.resize2d`` can say becomes one call of it. ONNX says more: scales that do not divide the extents, antialiasing,
cropping, any number of axes. Since every interpolation is linear and separable, the rest becomes one matrix product per axis with a
matrix that is computed while importing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir.relax import op as _op
from ir.relax.expr import Expr, const

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
        return math.isclose(self.scale, self.target / self.extent, rel_tol=1e-6)


@dataclass(frozen=True)
class _Options:
    mode: str
    transformation: str
    rounding: str
    cubic: float
    exclude_outside: bool
    extrapolation: float
    antialias: bool


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
        matrix, outside = _matrix(axis, options)
        x = _apply(ctx, x, number, matrix)
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
        ratio = choose(size / extent for size, extent in zip(sizes, everything))
        sizes = [math.floor(ratio * extent + 0.5) for extent in everything]
        ratios, extents = [ratio] * len(numbers), dict(enumerate(everything))
    made: dict[int, _Axis] = {}
    for i, extent in extents.items():
        begin, end = (0.0, 1.0) if roi is None else (float(roi[i]), float(roi[i + len(numbers)]))
        if sizes:
            target = sizes[i]
            scale = ratios[i] if ratios else target / extent
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


def _apply(ctx: NodeContext, x: Expr, number: int, matrix: np.ndarray) -> Expr:
    """The matrix ``[target, extent]`` times the axis."""
    rank = ctx.rank(x)
    weights = const(np.ascontiguousarray(matrix.T), ctx.dtype(x))
    last = [axis for axis in range(rank) if axis != number] + [number]
    moved = x if number == rank - 1 else ctx.emit(_op.permute_dims(x, last))
    out = ctx.emit(_op.matmul(moved, weights))
    return (
        out
        if number == rank - 1
        else ctx.emit(_op.permute_dims(out, [last.index(axis) for axis in range(rank)]))
    )


def _fill(ctx: NodeContext, x: Expr, number: int, outside: np.ndarray, value: float) -> Expr:
    shape = [-1 if axis == number else 1 for axis in range(ctx.rank(x))]
    mask = const(outside.reshape([outside.size if dim == -1 else 1 for dim in shape]), "bool")
    return ctx.emit(_op.where(mask, ctx.scalar(value, x), x))


def _positions(axis: _Axis, options: _Options) -> np.ndarray:
    """Where in the input each output element lies."""
    index = np.arange(axis.target, dtype=np.float64)
    scale, extent = axis.scale, axis.extent
    length = extent * scale  # of the output, before it is cut to an integer
    kind = options.transformation
    if kind == "asymmetric":
        return index / scale
    if kind == "align_corners":
        return index * (extent - 1) / (length - 1) if length != 1 else np.zeros_like(index)
    if kind == "pytorch_half_pixel" and length <= 1:
        return np.zeros_like(index)
    if kind == "tf_half_pixel_for_nn":
        return (index + 0.5) / scale
    if kind == "tf_crop_and_resize":
        first = axis.begin * (extent - 1)
        if axis.target <= 1:
            return np.full_like(index, 0.5 * (axis.begin + axis.end) * (extent - 1))
        return first + index * (axis.end - axis.begin) * (extent - 1) / (axis.target - 1)
    if kind == "half_pixel_symmetric":
        center = extent / 2 * (1 - axis.target / length)
        return center + (index + 0.5) / scale - 0.5
    return (index + 0.5) / scale - 0.5


def _matrix(axis: _Axis, options: _Options) -> tuple[np.ndarray, np.ndarray]:
    """The weights ``[target, extent]`` of each output element, and which of them lie outside of the input."""
    positions = _positions(axis, options)
    outside = np.zeros(axis.target, dtype=bool)
    if options.transformation == "tf_crop_and_resize":
        outside = (positions < 0) | (positions > axis.extent - 1)
    matrix = np.zeros((axis.target, axis.extent), np.float64)
    if options.mode == "nearest":
        matrix[np.arange(axis.target), np.clip(_rounded(positions, options.rounding), 0, axis.extent - 1)] = 1
        return matrix, outside
    kernel, radius = (_linear, 1.0) if options.mode == "linear" else (_cubic(options.cubic), 2.0)
    stretch = max(1.0, 1.0 / axis.scale) if options.antialias else 1.0
    for row, position in enumerate(positions):
        reach = radius * stretch
        taps = np.arange(math.floor(position - reach) + 1, math.ceil(position + reach))
        weights = np.array([kernel((tap - position) / stretch) for tap in taps])
        inside = (taps >= 0) & (taps < axis.extent)
        if options.exclude_outside:
            weights = np.where(inside, weights, 0.0)
        weights = weights / weights.sum()
        for tap, weight in zip(np.clip(taps, 0, axis.extent - 1), weights):
            matrix[row, tap] += weight
    return matrix, outside


def _rounded(positions: np.ndarray, how: str) -> np.ndarray:
    if how == "floor":
        return np.floor(positions).astype(np.int64)
    if how == "ceil":
        return np.ceil(positions).astype(np.int64)
    shift = np.ceil(positions - 0.5) if how == "round_prefer_floor" else np.floor(positions + 0.5)
    return shift.astype(np.int64)


def _linear(distance: float) -> float:
    return max(0.0, 1.0 - abs(distance))


def _cubic(a: float) -> Any:
    """The piecewise cubic kernel of Keys (1981) with the coefficient ``a``."""

    def kernel(distance: float) -> float:
        d = abs(distance)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0

    return kernel
