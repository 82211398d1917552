"""Expressions of a program as estimates: one rule per kind of node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from ir import dtype as dt
from ir.node import Visitor
from ir.tir.expr import (
    GT,
    LT,
    And,
    BufferLoad,
    Call,
    Cast,
    CmpExpr,
    FloatImm,
    Let,
    Not,
    Or,
    PrimExpr,
    Select,
    Var,
)
from ir.tir.intrinsic.declaration import CallEffectKind, effect_of, find

from ..error import RunnerError
from ..ndarray import numpy_dtype
from .algebra import Algebra
from .estimate import (
    ALWAYS,
    INFINITY,
    NEVER,
    WIDE,
    ZERO,
    Binding,
    Estimate,
    added,
    as_distance,
    magnitude,
)
from .rounding import format_of

Load = Callable[[Any, Sequence[Estimate]], Estimate]

_TESTS = {"isnan", "isinf", "isfinite"}


class Unanalysable(RunnerError):
    """The program does something whose rounding is not known; its reference is computed as it is written."""


class Expressions(Visitor):
    """Visiting an expression gives its :class:`Estimate`.

    Args:
        algebra: the rules.
        load: the estimate of an element of a buffer.
    """

    remembers: ClassVar[bool] = True

    def __init__(self, algebra: Algebra, load: Load) -> None:
        super().__init__()
        self._algebra = algebra
        self._load = load
        self._named: dict[Var, Estimate] = {}

    def generic_visit(self, node: Any) -> Any:
        raise Unanalysable(f"it has an expression {type(node).__name__}")

    def bind(self, var: Var, value: PrimExpr) -> tuple[Estimate, list[tuple[Var, PrimExpr]]]:
        """Give a value a name; the variables to bind it and its error to."""
        item = self.visit(value)
        wide = Var(var.name, item.value.dtype)
        binding: list[tuple[Var, PrimExpr]] = [(wide, item.value)]
        slack: PrimExpr | None = None
        if item.slack is not None:
            name = Var(f"{var.name}_error", item.slack.dtype)
            binding.append((name, item.slack))
            slack = name
        self._named[var] = Estimate(
            wide, slack, item.relative, item.floor, item.whole, item.limit, item.largest
        )
        return item, binding

    # ---- leaves ----------------------------------------------------------------------------------------------

    def visit_Var(self, node: Var) -> Estimate:
        """A loop variable, or a name."""
        return self._named.get(node) or Estimate(node)

    def visit_IntImm(self, node: Any) -> Estimate:
        """A whole number."""
        return Estimate(node)

    def visit_StringImm(self, node: Any) -> Estimate:
        """A name in a call."""
        return Estimate(node)

    def visit_FloatImm(self, node: FloatImm) -> Estimate:
        """A constant, as the number of its dtype that it is rounded to; half floats may be carried unrounded."""
        dtype = node.dtype
        if dt.lanes(dtype) != 1:
            raise Unanalysable("it has vectors")
        value = float(numpy_dtype(dtype).type(node.value))
        is_whole = value == value and abs(value) != float("inf") and value == int(value)
        whole = ALWAYS if is_whole else NEVER
        carried = 0.0 if value == node.value or dt.bits(dtype) >= 32 else format_of(dtype).unit
        return Estimate(FloatImm(WIDE, value), None, carried, whole=whole)

    def visit_BufferLoad(self, node: BufferLoad) -> Estimate:
        """An element."""
        if node.predicate is not None or dt.lanes(node.dtype) != 1:
            raise Unanalysable("it has vectors")
        return self._load(node.buffer, [self.visit(index) for index in node.indices])

    def visit_Let(self, node: Let) -> Estimate:
        """A body with a name in it: value and error are bound in each of the two expressions."""
        with self._naming() as names:
            _, binding = self.bind(node.var, node.value)
            names += binding
            body = self.visit(node.body)
        return _bound(body, names)

    # ---- operators -------------------------------------------------------------------------------------------

    def visit_BinaryOpExpr(self, node: Any) -> Estimate:
        """Arithmetic."""
        if dt.lanes(node.dtype) != 1:
            raise Unanalysable("it has vectors")
        kind = type(node).__name__
        algebra = self._algebra
        a, b = self.visit(node.a), self.visit(node.b)
        if not dt.is_float(node.dtype):
            return algebra.integer(type(node)(a.value, b.value), a, b, kind)
        a, b = algebra.settled(a), algebra.settled(b)
        value = type(node)(a.value, b.value)
        if kind in ("Add", "Sub"):
            return algebra.add(value, node.dtype, a, b)
        if kind == "Mul":
            return algebra.multiply(value, node.dtype, a, b)
        if kind == "Div":
            return algebra.divide(value, node.dtype, a, b)
        if kind in ("Min", "Max"):
            return algebra.extreme(value, a, b)
        if kind in ("Mod", "FloorMod"):
            return algebra.remainder(lambda x, y: type(node)(x, y), node.dtype, a, b)
        return algebra.floored_quotient(lambda x, y: type(node)(x, y), node.dtype, a, b)

    def visit_CmpExpr(self, node: CmpExpr) -> Estimate:
        """A comparison."""
        a, b = self.visit(node.a), self.visit(node.b)
        value = type(node)(a.value, b.value)
        if dt.is_bool(node.a.dtype):
            return Estimate(value, either(a.slack, b.slack))
        return self._algebra.compare(value, a, b)

    def visit_And(self, node: And) -> Estimate:
        """Lazy: what the right side is matters where the left one holds."""
        a, b = self.visit(node.a), self._lazily(node.b)
        right = None if b.slack is None else And(a.value, b.slack)
        return Estimate(And(a.value, b.value), either(a.slack, right))

    def visit_Or(self, node: Or) -> Estimate:
        """Lazy, the other way round."""
        a, b = self.visit(node.a), self._lazily(node.b)
        right = None if b.slack is None else And(Not(a.value), b.slack)
        return Estimate(Or(a.value, b.value), either(a.slack, right))

    def visit_Not(self, node: Not) -> Estimate:
        """As uncertain as its operand."""
        a = self.visit(node.a)
        return Estimate(Not(a.value), a.slack)

    def visit_Select(self, node: Select) -> Estimate:
        """Both sides are evaluated."""
        sides = (node.condition, node.true_value, node.false_value)
        condition, a, b = (self.visit(item) for item in sides)
        if not (condition.certain and a.certain and b.certain):
            condition, a, b = (self._algebra.settled(item) for item in (condition, a, b))
        return self._algebra.choose(Select, condition, a, b, lazy=False)

    def visit_Cast(self, node: Cast) -> Estimate:
        """A conversion."""
        if dt.lanes(node.dtype) != 1:
            raise Unanalysable("it has vectors")
        return self._algebra.cast(node.dtype, self.visit(node.value), node.value.dtype)

    # ---- calls -----------------------------------------------------------------------------------------------

    def visit_Call(self, node: Call) -> Estimate:
        """An intrinsic."""
        intrinsic = find(node)
        if intrinsic is None or effect_of(node) > CallEffectKind.PURE or dt.lanes(node.dtype) != 1:
            raise Unanalysable(f"it calls {getattr(node.op, 'name', node.op)}")
        name = intrinsic.name
        if name == "if_then_else":
            return self._if_then_else(node)
        args: list[Estimate] = [self.visit(arg) for arg in node.args]
        if intrinsic.transparent or name == "optimization_barrier":
            return args[0]
        if name in ("fabs", "abs"):
            return self._absolute(node, args[0])
        if name in _TESTS:
            return self._tested(node, args[0])
        if not dt.is_float(node.dtype):
            return self._integral(node, args)
        if name == "reinterpret" or intrinsic.dtype_first:
            return self._as_written(node, args)
        if any(not dt.is_float(arg.dtype) for arg in node.args) and name != "ldexp":
            return self._as_written(node, args)
        if name == "round_to_tf32":
            return self._algebra.step(lambda x: self._in_float32(node, x), args[0], args[0].whole)
        if intrinsic.rounds:
            found = self._algebra.step(lambda x: Call(WIDE, node.op, (x,)), args[0])
            return self._algebra.within(found, node.dtype)

        def make(*values: PrimExpr) -> PrimExpr:
            return Call(WIDE, node.op, values)

        if name in ("sin", "cos"):
            return self._algebra.wave(make, node.dtype, args[0])
        if name == "tan":
            return self._algebra.tangent(make, node.dtype, args[0])
        if name in ("fmod", "remainder"):
            return self._algebra.remainder(make, node.dtype, args[0], args[1])
        if name == "atan2":
            return self._algebra.angle(make, node.dtype, args[0], args[1])
        if name == "pow":
            return self._algebra.power(make, node.dtype, args[0], args[1])
        return self._algebra.function(make, node.dtype, args)

    def _in_float32(self, node: Call, value: PrimExpr) -> PrimExpr:
        """A call that looks at the bits of its argument, a float32."""
        return Cast(WIDE, node.replace(args=[Cast("float32", value)]))

    def _tested(self, node: Call, item: Estimate) -> Estimate:
        """Whether a number is NaN or infinite, which it may be or not where it may be anything."""
        error = self._algebra.error(item)
        doubt = None if error is None else Not(LT(error, INFINITY))
        return Estimate(node.replace(args=[item.value]), doubt)

    def _if_then_else(self, node: Call) -> Estimate:
        condition = self.visit(node.args[0])
        if not condition.certain:
            condition = self._algebra.settled(condition)
        a, b = self._lazily(node.args[1]), self._lazily(node.args[2])

        def make(test: PrimExpr, one: PrimExpr, other: PrimExpr) -> PrimExpr:
            return Call(one.dtype, node.op, (test, one, other))

        return self._algebra.choose(make, condition, a, b, lazy=True)

    def _lazily(self, node: PrimExpr) -> Estimate:
        """An expression that may not be evaluated: what is named in it stays in it."""
        with self._naming() as names:
            item = self.visit(node)
            if not item.certain:
                item = self._algebra.settled(item)
        return item if not names else _bound(item, names)

    @contextmanager
    def _naming(self) -> Iterator[list[Binding]]:
        """A scope of names: what is visited in it is made of them, and known nowhere else."""
        with self._algebra.scope() as names, self.forgetting():
            yield names

    def _absolute(self, node: Call, item: Estimate) -> Estimate:
        if not dt.is_float(node.dtype):
            return self._algebra.unless_it_wraps(Call(node.dtype, node.op, (item.value,)), item.slack)
        value = magnitude(item.value)
        return Estimate(value, item.slack, item.relative, item.floor, item.whole, item.limit, item.largest)

    def _narrowed(self, node: Call, args: Sequence[Estimate]) -> PrimExpr:
        """The call in the dtypes that the program has."""
        narrow: PrimExpr = node.replace(
            args=[
                Cast(arg.dtype, item.value) if dt.is_float(arg.dtype) and arg.dtype != WIDE else item.value
                for arg, item in zip(node.args, args)
            ]
        )
        return narrow

    def _integral(self, node: Call, args: Sequence[Estimate]) -> Estimate:
        unknown = self._unknown(args)
        if unknown is not None and dt.is_bool(node.dtype):
            unknown = GT(unknown, ZERO)
        return Estimate(self._narrowed(node, args), unknown)

    def _as_written(self, node: Call, args: Sequence[Estimate]) -> Estimate:
        """Bits are those of the dtype that the program names."""
        value = self._narrowed(node, args)
        wide = value if node.dtype == WIDE else Cast(WIDE, value)
        ulps = 0.0 if getattr(node.op, "name", "") == "tir.reinterpret" else 16.0
        return self._algebra.operation(wide, node.dtype, self._unknown(args), NEVER, ulps=ulps)

    def _unknown(self, args: Sequence[Estimate]) -> PrimExpr | None:
        """No bound where an operand is not certain."""
        doubt: PrimExpr | None = None
        for item in args:
            doubt = added(doubt, as_distance(self._algebra.error(item)))
        return None if doubt is None else Select(doubt > ZERO, INFINITY, ZERO)


def let(expr: PrimExpr, names: Sequence[tuple[Var, PrimExpr]]) -> PrimExpr:
    """An expression with names bound around it, the first outermost."""
    for variable, value in reversed(names):
        expr = Let(variable, value, expr)
    return expr


def _bound(item: Estimate, names: Sequence[tuple[Var, PrimExpr]]) -> Estimate:
    slack = None if item.slack is None else let(item.slack, names)
    return replace(item, value=let(item.value, names), slack=slack)


def either(a: PrimExpr | None, b: PrimExpr | None) -> PrimExpr | None:
    """One doubt or the other, of which None is none."""
    if a is None or b is None:
        return b if a is None else a
    return Or(a, b)
