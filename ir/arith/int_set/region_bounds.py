"""What a region of a buffer covers while the variables of its indices run over their domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...tir import expr as E
from ...tir import operators
from ...tir.conjunction import conjuncts
from ...tir.expr import IntImm, PrimExpr, Range
from ...tir.stmt_functor import substitute
from .. import build
from ..analyzer import Analyzer
from ..bound_deducer import deduce_bound, uses
from ..iter_affine_map import detect_iter_map
from ..iter_map_expr import IterMapLevel, IterSumExpr
from .evaluation import eval_set
from .interval_set import IntervalSet, as_int_set, intersect, is_infinite, range_of

if TYPE_CHECKING:
    from ..analyzer import Analyzer


def eval_region(
    region: Sequence[Range], dom_map: Mapping[Any, Any], analyzer: Analyzer | None = None
) -> list[IntervalSet]:
    """The set of each dimension of a box while variables run over ``dom_map``."""
    if analyzer is None:
        analyzer = Analyzer()
    result = []
    for domain in region:
        low = eval_set(domain.min, dom_map, analyzer)
        if domain.extent.__class__ is IntImm and domain.extent.value == 1:  # type: ignore[attr-defined]
            result.append(low)
            continue
        last = operators.add(domain.min, operators.subtract(domain.extent, 1))
        high = eval_set(last, dom_map, analyzer)
        result.append(IntervalSet(low.min_value, high.max_value))
    return result


def estimate_region_upper_bound(
    region: Sequence[Range],
    var_dom: Mapping[Any, Any],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet]:
    """Sets that hold all that a region covers while the variables run over ``var_dom``.

    A predicate that is affine in one variable narrows its domain.
    """
    domains = _narrowed(var_dom, predicate, analyzer)
    strict = _strict(region, domains, predicate, analyzer)
    return strict if strict is not None else eval_region(region, domains, analyzer)


def estimate_region_strict_bound(
    region: Sequence[Range],
    var_dom: Mapping[Any, Any],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """The exact sets that a region covers; None where its indices are not independent affine maps of the variables."""
    return _strict(
        region, {getattr(k, "var", k): _as_range(v) for k, v in var_dom.items()}, predicate, analyzer
    )


def estimate_region_lower_bound(
    region: Sequence[Range],
    var_dom: Mapping[Any, Any],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """Sets all of which a region certainly covers; None where nothing is certain."""
    return estimate_region_strict_bound(region, var_dom, predicate, analyzer)


def _as_range(value: Any) -> Range:
    if isinstance(value, Range):
        return value
    if isinstance(value, E.IterVar):
        return value.dom
    return range_of(as_int_set(value))


def _narrowed(var_dom: Mapping[Any, Any], predicate: Any, analyzer: Analyzer | None) -> dict[Any, Any]:
    domains = {getattr(var, "var", var): value for var, value in var_dom.items()}
    if not isinstance(predicate, PrimExpr) or predicate.__class__ is IntImm:
        return domains
    for var in list(domains):
        others = {key: as_int_set(value) for key, value in domains.items() if key is not var}
        for condition in conjuncts(predicate):
            if not uses(condition, var):
                continue
            allowed = deduce_bound(var, condition, others, others, relax_conservatively=True)
            if allowed is not None and not allowed.is_everything() and not allowed.is_nothing():
                current = as_int_set(domains[var])
                domains[var] = intersect([current, allowed], analyzer)
    return domains


def _is_decided(condition: Any, ranges: Mapping[Any, Range], analyzer: Analyzer) -> bool:
    """Whether a condition limits variables that run, or holds always: of any other it is not known whether anything is touched."""
    if any(uses(condition, var) for var, domain in ranges.items() if not build.is_const(domain.extent, 1)):
        return True
    only = {var: domain.min for var, domain in ranges.items()}
    return bool(analyzer.can_prove(substitute(condition, only)))


def _never_holds(condition: Any, ranges: Mapping[Any, Range]) -> bool:
    """Whether a predicate is known to leave nothing of the ranges."""
    inside = Analyzer()
    for var, domain in ranges.items():
        inside.bind(var, domain)
    return bool(inside.can_prove(operators.logical_not(condition)))


def _strict(
    region: Sequence[Range], domains: Mapping[Any, Any], predicate: Any, analyzer: Analyzer | None
) -> list[IntervalSet] | None:
    if analyzer is None:
        analyzer = Analyzer()
    ranges: dict[Any, Range] = {}
    for var, value in domains.items():
        found = as_int_set(value)
        if is_infinite(found.min_value) or is_infinite(found.max_value):
            return None
        ranges[var] = value if isinstance(value, Range) else range_of(found, analyzer=analyzer)
    condition = predicate if isinstance(predicate, PrimExpr) else build.boolean(True)
    if _never_holds(condition, ranges):
        return None
    if not all(_is_decided(item, ranges, analyzer) for item in conjuncts(condition)):
        return None
    result = detect_iter_map(
        [item.min for item in region],
        ranges,
        condition,
        IterMapLevel.Surjective,
        analyzer=analyzer,
    )
    if not result.indices or not build.is_const(result.padding_predicate, 0):
        return [] if not region else None  # of a padded iterator not all values are there
    sets = []
    for sum_expr, item in zip(result.indices, region):
        if not isinstance(sum_expr, IterSumExpr):
            return None
        if not sum_expr.args:
            low, high = sum_expr.base, sum_expr.base
        else:
            if len(sum_expr.args) != 1:
                return None
            split = sum_expr.args[0]
            if not analyzer._prove_ge(split.extent, 1):
                return None  # perhaps nothing is touched
            scale = split.scale
            reach = operators.multiply(operators.subtract(split.extent, 1), scale)
            step = scale
            if analyzer._prove_ge(scale, 0):
                low, high = sum_expr.base, operators.add(sum_expr.base, reach)
            elif analyzer._prove_lt(scale, 0):
                low, high = operators.add(sum_expr.base, reach), sum_expr.base
                step = analyzer.simplify(operators.multiply(scale, -1))
            else:
                return None
            if not (build.is_const(step, 1) or analyzer.can_prove(build.le(step, item.extent))):
                return None
        last = operators.subtract(operators.add(high, item.extent), 1)
        sets.append(IntervalSet(analyzer.simplify(low), analyzer.simplify(last)))
    return sets
