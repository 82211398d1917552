"""Coefficients, clipping conditions, and systems of equations and inequalities."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import ir
from ir import Range, tir
from ir.arith import (
    detect_clip_bound,
    detect_linear_equation,
    solve_linear_equations,
    solve_linear_inequalities,
)
from ir.tir import Var
from ir.tir.evaluate import evaluate

a, b, c = (Var(name) for name in "abc")


def test_coefficients() -> None:
    def coefficients(expr: Any, *variables: Var) -> list[str]:
        return [str(item) for item in detect_linear_equation(expr, list(variables))]

    assert coefficients(a * 4 + b * 6 + 7, a) == ["4", "b * 6 + 7"]
    assert coefficients(a * 4 + b * 6 + 7, a, b) == ["4", "6", "7"]
    assert coefficients(a * 4 + (a + 1) + b, a) == ["5", "b + 1"]
    assert coefficients(a * b + 7, a) == ["b", "7"]
    assert coefficients(b * 7, a) == ["0", "b * 7"]
    assert coefficients(a * (a + 1), a) == []
    assert coefficients(a // 2, a) == []


def test_clip_bounds() -> None:
    low, high = detect_clip_bound(tir.all(a - 1 > 0, a < b * 6), [a])
    assert ir.structural_equal(low, tir.const(2)) and ir.structural_equal(high, b * 6 - 1)
    assert detect_clip_bound(a * 2 < 7, [a]) == []
    assert detect_clip_bound(a < 7, [a])[0] is None


def test_equations() -> None:
    found = solve_linear_equations([(a * 2 + b).equal(4), (a - b).equal(-1)], [a, b])
    assert [found.src_to_dst[var].value for var in (a, b)] == [1, 2]  # type: ignore[attr-defined]
    found = solve_linear_equations([(a + b).equal(c)], [a, b])
    total = found.src_to_dst[a] + found.src_to_dst[b]
    assert ir.structural_equal(ir.arith.Analyzer().simplify(total), c) and len(found.dst.variables) == 1
    found = solve_linear_equations([a.equal(1), a.equal(2)], [a])
    assert ir.structural_equal(found.dst.relations[0], tir.const(False))


def test_ranges_of_the_unknowns_become_ranges_of_the_free_variables() -> None:
    box = {a: Range(0, 6), b: Range(2, 20)}
    found = solve_linear_equations([(a + b * 2).equal(15)], [a, b], box)
    (free,) = found.dst.variables
    domain, solutions = found.dst.ranges[free], set()
    assert not found.dst.relations
    for value in range(domain.min.value, domain.min.value + domain.extent.value):
        solutions.add(tuple(evaluate(found.src_to_dst[var], {free: value}) for var in (a, b)))
    assert solutions == {(p, q) for p in range(6) for q in range(2, 20) if p + 2 * q == 15}


@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=2),
    st.lists(st.integers(-3, 3), min_size=3, max_size=3),
)
def test_solutions_of_equations_hold(rows: list[list[int]], point: list[int]) -> None:
    """The right sides are chosen such that ``point`` is a solution; every choice of the free variables must be one."""
    variables = [a, b, c]
    equations = []
    for row in rows:
        left: Any = tir.const(0)
        for factor, var in zip(row, variables):
            left = left + var * factor
        if isinstance(left, tir.IntImm):
            continue
        equations.append(left.equal(sum(f * p for f, p in zip(row, point))))
    if not equations:
        return
    found = solve_linear_equations(equations, variables)
    free = list(found.dst.variables)
    for values in itertools.product(range(-2, 3), repeat=len(free)):
        known = dict(zip(free, values))
        solution = {var: evaluate(found.src_to_dst[var], known) for var in variables}
        assert all(bool(evaluate(equation, solution)) for equation in equations)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-6, 6)), min_size=1, max_size=3)
)
def test_inequalities_keep_their_solutions(rows: list[tuple[int, int, int]]) -> None:
    relations: list[Any] = [p * a + q * b <= r for p, q, r in rows if p or q]
    if not relations:
        return
    box = {a: Range(0, 6), b: Range(0, 6)}
    found = solve_linear_inequalities(relations, [a, b], box)
    for x, y in itertools.product(range(6), repeat=2):
        values = {a: x, b: y}
        before = all(bool(evaluate(item, values)) for item in relations)
        after = all(bool(evaluate(item, values)) for item in found.relations)
        for var, domain in found.ranges.items():
            low, extent = evaluate(domain.min, values), evaluate(domain.extent, values)
            after = after and low <= values[var] < low + extent
        assert before == after, (x, y)


def test_bounds_that_make_a_range_are_no_relations() -> None:
    found = solve_linear_inequalities([a >= 3, a <= 7], [a])
    assert ir.structural_equal(found.ranges[a], Range(3, 8)) and found.relations == ()


def test_deskewed_inequalities_start_at_zero() -> None:
    found = solve_linear_inequalities([a >= 3, a < b], [a], {}, deskew_range=True)
    (shifted,) = found.dst.variables
    assert ir.structural_equal(found.dst.ranges[shifted].min, tir.const(0))
    assert evaluate(found.src_to_dst[a], {shifted: 0}) == 3


def test_common_subexpressions() -> None:
    common = (a + b) // 4
    found = ir.arith.detect_common_subexpr(common * 3 + common % 2 + (a + b) * c, 2)
    assert {str(node): times for node, times in found.items()} == {"(a + b) // 4": 2, "a + b": 3}
    assert ir.arith.detect_common_subexpr(a + b, 2) == {}
