"""Expressions: variables, constants, arithmetic, comparisons, logic, vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtype as dt
from ...tir import expr as E
from ...tir.expr import Var
from ...tir.faults import may_fault
from . import nan_repair
from .builder import FunctionBuilder, Value, constant, lane_constants, lanes_of, vector
from .division import divide
from .emitter import FunctionEmitter, prints
from .rounding import FLOATS_IN_INTEGERS, narrow_float, widen_float
from .types import register_type

_SIGNED = {E.LT: "slt", E.LE: "sle", E.GT: "sgt", E.GE: "sge", E.EQ: "eq", E.NE: "ne"}
_UNSIGNED = {E.LT: "ult", E.LE: "ule", E.GT: "ugt", E.GE: "uge", E.EQ: "eq", E.NE: "ne"}
_ORDERED = {E.LT: "olt", E.LE: "ole", E.GT: "ogt", E.GE: "oge", E.EQ: "oeq", E.NE: "une"}


# -- variables and constants -------------------------------------------------------
@prints(E.Var, E.SizeVar)
def _var(emitter: FunctionEmitter, var: Var) -> Value:
    value = emitter.variable(var)
    emitter.private.discard(var)  # whoever is given an address may pass it on
    if var.dtype == "handle" or value.type != "i64":
        return value
    return emitter.b.cast("trunc", value, register_type(var.dtype))


@prints(E.IntImm)
def _int(emitter: FunctionEmitter, expr: E.IntImm) -> Value:
    return constant(expr.value, register_type(expr.dtype))


@prints(E.FloatImm)
def _float(emitter: FunctionEmitter, expr: E.FloatImm) -> Value:
    type_ = register_type(expr.dtype)
    if dt.code(expr.dtype) in FLOATS_IN_INTEGERS:
        bits = np.asarray(expr.value, dt.to_numpy(expr.dtype)).tobytes()
        return constant(int.from_bytes(bits, "little"), type_)
    return constant(expr.value, type_)


@prints(E.StringImm)
def _string(emitter: FunctionEmitter, expr: E.StringImm) -> Value:
    return emitter.module.string(expr.value)


@prints(E.Let)
def _let(emitter: FunctionEmitter, expr: E.Let) -> Value:
    emitter.variables[expr.var] = emitter.value(expr.value)
    with emitter.conditionally():
        return emitter.value(expr.body)


# -- arithmetic --------------------------------------------------------------------
@prints(E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max)
def _arithmetic(emitter: FunctionEmitter, expr: Any) -> Value:
    kind, dtype = expr.__class__, expr.dtype
    a, b = emitter.value(expr.a), emitter.value(expr.b)
    if not dt.is_float(dtype):
        return _integer_arithmetic(emitter, kind, a, b, dtype)
    contract = " contract" if id(expr) not in emitter.exact else ""
    if _in_float32(emitter, expr):
        a, b = widen_float(emitter.b, a, dtype), widen_float(emitter.b, b, dtype)
        return narrow_float(emitter.b, _float_arithmetic(emitter, kind, a, b, contract), dtype)
    if kind in (E.Max, E.Min) and nan_repair.repairs(emitter.context, expr, a.type):
        return emitter.b.define(nan_repair.extreme(emitter.context, kind is E.Max, a, b), a.type)
    if expr is emitter.reduction_update:
        return _reduction_arithmetic(emitter, kind, a, b)
    return _float_arithmetic(emitter, kind, a, b, contract)


def _in_float32(emitter: FunctionEmitter, expr: Any) -> bool:
    """Whether half floats are widened here; LLVM does it where it is left to, but compares halves once for every selection."""
    if dt.bits(expr.dtype) >= 32:
        return False
    if dt.code(expr.dtype) in FLOATS_IN_INTEGERS or not emitter.b.computes_halves:
        return True
    return isinstance(expr, E.Max | E.Min) and expr is not emitter.reduction_update


_FLOAT: dict[type, str] = {E.Add: "fadd", E.Sub: "fsub", E.Mul: "fmul"}


def _float_arithmetic(emitter: FunctionEmitter, kind: type, x: Value, y: Value, contract: str) -> Value:
    """One operation; with ``contract`` a product and a sum may become one fused operation, rounded once."""
    b = emitter.b
    if kind in _FLOAT:
        return b.binary(_FLOAT[kind] + contract, x, y)
    if kind is E.Div:
        return b.binary("fdiv", x, y)
    if kind is E.Max or kind is E.Min:
        return _extreme(b, kind, x, y)
    if kind is E.Mod:
        return b.binary("frem", x, y)
    return (_floor_quotient if kind is E.FloorDiv else _floor_remainder)(emitter, x, y)


def _wrong_sign(b: FunctionBuilder, remainder: Value, y: Value) -> Value:
    """Where the remainder of a division towards zero has not the sign of the divisor."""
    zero = constant(0.0, y.type)
    differs = b.binary("xor", b.fcmp("olt", remainder, zero), b.fcmp("olt", y, zero))
    return b.binary("and", differs, b.fcmp("one", remainder, zero))


def _floor_remainder(emitter: FunctionEmitter, x: Value, y: Value) -> Value:
    """The remainder with the sign of the divisor, zero too."""
    b = emitter.b
    remainder = b.binary("frem", x, y)
    result = b.select(_wrong_sign(b, remainder, y), b.binary("fadd", remainder, y), remainder)
    zero = b.call(emitter.module.intrinsic("copysign", y.type, 2), y.type, [constant(0.0, y.type), y])
    return b.select(b.fcmp("oeq", remainder, constant(0.0, y.type)), zero, result)


def _floor_quotient(emitter: FunctionEmitter, x: Value, y: Value) -> Value:
    """The quotient rounded down, exact also where ``x / y`` is rounded up to an integer: by the remainder."""
    b, one, zero = emitter.b, constant(1.0, x.type), constant(0.0, x.type)
    ratio, remainder = b.binary("fdiv", x, y), b.binary("frem", x, y)
    quotient = b.binary("fdiv", b.binary("fsub", x, remainder), y)
    quotient = b.select(_wrong_sign(b, remainder, y), b.binary("fsub", quotient, one), quotient)
    down = b.call(emitter.module.intrinsic("floor", x.type), x.type, [quotient])
    is_above = b.fcmp("ogt", b.binary("fsub", quotient, down), constant(0.5, x.type))
    nearest = b.select(is_above, b.binary("fadd", down, one), down)
    signed_zero = b.call(emitter.module.intrinsic("copysign", x.type, 2), x.type, [zero, ratio])
    result = b.select(b.fcmp("une", quotient, zero), nearest, signed_zero)
    return b.select(b.fcmp("oeq", y, zero), ratio, result)


def _extreme(b: FunctionBuilder, kind: type, x: Value, y: Value) -> Value:
    """The larger or smaller operand, NaN if one is NaN, and either of two zeros: one instruction where one operand is constant.

    LLVM's own operation orders zeros, which takes longer. It may not be told that their signs do not matter: it takes the sign that
    the ordered result would have for known, and drops a ``fabs`` of the other zero.
    """
    if x.ref[0] != "%":
        x, y = y, x
    is_beyond = b.fcmp("ogt" if kind is E.Max else "olt", y, x)
    # What a reduction tests for NaN is not what its next step waits for; with y in place of the constant LLVM would join both tests,
    # and processors have one instruction for the inner one.
    return b.select(b.fcmp("uno", y, y), constant(math.nan, y.type), b.select(is_beyond, y, x))


def _reduction_arithmetic(emitter: FunctionEmitter, kind: type, x: Value, y: Value) -> Value:
    """One step of a reduction, in any order: LLVM may keep several partial results and combine them at the end.

    Signs of zeros are kept although their order is free: told otherwise, LLVM takes common factors out of sums. Of extremes it makes
    vectors only if they are its own ordered ones.
    """
    b = emitter.b
    if kind is E.Add:
        return b.binary("fadd reassoc contract", x, y)
    if kind is E.Mul:
        return b.binary("fmul reassoc contract", x, y)
    if not emitter.reduction_is_long:
        return _extreme(b, kind, x, y)
    name = emitter.module.intrinsic("maximum" if kind is E.Max else "minimum", x.type, 2)
    return b.call(name, x.type, [y, x])


_INTEGER: dict[type, str] = {E.Add: "add", E.Sub: "sub", E.Mul: "mul"}


def _integer_arithmetic(emitter: FunctionEmitter, kind: type, x: Value, y: Value, dtype: str) -> Value:
    b = emitter.b
    if kind in _INTEGER:
        bits = _magnitude(b.magnitude(x), b.magnitude(y), kind) if x.type == "i64" else 64
        # what indices and conditions are made of does not overflow, and LLVM finds more where it is told
        return b.bound(b.binary(_INTEGER[kind] + (" nsw" if bits < 64 else ""), x, y), bits)
    unsigned = dt.is_uint(dtype) or dt.is_bool(dtype)
    if kind is E.Max or kind is E.Min:
        name = ("u" if unsigned else "s") + ("max" if kind is E.Max else "min")
        return b.call(emitter.module.intrinsic(name, x.type, 2), x.type, [x, y])
    return divide(b, kind, x, y, dtype)


def _magnitude(x: int, y: int, kind: type) -> int:
    """Bits that are enough for the absolute value of a sum, difference or product."""
    return x + y if kind is E.Mul else max(x, y) + 1


# -- comparisons and logic ---------------------------------------------------------
@prints(E.LT, E.LE, E.GT, E.GE, E.EQ, E.NE)
def _compare(emitter: FunctionEmitter, expr: Any) -> Value:
    dtype = expr.a.dtype
    a, b = emitter.value(expr.a), emitter.value(expr.b)
    if dt.is_float(dtype):
        a, b = widen_float(emitter.b, a, dtype), widen_float(emitter.b, b, dtype)
        return emitter.b.fcmp(_ORDERED[expr.__class__], a, b)
    return emitter.b.icmp((_SIGNED if dt.is_int(dtype) else _UNSIGNED)[expr.__class__], a, b)


@prints(E.And)
def _and(emitter: FunctionEmitter, expr: E.And) -> Value:
    a = emitter.value(expr.a)
    if a.type == "i1" and may_fault(expr.b):
        return _only_if(emitter, a, True, expr.b)
    # select, not and: the right side may be poison or meaningless where the left does not hold
    return emitter.b.select(a, emitter.value(expr.b), constant(0, a.type))


@prints(E.Or)
def _or(emitter: FunctionEmitter, expr: E.Or) -> Value:
    a = emitter.value(expr.a)
    if a.type == "i1" and may_fault(expr.b):
        return _only_if(emitter, a, False, expr.b)
    return emitter.b.select(a, constant(1, a.type), emitter.value(expr.b))


def _only_if(emitter: FunctionEmitter, condition: Value, holds: bool, expr: E.PrimExpr) -> Value:
    """An expression that is evaluated only where the condition is as ``holds`` says, and the condition elsewhere."""
    b = emitter.b
    right, join = b.fresh("right"), b.fresh("join")
    before = b.block
    b.cond_branch(condition, *((right, join) if holds else (join, right)))
    b.label(right)
    with emitter.conditionally():
        value = emitter.value(expr)
    last = b.block
    b.branch(join)
    b.label(join)
    return b.define(f"phi i1 [{value.ref}, %{last}], [{int(not holds)}, %{before}]", "i1")


@prints(E.Not)
def _not(emitter: FunctionEmitter, expr: E.Not) -> Value:
    a = emitter.value(expr.a)
    return emitter.b.binary("xor", a, constant(1, a.type))


@prints(E.Select)
def _select(emitter: FunctionEmitter, expr: E.Select) -> Value:
    condition = emitter.value(expr.condition)
    return emitter.b.select(condition, emitter.value(expr.true_value), emitter.value(expr.false_value))


# -- vectors -----------------------------------------------------------------------
@prints(E.Ramp)
def _ramp(emitter: FunctionEmitter, expr: E.Ramp) -> Value:
    element = register_type(expr.base.dtype)
    base = emitter.b.splat(emitter.value(expr.base), expr.lanes)
    stride = emitter.value(expr.stride)
    if stride.literal is not None:
        steps = lane_constants([stride.literal * i for i in range(expr.lanes)], element)
    else:
        steps = emitter.b.binary(
            "mul", lane_constants(range(expr.lanes), element), emitter.b.splat(stride, expr.lanes)
        )
    return emitter.b.binary("add", base, steps)


@prints(E.Broadcast)
def _broadcast(emitter: FunctionEmitter, expr: E.Broadcast) -> Value:
    return emitter.b.splat(emitter.value(expr.value), expr.lanes)


@prints(E.Shuffle)
def _shuffle(emitter: FunctionEmitter, expr: E.Shuffle) -> Value:
    vectors = [emitter.value(item) for item in expr.vectors]
    if (
        len(expr.indices) > 1
        and len(vectors) <= 2
        and lanes_of(vectors[0].type) > 1
        and vectors[0].type == vectors[-1].type
    ):
        places = [int(index) for index in expr.indices]  # type: ignore[call-overload]
        return emitter.b.shuffle(vectors[0], vectors[-1], places)
    lanes = [(value, i) for value in vectors for i in range(lanes_of(value.type))]
    picked = [emitter.b.extract(*lanes[int(index)]) for index in expr.indices]  # type: ignore[call-overload]
    if len(picked) == 1:
        return picked[0]
    result = Value("poison", vector(picked[0].type, len(picked)))
    for i, lane in enumerate(picked):
        result = emitter.b.insert(result, lane, i)
    return result
