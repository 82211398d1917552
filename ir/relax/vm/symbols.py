"""Symbolic extents in bytecode: which variable has which number, and what the virtual machine evaluates to compute one."""

from __future__ import annotations

from typing import Any

from ... import dtype as dt
from ...error import IRError
from ...tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)
from ..symbolic_vars import tir_vars_in


class BytecodeError(IRError):
    """A construct that the virtual machine cannot run; the message says which pass removes it."""


_BINARY: dict[type, str] = {
    Add: "+",
    Sub: "-",
    Mul: "*",
    FloorDiv: "//",
    FloorMod: "%",
    EQ: "==",
    NE: "!=",
    LT: "<",
    LE: "<=",
    GT: ">",
    GE: ">=",
    And: "and",
    Or: "or",
}
_FUNCTIONS: dict[type, str] = {Min: "min", Max: "max", Div: "tdiv", Mod: "tmod"}
_OPERATORS = {
    "tir.shift_left": "<<",
    "tir.shift_right": ">>",
    "tir.bitwise_and": "&",
    "tir.bitwise_or": "|",
    "tir.pow": "**",
}


class Symbols:
    """Numbers of the symbolic variables of one function, and expressions over them as Python source.

    A variable is ``S[number]`` in that source; ``tdiv`` and ``tmod`` are C's division and remainder.
    """

    def __init__(self) -> None:
        self.numbers: dict[Var, int] = {}

    def number(self, var: Var) -> int:
        """The number of a variable that a value binds from here on."""
        return self.numbers.setdefault(var, len(self.numbers))

    def knows(self, expr: Any) -> bool:
        """Whether all variables in the expression are bound."""
        return all(var in self.numbers for var in tir_vars_in(expr))

    def source(self, expr: Any) -> str:
        """Python source of an expression.

        Raises:
            BytecodeError: a variable that nothing binds, or an expression with no form on the host.
        """
        kind = type(expr)
        if isinstance(expr, Var):
            if expr not in self.numbers:
                raise BytecodeError(
                    f"symbolic variable {expr.name} is used before a parameter or match_cast defines it"
                )
            return f"S[{self.numbers[expr]}]"
        if isinstance(expr, IntImm | FloatImm):
            return repr(expr.value)
        if kind is Div and dt.is_float(expr.dtype):
            return self._infix(expr.a, "/", expr.b)
        if kind in _BINARY:
            return self._infix(expr.a, _BINARY[kind], expr.b)
        if kind in _FUNCTIONS:
            return f"{_FUNCTIONS[kind]}({self.source(expr.a)}, {self.source(expr.b)})"
        if isinstance(expr, Not):
            return f"(not {self.source(expr.a)})"
        if isinstance(expr, Cast):
            return f"{'float' if dt.is_float(expr.dtype) else 'int'}({self.source(expr.value)})"
        if isinstance(expr, Select):
            return self._choice(expr.condition, expr.true_value, expr.false_value)
        if isinstance(expr, Call):
            name = getattr(expr.op, "name", "")
            if name == "tir.if_then_else":
                return self._choice(*expr.args)
            if name in _OPERATORS:
                return self._infix(expr.args[0], _OPERATORS[name], expr.args[1])
        raise BytecodeError(f"the virtual machine cannot compute {expr} ({kind.__name__})")

    def _infix(self, a: Any, operator: str, b: Any) -> str:
        return f"({self.source(a)} {operator} {self.source(b)})"

    def _choice(self, condition: Any, yes: Any, no: Any) -> str:
        return f"({self.source(yes)} if {self.source(condition)} else {self.source(no)})"
