"""PlaceThreadMemory: what a kernel allocates lies with the threads that use it."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule
from ir.error import IRValueError
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.tir.stmt import Block
from ir.tir.thread_axis import COMMON_TO_VIRTUAL_THREADS
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


def common_positions(source: str) -> list[list[int]]:
    """What blocks say of the buffers that virtual threads share."""
    func = PlaceThreadMemory()(IRModule({"main": from_source(source)}))["main"]
    found: list[list[int]] = []

    def look(node: object) -> None:
        if isinstance(node, Block) and COMMON_TO_VIRTUAL_THREADS in node.annotations:
            found.append(list(node.annotations[COMMON_TO_VIRTUAL_THREADS]))

    post_order_visit(func.body, look)
    return found


STAGED = """
    @T.prim_func
    def main(A: T.Buffer((8, 32), "float32"), C: T.Buffer((8, 32), "float32")):
        for v in T.thread_binding(2, thread="vthread.x"):
            for i in T.thread_binding(4, thread="threadIdx.x"):
                with T.block(""):
                    T.reads(A[0:8, 0:32])
                    T.writes(C[0:8, 0:32])
                    own = T.alloc_buffer((1,), scope="local")
                    rows = T.alloc_buffer((8, 32), scope="shared")
                    own[0] = T.float32(1)
                    for j in range(32):
                        with T.block("stage"):
                            vi = T.axis.spatial(8, v * 4 + i)
                            vj = T.axis.spatial(32, j)
                            vv = T.axis.spatial(2, v)
                            rows[vi, vj] = {value}
                    for j in range(32):
                        C[v * 4 + i, j] = rows[v * 4 + i, j]
"""


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("A[vi, vj]", [[1]]),
        ("A[vi, vj] * T.float32(2)", [[1]]),
        ("A[vv, vj]", []),  # another value for each virtual thread
        ("own[0]", []),  # made of what the kernel has written
        ("rows[vi, vj] + T.float32(1)", []),
    ],
)
def test_virtual_threads_share_what_none_of_them_changes(value: str, found: list[list[int]]) -> None:
    assert common_positions(STAGED.format(value=value)) == found


@pytest.mark.parametrize(("source", "found"), [("given", [[0]]), ("own", [])])
def test_a_kernel_is_given_what_an_earlier_one_wrote(source: str, found: list[list[int]]) -> None:
    """Its virtual threads share copies of that; copies of what it writes itself they may not."""
    text = f"""
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        given = T.alloc_buffer((8,))
        own = T.alloc_buffer((8,))
        for i in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("given"):
                vi = T.axis.spatial(8, i)
                given[vi] = A[vi] + T.float32(1)
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for v in T.thread_binding(2, thread="vthread.x"):
                for i in T.thread_binding(4, thread="threadIdx.x"):
                    with T.block(""):
                        T.reads(given[0:8])
                        T.writes(own[0:8], C[0:8])
                        rows = T.alloc_buffer((8,), scope="shared")
                        with T.block("own"):
                            vi = T.axis.spatial(8, v * 4 + i)
                            own[vi] = given[vi] * T.float32(2)
                        with T.block("stage"):
                            vi = T.axis.spatial(8, v * 4 + i)
                            rows[vi] = {source}[vi]
                        with T.block("use"):
                            vi = T.axis.spatial(8, v * 4 + i)
                            C[vi] = rows[vi]
    """
    assert common_positions(text) == found


@pytest.mark.parametrize("scope", ("local", "shared", "shared.dyn"))
def test_what_several_kernels_use_is_global(scope: str) -> None:
    """The first one adds to it, once; the second one reads what all blocks of the first have written."""
    func = from_source(f"""
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4, 3), "int32")):
            S = T.alloc_buffer((4,), "int32", scope="{scope}")
            for b in T.thread_binding(4, thread="blockIdx.x"):
                with T.block("init"):
                    vb = T.axis.spatial(4, b)
                    S[vb] = 1
            for t in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("add"):
                    vt = T.axis.spatial(4, t)
                    S[vt] = S[vt] + A[vt]
                for b in T.thread_binding(3, thread="blockIdx.x"):
                    with T.block("c"):
                        vt, vb = T.axis.remap("SS", [t, b])
                        C[vt, vb] = vb
            for b in T.thread_binding(4, thread="blockIdx.x"):
                with T.block("b"):
                    vb = T.axis.spatial(4, b)
                    B[vb] = S[3 - vb]
    """)
    given, found = np.arange(4, dtype="int32"), np.zeros(4, "int32")
    lowered = lower(func, "nvidia/nvidia-a100")
    assert f'scope="{scope}"' not in lowered.script()
    run(lowered, given, found, np.zeros((4, 3), "int32"))
    np.testing.assert_array_equal(found, [4, 3, 2, 1])


HANDED_OVER = """
    @T.prim_func
    def main(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 32), "float32")):
        with T.block("root"):
            row = T.alloc_buffer((32,), scope="shared")
            for k in range(4):
                for j in T.thread_binding(32, thread="threadIdx.x"):
                    row[j] = A[k, j]
                for j in T.thread_binding(32, thread="threadIdx.x"):
                    C[k, j] = row[31 - j]
"""


def test_threads_hand_over_shared_memory_of_one_launch_only():
    """Between kernels it is the device's memory; within one that is launched several times threads would not wait."""
    between = from_source(HANDED_OVER)
    assert 'scope="shared"' not in PlaceThreadMemory()(IRModule({"main": between}))["main"].script()
    within = from_source("""
        @T.prim_func
        def main(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 32), "float32")):
            with T.block("root"):
                row = T.alloc_buffer((32,), scope="shared")
                for k in range(4):
                    for b in T.thread_binding(1, thread="blockIdx.x"):
                        for j in T.thread_binding(32, thread="threadIdx.x"):
                            row[j] = A[k, j]
                        for j in T.thread_binding(32, thread="threadIdx.x"):
                            C[k, j] = row[31 - j]
    """)
    with pytest.raises(IRValueError, match="buffer row of scope shared is needed by several launches"):
        PlaceThreadMemory()(IRModule({"main": within}))
