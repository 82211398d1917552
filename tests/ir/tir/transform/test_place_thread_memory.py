"""PlaceThreadMemory: what a kernel allocates lies with the threads that use it."""

from __future__ import annotations

from ir import IRModule
from ir.script import tir as T
from ir.tir.transform import PlaceThreadMemory


def test_memory_between_threads_and_of_one_thread(check):
    @T.prim_func
    def before(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 32), "float32")):
        for i in T.thread_binding(4, thread="blockIdx.x"):
            with T.block(""):
                T.reads(A[i, 0:32])
                T.writes(C[i, 0:32])
                row = T.alloc_buffer((32,))
                for j in T.thread_binding(32, thread="threadIdx.x"):
                    with T.block(""):
                        T.reads(A[i, j])
                        T.writes(row[j])
                        mine = T.alloc_buffer((1,))
                        mine[0] = A[i, j] * T.float32(2)
                        row[j] = mine[0]
                for j in T.thread_binding(32, thread="threadIdx.x"):
                    C[i, j] = row[31 - j]

    @T.prim_func
    def expected(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 32), "float32")):
        for i in T.thread_binding(4, thread="blockIdx.x"):
            with T.block(""):
                T.reads(A[i, 0:32])
                T.writes(C[i, 0:32])
                row = T.alloc_buffer((32,), scope="shared")
                for j in T.thread_binding(32, thread="threadIdx.x"):
                    with T.block(""):
                        T.reads(A[i, j])
                        T.writes(row[j])
                        mine = T.alloc_buffer((1,), scope="local")
                        mine[0] = A[i, j] * T.float32(2)
                        row[j] = mine[0]
                for j in T.thread_binding(32, thread="threadIdx.x"):
                    C[i, j] = row[31 - j]

    check(PlaceThreadMemory(), before, expected)


def test_memory_between_kernels_and_of_a_scope_stays():
    @T.prim_func
    def func(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
        with T.block("root"):
            between = T.alloc_buffer((32,))
            for i in T.thread_binding(32, thread="threadIdx.x"):
                with T.block(""):
                    T.reads(A[i])
                    T.writes(between[i])
                    register = T.alloc_buffer((1,), scope="wmma.accumulator")
                    register[0] = A[i]
                    between[i] = register[0]
            for i in T.thread_binding(32, thread="threadIdx.x"):
                C[i] = between[31 - i]

    module = IRModule({"main": func})
    assert PlaceThreadMemory()(module) is module
