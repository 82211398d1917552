"""WidenIndices: indices and comparisons of loop variables have 64 bits, data keeps its width."""

from __future__ import annotations

from ir.script import tir as T
from ir.tir.transform import WidenIndices


def test_indices_and_conditions(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), C: T.Buffer((4,), "int32"), O: T.Buffer((64,), "float32")):
        for i, j in T.grid(4, 8):
            if i * 8 + j < 30:
                O[i * 8 + j] = A[T.min(C[i] * C[i], 31 - j) + j]

    @T.prim_func
    def after(A: T.Buffer((32,), "float32"), C: T.Buffer((4,), "int32"), O: T.Buffer((64,), "float32")):
        for i, j in T.grid(4, 8):
            if T.Cast("int64", i) * T.int64(8) + T.Cast("int64", j) < T.int64(30):
                O[T.Cast("int64", i) * T.int64(8) + T.Cast("int64", j)] = A[
                    T.Cast("int64", T.min(C[T.Cast("int64", i)] * C[T.Cast("int64", i)], 31 - j))
                    + T.Cast("int64", j)
                ]

    check(WidenIndices(), before, after)


def test_data_keeps_its_width(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def hashes(A: T.Buffer((8,), "int32"), O: T.Buffer((8,), "bool")):
        for i in T.serial(T.int64(8)):
            O[i] = A[i] * 65537 * 65537 + 1 < A[i]

    assert apply(WidenIndices(), hashes) is hashes

    @T.prim_func
    def named(A: T.Buffer((8,), "int32"), O: T.Buffer((8,), "bool")):
        for i in T.serial(T.int64(8)):
            with T.LetStmt(A[i] * 65537) as x:
                O[i] = x * 65537 < x

    assert apply(WidenIndices(), named) is named


def test_sums_of_data_are_indices_and_casts_of_data_are_not(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), C: T.Buffer((8,), "int64"), O: T.Buffer((8,), "float32")):
        for i in T.serial(T.int64(8)):
            O[i] = A[T.Cast("int32", C[i]) * 8 + 3]

    @T.prim_func
    def after(A: T.Buffer((64,), "float32"), C: T.Buffer((8,), "int64"), O: T.Buffer((8,), "float32")):
        for i in T.serial(T.int64(8)):
            O[i] = A[T.Cast("int64", T.Cast("int32", C[i])) * T.int64(8) + T.int64(3)]

    check(WidenIndices(), before, after, same_results=False)


def test_first_indices_of_vectors(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((32,), "float32")):
        for i in range(4):
            A[T.Ramp(i * 8, 1, 4)] = A[T.Broadcast(i, 4)]

    @T.prim_func
    def after(A: T.Buffer((32,), "float32")):
        for i in range(4):
            A[T.Ramp(T.Cast("int64", i) * T.int64(8), T.int64(1), 4)] = A[T.Broadcast(T.Cast("int64", i), 4)]

    check(WidenIndices(), before, after)


def test_sizes_are_indices(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(8):
            if i + 1 < n:
                A[i * n % 4] = T.float32(0)

    text = apply(WidenIndices(), main, same_results=False).script()
    assert 'T.Cast("int64", i) + T.int64(1) < T.Cast("int64", n)' in text
