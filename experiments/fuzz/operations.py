"""The operations of random expressions, with the intervals of their results.

Each takes the expression generator, the dtype of the result, the depth that is left and whether operands are plain, and returns None
where its operands do not allow it: a result might leave the dtype (unless the program may wrap), a division might not be defined.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from .values import FLOATS, INTEGERS, ROUNDED, Reals, Value, Variable, fits, literal

if TYPE_CHECKING:
    from .expressions import Expressions

Operation = Callable[["Expressions", str, int, bool], Value | None]
Interval = tuple[int, int]


def _result(
    source: Expressions, text: str, dtype: str, low: int, high: int, reals: Reals = Reals.EXACT
) -> Value | None:
    """A value that is in its dtype: by itself, or because integers wrap."""
    if fits(dtype, low, high):
        return Value(text, dtype, low, high, reals)
    if source.scope.wrap and dtype in INTEGERS:
        return Value(text, dtype, *INTEGERS[dtype])
    return None


def _rounded(source: Expressions, text: str, dtype: str, written: bool = True) -> Value | None:
    """A float that an operation rounds, if such may be computed with: narrow ones may be carried in a wider dtype."""
    if not written or source.most is not Reals.ANY or dtype not in ROUNDED:
        return None
    return Value(text, dtype, 0, 0, Reals.ANY)


def _hull(numbers: list[int]) -> Interval:
    return min(numbers), max(numbers)


def _operands(source: Expressions, dtype: str, depth: int, plain: bool) -> tuple[Value, Value]:
    left = source.number(dtype, depth - 1, plain)
    right = source.number(dtype, depth - 1, plain)
    return left, right


# -- every dtype -------------------------------------------------------------------
def _add(source: Expressions, dtype: str, depth: int, plain: bool) -> Value | None:
    a, b = _operands(source, dtype, depth, plain)
    if Reals.ANY in (a.reals, b.reals):
        return _rounded(source, f"({a} + {b})", dtype, not source.scope.rounded_products)
    reals = max(a.reals, b.reals)
    return _result(source, f"({a} + {b})", dtype, a.low + b.low, a.high + b.high, reals)


def _subtract(source: Expressions, dtype: str, depth: int, plain: bool) -> Value | None:
    a, b = _operands(source, dtype, depth, plain)
    if Reals.ANY in (a.reals, b.reals):
        return _rounded(source, f"({a} - {b})", dtype, not source.scope.rounded_products)
    reals = max(a.reals, b.reals)
    return _result(source, f"({a} - {b})", dtype, a.low - b.high, a.high - b.low, reals)


def _multiply(source: Expressions, dtype: str, depth: int, plain: bool) -> Value | None:
    a, b = _operands(source, dtype, depth, plain)
    if Reals.ANY in (a.reals, b.reals):
        return _rounded(source, f"({a} * {b})", dtype, source.scope.rounded_products)
    low, high = _hull([a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high])
    return _result(source, f"({a} * {b})", dtype, low, high, max(a.reals, b.reals))


def _extremum(name: str, extremum: Callable[[int, int], int]) -> Operation:
    """``min`` or ``max``; beside an infinity, the other operand is the result."""

    def write(source: Expressions, dtype: str, depth: int, plain: bool) -> Value:
        a, b = _operands(source, dtype, depth, plain)
        reals = max(a.reals, b.reals)
        low, high = extremum(a.low, b.low), extremum(a.high, b.high)
        if reals:
            low, high = min(a.low, b.low), max(a.high, b.high)
        return Value(f"T.{name}({a}, {b})", dtype, low, high, reals)

    return write


def _choice(name: str) -> Operation:
    """One of two values by a condition."""

    def write(source: Expressions, dtype: str, depth: int, plain: bool) -> Value:
        condition = source.condition(depth - 1, plain)
        a, b = _operands(source, dtype, depth, plain)
        low, high = min(a.low, b.low), max(a.high, b.high)
        return Value(f"T.{name}({condition}, {a}, {b})", dtype, low, high, max(a.reals, b.reals))

    return write


def _cast(source: Expressions, dtype: str, depth: int, plain: bool) -> Value | None:
    from_floats = dtype in FLOATS or source.random.random() < 0.3
    other = source.random.choice([*INTEGERS, *(FLOATS if from_floats else [])])
    if other == dtype:
        return None
    with source.up_to(Reals.ANY if dtype in INTEGERS and not plain else source.most):
        value = source.number(other, depth - 1, plain)
    text = f'T.Cast("{dtype}", {value})'
    if dtype in INTEGERS:
        return _cast_to_integer(source, text, dtype, value)
    if value.reals is not Reals.ANY and fits(dtype, value.low, value.high):
        return Value(text, dtype, value.low, value.high, value.reals)
    return Value(text, dtype, 0, 0, Reals.ANY) if source.most is Reals.ANY else None


def _cast_to_integer(source: Expressions, text: str, dtype: str, value: Value) -> Value | None:
    """Integers wrap; floats saturate, and NaN is 0."""
    if value.dtype in INTEGERS:
        return _result(source, text, dtype, value.low, value.high)
    least, greatest = INTEGERS[dtype]
    if value.reals:
        return Value(text, dtype, least, greatest)
    return Value(text, dtype, *(max(least, min(greatest, end)) for end in (value.low, value.high)))


# -- floats ------------------------------------------------------------------------
def _round(source: Expressions, dtype: str, depth: int, plain: bool) -> Value:
    value = source.number(dtype, depth - 1, plain)
    name = source.random.choice(["floor", "ceil", "trunc", "round"])
    return Value(f"T.{name}({value})", dtype, value.low, value.high, value.reals)


def _absolute(source: Expressions, dtype: str, depth: int, plain: bool) -> Value:
    value = source.number(dtype, depth - 1, plain)
    return Value(f"T.fabs({value})", dtype, 0, value.magnitude, value.reals)


def _divide(source: Expressions, dtype: str, depth: int, plain: bool) -> Value | None:
    """A quotient; which zero the divisor is does not matter, for ``min`` and ``max`` leave it open."""
    if source.most is not Reals.ANY or dtype not in ROUNDED:
        return None
    a, b = _operands(source, dtype, depth, plain)
    divisor = source.random.choice([f"T.fabs({b})", f"({b} + {literal(0, dtype)})", str(literal(3, dtype))])
    return _rounded(source, f"({a} / {divisor})", dtype)


# -- division ----------------------------------------------------------------------
def _constant_divisor(source: Expressions, dividend: Value) -> int | None:
    """A divisor, but where integers may not wrap not the one pair whose quotient is out of range."""
    least, greatest = INTEGERS[dividend.dtype]
    negative = [-1, -2, -3, -4, -7, -8] if least < 0 else []
    divisors = [1, 2, 3, 4, 5, 7, 8, 16, 10, 64, *negative]
    divisor = source.random.choice([number for number in divisors if least <= number <= greatest])
    return None if divisor == -1 and dividend.low == least and not source.scope.wrap else divisor


def _truncated(dividend: int, divisor: int) -> int:
    """The quotient towards zero, in Python's integers."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _by_constant(write: Callable[[Expressions, Value, int], Value | None]) -> Operation:
    """An operation whose second operand is a constant divisor."""

    def divide(source: Expressions, dtype: str, depth: int, plain: bool) -> Value | None:
        dividend = source.number(dtype, depth - 1, plain)
        divisor = _constant_divisor(source, dividend)
        return None if divisor is None else write(source, dividend, divisor)

    return divide


def _floor_divide(source: Expressions, a: Value, divisor: int) -> Value | None:
    low, high = _hull([a.low // divisor, a.high // divisor])
    return _result(source, f"({a} // {literal(divisor, a.dtype)})", a.dtype, low, high)


def _truncating_divide(source: Expressions, a: Value, divisor: int) -> Value | None:
    across = [0] if a.low < 0 < a.high else []
    low, high = _hull([_truncated(a.low, divisor), _truncated(a.high, divisor), *across])
    return _result(source, f"T.truncdiv({a}, {literal(divisor, a.dtype)})", a.dtype, low, high)


def _floor_remainder(source: Expressions, a: Value, divisor: int) -> Value:
    low, high = (0, divisor - 1) if divisor > 0 else (divisor + 1, 0)
    if divisor > 0 and a.low >= 0:
        high = min(high, a.high)
    return Value(f"({a} % {literal(divisor, a.dtype)})", a.dtype, low, high)


def _truncating_remainder(source: Expressions, a: Value, divisor: int) -> Value:
    most = abs(divisor) - 1
    text = f"T.truncmod({a}, {literal(divisor, a.dtype)})"
    return Value(text, a.dtype, -most if a.low < 0 else 0, most if a.high > 0 else 0)


_DIVISIONS = {
    "//": "({a} // {b})",
    "%": "({a} % {b})",
    "truncdiv": "T.truncdiv({a}, {b})",
    "truncmod": "T.truncmod({a}, {b})",
}


def _guarded_divide(source: Expressions, dtype: str, depth: int, plain: bool) -> Value | None:
    """A division by an expression, under the condition that it is not zero where it might be."""
    a, b = _operands(source, dtype, depth, plain)
    signed = INTEGERS[dtype][0] < 0
    overflows = a.low == INTEGERS[dtype][0] and signed and b.low <= -1 <= b.high
    if b.low == b.high or _is_constant(b) or (overflows and not source.scope.wrap):
        return None
    kind = source.random.choice(list(_DIVISIONS))
    text = _DIVISIONS[kind].format(a=a, b=b)
    most = a.magnitude if kind in ("//", "truncdiv") else b.magnitude
    other = source.leaf(dtype, 0, plain=True)
    low, high = min(-most if signed else 0, other.low), max(most, other.high)
    if overflows:
        low, high = INTEGERS[dtype]
    if not fits(dtype, low, high):
        return None
    if b.low > 0:
        return Value(text, dtype, low, high)
    return Value(f"T.if_then_else({b} != {literal(0, dtype)}, {text}, {other})", dtype, low, high)


def _is_constant(value: Value) -> bool:
    """Whether there is no name in an expression: where it is zero, the script's parser refuses to divide by it."""
    return not re.search(r"[A-Za-z]", re.sub(r'T\.\w+|"\w+"', "", value.text))


# -- bits --------------------------------------------------------------------------
def _bitwise(name: str) -> Operation:
    def write(source: Expressions, dtype: str, depth: int, plain: bool) -> Value:
        a, b = _operands(source, dtype, depth, plain)
        low, high = _bitwise_interval(name, a, b)
        return Value(f"T.bitwise_{name}({a}, {b})", dtype, low, high)

    return write


def _bitwise_interval(name: str, a: Value, b: Value) -> Interval:
    """As many bits as the operands have."""
    least, greatest = INTEGERS[a.dtype]
    power = 1 << max(a.magnitude, b.magnitude).bit_length()
    if a.low < 0 or b.low < 0:
        return max(least, -power), min(greatest, power - 1)
    high = min(a.high, b.high) if name == "and" else power - 1
    return 0, min(high, greatest)


def _distance(source: Expressions, dtype: str) -> int:
    """How far to shift: not as far as the width."""
    width = int(dtype.removeprefix("u").removeprefix("int"))
    return source.random.choice([number for number in (0, 1, 2, 3, 5, width - 1) if number < width])


def _shift_left(source: Expressions, dtype: str, depth: int, plain: bool) -> Value | None:
    value = source.number(dtype, depth - 1, plain)
    distance = _distance(source, dtype)
    if value.low < 0 and not source.scope.wrap:
        return None
    text = f"T.shift_left({value}, {literal(distance, dtype)})"
    return _result(source, text, dtype, value.low << distance, value.high << distance)


def _shift_right(source: Expressions, dtype: str, depth: int, plain: bool) -> Value:
    value = source.number(dtype, depth - 1, plain)
    distance = _distance(source, dtype)
    text = f"T.shift_right({value}, {literal(distance, dtype)})"
    return Value(text, dtype, value.low >> distance, value.high >> distance)


# -- let ---------------------------------------------------------------------------
def _let(source: Expressions, dtype: str, depth: int, plain: bool) -> Value:
    value = source.number(dtype, depth - 1, plain)
    name = source.scope.fresh("t")
    with source.scope.visible(Variable(name, dtype, value.low, value.high)):
        body = source.number(dtype, depth - 1, plain)
    source.scope.let_variables[name] = dtype
    return Value(f"T.let({name}, {value}, {body})", dtype, body.low, body.high)


OPERATIONS: dict[str, Operation] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "minimum": _extremum("min", min),
    "maximum": _extremum("max", max),
    "select": _choice("Select"),
    "if_then_else": _choice("if_then_else"),
    "cast": _cast,
    "floor_divide": _by_constant(_floor_divide),
    "floor_remainder": _by_constant(_floor_remainder),
    "truncating_divide": _by_constant(_truncating_divide),
    "truncating_remainder": _by_constant(_truncating_remainder),
    "and": _bitwise("and"),
    "or": _bitwise("or"),
    "xor": _bitwise("xor"),
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "guarded_divide": _guarded_divide,
    "let": _let,
    "round": _round,
    "absolute": _absolute,
    "divide": _divide,
}

_EVERYWHERE = ["add", "subtract", "multiply", "minimum", "maximum", "select", "if_then_else", "cast"]
INTEGER_OPERATIONS = [
    *_EVERYWHERE,
    *("floor_divide", "floor_remainder", "truncating_divide", "truncating_remainder"),
    *("and", "or", "xor", "shift_left", "shift_right", "guarded_divide"),
    *("floor_divide", "floor_remainder", "let"),
]
"""What integers are made of; what is named twice is drawn twice as often."""

FLOAT_OPERATIONS = [*_EVERYWHERE, "round", "absolute", "divide"]
"""What floats are made of: operations that are exact on integers, and quotients."""
