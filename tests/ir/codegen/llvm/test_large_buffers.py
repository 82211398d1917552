"""Offsets beyond 2**31 are computed in 64 bits, whatever the dtype of the indices."""

from __future__ import annotations

import numpy as np
import pytest

from ir.codegen.build import build
from ir.codegen.entry import KernelMemoryError
from ir.script import from_source
from ir.transform import PassContext

SIDE = 50_000  # SIDE**2 is more than 2**31; untouched pages of an array of zeros take no memory


@pytest.mark.parametrize("kind", ["serial", "vectorized", "parallel"])
def test_indices_of_32_bits(kind: str) -> None:
    func = from_source(
        f"""@T.prim_func
def main(row: T.int32, column: T.int32, A: T.Buffer(({SIDE}, {SIDE}), "int8"), B: T.Buffer((16,), "int8")):
        for i in T.{kind}(16):
            B[i] = A[row, column + i] + T.int8(1)
        for i in T.{kind}(16):
            A[row - 1, column + i] = B[i]"""
    )
    a, b = np.zeros((SIDE, SIDE), "int8"), np.zeros(16, "int8")
    row, column = SIDE - 1, SIDE - 16
    a[row, column:] = np.arange(16)
    with PassContext(config={"tir.LowerParallel": {"least_operations": 0}}):
        build(func)["main"](row, column, a, b)
    np.testing.assert_array_equal(b, np.arange(1, 17))
    np.testing.assert_array_equal(a[row - 1, column:], np.arange(1, 17))
    assert not a[0].any()


def test_an_index_that_is_read() -> None:
    func = from_source(
        f"""@T.prim_func
def main(I: T.Buffer((16,), "int32"), A: T.Buffer(({SIDE}, {SIDE}), "int8"), B: T.Buffer((16,), "int8")):
        for i in T.vectorized(16):
            B[i] = A[I[i], I[i]]"""
    )
    a, b = np.zeros((SIDE, SIDE), "int8"), np.zeros(16, "int8")
    places = np.arange(SIDE - 16, SIDE, dtype="int32")
    a[places, places] = np.arange(16)
    build(func)["main"](places, a, b)
    np.testing.assert_array_equal(b, np.arange(16))


def test_a_stride_of_32_bits() -> None:
    func = from_source(
        """@T.prim_func
def main(a: T.handle, B: T.Buffer((3,), "int8")):
        s = T.int32()
        A = T.match_buffer(a, (3, 4), "int8", strides=[s, 1])
        for i in range(3):
            B[i] = A[i, 3]"""
    )
    memory, b = np.zeros(3_000_000_100, "int8"), np.zeros(3, "int8")
    a = np.ndarray((3, 4), "int8", memory, strides=(1_500_000_000, 1))
    a[:, 3] = [1, 2, 3]
    build(func)["main"](a, b)
    np.testing.assert_array_equal(b, [1, 2, 3])


@pytest.mark.parametrize(
    ("dtype", "extents", "last", "number"),
    [
        ("int64", "(n,)", "n - 1", 2**61),
        ("int64", "(n,)", "n - 1", 2**61 + 8),
        ("int64", "(n, n)", "n - 1, n - 1", 2**32),
        ("int64", "(n, n)", "n - 1, n - 1", 2**32 + 1),
        ("int64", "(n * n + 1,)", "n * n", 2**32),
        ("int32", "(n, n, n)", "n - 1, n - 1, n - 1", 2**21),
        ("int64", "(n + 1, n - 1)", "n, n - 2", 2**32),
    ],
)
def test_an_allocation_whose_size_passes_int64_is_an_error(dtype, extents, last, number) -> None:
    """Its size would wrap to a few bytes, and the kernel would write elsewhere."""
    first = ", ".join("0" for _ in last.split(","))
    func = from_source(
        f"""@T.prim_func
def main(n: T.{dtype}, A: T.Buffer((2,), "float64")):
        W = T.alloc_buffer({extents}, "float64")
        W[{first}] = A[0]
        W[{last}] = A[0]
        A[1] = W[{last}] + W[{first}]"""
    )
    main = build(func)["main"]
    a = np.array([1.0, 0.0])
    main(4, a)
    assert a[1] == 2
    with pytest.raises(KernelMemoryError, match="int64 does not hold the size of an allocation"):
        main(number, a)
