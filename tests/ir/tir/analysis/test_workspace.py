"""Scratch memory of a lowered kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.codegen.build import build
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from ir.tir.analysis.workspace import scratch_bytes
from ir.tir.lower import lower

TARGET = Target("llvm -num-cores 4")


def through(size: int, shared: bool) -> Any:
    """Each row of 16 goes through a buffer, which is one for all rows or one for each."""

    @T.prim_func
    def for_all(A: T.Buffer((16, size), "float32"), B: T.Buffer((16, size), "float32")):  # type: ignore[no-untyped-def]
        C = T.alloc_buffer((16, size), "float32")
        for i in range(16):
            for j in range(size):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.exp(A[vi, vj])
        for i in range(16):
            for j in range(size):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = C[vi, size - 1 - vj]

    @T.prim_func
    def for_each(A: T.Buffer((16, size), "float32"), B: T.Buffer((16, size), "float32")):  # type: ignore[no-untyped-def]
        C = T.alloc_buffer((16, size), "float32")
        for i in T.parallel(16):
            for j in range(size):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.exp(A[vi, vj])
            for j in range(size):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = C[vi, size - 1 - vj]

    return for_all if shared else for_each


def test_buffers_of_a_parallel_loop_count_once_per_thread() -> None:
    row = 4 * 2048
    assert scratch_bytes(lower(through(2048, shared=False), TARGET), 4) == 4 * row
    assert (
        scratch_bytes(lower(through(2048, shared=False), TARGET), 32) == 16 * row
    )  # no more threads than rows
    # In the runtime's workspace every buffer is followed by a cache line.
    assert scratch_bytes(lower(through(2048, shared=True), TARGET), 4) == 16 * row + 64


def test_a_kernel_without_buffers_needs_none_and_the_build_tells() -> None:
    @T.prim_func
    def copy(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):  # type: ignore[no-untyped-def]
        for i in range(64):
            B[i] = A[i]

    assert build(copy, TARGET).scratch_bytes == 0
    built = build(through(2048, shared=False), "cpu")
    assert built.scratch_bytes is not None and built.scratch_bytes >= 4 * 2048
    a = np.random.default_rng(0).random((16, 2048), dtype=np.float32)
    b = np.empty_like(a)
    built(a, b)
    np.testing.assert_allclose(b, np.exp(a)[:, ::-1], rtol=1e-5)


def test_what_is_not_constant_is_not_known() -> None:
    @T.prim_func
    def symbolic(a: T.handle, b: T.handle):  # type: ignore[no-untyped-def]
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        C = T.alloc_buffer((n,), "float32")
        for i in range(n):
            with T.block("C"):
                vi = T.axis.remap("S", [i])
                C[vi] = T.exp(A[vi])
        for i in range(n):
            with T.block("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = C[n - 1 - vi]

    assert scratch_bytes(lower(symbolic, TARGET), 4) is None


def test_how_often_a_function_calls_itself_is_not_known() -> None:
    module = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((1,), "int32"), n: T.int32):
        if n > 0:
            for i in range(1):
                A[0] = A[0] + 1
                Module.main(A.data, n - 1)
""")
    assert scratch_bytes(lower(module, TARGET), 4) is None
