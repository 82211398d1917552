"""Detection of iterator maps: expressions become sums of splits, sums that continue one another become one iterator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from typing import TYPE_CHECKING, Any

from .. import dtype as dt
from ..tir import expr as E
from ..tir.expr import IntImm, PrimExpr, Range
from . import build
from .deep_equal import expr_deep_equal
from .iter_map_expr import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    one,
    source_expr,
    split_of,
    with_extent,
)

if TYPE_CHECKING:
    from .analyzer import Analyzer


class NotAffine(Exception):
    """An expression is no iterator map; the message says why."""


class Padding:
    """How a mark is to be padded so that all divisors of its pieces divide it."""

    def __init__(self, mark: IterMark, factor: Any, left: Any) -> None:
        self.mark, self.factor, self.left = mark, factor, left
        self.needed = False
        self.padded: IterMark | None = None


class Detector:
    """Turns expressions into sums of splits, remembering which marks are fused from which."""

    def __init__(
        self,
        analyzer: Analyzer,
        input_iters: Mapping[Any, Range],
        simplify_trivial: bool,
        check_level: int,
        bounds: Mapping[Any, tuple[Any, Any]] | None = None,
    ) -> None:
        self.analyzer = analyzer
        self.check_level = check_level
        self.padding: Any = build.boolean(False)
        self.terms_apart = False
        """Divide the terms of a sum one by one where that is possible, instead of the sum fused into one iterator."""
        self.collecting = True
        self.paddings: list[Padding] = []
        self.marks: dict[Any, IterMark] = {}
        self.sums: dict[Any, IterSumExpr] = {}
        self._fused: list[tuple[IterSumExpr, IterMark]] = []
        """Sums that were made marks, so that equal sums share one."""
        self._bounded: list[tuple[IterSumExpr, IterMark]] = []
        """Those of them that a predicate bounds."""
        self._offsets: dict[int, Any] = {}
        """Where a fused mark that a predicate bounds from below begins, by the mark's identity."""
        for var, domain in input_iters.items():
            low, extent = domain.min, domain.extent
            if extent.dtype != var.dtype:
                extent = E.cast(var.dtype, extent)
            if low.dtype != var.dtype:
                low = E.cast(var.dtype, low)
            if simplify_trivial and analyzer.can_prove_equal(extent, 1):
                self.sums[var] = IterSumExpr((), low)
            elif build.is_const(low, 0):
                self.marks[var] = mark = IterMark(var, extent)
                self.sums[var] = IterSumExpr((split_of(mark),), build.const(0, var.dtype))
            else:
                self.marks[var] = mark = IterMark(build.sub(var, low), extent)
                self.sums[var] = IterSumExpr((split_of(mark),), low)

    # ---- arithmetic on sums -------------------------------------------------------------------------------------

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
            return self._cast(expr)
        if (
            cls is E.Call
            and getattr(expr.op, "name", "") == "tir.shift_right"
            and expr.args[1].__class__ is IntImm
        ):
            return self._divide(E.FloorDiv(expr.args[0], build.const(1 << expr.args[1].value, expr.dtype)))
        raise NotAffine(f"{expr!r} is not affine in the iterators")

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

    def simplify(self, expr: Any) -> Any:
        return self.analyzer.simplify(expr)

    def equal(self, a: Any, b: Any) -> bool:
        return a is b or self.analyzer.can_prove_equal(a, b)

    def same_mark(self, a: IterMark, b: IterMark) -> bool:
        return a is b or (expr_deep_equal(a.source, b.source) and self.equal(a.extent, b.extent))

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
                    E.cast(expr.dtype, source_expr(item.source)), E.cast(expr.dtype, item.source.extent)
                )
                args.append(
                    IterSplitExpr(
                        mark,
                        E.cast(expr.dtype, item.lower_factor),
                        E.cast(expr.dtype, item.extent),
                        E.cast(expr.dtype, item.scale),
                    )
                )
            return IterSumExpr(args, E.cast(expr.dtype, inner.base))
        return IterSumExpr((), E.cast(expr.dtype, inner.base))

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
            raise NotAffine(f"an iterator of stride {_text(split.scale)} is divided by {_text(divisor)}")
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

    def _smaller(self, a: Any, b: Any) -> Any:
        return b if self.equal(a, b) or self._at_most(b, a) else a

    def divides(self, a: Any, b: Any) -> bool:
        """Whether ``b % a == 0``, proved."""
        if a.__class__ is IntImm and b.__class__ is IntImm:
            return bool(a.value != 0 and b.value % a.value == 0)
        return build.is_const(self.simplify(build.floormod(b, a)), 0)

    # ---- padding ------------------------------------------------------------------------------------------------

    def _padded(self, split: IterSplitExpr, left: Any, divisor: Any) -> tuple[IterSplitExpr, Any]:
        """A split that the divisor divides, for ``(split + left) // divisor``; padded where it has to be.

        All pieces of a mark share one padding, to the left and up to a multiple of what all divisors need together. So a
        first pass over the indices collects what is needed, and a second one uses the padded mark.

        Returns the split and what to add to the quotient of the padded split.
        """
        zero = build.const(0, split.dtype)
        simplify, mark, lower = self.simplify, split.source, split.lower_factor
        reach = simplify(build.mul(lower, divisor))
        record = next((item for item in self.paddings if self.same_mark(item.mark, mark)), None)
        fits = build.is_const(left, 0) and self.divides(divisor, split.extent)
        whole = self._at_most(mark.extent, build.mul(lower, split.extent))
        if self.collecting:
            if record is None:
                record = Padding(mark, reach, zero)
                self.paddings.append(record)
            record.factor = self._common_multiple(record.factor, reach)
            if fits:
                return split, zero
            if self.check_level == IterMapLevel.Bijective:
                raise NotAffine(
                    f"extent {_text(split.extent)} is not divisible by {_text(divisor)}, so padding is needed"
                )
            if not whole:
                raise NotAffine(
                    f"the piece of extent {_text(split.extent)} of an iterator is not divisible by {_text(divisor)}"
                )
            record.needed = True
            offset = simplify(build.mul(left, lower))
            record.left = offset if self._at_most(record.left, offset) else record.left
            return with_extent(split, self._rounded_up(build.add(split.extent, left), divisor)), zero
        if record is None or not record.needed:
            if not fits:
                raise NotAffine(f"extent {_text(split.extent)} is not divisible by {_text(divisor)}")
            return split, zero
        if not whole and not fits:
            raise NotAffine(f"the piece of extent {_text(split.extent)} is not divisible by {_text(divisor)}")
        padded = self._padded_mark(record)
        ahead = simplify(build.floordiv(record.left, lower))
        gap = simplify(build.sub(ahead, left))
        if not self.equal(build.mul(ahead, lower), record.left) or not self.divides(divisor, gap):
            raise NotAffine("the indices need paddings on the left that do not agree")
        if not whole and not build.is_const(record.left, 0):
            raise NotAffine("an inner piece of an iterator that is padded on the left cannot be used")
        extent = simplify(build.floordiv(padded.extent, lower)) if whole else split.extent
        result = IterSplitExpr(padded, lower, extent, split.scale)
        return result, simplify(build.sub(zero, build.floordiv(gap, divisor)))

    def _rounded_up(self, value: Any, factor: Any) -> Any:
        """The next multiple of the factor."""
        rest = build.floormod(build.sub(build.const(0, value.dtype), value), factor)
        return self.simplify(build.add(value, self.simplify(rest)))

    def _common_multiple(self, a: Any, b: Any) -> Any:
        if a.__class__ is IntImm and b.__class__ is IntImm:
            return build.const(lcm(a.value, b.value), a.dtype)
        if self.divides(a, b):
            return b
        return a if self.divides(b, a) else self.simplify(build.mul(a, b))

    def _padded_mark(self, record: Padding) -> IterMark:
        if record.padded is None:
            extent = self.simplify(build.add(record.mark.extent, record.left))
            source = source_expr(record.mark)
            shifted = source if build.is_const(record.left, 0) else build.add(source, record.left)
            record.padded = IterMark(shifted, self._rounded_up(extent, record.factor))
            self._note_padding(shifted, record.left, extent, record.padded.extent, record.factor)
        return record.padded

    def _note_padding(self, value: Any, left: Any, end: Any, padded_extent: Any, divisor: Any) -> None:
        """The padded iterator has no iteration behind it below ``left`` and from ``end`` on."""
        outer, inner = build.floordiv(value, divisor), build.floormod(value, divisor)
        simplify = self.simplify
        if not build.is_const(left, 0):
            row = build.eq(outer, simplify(build.floordiv(left, divisor)))
            edge = E.logical_and(row, build.lt(inner, simplify(build.floormod(left, divisor))))
            self.padding = E.logical_or(self.padding, edge)
        if not self.equal(end, padded_extent):
            row = build.eq(outer, simplify(build.floordiv(end, divisor)))
            edge = E.logical_and(row, build.le(simplify(build.floormod(end, divisor)), inner))
            self.padding = E.logical_or(self.padding, edge)

    def _at_most(self, a: Any, b: Any) -> bool:
        return self.analyzer.can_prove(build.le(a, b))

    # ---- fusing -------------------------------------------------------------------------------------------------

    def _mark_of(self, total: IterSumExpr, extent: Any) -> IterMark:
        for known, mark in self._fused:
            if self._same_sum(known, total):
                return mark
        mark = IterMark(total, extent)
        self._fused.append((total, mark))
        return mark

    def _same_sum(self, a: IterSumExpr, b: IterSumExpr) -> bool:
        if len(a.args) != len(b.args) or not self.equal(a.base, b.base):
            return False
        return all(
            self.same_mark(x.source, y.source)
            and self.equal(x.lower_factor, y.lower_factor)
            and self.equal(x.extent, y.extent)
            and self.equal(x.scale, y.scale)
            for x, y in zip(a.args, b.args)
        )

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

    def fuse(self, total: IterSumExpr) -> IterSplitExpr | None:
        """One split that stands for the sum: its terms, ordered by scale, continue one another; None if they do not."""
        terms, ahead = self._with_bounded(total.args)
        if len(terms) == 1:
            return terms[0]
        ordered = self._in_order(terms)
        if ordered is None:
            return None
        args, base_scale, reach = ordered
        zero = build.const(0, total.dtype)
        scaled = [
            item
            if build.is_const(base_scale, 1)
            else IterSplitExpr(
                item.source,
                item.lower_factor,
                item.extent,
                self.simplify(build.floordiv(item.scale, base_scale)),
            )
            for item in args
        ]
        joined = self._joined(scaled)
        if len(joined) == 1:
            if ahead is not None:
                return None
            only = joined[0]
            return IterSplitExpr(
                only.source, only.lower_factor, only.extent, self.simplify(build.mul(only.scale, base_scale))
            )
        extent = self.simplify(build.floordiv(reach, base_scale))
        mark = self._mark_of(IterSumExpr(joined, zero), extent)
        if ahead is not None and id(mark) not in self._offsets:
            if not self.divides(base_scale, ahead):
                return None
            self._offsets[id(mark)] = self.simplify(build.floordiv(ahead, base_scale))
        return split_of(mark, scale=base_scale)

    def _with_bounded(self, args: Sequence[IterSplitExpr]) -> tuple[Sequence[IterSplitExpr], Any]:
        """The terms with those that make up a sum that a predicate bounds replaced by one split of its mark.

        The second result is where such a sum begins inside of a larger one (None: at zero).
        """
        ahead: Any = None
        for total, mark in self._bounded:
            ratio: Any = None
            rest = list(args)
            for item in total.args:
                there = next(
                    (
                        other
                        for other in rest
                        if self.same_mark(other.source, item.source)
                        and self.equal(other.lower_factor, item.lower_factor)
                        and self.equal(other.extent, item.extent)
                        and self.divides(item.scale, other.scale)
                    ),
                    None,
                )
                factor = None if there is None else self.simplify(build.floordiv(there.scale, item.scale))
                if there is None or (ratio is not None and not self.equal(ratio, factor)):
                    break
                ratio = factor
                rest.remove(there)
            else:
                offset = self._offsets.get(id(mark))
                if rest and offset is not None:
                    start = build.mul(offset, ratio)
                    ahead = self.simplify(start if ahead is None else build.add(ahead, start))
                args = [split_of(mark, scale=ratio), *rest]
        return args, ahead

    def _joined(self, args: list[IterSplitExpr]) -> list[IterSplitExpr]:
        """Neighbouring pieces of one mark become one piece: ``(x // 4) * 4 + x % 4`` is ``x``."""
        result: list[IterSplitExpr] = []
        for item in args:
            if result:
                last = result[-1]
                if (
                    self.same_mark(last.source, item.source)
                    and self.equal(last.lower_factor, build.mul(item.lower_factor, item.extent))
                    and self.equal(last.scale, build.mul(item.scale, item.extent))
                ):
                    extent = self.simplify(build.mul(last.extent, item.extent))
                    result[-1] = IterSplitExpr(item.source, item.lower_factor, extent, item.scale)
                    continue
            result.append(item)
        return result

    def _in_order(self, args: Sequence[IterSplitExpr]) -> tuple[list[IterSplitExpr], Any, Any] | None:
        """The splits with the largest scale first, the last scale, and how far they reach together.

        Each scale must be the reach of the smaller ones. Where maps need not be bijective it may be less: iterators that
        overlap, as the windows of a convolution, cover what lies between without gaps.
        """
        remaining = list(args)
        if any(
            not self.analyzer._prove_ge(item.scale, 1) and item.scale.__class__ is IntImm
            for item in remaining
        ):
            return None
        base_scale = self._smallest_scale(remaining)
        if base_scale is None:
            return None
        reach = base_scale
        ordered: list[IterSplitExpr] = []
        while remaining:
            matching = [item for item in remaining if self.equal(item.scale, reach)]
            if matching:
                # Of pieces with one scale those of extent 1 come first: they do not move the next scale.
                item = next((each for each in matching if build.is_const(each.extent, 1)), matching[0])
                following = build.mul(item.extent, item.scale)
            else:
                overlapping = self._overlapping(remaining, reach, base_scale)
                if overlapping is None:
                    return None
                item = overlapping
                following = build.add(build.mul(build.sub(item.extent, one(item.dtype)), item.scale), reach)
            remaining.remove(item)
            ordered.append(item)
            reach = self.simplify(following)
        return ordered[::-1], base_scale, reach

    def _overlapping(
        self, remaining: list[IterSplitExpr], reach: Any, base_scale: Any
    ) -> IterSplitExpr | None:
        """The piece of the smallest scale, if that is a multiple of the base and smaller than the reach of the others."""
        if self.check_level == IterMapLevel.Bijective or reach.__class__ is not IntImm:
            return None
        if any(item.scale.__class__ is not IntImm for item in remaining):
            return None
        item = min(remaining, key=lambda each: each.scale.value)  # type: ignore[attr-defined]
        fits = item.scale.value < reach.value and self.divides(base_scale, item.scale)  # type: ignore[attr-defined]
        return item if fits else None

    def _smallest_scale(self, args: Sequence[IterSplitExpr]) -> Any:
        constants = [item.scale for item in args if item.scale.__class__ is IntImm]
        if constants:
            return min(constants, key=lambda scale: scale.value)
        for candidate in args:
            if all(other is candidate or self.divides(candidate.scale, other.scale) for other in args):
                return candidate.scale
        return None

    # ---- checks -------------------------------------------------------------------------------------------------

    def constrain(self, expr: IterSumExpr, low: Any, high: Any) -> bool:
        """Limit a fused sum to ``[low, high)`` (None: no limit) as a predicate says; False where that cannot be used."""
        joined = self.fuse(expr)
        if joined is None or not build.is_const(joined.scale, 1):
            return False
        mark = joined.source
        if not build.is_const(joined.lower_factor, 1) or not self.equal(joined.extent, mark.extent):
            return False
        # A fused mark that is bounded already begins at its offset; an iterator's split begins at zero.
        start = self._offsets.get(id(mark), build.const(0, expr.dtype))
        # What the predicate says of the sum, the mark says of its distance from the start.
        low = start if low is None else self.simplify(low)
        end = self.simplify(build.add(start, mark.extent))
        high = end if high is None else self.simplify(high)
        can_prove = self.analyzer.can_prove
        low = start if can_prove(build.le(low, start)) else low
        high = end if can_prove(build.le(end, high)) else high
        extent = self.simplify(build.sub(high, low))
        variable = self._variable_of(mark)
        if variable is not None:
            first = self.simplify(build.add(self.sums[variable].base, low))
            limited = IterMark(variable if build.is_const(first, 0) else build.sub(variable, first), extent)
            self.marks[variable] = limited
            self.sums[variable] = IterSumExpr((split_of(limited),), first)
            return True
        if not isinstance(mark.source, IterSumExpr):
            return False
        source = mark.source
        shifted = IterSumExpr(source.args, self.simplify(build.sub(source.base, build.sub(low, start))))
        limited = IterMark(shifted, extent)
        if not build.is_const(low, 0):
            self._offsets[id(limited)] = low
        self._fused = [(total, limited if known is mark else known) for total, known in self._fused]
        self._bounded = [(total, known) for total, known in self._bounded if known is not mark]
        self._bounded.append((next(total for total, known in self._fused if known is limited), limited))
        return True

    def bounded_marks(self) -> list[IterMark]:
        """The marks of fused sums that the predicate bounds (or the padded ones in their place)."""
        found = []
        for _, mark in self._bounded:
            padded = (
                item.padded
                for item in self.paddings
                if item.padded is not None and self.same_mark(item.mark, mark)
            )
            found.append(next(padded, mark))
        return found

    def _variable_of(self, mark: IterMark) -> Any:
        """The iterator whose own mark this is; None for other marks."""
        return next((var for var, own in self.marks.items() if own is mark), None)

    def offset_of(self, split: IterSplitExpr) -> Any:
        """The value at which a split of a bounded mark begins; zero for others."""
        return self._offsets.get(id(split.source), build.const(0, split.dtype))

    def normalized(self, total: IterSumExpr) -> IterSumExpr:
        """The sum with its terms fused into one where they continue one another, in the order of falling scales."""
        if not total.args:
            return total
        if len(total.args) == 1:
            return total
        fused = self.fuse(IterSumExpr(total.args, build.const(0, total.dtype)))
        if fused is None:
            return total
        start = self.simplify(build.mul(self.offset_of(fused), fused.scale))
        return IterSumExpr((fused,), self.simplify(build.add(total.base, start)))


def _text(expr: Any) -> str:
    return str(expr.value) if expr.__class__ is IntImm else repr(expr)
