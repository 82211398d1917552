"""expr_deep_equal: node by node, variables only themselves, signs of zero told apart, in linear time."""

from __future__ import annotations

import pytest

from ir import te, tir
from ir.arith.deep_equal import expr_deep_equal, expr_deep_hash

X, Y, F = te.var("x"), te.var("y"), tir.Var("f", "float32")
A, B = tir.decl_buffer((8,), "float32", "A"), tir.decl_buffer((8,), "float32", "A")


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (X + Y * 2, X + Y * 2, True),
        (X + Y, Y + X, False),
        (X + 1, te.var("x") + 1, False),
        (tir.const(1, "int32"), tir.const(1, "int64"), False),
        (tir.FloatImm("float32", 0.0), tir.FloatImm("float32", -0.0), False),
        (tir.FloatImm("float32", float("nan")), tir.FloatImm("float32", float("nan")), True),
        (tir.exp(F), tir.exp(F), True),
        (tir.exp(F), tir.log(F), False),
        (A[X + 1], A[X + 1], True),
        (A[X], B[X], False),
        (tir.Select(X < 1, F, F + 1.0), tir.Select(X < 1, F, F + 1.0), True),
        (tir.Select(X < 1, F, F + 1.0), tir.Select(X < 2, F, F + 1.0), False),
        (tir.Ramp(X, 1, 4), tir.Ramp(X, 1, 8), False),
    ],
)
def test_pairs(a: tir.PrimExpr, b: tir.PrimExpr, equal: bool) -> None:
    assert expr_deep_equal(a, b) is equal


def test_shared_operands_are_compared_once() -> None:
    def deep(last: float) -> tir.PrimExpr:
        x = F + last
        for _ in range(200):
            x = x * x + x
        return x

    assert expr_deep_equal(deep(1.0), deep(1.0))
    assert not expr_deep_equal(deep(1.0), deep(2.0))


def test_equal_expressions_have_one_hash_and_most_others_have_their_own() -> None:
    def made() -> list[tir.PrimExpr]:
        values = [float("nan"), 0.5, 2.0]
        return [
            X + Y * 2, Y + X, X - Y, tir.const(1, "int32"), tir.const(1, "int64"), tir.exp(F), tir.log(F), A[X + 1], A[X], B[X],
            tir.Select(X < 1, F, F + 1.0), tir.Select(X < 2, F, F + 1.0), tir.Ramp(X, 1, 4), tir.Ramp(X, 1, 8),
            *(tir.FloatImm("float32", value) for value in values), tir.Cast("int64", X), tir.StringImm("a"),
        ]  # fmt: skip

    first, second = ([expr_deep_hash(item) for item in made()] for _ in range(2))
    assert first == second and len(set(first)) == len(first)


def test_the_hash_takes_time_by_different_nodes() -> None:
    item: tir.PrimExpr = X
    for _ in range(200):
        item = tir.Add(item, item)
    assert expr_deep_hash(item) == expr_deep_hash(tir.Add(item.a, item.b))
