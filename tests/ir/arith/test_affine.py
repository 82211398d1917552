"""Sums of multiples of variables: what they are read as, and that they are written as the general simplifier writes them."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import Range, tir
from ir.arith import Analyzer
from ir.arith.affine import affine_form, canonical_sum
from ir.arith.index_simplifier import Linear
from ir.structural import structural_equal
from ir.tir.evaluate import evaluate

I, J, K = tir.Var("i"), tir.Var("j"), tir.Var("k")
LEAVES = st.sampled_from([I, J, K, tir.const(3), tir.const(-2), tir.const(8)])


def sums(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(tir.Add, children, children),
        st.builds(tir.Sub, children, children),
        st.builds(lambda a, c: tir.Mul(a, tir.const(c)), children, st.integers(-4, 16)),
        st.builds(lambda a, c: tir.Mul(tir.const(c), a), children, st.integers(-4, 16)),
    )


SUMS = st.recursive(LEAVES, sums, max_leaves=8)


@given(SUMS)
@settings(max_examples=150, deadline=None)
def test_a_form_has_the_values_of_its_expression(expr):
    form = affine_form(expr)
    assert form is not None
    written = canonical_sum(form, "int32")
    for values in product((-3, 0, 5), repeat=3):
        environment = dict(zip((I, J, K), values))
        expected = evaluate(expr, environment)
        assert form.const + sum(c * environment[var] for var, c in form.terms.items()) == expected
        if written is not None:
            assert evaluate(written, environment) == expected


@given(
    st.permutations([(I, 8), (J, 4), (K, 1)]),
    st.integers(-3, 3),
    st.sets(st.sampled_from([I, J, K]), max_size=2),
)
@settings(max_examples=80, deadline=None)
def test_the_canonical_form_is_that_of_the_general_simplifier(terms, constant, negated):
    """What a sum is written as must not depend on which of the two wrote it."""
    expr = tir.const(constant)
    for var, factor in terms:
        term = tir.Mul(var, tir.const(factor))
        expr = tir.Sub(expr, term) if var in negated else tir.Add(expr, term)
    analyzer = Analyzer()
    general = analyzer.canonical_simplify(analyzer.rewrite_simplify(expr))
    written = canonical_sum(affine_form(expr), "int32")
    assert structural_equal(general, written, map_free_vars=False)
    assert structural_equal(analyzer.simplify(expr), general)
    assert analyzer.simplify(written) is written


@pytest.mark.parametrize(
    "expr",
    [
        I // 4,
        I * J,
        tir.min(I, J),
        I.astype("int64"),
        tir.Mul(I, tir.const(1 << 30)) * 4,
        tir.Add(tir.Add(I, tir.const(1 << 30)), tir.const(1 << 30)),
    ],
)
def test_what_is_no_sum_is_left(expr):
    assert affine_form(expr) is None


def test_shared_operands_are_not_unfolded():
    expr = I + 1
    for _ in range(60):
        expr = expr + expr
    assert affine_form(expr) is None


def test_no_positive_term_and_other_types_are_left():
    assert canonical_sum(Linear({I: -1}, 3), "int32") is None
    assert canonical_sum(Linear({I: 1}, 3), "int64") is None


def test_what_is_known_of_a_variable_counts():
    analyzer = Analyzer()
    analyzer.bind(I, J * 2)
    analyzer.bind(K, Range(3, 4))
    assert structural_equal(analyzer.simplify(I * 4 + J + K), J * 9 + 3)
