"""The operations of estimates: what each does to a number and to its error, with expressions that ask the operands' own.

What an operation makes of operands within their errors lies within the error of its result. An error is a sum of what the operands
bring along and of what the operation rounds; a function says by its values at the ends of its operands' intervals how far it may move.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from ir import dtype as dt
from ir.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Call,
    Cast,
    Div,
    FloatImm,
    IntImm,
    Max,
    Min,
    Not,
    Or,
    PrimExpr,
    Select,
    Var,
)

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
    or_zero,
    rounded,
    scaled,
    widened,
)
from .rounding import INTRINSIC_ULPS, Format, format_of, holds


class Algebra:
    """The rules by operation; ``exact`` is the condition that inputs are small integers."""

    def __init__(self, exact: PrimExpr) -> None:
        self.exact = exact
        self._scopes: list[list[Binding]] = [[]]

    @contextmanager
    def scope(self) -> Iterator[list[Binding]]:
        """Names that are given meanwhile: whoever opens it binds them around what it makes, the first outermost."""
        self._scopes.append([])
        try:
            yield self._scopes[-1]
        finally:
            self._scopes.pop()

    def share(self, expr: PrimExpr) -> PrimExpr:
        """A name for an expression that is used several times."""
        if isinstance(expr, Var | IntImm | FloatImm):
            return expr
        name = Var("part", expr.dtype)
        self._scopes[-1].append((name, expr))
        return name

    def error(self, item: Estimate) -> PrimExpr | None:
        """All of an estimate's error as one expression; None when it is zero."""
        if item.relative == 0.0:
            return item.slack
        reach = self.share(_with(magnitude(widened(item.value)), item.slack))
        relative = FloatImm(WIDE, item.relative)
        of_value = rounded(reach, relative, item.floor, item.largest, item.whole, item.limit, self.exact)
        total = added(item.slack, of_value)
        return None if total is None else self.share(total)

    def settled(self, item: Estimate) -> Estimate:
        """The estimate with a name for its value, which is about to be used several times."""
        return replace(item, value=self.share(item.value))

    # ---- arithmetic of floats --------------------------------------------------------------------------------

    def operation(
        self,
        value: PrimExpr,
        dtype: str,
        slack: PrimExpr | None,
        whole: int,
        ulps: float = 1.0,
    ) -> Estimate:
        """A result that is rounded to a dtype once, or is off by some units of it."""
        form = format_of(dtype)
        found = Estimate(value, slack, ulps * form.unit, form.tiny * ulps, whole, form.whole, form.largest)
        return self.within(found, dtype)

    def within(self, item: Estimate, dtype: str) -> Estimate:
        """Anything for what a type without infinities does not hold, infinities too: it becomes NaN, or the number at that end."""
        form = format_of(dtype)
        if form.has_infinity:
            return item
        item = self.settled(item)
        is_held = And(
            LE(item.value, FloatImm(WIDE, form.largest)), GE(item.value, FloatImm(WIDE, form.least))
        )
        return replace(item, slack=added(item.slack, Select(is_held, ZERO, INFINITY)))

    def add(self, value: PrimExpr, dtype: str, a: Estimate, b: Estimate) -> Estimate:
        """A sum or difference."""
        slack, whole = added(self.error(a), self.error(b)), min(a.whole, b.whole)
        if not (_is_constant(a) or _is_constant(b)):
            return self.operation(value, dtype, slack, whole)
        total = self.share(value)
        other = b.value if isinstance(value, Add) else ZERO - b.value
        is_number = self._is_number(total, dtype) if dtype != WIDE else self._is_sum(total, a.value, other)
        return self._unless_exact(self.operation(total, dtype, slack, whole), is_number)

    def multiply(self, value: PrimExpr, dtype: str, a: Estimate, b: Estimate) -> Estimate:
        """A product: each factor's error counts as often as the other factor."""
        for item, factor in ((a, b), (b, a)):
            if _is_power_of_two(factor):
                return self._shifted(value, dtype, item, factor)
        whole = min(a.whole, b.whole)
        if dtype == WIDE:
            value = self.share(value)
        overflow = _overflow(value, a, b) if dtype == WIDE else None
        if a.certain and b.certain:
            found = self.operation(self.share(value), dtype, overflow, whole)
            if dtype == WIDE or not (_is_constant(a) or _is_constant(b)):
                return found
            return self._unless_exact(found, self._is_number(found.value, dtype))
        of_a, of_b = self.error(a), self.error(b)
        slack = added(scaled(of_a, magnitude(b.value)), scaled(of_b, magnitude(a.value)))
        if of_a is not None and of_b is not None:
            slack = added(slack, scaled(of_a, of_b))
        return self.operation(value, dtype, added(slack, overflow), whole)

    def _shifted(self, value: PrimExpr, dtype: str, item: Estimate, factor: Estimate) -> Estimate:
        """A product with a power of two: exact where it neither overflows nor vanishes."""
        value = self.share(value)
        slack = scaled(self.error(item), magnitude(factor.value))
        slack = None if slack is None else self.share(slack)
        slack = added(slack, self._beyond(value, slack, format_of(dtype)))
        if dtype == WIDE:
            slack = added(slack, _overflow(value, item, factor))
        whole = min(item.whole, factor.whole)
        return Estimate(value, slack, whole=whole)

    def _beyond(self, value: PrimExpr, slack: PrimExpr | None, form: Format) -> PrimExpr:
        """What a number loses that is exact but for the range of its dtype: bits where it is subnormal, everything where it overflows."""
        size = self.share(magnitude(value))
        is_normal = Or(GE(size, FloatImm(WIDE, form.tiny / (2 * form.unit))), EQ(size, ZERO))
        above = Select(LT(size, INFINITY), INFINITY, ZERO)
        within = Select(is_normal, ZERO, FloatImm(WIDE, form.tiny))
        return Select(LE(_with(size, slack), FloatImm(WIDE, form.largest)), within, above)

    def _unless_exact(self, found: Estimate, is_number: PrimExpr) -> Estimate:
        """A sum or product with a constant, which is not rounded where it is a number of its dtype: a rounding function may follow."""
        if found.slack is not None:
            is_number = And(is_number, Not(GT(found.slack, ZERO)))
        rounding = Select(is_number, ZERO, or_zero(self.error(replace(found, slack=None))))
        return Estimate(found.value, added(found.slack, rounding), whole=found.whole)

    @staticmethod
    def _is_number(value: PrimExpr, dtype: str) -> PrimExpr:
        """Whether a result is one of a narrower dtype: then float64 did not round it either, or to what the dtype rounds it to."""
        return EQ(widened(Cast(dtype, value)), value)

    def _is_sum(self, total: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Whether float64 did not round ``a + b`` (Knuth's TwoSum gives what it lost).

        Of products nothing tells that: a kernel may go on to add to one before it is rounded.
        """
        back = self.share(total - a)
        return EQ((a - (total - back)) + (b - back), ZERO)

    def divide(self, value: PrimExpr, dtype: str, a: Estimate, b: Estimate) -> Estimate:
        """A quotient; anything where the divisor may be zero and is not known.

        Of numbers that the kernel has, too, it is rounded as the kernel rounds it: a quotient is never part of a fused operation, and
        float64 has more than twice the digits of float32, so that to round twice is to round once (Figueroa, 1995).
        """
        if a.certain and b.certain and dtype in ("float32", WIDE):
            return Estimate(widened(Cast(dtype, value)) if dtype != WIDE else value, whole=NEVER)
        if a.certain and b.certain:
            return self.operation(value, dtype, None, NEVER)
        of_a, of_b = self.error(a), self.error(b)
        slack = None if of_a is None else scaled(of_a, Div(FloatImm(WIDE, 1.0), magnitude(b.value)))
        if of_b is not None:
            size = self.share(magnitude(b.value))
            numerator = self.share(or_zero(added(of_a, scaled(of_b, magnitude(value)))))
            total = or_zero(scaled(numerator, Div(FloatImm(WIDE, 1.0), size - of_b)))
            slack = Select(GT(of_b, ZERO), Select(GT(size, of_b), total, INFINITY), or_zero(slack))
        return self.operation(value, dtype, slack, NEVER)

    def extreme(self, value: PrimExpr, a: Estimate, b: Estimate) -> Estimate:
        """A minimum or maximum: no rounding, and no more error than the worse operand has."""
        if a.certain and b.certain:
            return Estimate(value, whole=min(a.whole, b.whole))
        slack = _larger(self.error(a), self.error(b))
        return Estimate(value, slack, whole=min(a.whole, b.whole))

    def function(self, make: Callable[..., PrimExpr], dtype: str, args: list[Estimate]) -> Estimate:
        """A smooth function: its values at the ends of the operands' intervals tell how much it moves."""
        value = self.share(make(*[item.value for item in args]))
        errors = [self.error(item) for item in args]
        moved = {position: error for position, error in enumerate(errors) if error is not None}
        slack = None
        for position, error in moved.items():
            slack = added(slack, self._moved(make, value, args, {position: error}))
        if slack is not None and len(moved) > 1:
            slack = Max(slack, self._moved(make, value, args, moved))
        return self.operation(value, dtype, slack, NEVER, ulps=2 * INTRINSIC_ULPS)

    def angle(self, make: Callable[..., PrimExpr], dtype: str, y: Estimate, x: Estimate) -> Estimate:
        """An angle, which jumps by a turn where y changes its sign and x is below zero."""
        y, x = self.settled(y), self.settled(x)
        found = self.function(make, dtype, [y, x])
        of_y = self.error(y)
        if of_y is None:
            return found
        may_jump = And(
            And(GT(of_y, ZERO), LE(magnitude(y.value), of_y)), LE(x.value - or_zero(self.error(x)), ZERO)
        )
        moved = self.share(or_zero(found.slack))
        return replace(found, slack=Select(may_jump, Max(moved, FloatImm(WIDE, 6.3)), moved))

    def power(
        self, make: Callable[..., PrimExpr], dtype: str, base: Estimate, exponent: Estimate
    ) -> Estimate:
        """A power: one that may be a negative one of zero may be anything."""
        base, exponent = self.settled(base), self.settled(exponent)
        found = self.function(make, dtype, [base, exponent])
        least = exponent.value - or_zero(self.error(exponent))
        return self._beside_pole(found, base, LT(least, ZERO))

    def floored_quotient(
        self, make: Callable[..., PrimExpr], dtype: str, a: Estimate, b: Estimate
    ) -> Estimate:
        """A quotient that is rounded down: anything where the divisor may be zero and is not known."""
        b = self.settled(b)
        return self._beside_pole(self.function(make, dtype, [a, b]), b, EQ(ZERO, ZERO))

    def _beside_pole(self, found: Estimate, item: Estimate, has_pole: PrimExpr) -> Estimate:
        """A function that has a pole at zero, which may lie between the ends of an operand's interval."""
        of_item = self.error(item)
        if of_item is None:
            return found
        is_beside = And(And(GT(of_item, ZERO), has_pole), LE(magnitude(item.value), of_item))
        return replace(found, slack=Select(is_beside, INFINITY, or_zero(found.slack)))

    def wave(self, make: Callable[..., PrimExpr], dtype: str, item: Estimate) -> Estimate:
        """A sine or cosine: it moves no more than its operand does, and never further than from -1 to 1."""
        item = self.settled(item)
        of_item = self.error(item)
        slack: PrimExpr | None = None
        if of_item is not None:
            most = Min(of_item, FloatImm(WIDE, 2.0))
            slack = _unless_anything(of_item, Select(LT(magnitude(item.value), INFINITY), most, ZERO))
        return self.operation(make(item.value), dtype, slack, NEVER, ulps=2 * INTRINSIC_ULPS)

    def tangent(self, make: Callable[..., PrimExpr], dtype: str, item: Estimate) -> Estimate:
        """A tangent: monotone up to the next pole, which is no nearer than the cosine is large."""
        item = self.settled(item)
        found = self.function(make, dtype, [item])
        of_item = self.error(item)
        if of_item is None:
            return found
        room = magnitude(Call(WIDE, "tir.cos", (item.value,)))
        within = Or(LT(of_item, room), Not(GT(of_item, ZERO)))
        return replace(found, slack=Select(within, or_zero(found.slack), INFINITY))

    def remainder(self, make: Callable[..., PrimExpr], dtype: str, a: Estimate, b: Estimate) -> Estimate:
        """A remainder, which moves as its operands do, or anything up to the divisor where the errors may lead to another period."""
        a, b = self.settled(a), self.settled(b)
        found = self.function(make, dtype, [a, b])
        of_a, of_b = self.error(a), self.error(b)
        divisor = self.share(magnitude(b.value))
        led = added(of_a, scaled(of_b, magnitude(a.value) / divisor))
        if led is None:
            return found
        if of_b is not None:  # as far as the dividend would go alone to where both together may
            led = Select(LT(of_b, divisor), led * (divisor / (divisor - of_b)), INFINITY)
        led = self.share(led)
        moved = self.share(or_zero(found.slack))
        furthest = Max(moved, self._moved(make, found.value, [a, b], {0: led}))
        is_one_period = And(LT(led * FloatImm(WIDE, 2.02), divisor), LE(furthest, led * FloatImm(WIDE, 1.01)))
        most = Select(LT(led, INFINITY), divisor * FloatImm(WIDE, 2.0) + or_zero(of_b), INFINITY)
        return replace(found, slack=Select(Or(Not(GT(led, ZERO)), is_one_period), moved, most))

    def step(self, make: Callable[..., PrimExpr], item: Estimate, whole: int = ALWAYS) -> Estimate:
        """A function without rounding of its own that may jump: floor, a cast to integers."""
        value = self.share(make(item.value))
        of_item = self.error(item)
        slack = None if of_item is None else self._moved(make, value, [item], {0: of_item})
        return Estimate(value, slack, whole=whole)

    def _moved(
        self,
        make: Callable[..., PrimExpr],
        value: PrimExpr,
        args: list[Estimate],
        errors: Mapping[int, PrimExpr],
    ) -> PrimExpr:
        """How far a function is from its value at the corners of what some of its operands, by position, may be."""
        values = [item.value for item in args]
        here = {position: self.share(widened(values[position])) for position in errors}
        moved: PrimExpr | None = None
        known: PrimExpr = EQ(ZERO, ZERO)
        for signs in itertools.product((1, -1), repeat=len(errors)):
            there = list(values)
            for sign, (position, error) in zip(signs, errors.items()):
                there[position] = here[position] + error if sign > 0 else here[position] - error
            away = self.share(_outwards(magnitude(widened(make(*there)) - widened(value))))
            moved = _larger(moved, away)
            known = And(known, EQ(away, away))
        assert moved is not None
        # NaN at one corner only: the kernel may have either. At NaN and infinity nothing moves.
        found: PrimExpr = Select(known, moved, INFINITY)
        for position, error in errors.items():
            found = Select(And(GT(error, ZERO), LT(magnitude(here[position]), INFINITY)), found, ZERO)
        for error in errors.values():
            found = _unless_anything(error, found)
        return found

    # ---- conditions ------------------------------------------------------------------------------------------

    def compare(self, value: PrimExpr, a: Estimate, b: Estimate) -> Estimate:
        """A comparison, which may turn out either way where the operands are closer than their errors."""
        error = added(self.error(a), self.error(b))
        if error is None:
            return Estimate(value)
        error = self.share(error)
        apart = magnitude(widened(a.value) - widened(b.value))
        reach = or_zero(added(error, _lost_in_widening(a.value, b.value)))
        return Estimate(value, And(GT(error, ZERO), Not(GT(apart, reach))))

    def choose(
        self, make: Callable[..., PrimExpr], condition: Estimate, a: Estimate, b: Estimate, lazy: bool
    ) -> Estimate:
        """One of two values by a condition."""
        value = make(condition.value, a.value, b.value)
        whole = min(a.whole, b.whole)
        if condition.slack is None and a.slack is None and b.slack is None:
            return Estimate(
                value,
                None,
                max(a.relative, b.relative),
                max(a.floor, b.floor),
                whole,
                min(a.limit, b.limit),
                min(a.largest, b.largest),
            )
        if dt.is_bool(value.dtype):
            return self._either_condition(value, make, condition, a, b)
        of_a, of_b = self.error(a), self.error(b)
        slack: PrimExpr | None = None
        if of_a is not None or of_b is not None:
            slack = make(condition.value, or_zero(of_a), or_zero(of_b))
        if condition.slack is not None:
            other: PrimExpr = INFINITY
            if not lazy:
                both = added(of_a, of_b)
                distance = self._distance(widened(a.value), widened(b.value))
                lost = _lost_in_widening(a.value, b.value)
                other = or_zero(added(added(distance, lost), both))
            slack = Select(condition.slack, other, or_zero(slack))
        return Estimate(value, slack, whole=whole)

    def _distance(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """How far two values are from each other: nothing where they are the same, as two infinities or NaNs are."""
        a, b = self.share(a), self.share(b)
        apart = self.share(_outwards(magnitude(a - b)))
        same = Or(EQ(a, b), And(Not(EQ(a, a)), Not(EQ(b, b))))
        return Select(LT(apart, INFINITY), apart, Select(same, ZERO, INFINITY))

    @staticmethod
    def _either_condition(
        value: PrimExpr,
        make: Callable[..., PrimExpr],
        condition: Estimate,
        a: Estimate,
        b: Estimate,
    ) -> Estimate:
        no = Not(EQ(ZERO, ZERO))
        slack: PrimExpr = make(
            condition.value, no if a.slack is None else a.slack, no if b.slack is None else b.slack
        )
        return Estimate(value, slack if condition.slack is None else Or(condition.slack, slack))

    # ---- conversions -----------------------------------------------------------------------------------------

    def cast(self, dtype: str, item: Estimate, source: str) -> Estimate:
        """A conversion from the dtype ``source``."""
        if dt.is_float(dtype):
            return self._to_float(dtype, item, source)
        if dt.is_float(source):
            if dt.is_bool(dtype):
                return self.compare(Cast(dtype, item.value), item, Estimate(ZERO))
            return self.step(lambda value: Cast(dtype, value), item)
        if dt.is_bool(dtype) and not dt.is_bool(source):
            return self.compare(Cast(dtype, item.value), item, Estimate(ZERO))
        value = Cast(dtype, item.value)
        return Estimate(value, item.slack) if dt.is_bool(dtype) else self.unless_it_wraps(value, item.slack)

    def _to_float(self, dtype: str, item: Estimate, source: str) -> Estimate:
        form = format_of(dtype)
        if not dt.is_float(source):
            value = widened(item.value)
            slack = as_distance(item.slack)
            if dt.is_bool(source) or holds(dtype, source):
                return self.within(Estimate(value, slack), dtype)
            return self.operation(value, dtype, slack, ALWAYS)
        if _contains(form, format_of(source)):
            return item
        is_certain, item = item.certain, self.within(item, dtype)
        if is_certain:  # rounded once, as the kernel rounds it
            return Estimate(widened(Cast(dtype, item.value)), item.slack, whole=item.whole)
        return replace(
            item,
            relative=item.relative + form.unit,
            floor=item.floor + form.tiny,
            limit=min(item.limit, form.whole),
            largest=min(item.largest, form.largest),
        )

    # ---- integers that depend on floats ----------------------------------------------------------------------

    def integer(self, value: PrimExpr, a: Estimate, b: Estimate, kind: str) -> Estimate:
        """Arithmetic of integers, which has errors only where a float that was rounded decided an operand."""
        if a.certain and b.certain:
            return Estimate(value)
        of_a, of_b = self.error(a), self.error(b)
        if dt.is_bool(value.dtype):
            doubts = [item for item in (of_a, of_b) if item is not None]
            return Estimate(value, doubts[0] if len(doubts) == 1 else Or(*doubts))
        if kind in ("Add", "Sub"):
            return self.unless_it_wraps(value, added(of_a, of_b))
        if kind in ("Min", "Max"):
            return Estimate(value, _larger(of_a, of_b))
        if kind == "Mul":
            slack = added(
                scaled(of_a, magnitude(widened(b.value))), scaled(of_b, magnitude(widened(a.value)))
            )
            if of_a is not None and of_b is not None:
                slack = added(slack, scaled(of_a, of_b))
            return self.unless_it_wraps(value, slack)
        error = added(of_a, of_b)
        assert error is not None
        return Estimate(value, Select(GT(error, ZERO), INFINITY, ZERO))

    def unless_it_wraps(self, value: PrimExpr, slack: PrimExpr | None) -> Estimate:
        """An integer of its type; anything where an error leads over an end of it, behind which numbers go on at the other end.

        The sums with the ends themselves may be rounded in float64: then they count as beyond.
        """
        error = as_distance(slack)
        if error is None:
            return Estimate(value)
        value, error = self.share(value), self.share(error)
        low, high = (FloatImm(WIDE, float(end)) for end in dt.integer_range(value.dtype))
        one = FloatImm(WIDE, 1.0)
        wide = widened(value)
        within = And(LT(wide + error, high + one), GT(wide - error, low - one))
        return Estimate(value, Select(Or(within, Not(GT(error, ZERO))), error, INFINITY))


def _with(size: PrimExpr, slack: PrimExpr | None) -> PrimExpr:
    """How large a number of a size may be in the kernel."""
    return size if slack is None else size + slack


def _overflow(value: PrimExpr, a: Estimate, b: Estimate) -> PrimExpr:
    """Anything where a product of numbers is none in float64: a kernel that goes on to add to it rounds the sum only, which may be one."""
    finite = And(LT(magnitude(a.value), INFINITY), LT(magnitude(b.value), INFINITY))
    return Select(And(finite, Not(LT(magnitude(value), INFINITY))), INFINITY, ZERO)


def _outwards(distance: PrimExpr) -> PrimExpr:
    """A distance that is no less than it is without the rounding of float64: beside a large number a small one may vanish in it."""
    return distance * FloatImm(WIDE, 1.0 + 2.0**-50)


def _lost_in_widening(a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """What float64 may lose of the distance of two integers that it does not hold."""
    if not dt.is_integral(a.dtype) or holds(WIDE, a.dtype):
        return None
    return (magnitude(widened(a)) + magnitude(widened(b))) * FloatImm(WIDE, 2.0**-52)


def _is_constant(item: Estimate) -> bool:
    return item.certain and isinstance(item.value, FloatImm)


def _is_power_of_two(item: Estimate) -> bool:
    return _is_constant(item) and math.frexp(abs(getattr(item.value, "value", 0.0)))[0] == 0.5


def _unless_anything(error: PrimExpr, moved: PrimExpr) -> PrimExpr:
    """What an operand's error moves a result by: what may be anything may be NaN, whatever the function."""
    return Select(LT(error, INFINITY), moved, INFINITY)


def _larger(first: PrimExpr | None, second: PrimExpr | None) -> PrimExpr | None:
    if first is None or second is None:
        return second if first is None else first
    return Max(first, second)


def _contains(wide: Format, narrow: Format) -> bool:
    """Whether each number of the one format is a number of the other."""
    return wide.unit <= narrow.unit and wide.largest >= narrow.largest and wide.tiny <= narrow.tiny
