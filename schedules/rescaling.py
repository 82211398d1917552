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

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ir import dtype as dt
from ir import structural_equal, tir
from ir.op import Op
from ir.tir.analysis.reducer import Abstraction
from ir.tir.stmt_functor import substitute

from .affine import mentions

EXPONENTIALS = {"tir.exp": tir.exp, "tir.exp2": tir.exp2, "tir.exp10": tir.exp10}
"""Functions that make products of sums."""
_ROUNDS_SHARES = ("float16", "bfloat16")
"""Dtypes to which numbers between 0 and 1 may be rounded, whatever they are relative to."""


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
        self._shares: set[tir.Var] = set()

    def know(self, stored: tir.Var, factor: tir.PrimExpr | None, is_share: bool = False) -> None:
        """A variable in terms stands for what was stored of a term with this factor; ``is_share``: of one that :meth:`is_share` knows."""
        if factor is not None:
            self._factors[stored] = factor
            if is_share:
                self._shares.add(stored)

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

    def factor_in_program(
        self,
        term: tir.PrimExpr,
        extreme: tir.PrimExpr,
        result: tir.PrimExpr,
        stored: Sequence[tuple[tir.PrimExpr, tir.PrimExpr]],
        identity: tir.PrimExpr,
    ) -> tuple[tir.PrimExpr | None, bool]:
        """The factor of a term as it stands in a program, as :meth:`factor`, and whether the term is a share (:meth:`is_share`).

        Args:
            term: what is summed up or stored.
            extreme: what the result is the largest or smallest of, as the term has it.
            result: the load of the result, as the term has it; or of that :func:`finite <finite_forms>`, which the factor has then, too.
            stored: loads of what was stored of other terms, and the variables that :meth:`know` was told of.
            identity: the infinity that the result begins with.

        Raises:
            NotRescalable: as :meth:`factor`.
        """
        finite = tir.Var("finite", self.result.dtype)
        forms = [(form, finite) for form in finite_forms(result, identity)]
        table = [(extreme, self.extreme), *forms, (result, self.result), *stored]
        abstract = Abstraction(table).visit(term)
        is_finite = mentions(abstract, {finite}) and not mentions(abstract, {self.result})
        abstract = substitute(abstract, {finite: self.result})
        factor = self.factor(abstract)
        if factor is not None and is_finite:
            factor = substitute(factor, {self.after: finite_forms(self.after, identity)[0]})
        return factor, factor is not None and self.is_share(abstract)

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
        factor = self.factor(term.value)
        if factor is None:
            return None
        if _is_narrower_float(term) and self.is_share(term.value):
            return factor  # in its own dtype: what it multiplies is to be wide again
        _require_wider(term)
        return tir.cast(term.dtype, factor)

    def is_share(self, term: tir.PrimExpr) -> bool:
        """Whether a term that has a factor is an exponential as it is, between 0 and 1, or what a dtype holds of one.

        It may be rounded relative to any result: relative to the final one, the largest of all, it is smallest, so that the factor
        brings what rounding moved to no more than rounding may move there.
        """
        if isinstance(term, tir.Cast):
            return self.is_share(term.value)
        if isinstance(term, tir.Var):
            return term in self._shares
        name = term.op.name if isinstance(term, tir.Call) and isinstance(term.op, Op) else ""
        return name in EXPONENTIALS and not _has_summand(term.args[0])  # type: ignore[attr-defined]

    def _call(self, term: tir.Call) -> tir.PrimExpr | None:
        name = term.op.name if isinstance(term.op, Op) else ""
        if name == "tir.if_then_else":
            return self._chosen(term, *term.args)
        if name not in EXPONENTIALS:
            raise NotRescalable(f"nothing is known of {term}")
        of_extreme, of_result = self._line(term.args[0])
        if of_extreme != -of_result or of_extreme * self._direction <= 0:
            bound = "largest" if self._direction > 0 else "smallest"
            raise NotRescalable(
                f"{term} is not at most 1 where {self.result.name} is the {bound} {self.extreme.name}"
            )
        # Cast before they are subtracted: the gap would be rounded to their type.
        gap = tir.cast(term.dtype, self.before) - tir.cast(term.dtype, self.after)
        return EXPONENTIALS[name](gap if of_extreme == 1 else tir.const(of_extreme, term.dtype) * gap)

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


def finite_forms(value: tir.PrimExpr, identity: tir.PrimExpr) -> tuple[tir.PrimExpr, tir.PrimExpr]:
    """A result, or 0 for the infinity that it begins with, as programs write that: numbers are as far from it as from any other."""
    is_empty, zero = tir.EQ(value, identity), tir.const(0, value.dtype)
    return tir.Select(is_empty, zero, value), tir.if_then_else(is_empty, zero, value)


def _same(first: tir.PrimExpr | None, second: tir.PrimExpr | None) -> bool:
    if first is None or second is None:
        return first is second
    return structural_equal(first, second)


def _constant(expr: tir.PrimExpr) -> float | None:
    return float(expr.value) if isinstance(expr, tir.FloatImm) else None


def _is_zero(expr: tir.PrimExpr) -> bool:
    return _constant(expr) == 0.0


def _has_summand(exponent: tir.PrimExpr) -> bool:
    """Whether a constant is added in an exponent, which an exponential of a difference has none of."""
    if _constant(exponent) is not None:
        return True
    if isinstance(exponent, tir.Add | tir.Sub):
        return _has_summand(exponent.a) or _has_summand(exponent.b)
    if isinstance(exponent, tir.Mul | tir.Div):
        return all(_constant(side) is not None or _has_summand(side) for side in (exponent.a, exponent.b))
    return isinstance(exponent, tir.Cast) and _has_summand(exponent.value)


def _is_narrower_float(cast: tir.Cast) -> bool:
    """Whether a cast rounds a float to a dtype that holds 1 and, as a zero or a subnormal number, all that is smaller."""
    return cast.dtype in _ROUNDS_SHARES and dt.is_float(cast.value.dtype)


def _require_wider(cast: tir.Cast) -> None:
    """A cast to a narrower type rounds the number relative to one result otherwise than that relative to another."""
    if not (
        dt.is_float(cast.dtype)
        and dt.is_float(cast.value.dtype)
        and dt.bits(cast.dtype) >= dt.bits(cast.value.dtype)
    ):
        raise NotRescalable(f"{cast} keeps less than its operand")
