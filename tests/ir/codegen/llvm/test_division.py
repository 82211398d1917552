"""Division of integers natively: what a machine would trap on wraps, at every width and number of lanes."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest

from ir.codegen.build import build
from ir.codegen.llvm.builder import FunctionBuilder, Value, constant
from ir.codegen.llvm.division import divide
from ir.script import from_source
from ir.tir import expr as E

OPERATIONS = {
    "T.floordiv": lambda x, y: x // y,
    "T.floormod": lambda x, y: x % y,
    "T.truncdiv": lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1),
    "T.truncmod": lambda x, y: abs(x) % abs(y) * (-1 if x < 0 else 1),
}


def wrapped(value: int, bits: int) -> int:
    """A number in two's complement."""
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_the_least_number_by_minus_one_wraps(bits: int, kind: str) -> None:
    dtype, least = f"int{bits}", -1 << (bits - 1)
    pairs = [
        (least, -1),
        (least, 1),
        (least, 2),
        (-least - 1, -1),
        (least + 1, -1),
        (-7, 2),
        (7, -2),
        (0, -1),
    ]
    a, b = (np.array(column * 3, dtype) for column in zip(*pairs))
    stores = "\n".join(f"            C[{n}, i] = {op}(A[i], B[i])" for n, op in enumerate(OPERATIONS))
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((24,), "{dtype}"), B: T.Buffer((24,), "{dtype}"), C: T.Buffer((4, 24), "{dtype}")):
        for i in T.{kind}(24):
{stores}"""
    )
    c = np.zeros((4, 24), dtype)
    build(func)["main"](a, b, c)
    expected = [[wrapped(f(x, y), bits) for x, y in pairs] * 3 for f in OPERATIONS.values()]
    np.testing.assert_array_equal(c, np.array(expected, dtype))


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_division_by_the_number_minus_one(kind: str) -> None:
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((4, 8), "int32")):
        for i in T.{kind}(8):
            C[0, i] = T.floordiv(A[i], -1)
            C[1, i] = T.truncdiv(A[i], -1)
            C[2, i] = T.floormod(A[i], -1)
            C[3, i] = T.truncmod(A[i], -1)"""
    )
    a = np.array([-(2**31), -(2**31) + 1, -1, 0, 1, 5, 2**31 - 1, -9], "int32")
    c = np.ones((4, 8), "int32")
    build(func)["main"](a, c)
    negated = [wrapped(-int(x), 32) for x in a]
    np.testing.assert_array_equal(c, [negated, negated, [0] * 8, [0] * 8])


@pytest.mark.parametrize(
    ("dividend", "divisor", "is_tested"),
    [
        (Value("%x", "i32"), Value("%y", "i32"), True),
        (Value("%x", "i32"), constant(7, "i32"), False),
        (Value("%x", "<8 x i32>"), constant(-7, "<8 x i32>"), False),
        (constant(100, "i32"), Value("%y", "i32"), False),
        (constant(-(2**31), "i32"), Value("%y", "i32"), True),
        (Value("%x", "i8"), Value("%y", "i8"), False),  # divided in a wider number
    ],
)
def test_the_divisor_is_tested_only_where_it_may_matter(
    dividend: Value, divisor: Value, is_tested: bool
) -> None:
    b = FunctionBuilder("f", "void", [])
    divide(b, E.Div, dividend, divisor, "int" + dividend.type.rstrip(">").rpartition("i")[2])
    assert (", -1" in b.text()) == is_tested


def test_a_dividend_that_is_known_to_be_small_needs_no_test() -> None:
    b = FunctionBuilder("f", "void", [])
    divide(b, E.Div, b.bound(Value("%x", "i64"), 40), Value("%y", "i64"), "int64")
    assert ", -1" not in b.text()


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bytes_by_numbers(dtype: str, kind: str) -> None:
    """Every byte by every kind of divisor, eight at a time."""
    low = -128 if dtype == "int8" else 0
    divisors = [3, 5, 7, 10, 11, 100, 127] + ([-3, -7, -100, -128] if low else [128, 200, 255])
    stores = "".join(
        f"""
                C[{n}, i, j] = {op}(A[i, j], T.{dtype}({divisor}))"""
        for n, (op, divisor) in enumerate((op, divisor) for op in OPERATIONS for divisor in divisors)
    )
    count = len(OPERATIONS) * len(divisors)
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((32, 8), "{dtype}"), C: T.Buffer(({count}, 32, 8), "{dtype}")):
        for i in range(32):
            for j in T.{kind}(8):{stores}"""
    )
    a = np.arange(low, low + 256).astype(dtype)
    c = np.zeros((count, 256), dtype)
    build(func)["main"](a.reshape(32, 8), c.reshape(count, 32, 8))
    expected = [[f(int(x), divisor) for x in a] for f in OPERATIONS.values() for divisor in divisors]
    np.testing.assert_array_equal(c, expected)


@pytest.mark.skipif("x86_64" not in llvm.get_process_triple(), reason="the machines are x86's")
@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("machine", ["llvm -mcpu=x86-64", "cpu"])
@pytest.mark.parametrize("count", [4, 8, 24])
def test_quotients_of_bytes_in_another_order_are_multiplied(count: int, machine: str, kind: str) -> None:
    """LLVM 22.1 makes zeros of this."""
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer(({count},), "uint8"), B: T.Buffer(({count},), "int8"), C: T.Buffer((4, {count}), "uint8")):
        for i in T.{kind}({count}):
            C[0, i] = A[{count - 1} - i] // T.uint8(7) * A[i]
        for i in T.{kind}({count}):
            C[1, i] = A[{count - 1} - i] % T.uint8(7) * A[i]
        for i in T.{kind}({count}):
            C[2, i] = A[{count - 1} - i] // T.uint8(5) * (A[i] // T.uint8(5))
        for i in T.{kind}({count}):
            C[3, i] = T.Cast("uint8", T.truncmod(B[{count - 1} - i], T.int8(7)) * B[i])"""
    )
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, count).astype("uint8"), rng.integers(-128, 128, count).astype("int8")
    c = np.zeros((4, count), "uint8")
    build(func, machine)["main"](a, b, c)
    turned, signed = a[::-1], b[::-1].astype("int32")
    expected = [
        turned // 7 * a,
        turned % 7 * a,
        turned // 5 * (a // 5),
        (np.fmod(signed, 7) * b).astype("uint8"),
    ]
    np.testing.assert_array_equal(c, expected)
