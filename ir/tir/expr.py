"""The vocabulary of TIR expressions: variables, constants, arithmetic, loads, calls, and the Python operators on them.

Constructors build exactly the node that they name. The Python operators (and the functions :func:`add` ...) also convert
Python numbers, bring both sides to one dtype, and fold constants, as everyone who writes a program by hand expects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..expr import BaseExpr
from ..node import Node, derived, field
from ..span import Span
from ..type import PrimType, Type

if TYPE_CHECKING:
    from .buffer import Buffer


class PrimExpr(BaseExpr):
    """A value of a primitive dtype, with Python's operators.

    ``a == b`` and ``a != b`` build comparison nodes; their truth value is identity, so that dicts and ``in`` work.
    Compare programs with :func:`ir.structural_equal`.
    """

    dtype: str

    __hash__ = object.__hash__

    def __add__(self, other: Any) -> PrimExpr:
        return add(self, other)

    def __radd__(self, other: Any) -> PrimExpr:
        return add(other, self)

    def __sub__(self, other: Any) -> PrimExpr:
        return subtract(self, other)

    def __rsub__(self, other: Any) -> PrimExpr:
        return subtract(other, self)

    def __mul__(self, other: Any) -> PrimExpr:
        return multiply(self, other)

    def __rmul__(self, other: Any) -> PrimExpr:
        return multiply(other, self)

    def __truediv__(self, other: Any) -> PrimExpr:
        return _python_div(self, other)

    def __rtruediv__(self, other: Any) -> PrimExpr:
        return _python_div(other, self)

    def __floordiv__(self, other: Any) -> PrimExpr:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> PrimExpr:
        return floordiv(other, self)

    def __mod__(self, other: Any) -> PrimExpr:
        return floormod(self, other)

    def __rmod__(self, other: Any) -> PrimExpr:
        return floormod(other, self)

    def __neg__(self) -> PrimExpr:
        return (
            multiply(const(-1, self.dtype), self)
            if not isinstance(self, _IMMEDIATES)
            else const(-self.value, self.dtype)
        )

    def __pow__(self, other: Any) -> PrimExpr:
        from .op import power

        return power(self, convert(other, self.dtype))

    def __lshift__(self, other: Any) -> PrimExpr:
        return _bitwise("tir.shift_left", self, other)

    def __rlshift__(self, other: Any) -> PrimExpr:
        return _bitwise("tir.shift_left", other, self)

    def __rshift__(self, other: Any) -> PrimExpr:
        return _bitwise("tir.shift_right", self, other)

    def __rrshift__(self, other: Any) -> PrimExpr:
        return _bitwise("tir.shift_right", other, self)

    def __and__(self, other: Any) -> PrimExpr:
        return _bitwise("tir.bitwise_and", self, other)

    def __rand__(self, other: Any) -> PrimExpr:
        return _bitwise("tir.bitwise_and", other, self)

    def __or__(self, other: Any) -> PrimExpr:
        return _bitwise("tir.bitwise_or", self, other)

    def __ror__(self, other: Any) -> PrimExpr:
        return _bitwise("tir.bitwise_or", other, self)

    def __xor__(self, other: Any) -> PrimExpr:
        return _bitwise("tir.bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> PrimExpr:
        return _bitwise("tir.bitwise_xor", other, self)

    def __invert__(self) -> PrimExpr:
        if dt.is_bool(self.dtype):
            return logical_not(self)
        return Call(self.dtype, "tir.bitwise_not", (self,))

    def __lt__(self, other: Any) -> PrimExpr:
        return _compare(LT, self, other)

    def __le__(self, other: Any) -> PrimExpr:
        return _compare(LE, self, other)

    def __gt__(self, other: Any) -> PrimExpr:
        return _compare(GT, self, other)

    def __ge__(self, other: Any) -> PrimExpr:
        return _compare(GE, self, other)

    def __eq__(self, other: Any) -> Any:
        if other is None or not isinstance(other, PrimExpr | int | float | np.generic):
            return False
        if (
            isinstance(other, PrimExpr)
            and other.dtype != self.dtype
            and not _comparable(self.dtype, other.dtype)
        ):
            return False
        return _compare(EQ, self, other)

    def __ne__(self, other: Any) -> Any:
        if other is None or not isinstance(other, PrimExpr | int | float | np.generic):
            return True
        if (
            isinstance(other, PrimExpr)
            and other.dtype != self.dtype
            and not _comparable(self.dtype, other.dtype)
        ):
            return True
        return _compare(NE, self, other)

    def __bool__(self) -> bool:
        raise IRValueError(
            "a TIR expression has no truth value; build conditions with tir.all, tir.any or if_then_else"
            " instead of Python's and, or, if"
        )

    def equal(self, other: Any) -> PrimExpr:
        """The comparison node ``self == other``."""
        return _compare(EQ, self, other)

    def astype(self, dtype: str) -> PrimExpr:
        """The value converted to ``dtype``."""
        return cast(dtype, self)


class Var(PrimExpr, type_key="tir.Var"):
    """A variable; two variables are the same only if they are the same object.

    ``dtype`` may be a dtype string or a :class:`~ir.type.Type` (pointers carry their storage scope that way).
    """

    name: str = field(compare=False)
    dtype: str = field(default="int32")
    type_annotation: Type = field(default=None, compare=True, kind="leaf")

    is_variable: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        dtype: str | Type = "int32",
        span: Span | None = None,
        type_annotation: Type | None = None,
    ) -> None:
        if isinstance(dtype, PrimType):  # says no more than the dtype
            dtype = dtype.dtype
        if isinstance(dtype, Type):
            type_annotation = dtype
            dtype = "handle"
        else:
            dt.parse(dtype)
        _set_name(self, name)
        _set_dtype(self, dtype)
        _set_annotation(self, type_annotation)
        _set_span(self, span)


_set_name = Var.name.__set__  # type: ignore[attr-defined]
_set_dtype = PrimExpr.dtype.__set__  # type: ignore[attr-defined]
_set_annotation = Var.type_annotation.__set__  # type: ignore[attr-defined]
_set_span = BaseExpr.span.__set__  # type: ignore[union-attr]


class SizeVar(Var, type_key="tir.SizeVar"):
    """A variable known to be at least zero, such as a tensor's symbolic extent."""


class IntImm(PrimExpr, type_key="tir.IntImm"):
    """An integer or bool constant."""

    dtype: str
    value: int = field(convert=int)

    def _check(self) -> None:
        if not dt.is_integral(self.dtype):
            raise IRTypeError(f"IntImm needs an integer or bool dtype, got {self.dtype!r} for {self.value}")

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0


class FloatImm(PrimExpr, type_key="tir.FloatImm"):
    """A floating-point constant."""

    dtype: str
    value: float = field(convert=float)

    def _check(self) -> None:
        if not dt.is_float(self.dtype):
            raise IRTypeError(f"FloatImm needs a float dtype, got {self.dtype!r} for {self.value}")

    def __float__(self) -> float:
        return self.value


class StringImm(PrimExpr, type_key="tir.StringImm"):
    """A string constant, as argument of calls and value of annotations."""

    value: str
    dtype: str = derived("'handle'")


_IMMEDIATES = (IntImm, FloatImm)


def _expr(value: Any) -> PrimExpr:
    """Converter of expression fields: numbers and iteration variables become expressions."""
    return value if isinstance(value, PrimExpr) and value.__class__ is not IterVar else convert(value)


def _exprs(values: Any) -> tuple[PrimExpr, ...]:
    if isinstance(values, PrimExpr):
        return (_expr(values),)
    return tuple([_expr(value) for value in values])


def _optional_expr(value: Any) -> PrimExpr | None:
    return None if value is None else _expr(value)


def _bool_like(dtype: str) -> str:
    return dt.with_lanes("bool", dt.lanes(dtype))


def _loaded_dtype(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> str:
    if not indices:
        return buffer.dtype
    n_lanes = dt.lanes(indices[-1].dtype)
    return buffer.dtype if n_lanes == 1 else dt.with_lanes(buffer.dtype, n_lanes * dt.lanes(buffer.dtype))


def _as_op(op: Any) -> Any:
    if isinstance(op, str):
        from ..op import Op

        return Op.get(op)
    return op


def _call_args(args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        [item if isinstance(item, Node) and item.__class__ is not IterVar else convert(item) for item in args]
    )


_with_lanes = dt.with_lanes
_element_of = dt.element_of


class _Unary(PrimExpr):
    a: PrimExpr = field(convert=_expr)


class _Binary(PrimExpr):
    a: PrimExpr = field(convert=_expr)
    b: PrimExpr = field(convert=_expr)

    def _check(self) -> None:
        if self.a.dtype != self.b.dtype:
            raise IRTypeError(
                f"{type(self).__name__} needs operands of one dtype, got {self.a.dtype} and {self.b.dtype};"
                " convert one with .astype or use the Python operator"
            )


class BinaryOpExpr(_Binary):
    """Arithmetic on two values of one dtype."""

    dtype: str = derived("a.dtype")


class CmpExpr(_Binary):
    """A comparison; the result is bool with the operands' lanes."""

    dtype: str = derived("_bool_like(a.dtype)")


class LogicalExpr(_Binary):
    """A logical connective of two bools."""

    dtype: str = derived("a.dtype")


class Add(BinaryOpExpr, type_key="tir.Add"):
    """a + b."""


class Sub(BinaryOpExpr, type_key="tir.Sub"):
    """a - b."""


class Mul(BinaryOpExpr, type_key="tir.Mul"):
    """a * b."""


class Div(BinaryOpExpr, type_key="tir.Div"):
    """A / b, truncating towards zero for integers (as in C)."""


class Mod(BinaryOpExpr, type_key="tir.Mod"):
    """Remainder of truncating division (as in C)."""


class FloorDiv(BinaryOpExpr, type_key="tir.FloorDiv"):
    """A / b rounded towards minus infinity."""


class FloorMod(BinaryOpExpr, type_key="tir.FloorMod"):
    """Remainder of floor division; it has b's sign."""


class Min(BinaryOpExpr, type_key="tir.Min"):
    """The smaller one."""


class Max(BinaryOpExpr, type_key="tir.Max"):
    """The larger one."""


class EQ(CmpExpr, type_key="tir.EQ"):
    """a == b; as a Python truth value, identity of the operands."""

    def __bool__(self) -> bool:
        return (self.a is self.b) is True


class NE(CmpExpr, type_key="tir.NE"):
    """a != b; as a Python truth value, identity of the operands."""

    def __bool__(self) -> bool:
        return (self.a is self.b) is False


class LT(CmpExpr, type_key="tir.LT"):
    """a < b."""


class LE(CmpExpr, type_key="tir.LE"):
    """a <= b."""


class GT(CmpExpr, type_key="tir.GT"):
    """a > b."""


class GE(CmpExpr, type_key="tir.GE"):
    """a >= b."""


class And(LogicalExpr, type_key="tir.And"):
    """a and b."""


class Or(LogicalExpr, type_key="tir.Or"):
    """a or b."""


class Not(_Unary, type_key="tir.Not"):
    """Logical negation."""

    dtype: str = derived("a.dtype")


class Cast(PrimExpr, type_key="tir.Cast"):
    """Conversion of a value to another dtype (numeric, not a reinterpretation of bits)."""

    dtype: str
    value: PrimExpr = field(convert=_expr)


class Select(PrimExpr, type_key="tir.Select"):
    """``true_value`` where the condition holds, else ``false_value``; both sides may be evaluated."""

    condition: PrimExpr = field(convert=_expr)
    true_value: PrimExpr = field(convert=_expr)
    false_value: PrimExpr = field(convert=_expr)
    dtype: str = derived("true_value.dtype")

    def _check(self) -> None:
        if self.true_value.dtype != self.false_value.dtype:
            raise IRTypeError(
                f"Select needs values of one dtype, got {self.true_value.dtype} and {self.false_value.dtype}"
            )


class BufferLoad(PrimExpr, type_key="tir.BufferLoad"):
    """An element of a buffer; a Ramp as last index loads a vector."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...] = field(convert=_exprs)
    predicate: PrimExpr = field(default=None, convert=_optional_expr)
    dtype: str = derived("_loaded_dtype(buffer, indices)")


class ProducerLoad(PrimExpr, type_key="tir.ProducerLoad"):
    """An element of a tensor expression's result (a ``te.Tensor``)."""

    producer: Any = field(kind="leaf")
    indices: tuple[PrimExpr, ...] = field(convert=_exprs)
    dtype: str = derived("producer.dtype")


class Ramp(PrimExpr, type_key="tir.Ramp"):
    """The vector ``base, base + stride, ...`` of ``lanes`` elements."""

    base: PrimExpr = field(convert=_expr)
    stride: PrimExpr = field(convert=_expr)
    lanes: int = field(convert=int)
    dtype: str = derived("_with_lanes(base.dtype, lanes)")


class Broadcast(PrimExpr, type_key="tir.Broadcast"):
    """A vector of ``lanes`` copies of a scalar."""

    value: PrimExpr = field(convert=_expr)
    lanes: int = field(convert=int)
    dtype: str = derived("_with_lanes(value.dtype, lanes)")


class Shuffle(PrimExpr, type_key="tir.Shuffle"):
    """A vector whose lanes are picked by constant ``indices`` from the concatenated ``vectors``."""

    vectors: tuple[PrimExpr, ...] = field(convert=_exprs)
    indices: tuple[PrimExpr, ...] = field(convert=_exprs)
    dtype: str = derived("_with_lanes(_element_of(vectors[0].dtype), len(indices))")


class Call(PrimExpr, type_key="tir.Call"):
    """A call of an intrinsic (``op`` is an Op or its name) or of a function of the module (a GlobalVar)."""

    dtype: str
    op: Any = field(kind="node", convert=_as_op)
    args: tuple[PrimExpr, ...] = field(convert=_call_args)


class Let(PrimExpr, type_key="tir.Let"):
    """``body`` with ``var`` standing for ``value``."""

    var: Var = field(defines=True)
    value: PrimExpr = field(convert=_expr)
    body: PrimExpr = field(convert=_expr)
    dtype: str = derived("body.dtype")


class Range(Node, type_key="Range"):
    """The integers from ``min`` on, ``extent`` of them. ``Range(n)`` starts at 0; ``Range(begin, end)`` ends before ``end``."""

    min: PrimExpr
    extent: PrimExpr
    span: Span | None = field(default=None, compare=False, kind="leaf")

    def __init__(
        self,
        begin: Any = None,
        end: Any = None,
        span: Span | None = None,
        *,
        min: Any = None,
        extent: Any = None,
    ) -> None:
        if extent is not None:
            low, count = _expr(begin if min is None else min), _expr(extent)
        elif end is None:
            count = _expr(begin)
            low = const(0, count.dtype)
        else:
            low, high = _match_dtypes(_expr(begin), _expr(end))
            count = subtract(high, low)
        _set_range_min(self, low)
        _set_range_extent(self, count)
        _set_range_span(self, span)

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any, span: Span | None = None) -> Range:
        """The range by its first value and length."""
        return Range(min_value, span=span, extent=extent)

    def replace(self, **changes: Any) -> Range:
        """A copy with ``min`` or ``extent`` changed."""
        return Range.from_min_extent(
            changes.get("min", self.min), changes.get("extent", self.extent), self.span
        )


_set_range_min = Range.min.__set__  # type: ignore[attr-defined]
_set_range_extent = Range.extent.__set__  # type: ignore[attr-defined]
_set_range_span = Range.span.__set__  # type: ignore[union-attr]


class IterVar(PrimExpr, type_key="tir.IterVar"):
    """An iteration axis: a variable, its range, and what kind of iteration it is."""

    dom: Range
    var: Var = field(defines=True, convert=lambda var: Var(var) if isinstance(var, str) else var)
    iter_type: int
    thread_tag: str = ""
    dtype: str = derived("var.dtype")

    DataPar: ClassVar[int] = 0
    ThreadIndex: ClassVar[int] = 1
    CommReduce: ClassVar[int] = 2
    Ordered: ClassVar[int] = 3
    DimInfo: ClassVar[int] = 4
    Opaque: ClassVar[int] = 4
    Unrolled: ClassVar[int] = 5
    Vectorized: ClassVar[int] = 6
    Parallelized: ClassVar[int] = 7
    Tensorized: ClassVar[int] = 8


class CommReducer(Node, type_key="tir.CommReducer"):
    """A commutative and associative combiner: ``result`` in terms of ``lhs`` and ``rhs``, and its identity elements."""

    lhs: tuple[Var, ...] = field(defines=True)
    rhs: tuple[Var, ...] = field(defines=True)
    result: tuple[PrimExpr, ...] = field(convert=_exprs)
    identity_element: tuple[PrimExpr, ...] = field(convert=_exprs)
    span: Span | None = field(default=None, compare=False, kind="leaf")


class Reduce(PrimExpr, type_key="tir.Reduce"):
    """A reduction of ``source`` over ``axis`` (only inside tensor expressions); one result of a tuple reduction."""

    combiner: CommReducer
    source: tuple[PrimExpr, ...] = field(convert=_exprs)
    axis: tuple[IterVar, ...] = field(kind="seq", defines=True)
    condition: PrimExpr = field(convert=_expr)
    value_index: int
    init: tuple[PrimExpr, ...] = field(default=(), convert=_exprs)
    dtype: str = derived("source[value_index].dtype")

    _compare_order: ClassVar[tuple[str, ...]] = (
        "combiner",
        "axis",
        "source",
        "condition",
        "value_index",
        "init",
    )


# ---- constants and conversion -----------------------------------------------------------------------------------

_SMALL_INTS: dict[tuple[str, int], IntImm] = {}


def const(value: Any, dtype: str | None = None, span: Span | None = None) -> PrimExpr:
    """A constant of ``dtype``; without it ints are int32, floats float32, bools bool. A vector dtype broadcasts.

    >>> const(3).dtype, const(1.5, "float16").dtype
    ('int32', 'float16')
    """
    if isinstance(value, PrimExpr):
        return value if dtype is None or value.dtype == dtype else cast(dtype, value)
    if isinstance(value, np.ndarray):
        value = value.item()
    if dtype is None:
        if isinstance(value, bool | np.bool_):
            dtype = "bool"
        elif isinstance(value, np.generic):
            dtype = value.dtype.name
        elif isinstance(value, int):
            dtype = "int32" if -(1 << 31) <= value < (1 << 31) else "int64"
        elif isinstance(value, float):
            dtype = "float32"
        else:
            raise IRTypeError(f"cannot make a constant of {value!r} ({type(value).__name__})")
    n_lanes = dt.lanes(dtype)
    if n_lanes != 1:
        return Broadcast(const(value, dt.element_of(dtype)), n_lanes)
    if dt.is_float(dtype):
        return FloatImm(dtype, value, span)
    if dt.is_integral(dtype):
        if span is None and -16 <= value <= 4096:
            key = (dtype, int(value))
            found = _SMALL_INTS.get(key)
            if found is None:
                found = _SMALL_INTS[key] = IntImm(dtype, int(value))
            return found
        return IntImm(dtype, _wrap(int(value), dtype), span)
    raise IRTypeError(f"cannot make a constant of dtype {dtype!r} from {value!r}")


def _wrap(value: int, dtype: str) -> int:
    low, high = dt.integer_range(dtype)
    if low <= value <= high:
        return value
    return (value - low) % (high - low + 1) + low


def convert(value: Any, dtype: str | None = None) -> PrimExpr:
    """An expression from a Python or numpy number, a string, an iteration variable, or an expression."""
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, str):
        return StringImm(value)
    asobject = getattr(value, "asobject", None)
    if asobject is not None:
        return asobject()
    return const(value, dtype)


def _match_dtypes(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Bring both operands to one dtype: lanes broadcast, then bool < int < float, and the wider of a kind."""
    if a.dtype == b.dtype:
        return a, b
    lanes_a, lanes_b = dt.lanes(a.dtype), dt.lanes(b.dtype)
    if lanes_a != lanes_b:
        if lanes_a == 1:
            a = Broadcast(a, lanes_b)
        elif lanes_b == 1:
            b = Broadcast(b, lanes_a)
        else:
            raise IRTypeError(f"operands have {lanes_a} and {lanes_b} lanes; their numbers must agree")
    if a.dtype == b.dtype:
        return a, b
    kind_a, kind_b = dt.code(a.dtype), dt.code(b.dtype)
    if "handle" in (kind_a, kind_b):
        raise IRTypeError(f"no common dtype of {a.dtype} and {b.dtype}")
    float_a, float_b = dt.is_float(a.dtype), dt.is_float(b.dtype)
    if float_a and not float_b:
        return a, cast(a.dtype, b)
    if float_b and not float_a:
        return cast(b.dtype, a), b
    if kind_a == "bool" and kind_b != "bool":
        return cast(b.dtype, a), b
    if kind_b == "bool" and kind_a != "bool":
        return a, cast(a.dtype, b)
    bits_a, bits_b = dt.bits(a.dtype), dt.bits(b.dtype)
    if bits_a > bits_b:
        return a, cast(a.dtype, b)
    if bits_b > bits_a:
        return cast(b.dtype, a), b
    # Same width: signed with unsigned meets in signed; bfloat16 with float16 meets in float32.
    if kind_a == "uint" and kind_b == "int":
        return cast(b.dtype, a), b
    if kind_a == "int" and kind_b == "uint":
        return a, cast(a.dtype, b)
    wide = dt.with_lanes("float32", dt.lanes(a.dtype))
    return cast(wide, a), cast(wide, b)


def _operands(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Convert both sides; a Python number takes the dtype of the expression beside it (a float stays a float)."""
    if not isinstance(a, PrimExpr) or a.__class__ is IterVar:
        a = _number_like(a, b)
    if not isinstance(b, PrimExpr) or b.__class__ is IterVar:
        b = _number_like(b, a)
    return (a, b) if a.dtype == b.dtype else _match_dtypes(a, b)


def _number_like(value: Any, other: Any) -> PrimExpr:
    if isinstance(value, bool | np.generic) or not isinstance(value, int | float):
        return convert(value)
    if isinstance(other, IterVar):
        other = other.var
    dtype = other.dtype if isinstance(other, PrimExpr) else None
    if dtype is None or dtype == "handle" or dt.is_bool(dtype):
        return const(value)
    if isinstance(value, float) and not dt.is_float(dtype):
        return const(value, dt.with_lanes("float32", dt.lanes(dtype)))
    return const(value, dtype)


# ---- operators with folding -------------------------------------------------------------------------------------


def _fold_value(dtype: str, value: Any) -> PrimExpr:
    if dt.is_float(dtype):
        return FloatImm(dtype, _round_float(value, dtype))
    return const(_wrap(int(value), dtype), dtype)


def _round_float(value: float, dtype: str) -> float:
    if dtype == "float64":
        return float(value)
    with np.errstate(over="ignore"):
        return float(np.asarray(value).astype(dt.to_numpy(dtype)))


def _is_const(expr: PrimExpr, value: int) -> bool:
    return isinstance(expr, IntImm | FloatImm) and expr.value == value


def add(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """``lhs + rhs`` with dtype matching and constant folding."""
    a, b = _operands(lhs, rhs)
    if isinstance(a, _IMMEDIATES):
        if isinstance(b, _IMMEDIATES):
            return _fold_value(a.dtype, a.value + b.value)
        if a.value == 0:
            return b
    elif isinstance(b, _IMMEDIATES) and b.value == 0:
        return a
    return Add(a, b, span)


def subtract(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """``lhs - rhs`` with dtype matching and constant folding."""
    a, b = _operands(lhs, rhs)
    if isinstance(b, _IMMEDIATES):
        if isinstance(a, _IMMEDIATES):
            return _fold_value(a.dtype, a.value - b.value)
        if b.value == 0:
            return a
    return Sub(a, b, span)


def multiply(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """``lhs * rhs`` with dtype matching and constant folding."""
    a, b = _operands(lhs, rhs)
    if isinstance(a, _IMMEDIATES):
        if isinstance(b, _IMMEDIATES):
            return _fold_value(a.dtype, a.value * b.value)
        if a.value == 1:
            return b
        if a.value == 0:
            return a
    elif isinstance(b, _IMMEDIATES):
        if b.value == 1:
            return a
        if b.value == 0:
            return b
    return Mul(a, b, span)


def _python_div(lhs: Any, rhs: Any) -> PrimExpr:
    a, b = _operands(lhs, rhs)
    if dt.is_integral(a.dtype):
        raise IRTypeError(
            "/ on integers is ambiguous; use // (floordiv), tir.truncdiv, tir.indexdiv, or convert to float first"
        )
    return div(a, b)


def _truncated_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def _refuse_zero(b: PrimExpr, what: str) -> None:
    if isinstance(b, IntImm) and b.value == 0:
        raise IRValueError(f"{what} by zero")


def div(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """``a / b``; integers truncate towards zero."""
    a, b = _operands(a, b)
    if dt.is_integral(a.dtype):
        return truncdiv(a, b, span)
    if isinstance(b, FloatImm):
        if b.value == 1:
            return a
        if isinstance(a, FloatImm) and b.value != 0:
            return _fold_value(a.dtype, a.value / b.value)
    if _is_const(a, 0) and isinstance(b, FloatImm) and b.value != 0:
        return a
    return Div(a, b, span)


def truncdiv(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """Integer division rounding towards zero, as in C."""
    a, b = _operands(a, b)
    _refuse_zero(b, "division")
    if isinstance(b, IntImm):
        if isinstance(a, IntImm):
            return _fold_value(a.dtype, _truncated_quotient(a.value, b.value))
        if b.value == 1:
            return a
    if _is_const(a, 0):
        return a
    return Div(a, b, span)


def truncmod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """Remainder of truncating division; it has a's sign."""
    a, b = _operands(a, b)
    _refuse_zero(b, "remainder")
    if isinstance(b, IntImm):
        if isinstance(a, IntImm):
            return _fold_value(a.dtype, a.value - _truncated_quotient(a.value, b.value) * b.value)
        if b.value == 1:
            return const(0, a.dtype)
    if _is_const(a, 0):
        return a
    return Mod(a, b, span)


def floordiv(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """``a / b`` rounded towards minus infinity, as Python's ``//``."""
    a, b = _operands(a, b)
    _refuse_zero(b, "division")
    if isinstance(b, _IMMEDIATES):
        if isinstance(a, _IMMEDIATES):
            return _fold_value(a.dtype, a.value // b.value)
        if b.value == 1 and isinstance(b, IntImm):
            return a
    if _is_const(a, 0):
        return a
    return FloorDiv(a, b, span)


def floormod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """Remainder of floor division, as Python's ``%``."""
    a, b = _operands(a, b)
    _refuse_zero(b, "remainder")
    if isinstance(b, _IMMEDIATES):
        if isinstance(a, _IMMEDIATES):
            return _fold_value(a.dtype, a.value % b.value)
        if b.value == 1 and isinstance(b, IntImm):
            return const(0, a.dtype)
    if _is_const(a, 0):
        return a
    return FloorMod(a, b, span)


def _extreme(node: type, fold: Callable[[Any, Any], Any], lhs: Any, rhs: Any, span: Span | None) -> PrimExpr:
    a, b = _operands(lhs, rhs)
    if a is b:
        return a
    if isinstance(a, _IMMEDIATES) and isinstance(b, _IMMEDIATES):
        return _fold_value(a.dtype, fold(a.value, b.value))
    return node(a, b, span)


def min(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """The smaller of two values."""
    return _extreme(Min, lambda a, b: a if a <= b else b, lhs, rhs, span)


def max(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """The larger of two values."""
    return _extreme(Max, lambda a, b: a if a >= b else b, lhs, rhs, span)


_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
}


def _comparable(a: str, b: str) -> bool:
    return "handle" not in (a, b) and (dt.lanes(a) == dt.lanes(b) or 1 in (dt.lanes(a), dt.lanes(b)))


def _compare(node: type, lhs: Any, rhs: Any) -> PrimExpr:
    a, b = _operands(lhs, rhs)
    if isinstance(a, _IMMEDIATES) and isinstance(b, _IMMEDIATES):
        return const(_COMPARISONS[node](a.value, b.value), "bool")
    return node(a, b)


def logical_and(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """Both hold."""
    a, b = _operands(lhs, rhs)
    if isinstance(a, IntImm):
        return b if a.value else a
    if isinstance(b, IntImm):
        return a if b.value else b
    return And(a, b, span)


def logical_or(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """At least one holds."""
    a, b = _operands(lhs, rhs)
    if isinstance(a, IntImm):
        return a if a.value else b
    if isinstance(b, IntImm):
        return b if b.value else a
    return Or(a, b, span)


def logical_not(value: Any, span: Span | None = None) -> PrimExpr:
    """The condition does not hold."""
    a = convert(value)
    if isinstance(a, IntImm):
        return const(not a.value, "bool")
    return Not(a, span)


def cast(dtype: str, value: Any, span: Span | None = None) -> PrimExpr:
    """``value`` converted to ``dtype``; constants fold, a scalar broadcasts into a vector dtype."""
    expr = convert(value)
    if expr.dtype == dtype:
        return expr
    n_lanes = dt.lanes(dtype)
    if n_lanes != 1 and dt.lanes(expr.dtype) == 1:
        return Broadcast(cast(dt.element_of(dtype), expr), n_lanes)
    if isinstance(expr, _IMMEDIATES) and n_lanes == 1:
        if dt.is_float(dtype):
            return FloatImm(dtype, _round_float(float(expr.value), dtype), span)
        if dt.is_bool(dtype):
            return const(bool(expr.value), dtype)
        if dt.is_integral(dtype) and not (isinstance(expr, FloatImm) and not math.isfinite(expr.value)):
            return const(_wrap(int(expr.value), dtype), dtype, span)
    return Cast(dtype, expr, span)


_FOLD_BITWISE: dict[str, Callable[[int, int], int]] = {
    "tir.shift_left": lambda a, b: a << b,
    "tir.shift_right": lambda a, b: a >> b,
    "tir.bitwise_and": lambda a, b: a & b,
    "tir.bitwise_or": lambda a, b: a | b,
    "tir.bitwise_xor": lambda a, b: a ^ b,
}


def _bitwise(name: str, lhs: Any, rhs: Any) -> PrimExpr:
    a, b = _operands(lhs, rhs)
    if dt.is_bool(a.dtype) and name == "tir.bitwise_and":
        return logical_and(a, b)
    if dt.is_bool(a.dtype) and name == "tir.bitwise_or":
        return logical_or(a, b)
    if not dt.is_integral(a.dtype):
        raise IRTypeError(f"{name} needs integers, got {a.dtype}")
    if isinstance(a, IntImm) and isinstance(b, IntImm) and (b.value >= 0 or "shift" not in name):
        return _fold_value(a.dtype, _FOLD_BITWISE[name](a.value, b.value))
    return Call(a.dtype, name, (a, b))
