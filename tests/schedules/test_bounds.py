"""Which guards say no more than that values lie in their domains."""

from __future__ import annotations

from itertools import product

import pytest

from ir import tir
from ir.arith import Analyzer
from ir.arith.analyzer import constraints
from schedules.bounds import analyzer_of, clause_beyond, nonempty
from schedules.tree import LeafNode, LoopNode


def loop(name: str, extent: int) -> LoopNode:
    body = LeafNode(tir.Evaluate(tir.const(0)))
    return LoopNode(tir.Var(name, "int32"), tir.const(extent), body)


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("inner", [1, 2, 3])
@pytest.mark.parametrize("end", range(5, 14))
def test_a_guard_that_was_divided_follows_from_the_domain_where_it_does(
    factor: int, inner: int, end: int
) -> None:
    """``i < 4`` and ``factor * i + j < end``, or ``3 <= i`` and its like, on all values; all of the guards that follow are found."""
    outer, below = loop("i", 7), loop("j", inner)
    value = outer.var * factor + below.var
    for clause, condition, holds, given in (
        (outer.var < 4, value < end, lambda i, j: i < 4, lambda i, j: factor * i + j < end),
        (3 <= outer.var, end <= value, lambda i, j: 3 <= i, lambda i, j: end <= factor * i + j),
    ):
        follows = all(holds(i, j) for i, j in product(range(7), range(inner)) if given(i, j))
        assert (clause_beyond(clause, [condition], [outer, below]) is None) == follows


N, M = tir.Var("n", "int32"), tir.Var("m", "int32")


@pytest.mark.parametrize(
    "extent",
    [
        *(N, N * 4, N * M, N * 2 * M * N, N - M, (N * 4 + 255) // 256, tir.min(N, M), tir.max(N, M)),
        *((N * M + 3) // 4, (N * M - 3) // 4, (N * M + 4) // 4, (N // 2 + 1) * (M // 2 + 1)),
        *(((N - 1) // 2 + 1) * 3 * ((M - 1) // 2 + 1), (N // 2 * M + 1) // 2 * M, (N - 3) // 4 * M),
    ],
    ids=str,
)
def test_what_holds_where_a_loop_iterates_holds_for_all_extents_that_let_it(extent: tir.PrimExpr) -> None:
    conditions = nonempty([LoopNode(tir.Var("i", "int32"), extent, LeafNode(tir.Evaluate(tir.const(0))))])
    assert conditions
    analyzer = Analyzer()
    for n, m in product(range(-3, 4), repeat=2):
        values = {N: tir.const(n), M: tir.const(m)}
        if analyzer.can_prove(tir.substitute(extent, values) >= 1):
            assert all(analyzer.can_prove(tir.substitute(item, values)) for item in conditions)


def test_factors_of_the_extent_of_a_loop_that_iterates_are_not_zero() -> None:
    windows = (N - 1) // 2 + 1, (M - 1) // 2 + 1
    for extent, factors in (
        *((N * 4, [N]), (N * M, [N, M]), ((N * 4 + 255) // 256, [N]), ((N * M * 2 + 255) // 256, [N, M])),
        *((windows[0] * 2 * windows[1], windows), ((windows[0] * windows[1] + 255) // 256, windows)),
    ):
        node = LoopNode(tir.Var("i", "int32"), extent, LeafNode(tir.Evaluate(tir.const(0))))
        for factor in factors:
            assert not analyzer_of([node]).can_prove(factor != 0)
            with constraints(analyzer_of([node]), *nonempty([node])) as analyzer:
                assert analyzer.can_prove(factor != 0)


def test_memory_that_says_how_far_a_loop_runs_may_change_inside() -> None:
    count = tir.decl_buffer((1,), "int32", "count")
    assert (
        nonempty([LoopNode(tir.Var("i", "int32"), count[0] * N, LeafNode(tir.Evaluate(tir.const(0))))]) == []
    )
