"""Canonical form: order of terms, recombination of splits, division, comparisons, products of symbolic extents."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import ir
from ir import Range, tir
from ir.arith import Analyzer, ConstIntBound
from ir.script import from_source
from ir.tir import Cast, SizeVar, Var, floordiv, floormod, truncdiv, truncmod
from ir.tir import max as tmax
from ir.tir.evaluate import evaluate
from ir.tir.interpreter import run

x, y, z = (Var(name) for name in "xyz")


def check(
    cases: list[tuple[Any, Any]], analyzer: Analyzer | None = None, method: str = "canonical_simplify"
) -> None:
    """Each left side comes out as exactly the right side."""
    analyzer = analyzer or Analyzer()
    wrong = []
    for expr, expected in cases:
        expr = tir.convert(expr)
        wanted = expected if isinstance(expected, tir.PrimExpr) else tir.const(expected, expr.dtype)
        found = getattr(analyzer, method)(expr)
        if not ir.structural_equal(found, wanted):
            wrong.append(f"{expr} became {found}, expected {wanted}")
    assert not wrong, "\n".join(wrong)


def test_terms_are_ordered_by_scale_and_collected() -> None:
    check(
        [
            (2 + (3 * x + z + y + 1) * 4 + x, x * 13 + z * 4 + y * 4 + 6),
            (x * 3 - 4 * x + 1, 1 - x),
            (y + x * 3 - 5 * x + 1 + y, y * 2 + 1 - x * 2),
            (y + x * 8, x * 8 + y),
            (x - x, 0),
            (0 - x, 0 - x),
        ]
    )


def test_splits_recombine() -> None:
    check(
        [
            (floordiv(x, 3) * 3 + floormod(x, 3), x),
            (floordiv(x, 6) * 6 + floormod(floordiv(x, 3), 2) * 3 + floormod(x, 3), x),
            (truncdiv(x, 6) * 6 + truncmod(truncdiv(x, 3), 2) * 3 + truncmod(x, 3), x),
            (floormod(floordiv(x, 3), 2), floordiv(floormod(x, 6), 3)),
            (floordiv(x * 4 + y, 2) * 2 + floormod(x * 4 + y, 2), x * 4 + y),
            (floordiv(x * 128 + y, 36) * 36 + floormod(x * 128 + y, 36) - x * 128 - y, 0),
        ]
    )


def test_division_by_constants() -> None:
    check(
        [
            (floordiv(x + y + x + y * 3, 2), y * 2 + x),
            (floordiv(x + x + y * 3, 2), floordiv(y * 3, 2) + x),
            (floordiv(17 + 48 * x, 16), x * 3 + 1),
            (floordiv(17 + 47 * x, 16), floordiv(x * 47 + 17, 16)),
            (floordiv(floordiv(floormod(x, 16), 2) * 2, 4), floordiv(floormod(x, 16), 4)),
            (floordiv(floormod(x, 2), 8), 0),
            (truncdiv(17 + 48 * x, 16), truncdiv(x * 48 + 17, 16)),
        ]
    )


def test_remainders() -> None:
    check(
        [
            (floormod(x * 8, 16), floormod(x, 2) * 8),
            (floormod(x + x + y * 3, 2), floormod(y * 3, 2)),
            (floormod(x * 10 + 1 + y * 2 + 2, 2), 1),
            (floormod(floormod(x * 4, 16), 8), floormod(x, 2) * 4),
            (floormod(floormod(x * 4 + y - 466036, 24528) - 24512, 16), floormod(x * 4 + y + 12, 16)),
            (truncmod(truncdiv(truncmod(x, 20), 2) * 2, 4), truncdiv(truncmod(x, 4), 2) * 2),
        ]
    )


def test_ranges_let_pieces_go() -> None:
    analyzer = Analyzer()
    analyzer.bind(y, Range(0, 16))
    analyzer.bind(z, Range(0, 4))
    check(
        [
            (floordiv(x * 64 + y * 4 + z, 64), x),
            (floormod(x * 64 + y * 4 + z, 64), y * 4 + z),
            (floordiv(floormod(x * 64 + y * 4 + z, 64), 4), y),
            (floordiv(x * 64 + y * 4 + z, 16), x * 4 + floordiv(y, 4)),
        ],
        analyzer,
        "simplify",
    )


def test_comparisons_drop_what_cannot_matter() -> None:
    analyzer = Analyzer()
    check([(x * 8 + y < 16, x * 8 + y < 16), (x - 2 < 3, x < 5)], analyzer)
    analyzer.bind(y, Range(0, 8))
    check([(x * 8 + y < 16, x < 2), (16 <= x * 8 + y, tir.LE(tir.const(2), x))], analyzer)
    tx, vec = Var("tx"), Var("vec")
    analyzer.bind(tx, Range(0, 32))
    analyzer.bind(vec, Range(0, 8))
    check([(floormod(floordiv(tx, 2), 8) + vec < 8, floordiv(floormod(tx, 16), 2) + vec < 8)], analyzer)


def test_equal_subexpressions_cancel() -> None:
    check(
        [
            (tmax(x, 1) - tmax(x, 1), 0),
            (floordiv(x, z * z) - floordiv(x, z * z), 0),
            (x * x - x * x, 0),
            (x * y - y * x, 0),
        ]
    )


def test_products_divide() -> None:
    check(
        [
            (floormod(x * 32 * x, x), 0),
            (floormod(z * x * 32 * x * y, x * z), 0),
            (floormod(x * 32 * x, x * z), floormod(x * 32, z) * x),
            (floordiv(x * 2 * x * z, 4 * x * x * x), floordiv(z, x * 2)),
            (floordiv(x * (2 * y) * 3, 3 * y), x * 2),
        ]
    )


def test_symbolic_extents_behave_like_numbers() -> None:
    d0, d1, d2 = (SizeVar(f"d{i}") for i in range(3))
    i0, i1, i2 = (Var(f"i{i}") for i in range(3))
    analyzer = Analyzer()
    for var, extent in ((i0, d0), (i1, d1), (i2, d2)):
        analyzer.update(extent, ConstIntBound(1, 1 << 20))
        analyzer.bind(var, Range(0, extent))
    flat = (i0 * d1 + i1) * d2 + i2
    check(
        [
            ((i0 * d1 + i1) * d2 - i0 * d1 * d2 - i1 * d2, 0),
            (d0 * d1 * x - d1 * d0 * x, 0),
            (floordiv(flat, d2) - i0 * d1 - i1, 0),
            (floormod(flat, d2), i2),
            (floordiv(floordiv(flat, d2), d1), i0),
            (floormod(floordiv(flat, d2), d1), i1),
            (floordiv(flat, d1 * d2), i0),
            (floordiv(floormod(flat, d1 * d2), d2), i1),
        ],
        analyzer,
        "simplify",
    )
    assert analyzer.can_prove(flat < d0 * d1 * d2)
    assert analyzer.can_prove(d0 * d1 >= d1)
    assert not analyzer.can_prove(flat < d1 * d2)
    assert not analyzer.can_prove(d0 * d1 > d1)


def test_large_polynomials_stay_quick_and_do_not_fail() -> None:
    extents = [SizeVar(f"d{i}") for i in range(12)]
    total: Any = tir.const(1)
    for extent in extents:
        total = total * (extent + 1)
    assert ir.structural_equal(Analyzer().simplify(total - total), tir.const(0))
    Analyzer().simplify(total // extents[0] - total)


def test_casts_move_inwards_where_nothing_overflows() -> None:
    i, j = Var("i"), Var("j")
    check([(Cast("int64", i + j + 1) - Cast("int64", i), Cast("int64", j) + tir.const(1, "int64"))])
    wide = Var("wide", "int64")
    check([(Cast("int32", wide + 1), Cast("int32", wide + 1))])


def test_nothing_to_simplify_returns_the_same_object() -> None:
    for expr in (x * 8 + y, floordiv(x, 4), tir.if_then_else(x < 5, y, z)):
        assert Analyzer().simplify(expr) is expr


def test_sums_that_become_whole_again_meet_each_other() -> None:
    check(
        [
            (floordiv(x + y, 2) * 2 + floormod(x + y, 2) - x, y),
            (
                floordiv(x + y, 2) * 2 + floormod(x + y, 2) + floordiv(x - y, 3) * 3 + floormod(x - y, 3),
                x * 2,
            ),
        ]
    )


def test_what_is_canonical_stays_the_same_object() -> None:
    analyzer = Analyzer()
    chosen = tir.Select(x < y, x, y)
    for expr in (chosen, tir.if_then_else(x < y, x, y)):
        canonical = analyzer.canonical_simplify(expr)
        assert ir.structural_equal(canonical, expr)
        assert analyzer.canonical_simplify(canonical) is canonical


def test_remainders_lose_a_common_factor() -> None:
    check([(floormod(x * 4 + y * 6, 8), floormod(y * 3 + x * 2, 4) * 2)])


def test_what_may_borrow_is_not_dropped_from_a_dividend() -> None:
    for low, extent in ((-1, 3), (0, 2), (0, 3), (-2, 2)):
        for scale, divisor in ((2, 4), (3, 12), (4, 8)):
            analyzer = Analyzer()
            analyzer.bind(y, Range.from_min_extent(low, extent))
            for expr in (
                floordiv(x * scale + y, divisor),
                floordiv(x * scale + y * 2 + z, divisor),
                floormod(x * scale + y, divisor),
            ):
                found = analyzer.canonical_simplify(expr)
                for values in itertools.product(range(-5, 6), range(low, low + extent), range(-2, 3)):
                    given = dict(zip((x, y, z), values, strict=True))
                    assert evaluate(found, given) == evaluate(expr, given), (str(expr), str(found), values)


def test_sides_of_a_select_stay_defined_where_they_are_not_chosen() -> None:
    """Both are evaluated: a guard of what may fault stays, though the condition says the same."""
    guarded = tir.if_then_else(x > 0, floordiv(12, x), 7)
    found = Analyzer().canonical_simplify(tir.Select(x > 0, guarded, tir.const(3)) + x)
    program = from_source(f"""@T.prim_func
def main(B: T.Buffer((8,), "int32")):
    for x in range(8):
        B[x] = {found}
""")
    result = np.zeros(8, "int32")
    run(program, result)
    np.testing.assert_array_equal(result, [(12 // n if n else 3) + n for n in range(8)])
