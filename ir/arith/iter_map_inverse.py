"""Inverses of iterator maps and of index maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..tir import expr as E
from ..tir import operators
from ..tir.expr import PrimExpr, Range
from ..tir.index_map import IndexMap
from ..tir.stmt_functor import substitute
from . import build
from .analyzer import Analyzer
from .deep_equal import expr_deep_equal
from .iter_affine_map import detect_iter_map
from .iter_map_expr import IterMapError, IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, depth_of

if TYPE_CHECKING:
    from ..tir.index_map import IndexMap


def inverse_affine_iter_map(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[PrimExpr]
) -> dict[E.Var, PrimExpr]:
    """The iterators in terms of the values of the indices (``outputs``), for a bijective map.

    Each index gives its value to its split; splits add up to their mark; marks that are sums pass values on.
    """

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
        pending.sort(key=lambda k: depth_of(collected[k][0]), reverse=True)
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


def _marks_equal(a: IterMark, b: IterMark) -> bool:
    return a is b or (expr_deep_equal(a.source, b.source) and expr_deep_equal(a.extent, b.extent))


def _solve_for_variable(source: Any, value: Any) -> tuple[Any, Any] | None:
    """``var + a == value`` or ``var - a == value`` solved for the variable."""
    if isinstance(source, E.Var):
        return source, value
    if isinstance(source, E.Cast):
        return _solve_for_variable(source.value, operators.cast(source.value.dtype, value))
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
    variables = index_map.initial_indices
    domains = {
        var: Range.from_min_extent(
            operators.cast(var.dtype, item.min), operators.cast(var.dtype, item.extent)
        )
        for var, item in zip(variables, ranges, strict=True)
    }
    level = IterMapLevel.Bijective if check_bijective else IterMapLevel.NoCheck
    result = detect_iter_map(index_map.final_indices, domains, True, level, simplify_trivial_iterators=False)
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
        low, extent = item.base, build.const(1, expr.dtype)
        for split in item.args:
            extent = analyzer.simplify(split.extent)
            if build.is_const(split.scale, -1):
                low = analyzer.simplify(build.sub(item.base, build.sub(extent, build.const(1, extent.dtype))))
            elif not build.is_const(split.scale, 1):
                raise IterMapError(
                    f"the index map cannot be inverted: values of index {expr!r} are {split.scale!r} apart"
                )
        if not build.is_const(extent, 1):  # an axis of extent 1 keeps its variable
            analyzer.bind(var, Range.from_min_extent(low, extent))
    solved = inverse_affine_iter_map(result.indices, outputs)
    finals = []
    for var in variables:
        value = solved.get(var)
        if value is None:
            value = domains[var].min
        finals.append(analyzer.simplify(operators.cast(var.dtype, value)))
    predicate: Any = build.boolean(False)
    if result.is_padded:
        replaced = substitute(result.padding_predicate, dict(zip(variables, finals)))
        predicate = analyzer.simplify(replaced)
    return IndexMap(outputs, finals), predicate
