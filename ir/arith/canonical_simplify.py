"""Canonical form of integer expressions: sums of scaled splits, ``sum((index % upper) // lower * scale) + base``.

Splits of the same index recombine (``x // 8 * 8 + x % 8`` is ``x``), constants divide through, and terms are ordered by
falling scale, so that equal expressions come out equal. The method is the one described for Halide-derived simplifiers
in TVM (Chen et al., OSDI 2018); products of symbolic extents go through :mod:`ir.arith.polynomial`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, Any

from .. import dtype as dt
from ..tir import expr as E
from ..tir.expr import IntImm
from . import build
from .canonical_form import (
    FLOOR,
    TRUNC,
    UNBOUNDED,
    Split,
    Sum,
    factors_of,
    product_of,
    recombined,
    remainder_of,
)
from .const_int_bound import NEG_INF, POS_INF
from .deep_equal import expr_deep_equal
from .polynomial import Atoms, Polynomial, TooLarge, plus, split_by

if TYPE_CHECKING:
    from .analyzer import Analyzer


class CanonicalSimplifier:
    """Brings expressions to canonical form for one analyzer."""

    def __init__(self, parent: Analyzer) -> None:
        self._parent = parent
        self.memo: dict[int, tuple[Any, Any]] = {}

    def __call__(self, expr: Any) -> Any:
        return self.visit(expr)

    def visit(self, e: Any) -> Any:
        """The canonical expression."""
        cls = e.__class__
        if cls is IntImm:
            return e
        if (cls is E.Var or cls is E.SizeVar) and not self._parent._rewrite.substitutions:
            return e
        return self._normalized(self._form(e))

    # ---- forms --------------------------------------------------------------------------------------------------

    def _form(self, e: Any) -> Any:
        """A Sum, a Split or an expression that is neither."""
        cls = e.__class__
        if cls is IntImm:
            return e
        if cls is E.Var or cls is E.SizeVar:
            return self._parent._rewrite.visit(e)
        found = self.memo.get(id(e))
        if found is not None:
            return found[1]
        method = _TABLE.get(cls)
        if (
            method is not None
            and dt.parse(e.dtype if cls is not E.LT else e.a.dtype)[::2] in _SCALAR_INTEGERS
        ):
            result = method(self, e)
        else:
            result = self._other(e)
        self.memo[id(e)] = (e, result)
        return result

    def _normalized(self, form: Any) -> Any:
        cls = form.__class__
        if cls is Split:
            if form.expr is None:
                form.expr = form.normalized()
            return form.expr
        if cls is Sum:
            if form.expr is None:
                form.expr = self._normalized_sum(form)
            return form.expr
        return form

    def _normalized_sum(self, form: Sum) -> Any:
        dtype = form.dtype
        if not form.args:
            return build.const(form.base, dtype)
        args, base = recombined(form.args), form.base
        if any(item.index.__class__ in _SUMS and item.is_plain() for item in args):
            # Recombination has made a sum whole again: its terms may meet others.
            flat = Sum(dtype, [], base)
            for item in args:
                part = self._form(item.index) if item.index.__class__ in _SUMS and item.is_plain() else None
                flat = (
                    flat.plus(item, 1) if part is None else flat.plus(self._as_sum(part, dtype), item.scale)
                )
            args, base = recombined(flat.args), flat.base
        if len(args) > 1 or base:
            args, base = self._cancelled(args, base, dtype)
        low = -(1 << (dt.bits(dtype) - 1))
        result: Any = None
        for item in args:
            if item.scale > 0:
                term = item.normalized()
                result = term if result is None else build.add(result, term)
        if base > 0 or base == low:
            result = (
                build.const(base, dtype) if result is None else build.add(result, build.const(base, dtype))
            )
        if result is None:
            result = build.const(0, dtype)
        for item in args:
            if item.scale < 0:
                result = build.sub(result, item.normalized(-1))
        return build.sub(result, build.const(-base, dtype)) if base < 0 and base != low else result

    def _cancelled(self, args: list[Split], base: int, dtype: str) -> tuple[list[Split], int]:
        """Products are multiplied out where that makes terms cancel or merge, and left as they are elsewhere."""
        if not any(item.index.__class__ is E.Mul and item.is_plain() for item in args):
            return args, base
        atoms = Atoms()
        total: Polynomial = {(): base} if base else {}
        separate = 1 if base else 0
        others = []
        try:
            for item in args:
                if item.is_plain():
                    poly = atoms.expand(item.index)
                    separate += len(poly)
                    total = plus(total, poly, item.scale)
                else:
                    others.append(item)
        except TooLarge:
            return args, base
        if len(total) >= separate:
            return args, base
        merged = [
            Split(atoms.product(monomial, 1, dtype), scale=coeff)
            for monomial, coeff in total.items()
            if monomial
        ]
        return recombined(merged + others), total.get((), 0)

    def _as_split(self, form: Any) -> Split:
        if form.__class__ is Split:
            return form  # type: ignore[no-any-return]
        if form.__class__ is Sum:
            if form.base == 0 and len(form.args) == 1:
                return form.args[0]  # type: ignore[no-any-return]
            form = self._normalized(form)
        return Split(form)

    def _as_sum(self, form: Any, dtype: str) -> Sum:
        cls = form.__class__
        if cls is Sum:
            return form  # type: ignore[no-any-return]
        if cls is IntImm:
            return Sum(dtype, [], form.value)
        return Sum(dtype, [form if cls is Split else Split(form)], 0)

    # ---- sums and products --------------------------------------------------------------------------------------

    def _add(self, e: Any, factor: int = 1) -> Any:
        a, b = self._form(e.a), self._form(e.b)
        if a.__class__ is IntImm and b.__class__ is IntImm:
            return build.const(E._wrap(a.value + factor * b.value, e.dtype), e.dtype)
        if b.__class__ is IntImm and b.value == 0:
            return a
        right = b.value if b.__class__ is IntImm else b if b.__class__ in (Sum, Split) else Split(b)
        return self._as_sum(a, e.dtype).plus(right, factor)

    def _sub(self, e: Any) -> Any:
        return self._add(e, -1)

    def _mul(self, e: Any) -> Any:
        a, b = self._form(e.a), self._form(e.b)
        if a.__class__ is IntImm:
            a, b = b, a
        if b.__class__ is IntImm:
            if a.__class__ is IntImm:
                return build.const(E._wrap(a.value * b.value, e.dtype), e.dtype)
            return a.scaled(b.value) if a.__class__ is Sum else self._as_split(a).scaled(b.value)
        # Constant factors of both sides come outside, so that multiples of one product are seen as such.
        a, left = self._without_factor(a)
        b, right = self._without_factor(b)
        product = self._ordered_product(e, a, b)
        return Split(product, scale=left * right)

    def _without_factor(self, form: Any) -> tuple[Any, int]:
        if form.__class__ is Split or (form.__class__ is Sum and form.base == 0 and len(form.args) == 1):
            split = self._as_split(form)
            return Split(split.index, split.lower, split.upper, 1, split.mode).normalized(), split.scale
        return self._normalized(form), 1

    def _ordered_product(self, e: Any, a: Any, b: Any) -> Any:
        return e if a is e.a and b is e.b else build.mul(a, b)

    # ---- division -----------------------------------------------------------------------------------------------

    def _separate(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        """The terms that the divisor divides, and the others."""
        yes = Sum(form.dtype, [], 0)
        no = Sum(form.dtype, [], 0)
        for item in form.args:
            (yes if item.scale % divisor == 0 else no).args.append(item)
        if form.base % divisor == 0:
            yes.base = form.base
        else:
            no.base = form.base
        return yes, no

    def _prepared(self, form: Any) -> Any:
        """A sum with its splits recombined, so that divisibility is seen."""
        if form.__class__ is Sum and len(form.args) > 1:
            args = recombined(form.args)
            return Sum(form.dtype, args, form.base) if len(args) != len(form.args) else form
        return form

    def _floordiv(self, e: Any) -> Any:
        a, b = self._prepared(self._form(e.a)), self._form(e.b)
        if b.__class__ is not IntImm:
            return self._symbolic_division(e, self._normalized(a), self._normalized(b))
        divisor = b.value
        if divisor == 0:
            return self._rebuilt(e, self._normalized(a), b)
        if a.__class__ is IntImm:
            return build.const(a.value // divisor, e.dtype)
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
            return build.const(low // divisor, e.dtype)
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
            return build.const(a.value % divisor, e.dtype)
        if divisor < 0:
            return self._by_rules(e, self._normalized(a), b)
        if a.__class__ is Sum:
            _, rest = self._separate(a, divisor)
            if not rest.args:
                return build.const(rest.base % divisor, e.dtype)
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
        if split.mode != mode:
            split = (
                Split(split.index, split.lower, split.upper, split.scale, mode)
                if split.is_plain()
                else Split(split.normalized(), mode=mode)
            )
        if split.scale % divisor == 0:
            return Split(split.index, split.lower, split.upper, split.scale // divisor, mode)
        if (split.scale > 0 or split.is_plain()) and divisor % split.scale == 0:
            factor = divisor // split.scale
            if split.upper == UNBOUNDED or split.upper % (split.lower * factor) == 0:
                return Split(split.index, split.lower * factor, split.upper, 1, mode)
            if split.upper <= split.lower * factor:
                return build.const(0, split.dtype)  # (x % a) // b is 0 for b >= a
            return Split(
                remainder_of(split.index, split.upper, mode), split.lower * factor, UNBOUNDED, 1, mode
            )
        return Split(split.normalized(), divisor, UNBOUNDED, 1, mode)

    def _split_mod(self, split: Split, divisor: int, mode: int) -> Any:
        """A split modulo a positive constant."""
        if split.mode != mode:
            split = (
                Split(split.index, split.lower, split.upper, split.scale, mode)
                if split.is_plain()
                else Split(split.normalized(), mode=mode)
            )
        if split.scale % divisor == 0:
            return build.const(0, split.dtype)
        if (split.scale > 0 or split.is_plain()) and divisor % split.scale == 0:
            # (x * c1) % (c2 * c1) = (x % c2) * c1, and (x // c1) % c2 = (x % (c1 * c2)) // c1
            upper = split.lower * (divisor // split.scale)
            if split.upper == UNBOUNDED or split.upper % upper == 0:
                if split.upper != UNBOUNDED and upper < split.upper:
                    # A smaller modulus may let more of the index go.
                    index = build.const(upper, split.dtype)
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

    def _rebuilt(self, e: Any, a: Any, b: Any) -> Any:
        return e if a is e.a and b is e.b else type(e)(a, b)

    def _by_rules(self, e: Any, a: Any, b: Any) -> Any:
        """What the rewrite rules make of the node with canonical operands."""
        result = self._parent._rewrite.combine(e.__class__, a, b)
        return self._rebuilt(e, a, b) if result is None else result

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
            return build.const(0, e.dtype)
        return self._split_div(self._as_split(a), divisor, TRUNC)

    def _truncmod(self, e: Any) -> Any:
        a, b = self._prepared(self._form(e.a)), self._form(e.b)
        if b.__class__ is IntImm and b.value < 0:
            b = build.const(-b.value, b.dtype)  # the sign of the divisor does not matter
        if b.__class__ is not IntImm or b.value <= 0 or a.__class__ is IntImm:
            return self._by_rules(e, self._normalized(a), self._normalized(b))
        divisor = b.value
        bounds = self._parent._bounds
        if a.__class__ is Sum:
            whole, rest = self._separate(a, divisor)
            if not rest.args and rest.base == 0:
                return build.const(0, e.dtype)
            if bounds(self._normalized(whole))[0] >= 0 and bounds(self._normalized(rest))[0] >= 0:
                low, high = bounds(self._normalized(rest))
                if high < divisor:
                    return rest
                if rest.base >= 0 and bounds(self._normalized(Sum(rest.dtype, rest.args, 0)))[0] >= 0:
                    rest = Sum(rest.dtype, rest.args, rest.base % divisor)
                return self._split_mod(self._as_split(rest), divisor, TRUNC)
            return self._split_mod(self._as_split(a), divisor, TRUNC)
        low, high = bounds(self._normalized(a))
        if low > -divisor and high < divisor:
            return a
        return self._split_mod(self._as_split(a), divisor, TRUNC)

    # ---- comparisons, casts, everything else --------------------------------------------------------------------

    def _lt(self, e: Any) -> Any:
        """``sum < c``: terms that cannot matter are dropped, and common factors divided out."""
        a, b = self.visit(e.a), self.visit(e.b)
        simplified = self._less(a, b)
        if simplified is not None:
            return simplified
        return self._by_rules(e, a, b)

    def _less(self, a: Any, b: Any) -> Any:
        """``a < b`` as ``sum < constant`` without what cannot matter; None where nothing goes."""
        form = self._as_sum(self._form(build.sub(a, b)), a.dtype)
        args = recombined(form.args)
        if not args:
            return build.boolean(form.base < 0)
        form, changed = Sum(form.dtype, args, form.base), False
        while True:
            reduced = self._reduced(form)
            if reduced is None:
                break
            form, changed = reduced, True
        return self._less_than_zero(form) if changed else None

    def _reduced(self, form: Sum) -> Sum | None:
        """A shorter sum that is negative for the same values; None when there is none."""
        common = 0
        for item in form.args:
            common = gcd(common, item.scale)
        if common > 1:
            # x c + b < 0 is x + floor(b / c) < 0 for integer x, b rounded down
            return Sum(form.dtype, form.args, form.base - form.base % common).divided(common)
        for candidate in sorted({abs(item.scale) for item in form.args}, reverse=True):
            if candidate <= 1:
                break
            whole, rest = self._separate(form, candidate)
            # x c + y + b < 0, where c divides all of x c and 0 <= y + b % c < c, is x + b // c < 0
            constant, rest.base = form.base - form.base % candidate, form.base % candidate
            low, high = self._parent._bounds(self._normalized(rest))
            if 0 <= low and high < candidate:
                return Sum(form.dtype, whole.args, constant).divided(candidate)
            if len(rest.args) == 1 and rest.base == 0:
                # x c + (y % m) // l < 0 with c l dividing m is x + (y % m) // (c l) < 0
                extra = rest.args[0]
                if (
                    extra.scale == 1
                    and extra.upper != UNBOUNDED
                    and extra.upper % (candidate * extra.lower) == 0
                ):
                    shorter = self._split_div(extra, candidate, extra.mode)
                    return (
                        Sum(form.dtype, whole.args, constant)
                        .divided(candidate)
                        .plus(self._as_split(shorter), 1)
                    )
        return None

    def _less_than_zero(self, form: Sum) -> Any:
        """The comparison ``form < 0`` with the constant right of the sign."""
        rewrite = self._parent._rewrite
        if not form.args:
            return build.boolean(form.base < 0)
        left: Any = self._normalized(Sum(form.dtype, form.args, 0))
        right: Any = build.const(-form.base, form.dtype)
        if len(form.args) == 1 and form.args[0].scale < 0:
            # -x < c is -c < x
            left, right = build.const(form.base, form.dtype), self._normalized(form.args[0].scaled(-1))
        result = rewrite.combine(E.LT, left, right)
        return build.lt(left, right) if result is None else result

    def _cast(self, e: Any) -> Any:
        if dt.parse(e.value.dtype)[::2] not in _SCALAR_INTEGERS:
            return self._other(e)
        value = self._form(e.value)
        if value.__class__ is Sum and self._may_push(value, e.dtype):
            args = [self._cast_split(item, e.dtype) for item in value.args]
            return Sum(e.dtype, [], value.base).plus(Sum(e.dtype, args, 0), 1)
        if value.__class__ is Split and self._may_push_split(value, e.dtype):
            return self._cast_split(value, e.dtype)
        return E.cast(e.dtype, self._normalized(value))

    def _cast_split(self, item: Split, dtype: str) -> Split:
        return Split(E.cast(dtype, item.index), item.lower, item.upper, item.scale, item.mode)

    def _fits(self, expr: Any, dtype: str) -> bool:
        low, high = self._parent._bounds(expr)
        minimum, maximum = dt.integer_range(dtype)
        return minimum <= low and high <= maximum

    def _may_push_split(self, item: Split, dtype: str) -> bool:
        if dt.code(dtype) == dt.code(item.dtype) == "int" and dt.bits(dtype) >= dt.bits(item.dtype):
            return True  # signed arithmetic does not overflow
        return self._fits(item.index, dtype) and self._fits(item.normalized(), dtype)

    def _may_push(self, form: Sum, dtype: str) -> bool:
        if dt.code(dtype) == dt.code(form.dtype) == "int" and dt.bits(dtype) >= dt.bits(form.dtype):
            return True
        partial = Sum(form.dtype, [], 0)
        minimum, maximum = dt.integer_range(dtype)
        if not minimum <= form.base <= maximum:
            return False
        for item in form.args:
            partial = partial.plus(item, 1)
            if not self._may_push_split(item, dtype) or not self._fits(self._normalized(partial), dtype):
                return False
        return self._fits(self._normalized(form), dtype)

    def _other(self, e: Any) -> Any:
        """Nodes without a canonical form: children canonical, then the rewrite rules."""
        rewrite = self._parent._rewrite
        cls = e.__class__
        if cls is E.Select or cls is E.Call or cls is E.Let:
            return self._choice(e)
        mapped = e._map_children(self._child)
        if mapped.__class__ in _RULED:
            a, b = mapped.a, mapped.b
            if mapped.__class__ in _COMPARISONS:
                less = self._comparison(mapped)
                if less is not None:
                    return less
                result = rewrite.compare(mapped.__class__, a, b)
            else:
                result = rewrite.combine(mapped.__class__, a, b)
            mapped = mapped if result is None else result
        elif mapped.__class__ is E.Not:
            mapped = rewrite.negate(mapped.a)
        if rewrite.literals and dt.is_bool(mapped.dtype) and mapped.__class__ is not IntImm:
            mapped = rewrite._known(mapped)
        return mapped

    def _child(self, e: Any) -> Any:
        if isinstance(e, E.PrimExpr):
            return self.visit(e)
        return (
            e
            if e.is_variable or not e._fields
            else self._parent._rewrite.visit(e)
            if isinstance(e, E.Range)
            else e
        )

    def _comparison(self, e: Any) -> Any:
        """``<=``, ``>`` and ``>=`` by way of ``<``; ``==`` of canonical differences."""
        if dt.parse(e.a.dtype)[::2] not in _SCALAR_INTEGERS:
            return None
        cls, rewrite = e.__class__, self._parent._rewrite
        if cls is E.GT:
            return self._less(e.b, e.a)
        if cls in (E.LE, E.GE):
            a, b = (e.b, e.a) if cls is E.LE else (e.a, e.b)
            less = self._less(a, b)
            return None if less is None else rewrite.negate(less)
        difference = self.visit(build.sub(e.a, e.b))
        if difference.__class__ is IntImm:
            return build.boolean((difference.value == 0) is (cls is E.EQ))
        return None

    def _choice(self, e: Any) -> Any:
        """Select, if_then_else and other calls: branches are canonical under their condition."""
        rewrite, parent = self._parent._rewrite, self._parent
        cls = e.__class__
        if cls is E.Select or getattr(getattr(e, "op", None), "name", "") == "tir.if_then_else":
            parts = (e.condition, e.true_value, e.false_value) if cls is E.Select else e.args
            condition = self.visit(parts[0])
            value = condition.value if condition.__class__ is E.Broadcast else condition
            if value.__class__ is IntImm:
                return self._form(parts[1] if value.value else parts[2])
            if dt.lanes(condition.dtype) == 1:
                with parent.constraint_scope(condition):
                    yes = self.visit(parts[1])
                with parent.constraint_scope(rewrite.negate(condition)):
                    no = self.visit(parts[2])
            else:
                yes, no = self.visit(parts[1]), self.visit(parts[2])
            if expr_deep_equal(yes, no):
                return yes
            if condition is parts[0] and yes is parts[1] and no is parts[2]:
                return e
            return E.Select(condition, yes, no) if cls is E.Select else e.replace(args=(condition, yes, no))
        if cls is E.Let:
            simplified = rewrite.visit(e)
            return simplified if simplified.__class__ is E.Let else self._form(simplified)
        return rewrite.visit(e._map_children(self._child))


_SUMS = frozenset((E.Add, E.Sub))
_SCALAR_INTEGERS = (("int", 1), ("uint", 1))
_COMPARISONS = frozenset((E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE))
_RULED = _COMPARISONS | {E.Min, E.Max, E.And, E.Or, E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod}
_TABLE: dict[type, Callable[[CanonicalSimplifier, Any], Any]] = {
    E.Add: CanonicalSimplifier._add,
    E.Sub: CanonicalSimplifier._sub,
    E.Mul: CanonicalSimplifier._mul,
    E.FloorDiv: CanonicalSimplifier._floordiv,
    E.FloorMod: CanonicalSimplifier._floormod,
    E.Div: CanonicalSimplifier._truncdiv,
    E.Mod: CanonicalSimplifier._truncmod,
    E.LT: CanonicalSimplifier._lt,
    E.Cast: CanonicalSimplifier._cast,
}
