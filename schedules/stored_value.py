"""What an expression is worth where some of its conditions are decided and some of what it loads is known.

Constants are computed as programs compute them, to the bit. Beside them there is one value more: what is stored is what the element
holds already, as a sum is that adds 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from ir import dtype as dt
from ir import structural_equal, tir
from ir.op import Op

from .rescaling import EXPONENTIALS


def choices_in(node: Any) -> list[tuple[Any, Any, Any, Any]]:
    """Every choice in a statement or expression: itself, its condition, and what it chooses between."""
    found: list[tuple[Any, Any, Any, Any]] = []

    def visit(item: Any) -> None:
        parts = choice(item)
        if parts is not None:
            found.append((item, *parts))

    tir.post_order_visit(node, visit)
    return found


def choice(node: Any) -> tuple[Any, Any, Any] | None:
    """The condition and both sides of an ``if_then_else`` or a ``Select``; None of anything else."""
    if isinstance(node, tir.Select):
        return node.condition, node.true_value, node.false_value
    return tuple(node.args) if is_lazy(node) else None  # type: ignore[return-value]


def is_lazy(node: Any) -> bool:
    """Whether a node is a choice that evaluates the chosen side only."""
    return isinstance(node, tir.Call) and isinstance(node.op, Op) and node.op.name == "tir.if_then_else"


class Sign(Enum):
    """What is known of a number that is no constant."""

    UNDECIDED = "undecided"
    """Nothing contradicts any constant yet."""
    OWN = "own"
    """It is what the element that is stored holds already."""
    LOWEST = "lowest"
    """It is -infinity, or NaN, as the difference of -infinity and what is not known is."""
    NOTHING = "nothing"
    """It is 0, or NaN: the exponential of that."""
    ANY = "any"


Value = np.generic | Sign
_UNKNOWN: Final = {Sign.ANY, Sign.LOWEST, Sign.NOTHING}
"""Which no operation but a few makes anything of."""


def is_own(store: tir.BufferStore, load: Any) -> bool:
    """Whether a load reads the element that is stored."""
    return (
        isinstance(load, tir.BufferLoad)
        and load.buffer is store.buffer
        and load.predicate is None
        and all(map(structural_equal, load.indices, store.indices))
    )


def are_same(one: Value, other: Value) -> bool:
    """Whether two values are one, to the bit."""
    if isinstance(one, Sign) or isinstance(other, Sign):
        return one is other
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def joined(one: Value, other: Value) -> Value:
    """What holds of an element that is one value or the other; what is its own already adds nothing."""
    if other is Sign.OWN or other is Sign.UNDECIDED:
        return one
    if one is Sign.UNDECIDED:
        return other
    return one if are_same(one, other) else Sign.ANY


_BINARY: Final[Mapping[type, Callable[..., Any]]] = {
    tir.Add: np.add,
    tir.Sub: np.subtract,
    tir.Mul: np.multiply,
    tir.Max: np.maximum,
    tir.Min: np.minimum,
    tir.EQ: np.equal,
    tir.NE: np.not_equal,
    tir.LT: np.less,
    tir.LE: np.less_equal,
    tir.GT: np.greater,
    tir.GE: np.greater_equal,
    tir.And: np.logical_and,
    tir.Or: np.logical_or,
}
"""Operations that numpy does to the bit as programs do."""
_EXACT_EXPONENTIALS: Final = {-np.inf: 0.0, 0.0: 1.0, np.inf: np.inf}
"""Where every library gives the same."""


class Known(Protocol):
    """What is known where an expression stands."""

    def is_false(self, condition: tir.PrimExpr) -> bool:
        """Whether a condition never holds."""

    def loaded(self, load: tir.BufferLoad) -> Value:
        """What is loaded."""

    def has_no_negative_zero(self) -> bool:
        """Whether the element that is stored is surely not -0.0 yet."""

    def hides_by_zero(self) -> bool:
        """Whether a product with 0 counts as 0, whatever the other factor is."""


def stored_value(store: tir.BufferStore, known: Known) -> Value:
    """What a statement stores."""
    return _Folding(store, known).value(store.value)


class _Folding:
    def __init__(self, store: tir.BufferStore, known: Known) -> None:
        self._store, self._known = store, known

    def value(self, expr: Any) -> Value:
        parts = choice(expr)
        if parts is not None:
            return self._chosen(*parts)
        if type(expr) in _BINARY:
            return self._binary(expr)
        rule = self._RULES.get(type(expr))
        return Sign.ANY if rule is None else rule(self, expr)

    def _constant(self, expr: tir.IntImm | tir.FloatImm) -> Value:
        return _number(expr.value, expr.dtype)

    def _load(self, load: tir.BufferLoad) -> Value:
        if load.predicate is not None:
            return Sign.ANY
        known = self._known.loaded(load)
        return Sign.OWN if known is Sign.ANY and is_own(self._store, load) else known

    def _cast(self, cast: tir.Cast) -> Value:
        value = self.value(cast.value)
        both_float = dt.is_float(cast.dtype) and dt.is_float(cast.value.dtype)
        if not isinstance(value, np.generic):
            is_kept = value is Sign.UNDECIDED or (value is Sign.NOTHING and both_float)
            return value if is_kept else Sign.ANY
        return _number(value, cast.dtype) if both_float else Sign.ANY

    def _call(self, call: tir.Call) -> Value:
        if not isinstance(call.op, Op) or call.op.name not in EXPONENTIALS:
            return Sign.ANY
        value = self.value(call.args[0])
        if value is Sign.LOWEST:
            return Sign.NOTHING
        if not isinstance(value, np.generic):
            return Sign.UNDECIDED if value is Sign.UNDECIDED else Sign.ANY
        exact = _EXACT_EXPONENTIALS.get(float(value))
        return Sign.ANY if exact is None else _number(exact, call.dtype)

    def _chosen(self, condition: tir.PrimExpr, true: tir.PrimExpr, false: tir.PrimExpr) -> Value:
        if self._known.is_false(condition):
            return self.value(false)
        known = self.value(condition)
        if isinstance(known, np.generic):
            return self.value(true if known else false)
        if known is Sign.UNDECIDED:
            return Sign.UNDECIDED
        one, other = self.value(true), self.value(false)
        if Sign.UNDECIDED in (one, other):
            return Sign.UNDECIDED
        return one if are_same(one, other) else Sign.ANY

    def _binary(self, expr: Any) -> Value:
        one, other = self.value(expr.a), self.value(expr.b)
        if isinstance(expr, tir.Mul) and self._known.hides_by_zero() and any(map(_is_nothing, (one, other))):
            return _number(-0.0, expr.dtype)  # which leaves everything as it is, -0.0 too
        if not _UNKNOWN.isdisjoint((one, other)):
            is_lowest = isinstance(expr, tir.Sub) and isinstance(one, np.generic) and one == -np.inf
            return Sign.LOWEST if is_lowest and other is Sign.ANY else Sign.ANY
        if Sign.UNDECIDED in (one, other):
            return Sign.UNDECIDED
        if isinstance(one, np.generic) and isinstance(other, np.generic):
            with np.errstate(all="ignore"):
                return _scalar(np.asarray(_BINARY[type(expr)](one, other)))
        constant = other if one is Sign.OWN else one
        if isinstance(constant, np.generic) and self._is_identity(type(expr), constant):
            return Sign.OWN
        return Sign.ANY

    def _is_identity(self, kind: type, constant: np.generic) -> bool:
        """Whether an update by a constant leaves the element as it is, to the bit."""
        number: Any = constant
        if kind is tir.Add:
            negative = bool(np.signbit(number)) and np.issubdtype(constant.dtype, np.floating)
            return bool(number == 0) and (negative or self._known.has_no_negative_zero())
        if kind in (tir.Max, tir.Min):
            if not np.issubdtype(constant.dtype, np.floating):
                return False
            return bool(number == (-np.inf if kind is tir.Max else np.inf))
        return kind is tir.Mul and bool(number == 1)

    _RULES: ClassVar[Mapping[type, Callable[[Any, Any], Value]]] = {
        tir.IntImm: _constant,
        tir.FloatImm: _constant,
        tir.BufferLoad: _load,
        tir.Cast: _cast,
        tir.Call: _call,
    }


def _is_nothing(value: Value) -> bool:
    """Whether a number is 0, or NaN where all that it is multiplied with and added to is NaN."""
    return value is Sign.NOTHING or (isinstance(value, np.generic) and value == 0)  # type: ignore[operator]


def _number(value: Any, dtype: str) -> Value:
    """A constant of a type that numpy, or ml_dtypes for it, computes in; of others nothing is known."""
    known = ("bfloat16", "float16", "float32", "float64", "bool")
    if dt.lanes(dtype) != 1 or not (dtype in known or dt.is_index(dtype)):
        return Sign.ANY
    with np.errstate(all="ignore"):
        return _scalar(np.asarray(value).astype(dt.to_numpy(dtype)))


def _scalar(array: np.ndarray) -> np.generic:
    return array.dtype.type(array[()])  # type: ignore[no-any-return]
