"""The vocabulary of TIR expressions: variables, constants, arithmetic, loads, calls, and the Python operators on them.

Constructors build exactly the node that they name. The Python operators (and the functions :func:`add` ...) also convert
Python numbers, bring both sides to one dtype, and fold constants, as everyone who writes a program by hand expects.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..expr import BaseExpr
from ..node import Node, converter, derived, field
from ..op import as_op
from ..span import Span
from ..type import PrimType, Type
from .written_condition import check_identity_is_meant

if TYPE_CHECKING:
    from .buffer import Buffer

operators: Any = None
"""The module :mod:`ir.tir.operators`: it is built on these nodes, and registers itself here for Python's operators on them."""


class PrimExpr(BaseExpr):
    """A value of a primitive dtype, with Python's operators.

    ``a == b`` and ``a != b`` build comparison nodes; their truth value is identity, so that dicts and ``in`` work.
    Compare programs with :func:`ir.structural_equal`.
    """

    dtype: str

    is_compound: ClassVar[bool] = True

    __hash__ = object.__hash__

    def __add__(self, other: Any) -> PrimExpr:
        return operators.add(self, other)

    def __radd__(self, other: Any) -> PrimExpr:
        return operators.add(other, self)

    def __sub__(self, other: Any) -> PrimExpr:
        return operators.subtract(self, other)

    def __rsub__(self, other: Any) -> PrimExpr:
        return operators.subtract(other, self)

    def __mul__(self, other: Any) -> PrimExpr:
        return operators.multiply(self, other)

    def __rmul__(self, other: Any) -> PrimExpr:
        return operators.multiply(other, self)

    def __truediv__(self, other: Any) -> PrimExpr:
        return operators.divide(self, other)

    def __rtruediv__(self, other: Any) -> PrimExpr:
        return operators.divide(other, self)

    def __floordiv__(self, other: Any) -> PrimExpr:
        return operators.floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> PrimExpr:
        return operators.floordiv(other, self)

    def __mod__(self, other: Any) -> PrimExpr:
        return operators.floormod(self, other)

    def __rmod__(self, other: Any) -> PrimExpr:
        return operators.floormod(other, self)

    def __neg__(self) -> PrimExpr:
        if dt.is_bool(self.dtype):
            raise IRTypeError("negation of bools is not defined; use ~, or convert to a number with .astype")
        if isinstance(self, IMMEDIATES):
            return operators.const(-self.value, self.dtype)
        return operators.multiply(self, operators.const(-1, self.dtype))

    def __pow__(self, other: Any) -> PrimExpr:
        return operators.power(self, other)

    def __lshift__(self, other: Any) -> PrimExpr:
        return operators.bitwise("tir.shift_left", self, other)

    def __rlshift__(self, other: Any) -> PrimExpr:
        return operators.bitwise("tir.shift_left", other, self)

    def __rshift__(self, other: Any) -> PrimExpr:
        return operators.bitwise("tir.shift_right", self, other)

    def __rrshift__(self, other: Any) -> PrimExpr:
        return operators.bitwise("tir.shift_right", other, self)

    def __and__(self, other: Any) -> PrimExpr:
        return operators.bitwise("tir.bitwise_and", self, other)

    def __rand__(self, other: Any) -> PrimExpr:
        return operators.bitwise("tir.bitwise_and", other, self)

    def __or__(self, other: Any) -> PrimExpr:
        return operators.bitwise("tir.bitwise_or", self, other)

    def __ror__(self, other: Any) -> PrimExpr:
        return operators.bitwise("tir.bitwise_or", other, self)

    def __xor__(self, other: Any) -> PrimExpr:
        return operators.bitwise("tir.bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> PrimExpr:
        return operators.bitwise("tir.bitwise_xor", other, self)

    def __invert__(self) -> PrimExpr:
        if dt.is_bool(self.dtype):
            return operators.logical_not(self)
        return Call(self.dtype, "tir.bitwise_not", (self,))

    def __lt__(self, other: Any) -> PrimExpr:
        return operators.compare(LT, self, other)

    def __le__(self, other: Any) -> PrimExpr:
        return operators.compare(LE, self, other)

    def __gt__(self, other: Any) -> PrimExpr:
        return operators.compare(GT, self, other)

    def __ge__(self, other: Any) -> PrimExpr:
        return operators.compare(GE, self, other)

    def __eq__(self, other: Any) -> Any:
        if self._comparable_with(other):
            return operators.compare(EQ, self, other)
        check_identity_is_meant(self, other)
        return False

    def __ne__(self, other: Any) -> Any:
        if self._comparable_with(other):
            return operators.compare(NE, self, other)
        check_identity_is_meant(self, other)
        return True

    def _comparable_with(self, other: Any) -> bool:
        if isinstance(other, PrimExpr):
            return other.dtype == self.dtype or operators.comparable(self.dtype, other.dtype)
        return isinstance(other, int | float | np.generic)

    def __bool__(self) -> bool:
        raise IRValueError(
            f"a TIR expression, such as {self}, has no truth value; build conditions with tir.all, tir.any, tir.Not or tir.if_then_else"
            " (in script T.all, T.any, T.Not, T.if_then_else) instead of Python's and, or, not, if or 0 < i < 5, and extrema with tir.max"
            " and tir.min (T.max, T.min); of what a schedule has sampled, schedule.get(v) is the number"
        )

    def __abs__(self) -> PrimExpr:
        return operators.absolute(self)

    def __int__(self) -> int:
        raise IRTypeError(
            'a TIR expression is no Python number; convert it in the program, as in x.astype("int32")'
        )

    def __round__(self, digits: Any = None) -> PrimExpr:
        raise IRTypeError(
            "a TIR expression is no Python number; round it in the program, as in T.round(x), or tir.round(x) in te"
        )

    def __divmod__(self, other: Any) -> Any:
        raise IRTypeError("divmod is of Python's numbers; write x // y and x % y, which round down")

    __rdivmod__ = __divmod__

    def __float__(self) -> float:
        raise IRTypeError(
            "a TIR expression is no Python number; call a function of T on it, such as T.exp(x) instead of math.exp(x)"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Numpy's operators are those of the expression, element by element; it has no functions."""
        compare = _COMPARISONS_OF_NUMPY.get(ufunc.__name__)
        if compare is not None and not any(getattr(item, "shape", ()) for item in inputs):
            return compare(
                *[item if isinstance(item, PrimExpr) else np.asarray(item).item() for item in inputs]
            )
        try:
            return getattr(ufunc, method)(*[_as_object(item) for item in inputs], **options)
        except TypeError as error:
            raise IRTypeError(
                f"numpy.{ufunc.__name__} does not take TIR expressions; call a function of T, such as T.exp(x) instead of numpy.exp(x)"
            ) from error

    def equal(self, other: Any) -> PrimExpr:
        """The comparison node ``self == other``."""
        return operators.compare(EQ, self, other)

    def astype(self, dtype: str) -> PrimExpr:
        """The value converted to ``dtype``."""
        return operators.cast(dtype, self)


_COMPARISONS_OF_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "equal": operator.eq, "not_equal": operator.ne,
}  # fmt: skip
"""Of scalars; of objects, numpy would ask the result for its truth."""


def _as_object(value: Any) -> Any:
    """An expression as an array without dimensions, which numpy takes for an object."""
    if not isinstance(value, PrimExpr):
        return value
    found = np.empty((), object)
    found[()] = value
    return found


class Var(PrimExpr, type_key="tir.Var"):
    """A variable; two variables are the same only if they are the same object.

    ``dtype`` may be a dtype string or a :class:`~ir.type.Type` (pointers carry their storage scope that way).
    """

    is_compound: ClassVar[bool] = False

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

    is_compound: ClassVar[bool] = False

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

    is_compound: ClassVar[bool] = False

    dtype: str
    value: float = field(convert=float)

    def _check(self) -> None:
        if not dt.is_float(self.dtype):
            raise IRTypeError(f"FloatImm needs a float dtype, got {self.dtype!r} for {self.value}")

    def __float__(self) -> float:
        return self.value


class StringImm(PrimExpr, type_key="tir.StringImm"):
    """A string constant, as argument of calls and value of annotations."""

    is_compound: ClassVar[bool] = False

    value: str
    dtype: str = derived("'handle'")


IMMEDIATES = (IntImm, FloatImm)


@converter
def as_expr(value: Any) -> PrimExpr:
    """Converter of expression fields: numbers and iteration variables become expressions."""
    return (
        value if isinstance(value, PrimExpr) and value.__class__ is not IterVar else operators.convert(value)
    )


def as_condition(value: Any) -> PrimExpr:
    """Converter of conditions, see :func:`ir.tir.operators.as_condition`."""
    return (
        value if isinstance(value, PrimExpr) and value.dtype[:4] == "bool" else operators.as_condition(value)
    )


def as_optional_condition(value: Any) -> PrimExpr | None:
    return None if value is None else as_condition(value)


def as_exprs(values: Any) -> tuple[PrimExpr, ...]:
    if isinstance(values, PrimExpr):
        return (as_expr(values),)
    return tuple([as_expr(value) for value in values])


def as_optional_expr(value: Any) -> PrimExpr | None:
    return None if value is None else as_expr(value)


def _bool_like(dtype: str) -> str:
    return dt.with_lanes("bool", dt.lanes(dtype))


def _loaded_dtype(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> str:
    if not indices:
        return buffer.dtype
    n_lanes = dt.lanes(indices[-1].dtype)
    return buffer.dtype if n_lanes == 1 else dt.with_lanes(buffer.dtype, n_lanes * dt.lanes(buffer.dtype))


def as_call_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Converter of the arguments of calls: what is no node becomes an expression."""
    return tuple(
        [
            item if isinstance(item, Node) and item.__class__ is not IterVar else operators.convert(item)
            for item in args
        ]
    )


_with_lanes = dt.with_lanes
_element_of = dt.element_of


class _Binary(PrimExpr):
    a: PrimExpr = field(convert=as_expr)
    b: PrimExpr = field(convert=as_expr)

    _check_if: ClassVar[str] = "a.dtype != b.dtype"

    def _check(self) -> None:
        if self.a.dtype != self.b.dtype:
            raise IRTypeError(
                f"{type(self).__name__} needs operands of one dtype, got {self.a.dtype} and {self.b.dtype};"
                " convert one with .astype or use the Python operator"
            )


class BinaryOpExpr(_Binary):
    """Arithmetic on two values of one dtype."""

    dtype: str = derived("a.dtype")


class NumericOpExpr(BinaryOpExpr):
    """Arithmetic that bools do not have: as numbers of one bit they would wrap, and True + True be False.

    Python's ``+`` of two bools is :class:`Or` and ``*`` is :class:`And`, as in numpy and PyTorch.
    """

    _check_if: ClassVar[str] = "a.dtype != b.dtype or a.dtype[:4] == 'bool'"

    def _check(self) -> None:
        super()._check()
        raise IRTypeError(
            f"{type(self).__name__} is no operation of bools; use logical_and, logical_or or a bitwise operator,"
            " or convert both to numbers with .astype"
        )


class CmpExpr(_Binary):
    """A comparison; the result is bool with the operands' lanes."""

    dtype: str = derived("_bool_like(a.dtype)")


class LogicalExpr(_Binary):
    """A logical connective of two conditions."""

    a: PrimExpr = field(convert=as_condition)
    b: PrimExpr = field(convert=as_condition)
    dtype: str = derived("a.dtype")


class Add(NumericOpExpr, type_key="tir.Add"):
    """a + b."""


class Sub(NumericOpExpr, type_key="tir.Sub"):
    """a - b."""


class Mul(NumericOpExpr, type_key="tir.Mul"):
    """a * b."""


class Div(NumericOpExpr, type_key="tir.Div"):
    """A / b, truncating towards zero for integers (as in C)."""


class Mod(NumericOpExpr, type_key="tir.Mod"):
    """Remainder of truncating division (as in C)."""


class FloorDiv(NumericOpExpr, type_key="tir.FloorDiv"):
    """A / b rounded towards minus infinity."""


class FloorMod(NumericOpExpr, type_key="tir.FloorMod"):
    """Remainder of floor division; it has b's sign."""


DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
"""The operations that have no value for some operands."""


class Min(BinaryOpExpr, type_key="tir.Min"):
    """The smaller one."""


class Max(BinaryOpExpr, type_key="tir.Max"):
    """The larger one."""


def _are_identical(comparison: EQ | NE) -> bool:
    """Whether both operands are one object; a user who writes a program is told where this says nothing of their values."""
    are_identical: bool = comparison.a is comparison.b
    if not (are_identical and isinstance(comparison.a, Var)):  # a float that is loaded may be NaN
        check_identity_is_meant(comparison.a, comparison.b, depth=2)
    return are_identical


class EQ(CmpExpr, type_key="tir.EQ"):
    """a == b; as a Python truth value, identity of the operands."""

    def __bool__(self) -> bool:
        return _are_identical(self)


class NE(CmpExpr, type_key="tir.NE"):
    """a != b; as a Python truth value, identity of the operands."""

    def __bool__(self) -> bool:
        return not _are_identical(self)


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


class Not(PrimExpr, type_key="tir.Not"):
    """Logical negation."""

    a: PrimExpr = field(convert=as_condition)
    dtype: str = derived("a.dtype")


class Cast(PrimExpr, type_key="tir.Cast"):
    """Conversion of a value to another dtype (numeric, not a reinterpretation of bits)."""

    dtype: str = field(convert=dt.checked)
    value: PrimExpr = field(convert=as_expr)


class Select(PrimExpr, type_key="tir.Select"):
    """``true_value`` where the condition holds, else ``false_value``; both sides may be evaluated."""

    condition: PrimExpr = field(convert=as_condition)
    true_value: PrimExpr = field(convert=as_expr)
    false_value: PrimExpr = field(convert=as_expr)
    dtype: str = derived("true_value.dtype")

    def _check(self) -> None:
        if self.true_value.dtype != self.false_value.dtype:
            raise IRTypeError(
                f"Select needs values of one dtype, got {self.true_value.dtype} and {self.false_value.dtype}"
            )


class BufferLoad(PrimExpr, type_key="tir.BufferLoad"):
    """An element of a buffer; a Ramp as last index loads a vector."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...] = field(convert=as_exprs)
    predicate: PrimExpr = field(default=None, convert=as_optional_condition)
    dtype: str = derived("_loaded_dtype(buffer, indices)")


class ProducerLoad(PrimExpr, type_key="tir.ProducerLoad"):
    """An element of a tensor expression's result (a ``te.Tensor``)."""

    producer: Any = field(kind="leaf")
    indices: tuple[PrimExpr, ...] = field(convert=as_exprs)
    dtype: str = derived("producer.dtype")


class Ramp(PrimExpr, type_key="tir.Ramp"):
    """The vector ``base, base + stride, ...`` of ``lanes`` elements."""

    base: PrimExpr = field(convert=as_expr)
    stride: PrimExpr = field(convert=as_expr)
    lanes: int = field(convert=int)
    dtype: str = derived("_with_lanes(base.dtype, lanes)")


class Broadcast(PrimExpr, type_key="tir.Broadcast"):
    """A vector of ``lanes`` copies of a scalar."""

    value: PrimExpr = field(convert=as_expr)
    lanes: int = field(convert=int)
    dtype: str = derived("_with_lanes(value.dtype, lanes)")


class Shuffle(PrimExpr, type_key="tir.Shuffle"):
    """A vector whose lanes are picked by constant ``indices`` from the concatenated ``vectors``."""

    vectors: tuple[PrimExpr, ...] = field(convert=as_exprs)
    indices: tuple[PrimExpr, ...] = field(convert=as_exprs)
    dtype: str = derived("_with_lanes(_element_of(vectors[0].dtype), len(indices))")


class Call(PrimExpr, type_key="tir.Call"):
    """A call of an intrinsic (``op`` is an Op or its name) or of a function of the module (a GlobalVar)."""

    dtype: str
    op: Any = field(kind="node", convert=as_op)
    args: tuple[PrimExpr, ...] = field(convert=as_call_args)


class Let(PrimExpr, type_key="tir.Let"):
    """``body`` with ``var`` standing for ``value``."""

    var: Var = field(defines=True)
    value: PrimExpr = field(convert=as_expr)
    body: PrimExpr = field(convert=as_expr)
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
            low, count = as_expr(begin if min is None else min), as_expr(extent)
        elif end is None:
            count = as_expr(begin)
            low = operators.const(0, count.dtype)
        else:
            low, high = operators.match_dtypes(as_expr(begin), as_expr(end))
            count = operators.subtract(high, low)
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

    is_compound: ClassVar[bool] = False

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
    result: tuple[PrimExpr, ...] = field(convert=as_exprs)
    identity_element: tuple[PrimExpr, ...] = field(convert=as_exprs)
    span: Span | None = field(default=None, compare=False, kind="leaf")


class Reduce(PrimExpr, type_key="tir.Reduce"):
    """A reduction of ``source`` over ``axis`` (only inside tensor expressions); one result of a tuple reduction."""

    combiner: CommReducer
    source: tuple[PrimExpr, ...] = field(convert=as_exprs)
    axis: tuple[IterVar, ...] = field(kind="seq", defines=True)
    condition: PrimExpr = field(convert=as_condition)
    value_index: int
    init: tuple[PrimExpr, ...] = field(default=(), convert=as_exprs)
    dtype: str = derived("source[value_index].dtype")

    _compare_order: ClassVar[tuple[str, ...]] = (
        "combiner",
        "axis",
        "source",
        "condition",
        "value_index",
        "init",
    )
