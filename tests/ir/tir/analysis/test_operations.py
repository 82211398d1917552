"""What a statement is counted as."""

from __future__ import annotations

import math
from typing import Any

from ir import IRModule
from ir.script import tir as T
from ir.tir.analysis.operations import operations_of
from ir.tir.transform import LowerIntrin


def copy(extent: int, dtype: str = "float32") -> Any:
    @T.prim_func
    def main(A: T.Buffer((extent,), dtype), B: T.Buffer((extent,), dtype)):  # type: ignore[no-untyped-def]
        for i in T.parallel(extent):
            B[i] = A[i]

    return main


def test_operations_are_counted_per_iteration_and_register() -> None:
    assert operations_of(copy(100).body) == 2 * operations_of(copy(50).body)
    assert operations_of(copy(8, "float32x64").body) == 4 * operations_of(copy(8, "float32x16").body)


def test_elements_of_a_vector_that_lie_apart_are_accessed_one_by_one() -> None:
    @T.prim_func
    def gathered(A: T.Buffer((64,), "float32"), I: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32")):  # type: ignore[no-untyped-def]
        B[T.Ramp(0, 1, 16)] = A[I[T.Ramp(0, 1, 16)]]

    @T.prim_func
    def strided(A: T.Buffer((64,), "float32"), B: T.Buffer((16,), "float32")):  # type: ignore[no-untyped-def]
        B[T.Ramp(0, 1, 16)] = A[T.Ramp(0, 4, 16)]

    @T.prim_func
    def side_by_side(A: T.Buffer((64,), "float32"), B: T.Buffer((16,), "float32")):  # type: ignore[no-untyped-def]
        B[T.Ramp(0, 1, 16)] = A[T.Ramp(5, 1, 16)]

    @T.prim_func
    def repeated(A: T.Buffer((64,), "float32"), B: T.Buffer((16,), "float32")):  # type: ignore[no-untyped-def]
        B[T.Ramp(0, 1, 16)] = A[T.Broadcast(5, 16)]

    assert operations_of(side_by_side.body) == operations_of(repeated.body) == 2
    assert operations_of(strided.body) == 1 + 16
    assert operations_of(gathered.body) == 1 + 16 + 1, "the indices are data that is read"


def test_a_function_counts_more_than_a_sum() -> None:
    @T.prim_func
    def exponential(A: T.Buffer((9,), "float32")):  # type: ignore[no-untyped-def]
        A[0] = T.exp(A[1])

    @T.prim_func
    def total(A: T.Buffer((9,), "float32")):  # type: ignore[no-untyped-def]
        A[0] = A[1] + A[2]

    lowered = LowerIntrin("llvm")(IRModule({"main": exponential}))["main"]
    assert operations_of(exponential.body) > 5 * operations_of(total.body)
    assert operations_of(lowered.body) == operations_of(exponential.body)


def test_what_is_not_known_is_endless() -> None:
    @T.prim_func
    def symbolic(a: T.handle):  # type: ignore[no-untyped-def]
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            A[i] = T.float32(0)

    @T.prim_func
    def foreign(A: T.Buffer((9,), "float32")):  # type: ignore[no-untyped-def]
        A[0] = T.call_extern("float32", "expf", A[1])

    assert operations_of(symbolic.body) == operations_of(foreign.body) == math.inf
