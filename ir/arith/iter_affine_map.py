"""Iterator maps: which indices are sums of splits of the iterations, so that they are known to be bijective.

A loop nest's indices are affine in pieces of its iterators, ``(fuse(i, j) // lower) % extent * scale``. Detection writes each
index as an :class:`IterSumExpr` of such pieces and checks that the pieces do not overlap and, for a bijection, that
they use every iterator up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from math import lcm
from typing import TYPE_CHECKING, Any

from .. import dtype as dt
from ..error import IRValueError
from ..node import Node, derived, field
from ..tir import expr as E
from ..tir.expr import IntImm, PrimExpr, Range
from . import build
from .deep_equal import expr_deep_equal

if TYPE_CHECKING:
    from ..tir.index_map import IndexMap
    from .analyzer import Analyzer


class IterMapError(IRValueError):
    """An index is no affine map of the iterators, or not of the kind that was asked for."""


class IterMapLevel(IntEnum):
    """What :func:`detect_iter_map` checks."""

    Bijective = 0
    """Every combination of index values is reached exactly once, and every iterator is used."""
    Surjective = 1
    """Every combination of index values is reached."""
    NoCheck = 3
    """Only that indices are affine."""


class IterMapExpr(PrimExpr):
    """Base of the expressions of iterator maps."""


class IterMark(Node, type_key="arith.IterMark"):
    """A source of splits: an iterator variable or a sum of splits, with its extent."""

    source: PrimExpr = field(convert=E._expr)
    extent: PrimExpr = field(convert=E._expr)


class IterSplitExpr(IterMapExpr, type_key="arith.IterSplitExpr"):
    """``((source // lower_factor) % extent) * scale``."""

    source: IterMark
    lower_factor: PrimExpr = field(convert=E._expr)
    extent: PrimExpr = field(convert=E._expr)
    scale: PrimExpr = field(convert=E._expr)
    dtype: str = derived("source.source.dtype")


class IterSumExpr(IterMapExpr, type_key="arith.IterSumExpr"):
    """``sum(args) + base``."""

    args: tuple[IterSplitExpr, ...]
    base: PrimExpr = field(convert=E._expr)
    dtype: str = derived("base.dtype")


class IterMapResult:
    """What :func:`detect_iter_map` found: one IterSumExpr per index (none on failure), errors, and the padding.

    ``padding_predicate`` holds where an index of the padded iteration space has no iteration behind it.
    """

    def __init__(self, indices: Sequence[IterSumExpr], errors: Sequence[str], padding_predicate: PrimExpr) -> None:
        self.indices = tuple(indices)
        self.errors = tuple(errors)
        self.padding_predicate = padding_predicate

    def __repr__(self) -> str:
        return f"IterMapResult(indices={list(self.indices)}, errors={list(self.errors)})"


_new_split: Any = IterSplitExpr


def _one(dtype: str) -> Any:
    return build.const(1, dtype)


def _split(mark: IterMark, lower: Any = None, extent: Any = None, scale: Any = None) -> IterSplitExpr:
    dtype = mark.source.dtype
    return IterSplitExpr(
        mark,
        _one(dtype) if lower is None else lower,
        mark.extent if extent is None else extent,
        _one(dtype) if scale is None else scale,
    )


class _NotAffine(Exception):
    """An expression is no iterator map; the message says why."""


def _with_extent(split: IterSplitExpr, extent: Any) -> IterSplitExpr:
    return IterSplitExpr(split.source, split.lower_factor, extent, split.scale)


class _Padding:
    """How a mark is to be padded so that all divisors of its pieces divide it."""

    def __init__(self, mark: IterMark, factor: Any, left: Any) -> None:
        self.mark, self.factor, self.left = mark, factor, left
        self.needed = False
        self.padded: IterMark | None = None


class _Detector:
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
        self.paddings: list[_Padding] = []
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
                self.sums[var] = IterSumExpr((_split(mark),), build.const(0, var.dtype))
            else:
                self.marks[var] = mark = IterMark(build.sub(var, low), extent)
                self.sums[var] = IterSumExpr((_split(mark),), low)

    # ---- arithmetic on sums -------------------------------------------------------------------------------------

    def convert(self, expr: Any) -> IterSumExpr:
        """The sum of splits of an expression; raises _NotAffine."""
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
        if cls is E.Call and getattr(expr.op, "name", "") == "tir.shift_right" and expr.args[1].__class__ is IntImm:
            return self._divide(E.FloorDiv(expr.args[0], build.const(1 << expr.args[1].value, expr.dtype)))
        raise _NotAffine(f"{expr!r} is not affine in the iterators")

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
            scale = item.scale if sign == 1 else self._simplify(build.sub(build.const(0, item.dtype), item.scale))
            for position, there in enumerate(args):
                if (
                    self._same_mark(there.source, item.source)
                    and self._equal(there.lower_factor, item.lower_factor)
                    and self._equal(there.extent, item.extent)
                ):
                    total = self._simplify(build.add(there.scale, scale))
                    if build.is_const(total, 0):
                        del args[position]
                    else:
                        args[position] = IterSplitExpr(there.source, there.lower_factor, there.extent, total)
                    break
            else:
                args.append(IterSplitExpr(item.source, item.lower_factor, item.extent, scale))
        base = build.add(a.base, b.base) if sign == 1 else build.sub(a.base, b.base)
        return IterSumExpr(args, self._simplify(base))

    def _simplify(self, expr: Any) -> Any:
        return self.analyzer.simplify(expr)

    def _equal(self, a: Any, b: Any) -> bool:
        return a is b or self.analyzer.can_prove_equal(a, b)

    def _same_mark(self, a: IterMark, b: IterMark) -> bool:
        return a is b or (expr_deep_equal(a.source, b.source) and self._equal(a.extent, b.extent))

    def _multiply(self, expr: Any) -> IterSumExpr:
        a, b = self.convert(expr.a), self.convert(expr.b)
        if a.args and b.args:
            raise _NotAffine(f"{expr!r} multiplies two iterators")
        if not a.args:
            a, b = b, a
        factor = b.base
        if build.is_const(factor, 0):
            return IterSumExpr((), factor)
        args = [
            IterSplitExpr(i.source, i.lower_factor, i.extent, self._simplify(build.mul(i.scale, factor))) for i in a.args
        ]
        return IterSumExpr(args, self._simplify(build.mul(a.base, factor)))

    def _cast(self, expr: Any) -> IterSumExpr:
        inner = self.convert(expr.value)
        if inner.dtype == expr.dtype:
            return inner
        if inner.args:
            # Extents and scales take the wider dtype; the marks stay what they are over the cast source.
            args = []
            for item in inner.args:
                mark = IterMark(E.cast(expr.dtype, _source_expr(item.source)), E.cast(expr.dtype, item.source.extent))
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
            raise _NotAffine(f"{expr!r} divides by an iterator")
        if not self.analyzer._prove_ge(divisor.base, 1) and not (
            divisor.base.__class__ is not IntImm and self.analyzer._bounds(divisor.base)[0] >= 0
        ):
            raise _NotAffine(f"{expr!r}: the divisor may be zero or negative")
        return divisor.base

    def _divide(self, expr: Any) -> IterSumExpr:
        divisor = self._divisor(expr)
        total = self.convert(expr.a)
        if build.is_const(divisor, 1):
            return total
        if not total.args:
            return IterSumExpr((), self._simplify(build.floordiv(total.base, divisor)))
        if not self.terms_apart and self._may_fuse(total, divisor):
            return self._divide_split(total, divisor)
        whole, rest = self._carried(total, divisor)
        if whole is not None:
            return whole if rest is None else self.add(whole, self._divide_split(rest, divisor), 1)
        return self._divide_split(total, divisor)

    def _carried(self, total: IterSumExpr, divisor: Any) -> tuple[IterSumExpr | None, IterSumExpr | None]:
        """(quotient of the terms that the divisor divides, the other terms); the latter None when it cannot carry."""
        simplify = self._simplify
        whole, rest = [], []
        for item in total.args:
            quotient = simplify(build.floordiv(item.scale, divisor))
            if self._equal(build.mul(quotient, divisor), item.scale):
                whole.append(IterSplitExpr(item.source, item.lower_factor, item.extent, quotient))
            else:
                rest.append(item)
        if not whole and rest:
            return None, None
        base_quotient = simplify(build.floordiv(total.base, divisor))
        exact = self._equal(build.mul(base_quotient, divisor), total.base)
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
            reach = build.mul(build.sub(item.extent, _one(item.dtype)), item.scale)
            if self.analyzer._prove_ge(item.scale, 0):
                high = build.add(high, reach)
            else:
                low = build.add(low, reach)
        return self.analyzer._prove_ge(self._simplify(low), 0) and self.analyzer.can_prove(
            build.lt(self._simplify(high), limit)
        )

    def _divide_split(self, total: IterSumExpr, divisor: Any) -> IterSumExpr:
        split, padding_left, beyond = self._fused_split(total, divisor)
        # (x + left + beyond) // d = (x + left) // d + beyond / d
        shift = self._simplify(build.floordiv(beyond, divisor))
        dtype = split.dtype
        zero = build.const(0, dtype)
        if not build.is_const(split.scale, 1):
            scale = split.scale
            if self._divides(divisor, scale):
                factor = self._simplify(build.floordiv(scale, divisor))
                return IterSumExpr((IterSplitExpr(split.source, split.lower_factor, split.extent, factor),), shift)
            if self._divides(scale, divisor) and self.analyzer._prove_ge(scale, 1):
                divisor = self._simplify(build.floordiv(divisor, scale))
                split = IterSplitExpr(split.source, split.lower_factor, split.extent, _one(dtype))
            else:
                split = _split(self._mark_of(IterSumExpr((split,), zero), self._reach(split)))
        split, correction = self._padded(split, padding_left, divisor)
        shift = self._simplify(build.add(shift, correction))
        extent = self._simplify(build.floordiv(split.extent, divisor))
        result = IterSplitExpr(
            split.source, self._simplify(build.mul(split.lower_factor, divisor)), extent, split.scale
        )
        if build.is_const(extent, 1):
            return IterSumExpr((), shift)
        return IterSumExpr((result,), shift)

    def _reach(self, split: IterSplitExpr) -> Any:
        """The extent of the scaled split's values."""
        one = _one(split.dtype)
        return self._simplify(build.add(build.mul(build.sub(split.extent, one), split.scale), one))

    def _remainder(self, expr: Any) -> IterSumExpr:
        divisor = self._divisor(expr)
        total = self.convert(expr.a)
        zero = build.const(0, total.dtype)
        if build.is_const(divisor, 1):
            return IterSumExpr((), zero)
        if not total.args:
            return IterSumExpr((), self._simplify(build.floormod(total.base, divisor)))
        if not self.terms_apart and self._may_fuse(total, divisor):
            return self._remainder_split(total, divisor)
        kept = [i for i in total.args if not self._divides(divisor, i.scale)]
        base = self._simplify(build.floormod(total.base, divisor))
        if not kept:
            return IterSumExpr((), base)
        rest = IterSumExpr(kept, total.base if len(kept) == len(total.args) else base)
        for candidate in (rest, IterSumExpr(kept, base)):
            if self._within(candidate, divisor):
                return candidate
        return self._remainder_split(rest, divisor)

    def _may_fuse(self, total: IterSumExpr, divisor: Any) -> bool:
        """Whether a sum of several terms, not all multiples of the divisor, continues as one iterator."""
        if len(total.args) < 2 or all(self._divides(divisor, item.scale) for item in total.args):
            return False
        return self.fuse(IterSumExpr(total.args, build.const(0, total.dtype))) is not None

    def _remainder_split(self, rest: IterSumExpr, divisor: Any) -> IterSumExpr:
        zero = build.const(0, rest.dtype)
        split, padding_left, _ = self._fused_split(rest, divisor)
        if not build.is_const(split.scale, 1):
            scale = split.scale
            if self._divides(scale, divisor) and self.analyzer._prove_ge(scale, 1):
                inner = self._simplify(build.floordiv(divisor, scale))
                plain = IterSplitExpr(split.source, split.lower_factor, split.extent, _one(split.dtype))
                plain, _ = self._padded(plain, padding_left, inner)
                extent = self._smaller(inner, plain.extent)
                return IterSumExpr((IterSplitExpr(plain.source, plain.lower_factor, extent, scale),), zero)
            split = _split(self._mark_of(IterSumExpr((split,), zero), self._reach(split)))
        split, _ = self._padded(split, padding_left, divisor)
        extent = self._smaller(divisor, split.extent)
        return IterSumExpr((IterSplitExpr(split.source, split.lower_factor, extent, split.scale),), zero)

    def _smaller(self, a: Any, b: Any) -> Any:
        return b if self._equal(a, b) or (b.__class__ is IntImm and a.__class__ is IntImm and b.value < a.value) else a

    def _divides(self, a: Any, b: Any) -> bool:
        """Whether ``b % a == 0``, proved."""
        if a.__class__ is IntImm and b.__class__ is IntImm:
            return bool(a.value != 0 and b.value % a.value == 0)
        return build.is_const(self._simplify(build.floormod(b, a)), 0)

    # ---- padding ------------------------------------------------------------------------------------------------

    def _padded(self, split: IterSplitExpr, left: Any, divisor: Any) -> tuple[IterSplitExpr, Any]:
        """A split that the divisor divides, for ``(split + left) // divisor``; padded where it has to be.

        All pieces of a mark share one padding, to the left and up to a multiple of what all divisors need together. So a
        first pass over the indices collects what is needed, and a second one uses the padded mark.

        Returns the split and what to add to the quotient of the padded split.
        """
        zero = build.const(0, split.dtype)
        simplify, mark, lower = self._simplify, split.source, split.lower_factor
        reach = simplify(build.mul(lower, divisor))
        record = next((item for item in self.paddings if self._same_mark(item.mark, mark)), None)
        fits = build.is_const(left, 0) and (
            self._divides(divisor, split.extent)
            or (self._divides(split.extent, divisor) and self._at_most(split.extent, divisor))
        )
        whole = self._equal(build.mul(lower, split.extent), mark.extent)
        if self.collecting:
            if record is None:
                record = _Padding(mark, reach, zero)
                self.paddings.append(record)
            record.factor = self._common_multiple(record.factor, reach)
            if fits:
                return split, zero
            if self.check_level == IterMapLevel.Bijective:
                raise _NotAffine(f"extent {_text(split.extent)} is not divisible by {_text(divisor)}, so padding is needed")
            if not whole and not record.needed:
                raise _NotAffine(
                    f"the piece of extent {_text(split.extent)} of an iterator is not divisible by {_text(divisor)}"
                )
            record.needed = True
            offset = simplify(build.mul(left, lower))
            record.left = offset if self._at_most(record.left, offset) else record.left
            return _with_extent(split, self._rounded_up(build.add(split.extent, left), divisor)), zero
        if record is None or not record.needed:
            return split, zero
        padded = self._padded_mark(record)
        ahead = simplify(build.floordiv(record.left, lower))
        gap = simplify(build.sub(ahead, left))
        if not self._equal(build.mul(ahead, lower), record.left) or not self._divides(divisor, gap):
            raise _NotAffine("the indices need paddings on the left that do not agree")
        if not whole and not build.is_const(record.left, 0):
            raise _NotAffine("an inner piece of an iterator that is padded on the left cannot be used")
        extent = simplify(build.floordiv(padded.extent, lower)) if whole else split.extent
        result = IterSplitExpr(padded, lower, extent, split.scale)
        return result, simplify(build.sub(zero, build.floordiv(gap, divisor)))

    def _rounded_up(self, value: Any, factor: Any) -> Any:
        """The next multiple of the factor."""
        rest = build.floormod(build.sub(build.const(0, value.dtype), value), factor)
        return self._simplify(build.add(value, self._simplify(rest)))

    def _common_multiple(self, a: Any, b: Any) -> Any:
        if a.__class__ is IntImm and b.__class__ is IntImm:
            return build.const(lcm(a.value, b.value), a.dtype)
        if self._divides(a, b):
            return b
        return a if self._divides(b, a) else self._simplify(build.mul(a, b))

    def _padded_mark(self, record: _Padding) -> IterMark:
        if record.padded is None:
            extent = self._simplify(build.add(record.mark.extent, record.left))
            source = _source_expr(record.mark)
            shifted = source if build.is_const(record.left, 0) else build.add(source, record.left)
            record.padded = IterMark(shifted, self._rounded_up(extent, record.factor))
            self._note_padding(shifted, record.left, extent, record.padded.extent, record.factor)
        return record.padded

    def _note_padding(self, value: Any, left: Any, end: Any, padded_extent: Any, divisor: Any) -> None:
        """The padded iterator has no iteration behind it below ``left`` and from ``end`` on."""
        outer, inner = build.floordiv(value, divisor), build.floormod(value, divisor)
        simplify = self._simplify
        if not build.is_const(left, 0):
            row = build.eq(outer, simplify(build.floordiv(left, divisor)))
            edge = E.logical_and(row, build.lt(inner, simplify(build.floormod(left, divisor))))
            self.padding = E.logical_or(self.padding, edge)
        if not self._equal(end, padded_extent):
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
        if len(a.args) != len(b.args) or not self._equal(a.base, b.base):
            return False
        return all(
            self._same_mark(x.source, y.source)
            and self._equal(x.lower_factor, y.lower_factor)
            and self._equal(x.extent, y.extent)
            and self._equal(x.scale, y.scale)
            for x, y in zip(a.args, b.args)
        )

    def _fused_split(self, total: IterSumExpr, divisor: Any) -> tuple[IterSplitExpr, Any, Any]:
        """One split for a sum, the part of its offset that becomes padding on the left, and the multiple beyond that."""
        fused = self.fuse(IterSumExpr(total.args, build.const(0, total.dtype)))
        if fused is None:
            raise _NotAffine("the terms of a sum overlap or leave gaps, so it cannot be split")
        base = self._simplify(build.add(total.base, build.mul(self.offset_of(fused), fused.scale)))
        left = base if build.is_const(base, 0) else self._simplify(build.floormod(base, divisor))
        if not build.is_const(base, 0) and not build.is_const(left, 0) and not build.is_const(fused.scale, 1):
            raise _NotAffine("an offset stands between iterators and their division")
        return fused, left, self._simplify(build.sub(base, left))

    def fuse(self, total: IterSumExpr) -> IterSplitExpr | None:
        """One split that stands for the sum: its terms, ordered by scale, continue one another; None if they do not."""
        terms = self._with_bounded(total.args)
        if len(terms) == 1:
            return terms[0]
        ordered = self._in_order(terms)
        if ordered is None:
            return None
        args, base_scale, reach = ordered
        zero = build.const(0, total.dtype)
        scaled = [
            item if build.is_const(base_scale, 1) else IterSplitExpr(
                item.source, item.lower_factor, item.extent, self._simplify(build.floordiv(item.scale, base_scale))
            )
            for item in args
        ]
        joined = self._joined(scaled)
        if len(joined) == 1:
            only = joined[0]
            return IterSplitExpr(only.source, only.lower_factor, only.extent, self._simplify(build.mul(only.scale, base_scale)))
        extent = self._simplify(build.floordiv(reach, base_scale))
        mark = self._mark_of(IterSumExpr(joined, zero), extent)
        return _split(mark, scale=base_scale)

    def _with_bounded(self, args: Sequence[IterSplitExpr]) -> Sequence[IterSplitExpr]:
        """The terms with those that make up a sum that a predicate bounds replaced by one split of its mark."""
        for total, mark in self._bounded:
            ratio: Any = None
            rest = list(args)
            for item in total.args:
                there = next(
                    (
                        other
                        for other in rest
                        if self._same_mark(other.source, item.source)
                        and self._equal(other.lower_factor, item.lower_factor)
                        and self._equal(other.extent, item.extent)
                        and self._divides(item.scale, other.scale)
                    ),
                    None,
                )
                factor = None if there is None else self._simplify(build.floordiv(there.scale, item.scale))
                if there is None or (ratio is not None and not self._equal(ratio, factor)):
                    break
                ratio = factor
                rest.remove(there)
            else:
                if rest and id(mark) in self._offsets:
                    continue  # an offset inside a larger sum is not supported
                args = [_split(mark, scale=ratio), *rest]
        return args

    def _joined(self, args: list[IterSplitExpr]) -> list[IterSplitExpr]:
        """Neighbouring pieces of one mark become one piece: ``(x // 4) * 4 + x % 4`` is ``x``."""
        result: list[IterSplitExpr] = []
        for item in args:
            if result:
                last = result[-1]
                if (
                    self._same_mark(last.source, item.source)
                    and self._equal(last.lower_factor, build.mul(item.lower_factor, item.extent))
                    and self._equal(last.scale, build.mul(item.scale, item.extent))
                ):
                    extent = self._simplify(build.mul(last.extent, item.extent))
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
        if any(not self.analyzer._prove_ge(item.scale, 1) and item.scale.__class__ is IntImm for item in remaining):
            return None
        base_scale = self._smallest_scale(remaining)
        if base_scale is None:
            return None
        reach = base_scale
        ordered: list[IterSplitExpr] = []
        while remaining:
            matching = [item for item in remaining if self._equal(item.scale, reach)]
            if matching:
                # Of pieces with one scale those of extent 1 come first: they do not move the next scale.
                item = next((one for one in matching if build.is_const(one.extent, 1)), matching[0])
                following = build.mul(item.extent, item.scale)
            else:
                overlapping = self._overlapping(remaining, reach, base_scale)
                if overlapping is None:
                    return None
                item = overlapping
                following = build.add(build.mul(build.sub(item.extent, _one(item.dtype)), item.scale), reach)
            remaining.remove(item)
            ordered.append(item)
            reach = self._simplify(following)
        return ordered[::-1], base_scale, reach

    def _overlapping(self, remaining: list[IterSplitExpr], reach: Any, base_scale: Any) -> IterSplitExpr | None:
        """The piece of the smallest scale, if that is a multiple of the base and smaller than the reach of the others."""
        if self.check_level == IterMapLevel.Bijective or reach.__class__ is not IntImm:
            return None
        if any(item.scale.__class__ is not IntImm for item in remaining):
            return None
        item = min(remaining, key=lambda one: one.scale.value)  # type: ignore[attr-defined]
        fits = item.scale.value < reach.value and self._divides(base_scale, item.scale)  # type: ignore[attr-defined]
        return item if fits else None

    def _smallest_scale(self, args: Sequence[IterSplitExpr]) -> Any:
        constants = [item.scale for item in args if item.scale.__class__ is IntImm]
        if constants:
            return min(constants, key=lambda scale: scale.value)
        for candidate in args:
            if all(other is candidate or self._divides(candidate.scale, other.scale) for other in args):
                return candidate.scale
        return None

    # ---- checks -------------------------------------------------------------------------------------------------

    def constrain(self, expr: IterSumExpr, low: Any, high: Any) -> bool:
        """Limit a fused sum to ``[low, high)`` (None: no limit) as a predicate says; False where that cannot be used."""
        joined = self.fuse(expr)
        if joined is None or not build.is_const(joined.scale, 1):
            return False
        mark = joined.source
        if not build.is_const(joined.lower_factor, 1) or not self._equal(joined.extent, mark.extent):
            return False
        zero = build.const(0, expr.dtype)
        offset = self._offsets.get(id(mark), zero)
        if isinstance(mark.source, IterSumExpr):
            start = offset
        else:
            start = self._simplify(build.sub(self.sums[v].base, zero)) if (v := self._variable_of(mark)) is not None else zero
        # What the predicate says of the sum, the mark says of its distance from the start.
        low = start if low is None else self._simplify(low)
        end = self._simplify(build.add(start, mark.extent))
        high = end if high is None else self._simplify(high)
        can_prove = self.analyzer.can_prove
        low = start if can_prove(build.le(low, start)) else low
        high = end if can_prove(build.le(end, high)) else high
        extent = self._simplify(build.sub(high, low))
        variable = self._variable_of(mark)
        if variable is not None:
            limited = IterMark(variable if build.is_const(low, 0) else build.sub(variable, low), extent)
            self.marks[variable] = limited
            self.sums[variable] = IterSumExpr((_split(limited),), low)
            return True
        if not isinstance(mark.source, IterSumExpr):
            return False
        source = mark.source
        shifted = IterSumExpr(source.args, self._simplify(build.sub(source.base, build.sub(low, start))))
        limited = IterMark(shifted, extent)
        if not build.is_const(low, 0):
            self._offsets[id(limited)] = low
        self._fused = [(total, limited if known is mark else known) for total, known in self._fused]
        self._bounded = [(total, known) for total, known in self._bounded if known is not mark]
        self._bounded.append((next(total for total, known in self._fused if known is limited), limited))
        return True

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
        start = self._simplify(build.mul(self.offset_of(fused), fused.scale))
        return IterSumExpr((fused,), self._simplify(build.add(total.base, start)))


def _text(expr: Any) -> str:
    return str(expr.value) if expr.__class__ is IntImm else repr(expr)


def _source_expr(mark: IterMark) -> Any:
    """The plain expression of a mark's source."""
    return normalize_iter_map_to_expr(mark.source)


def _predicate_parts(predicate: Any) -> list[tuple[Any, Any, Any]] | None:
    """Conjuncts as (expression, lower bound or None, upper bound or None), the upper one excluded; None if not so."""
    parts: list[tuple[Any, Any, Any]] = []
    stack = [predicate]
    while stack:
        item = stack.pop()
        cls = item.__class__
        if cls is IntImm:
            if not item.value:
                return None
        elif cls is E.And:
            stack += [item.a, item.b]
        elif cls is E.Call and getattr(item.op, "name", "") == "tir.likely":
            stack.append(item.args[0])
        elif cls in (E.LT, E.LE, E.GT, E.GE):
            a, b = (item.a, item.b) if cls in (E.LT, E.LE) else (item.b, item.a)
            parts.append((a, b, cls in (E.LE, E.GE)))
        else:
            return None
    return parts


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[E.Var, Range],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """Write indices as sums of splits of the iterators, and check how they cover.

    Args:
        indices: integer expressions.
        input_iters: the iterators with their ranges.
        predicate: a condition on the iterations, of the form ``fused sum of iterators < constant`` and conjunctions.
        check_level: see :class:`IterMapLevel`.
        analyzer: what is known of the other variables.
        simplify_trivial_iterators: iterators of extent 1 are replaced by their value.

    Returns:
        The map; ``indices`` is empty and ``errors`` says why when the indices are not as asked.
    """
    from .analyzer import Analyzer as _Analyzer

    level = _level_of(check_level)
    analyzer = _Analyzer() if analyzer is None else analyzer
    with _Iterators(analyzer, input_iters):
        found = _detect(list(indices), dict(input_iters), predicate, level, analyzer, simplify_trivial_iterators)
    # Simplified where the iterators' ranges are unknown: within them there is no padding.
    found.padding_predicate = analyzer.simplify(found.padding_predicate)
    return found


def _level_of(level: IterMapLevel | str | int) -> IterMapLevel:
    if isinstance(level, str):
        names = {name.lower(): member for name, member in IterMapLevel.__members__.items()}
        if level.lower() not in names:
            raise IterMapError(f"check_level is one of {sorted(names)}, got {level!r}")
        return names[level.lower()]
    return IterMapLevel(level)


class _Iterators:
    """A scope in which the analyzer knows the ranges of the iterators."""

    def __init__(self, analyzer: Analyzer, input_iters: Mapping[Any, Range]) -> None:
        self._analyzer, self._iters = analyzer, input_iters
        self._saved: Any = None

    def __enter__(self) -> None:
        a = self._analyzer
        self._saved = (
            a._bounds.memo, a._modular.memo, a._rewrite.memo, a._canonical.memo,
            a._bounds.variables, a._symbolic, a._modular.variables, a._rewrite.substitutions,
        )  # fmt: skip
        a._bounds.variables, a._symbolic = dict(a._bounds.variables), dict(a._symbolic)
        a._modular.variables, a._rewrite.substitutions = dict(a._modular.variables), dict(a._rewrite.substitutions)
        a._forget()
        for var, domain in self._iters.items():
            a._rewrite.substitutions.pop(var, None)
            if not build.is_const(domain.extent, 1):
                a._bind_range(var, domain)

    def __exit__(self, *exc: Any) -> None:
        a = self._analyzer
        (
            a._bounds.memo, a._modular.memo, a._rewrite.memo, a._canonical.memo,
            a._bounds.variables, a._symbolic, a._modular.variables, a._rewrite.substitutions,
        ) = self._saved  # fmt: skip


def _detect(
    indices: list[Any],
    input_iters: dict[Any, Range],
    predicate: Any,
    level: IterMapLevel,
    analyzer: Analyzer,
    simplify_trivial: bool,
) -> IterMapResult:
    parts = _predicate_parts(analyzer.simplify(E.convert(predicate)))
    false = build.boolean(False)
    if parts is None:
        return IterMapResult((), (f"the predicate {predicate!r} is no conjunction of bounds on sums of iterators",), false)
    parts.sort(key=lambda part: len(_variables(part[0])) + len(_variables(part[1])))
    problem: Any = None
    for terms_apart in (False, True):
        detector = _Detector(analyzer, input_iters, simplify_trivial, level)
        detector.terms_apart = terms_apart
        sums = _sums_of(detector, indices, parts)
        if not isinstance(sums, str) and any(item.needed for item in detector.paddings):
            collected = detector.paddings
            detector = _Detector(analyzer, input_iters, simplify_trivial, level)
            detector.terms_apart, detector.collecting, detector.paddings = terms_apart, False, collected
            sums = _sums_of(detector, indices, parts)
        if isinstance(sums, str):
            problem = problem or sums
            continue
        found = None if level == IterMapLevel.NoCheck else _check_mapping(detector, sums, input_iters, level)
        if found is None:
            return IterMapResult(sums, (), detector.padding)
        problem = problem or found
    return IterMapResult((), (problem,), false)


def _sums_of(detector: _Detector, indices: list[Any], parts: list[tuple[Any, Any, Any]]) -> list[IterSumExpr] | str:
    """The sum of each index under the predicate, or what is wrong."""
    for low, high, inclusive in parts:
        problem = _apply_bound(detector, low, high, inclusive)
        if problem is not None and detector.check_level != IterMapLevel.NoCheck:
            return problem
    sums = []
    for index in indices:
        try:
            sums.append(detector.normalized(detector.convert(index)))
        except _NotAffine as reason:
            return f"index {index!r}: {reason}"
    return sums


def _variables(expr: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, E.Var):
            found.append(node)
        elif isinstance(node, PrimExpr):
            node._visit_children(visit)  # type: ignore[attr-defined]

    visit(expr)
    return found


def _apply_bound(detector: _Detector, left: Any, right: Any, inclusive: bool) -> str | None:
    """Use ``left < right`` (or ``<=``) to limit a fused iterator; says what is wrong when it cannot."""
    analyzer = detector.analyzer
    if analyzer.can_prove(build.le(left, right) if inclusive else build.lt(left, right)):
        return None
    try:
        total = detector.add(detector.convert(left), detector.convert(right), -1)
    except _NotAffine as reason:
        return f"predicate: {reason}"
    # total + base < 0: an upper bound where all scales are positive, a lower bound where all are negative
    if not total.args:
        return None
    zero, one = build.const(0, total.dtype), _one(total.dtype)
    negative = [i for i in total.args if not analyzer._prove_ge(i.scale, 0)]
    if not negative:
        high = build.sub(one if inclusive else zero, total.base)
        used = detector.constrain(IterSumExpr(total.args, zero), None, analyzer.simplify(high))
    elif len(negative) == len(total.args):
        flipped = [
            IterSplitExpr(i.source, i.lower_factor, i.extent, analyzer.simplify(build.sub(zero, i.scale)))
            for i in total.args
        ]
        low = total.base if inclusive else analyzer.simplify(build.add(total.base, one))
        used = detector.constrain(IterSumExpr(flipped, zero), low, None)
    else:
        return "the predicate compares iterators with one another"
    return None if used else "the predicate bounds a sum of iterators that is not one fused iterator"


def _check_mapping(
    detector: _Detector, sums: Sequence[IterSumExpr], input_iters: Mapping[Any, Range], level: IterMapLevel
) -> str | None:
    """What is wrong with the coverage; None when the map is as the level asks."""
    pieces: list[IterSplitExpr] = []
    for total in sums:
        if len(total.args) > 1:
            return "the terms of an index overlap or leave gaps"
        pieces += total.args
    problem = _check_disjoint(detector, pieces, level)
    if problem is not None:
        return problem
    if level == IterMapLevel.Bijective:
        used: set[Any] = set()
        for item in pieces:
            used |= set(_variables(_source_expr(item.source)))
        for var in input_iters:
            total = detector.sums[var]
            if total.args and var not in used and not build.is_const(total.args[0].extent, 1):
                return f"iterator {var.name} is used by no index"
    return None


def _check_disjoint(detector: _Detector, pieces: Sequence[IterSplitExpr], level: IterMapLevel) -> str | None:
    """Pieces of one mark must partition it (surjective: must not overlap).

    Marks of fused sums come first, the outermost before those inside; a fused mark stands for the pieces in its sum.
    """
    pending = list(pieces)
    while pending:
        depth = max(_depth(item.source) for item in pending)
        current = [item for item in pending if _depth(item.source) == depth]
        pending = [item for item in pending if _depth(item.source) != depth]
        groups: list[tuple[IterMark, list[IterSplitExpr]]] = []
        for item in current:
            for mark, members in groups:
                if detector._same_mark(mark, item.source):
                    members.append(item)
                    break
            else:
                groups.append((item.source, [item]))
        for mark, members in groups:
            problem = _check_partition(detector, mark, members, level)
            if problem is not None:
                return problem
            if isinstance(mark.source, IterSumExpr):
                pending += mark.source.args
        if depth == 0:
            taken: set[Any] = set()
            for mark, _ in groups:
                names = set(_variables(mark.source)) & detector.sums.keys()
                if names & taken:
                    return "an iterator is used by two indices"
                taken |= names
    return None


def _check_partition(
    detector: _Detector, mark: IterMark, members: list[IterSplitExpr], level: IterMapLevel
) -> str | None:
    remaining = list(members)
    expected: Any = _one(mark.source.dtype)
    while remaining:
        matching = [item for item in remaining if detector._equal(item.lower_factor, expected)]
        if not matching:
            if level == IterMapLevel.Bijective:
                return "some values of an iterator are used by no index"
            # A gap below: surjective maps may leave iterators unused; the next piece must start at a multiple.
            constants = [item for item in remaining if item.lower_factor.__class__ is IntImm]
            candidates = constants or remaining
            matching = [min(candidates, key=lambda i: i.lower_factor.value if i.lower_factor.__class__ is IntImm else 0)]
            if not detector._divides(expected, matching[0].lower_factor):
                return "pieces of an iterator overlap"
        item = next((one for one in matching if build.is_const(one.extent, 1)), matching[0])
        remaining.remove(item)
        expected = detector._simplify(build.mul(item.lower_factor, item.extent))
    if level == IterMapLevel.Bijective and not detector._equal(expected, mark.extent):
        return "some values of an iterator are used by no index"
    if not detector._equal(expected, mark.extent) and not detector._divides(expected, mark.extent):
        if not detector.analyzer.can_prove(build.le(expected, mark.extent)):
            return "pieces of an iterator overlap or reach beyond it"
    return None


# ---- back to expressions ----------------------------------------------------------------------------------------


def normalize_iter_map_to_expr(expr: Any) -> Any:
    """The plain expression of an iterator map (or of an expression that contains some)."""
    if isinstance(expr, IterSumExpr):
        result: Any = None
        for item in expr.args:
            term = normalize_iter_map_to_expr(item)
            result = term if result is None else build.add(result, term)
        if result is None:
            return expr.base
        return build.add(result, expr.base)
    if isinstance(expr, IterSplitExpr):
        source = normalize_iter_map_to_expr(expr.source.source)
        dtype = source.dtype
        if build.is_const(expr.extent, 1) and not build.is_const(expr.source.extent, 1):
            return build.const(0, dtype) if build.is_const(expr.lower_factor, 1) else _piece(expr, source)
        return _piece(expr, source)
    if isinstance(expr, IterMark):
        return normalize_iter_map_to_expr(expr.source)
    return expr


def _piece(split: IterSplitExpr, source: Any) -> Any:
    """``((source % (lower * extent)) // lower) * scale``, without what does nothing."""
    from .analyzer import Analyzer

    analyzer = Analyzer()
    lower, extent = split.lower_factor, split.extent
    result = source
    whole = analyzer.can_prove_equal(build.mul(lower, extent), split.source.extent)
    if not whole and not (build.is_const(lower, 1) and expr_deep_equal(extent, split.source.extent)):
        result = build.floormod(result, analyzer.simplify(build.mul(lower, extent)))
    if not build.is_const(lower, 1):
        result = build.floordiv(result, lower)
    return build.mul(result, split.scale) if not build.is_const(split.scale, 1) else result


def normalize_to_iter_sum(index: PrimExpr, input_iters: Mapping[E.Var, Range]) -> IterSumExpr:
    """An index as a sum of splits, without any check; what is no affine map of the iterators goes into the base."""
    from .analyzer import Analyzer

    analyzer = Analyzer()
    with _Iterators(analyzer, input_iters):
        detector = _Detector(analyzer, input_iters, False, IterMapLevel.NoCheck)
        try:
            total = detector.convert(index)
        except _NotAffine:
            return IterSumExpr((), index)
        order = sorted(
            range(len(total.args)),
            key=lambda i: -total.args[i].scale.value if total.args[i].scale.__class__ is IntImm else 0,  # type: ignore[attr-defined]
        )
        return IterSumExpr([total.args[i] for i in order], total.base)


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[E.Var, Range],
    input_pred: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> list[Any]:
    """Indices simplified through their iterator map; plain simplification where they have none."""
    from .analyzer import Analyzer as _Analyzer

    analyzer = _Analyzer() if analyzer is None else analyzer
    result = detect_iter_map(indices, input_iters, input_pred, check_level, analyzer, simplify_trivial_iterators)
    with _Iterators(analyzer, input_iters):
        if not result.indices:
            if len(indices) > 1:
                # Indices that overlap may still be maps one by one.
                single = [
                    detect_iter_map([item], input_iters, input_pred, check_level, analyzer, simplify_trivial_iterators).indices
                    for item in indices
                ]
                return [
                    analyzer.simplify(normalize_iter_map_to_expr(found[0]) if found else item)
                    for found, item in zip(single, indices)
                ]
            return [analyzer.simplify(item) for item in indices]
        return [analyzer.simplify(normalize_iter_map_to_expr(item)) for item in result.indices]


# ---- inverses ---------------------------------------------------------------------------------------------------


def inverse_affine_iter_map(iter_map: Sequence[IterSumExpr], outputs: Sequence[PrimExpr]) -> dict[E.Var, PrimExpr]:
    """The iterators in terms of the values of the indices (``outputs``), for a bijective map.

    Each index gives its value to its split; splits add up to their mark; marks that are sums pass values on.
    """
    from .analyzer import Analyzer

    analyzer = Analyzer()
    if len(iter_map) != len(outputs):
        raise IterMapError(f"the map has {len(iter_map)} indices, got {len(outputs)} values")
    collected: dict[int, tuple[IterMark, Any]] = {}
    order: list[int] = []

    def give(split: IterSplitExpr, value: Any) -> None:
        """The split's value (without its scale) contributes ``value * lower_factor`` to its mark."""
        mark = split.source
        key = next((k for k in order if _marks_equal(collected[k][0], mark)), id(mark))
        part = build.mul(value, split.lower_factor)
        if key in collected:
            collected[key] = (collected[key][0], build.add(collected[key][1], part))
        else:
            collected[key] = (mark, part)
            order.append(key)

    for total, output in zip(iter_map, outputs):
        value = output if build.is_const(total.base, 0) else build.sub(output, total.base)
        _give_sum(total, value, give)
    result: dict[E.Var, PrimExpr] = {}
    # Sums hand their values to the marks inside; deeper marks appear behind the ones that contain them.
    pending = list(order)
    while pending:
        pending.sort(key=lambda k: _depth(collected[k][0]), reverse=True)
        key = pending.pop(0)
        mark, value = collected[key]
        if isinstance(mark.source, IterSumExpr):
            inner = mark.source
            known = set(order)
            _give_sum(inner, value if build.is_const(inner.base, 0) else build.sub(value, inner.base), give)
            pending += [k for k in order if k not in known]
        else:
            source = mark.source
            if isinstance(source, E.Var):
                result[source] = analyzer.simplify(value)
            else:
                solved = _solve_for_variable(source, value)
                if solved is not None:
                    result[solved[0]] = analyzer.simplify(solved[1])
    return result


def _give_sum(total: IterSumExpr, value: Any, give: Any) -> None:
    """Split a sum's value among its terms: term i is ``value // scale_i % extent_i``."""
    for item in total.args:
        part = value
        if not build.is_const(item.scale, 1):
            part = build.floordiv(part, item.scale)
        if len(total.args) > 1:
            part = build.floormod(part, item.extent)
        give(item, part)


def _depth(mark: IterMark) -> int:
    if isinstance(mark.source, IterSumExpr):
        return 1 + max((_depth(item.source) for item in mark.source.args), default=0)
    return 0


def _marks_equal(a: IterMark, b: IterMark) -> bool:
    return a is b or (expr_deep_equal(a.source, b.source) and expr_deep_equal(a.extent, b.extent))


def _solve_for_variable(source: Any, value: Any) -> tuple[Any, Any] | None:
    """``var + a == value`` or ``var - a == value`` solved for the variable."""
    if isinstance(source, E.Var):
        return source, value
    if isinstance(source, E.Cast):
        return _solve_for_variable(source.value, E.cast(source.value.dtype, value))
    if isinstance(source, E.Sub):
        return _solve_for_variable(source.a, build.add(value, source.b))
    if isinstance(source, E.Add):
        return _solve_for_variable(source.a, build.sub(value, source.b))
    return None


def invert_index_map(
    index_map: IndexMap, ranges: Sequence[Range], check_bijective: bool = True
) -> tuple[IndexMap, PrimExpr]:
    """The inverse of an index map over ``ranges``, and the condition on its arguments that they are padding.

    Raises:
        IterMapError: the map is not affine, or not bijective while ``check_bijective`` asks for that.
    """
    from ..tir.functor import substitute
    from ..tir.index_map import IndexMap
    from .analyzer import Analyzer

    variables = index_map.initial_indices
    domains = {
        var: Range.from_min_extent(E.cast(var.dtype, item.min), E.cast(var.dtype, item.extent))
        for var, item in zip(variables, ranges, strict=True)
    }
    level = IterMapLevel.Bijective if check_bijective else IterMapLevel.NoCheck
    result = detect_iter_map(
        index_map.final_indices, domains, True, level, Analyzer(), simplify_trivial_iterators=False
    )
    if len(result.indices) != len(index_map.final_indices):
        reason = "; ".join(result.errors) or "it is not affine"
        raise IterMapError(f"the index map cannot be inverted over its shape: {reason}")
    if any(len(item.args) > 1 for item in result.indices):
        raise IterMapError("the index map cannot be inverted: the terms of an index overlap")
    outputs: list[Any] = []
    analyzer = Analyzer()
    for position, (item, expr) in enumerate(zip(result.indices, index_map.final_indices)):
        var = E.Var(expr.name if isinstance(expr, E.Var) else f"axis{position}", expr.dtype)
        outputs.append(var)
        extent: Any = build.const(1, expr.dtype)
        for split in item.args:
            extent = build.mul(split.extent, split.scale)
        analyzer.bind(var, Range.from_min_extent(item.base, analyzer.simplify(extent)), True)
    solved = inverse_affine_iter_map(result.indices, outputs)
    finals = []
    for var in variables:
        value = solved.get(var)
        if value is None:
            value = domains[var].min
        finals.append(analyzer.simplify(E.cast(var.dtype, value)))
    predicate: Any = build.boolean(False)
    if not (result.padding_predicate.__class__ is IntImm and not result.padding_predicate.value):  # type: ignore[attr-defined]
        replaced = substitute(result.padding_predicate, dict(zip(variables, finals)))
        predicate = analyzer.simplify(replaced)
    return IndexMap(outputs, finals), predicate


# ---- dividing into outer and inner ------------------------------------------------------------------------------


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[E.Var, Range],
    sub_iters: Sequence[E.Var],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> list[list[Any]]:
    """Write each binding as ``outer * (inner extent) + inner`` with the inner part over ``sub_iters`` alone.

    Returns:
        One ``[outer IterMark, inner IterMark]`` per binding and a last pair of marks whose extents are the outer and
        the inner predicate (TVM's convention); an empty list where the bindings cannot be divided.
    """
    from .analyzer import Analyzer as _Analyzer

    level = _level_of(check_level)
    analyzer = _Analyzer() if analyzer is None else analyzer
    inner = set(sub_iters)
    with _Iterators(analyzer, input_iters):
        result = _detect(list(bindings), dict(input_iters), predicate, level, analyzer, simplify_trivial_iterators)
        if not result.indices and bindings:
            return []
        divider = _Divider(analyzer, inner)
        pairs: list[list[Any]] = []
        for total in result.indices:
            divided = divider.divide(total)
            if divided is None:
                return []
            pairs.append([divided[0], divided[1]])
        true = build.boolean(True)
        outer_condition, inner_condition = true, true
        for part in _conjuncts_of(E.convert(predicate)):
            used = set(_variables(part))
            if used <= inner:
                inner_condition = E.logical_and(inner_condition, part)
            elif not used & inner:
                outer_condition = E.logical_and(outer_condition, part)
            else:
                return []
        zero = IterSumExpr((), E.const(0))
        pairs.append([IterMark(zero, outer_condition), IterMark(zero, inner_condition)])
        return pairs


def _conjuncts_of(condition: Any) -> list[Any]:
    if condition.__class__ is IntImm and condition.value:
        return []
    if condition.__class__ is E.And:
        return _conjuncts_of(condition.a) + _conjuncts_of(condition.b)
    if condition.__class__ is E.Call and getattr(condition.op, "name", "") == "tir.likely":
        return _conjuncts_of(condition.args[0])
    return [condition]


class _Divider:
    """Divides sums of splits into a part over outer and a part over inner iterators."""

    def __init__(self, analyzer: Analyzer, inner: set[Any]) -> None:
        self._analyzer, self._inner = analyzer, inner

    def _kind(self, expr: Any) -> str:
        used = set(_variables(normalize_iter_map_to_expr(expr)))
        if used <= self._inner:
            return "inner"
        return "outer" if not used & self._inner else "mixed"

    def divide(self, total: IterSumExpr) -> tuple[IterMark, IterMark] | None:
        """(outer, inner) marks with ``total = outer * inner.extent + inner``."""
        dtype = total.dtype
        zero, one = build.const(0, dtype), build.const(1, dtype)
        if not total.args:
            return IterMark(IterSumExpr((), total.base), one), IterMark(IterSumExpr((), zero), one)
        if len(total.args) != 1:
            return None
        split = total.args[0]
        divided = self._divide_split(split)
        if divided is None:
            return None
        (outer, outer_extent), (inner, inner_extent) = divided
        if not build.is_const(total.base, 0):
            if outer.args:
                outer = IterSumExpr(outer.args, build.add(outer.base, total.base)) if build.is_const(inner_extent, 1) else outer
                if not build.is_const(inner_extent, 1):
                    inner = IterSumExpr(inner.args, build.add(inner.base, total.base))
            else:
                inner = IterSumExpr(inner.args, build.add(inner.base, total.base))
        return IterMark(outer, outer_extent), IterMark(inner, inner_extent)

    def _divide_split(self, split: IterSplitExpr) -> tuple[tuple[IterSumExpr, Any], tuple[IterSumExpr, Any]] | None:
        dtype = split.dtype
        zero, one = build.const(0, dtype), build.const(1, dtype)
        nothing = (IterSumExpr((), zero), one)
        kind = self._kind(split)
        if kind == "inner":
            extent = split.extent
            return nothing, (IterSumExpr((split,), zero), extent)
        if kind == "outer":
            return (IterSumExpr((split,), zero), split.extent), nothing
        mark = split.source
        if not isinstance(mark.source, IterSumExpr):
            return None
        simplify = self._analyzer.simplify
        whole = build.is_const(split.lower_factor, 1) and self._analyzer.can_prove_equal(split.extent, mark.extent)
        if not whole:
            return self._divide_piece(split)
        terms = list(mark.source.args)
        kinds = [self._kind(item) for item in terms]
        # Outer terms stand left of inner ones; one term in between may be mixed.
        position = 0
        while position < len(terms) and kinds[position] == "outer":
            position += 1
        outer_terms, rest = terms[:position], terms[position:]
        inner_terms = rest
        mixed = None
        if rest and kinds[position] == "mixed":
            mixed, inner_terms = rest[0], rest[1:]
        if any(self._kind(item) != "inner" for item in inner_terms):
            return None
        inner_extent = one if not inner_terms else simplify(build.mul(inner_terms[0].extent, inner_terms[0].scale))
        outer_sum = list(outer_terms)
        inner_sum = list(inner_terms)
        if mixed is not None:
            divided = self._divide_split(mixed)
            if divided is None:
                return None
            (outer_part, _), (inner_part, part_extent) = divided
            scale = inner_extent
            inner_sum = [
                IterSplitExpr(i.source, i.lower_factor, i.extent, simplify(build.mul(i.scale, scale))) for i in inner_part.args
            ] + inner_sum
            inner_extent = simplify(build.mul(inner_extent, part_extent))
            outer_sum += [
                IterSplitExpr(i.source, i.lower_factor, i.extent, simplify(build.mul(i.scale, inner_extent)))
                for i in outer_part.args
            ]
        scaled = [
            IterSplitExpr(i.source, i.lower_factor, i.extent, simplify(build.floordiv(i.scale, inner_extent)))
            for i in outer_sum
        ]
        outer_extent = simplify(build.floordiv(mark.extent, inner_extent))
        if not self._analyzer.can_prove_equal(build.mul(outer_extent, inner_extent), mark.extent):
            return None
        if not build.is_const(split.scale, 1):
            return None
        return (IterSumExpr(scaled, zero), outer_extent), (IterSumExpr(inner_sum, zero), inner_extent)

    def _divide_piece(self, split: IterSplitExpr) -> tuple[tuple[IterSumExpr, Any], tuple[IterSumExpr, Any]] | None:
        """A piece of a fused mark: the terms that it covers, if it covers whole terms."""
        simplify = self._analyzer.simplify
        mark: Any = split.source
        dtype = split.dtype
        terms = []
        low, top = split.lower_factor, simplify(build.mul(split.lower_factor, split.extent))

        def at_most(x: Any, y: Any) -> bool:
            return self._analyzer.can_prove(build.le(x, y))

        def exact(x: Any, y: Any) -> Any:
            """``x / y``, None where y does not divide x."""
            quotient = simplify(build.floordiv(x, y))
            return quotient if self._analyzer.can_prove_equal(build.mul(quotient, y), x) else None

        for item in mark.source.args:
            reach = simplify(build.mul(item.scale, item.extent))
            if at_most(top, item.scale) or at_most(reach, low):
                continue  # above the piece, or below it
            start = item.scale if at_most(low, item.scale) else low
            end = reach if at_most(reach, top) else top
            inner, scale, extent = exact(start, item.scale), exact(start, low), exact(end, start)
            if inner is None or scale is None or extent is None:
                return None
            terms.append(IterSplitExpr(item.source, simplify(build.mul(item.lower_factor, inner)), extent, scale))
        if not terms:
            return None
        covered = IterMark(IterSumExpr(terms, build.const(0, dtype)), split.extent)
        return self._divide_split(_split(covered, scale=split.scale))
