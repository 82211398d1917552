"""Tensors made from nothing but their shape: ranges, shapes as data, one-hot codes."""

from __future__ import annotations

import math
from typing import Any

from .. import dtype as dt
from ..te.operation import compute
from ..te.tensor import Tensor
from ..tir import op as T
from ..tir.expr import FloatImm, IntImm, Select
from ..tir.operators import cast, const, convert, div, floordiv
from . import tag
from .indexing import with_extent
from .shape import as_int, ax_compute, index_dtype, normalize_axis, product, simplify


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: str = "float32") -> Tensor:
    """``start, start + step, ...`` below ``stop``; with one argument from 0. The bounds may be symbolic."""
    if stop is None:
        start, stop = 0, start
    low, high, stride = convert(start), convert(stop), convert(step)
    if all(dt.is_integral(item.dtype) for item in (low, high, stride)):
        kind = index_dtype((low, high, stride))
        span = cast(kind, high) - cast(kind, low)
        unit = cast(kind, stride)
        if isinstance(unit, IntImm) and unit.value < 0:
            span, unit = -1 * span, -1 * unit
        extent = simplify(floordiv(span + unit - 1, unit))
        if isinstance(extent, IntImm) and extent.value < 0:
            extent = const(0, kind)
    else:
        wide = [cast("float64", item) for item in (low, high, stride)]
        extent = simplify(cast("int32", T.ceil(div(wide[1] - wide[0], wide[2]))))
        numbers = [item.value for item in wide if isinstance(item, FloatImm)]
        if len(numbers) == 3:
            extent = const(max(0, math.ceil((numbers[1] - numbers[0]) / numbers[2])))
    return ax_compute(
        (extent,),
        lambda i: cast(dtype, low) + cast(dtype, stride) * cast(dtype, i[0]),
        "T_arange",
        tag.INJECTIVE,
    )


def shape(array: Tensor, dtype: str = "int32") -> Tensor:
    """The shape of ``array`` as a vector."""

    def element(*i: Any) -> Any:
        value: Any = const(0, dtype)
        for axis, extent in reversed(list(enumerate(array.shape))):
            value = T.if_then_else(i[0].equal(axis), cast(dtype, extent), value)
        return value

    return compute((array.ndim,), element, name="T_shape", tag=tag.INJECTIVE)


def ndarray_size(array: Tensor, dtype: str = "int32") -> Tensor:
    """The number of elements as a rank-0 tensor."""
    return compute(
        (), lambda: cast(dtype, convert(product(array.shape))), name="ndarray_size", tag=tag.INJECTIVE
    )


def one_hot(indices: Tensor, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str) -> Tensor:
    """A new axis of extent ``depth`` that holds ``on_value`` at the index and ``off_value`` elsewhere."""
    along = indices.ndim if axis == -1 else normalize_axis(axis, indices.ndim + 1)
    extent = const(as_int(depth, "depth"), index_dtype(indices.shape))
    shape = [*indices.shape[:along], extent, *indices.shape[along:]]
    on, off = cast(dtype, convert(on_value)), cast(dtype, convert(off_value))

    def element(i: tuple[Any, ...]) -> Any:
        where, position = with_extent(indices(*i[:along], *i[along + 1 :]), i[along])
        return Select(where.equal(position), on, off)

    return ax_compute(shape, element, "T_one_hot", tag.INJECTIVE)


def eye(n: Any, m: Any = None, k: Any = 0, dtype: str = "float32") -> Tensor:
    """Ones on diagonal ``k`` of an (n, m) matrix, zeros elsewhere."""
    columns = n if m is None else m
    one, zero = const(1, dtype), const(0, dtype)
    return compute(
        (n, columns),
        lambda i, j: T.if_then_else((i + convert(k).astype(i.dtype)).equal(j), one, zero),
        name="eye",
        tag=tag.INJECTIVE,
    )
