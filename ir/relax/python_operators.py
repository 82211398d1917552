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
