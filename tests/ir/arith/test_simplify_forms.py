"""The text of simplified expressions of the kinds that schedules and lowering make."""

import pytest

from ir import tir
from ir.arith import Analyzer
from ir.tir import Range, Var, ceildiv, floordiv, floormod, truncdiv, truncmod

x, y, n, w = (Var(name, "int32") for name in ("x", "y", "n", "w"))
"""x in [0, 8), y in [0, 64), n at least 1, w anything."""

FORMS = [
    (tir.max(x, w).equal(x), "w <= x"),
    (tir.NE(tir.min(w, 5), w), "5 < w"),
    (tir.NE(x * 4, x), "0 < x"),
    (tir.EQ(y + 5, y * 32), "T.bool(False)"),
    (tir.NE(3 - y, y), "T.bool(True)"),
    (tir.NE(floordiv(x, 32) - y, y + y), "0 < y"),
    (floordiv(x * 10, 8), "x * 10 // 8"),
    (tir.EQ(floordiv(y, 8), 7), "56 <= y"),
    (tir.NE(truncdiv(y, 3), 0), "3 <= y"),
    (truncdiv(w * 3, 8) < 0, "w < -2"),
    (w < x + 4, "w < x + 4"),
    (w - 3 < n, "w < n + 3"),
    (w + 1 <= n, "w < n"),
    (tir.LT(w, n + 1), "w <= n"),
    (floormod(x - y, 4), "(x - y) % 4"),
    (floormod(w * 7, 4), "w * 3 % 4"),
    (truncmod(floormod(w, 3) + 160, 128), "w % 3 + 32"),
    (floordiv(truncmod(x * 32 + y * 0, 64), 16), "T.truncmod(x, 2) * 2"),
    (tir.max(tir.max(y, 2), w + y) >= w, "T.bool(True)"),
    (ceildiv(w * 4, 4), "w"),
    (tir.Or(w < 3, w < 5), "w < 5"),
    (tir.shift_right(x, 3), "0"),
    (0 - tir.max(0, w - n), "T.min(0, n - w)"),
    (tir.Cast("int32", tir.Cast("int64", w)), "w"),
    (tir.floordiv(tir.Cast("int32", tir.Cast("int64", x) * 8 + tir.Cast("int64", y % 8)), 8), "x"),
]


@pytest.mark.parametrize(("expr", "expected"), FORMS, ids=lambda value: str(value)[:50])
def test_simplified_text(expr: tir.PrimExpr, expected: str) -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, 8))
    analyzer.bind(y, Range(0, 64))
    assert str(analyzer.simplify(expr)) == expected


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (floormod(x * 8, 64), 0, 56),
        (floormod(y * -2, 4), 0, 2),
        (tir.IntImm("int32", 10) * 0 + floormod(tir.FloorMod(tir.IntImm("int32", 10), 4), 8), 2, 2),
        (tir.FloorMod(x + 64, 16), 0, 7),
        (tir.Let(n, x + 1, n * 2), 2, 16),
    ],
    ids=str,
)
def test_bounds_of_remainders_and_lets(expr: tir.PrimExpr, low: int, high: int) -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, 8))
    bound = analyzer.const_int_bound(expr)
    assert (bound.min_value, bound.max_value) == (low, high)
