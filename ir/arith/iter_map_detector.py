"""Detection of iterator maps: expressions become sums of splits, sums that continue one another become one iterator."""

from __future__ import annotations

from typing import Any

from .. import dtype as dt
from ..tir import expr as E
from ..tir import operators
from ..tir.expr import IntImm, PrimExpr
from . import build
from .domain import is_number
from .iter_map_expr import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    one,
    source_expr,
    split_of,
)
from .iter_map_fusion import NotAffine
from .iter_map_padding import IterPadding, text_of


class Detector(IterPadding):
    """Turns expressions into sums of splits."""

    terms_apart = False
    """Divide the terms of a sum one by one where that is possible, instead of the sum fused into one iterator."""

    def convert(self, expr: Any) -> IterSumExpr:
        """The sum of splits of an expression; raises NotAffine."""
        cls = expr.__class__
        if cls is E.Var or cls is E.SizeVar:
            found = self.sums.get(expr)
            return IterSumExpr((), expr) if found is None else found
        if cls is IntImm:
            return IterSumExpr((), expr)
        if not self._uses_iterators(expr):
            return IterSumExpr((), expr)
        if not is_number(expr.dtype):
            self._require_exact(expr)
        if cls is E.Add:
            return self.add(self.convert(expr.a), self.convert(expr.b), 1)
        if cls is E.Sub:
            return self.add(self.convert(expr.a), self.convert(expr.b), -1)
        if cls is E.Mul:
            return self._multiply(expr)
        if cls is E.FloorDiv or (cls is E.Div and self._nonnegative(expr)):
            return self._divide(expr)
        if cls is E.FloorMod or (cls is E.Mod and self._nonnegative(expr)):
            return self._remainder(expr)
        if cls is E.Cast and dt.is_integral(expr.value.dtype):
            self._require_exact(expr)
            return self._cast(expr)
        if (
            cls is E.Call
            and getattr(expr.op, "name", "") == "tir.shift_right"
            and expr.args[1].__class__ is IntImm
        ):
            return self._divide(E.FloorDiv(expr.args[0], build.const(1 << expr.args[1].value, expr.dtype)))
        raise NotAffine(f"{expr!r} is not affine in the iterators")

    def _require_exact(self, expr: Any) -> None:
        """What is no index arithmetic wraps; it is affine where that is known not to happen."""
        if self.analyzer.is_index(expr):
            return
        is_cast = expr.__class__ is E.Cast
        if not self.analyzer.is_exact(expr.value if is_cast else expr) or (
            is_cast and not self.analyzer._data._bounds.keeps(expr)
        ):
            raise NotAffine(f"{expr!r} may wrap")

    def _nonnegative(self, expr: Any) -> bool:
        bounds = self.analyzer._bounds
        return bounds(expr.a)[0] >= 0 and bounds(expr.b)[0] > 0

    def _uses_iterators(self, expr: Any) -> bool:
        if expr.__class__ is E.Var or expr.__class__ is E.SizeVar:
            return expr in self.sums
        if not isinstance(expr, PrimExpr):
            return False
        found: list[bool] = []
        expr._visit_children(lambda child: found.append(self._uses_iterators(child)))  # type: ignore[attr-defined]
        return any(found)

    def add(self, a: IterSumExpr, b: IterSumExpr, sign: int) -> IterSumExpr:
        """``a + sign * b``; splits of the same piece are joined."""
        args = list(a.args)
        for item in b.args:
            scale = (
                item.scale if sign == 1 else self.simplify(build.sub(build.const(0, item.dtype), item.scale))
            )
            for position, there in enumerate(args):
                if (
                    self.same_mark(there.source, item.source)
                    and self.equal(there.lower_factor, item.lower_factor)
                    and self.equal(there.extent, item.extent)
                ):
                    total = self.simplify(build.add(there.scale, scale))
                    if build.is_const(total, 0):
                        del args[position]
                    else:
                        args[position] = IterSplitExpr(there.source, there.lower_factor, there.extent, total)
                    break
            else:
                args.append(IterSplitExpr(item.source, item.lower_factor, item.extent, scale))
        base = build.add(a.base, b.base) if sign == 1 else build.sub(a.base, b.base)
        return IterSumExpr(args, self.simplify(base))

    def _multiply(self, expr: Any) -> IterSumExpr:
        a, b = self.convert(expr.a), self.convert(expr.b)
        if a.args and b.args:
            raise NotAffine(f"{expr!r} multiplies two iterators")
        if not a.args:
            a, b = b, a
        factor = b.base
        if build.is_const(factor, 0):
            return IterSumExpr((), factor)
        args = [
            IterSplitExpr(i.source, i.lower_factor, i.extent, self.simplify(build.mul(i.scale, factor)))
            for i in a.args
        ]
        return IterSumExpr(args, self.simplify(build.mul(a.base, factor)))

    def _cast(self, expr: Any) -> IterSumExpr:
        inner = self.convert(expr.value)
        if inner.dtype == expr.dtype:
            return inner
        if inner.args:
            # Extents and scales take the wider dtype; the marks stay what they are over the cast source.
            args = []
            for item in inner.args:
                mark = IterMark(
                    operators.cast(expr.dtype, source_expr(item.source)),
                    operators.cast(expr.dtype, item.source.extent),
                )
                args.append(
                    IterSplitExpr(
                        mark,
                        operators.cast(expr.dtype, item.lower_factor),
                        operators.cast(expr.dtype, item.extent),
                        operators.cast(expr.dtype, item.scale),
                    )
                )
            return IterSumExpr(args, operators.cast(expr.dtype, inner.base))
        return IterSumExpr((), operators.cast(expr.dtype, inner.base))

    def _divisor(self, expr: Any) -> Any:
        divisor = self.convert(expr.b)
        if divisor.args:
            raise NotAffine(f"{expr!r} divides by an iterator")
        if not self.analyzer._prove_ge(divisor.base, 1) and not (
            divisor.base.__class__ is not IntImm and self.analyzer._bounds(divisor.base)[0] >= 0
        ):
            raise NotAffine(f"{expr!r}: the divisor may be zero or negative")
        return divisor.base

    def _divide(self, expr: Any) -> IterSumExpr:
        divisor = self._divisor(expr)
        total = self.convert(expr.a)
        if build.is_const(divisor, 1):
            return total
        if not total.args:
            return IterSumExpr((), self.simplify(build.floordiv(total.base, divisor)))
        if not self.terms_apart and self._may_fuse(total, divisor):
            return self._divide_split(total, divisor)
        whole, rest = self._carried(total, divisor)
        if whole is not None:
            return whole if rest is None else self.add(whole, self._divide_split(rest, divisor), 1)
        return self._divide_split(total, divisor)

    def _carried(self, total: IterSumExpr, divisor: Any) -> tuple[IterSumExpr | None, IterSumExpr | None]:
        """(quotient of the terms that the divisor divides, the other terms); the latter None when it cannot carry."""
        simplify = self.simplify
        whole, rest = [], []
        for item in total.args:
            quotient = simplify(build.floordiv(item.scale, divisor))
            if self.equal(build.mul(quotient, divisor), item.scale):
                whole.append(IterSplitExpr(item.source, item.lower_factor, item.extent, quotient))
            else:
                rest.append(item)
        if not whole and rest:
            return None, None
        base_quotient = simplify(build.floordiv(total.base, divisor))
        exact = self.equal(build.mul(base_quotient, divisor), total.base)
        remainder = simplify(build.sub(total.base, build.mul(base_quotient, divisor)))
        quotient_sum = IterSumExpr(whole, base_quotient)
        if not rest:
            return quotient_sum, None
        rest_sum = IterSumExpr(rest, build.const(0, total.dtype) if exact else remainder)
        if self._within(rest_sum, divisor):
            return quotient_sum, None
        return quotient_sum, rest_sum

    def _within(self, total: IterSumExpr, limit: Any) -> bool:
        """Whether ``0 <= total < limit``."""
        low = high = total.base
        for item in total.args:
            reach = build.mul(build.sub(item.extent, one(item.dtype)), item.scale)
            if self.analyzer._prove_ge(item.scale, 0):
                high = build.add(high, reach)
            else:
                low = build.add(low, reach)
        return self.analyzer._prove_ge(self.simplify(low), 0) and self.analyzer.can_prove(
            build.lt(self.simplify(high), limit)
        )

    def _divide_split(self, total: IterSumExpr, divisor: Any) -> IterSumExpr:
        split, padding_left, beyond = self._fused_split(total, divisor)
        # (x + left + beyond) // d = (x + left) // d + beyond / d
        shift = self.simplify(build.floordiv(beyond, divisor))
        dtype = split.dtype
        if not build.is_const(split.scale, 1):
            scale = split.scale
            if self.divides(divisor, scale):
                factor = self.simplify(build.floordiv(scale, divisor))
                return IterSumExpr(
                    (IterSplitExpr(split.source, split.lower_factor, split.extent, factor),), shift
                )
            if self.divides(scale, divisor) and self.analyzer._prove_ge(scale, 1):
                divisor = self.simplify(build.floordiv(divisor, scale))
                split = IterSplitExpr(split.source, split.lower_factor, split.extent, one(dtype))
            else:
                split = self._strided(split, divisor)
        if (
            build.is_const(padding_left, 0)
            and self._at_most(split.extent, divisor)
            and not self.equal(split.extent, divisor)
        ):
            return IterSumExpr((), shift)
        split, correction = self._padded(split, padding_left, divisor)
        shift = self.simplify(build.add(shift, correction))
        extent = self.simplify(build.floordiv(split.extent, divisor))
        result = IterSplitExpr(
            split.source, self.simplify(build.mul(split.lower_factor, divisor)), extent, split.scale
        )
        if build.is_const(extent, 1):
            return IterSumExpr((), shift)
        return IterSumExpr((result,), shift)

    def _strided(self, split: IterSplitExpr, divisor: Any) -> IterSplitExpr:
        """A split with a scale that does not fit the divisor as a source of its own, which is full of gaps."""
        if self.check_level != IterMapLevel.NoCheck:
            raise NotAffine(f"an iterator of stride {text_of(split.scale)} is divided by {text_of(divisor)}")
        return split_of(self._mark_of(IterSumExpr((split,), build.const(0, split.dtype)), self._reach(split)))

    def _reach(self, split: IterSplitExpr) -> Any:
        """The extent of the scaled split's values."""
        unit = one(split.dtype)
        return self.simplify(build.add(build.mul(build.sub(split.extent, unit), split.scale), unit))

    def _remainder(self, expr: Any) -> IterSumExpr:
        divisor = self._divisor(expr)
        total = self.convert(expr.a)
        zero = build.const(0, total.dtype)
        if build.is_const(divisor, 1):
            return IterSumExpr((), zero)
        if not total.args:
            return IterSumExpr((), self.simplify(build.floormod(total.base, divisor)))
        if not self.terms_apart and self._may_fuse(total, divisor):
            return self._remainder_split(total, divisor)
        kept = [i for i in total.args if not self.divides(divisor, i.scale)]
        base = self.simplify(build.floormod(total.base, divisor))
        if not kept:
            return IterSumExpr((), base)
        rest = IterSumExpr(kept, total.base if len(kept) == len(total.args) else base)
        for candidate in (rest, IterSumExpr(kept, base)):
            if self._within(candidate, divisor):
                return candidate
        return self._remainder_split(rest, divisor)

    def _may_fuse(self, total: IterSumExpr, divisor: Any) -> bool:
        """Whether a sum of several terms, not all multiples of the divisor, continues as one iterator."""
        if len(total.args) < 2 or all(self.divides(divisor, item.scale) for item in total.args):
            return False
        return self.fuse(IterSumExpr(total.args, build.const(0, total.dtype))) is not None

    def _remainder_split(self, rest: IterSumExpr, divisor: Any) -> IterSumExpr:
        zero = build.const(0, rest.dtype)
        split, padding_left, _ = self._fused_split(rest, divisor)
        if not build.is_const(split.scale, 1):
            scale = split.scale
            if self.divides(scale, divisor) and self.analyzer._prove_ge(scale, 1):
                inner = self.simplify(build.floordiv(divisor, scale))
                plain = IterSplitExpr(split.source, split.lower_factor, split.extent, one(split.dtype))
                if not (build.is_const(padding_left, 0) and self._at_most(plain.extent, inner)):
                    plain, _ = self._padded(plain, padding_left, inner)
                extent = self._smaller(inner, plain.extent)
                return IterSumExpr((IterSplitExpr(plain.source, plain.lower_factor, extent, scale),), zero)
            split = self._strided(split, divisor)
        if not (build.is_const(padding_left, 0) and self._at_most(split.extent, divisor)):
            split, _ = self._padded(split, padding_left, divisor)
        extent = self._smaller(divisor, split.extent)
        return IterSumExpr((IterSplitExpr(split.source, split.lower_factor, extent, split.scale),), zero)

    def _fused_split(self, total: IterSumExpr, divisor: Any) -> tuple[IterSplitExpr, Any, Any]:
        """One split for a sum, the part of its offset that becomes padding on the left, and the multiple beyond that."""
        fused = self.fuse(IterSumExpr(total.args, build.const(0, total.dtype)))
        if fused is None:
            raise NotAffine("the terms of a sum overlap or leave gaps, so it cannot be split")
        base = self.simplify(build.add(total.base, build.mul(self.offset_of(fused), fused.scale)))
        left = base if build.is_const(base, 0) else self.simplify(build.floormod(base, divisor))
        if not build.is_const(base, 0) and not build.is_const(left, 0) and not build.is_const(fused.scale, 1):
            raise NotAffine("an offset stands between iterators and their division")
        return fused, left, self.simplify(build.sub(base, left))
