"""What is known of the size of 64-bit numbers: LLVM is told that a sum does not overflow where that is certain, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, tir
from ir.codegen.build import build
from ir.codegen.llvm.builder import FunctionBuilder, Value
from ir.codegen.llvm.codegen import generate
from ir.script import from_source
from ir.script import tir as T
from ir.tir import decl_buffer
from ir.tir.lower import lower


def products(factor: int, extent: int, start: int = 0) -> tir.PrimFunc:
    """``O[i - start] = i * factor`` in int64."""
    out, i = decl_buffer((extent,), "int64", "O"), tir.Var("i", "int64")
    store = tir.BufferStore(out, i * tir.const(factor, "int64"), [i - start])
    return tir.PrimFunc(
        [out], tir.For(i, tir.const(start, "int64"), tir.const(extent, "int64"), tir.ForKind.SERIAL, store)
    )


@pytest.mark.parametrize("factor", [3, (1 << 55) - 1, (1 << 62) + 5, -(1 << 63), 6364136223846793005])
@pytest.mark.parametrize("start", [0, -200])
def test_data_that_wraps_wraps(factor: int, start: int) -> None:
    """A product of a loop's variable that may need more than 64 bits is data, and may not be said not to overflow."""
    out = np.zeros(256, "int64")
    build(products(factor, 256, start))["main"](out)
    wanted = np.arange(start, start + 256, dtype="int64").view("uint64") * np.uint64(factor % (1 << 64))
    np.testing.assert_array_equal(out, wanted.view("int64"))
    told = "mul nsw i64" in generate(lower(products(factor, 256, start), "cpu")).text()
    assert told == (abs(factor) < 1 << 54)


def test_indices_do_not_overflow() -> None:
    @T.prim_func
    def main(A: T.Buffer((4096,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
        for i, j in T.grid(8, 8):
            if i * 8 + j < n:
                B[i * 8 + j] = A[i * 512 + j * 3]

    text = generate(lower(IRModule({"main": main}), "cpu")).text()
    assert "mul nsw i64" in text and " mul i64" not in text and " add i64" not in text


def test_magnitudes_of_what_is_printed() -> None:
    b = FunctionBuilder("f", "i64", [])
    assert b.magnitude(Value("7", "i64")) == 3 and b.magnitude(Value("-8", "i64")) == 4
    assert b.magnitude(Value("%x", "i64")) == 64
    wide = b.cast("sext", Value("%y", "i32"), "i64")
    assert b.magnitude(wide) == 32
    assert b.magnitude(b.bound(Value("%z", "i64"), 64)) == 64


@pytest.mark.parametrize(
    ("expr", "bits"),
    [
        ('T.Cast("int64", A[i])', 32),
        ('T.Cast("int64", n)', 32),
        ('T.Cast("int64", A[i]) // T.int64(8)', 32),
        ("X[i] % T.int64(8)", 4),
        ('T.Cast("int64", A[i]) + T.Cast("int64", n)', 33),
        ('T.Cast("int64", A[i]) - T.Cast("int64", A[0])', 33),
        ('T.optimization_barrier(T.Cast("int64", A[i]))', 32),
    ],
)
def test_a_product_is_said_not_to_overflow_where_63_bits_hold_it(expr: str, bits: int) -> None:
    def told(factor_bits: int) -> bool:
        source = f"""@T.prim_func
def main(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int64"), O: T.Buffer((8,), "int64"), n: T.int32):
    for i in range(8):
        O[i] = ({expr}) * (X[0] % T.int64({1 << factor_bits - 1}))"""
        return "mul nsw i64" in generate(lower(from_source(source), "cpu")).text()

    assert told(63 - bits)
    assert not told(64 - bits)


def test_a_loop_whose_last_number_is_the_greatest() -> None:
    """The number behind it is no int64, though start and extent are known to be of 63 bits and of a few."""
    i, j = tir.Var("i", "int64"), tir.Var("j", "int64")
    A = decl_buffer((4,), "int32", "A")
    start, zero, four = (tir.const(number, "int64") for number in ((1 << 63) - 3, 0, 4))
    count = tir.BufferStore(A, A[i - start] + 1, [i - start])
    inner = tir.For(i, start, j, tir.ForKind.SERIAL, count)
    func = tir.PrimFunc([A], tir.For(j, zero, four, tir.ForKind.SERIAL, inner))
    found = np.zeros(4, "int32")
    build(func)["main"](found)
    assert found.tolist() == [3, 2, 1, 0]
