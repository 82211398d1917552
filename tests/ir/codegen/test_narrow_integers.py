"""Integers of narrow types, and what is cast to them, wrap before anything is made of them: bounds, comparisons, indices."""

from __future__ import annotations

import numpy as np
import pytest

from ir.codegen.build import build
from ir.script import from_source
from ir.tir import interpreter

CONDITIONS = {
    "int8": ("T.Cast('int32', T.Cast('int8', i)) >= 0", 300),
    "uint8_of_a_difference": ("T.Cast('int32', T.Cast('uint8', i - 50)) >= 100", 100),
    "difference_of_uint8": ("T.Cast('int32', T.Cast('uint8', i) - T.uint8(5)) > 200", 10),
    "product_of_int8": ("T.Cast('int32', T.Cast('int8', i) * T.int8(16)) < 0", 20),
    "quotient_of_uint8": ("T.Cast('int32', (T.Cast('uint8', i) - T.uint8(5)) // T.uint8(2)) > 100", 10),
    "int32_of_a_wide_product": (
        "T.Cast('int32', T.Cast('uint64', i) * T.uint64(4294967296) + T.uint64(5)) < 10",
        4,
    ),
    "bool": ("T.Cast('int32', T.Cast('bool', i)) < 2", 4),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions(name: str) -> None:
    condition, extent = CONDITIONS[name]
    func = from_source(f"""@T.prim_func
def main(B: T.Buffer(({extent},), "int32")):
    for i in range({extent}):
        if {condition}:
            B[i] = 1""")
    expected, native = np.zeros(extent, "int32"), np.zeros(extent, "int32")
    interpreter.run(func, expected)
    build(func)["main"](native)
    np.testing.assert_array_equal(native, expected)


def test_an_index_is_held_above_zero() -> None:
    func = from_source("""@T.prim_func
def main(B: T.Buffer((900,), "int32")):
    for i in range(300):
        B[T.max(T.Cast("int32", T.Cast("int8", i)), 0) + 300] = i""")
    expected, native = np.zeros(900, "int32"), np.zeros(900, "int32")
    interpreter.run(func, expected)
    build(func)["main"](native)
    np.testing.assert_array_equal(native, expected)


def test_bounds_that_fit_are_known() -> None:
    """What a cast cannot change is simplified as before: the condition always holds, and no comparison is left."""
    func = from_source("""@T.prim_func
def main(B: T.Buffer((100,), "int32")):
    for i in range(100):
        if T.Cast("int32", T.Cast("int8", i)) >= 0:
            B[i] = 1""")
    assert "icmp" not in build(func).llvm_ir.replace("icmp slt i64", "").replace("icmp eq i64", "")


STATEMENTS = {
    "index": "B[j] = A[T.Cast('int32', T.Cast('uint64', i) * T.uint64(4294967296) + T.Cast('uint64', i))]",
    "condition_of_a_parameter": "B[j] = T.Cast('int32', T.Cast('int32', n < T.Cast('int64', 5)))",
    "index_by_a_parameter": "B[j] = A[T.Cast('int32', T.Cast('uint64', n))]",
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_casts_keep_the_low_bits(name: str) -> None:
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int64):
    for i, j in T.grid(8, 8):
        {STATEMENTS[name]}""")
    values, expected, native = np.arange(8, dtype="int32"), np.zeros(8, "int32"), np.zeros(8, "int32")
    interpreter.run(func, values, expected, 2**32 + 3)
    build(func)["main"](values, native, 2**32 + 3)
    np.testing.assert_array_equal(native, expected)


@pytest.mark.parametrize(
    "value",
    [
        "T.Cast('int32', x * 65536 < 0)",
        "A[T.min(T.max(T.Cast('int32', T.Cast('uint32', x) * T.uint32(65536)), 3), 60)]",
        "A[T.Cast('int32', T.Cast('int64', x) * T.int64(4294967297)) - 40100 + j]",
    ],
)
def test_data_that_threads_share_wraps(value: str) -> None:
    """What is loaded in front of a parallel loop is no index inside of it."""
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((64,), "int32"), B: T.Buffer((4096,), "int32")):
    with T.LetStmt(A[0]) as x:
        for i in T.parallel(4096):
            for j in range(64):
                B[i] = {value}""")
    values, expected, native = np.arange(64, dtype="int32"), np.zeros(4096, "int32"), np.zeros(4096, "int32")
    values[0] = 40100
    interpreter.run(func, values, expected)
    module = build(func)
    assert "loopsmith_parallel_for" in module.llvm_ir
    module["main"](values, native)
    np.testing.assert_array_equal(native, expected)
