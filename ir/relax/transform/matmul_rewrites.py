"""What the passes over matrix products share: shapes, and which values are known before the program runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtype as dt
from ..analysis.compile_time import computable_at_compile_time
from ..expr import Constant, Expr, Var
from ..function import Function
from ..struct_info import TensorStructInfo


def shape_values(expr: Expr) -> tuple[Any, ...] | None:
    """The extents of a tensor, None when they are not known."""
    info = expr.struct_info_
    return info.shape_values if isinstance(info, TensorStructInfo) else None


def compile_time_values(func: Function) -> set[Var]:
    """Variables that depend on weights only (parameters behind ``num_input``)."""
    return set(computable_at_compile_time(func))


def is_known(expr: Expr, known: set[Var]) -> bool:
    """Whether a value is a constant or depends on weights only."""
    return expr in known if isinstance(expr, Var) else isinstance(expr, Constant)


def product_dtype(product: Any) -> str:
    """The dtype that a matrix product is written with; empty for that of its operands."""
    return str(product.attrs.get("out_dtype") or "")


def rounds_alike(operands: Sequence[Expr], inner: Expr, outer: Expr) -> bool:
    """Whether a product (or sum) ``inner`` of operands and the product ``outer`` of it may be taken in another order.

    All must be of one dtype up to the outer product, for a product wants operands of one. Integers must keep to it in the
    outer one as well: they are sums modulo a power of two, which know no order until they are widened.
    """
    dtypes: set[Any] = {item.struct_info_.dtype for item in (*operands, inner)}  # type: ignore[union-attr]
    if len(dtypes) != 1 or None in dtypes:
        return False
    (dtype,) = dtypes
    return dt.is_float(dtype) or outer.struct_info_.dtype == dtype  # type: ignore[union-attr]
