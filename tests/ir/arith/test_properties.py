"""Random integer expressions: every answer of the analyzer agrees with brute-force evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import Range, tir
from ir.arith import Analyzer, int_set
from ir.tir import Var
from ir.tir.evaluate import evaluate

VARS = [Var(name) for name in "xyzw"]
EXTENTS = (8, 5, 12, 3)
MINS = (0, -2, 0, 1)
GRID = dict(zip(VARS, np.meshgrid(*[np.arange(lo, lo + n) for lo, n in zip(MINS, EXTENTS)], indexing="ij")))
SHAPE = EXTENTS


def numbers(depth: int) -> st.SearchStrategy:
    """Integer expressions over the variables, divisions by constants other than zero."""
    leaf = st.one_of(st.sampled_from(VARS), st.integers(-20, 20).map(tir.const))
    if depth == 0:
        return leaf
    sub = numbers(depth - 1)
    positive = st.integers(1, 16).map(tir.const)
    divisor = st.one_of(positive, st.integers(-4, -1).map(tir.const))
    return st.one_of(
        leaf,
        st.builds(lambda a, b: a + b, sub, sub),
        st.builds(lambda a, b: a - b, sub, sub),
        st.builds(lambda a, b: a * b, sub, st.integers(-8, 16)),
        st.builds(lambda a, b: a * b, sub, sub),
        st.builds(tir.floordiv, sub, positive),
        st.builds(tir.floormod, sub, positive),
        st.builds(tir.floordiv, sub, divisor),
        st.builds(tir.floormod, sub, divisor),
        st.builds(tir.truncdiv, sub, positive),
        st.builds(tir.truncmod, sub, divisor),
        st.builds(tir.min, sub, sub),
        st.builds(tir.max, sub, sub),
        st.builds(lambda c, a, b: tir.Select(c, a, b), conditions(depth - 1), sub, sub),
    )


def conditions(depth: int) -> st.SearchStrategy:
    """Comparisons and connectives of them."""
    sub = numbers(max(depth - 1, 0))
    compare = st.builds(
        lambda op, a, b: op(a, b), st.sampled_from([tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE]), sub, sub
    )
    if depth == 0:
        return compare
    inner = conditions(depth - 1)
    return st.one_of(
        compare, st.builds(tir.And, inner, inner), st.builds(tir.Or, inner, inner), st.builds(tir.Not, inner)
    )


def analyzer() -> Analyzer:
    """Knows the ranges of the variables."""
    found = Analyzer()
    for var, lo, n in zip(VARS, MINS, EXTENTS):
        found.bind(var, Range.from_min_extent(lo, n))
    return found


def values(expr: tir.PrimExpr) -> np.ndarray:
    """The expression at every point of the grid."""
    return np.broadcast_to(np.asarray(evaluate(expr, GRID)), SHAPE)


@pytest.mark.parametrize("method", ["rewrite_simplify", "canonical_simplify", "simplify"])
def test_simplification_keeps_values(method: str) -> None:
    @settings(max_examples=250, deadline=None)
    @given(numbers(3))
    def check(expr: tir.PrimExpr) -> None:
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(values(getattr(analyzer(), method)(expr)), values(expr))

    check()


@pytest.mark.parametrize("method", ["rewrite_simplify", "canonical_simplify", "simplify"])
def test_simplified_conditions_hold_for_the_same_values(method: str) -> None:
    @settings(max_examples=250, deadline=None)
    @given(conditions(3))
    def check(expr: tir.PrimExpr) -> None:
        np.testing.assert_array_equal(values(getattr(analyzer(), method)(expr)), values(expr))

    check()


@settings(max_examples=250, deadline=None)
@given(numbers(3))
def test_simplification_without_ranges_keeps_values(expr: tir.PrimExpr) -> None:
    np.testing.assert_array_equal(values(Analyzer().simplify(expr)), values(expr))


@settings(max_examples=250, deadline=None)
@given(numbers(3))
def test_bounds_and_modular_sets_hold(expr: tir.PrimExpr) -> None:
    found, actual = analyzer(), values(expr)
    bound, modular = found.const_int_bound(expr), found.modular_set(expr)
    assert bound.min_value <= actual.min() and actual.max() <= bound.max_value
    if modular.coeff == 0:
        assert (actual == modular.base).all()
    else:
        assert ((actual - modular.base) % modular.coeff == 0).all()


@settings(max_examples=250, deadline=None)
@given(numbers(3))
def test_int_sets_hold_every_value(expr: tir.PrimExpr) -> None:
    relaxed = dict(zip(VARS[:2], (Range.from_min_extent(lo, n) for lo, n in zip(MINS, EXTENTS))))
    found = int_set.eval_set(expr, relaxed, analyzer())
    actual = values(expr)
    if found.has_lower_bound():
        assert (values(found.min_value) <= actual.min(axis=(0, 1), keepdims=True)).all()
    if found.has_upper_bound():
        assert (values(found.max_value) >= actual.max(axis=(0, 1), keepdims=True)).all()


@settings(max_examples=250, deadline=None)
@given(conditions(2), numbers(2))
def test_what_holds_under_a_constraint(condition: tir.PrimExpr, expr: tir.PrimExpr) -> None:
    found = analyzer()
    holds = values(condition).astype(bool)
    with found.constraint_scope(condition):
        simplified = found.simplify(expr)
        bound = found.const_int_bound(expr)
    np.testing.assert_array_equal(values(simplified)[holds], values(expr)[holds])
    if holds.any():
        assert bound.min_value <= values(expr)[holds].min() and values(expr)[holds].max() <= bound.max_value
    np.testing.assert_array_equal(values(found.simplify(expr)), values(expr))


@settings(max_examples=200, deadline=None)
@given(conditions(2))
def test_what_is_proved_is_true(condition: tir.PrimExpr) -> None:
    if analyzer().can_prove(condition):
        assert values(condition).all()


# ---- symbolic extents -------------------------------------------------------------------------------------------

EXTENT_VARS = [tir.SizeVar("d0"), tir.SizeVar("d1")]
OUTER, INNER = Var("i0"), Var("i1")
"""``i0`` runs over ``d0``, ``i1`` over ``d1``."""
POINTS = [(a, b, i, j) for a in range(1, 5) for b in range(1, 5) for i in range(a) for j in range(b)]
COLUMNS = dict(zip((*EXTENT_VARS, OUTER, INNER), np.array(POINTS).T))


def symbolic(depth: int) -> st.SearchStrategy:
    """Index arithmetic with products of extents as factors and divisors."""
    d0, d1 = EXTENT_VARS
    extent = st.sampled_from([d0, d1, d0 * d1, d1 * d0, d0 * 2, d1 * 4, tir.const(3)])
    leaf = st.sampled_from([OUTER, INNER, d0, d1, OUTER * d1 + INNER, tir.const(1), tir.const(2)])
    if depth == 0:
        return leaf
    sub = symbolic(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda a, b: a + b, sub, sub),
        st.builds(lambda a, b: a - b, sub, sub),
        st.builds(lambda a, b: a * b, sub, extent),
        st.builds(tir.floordiv, sub, extent),
        st.builds(tir.floormod, sub, extent),
        st.builds(tir.min, sub, sub),
    )


def symbolic_analyzer() -> Analyzer:
    """Knows that extents are at least one, and the loops' ranges."""
    found = Analyzer()
    for var in EXTENT_VARS:
        found.bind(var, Range(1, 5))
    found.bind(OUTER, Range(0, EXTENT_VARS[0]))
    found.bind(INNER, Range(0, EXTENT_VARS[1]))
    return found


def column(expr: tir.PrimExpr) -> np.ndarray:
    """The expression at every point."""
    return np.broadcast_to(np.asarray(evaluate(expr, COLUMNS)), len(POINTS))


@settings(max_examples=250, deadline=None)
@given(symbolic(3), symbolic(2))
def test_symbolic_arithmetic(expr: tir.PrimExpr, other: tir.PrimExpr) -> None:
    found = symbolic_analyzer()
    for method in (found.rewrite_simplify, found.canonical_simplify, found.simplify):
        np.testing.assert_array_equal(column(method(expr)), column(expr))
    for condition in (expr < other, expr <= other, expr >= other, tir.EQ(expr, other)):
        if found.can_prove(condition):
            assert column(condition).all()
    if found.can_prove_equal(expr, other):
        np.testing.assert_array_equal(column(expr), column(other))
    reach = int_set.eval_set(expr, {INNER: Range(0, EXTENT_VARS[1])}, found)
    if reach.has_lower_bound() and INNER not in tir.analysis.undefined_vars(reach.min_value):
        assert (column(reach.min_value) <= column(expr)).all()
    if reach.has_upper_bound() and INNER not in tir.analysis.undefined_vars(reach.max_value):
        assert (column(reach.max_value) >= column(expr)).all()
