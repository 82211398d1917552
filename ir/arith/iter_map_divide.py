"""Division of iterator maps into a part over outer and a part over inner iterators, as blockizing a nest needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..tir import expr as E
from ..tir import operators
from ..tir.conjunction import conjuncts
from ..tir.expr import PrimExpr, Range
from . import build
from .analyzer import Analyzer
from .analyzer import Analyzer as _Analyzer
from .iter_affine_map import Iterators, detect, level_of
from .iter_map_expr import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
    split_of,
    variables_of,
)


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[E.Var, Range],
    sub_iters: Sequence[E.Var],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[list[Any]]:
    """Write each binding as ``outer * (inner extent) + inner`` with the inner part over ``sub_iters`` alone.

    Returns:
        One ``[outer IterMark, inner IterMark]`` per binding and a last pair of marks whose extents are the outer and
        the inner predicate (TVM's convention); an empty list where the bindings cannot be divided.
    """
    level = level_of(check_level)
    analyzer = _Analyzer() if analyzer is None else analyzer
    inner = set(sub_iters)
    with Iterators(analyzer, input_iters):
        result = detect(
            list(bindings), dict(input_iters), predicate, level, analyzer, simplify_trivial_iterators
        )
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
        for part in conjuncts(operators.convert(predicate)):
            used = set(variables_of(part))
            if used <= inner:
                inner_condition = operators.logical_and(inner_condition, part)
            elif not used & inner:
                outer_condition = operators.logical_and(outer_condition, part)
            else:
                return []
        zero = IterSumExpr((), operators.const(0))
        pairs.append([IterMark(zero, outer_condition), IterMark(zero, inner_condition)])
        return pairs


class _Divider:
    """Divides sums of splits into a part over outer and a part over inner iterators."""

    def __init__(self, analyzer: Analyzer, inner: set[Any]) -> None:
        self._analyzer, self._inner = analyzer, inner

    def _kind(self, expr: Any) -> str:
        used = set(variables_of(normalize_iter_map_to_expr(expr)))
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
            # The base goes along with the part that is left alone: an inner part of one value is always 0.
            if build.is_const(inner_extent, 1):
                outer = IterSumExpr(outer.args, build.add(outer.base, total.base))
            else:
                inner = IterSumExpr(inner.args, build.add(inner.base, total.base))
        return IterMark(outer, outer_extent), IterMark(inner, inner_extent)

    def _divide_split(
        self, split: IterSplitExpr
    ) -> tuple[tuple[IterSumExpr, Any], tuple[IterSumExpr, Any]] | None:
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
        whole = build.is_const(split.lower_factor, 1) and self._analyzer.can_prove_equal(
            split.extent, mark.extent
        )
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
        inner_extent = (
            one if not inner_terms else simplify(build.mul(inner_terms[0].extent, inner_terms[0].scale))
        )
        outer_sum = list(outer_terms)
        inner_sum = list(inner_terms)
        if mixed is not None:
            divided = self._divide_split(mixed)
            if divided is None:
                return None
            (outer_part, _), (inner_part, part_extent) = divided
            scale = inner_extent
            inner_sum = [
                IterSplitExpr(i.source, i.lower_factor, i.extent, simplify(build.mul(i.scale, scale)))
                for i in inner_part.args
            ] + inner_sum
            inner_extent = simplify(build.mul(inner_extent, part_extent))
            outer_sum += [
                IterSplitExpr(i.source, i.lower_factor, i.extent, simplify(build.mul(i.scale, inner_extent)))
                for i in outer_part.args
            ]
        scaled = []
        for item in outer_sum:
            steps = self._exact_quotient(item.scale, inner_extent)
            if steps is None:
                return None  # windows that overlap
            scaled.append(IterSplitExpr(item.source, item.lower_factor, item.extent, steps))
        outer_extent = simplify(build.floordiv(mark.extent, inner_extent))
        if not self._analyzer.can_prove_equal(build.mul(outer_extent, inner_extent), mark.extent):
            return None
        if not build.is_const(split.scale, 1):
            return None
        return (IterSumExpr(scaled, zero), outer_extent), (IterSumExpr(inner_sum, zero), inner_extent)

    def _exact_quotient(self, x: Any, y: Any) -> Any:
        """``x / y``, None where y is not known to divide x."""
        quotient = self._analyzer.simplify(build.floordiv(x, y))
        return quotient if self._analyzer.can_prove_equal(build.mul(quotient, y), x) else None

    def _divide_piece(
        self, split: IterSplitExpr
    ) -> tuple[tuple[IterSumExpr, Any], tuple[IterSumExpr, Any]] | None:
        """A piece of a fused mark: the terms that it covers, if it covers whole terms."""
        simplify = self._analyzer.simplify
        mark: Any = split.source
        dtype = split.dtype
        terms = []
        low, top = split.lower_factor, simplify(build.mul(split.lower_factor, split.extent))

        def at_most(x: Any, y: Any) -> bool:
            return self._analyzer.can_prove(build.le(x, y))

        for item in mark.source.args:
            reach = simplify(build.mul(item.scale, item.extent))
            if at_most(top, item.scale) or at_most(reach, low):
                continue  # above the piece, or below it
            start = item.scale if at_most(low, item.scale) else low
            end = reach if at_most(reach, top) else top
            inner, scale, extent = (
                self._exact_quotient(*pair) for pair in ((start, item.scale), (start, low), (end, start))
            )
            if inner is None or scale is None or extent is None:
                return None
            terms.append(
                IterSplitExpr(item.source, simplify(build.mul(item.lower_factor, inner)), extent, scale)
            )
        if not terms:
            return None
        covered = IterMark(IterSumExpr(terms, build.const(0, dtype)), split.extent)
        return self._divide_split(split_of(covered, scale=split.scale))
