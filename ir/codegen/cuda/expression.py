"""Expressions: variables, constants, arithmetic, comparisons, choices, casts, vectors."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from ... import dtype as dt
from ...tir import expr as E
from ...tir.analysis.reads_memory import reads_memory
from ...tir.operators import wrap_integer
from ..error import CodegenError
from .emitter import KernelEmitter, Lanes, prints
from .text import Text, binary, call, cast, choice, negative
from .types import is_float8, memory_type


# -- variables and constants -------------------------------------------------------
@prints(E.Var, E.SizeVar)
def _var(emitter: KernelEmitter, var: E.Var) -> Lanes:
    found = emitter.variables.get(var)
    if found is None:
        raise CodegenError(f"variable {var.name} is used where it is not defined")
    return found


def integer(value: int, dtype: str) -> Text:
    """An integer constant of its C++ type."""
    element = dt.element_of(dtype)
    if dt.is_bool(element):
        return Text("true" if value else "false")
    suffix = {"int32": "", "int64": "LL", "uint32": "u", "uint64": "ULL"}.get(element)
    if suffix is None:
        return cast(memory_type(element), Text(str(value)))
    if value == -(1 << 31) or value == -(1 << 63):  # the number without its sign does not fit
        return Text(f"({value + 1}{suffix} - 1)")
    text = Text(f"{abs(value)}{suffix}")
    return negative(text) if value < 0 else text


@prints(E.IntImm)
def _int(emitter: KernelEmitter, expr: E.IntImm) -> Lanes:
    return [integer(expr.value, expr.dtype)]


@prints(E.FloatImm)
def _float(emitter: KernelEmitter, expr: E.FloatImm) -> Lanes:
    if expr.dtype == "float64":
        return [
            _number(
                float(expr.value),
                "",
                "__longlong_as_double(0x%sLL)",
                ("7ff0000000000000", "7ff8000000000000"),
            )
        ]
    if is_float8(expr.dtype):
        code = int.from_bytes(np.asarray(expr.value, dt.to_numpy(expr.dtype)).tobytes(), "little")
        kind = emitter.type_of(expr.dtype)
        return [call(f"{emitter.use('reinterpret')}<{kind}, unsigned char>", str(code))]
    rounded = float(np.asarray(expr.value, dt.to_numpy(expr.dtype)).astype(np.float32))
    return [_number(rounded, "f", "__int_as_float(0x%s)", ("7f800000", "7fc00000"))]


def _number(value: float, suffix: str, special: str, bits: tuple[str, str]) -> Text:
    if math.isnan(value):
        return Text(special % bits[1])
    if math.isinf(value):
        infinity = Text(special % bits[0])
        return infinity if value > 0 else negative(infinity)
    digits = repr(float(str(np.float32(abs(value))))) if suffix else repr(abs(value))
    text = Text(digits + suffix)
    return negative(text) if math.copysign(1.0, value) < 0 else text


@prints(E.Let)
def _let(emitter: KernelEmitter, expr: E.Let) -> Lanes:
    value = bound(emitter, expr.var, expr.value)
    emitter.variables[expr.var] = [emitter.kept(lane, expr.var.dtype, expr.var.name) for lane in value]
    return emitter.lanes(expr.body)


def bound(emitter: KernelEmitter, var: E.Var, value: E.PrimExpr) -> Lanes:
    """The value of a variable: index arithmetic if it is made of such, else data."""
    if dt.is_index(value.dtype) and emitter.is_index(value):
        return emitter.number(value)
    if dt.is_index(var.dtype):
        emitter.is_index.mark_data(var)
    return emitter.data(value)


# -- arithmetic --------------------------------------------------------------------
_OPERATORS: dict[type, str] = {E.Add: "+", E.Sub: "-", E.Mul: "*"}
_WRAPPING: dict[type, str] = {E.Add: "wrapping_add", E.Sub: "wrapping_sub", E.Mul: "wrapping_mul"}


@prints(E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max)
def _arithmetic(emitter: KernelEmitter, expr: Any) -> Lanes:
    fused = _fused(emitter, expr)
    if fused is not None:
        return fused
    operate = _float_operation if dt.is_float(expr.dtype) else _integer_operation
    pairs = zip(emitter.lanes(expr.a), emitter.lanes(expr.b), strict=True)
    return [operate(emitter, expr, a, b) for a, b in pairs]


def _fused(emitter: KernelEmitter, expr: Any) -> Lanes | None:
    """A product and a sum as one operation, rounded once, where programs may be contracted."""
    if not isinstance(expr, E.Add | E.Sub) or not dt.is_float(expr.dtype) or id(expr) in emitter.exact:
        return None
    is_first = _is_product(emitter, expr.a)
    product, other = (expr.a, expr.b) if is_first else (expr.b, expr.a)
    if not isinstance(product, E.Mul) or id(product) in emitter.exact:
        return None
    function = "fma" if dt.element_of(expr.dtype) == "float64" else "fmaf"
    found = []
    first = None if is_first else emitter.lanes(other)
    factors = emitter.lanes(product.a), emitter.lanes(product.b)
    for a, b, c in zip(*factors, emitter.lanes(other) if first is None else first, strict=True):
        if isinstance(expr, E.Sub):
            a, c = (a, negative(c)) if is_first else (negative(a), c)
        found.append(call(function, a, b, c))
    return found


def _is_product(emitter: KernelEmitter, expr: Any) -> bool:
    return isinstance(expr, E.Mul) and id(expr) not in emitter.exact


def _float_operation(emitter: KernelEmitter, expr: Any, a: Text, b: Text) -> Text:
    kind = expr.__class__
    if kind in _OPERATORS:
        return binary(_OPERATORS[kind], a, b)
    if kind is E.Div:
        return binary("/", a, b)
    if kind is E.Mod:
        return call("fmod" if dt.element_of(expr.dtype) == "float64" else "fmodf", a, b)
    names = {
        E.Max: "maximum",
        E.Min: "minimum",
        E.FloorDiv: "float_floor_quotient",
        E.FloorMod: "float_floor_remainder",
    }
    return call(emitter.use(names[kind]), a, b)


def _integer_operation(emitter: KernelEmitter, expr: Any, a: Text, b: Text) -> Text:
    kind, dtype = expr.__class__, dt.element_of(expr.dtype)
    if kind in (E.Max, E.Min):
        return call(emitter.use("maximum" if kind is E.Max else "minimum"), a, b)
    if kind in _OPERATORS:
        return _sum_or_product(emitter, kind, dtype, a, b)
    return _division(emitter, expr, dtype, a, b)


def _sum_or_product(emitter: KernelEmitter, kind: type, dtype: str, a: Text, b: Text) -> Text:
    if dt.is_bool(dtype):
        return binary("&&" if kind is E.Mul else "||", a, b)
    is_number = dt.is_index(dtype) and not emitter.in_data
    if is_number or dtype in ("uint32", "uint64"):
        return binary(_OPERATORS[kind], a, b)
    if dt.bits(dtype) < 16 or dtype == "int16":  # computed in int, which holds the result
        return cast(memory_type(dtype), binary(_OPERATORS[kind], a, b))
    return call(emitter.use(_WRAPPING[kind]), a, b)


def _division(emitter: KernelEmitter, expr: Any, dtype: str, a: Text, b: Text) -> Text:
    kind = expr.__class__
    is_quotient = kind in (E.Div, E.FloorDiv)
    divisor = expr.b.value if isinstance(expr.b, E.Broadcast) else expr.b
    known = divisor.value if isinstance(divisor, E.IntImm) else None
    is_floor = kind in (E.FloorDiv, E.FloorMod) and dt.is_int(dtype)
    if known is not None and known > 0 and (not is_floor or not known & (known - 1)):
        if not is_floor:
            result = binary("/" if is_quotient else "%", a, b)
        elif is_quotient:
            result = binary(">>", a, Text(str(known.bit_length() - 1)))
        else:
            result = binary("&", a, integer(known - 1, dtype))
        return result if dt.bits(dtype) >= 32 else cast(memory_type(dtype), result)
    if dt.is_uint(dtype):
        result = binary("/" if is_quotient else "%", a, b)
        return result if dt.bits(dtype) >= 32 else cast(memory_type(dtype), result)
    name = ("floor_" if is_floor else "whole_") + ("quotient" if is_quotient else "remainder")
    return call(emitter.use(name), a, b)


# -- comparisons and logic ---------------------------------------------------------
_COMPARISONS: dict[type, str] = {E.LT: "<", E.LE: "<=", E.GT: ">", E.GE: ">=", E.EQ: "==", E.NE: "!="}


@prints(E.LT, E.LE, E.GT, E.GE, E.EQ, E.NE)
def _compare(emitter: KernelEmitter, expr: Any) -> Lanes:
    is_number = not emitter.in_data and emitter.is_index(expr.a) and emitter.is_index(expr.b)
    visit = emitter.number if is_number else emitter.data
    operator = _COMPARISONS[expr.__class__]
    return [binary(operator, a, b) for a, b in zip(visit(expr.a), visit(expr.b), strict=True)]


@prints(E.And, E.Or)
def _connective(emitter: KernelEmitter, expr: Any) -> Lanes:
    left = emitter.lanes(expr.a)
    if emitter.in_order and reads_memory(expr.b):
        return _in_branches(emitter, expr, left)
    with emitter.conditionally():
        right = emitter.lanes(expr.b)
    operator = "&&" if isinstance(expr, E.And) else "||"
    return [binary(operator, a, b) for a, b in zip(left, right, strict=True)]


def _in_branches(emitter: KernelEmitter, expr: Any, left: Lanes) -> Lanes:
    """A condition whose right side runs, if it does, before what follows the condition.

    Raises:
        CodegenError: the lanes of a vector decide one by one.
    """
    if len(left) > 1:
        refuse_lanes(expr)
    name = emitter.fresh("holds")
    emitter.line(f"bool {name} = {left[0].code};")
    with emitter.block(f"if ({name})" if isinstance(expr, E.And) else f"if (!{name})"):
        emitter.line(f"{name} = {emitter.scalar(expr.b).code};")
    return [Text(name)]


def refuse_lanes(expr: E.PrimExpr) -> NoReturn:
    """Of lanes that decide one by one, each would have effects, or read what those change, in an order of its own."""
    raise CodegenError(f"{expr} has effects, and decides lane by lane; make a loop of the lanes")


@prints(E.Not)
def _not(emitter: KernelEmitter, expr: E.Not) -> Lanes:
    return [Text(f"!{lane.within(1)}", 1) for lane in emitter.lanes(expr.a)]


@prints(E.Select)
def _select(emitter: KernelEmitter, expr: E.Select) -> Lanes:
    conditions = condition_of(emitter, expr.condition)
    sides = zip(emitter.lanes(expr.true_value), emitter.lanes(expr.false_value), strict=True)
    pairs = list(sides)
    if len(conditions) == 1:
        conditions = conditions * len(pairs)
    return [choice(condition, yes, no) for condition, (yes, no) in zip(conditions, pairs, strict=True)]


def condition_of(emitter: KernelEmitter, condition: E.PrimExpr) -> Lanes:
    """What a choice depends on, which is a condition wherever the choice stands."""
    found = emitter.number(condition)
    return [emitter.kept(lane, "bool", "holds") for lane in found] if dt.lanes(condition.dtype) > 1 else found


# -- vectors -----------------------------------------------------------------------
@prints(E.Ramp)
def _ramp(emitter: KernelEmitter, expr: E.Ramp) -> Lanes:
    dtype = expr.base.dtype
    base = emitter.kept(emitter.scalar(expr.base), dtype, "base")
    stride = emitter.scalar(expr.stride)
    found = [base]
    for lane in range(1, expr.lanes):
        if isinstance(expr.stride, E.IntImm):
            step = integer(wrap_integer(lane * expr.stride.value, dtype), dtype)
        else:
            step = _sum_or_product(emitter, E.Mul, dtype, stride, integer(lane, dtype))
        found.append(_sum_or_product(emitter, E.Add, dtype, base, step))
    return found


@prints(E.Broadcast)
def _broadcast(emitter: KernelEmitter, expr: E.Broadcast) -> Lanes:
    hint = "holds" if dt.is_bool(expr.value.dtype) else "x"
    return [emitter.kept(emitter.scalar(expr.value), expr.value.dtype, hint)] * expr.lanes


@prints(E.Shuffle)
def _shuffle(emitter: KernelEmitter, expr: E.Shuffle) -> Lanes:
    lanes = [lane for vector in expr.vectors for lane in emitter.lanes(vector)]
    return [lanes[int(index)] for index in expr.indices]  # type: ignore[call-overload]
