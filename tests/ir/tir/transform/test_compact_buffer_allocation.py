"""CompactBufferAllocation: shapes shrink to what is accessed; the program computes the same."""

import numpy as np
import pytest

from ir import IRModule, tir
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run
from ir.transform import Sequential
from tests.programs import kernels

PREPARE = Sequential(
    [
        tir.transform.LowerInitBlock(),
        tir.transform.PlanAndUpdateBufferAllocationLocation(),
        tir.transform.ConvertBlocksToOpaque(),
    ]
)


def shapes(func):
    found = {}

    def note(node):
        if isinstance(node, tir.Block):
            for buffer in node.alloc_buffers:
                found[buffer.name] = ([int(e) for e in buffer.shape], [int(s) for s in buffer.strides])

    post_order_visit(func.body, note)
    return found


def compact(apply, func):
    return apply(tir.transform.CompactBufferAllocation(), PREPARE(IRModule({"main": func}))["main"])


def compacted_for_threads(func):
    """The same for a program whose threads run at once: the interpreter, which runs one after the other, cannot judge it."""
    return tir.transform.CompactBufferAllocation()(PREPARE(IRModule({"main": func})))["main"]


def test_row(apply):
    rows = kernels.chain_by_rows(16)

    assert shapes(compact(apply, rows)) == {"B": ([1, 16], [])}


def test_overlapping_windows_are_united(apply):
    @T.prim_func
    def stencil(A: T.Buffer((34,), "float32"), C: T.Buffer((32,), "float32")):
        B = T.alloc_buffer((34,))
        for i in range(4):
            for j in range(10):
                with T.block("B"):
                    vi = T.axis.spatial(34, i * 8 + j)
                    B[vi] = A[vi] * T.float32(2)
            for j in range(8):
                with T.block("C"):
                    vi = T.axis.spatial(32, i * 8 + j)
                    C[vi] = B[vi] + B[vi + 1] + B[vi + 2]

    assert shapes(compact(apply, stencil)) == {"B": ([10], [])}


def test_fused_index(apply):
    @T.prim_func
    def fused(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
        B = T.alloc_buffer((8, 16))
        for f in range(32):
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(8, (f * 4 + j) // 16)
                    vj = T.axis.spatial(16, (f * 4 + j) % 16)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
            for j in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(8, (f * 4 + j) // 16)
                    vj = T.axis.spatial(16, (f * 4 + j) % 16)
                    C[vi, vj] = B[vi, vj] * T.float32(2)

    found = shapes(compact(apply, fused))
    assert found["B"][0][0] == 1
    assert found["B"][0][1] in (4, 16)


def test_storage_align_makes_strides(apply):
    @T.prim_func
    def aligned(A: T.Buffer((4, 16), "float32"), C: T.Buffer((4, 16), "float32")):
        B = T.alloc_buffer((4, 16))
        for i, j in T.grid(4, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(4, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * T.float32(2)

    assert shapes(compact(apply, aligned)) == {"B": ([4, 16], [40, 1])}


def test_storage_align_of_what_has_no_axis_left(apply):
    """transform_layout may have taken all of them away."""

    @T.prim_func
    def scalar(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        B = T.alloc_buffer(())
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                T.block_attr({"buffer_dim_align": [[0, 0, 8, 3]]})
                B[()] = A[vi] + T.float32(1)
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = B[()]

    assert shapes(compact(apply, scalar)) == {"B": ([], [])}


def test_opaque_access_keeps_the_shape(apply):
    @T.prim_func
    def opaque(A: T.Buffer((4, 4), "float32")):
        for i in range(4):
            with T.block("A"):
                vi = T.axis.spatial(4, i)
                B = T.alloc_buffer((4, 4))
                B[vi, 0] = A[vi, 0]
                T.evaluate(T.call_extern("int32", "look", T.address_of(B[vi, 0])))

    prepared = PREPARE(IRModule({"main": opaque}))["main"]
    after = apply(tir.transform.CompactBufferAllocation(), prepared, same_results=False)
    assert shapes(after) == {"B": ([4, 4], [])}


@pytest.mark.parametrize("stride", [1, 2])
def test_padded_convolution(apply, stride):
    n = 8
    out = (n + 2 - 3) // stride + 1

    @T.prim_func
    def conv(
        A: T.Buffer((n, n), "float32"), W: T.Buffer((3, 3), "float32"), C: T.Buffer((out, out), "float32")
    ):
        P = T.alloc_buffer((n + 2, n + 2))
        for i in range(out):
            for p, q in T.grid(3, n + 2):
                with T.block("P"):
                    vp = T.axis.spatial(n + 2, i * stride + p)
                    vq = T.axis.spatial(n + 2, q)
                    P[vp, vq] = T.if_then_else(
                        1 <= vp and vp < n + 1 and 1 <= vq and vq < n + 1, A[vp - 1, vq - 1], T.float32(0)
                    )
            for j, r, s in T.grid(out, 3, 3):
                with T.block("C"):
                    vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + P[vi * stride + vr, vj * stride + vs] * W[vr, vs]

    found = shapes(compact(apply, conv))
    assert found["P"][0][0] == 3


@pytest.mark.parametrize(("scope", "width"), [("local", 16), ("global", 9)])
def test_rows_of_accumulators_have_room_for_whole_vectors(apply, scope, width):
    @T.prim_func
    def padded(A: T.Buffer((10, 9), "float32"), C: T.Buffer((10, 9), "float32")):
        B = T.alloc_buffer((10, 9), scope=scope)
        for i in range(10):
            for j in T.vectorized(16):
                with T.block("B"):
                    vi = T.axis.spatial(10, i)
                    vj = T.axis.spatial(9, j)
                    T.where(j < 9)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(10, 9):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]

    assert shapes(compact(apply, padded)) == {"B": ([10, width], [])}


def test_shared_memory_holds_what_all_threads_of_a_block_access():
    """An element for each thread, which no other thread may overwrite; local memory is the thread's own."""

    @T.prim_func
    def rows(A: T.Buffer((8, 32), "float32"), C: T.Buffer((8, 32), "float32")):
        S = T.alloc_buffer((8, 32), scope="shared")
        L = T.alloc_buffer((8, 32), scope="local")
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for j in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("S"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    S[vi, vj] = A[vi, vj]
                with T.block("L"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    L[vi, vj] = S[vi, vj]
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = L[vi, vj]

    assert shapes(compacted_for_threads(rows)) == {"S": ([1, 32], []), "L": ([1, 1], [])}


def test_one_start_in_parts_and_as_a_whole(apply):
    """As of a grouped convolution: the channel where a half of a group begins."""

    @T.prim_func
    def parts(A: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
        B = T.alloc_buffer((128,))
        for y in range(16):
            for j in range(16):
                with T.block("B"):
                    vi = T.axis.spatial(128, y % 8 * 16 + j)
                    B[vi] = A[vi] * T.float32(2)
            for j in range(16):
                with T.block("C"):
                    vg = T.axis.spatial(4, y % 8 // 2)
                    vf = T.axis.spatial(32, y % 2 * 16 + j)
                    C[vg * 32 + vf] = B[vg * 32 + vf] + T.float32(1)

    assert shapes(compact(apply, parts)) == {"B": ([16], [])}


def test_virtual_threads_share_memory_too():
    @T.prim_func
    def tiles(A: T.Buffer((4, 64), "float32"), C: T.Buffer((4, 64), "float32")):
        S = T.alloc_buffer((4, 64), scope="shared")
        for i in T.thread_binding(4, thread="blockIdx.x"):
            for v in T.thread_binding(2, thread="vthread.x"):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    for j in range(4):
                        with T.block("S"):
                            vi = T.axis.spatial(4, i)
                            vj = T.axis.spatial(64, v * 32 + j * 8 + t)
                            S[vi, vj] = A[vi, vj]
                    for j in range(4):
                        with T.block("C"):
                            vi = T.axis.spatial(4, i)
                            vj = T.axis.spatial(64, v * 32 + j * 8 + t)
                            C[vi, vj] = S[vi, vj]

    assert shapes(compacted_for_threads(tiles)) == {"S": ([1, 64], [])}


_TWO_THREADS_DEEP = """
@T.prim_func
def main(A: T.Buffer((4, 128), "float32"), C: T.Buffer((4, 128), "float32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            {around}
                with T.block("x"):
                    T.reads(A[b, 0:128])
                    T.writes(C[b, 0:128])
                    S = T.alloc_buffer((128,), scope="{scope}")
                    S[{index}] = A[b, t]
                    C[b, t] = S[{index}]
"""
_LAUNCHED = """
@T.prim_func
def main(A: T.Buffer((4, 128), "float32"), C: T.Buffer((4, 128), "float32")):
    b = T.launch_thread("blockIdx.x", 4)
    t = T.launch_thread("threadIdx.x", 32)
    with T.block("x"):
        T.reads(A[b, 0:128])
        T.writes(C[b, 0:128])
        S = T.alloc_buffer((128,), scope="shared")
        S[t] = A[b, t]
        C[b, t] = S[t]
"""


@pytest.mark.parametrize(
    ("source", "least"),
    [
        (_TWO_THREADS_DEEP.format(around="for q in range(1):", scope="shared", index="t"), 32),
        (_TWO_THREADS_DEEP.format(around="for q in range(1):", scope="shared.dyn", index="t"), 32),
        (_TWO_THREADS_DEEP.format(around="for q in range(1):", scope="warp", index="t"), 32),
        (_TWO_THREADS_DEEP.format(around="for q in range(t, t + 1):", scope="shared", index="q"), 32),
        (_TWO_THREADS_DEEP.format(around="with T.LetStmt(31 - t) as q:", scope="shared", index="q"), 32),
        (_TWO_THREADS_DEEP.format(around="with T.LetStmt(t * 4) as q:", scope="shared", index="q + 3"), 128),
        (_LAUNCHED, 32),
    ],
    ids=["plain", "dynamic", "warp", "range", "name", "product", "launched"],
)
def test_whatever_tells_threads_apart_counts(source, least):
    """A thread's number, a name for it, or a loop over its part: another thread has another place in the memory they share."""
    (shape, _) = shapes(compacted_for_threads(from_source(source)))["S"]
    assert shape[0] >= least


def test_of_a_buffer_with_views_that_is_kept_which_they_show():
    func = from_source("""@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(4):
        with T.block("whole"):
            vi = T.axis.spatial(4, i)
            X = T.alloc_buffer((64,))
            with T.block("store"):
                X_view = T.match_buffer(X[vi * 16 : vi * 16 + 16], (16,), offset_factor=1)
                for j in range(16):
                    X_view[j] = A[vi * 16 + j]
            with T.block("load"):
                X_view = T.match_buffer(X[vi * 16 + 4 : vi * 16 + 12], (8,), offset_factor=1)
                for j in range(8):
                    B[vi * 16 + j] = X_view[j]
""")
    compacted = compacted_for_threads(func)
    assert shapes(compacted)["X"] == ([16], [])
    before, after = np.zeros(64, "float32"), np.zeros(64, "float32")
    numbers = np.arange(64, dtype="float32")
    run(func, numbers, before)
    run(tir.transform.LowerMatchBuffer()(IRModule({"main": compacted})), numbers, after)
    assert before.any()
    assert np.array_equal(before, after)


OF_A_WARP = """@T.prim_func
def main(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    with T.block("root"):
        W = T.alloc_buffer((4, 64), scope="warp")
        for tx in T.thread_binding({x}, thread="threadIdx.x"):
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                with T.block("W"):
                    W[ty, tx] = A[ty, tx]
                with T.block("B"):
                    B[ty, tx] = W[ty, tx]
"""


@pytest.mark.parametrize(("x", "shape"), [(32, [1, 32]), (64, [1, 64]), (16, [4, 16])])
def test_warps_have_memory_of_their_own(x, shape):
    """Where threads along x are whole warps, those along y are others'."""
    func = from_source(OF_A_WARP.format(x=x))
    assert (
        shapes(tir.transform.CompactBufferAllocation()(PREPARE(IRModule({"main": func})))["main"])["W"][0]
        == shape
    )
