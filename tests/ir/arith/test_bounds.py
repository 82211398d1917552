"""Constant bounds and modular sets of single operators."""

from __future__ import annotations

import pytest

from ir import IRValueError, Range, tir
from ir.arith import Analyzer, ConstIntBound, ModularSet
from ir.script import from_source
from ir.tir import SizeVar, Var, floordiv, floormod, truncdiv, truncmod

INF, NINF = ConstIntBound.POS_INF, ConstIntBound.NEG_INF
x, y = Var("x", "int64"), Var("y", "int64")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("int64", (NINF, INF)),
        ("int32", (-(1 << 31), (1 << 31) - 1)),
        ("int8", (-128, 127)),
        ("uint8", (0, 255)),
        ("bool", (0, 1)),
    ],
)
def test_dtypes_bound_variables(dtype: str, expected: tuple[int, int]) -> None:
    assert Analyzer().const_int_bound(Var("v", dtype)) == ConstIntBound(*expected)


def test_a_condition_on_floats_is_no_sum_of_integers() -> None:
    n = Var("n", "int32")
    value = tir.Cast("float16", n)
    chosen = tir.if_then_else(value * value + value < value, n, n + 1)
    condition = tir.Mul(chosen, tir.const(2)) < 3
    assert Analyzer().simplify_data(condition) is not None


def test_size_vars_are_not_negative() -> None:
    assert Analyzer().const_int_bound(SizeVar("n", "int64")).min_value == 0


CASES = [
    (x + y, {x: (0, 4), y: (1, 10)}, (1, 14)),
    (x + y, {x: (NINF, 4), y: (1, 10)}, (NINF, 14)),
    (x + y, {x: (0, 4), y: (-3, INF)}, (-3, INF)),
    (x - y, {x: (0, 4), y: (1, 10)}, (-10, 3)),
    (x - y, {x: (0, INF), y: (1, 10)}, (-10, INF)),
    (1 - x, {x: (NINF, 4)}, (-3, INF)),
    (x * y + 20, {x: (-2, 4), y: (4, 10)}, (0, 60)),
    (x * y, {x: (-3, 4), y: (-8, 2)}, (-32, 24)),
    (x * y, {x: (NINF, 4), y: (-8, 2)}, (NINF, INF)),
    (truncdiv(x, y), {x: (-9, 4), y: (4, 10)}, (-2, 1)),
    (truncmod(x, y), {x: (-9, 4), y: (4, 10)}, (-9, 4)),
    (truncmod(x, y), {x: (NINF, 4), y: (4, 10)}, (-9, 4)),
    (truncmod(x * 4 + 1, 6), {x: (0, 10)}, (1, 5)),
    (truncmod(x * 4 + 1, 6), {x: (-10, 10)}, (-5, 5)),
    (truncmod(x * 4 + 4, 6), {x: (-10, 10)}, (-4, 4)),
    (floordiv(x, y), {x: (-9, 4), y: (4, 10)}, (-3, 1)),
    (floordiv(x, y), {x: (-9, 4), y: (-2, 0)}, (-4, 9)),
    (floordiv(x, y), {x: (NINF, 4), y: (-2, 1)}, (NINF, INF)),
    (floormod(x, y), {x: (-9, 4), y: (4, 10)}, (0, 9)),
    (floormod(x, y), {x: (3, 3), y: (4, 10)}, (3, 3)),
    (floormod(x, y), {x: (1, INF), y: (4, 10)}, (0, 9)),
    (tir.min(x, y), {x: (-9, 11), y: (4, 10)}, (-9, 10)),
    (tir.max(x, y), {x: (-9, 11), y: (4, 10)}, (4, 11)),
    (tir.Select(x > 1, tir.Cast("int64", y < 0), tir.Cast("int64", y > 1)), {}, (0, 1)),
    (tir.Select(x > 1, x, y), {x: (-9, 11), y: (4, 10)}, (-9, 11)),
    (x >> 4, {x: (-9, 11)}, (-1, 0)),
    (x & 15, {x: (-9, 100)}, (0, 15)),
    (Var("b", "int8").astype("int32"), {}, (-128, 127)),
    (tir.Ramp(x, 2, 4), {x: (0, 10)}, (0, 16)),
]


@pytest.mark.parametrize(("expr", "known", "expected"), CASES, ids=lambda value: str(value)[:40])
def test_bounds(expr: tir.PrimExpr, known: dict[Var, tuple[int, int]], expected: tuple[int, int]) -> None:
    analyzer = Analyzer()
    for var, bound in known.items():
        analyzer.update(var, ConstIntBound(*bound))
    assert analyzer.const_int_bound(expr) == ConstIntBound(*expected)


def test_bound_of_symbolic_ranges() -> None:
    analyzer, n, i = Analyzer(), SizeVar("n"), Var("i")
    analyzer.bind(n, Range(1, 9))
    analyzer.bind(i, Range(0, n))
    assert analyzer.const_int_bound(i) == ConstIntBound(0, 7)


def test_constraints_narrow_bounds() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(tir.all(x >= 2, x + 1 < 8, floordiv(y, 4) <= 1)):
        assert analyzer.const_int_bound(x) == ConstIntBound(2, 6)
        assert analyzer.const_int_bound(y).max_value == 7
    assert analyzer.const_int_bound(x) == ConstIntBound(NINF, INF)


def test_constraints_on_quotients_narrow_what_is_divided() -> None:
    analyzer = Analyzer()
    analyzer.update(y, ConstIntBound(0, 9))
    with analyzer.constraint_scope(floordiv(x, 4) < y):
        assert analyzer.const_int_bound(x) == ConstIntBound(NINF, 35)
    with analyzer.constraint_scope(floordiv(x, 4) > y):
        assert analyzer.const_int_bound(x) == ConstIntBound(4, INF)


MODULAR = [
    (x * 7 + y * 6 + 4, {}, (1, 0)),
    (x * 4 + y * 6 + 4, {}, (2, 0)),
    (x * 6 - y * 4 + 3, {}, (2, 1)),
    (floordiv(x * 16 + 35, 8), {}, (2, 0)),
    (floormod(x * 4 + 3, 8), {}, (4, 3)),
    (floormod(x * 8 + 3, 4), {}, (0, 3)),
    (tir.Select(x > 0, y * 4 + 1, x * 6 + 3), {}, (2, 1)),
    (tir.min(x * 3, y * 9), {}, (3, 0)),
    ((x * 4 + 1) * (y * 6 + 2), {}, (2, 0)),
    (x << 3, {}, (8, 0)),
    (x + 1, {x: (8, 3)}, (8, 4)),
    (tir.const(5, "int64"), {}, (0, 5)),
]


@pytest.mark.parametrize(("expr", "known", "expected"), MODULAR, ids=lambda value: str(value)[:40])
def test_modular_sets(
    expr: tir.PrimExpr, known: dict[Var, tuple[int, int]], expected: tuple[int, int]
) -> None:
    analyzer = Analyzer()
    for var, value in known.items():
        analyzer.update(var, ModularSet(*value))
    assert analyzer.modular_set(expr) == ModularSet(*expected)


def test_remainders_in_constraints_meet() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(floormod(x, 3).equal(1)):
        assert analyzer.modular_set(x + 1) == ModularSet(3, 2)
        with analyzer.constraint_scope(floormod(x, 5).equal(2)):
            assert analyzer.modular_set(x) == ModularSet(15, 7)
    assert analyzer.modular_set(x) == ModularSet(1, 0)


def test_bound_variables_replace_and_carry_facts() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, y * 4 + 1)
    assert analyzer.modular_set(x) == ModularSet(4, 1)
    assert str(analyzer.simplify(x + 1)) == str(y * tir.const(4, "int64") + tir.const(2, "int64"))


def test_updates_say_that_they_replace() -> None:
    analyzer, var = Analyzer(), tir.Var("n", "int32")
    analyzer.update(var, ConstIntBound(0, 9))
    analyzer.update(var, ConstIntBound(0, 9))
    with pytest.raises(IRValueError, match="update of n: .* is known already"):
        analyzer.update(var, ConstIntBound(0, 3))
    analyzer.update(var, ConstIntBound(0, 3), override=True)
    assert analyzer.const_int_bound(var).max_value == 3
    analyzer.update(var, ModularSet(4, 1))
    with pytest.raises(IRValueError, match="update of n: .* is known already"):
        analyzer.update(var, ModularSet(2, 1))


def test_conditions_on_floats_inside_of_indices_do_not_wrap() -> None:
    """Float arithmetic in the condition of a choice is no arithmetic of integers; it was asked for the range of its dtype."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((4,), "bfloat16"), B: T.Buffer((32,), "int32")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            if v < 3:
                B[T.max(T.if_then_else(A[v] + A[v] != A[v], v * 8, 3), 0)] = 0""")
    assert "B[T.max(" in func.script()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_conditions_over_sums_of_floats_are_no_arithmetic_of_integers(dtype: str) -> None:
    value, index = tir.Var("value", dtype), tir.Var("index", "int32")
    chosen = tir.if_then_else(value * value < value + value, index, index + 1)
    analyzer = Analyzer()
    analyzer.bind(index, tir.Range(0, 8))
    found = analyzer.const_int_bound(tir.min(chosen, 3))
    assert found.min_value <= 0 and found.max_value >= 3
    assert not analyzer.can_prove(chosen <= 3)


def test_marked_data_has_the_bounds_of_what_is_marked() -> None:
    load = tir.BufferLoad(tir.decl_buffer((4,), "int32"), [0])
    marked = tir.Call("int32", "tir.likely", [load % 8])
    assert Analyzer().const_int_bound(marked) == ConstIntBound(0, 7)
    assert Analyzer().modular_set(tir.Call("int32", "tir.likely", [load * 4])) == ModularSet(4, 0)
