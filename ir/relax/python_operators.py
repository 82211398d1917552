"""What Python's operators would decide, or do not say, of values of a program: refused, with the operator that is meant.

A tensor has no truth value while a program is written. Without these refusals `x and y` would be y, and `max(x, y)` would be y.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from ..error import IRError, IRTypeError, IRValueError

_TRUTH = (
    "a Relax value has no truth value while the program is written; use R.logical_and, R.logical_or and R.logical_not instead of"
    " Python's and, or, not, if and 0 < x < 5, R.equal and R.not_equal instead of ==, != and in, R.where instead of a conditional"
    " expression, R.maximum and R.minimum instead of max and min, and R.sum and R.prod of bools instead of any and all"
)

_INSTEAD = {
    "&": "R.logical_and of bools, R.bitwise_and of integers",
    "|": "R.logical_or of bools, R.bitwise_or of integers",
    "^": "R.logical_xor of bools, R.bitwise_xor of integers",
    "~": "R.logical_not of bools, R.bitwise_not of integers",
    "<<": "R.left_shift",
    ">>": "R.right_shift",
    "@": "R.matmul",
    "abs": "R.abs",
    "round": "R.round",
    "float": "R.astype",
    "int": "R.astype",
}


_METHODS_OF_UFUNCS = {
    "add": ("__add__", "__radd__"), "subtract": ("__sub__", "__rsub__"), "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"), "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"), "power": ("__pow__", "__rpow__"), "matmul": ("__matmul__", "__rmatmul__"),
    "less": ("__lt__", "__gt__"), "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"), "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"), "not_equal": ("__ne__", "__ne__"),
    "bitwise_and": ("__and__", "__rand__"), "bitwise_or": ("__or__", "__ror__"), "bitwise_xor": ("__xor__", "__rxor__"),
    "left_shift": ("__lshift__", "__rlshift__"), "right_shift": ("__rshift__", "__rrshift__"),
}  # fmt: skip
"""What numpy calls Python's operators, and their methods for a value on the left and on the right of them."""


def refused(symbol: str) -> Any:
    """The method of an operator that values of a program lack."""

    def refuse(self: RefusedOperators, *others: Any) -> NoReturn:
        raise self._refusal(IRTypeError)(
            f"Python's {symbol} is not defined for {self._called}s; write {self._instead[symbol]}"
        )

    refuse.__doc__ = f"Refused: the error says how to write ``{symbol}``."
    return refuse


class RefusedOperators:
    """Python's operators that values of a program do not have; each says which function to call instead."""

    __slots__ = ()

    _called: ClassVar[str] = "Relax value"
    _namespace: ClassVar[str] = "R"
    """Where the functions are that take such values."""
    _truth: ClassVar[str] = _TRUTH
    _instead: ClassVar[Mapping[str, str]] = _INSTEAD
    """By operator, what to write."""

    @staticmethod
    def _refusal(kind: type[IRError]) -> type[IRError]:
        """The class of an error of a kind."""
        return kind

    def __bool__(self) -> bool:
        if hasattr(self, "__len__"):  # tuples and shapes whose parts are written out: as Python's tuples
            return len(self) > 0
        raise self._refusal(IRValueError)(self._truth)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Python's operators with a number or an array of numpy on the left are those of the value; numpy would make an
        array of values, one for each element. Functions of numpy do not take values."""
        names = _METHODS_OF_UFUNCS.get(ufunc.__name__)
        if names is None or method != "__call__" or options:
            raise self._refusal(IRTypeError)(
                f"numpy.{ufunc.__name__} does not take {self._called}s; call a function of {self._namespace}, such as"
                f" {self._namespace}.exp(x) instead of numpy.exp(x)"
            )
        left, right = operands
        if isinstance(left, RefusedOperators):
            return getattr(left, names[0])(right)
        return getattr(right, names[1])(left)

    __and__ = __rand__ = refused("&")
    __or__ = __ror__ = refused("|")
    __xor__ = __rxor__ = refused("^")
    __invert__ = refused("~")
    __lshift__ = __rlshift__ = refused("<<")
    __rshift__ = __rrshift__ = refused(">>")
    __matmul__ = __rmatmul__ = refused("@")
    __abs__ = refused("abs")
    __round__ = refused("round")
    __float__ = refused("float")
    __int__ = refused("int")
