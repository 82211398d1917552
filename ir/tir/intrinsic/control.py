"""What is evaluated, and what is known: choices, promises, values that nobody set, and the end of a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...span import Span
from ..expr import Call, IntImm, PrimExpr
from ..operators import as_condition, convert, operands
from .declaration import CallEffectKind, call, first, intrinsic, primitive, second


def _argument(node: Call) -> PrimExpr:
    """Lowering: the argument itself."""
    return node.args[0]


@intrinsic(arity=3, result=second, meaning=np.where, lowering={"default": primitive}, exact=True)
def if_then_else(cond: Any, t: Any, f: Any, span: Span | None = None) -> PrimExpr:
    """``t`` where the condition holds, else ``f``; only the chosen side is evaluated."""
    condition = as_condition(cond, "if_then_else")
    a, b = operands(t, f)
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return call("if_then_else", condition, a, b, span=span)


@intrinsic(
    arity=1,
    result=first,
    meaning=lambda x: x,
    elementwise=True,
    lowering={"default": _argument},
    exact=True,
    transparent=True,
)
def likely(cond: Any, span: Span | None = None) -> PrimExpr:
    """Mark a condition as holding nearly always (the guard of a tile's tail)."""
    condition = convert(cond)
    return condition if isinstance(condition, IntImm) else call("likely", condition, span=span)


@intrinsic(arity=1, result=first, meaning=lambda x: x, lowering={"default": _argument, "llvm": primitive})
def optimization_barrier(value: Any) -> PrimExpr:
    """The value, of which a backend's optimizer is told nothing: it does not look for other ways to compute it."""
    return call("optimization_barrier", convert(value))


@intrinsic(
    arity=1,
    result=first,
    meaning=lambda x: x,
    elementwise=True,
    lowering={"default": _argument, "llvm": primitive},
)
def in_order(value: Any) -> PrimExpr:
    """The value, computed in the order in which it is written: no step of a reduction, whatever it looks like."""
    return call("in_order", convert(value))


@intrinsic(
    arity=1,
    result=first,
    meaning=lambda x: x,
    elementwise=True,
    lowering={"default": _argument, "cuda": primitive},
)
def as_data(value: Any) -> PrimExpr:
    """A float that is stored, or rounded and stored, by the program as written: it may be contracted although its bits are looked at."""
    return call("as_data", convert(value))


@intrinsic(
    arity=1,
    result="bool",
    meaning=lambda x: x,
    elementwise=True,
    lowering={"default": _argument},
    transparent=True,
)
def ignore_loop_partition(predicate: Any) -> Call:
    """A condition for which loops are not split."""
    return call("ignore_loop_partition", as_condition(predicate, "ignore_loop_partition"))


@intrinsic(
    arity=1,
    result="bool",
    effect=CallEffectKind.UPDATE_STATE,
    meaning=lambda x: x,
    lowering={"default": primitive},
)
def assume(cond: Any) -> PrimExpr:
    """A promise that a condition holds."""
    return call("assume", as_condition(cond, "assume"))


@intrinsic(arity=0, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering={"default": primitive})
def undef() -> PrimExpr:
    """An undefined value."""
    return call("undef")


def _dtype_returned(args: Sequence[PrimExpr]) -> str:
    """Result rule: the dtype of what is returned, where something is."""
    return first(args) if args else "void"


@intrinsic(
    arity=(0, 1), result=_dtype_returned, effect=CallEffectKind.UPDATE_STATE, lowering={"default": primitive}
)
def ret(value: Any = None) -> PrimExpr:
    """Return ``value`` from the function, or end it without a value."""
    return call("ret") if value is None else call("ret", convert(value))


@intrinsic(arity=0, result=None, lowering={"default": primitive})
def type_annotation(dtype: str) -> PrimExpr:
    """A dtype as argument of a call."""
    return call("type_annotation", dtype=dtype)
