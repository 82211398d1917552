"""Ranges of indices while some variables run: they hold what is reached, and no more where they are said to be exact."""

from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ir import tir
from ir.arith.index_range import IndexRanges
from ir.arith.index_simplifier import IndexSimplifier
from ir.tir.evaluate import evaluate

OUTER = [tir.Var("a"), tir.Var("b")]
INNER = {tir.Var("i"): 4, tir.Var("j"): 3, tir.Var("k"): 1}
LEAVES = st.sampled_from([*OUTER, *INNER, tir.const(5)])


def indices(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(tir.Add, children, children),
        st.builds(tir.Sub, children, children),
        st.builds(lambda a, c: tir.Mul(a, tir.const(c)), children, st.sampled_from([-2, 2, 3, 4, 16])),
        st.builds(lambda a, c: tir.FloorDiv(a, tir.const(c)), children, st.sampled_from([2, 3, 4, 8])),
        st.builds(lambda a, c: tir.FloorMod(a, tir.const(c)), children, st.sampled_from([2, 3, 4, 8])),
        st.builds(tir.Min, children, children),
    )


INDICES = st.recursive(LEAVES, indices, max_leaves=6)


def simplifier() -> IndexSimplifier:
    found = IndexSimplifier()
    for var, extent in INNER.items():
        found.bind_range(var, tir.const(0), tir.const(extent))
    return found


def reached(expr: Any, outer: tuple[int, ...]) -> list[int]:
    fixed = dict(zip(OUTER, outer))
    return [
        int(evaluate(expr, fixed | dict(zip(INNER, inner))))
        for inner in product(*[range(extent) for extent in INNER.values()])
    ]


@given(INDICES, st.booleans())
@settings(max_examples=250, deadline=None)
def test_a_range_holds_what_is_reached(expr, is_exact):
    ranges = IndexRanges(simplifier(), is_exact)
    found = ranges.split(ranges.simplifier.linear(expr), INNER.__contains__)
    if found is None:
        return
    fixed, low, high = found
    for outer in product((-7, 0, 2, 9), repeat=2):
        start = evaluate(ranges.simplifier.build(fixed, "int32"), dict(zip(OUTER, outer)))
        values = reached(expr, outer)
        assert start + low <= min(values) and max(values) <= start + high


@given(st.lists(st.tuples(st.sampled_from([*OUTER, *INNER]), st.integers(-5, 9)), min_size=1, max_size=5))
@settings(max_examples=80, deadline=None)
def test_the_range_of_a_sum_is_exact(terms):
    expr = tir.const(0)
    for var, factor in terms:
        expr = tir.Add(expr, tir.Mul(var, tir.const(factor)))
    ranges = IndexRanges(simplifier(), is_exact=True)
    fixed, low, high = ranges.split(ranges.simplifier.linear(expr), INNER.__contains__)
    start = evaluate(ranges.simplifier.build(fixed, "int32"), dict(zip(OUTER, (2, 9))))
    values = reached(expr, (2, 9))
    assert (start + low, start + high) == (min(values), max(values))


def test_quotients_are_rounded_outwards_only_where_that_is_allowed():
    i, a = next(iter(INNER)), OUTER[0]
    expr = (a * 3 + i) // 2
    exact, wide = IndexRanges(simplifier(), is_exact=True), IndexRanges(simplifier())
    assert exact.split(exact.simplifier.linear(expr), INNER.__contains__) is None
    fixed, low, high = wide.split(wide.simplifier.linear(expr), INNER.__contains__)
    assert (low, high) == (0, 2) and str(wide.simplifier.build(fixed, "int32")) == str(a * 3 // 2)


def test_a_defined_variable_is_its_value():
    found, v, i = simplifier(), tir.Var("v"), next(iter(INNER))
    assert found.bounds(v + 1)[0] < 0
    found.define(v, i * 2)
    assert found.bounds(v + 1) == (1, 7)
    found.define(v, i * 2 + 10)  # another value: what was derived is forgotten
    assert found.bounds(v + 1) == (11, 17)


def test_what_is_taken_out_of_a_quotient_keeps_the_quotient_s_factor():
    i, a = next(iter(INNER)), OUTER[0]
    wide = IndexRanges(simplifier())
    fixed, low, high = wide.split(wide.simplifier.linear((a * 3 + i) // 2 * 5), INNER.__contains__)
    assert (low, high) == (0, 10) and str(wide.simplifier.build(fixed, "int32")) == str(a * 3 // 2 * 5)


def test_an_extreme_may_not_reach_its_bounds_and_has_no_exact_range():
    i = next(iter(INNER))
    exact, wide = IndexRanges(simplifier(), is_exact=True), IndexRanges(simplifier())
    expr = tir.min(i, 3 - i)
    assert exact.split(exact.simplifier.linear(expr), INNER.__contains__) is None
    assert wide.split(wide.simplifier.linear(expr), INNER.__contains__)[1:] == (0, 3)
