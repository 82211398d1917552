"""Which guards say no more than that values lie in their domains."""

from __future__ import annotations

from itertools import product

import pytest

from ir import tir
from schedules.bounds import clause_beyond
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
