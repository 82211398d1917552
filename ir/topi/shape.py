"""Arithmetic on shapes, axes and flattened indices, shared by the operator definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import dtype as dt
from ..arith.analyzer import Analyzer
from ..error import IRValueError
from ..te.operation import compute
from ..te.tensor import Tensor
from ..tir.expr import IntImm, PrimExpr
from ..tir.operators import const, convert, floordiv, floormod


def simplify(expr: Any) -> PrimExpr:
    """A shape expression in its simplest form."""
    value = convert(expr)
    return value if isinstance(value, IntImm) else Analyzer().simplify(value)


def as_int(value: Any, what: str = "value") -> int:
    """The Python integer of a constant; raises IRValueError, naming ``what``, for anything symbolic."""
    expr = value if isinstance(value, int) else simplify(value)
    if isinstance(expr, int):
        return int(expr)
    if not isinstance(expr, IntImm):
        raise IRValueError(f"{what} must be a constant integer, got {expr}")
    return expr.value


def as_ints(values: Any, what: str = "value") -> list[int]:
    """Python integers of a sequence of constants."""
    items = values if isinstance(values, tuple | list) else [values]
    return [as_int(item, what) for item in items]


def is_const(*values: Any) -> bool:
    """Whether all values are integer constants."""
    return all(isinstance(convert(item), IntImm) for item in values)


def normalize_axis(axis: Any, ndim: int, what: str = "axis") -> int:
    """An axis counted from the front; raises IRValueError when it is out of range."""
    number = as_int(axis, what)
    if not -ndim <= number < ndim:
        raise IRValueError(f"{what} {number} is out of range for {ndim} dimensions")
    return number % ndim


def normalize_axes(axes: Any, ndim: int, what: str = "axis") -> list[int]:
    """Distinct axes counted from the front; None stands for all."""
    if axes is None:
        return list(range(ndim))
    items = axes if isinstance(axes, tuple | list) else [axes]
    found = [normalize_axis(item, ndim, what) for item in items]
    if len(set(found)) != len(found):
        raise IRValueError(f"{what} {found} names an axis twice")
    return found


def product(values: Iterable[Any]) -> Any:
    """The product of extents; 1 for none, in the dtype of the extents."""
    total: Any = None
    for item in values:
        total = item if total is None else total * item
    return 1 if total is None else total


def index_dtype(*shapes: Sequence[Any]) -> str:
    """int64 when any extent is int64, else int32."""
    wide = any(dt.bits(item.dtype) == 64 for shape in shapes for item in shape if isinstance(item, PrimExpr))
    return "int64" if wide else "int32"


def shape_of(shape: Any, like: str | None = None) -> tuple[PrimExpr, ...]:
    """Extents as expressions, Python integers in the dtype ``like``."""
    items = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple(convert(item, like if isinstance(item, int) else None) for item in items)


def wrapped(index: Any, extent: PrimExpr) -> PrimExpr:
    """``index`` modulo ``extent``; as it is where there is nothing to index."""
    empty = isinstance(extent, IntImm) and extent.value == 0
    return convert(index) if empty else floormod(index, extent)


def ravel_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The position of ``indices`` in the flattened array."""
    position: Any = None
    for index, extent in zip(indices, shape, strict=True):
        position = index if position is None else position * extent + index
    return 0 if position is None else position


def unravel_index(position: Any, shape: Sequence[Any]) -> list[Any]:
    """The indices of a position within the flattened array of ``shape``; zeros where that has no elements."""
    if any(isinstance(extent, IntImm) and extent.value == 0 for extent in map(convert, shape)):
        return [const(0, convert(extent).dtype) for extent in shape]
    indices: list[Any] = []
    rest = convert(position)
    for extent in reversed(shape[1:]):
        indices.append(floormod(rest, extent))
        rest = floordiv(rest, extent)
    return [rest, *indices[::-1]][: len(shape)]


def ax_compute(
    shape: Sequence[Any],
    fcompute: Callable[[tuple[Any, ...]], Any],
    name: str,
    tag: str = "",
    attrs: Any = None,
) -> Tensor:
    """A compute whose axes are called ``ax0, ax1, ...``; ``fcompute`` takes the indices as one tuple."""
    names = [f"ax{i}" for i in range(len(shape))]
    return compute(tuple(shape), lambda *indices: fcompute(indices), name, tag, attrs, varargs_names=names)


def zero(dtype: str) -> PrimExpr:
    """Zero of a dtype."""
    return const(0, dtype)


def same_extent(a: Any, b: Any) -> bool:
    """Whether two extents are provably equal."""
    if a is b:
        return True
    difference = simplify(convert(a) - b)
    return isinstance(difference, IntImm) and difference.value == 0
