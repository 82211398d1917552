"""How terms change with the result that they are relative to: the algebra that makes one reduction of a chain of them.

The sum of a softmax adds ``exp(x - m)``, where m is the largest x: it seems to need m before it begins. It does not, since
``exp(x - m) = exp(m' - m) * exp(x - m')`` for every x. What was summed up relative to another m' is brought to m by one factor,
``g(m', m) = exp(m' - m)``, in which no x occurs: ``f(x, m) = g(m', m) * f(x, m')``, a homomorphism. This module finds g for a term, or
says why there is none.

The arithmetic simplifier cancels nothing in floats, rightly: x may be infinite. So g is built by the rules of real numbers (sums in
exponents, products, choices), and only where each number that is rounded to on the way is safe: an exponential must lie between 0 and 1
for what m' is the largest (or smallest) of, or what is summed up relative to m' might overflow where the whole does not. (Milakov,
Gimelshein: "Online normalizer calculation for softmax", 2018; Rabe, Staats: "Self-attention does not need O(n²) memory", 2021;
Dao et al.: "FlashAttention", 2022.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ir import dtype as dt
from ir import structural_equal, tir
from ir.op import Op
from ir.tir.stmt_functor import substitute

from .affine import mentions

_EXPONENTIALS = {"tir.exp": tir.exp, "tir.exp2": tir.exp2, "tir.exp10": tir.exp10}
"""Functions that make products of sums."""


class NotRescalable(Exception):
    """A term that is no multiple, by a factor of its own, of the same term relative to another result; says why."""


class Rescaling:
    """Finds the factors of terms relative to one result.

    >>> x, m = tir.Var("x", "float32"), tir.Var("m", "float32")
    >>> rescaling = Rescaling(m, x, is_maximum=True)
    >>> print(rescaling.factor(tir.exp(x - m)))
    T.exp(before - after)
    >>> print(rescaling.factor(x * tir.exp((x - m) * 0.5)))
    T.exp(T.float32(0.5) * (before - after))
    >>> print(rescaling.factor(tir.sin(x - m)))
    Traceback (most recent call last):
        ...
    schedules.rescaling.NotRescalable: nothing is known of T.sin(x - m)

    Args:
        result: stands in terms for the result that they are relative to, a float.
        extreme: stands in terms for what the result is the largest or smallest of.
        is_maximum: whether it is the largest.
    """

    def __init__(self, result: tir.Var, extreme: tir.Var, is_maximum: bool) -> None:
        self.result, self.extreme = result, extreme
        self.before, self.after = tir.Var("before", result.dtype), tir.Var("after", result.dtype)
        """In factors: the result that a term was relative to, and the one that it is to be relative to."""
        self._direction = 1 if is_maximum else -1
        self._factors: dict[tir.Var, tir.PrimExpr] = {}

    def know(self, stored: tir.Var, factor: tir.PrimExpr | None) -> None:
        """A variable in terms stands for what was stored of a term with this factor."""
        if factor is not None:
            self._factors[stored] = factor

    def factor(self, term: tir.PrimExpr) -> tir.PrimExpr | None:
        """The factor of a term, in terms of ``before`` and ``after``; None for a term that is relative to nothing.

        Raises:
            NotRescalable: it has none, or an exponential in it may be large.
        """
        if not self._is_relative(term):
            return None
        rule = self._RULES.get(type(term))
        if rule is None:
            raise NotRescalable(f"nothing is known of {term}")
        return rule(self, term)

    def at(self, factor: tir.PrimExpr, before: tir.PrimExpr, after: tir.PrimExpr) -> tir.PrimExpr:
        """A factor for two results."""
        return substitute(factor, {self.before: before, self.after: after})

    def _is_relative(self, term: tir.PrimExpr) -> bool:
        return mentions(term, {self.result, *self._factors})

    def _var(self, term: tir.Var) -> tir.PrimExpr:
        if term is self.result:
            raise NotRescalable("the result itself is a summand or a factor, outside of an exponential")
        return self._factors[term]

    def _mul(self, term: tir.Mul) -> tir.PrimExpr | None:
        first, second = self.factor(term.a), self.factor(term.b)
        if first is None or second is None:
            return second if first is None else first
        return first * second

    def _div(self, term: tir.Div) -> tir.PrimExpr | None:
        if self._is_relative(term.b):
            raise NotRescalable(f"it divides by {term.b}, which vanishes where the exponential does")
        return self.factor(term.a)

    def _alike(self, term: Any) -> tir.PrimExpr | None:
        """Of a sum or difference; nothing is said by a zero."""
        return self._common(term, *[side for side in (term.a, term.b) if not _is_zero(side)])

    def _select(self, term: tir.Select) -> tir.PrimExpr | None:
        return self._chosen(term, term.condition, term.true_value, term.false_value)

    def _chosen(
        self, term: tir.PrimExpr, condition: tir.PrimExpr, *sides: tir.PrimExpr
    ) -> tir.PrimExpr | None:
        if self._is_relative(condition):
            raise NotRescalable(f"the condition {condition} depends on the result")
        if any(map(_is_zero, sides)):
            raise NotRescalable(
                f"{term} may leave out what makes the result infinite or NaN, and its factor NaN"
            )
        return self._common(term, *sides)

    def _common(self, term: tir.PrimExpr, *sides: tir.PrimExpr) -> tir.PrimExpr | None:
        """The factor that all sides share."""
        factors = [self.factor(side) for side in sides]
        if not all(_same(factor, factors[0]) for factor in factors[1:]):
            raise NotRescalable(f"the sides of {term} have different factors")
        return factors[0]

    def _cast(self, term: tir.Cast) -> tir.PrimExpr | None:
        _require_wider(term)
        factor = self.factor(term.value)
        return None if factor is None else tir.Cast(term.dtype, factor)

    def _call(self, term: tir.Call) -> tir.PrimExpr | None:
        name = term.op.name if isinstance(term.op, Op) else ""
        if name == "tir.if_then_else":
            return self._chosen(term, *term.args)
        if name not in _EXPONENTIALS:
            raise NotRescalable(f"nothing is known of {term}")
        of_extreme, of_result = self._line(term.args[0])
        if of_extreme != -of_result or of_extreme * self._direction <= 0:
            bound = "largest" if self._direction > 0 else "smallest"
            raise NotRescalable(
                f"{term} is not at most 1 where {self.result.name} is the {bound} {self.extreme.name}"
            )
        # Cast before they are subtracted: the gap would be rounded to their type.
        gap = tir.cast(term.dtype, self.before) - tir.cast(term.dtype, self.after)
        return _EXPONENTIALS[name](gap if of_extreme == 1 else tir.const(of_extreme, term.dtype) * gap)

    def _line(self, expr: tir.PrimExpr) -> tuple[float, float]:
        """The constants that the extreme and the result are multiplied by in a sum with no other summands than constants."""
        if _constant(expr) is not None:
            return 0.0, 0.0
        if not mentions(expr, {self.result, self.extreme, *self._factors}):
            raise NotRescalable(
                f"{expr} in the exponent may be large where the exponential of the sum is not"
            )
        if expr is self.extreme:
            return 1.0, 0.0
        if expr is self.result:
            return 0.0, 1.0
        if isinstance(expr, tir.Add | tir.Sub):
            first, second = self._line(expr.a), self._line(expr.b)
            sign = 1 if isinstance(expr, tir.Add) else -1
            return first[0] + sign * second[0], first[1] + sign * second[1]
        if isinstance(expr, tir.Mul | tir.Div):
            factor, other = _constant(expr.b), expr.a
            if factor is None and isinstance(expr, tir.Mul):
                factor, other = _constant(expr.a), expr.b
            if factor:
                factor = factor if isinstance(expr, tir.Mul) else 1 / factor
                line = self._line(other)
                return line[0] * factor, line[1] * factor
        if isinstance(expr, tir.Cast):
            _require_wider(expr)
            return self._line(expr.value)
        raise NotRescalable(f"the exponent {expr} is no sum of multiples by constants")

    _RULES: ClassVar[Mapping[type, Callable[[Any, Any], tir.PrimExpr | None]]] = {
        tir.Var: _var,
        tir.Mul: _mul,
        tir.Div: _div,
        tir.Add: _alike,
        tir.Sub: _alike,
        tir.Select: _select,
        tir.Cast: _cast,
        tir.Call: _call,
    }


def _same(first: tir.PrimExpr | None, second: tir.PrimExpr | None) -> bool:
    if first is None or second is None:
        return first is second
    return structural_equal(first, second)


def _constant(expr: tir.PrimExpr) -> float | None:
    return float(expr.value) if isinstance(expr, tir.FloatImm) else None


def _is_zero(expr: tir.PrimExpr) -> bool:
    return _constant(expr) == 0.0


def _require_wider(cast: tir.Cast) -> None:
    """A cast to a narrower type rounds the number relative to one result otherwise than that relative to another."""
    if not (
        dt.is_float(cast.dtype)
        and dt.is_float(cast.value.dtype)
        and dt.bits(cast.dtype) >= dt.bits(cast.value.dtype)
    ):
        raise NotRescalable(f"{cast} keeps less than its operand")
