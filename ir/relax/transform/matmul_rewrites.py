"""What the passes over matrix products share: shapes, and which values are known before the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..analysis.binding import get_var2val
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


def value_lookup(func: Function) -> Callable[[Expr], Any]:
    """A function that gives the bound value of a variable (by its identity, which rewriting keeps); others stay."""
    values = {var.vid: value for var, value in get_var2val(func).items()}
    return lambda expr: values.get(expr.vid, expr) if isinstance(expr, Var) else expr
