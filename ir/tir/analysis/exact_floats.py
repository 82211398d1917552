"""Which float arithmetic must be rounded operation by operation: what decides something within its expression."""

from __future__ import annotations

from typing import Any, ClassVar

from ... import dtype as dt
from ...node import Visitor
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..expr import PrimExpr, Var
from ..intrinsic.lowering import before_lowering
from ..intrinsic.rounding import rounded_argument


def exact_floats(body: S.Stmt) -> set[int]:
    """The identities of the sums, differences and products that must not contract (``a * b + c`` rounded once).

    A float that flows into a comparison, an integer or a rounding to integers decides something: which row a resize reads, on
    which side of a threshold a value falls. There it is what its operations say, everywhere the same. What is stored is data.
    Of what an exponential is taken, the difference is one of rounded numbers: that of a maximum and itself is 0, however large it is,
    where ``exp(a * b - maximum)``, rounded once, can be infinite. Variables that are bound within the function are looked through.
    """
    finder = _Find()
    finder.visit(body)
    return finder.exact


_EXPONENTIALS = frozenset({"tir.exp", "tir.exp2", "tir.exp10", "tir.expm1"})


def _steps(call: E.Call) -> bool:
    """Whether a call rounds its argument to an integer, or takes its bits."""
    return getattr(call.op, "name", "") == "tir.reinterpret" or rounded_argument(call) is not None


def _is_atom(expr: PrimExpr) -> bool:
    """Whether what an expression is made of does not decide what it flows into: it is read from memory, or data as it was written."""
    return isinstance(expr, E.BufferLoad) or getattr(getattr(expr, "op", None), "name", "") == "tir.as_data"


class _Find(Visitor):
    """Bodies are visited before the values of their variables, which are exact where a use is."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.exact: set[int] = set()
        self.variables: set[Var] = set()
        self.exponents: set[Var] = set()
        """Variables of whose values exponentials are taken."""

    def visit_Buffer(self, buffer: Buffer) -> None:
        pass

    def visit_CmpExpr(self, node: Any) -> None:
        if dt.is_float(node.a.dtype):
            self._mark(node.a)
            self._mark(node.b)
        self.generic_visit(node)

    def visit_Cast(self, node: E.Cast) -> None:
        if dt.is_float(node.value.dtype) and not dt.is_float(node.dtype):
            self._mark(node.value)
        self.generic_visit(node)

    def visit_Call(self, call: E.Call) -> None:
        if _steps(call):
            self._mark(call)
        name, args = before_lowering(call)
        if name in _EXPONENTIALS:
            self._mark_difference(args[0])
        self.generic_visit(call)

    def visit_LetStmt(self, node: S.LetStmt) -> None:
        self.visit(node.body)
        self._value(node.var, node.value)

    def visit_Let(self, node: E.Let) -> None:
        self.visit(node.body)
        self._value(node.var, node.value)

    def _value(self, var: Var, value: PrimExpr) -> None:
        if var in self.variables:
            self._mark(value)
        if var in self.exponents:
            self._mark_difference(value)
        self.visit(value)

    def _mark_difference(self, exponent: PrimExpr) -> None:
        """A difference or sum that an exponential is taken of, also scaled, limited or chosen; not what flows into it, which is rounded
        as where a maximum is."""
        if isinstance(exponent, Var):
            self.exponents.add(exponent)
        elif isinstance(exponent, E.Sub | E.Add):
            self.exact.add(id(exponent))
        elif isinstance(exponent, E.Select):
            self._mark_difference(exponent.true_value)
            self._mark_difference(exponent.false_value)
        elif isinstance(exponent, E.Mul | E.Div | E.Min | E.Max | E.Cast | E.Broadcast):
            exponent._visit_children(self._mark_difference)

    def _mark(self, expr: PrimExpr) -> None:
        """An expression and what flows into it, down to what is read from memory."""
        if isinstance(expr, Var):
            self.variables.add(expr)
        elif expr.is_compound and id(expr) not in self.exact and not _is_atom(expr):
            self.exact.add(id(expr))
            expr._visit_children(lambda child: self._mark(child) if isinstance(child, PrimExpr) else None)
