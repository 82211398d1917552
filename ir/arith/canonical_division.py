"""Quotients and remainders in canonical form: by constants term by term, by products of symbolic extents, truncating."""

from __future__ import annotations

from math import gcd
from typing import Any

from ..tir import expr as E
from ..tir.expr import IntImm
from . import build
from .canonical_form import FLOOR, TRUNC, UNBOUNDED, Split, Sum, factors_of, product_of, remainder_of
from .canonical_sum import CanonicalSums
from .const_int_bound import NEG_INF, POS_INF
from .deep_equal import expr_deep_equal
from .polynomial import Atoms, TooLarge, split_by


class CanonicalDivision(CanonicalSums):
    """Division of canonical sums."""

    def _floordiv(self, e: Any) -> Any:
        a, b = self._prepared(self._form(e.a)), self._form(e.b)
        if b.__class__ is not IntImm:
            return self._symbolic_division(e, self._normalized(a), self._normalized(b))
        divisor = b.value
        if divisor == 0:
            return self._rebuilt(e, self._normalized(a), b)
        if a.__class__ is IntImm:
            return build.number(a.value // divisor, e.dtype)
        if divisor == 1:
            return a
        if divisor < 0:
            return self._by_rules(e, self._normalized(a), b)
        if a.__class__ is Sum:
            whole, rest = self._separate(a, divisor)
            result = whole.divided(divisor)
            if not rest.args:
                return result.plus(rest.base // divisor, 1)
            temp = self._normalized(rest)
            low, high = self._parent._bounds(temp)
            if low // divisor == high // divisor and low > NEG_INF and high < POS_INF:
                return result.plus(low // divisor, 1)
            if not result.args and result.base == 0:
                return self._split_div(self._as_split(self._by_carry(temp, divisor)), divisor, FLOOR)
            return result.plus(
                self._split_div(self._as_split(self._by_carry(temp, divisor)), divisor, FLOOR), 1
            )
        low, high = self._parent._bounds(self._normalized(a))
        if low > NEG_INF and high < POS_INF and low // divisor == high // divisor:
            return build.number(low // divisor, e.dtype)
        return self._split_div(self._as_split(a), divisor, FLOOR)

    def _by_carry(self, expr: Any, divisor: int) -> Any:
        """Drop from the dividend what cannot carry: ``x c + y`` with c dividing the divisor and 0 <= y < c."""
        form = self._form(expr)
        if form.__class__ is not Sum or (len(form.args) < 2 and form.base == 0):
            return form
        step = 0
        for item in sorted(form.args, key=lambda split: -abs(split.scale)):
            candidate = abs(item.scale)
            if divisor % candidate == 0 and candidate > 1:
                step = candidate
                whole, rest = self._separate(form, step)
                if whole.args and (rest.args or rest.base):
                    low, high = self._parent._bounds(self._normalized(rest))
                    if low >= 0 and high < step:
                        return whole
        return form

    def _floormod(self, e: Any) -> Any:
        a, b = self._prepared(self._form(e.a)), self._form(e.b)
        if b.__class__ is not IntImm:
            return self._symbolic_remainder(e, self._normalized(a), self._normalized(b))
        divisor = b.value
        if divisor == 0:
            return self._rebuilt(e, self._normalized(a), b)
        if a.__class__ is IntImm:
            return build.number(a.value % divisor, e.dtype)
        if divisor < 0:
            return self._by_rules(e, self._normalized(a), b)
        if a.__class__ is Sum:
            _, rest = self._separate(a, divisor)
            if not rest.args:
                return build.number(rest.base % divisor, e.dtype)
            temp = self._normalized(rest)
            low, high = self._parent._bounds(temp)
            if low >= 0 and high < divisor:
                return rest
            # The offset is taken modulo the divisor: (x + off) % c = (x + off % c) % c
            rest = Sum(rest.dtype, rest.args, rest.base % divisor)
            temp = self._normalized(rest)
            low, high = self._parent._bounds(temp)
            if low > NEG_INF and high < POS_INF and low // divisor == high // divisor:
                return rest.plus(-(low // divisor) * divisor, 1)
            carried = self._split_remainder(rest, divisor)
            return carried if carried is not None else self._split_mod(self._as_split(rest), divisor, FLOOR)
        low, high = self._parent._bounds(self._normalized(a))
        if low > NEG_INF and high < POS_INF and low // divisor == high // divisor:
            return (
                a
                if low >= 0 and high < divisor
                else self._as_sum(a, e.dtype).plus(-(low // divisor) * divisor, 1)
            )
        return self._split_mod(self._as_split(a), divisor, FLOOR)

    def _split_remainder(self, form: Sum, divisor: int) -> Any:
        """``(x c + y) % (c d)`` is ``(x % d) c + y`` when 0 <= y < c; None where no term is such a c."""
        if len(form.args) < 2 and form.base == 0:
            return None
        common = gcd(divisor, form.base)
        for item in form.args:
            common = gcd(common, item.scale)
        if common > 1:
            # (g x) % (g d) = (x % d) g
            rest = self._split_remainder(form.divided(common), divisor // common)
            if rest is None:
                rest = self._split_mod(self._as_split(form.divided(common)), divisor // common, FLOOR)
            return self._as_sum(rest, form.dtype).scaled(common)
        for item in sorted(form.args, key=lambda split: -abs(split.scale)):
            step = abs(item.scale)
            if step > 1 and divisor % step == 0:
                whole, rest = self._separate(form, step)
                low, high = self._parent._bounds(self._normalized(rest))
                if low >= 0 and high < step:
                    return rest.plus(self._split_mod(self._as_split(whole), divisor, FLOOR), 1)
        return None

    def _split_div(self, split: Split, divisor: int, mode: int) -> Any:
        """A split divided by a positive constant."""
        if split.scale % divisor == 0:
            return Split(split.index, split.lower, split.upper, split.scale // divisor, split.mode)
        if split.mode != mode:
            split = (
                Split(split.index, split.lower, split.upper, split.scale, mode)
                if split.is_plain()
                else Split(split.normalized(), mode=mode)
            )
        if (split.scale > 0 or split.is_plain()) and divisor % split.scale == 0:
            factor = divisor // split.scale
            if split.upper == UNBOUNDED or split.upper % (split.lower * factor) == 0:
                return Split(split.index, split.lower * factor, split.upper, 1, mode)
            if split.upper <= split.lower * factor:
                return build.number(0, split.dtype)  # (x % a) // b is 0 for b >= a
            return Split(
                remainder_of(split.index, split.upper, mode), split.lower * factor, UNBOUNDED, 1, mode
            )
        return Split(split.normalized(), divisor, UNBOUNDED, 1, mode)

    def _split_mod(self, split: Split, divisor: int, mode: int) -> Any:
        """A split modulo a positive constant."""
        if split.scale % divisor == 0:
            return build.number(0, split.dtype)
        if split.mode != mode:
            split = (
                Split(split.index, split.lower, split.upper, split.scale, mode)
                if split.is_plain()
                else Split(split.normalized(), mode=mode)
            )
        if (split.scale > 0 or split.is_plain()) and divisor % split.scale == 0:
            # (x * c1) % (c2 * c1) = (x % c2) * c1, and (x // c1) % c2 = (x % (c1 * c2)) // c1
            upper = split.lower * (divisor // split.scale)
            if split.upper == UNBOUNDED or split.upper % upper == 0:
                if split.upper != UNBOUNDED and upper < split.upper:
                    # A smaller modulus may let more of the index go.
                    index = build.number(upper, split.dtype)
                    form = self._form(
                        build.floormod(split.index, index)
                        if mode == FLOOR
                        else build.truncmod(split.index, index)
                    )
                    if split.lower != 1:
                        form = self._split_div(self._as_split(form), split.lower, mode)
                    if form.__class__ is Sum:
                        return form.scaled(split.scale)
                    return self._as_split(form).scaled(split.scale)
                return Split(split.index, split.lower, upper, split.scale, mode)
            if upper % split.upper == 0:
                return split  # (x % 2) % 4 = x % 2
        return Split(split.normalized(), 1, divisor, 1, mode)

    # ---- division by products of symbolic extents ---------------------------------------------------------------

    def _symbolic_parts(self, a: Any, b: Any) -> tuple[Any, Any] | None:
        """(quotient, rest) of a sum by a product of variables, term by term; None when no term divides."""
        atoms = Atoms()
        try:
            divisor = atoms.expand(b)
            if len(divisor) != 1:
                return None
            ((monomial, coeff),) = divisor.items()
            if not monomial:
                return None
            quotient, rest = split_by(atoms.expand(a), monomial, coeff)
        except TooLarge:
            return None
        if not quotient:
            return None
        return atoms.expression(quotient, a.dtype), atoms.expression(rest, a.dtype)

    def _cancelled_products(self, a: Any, b: Any) -> tuple[Any, Any, Any] | None:
        """(a / common, b / common, common) of two products with common factors; None when there are none."""
        (left, c1), (right, c2) = factors_of(a), factors_of(b)
        if c2 == 0:
            return None
        divisor = gcd(c1, c2)
        common, kept = [], []
        for item in right:
            position = next((i for i, other in enumerate(left) if expr_deep_equal(item, other)), None)
            if position is None:
                kept.append(item)
            else:
                common.append(item)
                del left[position]
        if not common and divisor == 1:
            return None
        dtype = a.dtype
        return (
            product_of(left, c1 // divisor, dtype),
            product_of(kept, c2 // divisor, dtype),
            product_of(common, divisor, dtype),
        )

    def _divided_products(self, e: Any, a: Any, b: Any) -> Any:
        """``(x y) // (x z)`` is ``y // z`` and ``(x y) % (x z)`` is ``(y % z) x``, with the rules applied to the rest."""
        parts = self._cancelled_products(a, b) if b.__class__ is E.Mul or a.__class__ is E.Mul else None
        if parts is None:
            return self._by_rules(e, a, b)
        left, right, common = parts
        cls = e.__class__
        # Coprime constants have nothing more to cancel.
        result = None if right.__class__ is IntImm else self._parent._rewrite.combine(cls, left, right)
        if result is None:
            result = build.floordiv(left, right) if cls is E.FloorDiv else build.floormod(left, right)
        return result if cls is E.FloorDiv else build.mul(result, common)

    def _symbolic_division(self, e: Any, a: Any, b: Any) -> Any:
        parts = self._symbolic_parts(a, b)
        if parts is None:
            return self._divided_products(e, a, b)
        quotient, rest = parts
        if build.is_const(rest, 0) or (self._parent._prove_ge(rest, 0) and self._parent._below(rest, b)):
            return self._form(quotient)
        if a.__class__ is E.Mul:
            return self._divided_products(e, a, b)
        remaining = self._parent._rewrite.combine(E.FloorDiv, rest, b)
        return self._form(build.add(quotient, build.floordiv(rest, b) if remaining is None else remaining))

    def _symbolic_remainder(self, e: Any, a: Any, b: Any) -> Any:
        parts = self._symbolic_parts(a, b)
        if parts is None:
            return self._divided_products(e, a, b)
        rest = parts[1]
        if build.is_const(rest, 0) or (self._parent._prove_ge(rest, 0) and self._parent._below(rest, b)):
            return self._form(rest)
        if a.__class__ is E.Mul:
            return self._divided_products(e, a, b)
        remaining = self._parent._rewrite.combine(E.FloorMod, rest, b)
        return build.floormod(rest, b) if remaining is None else remaining

    # ---- truncating division ------------------------------------------------------------------------------------

    def _truncdiv(self, e: Any) -> Any:
        a, b = self._prepared(self._form(e.a)), self._form(e.b)
        if b.__class__ is not IntImm or b.value <= 0 or a.__class__ is IntImm:
            return self._by_rules(e, self._normalized(a), self._normalized(b))
        divisor = b.value
        if divisor == 1:
            return a
        bounds = self._parent._bounds
        if a.__class__ is Sum:
            whole, rest = self._separate(a, divisor)
            if not rest.args and rest.base == 0:
                return whole.divided(divisor)
            if bounds(self._normalized(whole))[0] >= 0 and bounds(self._normalized(rest))[0] >= 0:
                result, temp = whole.divided(divisor), self._normalized(rest)
                low, high = bounds(temp)
                if low // divisor == high // divisor and high < POS_INF:
                    return result.plus(low // divisor, 1)
                return result.plus(self._as_split(self._split_div(self._as_split(temp), divisor, TRUNC)), 1)
            return self._split_div(self._as_split(a), divisor, TRUNC)
        low, high = bounds(self._normalized(a))
        if low > -divisor and high < divisor:
            return build.number(0, e.dtype)
        return self._split_div(self._as_split(a), divisor, TRUNC)

    def _truncmod(self, e: Any) -> Any:
        a, b = self._prepared(self._form(e.a)), self._form(e.b)
        if b.__class__ is IntImm and b.value < 0:
            b = build.number(-b.value, b.dtype)  # the sign of the divisor does not matter
        if b.__class__ is not IntImm or b.value <= 0 or a.__class__ is IntImm:
            return self._by_rules(e, self._normalized(a), self._normalized(b))
        divisor = b.value
        bounds = self._parent._bounds
        if a.__class__ is Sum:
            whole, rest = self._separate(a, divisor)
            if not rest.args and rest.base == 0:
                return build.number(0, e.dtype)
            if bounds(self._normalized(whole))[0] >= 0 and bounds(self._normalized(rest))[0] >= 0:
                low, high = bounds(self._normalized(rest))
                if high < divisor:
                    return rest
                if rest.base >= 0 and bounds(self._normalized(Sum(rest.dtype, rest.args, 0)))[0] >= 0:
                    rest = Sum(rest.dtype, rest.args, rest.base % divisor)
                    if bounds(self._normalized(rest))[1] < divisor:
                        return rest
                return self._split_mod(self._as_split(rest), divisor, TRUNC)
            return self._split_mod(self._as_split(a), divisor, TRUNC)
        low, high = bounds(self._normalized(a))
        if low > -divisor and high < divisor:
            return a
        return self._split_mod(self._as_split(a), divisor, TRUNC)
