"""The functions that build expressions, as programs call them: those of all intrinsics, and what is composed of others.

Intrinsics are declared in :mod:`ir.tir.intrinsic`, one file per family; here their builders come together. A file put there is
found; the lines below show its builders to editors and type checkers.
"""

# ruff: noqa: F403  the builders of the families are this module's names
from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..expr import GlobalVar
from ..span import Span
from .expr import Call, CommReducer, FloatImm, IterVar, PrimExpr, Range, Reduce, StringImm, Var
from .intrinsic.declaration import INTRINSICS, CallEffectKind
from .intrinsic.declaration import gather as _gather
from .operators import const, convert, floordiv, floormod, located, logical_and, logical_or
from .operators import max as _max
from .operators import min as _min
from .written_condition import written_as_function

_IS_READ_ONLY: bool = TYPE_CHECKING
"""By a name of its own: what stands behind TYPE_CHECKING itself mypy reads last, too late for those who use it."""

if _IS_READ_ONLY:
    from .intrinsic.bits import *
    from .intrinsic.bulk_copies import *
    from .intrinsic.calls import *
    from .intrinsic.control import *
    from .intrinsic.gpu import *
    from .intrinsic.math import *
    from .intrinsic.matrix import *
    from .intrinsic.memory import *
    from .intrinsic.rounding import *
    from .intrinsic.runtime import *
    from .intrinsic.transaction_barriers import *
    from .intrinsic.vectors import *
    from .intrinsic.warp_groups import *
else:
    globals().update(_gather())


def indexdiv(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """Division of indices known to be at least zero."""
    return floordiv(a, b, span)


def indexmod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """Remainder of indices known to be at least zero."""
    return floormod(a, b, span)


def ceildiv(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """Integer division rounded up."""
    rhs = convert(rhs)
    return floordiv(convert(lhs) + (rhs - 1), rhs, span)


def all(*args: Any, span: Span | None = None) -> PrimExpr:
    """The conjunction of conditions."""
    if not args:
        raise IRValueError("tir.all needs at least one condition")
    return located(functools.reduce(logical_and, [convert(item) for item in args]), span)


def any(*args: Any, span: Span | None = None) -> PrimExpr:
    """The disjunction of conditions."""
    if not args:
        raise IRValueError("tir.any needs at least one condition")
    return located(functools.reduce(logical_or, [convert(item) for item in args]), span)


def min_value(dtype: str, span: Span | None = None) -> PrimExpr:
    """The smallest finite value of a dtype.

    Of floats it is no identity of ``max``: a maximum that begins with it is it where all elements are -inf. Begin with
    :func:`max_identity`, as ``te.max`` does, or ``T.float32("-inf")``.
    """
    return located(_extreme_value(dtype, lowest=True), span)


def max_value(dtype: str, span: Span | None = None) -> PrimExpr:
    """The largest finite value of a dtype; of floats no identity of ``min``, which :func:`min_identity` is."""
    return located(_extreme_value(dtype, lowest=False), span)


def _extreme_value(dtype: str, lowest: bool) -> PrimExpr:
    if dt.is_float(dtype):
        import ml_dtypes

        info = ml_dtypes.finfo(dt.to_numpy(dtype))
        return const(float(info.min if lowest else info.max), dtype)
    return const(dt.integer_range(dtype)[0 if lowest else 1], dtype)


def max_identity(dtype: str) -> PrimExpr:
    """What a maximum of nothing is: -inf, or the smallest value of a dtype without infinities."""
    return _identity(dtype, lowest=True)


def min_identity(dtype: str) -> PrimExpr:
    """What a minimum of nothing is: inf, or the largest value of a dtype without infinities."""
    return _identity(dtype, lowest=False)


def _identity(dtype: str, lowest: bool) -> PrimExpr:
    if dt.is_float(dtype):
        end = -np.inf if lowest else np.inf
        if np.isinf(dt.to_numpy(dtype).type(end)):
            return const(end, dtype)
    return _extreme_value(dtype, lowest)


def infinity(dtype: str, span: Span | None = None) -> PrimExpr:
    """Positive infinity."""
    return FloatImm(dtype, float("inf"), span)


def call_intrin(dtype: str, func_name: Any, *args: Any, span: Span | None = None) -> Call:
    """Call an intrinsic by name (``"tir.exp"``) or Op; raises IRTypeError for a wrong number of arguments, or ones that do not fit."""
    record = INTRINSICS.get(getattr(func_name, "name", func_name))
    if record is not None:
        return record.call(args, dtype, span)
    return Call(dtype, func_name, args, span)


def call_tir(global_var: GlobalVar, *args: Any) -> PrimExpr:
    """Call another PrimFunc of the module."""
    return Call("void", global_var, args)


def trace(args: Sequence[Any], trace_action: str = "tvm.default_trace_action") -> PrimExpr:
    """Report values to a registered function; the value is the last argument."""
    return Call(convert(args[-1]).dtype, "tir.tvm_call_packed", (StringImm(trace_action), *args))


def _are_axes(value: Any) -> bool:
    items = value if isinstance(value, tuple | list) else (value,)
    return builtins.all(isinstance(item, IterVar) for item in items)


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A commutative reducer from a combiner and its identity.

    The reducer is called as ``reducer(expr, axis, where=None, init=None)`` with reduction axes. For tuples, ``expr`` is
    a tuple, ``fcombine`` takes and returns tuples, and ``fidentity`` takes one dtype per element. Called with values
    instead of axes, ``reducer(a, b, c)``, it combines them; what is named ``axis=`` is never a value.

    >>> maximum = comm_reducer(lambda x, y: tir.max(x, y), lambda t: tir.min_value(t), name="max")  # doctest: +SKIP
    """

    def reduced(expr: Any, axis: Any, where: Any = None, init: Any = None) -> Any:
        axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
        for item in axes:
            if not isinstance(item, IterVar) or item.iter_type != IterVar.CommReduce:
                shown = item.var.name if isinstance(item, IterVar) else repr(item)
                raise IRTypeError(f"{name}: axis {shown} is no reduction axis; make one with te.reduce_axis")
        single = not isinstance(expr, tuple | list)
        sources = [convert(item) for item in ((expr,) if single else expr)]
        lhs = [Var(f"x{i}" if len(sources) > 1 else "x", item.dtype) for i, item in enumerate(sources)]
        rhs = [Var(f"y{i}" if len(sources) > 1 else "y", item.dtype) for i, item in enumerate(sources)]
        with written_as_function():
            combined = fcombine(lhs[0], rhs[0]) if single else fcombine(lhs, rhs)
        results = [convert(item) for item in ((combined,) if single else combined)]
        if single:
            identity = [convert(fidentity(sources[0].dtype))]
        else:
            identity = [convert(item) for item in fidentity(*[item.dtype for item in sources])]
        combiner = CommReducer(lhs, rhs, results, identity)
        condition = const(True) if where is None else convert(where)
        inits = (
            ()
            if init is None
            else tuple(convert(item) for item in (init if isinstance(init, list | tuple) else (init,)))
        )
        outputs = tuple(Reduce(combiner, sources, axes, condition, i, inits) for i in range(len(sources)))
        return outputs[0] if single else outputs

    def reducer(expr: Any, *operands: Any, **reduction: Any) -> Any:
        if reduction or (operands and _are_axes(operands[0])):
            return reduced(expr, *operands, **reduction)
        if not operands:
            raise IRTypeError(f"{name} takes reduction axes, {name}(expr, axis=k), or more values to combine")
        result = convert(expr)
        for value in operands:
            if value is not None:
                result = fcombine(result, convert(value))
        return result

    for function in (reduced, reducer):  # a wrong keyword is an error that names the reducer
        function.__name__ = function.__qualname__ = name
    reducer.__doc__ = f"Reduce by {name} over axes, or combine values directly: see :func:`comm_reducer`."
    return reducer


sum = comm_reducer(lambda x, y: x + y, lambda t: const(0, t), name="sum")
max = comm_reducer(_max, max_identity, name="max")
min = comm_reducer(_min, min_identity, name="min")


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: Span | None = None) -> IterVar:
    """A reduction axis over a range, given as ``(begin, end)`` or a Range."""
    domain = dom if isinstance(dom, Range) else Range(*dom)
    return IterVar(domain, Var(name, domain.extent.dtype), IterVar.CommReduce, thread_tag, span)


if not TYPE_CHECKING:  # type checkers cannot evaluate this; without it they take all public names
    __all__ = [
        name for name, item in globals().items() if not name.startswith("_") and inspect.isfunction(item)
    ] + ["CallEffectKind"]
