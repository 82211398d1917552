"""Python's operators that tensors of the nn library do not have, with the functions to call instead."""

from __future__ import annotations

from typing import Any, ClassVar

from ir.error import IRError, IRTypeError
from ir.relax.python_operators import RefusedOperators, refused

from .error import NNTypeError, NNValueError


def _by_topi(name: str) -> str:
    return f"op.tensor_expr_op(topi.{name}, {name!r}, [...])"


class RefusedTensorOperators(RefusedOperators):
    """What Python would decide of tensors while a method is traced, or what has no operator; the errors say how to write it."""

    __slots__ = ()

    _called: ClassVar[str] = "nn.Tensor"
    _namespace: ClassVar[str] = "op"
    _truth: ClassVar[str] = (
        "an nn.Tensor has no truth value while a method is traced; use op.multiply and op.add of bool tensors instead of Python's and,"
        " or, if and 0 < x < 5, op.equal and op.not_equal instead of ==, != and in, op.where instead of a conditional expression, and"
        " op.maximum and op.minimum instead of max and min"
    )
    _instead: ClassVar[dict[str, str]] = {
        "&": f"op.multiply of bools, {_by_topi('bitwise_and')} of integers",
        "|": f"op.add of bools, {_by_topi('bitwise_or')} of integers",
        "^": f"op.not_equal of bools, {_by_topi('bitwise_xor')} of integers",
        "~": _by_topi("bitwise_not"),
        "<<": _by_topi("left_shift"),
        ">>": _by_topi("right_shift"),
        "//": _by_topi("floor_divide"),
        "%": _by_topi("floor_mod"),
        "**": _by_topi("power"),
        "@": "op.matmul",
        "abs": _by_topi("abs"),
        "round": _by_topi("round"),
        "float": "op.astype",
        "int": "op.astype",
        "[]": "op.take or op.split",
        "==": "op.equal",
        "!=": "op.not_equal",
    }

    @staticmethod
    def _refusal(kind: type[IRError]) -> type[IRError]:
        return NNTypeError if kind is IRTypeError else NNValueError

    __floordiv__ = __rfloordiv__ = refused("//")
    __mod__ = __rmod__ = refused("%")
    __pow__ = __rpow__ = refused("**")
    __getitem__ = refused("[]")
    _equal = refused("==")
    _unequal = refused("!=")

    def __eq__(self, other: Any) -> bool:
        if other is None or isinstance(other, str):  # that is known while the method is traced
            return False
        return bool(self._equal(other))

    def __ne__(self, other: Any) -> bool:
        if other is None or isinstance(other, str):
            return True
        return bool(self._unequal(other))

    __hash__ = object.__hash__
