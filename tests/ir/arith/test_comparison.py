"""Comparing expressions, and the extra work on conditions that an analyzer does when asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import Range, tir
from ir.arith import Analyzer, CompareResult, ConstIntBound, Extension, ProofStrength
from ir.tir import Var

x, y, z, n = (Var(name, "int32") for name in "xyzn")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (x, y, CompareResult.LT),
        (y, x, CompareResult.GT),
        (x, z, CompareResult.LT),
        (x, x, CompareResult.EQ),
        (x, n, CompareResult.UNKNOWN),
        (x + 1, z, CompareResult.LT),
        (x + 1, y, CompareResult.LE),
    ],
    ids=str,
)
def test_known_inequalities_are_chained(
    left: tir.PrimExpr, right: tir.PrimExpr, expected: CompareResult
) -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(tir.And(x < y, y < z)):
        assert analyzer.try_compare(left, right) == expected
        assert not analyzer.can_prove(x < z)  # chaining is asked for
        assert analyzer.try_compare(x, z, propagate_inequalities=False) == CompareResult.UNKNOWN
        analyzer.enabled_extensions = Extension.TransitivelyProveInequalities
        assert analyzer.can_prove(x + 1 < z) and not analyzer.can_prove(x + 2 < z)


def test_conditions_become_a_conjunction_of_disjunctions() -> None:
    analyzer = Analyzer()
    mixed = tir.Or(tir.And(x < 5, y < 3), z < 2)
    assert str(analyzer.simplify(mixed)) == "x < 5 and y < 3 or z < 2"
    analyzer.enabled_extensions = Extension.ConvertBooleanToAndOfOrs
    assert str(analyzer.simplify(mixed)) == "(x < 5 or z < 2) and (y < 3 or z < 2)"
    merged = tir.Or(tir.And(x < 5, y < 3), tir.And(x < 4, z < 3))
    assert str(analyzer.simplify(merged)).startswith("x < 5 and ")


def test_branches_of_connectives_know_each_other() -> None:
    analyzer = Analyzer()
    either_order = (tir.And(x < 5, tir.Or(x < 6, y < 2)), tir.And(tir.Or(x < 6, y < 2), x < 5))
    for condition in either_order:
        assert str(analyzer.simplify(condition)) == str(condition)
    analyzer.enabled_extensions = Extension.ApplyConstraintsToBooleanBranches
    for condition in either_order:
        assert str(analyzer.simplify(condition)) == "x < 5"


def test_different_ranges_have_no_value_in_common() -> None:
    analyzer = Analyzer()
    analyzer.update(x, ConstIntBound(5, 9))
    analyzer.update(y, ConstIntBound(0, 3))
    assert analyzer.can_prove(tir.NE(x, y)) and analyzer.can_prove(tir.NE(y, x))
    analyzer.update(z, ConstIntBound(0, 1 << 20))
    analyzer.update(n, ConstIntBound(1, 100))
    assert analyzer.can_prove(tir.NE(z * n + 1, z)) and analyzer.can_prove(tir.NE(z, z * n + 1))
    assert not analyzer.can_prove(tir.NE(x, z)) and not analyzer.can_prove(tir.NE(z * n, z))


@pytest.mark.parametrize(
    "condition",
    [
        x // 4 < (n + 3) // 4,
        x // 8 <= n // 8,
        x // 8 * 8 < n,
        x // 2 <= x,
        x // 4 * 4 + 3 < n + 3,
        tir.And(x // 3 <= n // 3, x < n),
        x // 4 + x // 2 <= x,
    ],
    ids=str,
)
def test_quotients_are_bounded_by_what_they_divide_where_that_is_asked_for(condition: tir.PrimExpr) -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, n))
    assert not analyzer.can_prove(condition)
    assert analyzer.can_prove(condition, ProofStrength.SYMBOLIC_BOUND)
    assert not analyzer.can_prove(condition), "the strength is of one question"


@settings(max_examples=300)
@given(
    st.lists(st.integers(-3, 3), min_size=4, max_size=4),
    st.sampled_from([(2, 2), (3, 5), (4, 2), (8, 8)]),
    st.integers(-4, 4),
)
def test_no_more_is_proved_of_quotients_than_holds(
    factors: list[int], divisors: tuple[int, int], shift: int
) -> None:
    """A bound above a value that is taken, for some x below some n, is not proved."""
    a, b, c, d = factors
    p, q = divisors
    rows, columns = np.meshgrid(np.arange(40), np.arange(40), indexing="ij")
    values = a * (rows // p) + b * ((columns + shift) // q) + c * rows + d * columns
    least = int(values[rows < columns].min())
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, n))
    value = a * (x // p) + b * ((n + shift) // q) + c * x + d * n
    assert not analyzer.can_prove(value >= least + 1, ProofStrength.SYMBOLIC_BOUND)


def test_products_are_bounded_from_below_beside_other_terms() -> None:
    analyzer = Analyzer()
    for var, low in ((x, 0), (y, 0), (n, 1)):
        analyzer.update(var, ConstIntBound(low, 1 << 20))
    for condition in (x * n + y >= x, x * n + y > x - 1, y + x * n >= x, x * n - x + y >= 0):
        assert analyzer.can_prove(condition), condition
    assert not analyzer.can_prove(x * n - y >= x)
    for condition in (tir.NE(x * n + y + 1, x), tir.NE(x, x * n + y + 1)):
        assert analyzer.can_prove(condition), condition
