"""What legalizations share: calling a topi function on a call's arguments, with scalar constants folded into the loop body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtype as dt
from ... import topi
from ...tir.expr import PrimExpr
from ...tir.operators import const as tir_const
from ..expr import Call, Constant, RelaxExpr

Legalize = Callable[[Any, Call], RelaxExpr]


def topi_function(path: str) -> Callable[..., Any]:
    """The function ``topi.<path>``, imported when it is first needed."""
    found: Any = topi
    for part in path.split("."):
        found = getattr(found, part)
    return found


def scalar_const(expr: Any) -> Any:
    """The TIR constant of a 0-dimensional constant tensor; everything else as it is."""
    if isinstance(expr, Constant) and expr.data.ndim == 0:
        dtype = dt.from_numpy(expr.data.dtype)
        return tir_const(expr.data.item(), dtype)
    return expr


def topi_unary(path: str, primfunc_name_hint: str | None = None) -> Legalize:
    """Legalize by a topi function of all arguments, without attributes."""

    def legalize(bb: Any, call: Call) -> RelaxExpr:
        return bb.call_te(topi_function(path), *call.args, primfunc_name_hint=primfunc_name_hint)

    return legalize


def topi_binary(path: str) -> Legalize:
    """Legalize an elementwise operator of two operands; one of them may be a scalar constant, which is folded in."""

    def legalize(bb: Any, call: Call) -> RelaxExpr:
        lhs, rhs = call.args[0], scalar_const(call.args[1])
        if isinstance(rhs, RelaxExpr) and not isinstance(rhs, PrimExpr):
            lhs = scalar_const(lhs)
        return bb.call_te(topi_function(path), lhs, rhs)

    return legalize


def with_attrs(path: str, *names: str, primfunc_name_hint: str | None = None, **fixed: Any) -> Legalize:
    """Legalize by a topi function of the arguments, then the named attributes, then fixed keywords."""

    def legalize(bb: Any, call: Call) -> RelaxExpr:
        values = [call.attrs[name] for name in names]
        return bb.call_te(
            topi_function(path), *call.args, *values, primfunc_name_hint=primfunc_name_hint, **fixed
        )

    return legalize
