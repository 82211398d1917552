"""Constants are converted as what is loaded is: a literal is a number of its own dtype, whatever its text."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ir import dtype as dt
from ir.codegen.build import build
from tests.semantics.running import holds, script

INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (2, 4, 8, 16, 32, 64)]


def wrapped(value: int, dtype: str) -> int:
    """The number of a dtype that is equal modulo two to the power of its width."""
    low, high = dt.integer_range(dtype)
    return (value - low) % (high - low + 1) + low


@pytest.mark.parametrize("source", INTEGERS)
def test_constants_through_two_casts(source: str) -> None:
    low, high = dt.integer_range(source)
    values = sorted({low, high, low + 1, high - 1, max(low, -1), 1})
    lines, expected = [], []
    for value, middle, last in itertools.product(values, INTEGERS, ("int32", "int64", "uint64", "uint8")):
        inner = f'T.Cast("{middle}", T.{source}({value}))'
        lines.append(f'O[{len(lines)}] = T.Cast("int64", T.Cast("{last}", {inner}))')
        expected.append(wrapped(wrapped(wrapped(value, middle), last), "int64"))
    program = script({"O": ((len(lines),), "int64")}, *lines)
    for target in ("llvm -mcpu=x86-64", "cpu"):
        found = np.zeros(len(lines), "int64")
        build(program, target)["main"](found)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("loop", ["range", "T.vectorized", "T.parallel", "T.unroll"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('T.Cast("int32", T.Cast("uint16", T.int8(-127)))', 65409),
        ('T.Cast("int32", T.Cast("int8", T.uint8(200)))', -56),
        ('T.Cast("int32", T.reinterpret("uint8", T.int8(-1)))', 255),
        ('T.Cast("int32", T.reinterpret("int8", T.uint8(200)))', -56),
        ('T.Cast("int32", T.Cast("uint8", A[i]) // T.Cast("uint8", T.int8(-56)))', 1),
        ('T.Cast("int32", T.Cast("int8", A[i]) // T.Cast("int8", T.uint8(254)))', 12),
        ('A[i] + T.Cast("int32", T.Cast("uint8", T.int8(-1)))', 487),
        ('T.Cast("int32", T.Cast("float32", T.Cast("uint8", T.int8(-1))))', 255),
    ],
)
def test_reinterpreted_constants_among_data(loop: str, value: str, expected: int) -> None:
    program = script(
        {"A": ((16,), "int32"), "O": ((16,), "int32")}, f"for i in {loop}(16):", f"    O[i] = {value}"
    )
    holds(program, [np.full(16, 232, "int32"), np.zeros(16, "int32")], {1: np.full(16, expected, "int32")})
