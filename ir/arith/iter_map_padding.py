"""Padding of iterators whose extents their divisors do not divide: one padding a mark, shared by all its pieces."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm
from typing import TYPE_CHECKING, Any

from ..tir import operators
from ..tir.expr import IntImm, Range
from . import build
from .iter_map_expr import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    source_expr,
    with_extent,
)
from .iter_map_fusion import IterFusion, NotAffine

if TYPE_CHECKING:
    from .analyzer import Analyzer


class Padding:
    """How a mark is to be padded so that all divisors of its pieces divide it."""

    def __init__(self, mark: IterMark, factor: Any, left: Any) -> None:
        self.mark, self.factor, self.left = mark, factor, left
        self.needed = False
        self.padded: IterMark | None = None


class IterPadding(IterFusion):
    """Pads marks; a first pass over the indices collects what they need, a second one uses the padded marks."""

    def __init__(
        self,
        analyzer: Analyzer,
        input_iters: Mapping[Any, Range],
        simplify_trivial: bool,
        check_level: int,
    ) -> None:
        super().__init__(analyzer, input_iters, simplify_trivial, check_level)
        self.padding: Any = build.boolean(False)
        """Where a padded iterator has no iteration behind it."""
        self.collecting = True
        self.paddings: list[Padding] = []

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
                    f"extent {text_of(split.extent)} is not divisible by {text_of(divisor)}, so padding is needed"
                )
            if not whole:
                raise NotAffine(
                    f"the piece of extent {text_of(split.extent)} of an iterator is not divisible by {text_of(divisor)}"
                )
            record.needed = True
            offset = simplify(build.mul(left, lower))
            record.left = offset if self._at_most(record.left, offset) else record.left
            return with_extent(split, self._rounded_up(build.add(split.extent, left), divisor)), zero
        if record is None or not record.needed:
            if not fits:
                raise NotAffine(f"extent {text_of(split.extent)} is not divisible by {text_of(divisor)}")
            return split, zero
        if not whole and not fits:
            raise NotAffine(
                f"the piece of extent {text_of(split.extent)} is not divisible by {text_of(divisor)}"
            )
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
            edge = operators.logical_and(row, build.lt(inner, simplify(build.floormod(left, divisor))))
            self.padding = operators.logical_or(self.padding, edge)
        if not self.equal(end, padded_extent):
            row = build.eq(outer, simplify(build.floordiv(end, divisor)))
            edge = operators.logical_and(row, build.le(simplify(build.floormod(end, divisor)), inner))
            self.padding = operators.logical_or(self.padding, edge)


def text_of(expr: Any) -> str:
    return str(expr.value) if expr.__class__ is IntImm else repr(expr)
