"""Rewrite rules: the form of what comes out, operator by operator."""

from __future__ import annotations

from typing import Any

import pytest

import ir
from ir import Range, tir
from ir.arith import Analyzer, ConstIntBound
from ir.tir import Broadcast, Ramp, Var, floordiv, floormod, truncdiv, truncmod
from ir.tir import max as tmax
from ir.tir import min as tmin

x, y, z, w = (Var(name) for name in "xyzw")


def check(cases: list[tuple[Any, Any]], analyzer: Analyzer | None = None) -> None:
    """Each left side is rewritten to exactly the right side."""
    analyzer = analyzer or Analyzer()
    wrong = []
    for expr, expected in cases:
        expr = tir.convert(expr)
        wanted = expected if isinstance(expected, tir.PrimExpr) else tir.const(expected, expr.dtype)
        found = analyzer.rewrite_simplify(expr)
        if not ir.structural_equal(found, wanted):
            wrong.append(f"{expr} became {found}, expected {wanted}")
    assert not wrong, "\n".join(wrong)


def test_sums() -> None:
    check(
        [
            (x + (y - x), y),
            ((x - y) + y, x),
            ((x - y) + (y - z), x - z),
            (tmin(x, y - z) + z, tmin(x + z, y)),
            (tmax(x - 11, y) + 11, tmax(x, y + 11)),
            (tmax(x, y) + tmin(y, x), x + y),
            (x * y + x * 10, (y + 10) * x),
            (10 * x + y * x, (y + 10) * x),
            (y * x + x, (y + 1) * x),
            ((x + 10) + 13, x + 23),
            (x + (3 - y), (x - y) + 3),
            (floordiv(x, 8) * 8 + floormod(x, 8), x),
            (floormod(x, y) + floordiv(x, y) * y, x),
        ]
    )


def test_differences() -> None:
    check(
        [
            (x + y - x, y),
            (x - (y + x), 0 - y),
            (x - 3, x + -3),
            (tmin(x, y) - y, tmin(x - y, 0)),
            (x - tmax(x, y), tmin(0, x - y)),
            (x * y - x * z, (y - z) * x),
            ((x + y) - (z + x), y - z),
            (tmin(x, y) - tmin(x + 10, y + 10), -10),
            (x - floordiv(x, 3) * 3, floormod(x, 3)),
            (floordiv(x + z, 5) * 5 - x, z - floormod(x + z, 5)),
            (x * 3 - floordiv(x, 2) * 6, floormod(x, 2) * 3),
            (floordiv(x + 5, 3) - floordiv(x, 3), floordiv(floormod(x, 3) + 5, 3)),
        ]
    )


def test_products_and_quotients() -> None:
    check(
        [
            ((x + 2) * 3, x * 3 + 6),
            ((x * 2) * 3, x * 6),
            (2 * x, x * 2),
            ((x - y) * -2, (y - x) * 2),
            (floordiv(floordiv(x, 2), 3), floordiv(x, 6)),
            (floordiv(floordiv(x, 2) + 1, 3), floordiv(x + 2, 6)),
            (floordiv(x * 2, 4), floordiv(x, 2)),
            (floordiv(x * 4 + y, 2), x * 2 + floordiv(y, 2)),
            (floordiv(y + x * 4, 2), x * 2 + floordiv(y, 2)),
            (floordiv(tmin(x * 6, y), 2), tmin(x * 3, floordiv(y, 2))),
            (floordiv(x + 4, 2), floordiv(x, 2) + 2),
            (floordiv(x * z + y, z), x + floordiv(y, z)),
            (floordiv(x - floormod(x, 21), 21), floordiv(x, 21)),
            (truncdiv(x * 4, 2), x * 2),
            (truncdiv(truncdiv(x, 2), 3), truncdiv(x, 6)),
        ]
    )


def test_remainders() -> None:
    check(
        [
            (floormod(x * 10, 2), 0),
            (floormod(x * 10 + y, 2), floormod(y, 2)),
            (floormod(x * 9 + y, 2), floormod(x + y, 2)),
            (floormod(x + 10, 2), floormod(x, 2)),
            (floormod(x * 4, 16), floormod(x, 4) * 4),
            (floormod(floormod(x, 8), 4), floormod(x, 4)),
            (floormod(x * y, y), 0),
            (floormod(x + y, y), floormod(x, y)),
            (truncmod(x * 10, 2), 0),
        ]
    )


def test_divisions_use_ranges() -> None:
    analyzer = Analyzer()
    analyzer.bind(y, Range(0, 4))
    analyzer.update(z, ConstIntBound(4, 10))
    check(
        [
            (floordiv(y, 4), 0),
            (floordiv(y + 8, 4), 2),
            (floormod(y, 4), y),
            (floormod(y + 8, 4), y),
            (floordiv(x * 4 + y, 8), floordiv(x, 2)),
            (floormod(x * 4 + y, 8), floormod(x, 2) * 4 + y),
            (floordiv(y, z), 0),
            (floormod(y, z), y),
        ],
        analyzer,
    )


def test_extremes() -> None:
    check(
        [
            (tmin(x + 1, x + 10), x + 1),
            (tmax(x, x + 11), x + 11),
            (tmin(10 - x, 12 - x), 10 - x),
            (tmin(floordiv(x + 3, 4) * 4, x), x),
            (tmin(tmax(x, y), tmin(x, y)), tmin(x, y)),
            (tmin(tmax(x, y), x), x),
            (tmin(tmin(x, y), x), tmin(x, y)),
            (tmin(tmax(x, y), tmax(x, z)), tmax(tmin(y, z), x)),
            (tmin(y + x, z + x), tmin(y, z) + x),
            (tmin(x - y, x - z), x - tmax(y, z)),
            (tmin(x * 3, 9), tmin(x, 3) * 3),
            (tmin(x * -2, y * -2), tmax(x, y) * -2),
            (tmin(x + 1, 9), tmin(x, 8) + 1),
            (tmax(tmin(x, 3), 5), 5),
        ]
    )


def test_comparisons() -> None:
    check(
        [
            (x == x, True),
            ((x - 10).equal(0), x.equal(10)),
            ((10 - x).equal(0), x.equal(10)),
            ((x * y).equal(0), tir.any(x.equal(0), y.equal(0))),
            ((x * 4).equal(7), False),
            (x < x + 1, True),
            (x + y < x + z, y < z),
            (x - y < x - z, z < y),
            (x - 1 < 5, x < 6),
            (x * 4 < 9, x < 3),
            (x * 4 <= 8, x <= 2),
            (floordiv(x, 4) < 3, x < 12),
            (floordiv(x, 4) * 4 < x, tir.LT(tir.const(0), floormod(x, 4))),
            (tmin(x, 11) < 10, x < 10),
            (tmin(x, 8) < 10, True),
            (tir.Not(x < y), y <= x),
            (tir.GT(x, y), y < x),
        ]
    )


def test_connectives() -> None:
    check(
        [
            (tir.And(x < 2, x > 5), False),
            (tir.Or(x > y, x <= y), True),
            (tir.And(x.equal(y), tir.NE(x, y)), False),
            (tir.Not(tir.And(x < y, z < w)), tir.Or(y <= x, w <= z)),
            (tir.And(floordiv(x, 4).equal(2), floormod(x, 4).equal(1)), x.equal(9)),
            (tir.And(x < 20, x < 19), x < 19),
            (tir.Or(x < y, tir.And(x < y, z < w)), x < y),
        ]
    )


def test_branches_know_their_condition() -> None:
    choice = tir.if_then_else
    check(
        [
            (choice(x < 5, choice(x < 10, y, z), w), choice(x < 5, y, w)),
            (choice(x < 5, y, choice(x >= 5, z, w)), choice(x < 5, y, z)),
            (choice(floormod(x, 4).equal(0), floormod(x, 2), 0), 0),
            (tir.Select(x > 0, y + 1, y + 1), y + 1),
            (tir.Select(tir.const(True), y, z), y),
        ]
    )


def test_constraints_hold_inside_their_scope_only() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(tir.And(x >= 0, x < y)):
        check([(x < y, True), (y <= x, False), (tmin(x, y), x), (x >= 0, True)], analyzer)
    check([(tmin(x, y), tmin(x, y))], analyzer)
    leave = analyzer.enter_constraint(floormod(x, 8).equal(3))
    check([(floormod(x, 4), 3)], analyzer)
    leave()
    check([(floormod(x, 4), floormod(x, 4))], analyzer)


def test_vectors() -> None:
    broadcast = Broadcast
    check(
        [
            (Ramp(x, 1, 4) + Ramp(y, 2, 4), Ramp(x + y, 3, 4)),
            (Ramp(x, 1, 2) + y, Ramp(x + y, 1, 2)),
            (y - Ramp(x, 1, 2), Ramp(y - x, -1, 2)),
            (2 * Ramp(x, 4, 4), Ramp(x * 2, 8, 4)),
            (floordiv(Ramp(x, 4, 4), 2), Ramp(floordiv(x, 2), 2, 4)),
            (floordiv(Ramp(x * 8, 1, 4), 4), broadcast(x * 2, 4)),
            (floormod(Ramp(x, 4, 4), 2), broadcast(floormod(x, 2), 4)),
            (floormod(Ramp(x * 8, 1, 4), 4), Ramp(0, 1, 4)),
            (broadcast(x, 2) + broadcast(y, 2), broadcast(x + y, 2)),
            (broadcast(x, 2) < broadcast(y, 2), broadcast(x < y, 2)),
            (Ramp(x, 0, 4), broadcast(x, 4)),
        ]
    )


def test_floats_only_fold_constants() -> None:
    a = Var("a", "float32")
    check(
        [((a + 1.0) - 1.0, (a + 1.0) - 1.0), (tir.const(1.5) + tir.const(2.0), tir.const(3.5)), (a * 1.0, a)]
    )


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint8"])
def test_dtypes_are_kept(dtype: str) -> None:
    a, b = Var("a", dtype), Var("b", dtype)
    for expr in (a + b - a, (a * 4 + b) // 2, tmin(a + 1, a + 2), a % 1):
        assert Analyzer().simplify(expr).dtype == dtype


def test_greater_is_written_as_less_for_floats_too() -> None:
    x, y = tir.Var("x", "float32"), tir.Var("y", "float32")
    analyzer = Analyzer()
    for expr, kind in ((x > y, tir.LT), (x >= y, tir.LE)):
        found = analyzer.simplify(expr)
        assert isinstance(found, kind) and found.a is y and found.b is x
