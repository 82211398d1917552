"""Fusing splits into one iterator: terms that continue one another, and the sums that predicates bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..tir import operators
from ..tir.expr import IntImm, Range
from . import build
from .deep_equal import expr_deep_equal
from .iter_map_expr import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    one,
    split_of,
)

if TYPE_CHECKING:
    from .analyzer import Analyzer


class NotAffine(Exception):
    """An expression is no iterator map; the message says why."""


class IterFusion:
    """The marks of one detection, and which of them are fused from which."""

    def __init__(
        self,
        analyzer: Analyzer,
        input_iters: Mapping[Any, Range],
        simplify_trivial: bool,
        check_level: int,
    ) -> None:
        self.analyzer = analyzer
        self.check_level = check_level
        self.marks: dict[Any, IterMark] = {}
        self.sums: dict[Any, IterSumExpr] = {}
        self._fused: list[tuple[IterSumExpr, IterMark]] = []
        """Sums that were made marks, so that equal sums share one."""
        self._bounded: list[tuple[IterSumExpr, IterMark]] = []
        """Those of them that a predicate bounds."""
        self._offsets: dict[int, tuple[IterMark, Any]] = {}
        """Where a fused mark that a predicate bounds from below begins, by the identity of the mark, which must stay its own."""
        for var, domain in input_iters.items():
            low, extent = domain.min, domain.extent
            if extent.dtype != var.dtype:
                extent = operators.cast(var.dtype, extent)
            if low.dtype != var.dtype:
                low = operators.cast(var.dtype, low)
            if simplify_trivial and analyzer.can_prove_equal(extent, 1):
                self.sums[var] = IterSumExpr((), low)
            elif build.is_const(low, 0):
                self.marks[var] = mark = IterMark(var, extent)
                self.sums[var] = IterSumExpr((split_of(mark),), build.const(0, var.dtype))
            else:
                self.marks[var] = mark = IterMark(build.sub(var, low), extent)
                self.sums[var] = IterSumExpr((split_of(mark),), low)

    def simplify(self, expr: Any) -> Any:
        return self.analyzer.simplify(expr)

    def equal(self, a: Any, b: Any) -> bool:
        return a is b or self.analyzer.can_prove_equal(a, b)

    def same_mark(self, a: IterMark, b: IterMark) -> bool:
        return a is b or (expr_deep_equal(a.source, b.source) and self.equal(a.extent, b.extent))

    def divides(self, a: Any, b: Any) -> bool:
        """Whether ``b % a == 0``, proved."""
        if a.__class__ is IntImm and b.__class__ is IntImm:
            return bool(a.value != 0 and b.value % a.value == 0)
        return build.is_const(self.simplify(build.floormod(b, a)), 0)

    def _smaller(self, a: Any, b: Any) -> Any:
        return b if self.equal(a, b) or self._at_most(b, a) else a

    def _at_most(self, a: Any, b: Any) -> bool:
        return self.analyzer.can_prove(build.le(a, b))

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
            self._offsets[id(mark)] = mark, self.simplify(build.floordiv(ahead, base_scale))
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
                    start = build.mul(offset[1], ratio)
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
                # Of pieces with one scale those of extent 1 come first: they do not move the next scale. The order is
                # turned around at the end, so the last of equals is taken first.
                item = next((each for each in matching if build.is_const(each.extent, 1)), matching[-1])
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
        item = min(reversed(remaining), key=lambda each: each.scale.value)  # type: ignore[attr-defined]
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

    def constrain(self, expr: IterSumExpr, low: Any, high: Any) -> bool:
        """Limit a fused sum to ``[low, high)`` (None: no limit) as a predicate says; False where that cannot be used."""
        joined = self.fuse(expr)
        if joined is None or not build.is_const(joined.scale, 1):
            return False
        mark = joined.source
        if not build.is_const(joined.lower_factor, 1) or not self.equal(joined.extent, mark.extent):
            return False
        # A fused mark that is bounded already begins at its offset; an iterator's split begins at zero.
        start = self._start_of(mark)
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
            self._offsets[id(limited)] = limited, low
        self._fused = [(total, limited if known is mark else known) for total, known in self._fused]
        self._bounded = [(total, known) for total, known in self._bounded if known is not mark]
        self._bounded.append((next(total for total, known in self._fused if known is limited), limited))
        return True

    def _variable_of(self, mark: IterMark) -> Any:
        """The iterator whose own mark this is; None for other marks."""
        return next((var for var, own in self.marks.items() if own is mark), None)

    def offset_of(self, split: IterSplitExpr) -> Any:
        """The value at which a split of a bounded mark begins; zero for others."""
        return self._start_of(split.source)

    def _start_of(self, mark: IterMark) -> Any:
        found = self._offsets.get(id(mark))
        return build.const(0, mark.source.dtype) if found is None else found[1]

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
