"""UnifyThreadBinding: one launch of each axis around all that its threads run."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, tir
from ir.error import IRValueError
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.tir.transform import UnifyThreadBinding


def unified(text: str) -> str:
    """The script of a function behind the pass."""
    func = from_source(text)
    return UnifyThreadBinding()(IRModule({"main": func}))["main"].script()


def test_loops_of_one_axis_become_one_launch(check):
    @T.prim_func
    def before(
        A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32"), C: T.Buffer((512,), "float32")
    ):
        for bx in T.thread_binding(16, thread="blockIdx.x"):
            for i in T.thread_binding(32, thread="threadIdx.x"):
                B[bx * 32 + i] = A[bx * 32 + i]
            for j in T.thread_binding(32, thread="threadIdx.x"):
                C[bx * 32 + j] = A[bx * 32 + j] * T.float32(2)

    @T.prim_func
    def expected(
        A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32"), C: T.Buffer((512,), "float32")
    ):
        for bx in T.thread_binding(16, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                B[bx * 32 + tx] = A[bx * 32 + tx]
                C[bx * 32 + tx] = A[bx * 32 + tx] * T.float32(2)

    check(UnifyThreadBinding(), before, expected)


def test_axes_stand_in_the_order_of_a_launch_and_loops_between_them_inside(check):
    @T.prim_func
    def before(A: T.Buffer((4, 3, 8), "float32")):
        for ty in T.thread_binding(4, thread="threadIdx.y"):
            for k in range(3):
                for bx in T.thread_binding(8, thread="blockIdx.x"):
                    A[ty, k, bx] = T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((4, 3, 8), "float32")):
        for bx in T.thread_binding(8, thread="blockIdx.x"):
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                for k in range(3):
                    A[ty, k, bx] = T.float32(1)

    check(UnifyThreadBinding(), before, expected)


def test_kernels_beside_each_other_stay_apart(check):
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
        for i in T.thread_binding(2, 10, thread="threadIdx.x"):
            A[i - 2] = T.float32(1)
        for i in T.thread_binding(4, thread="threadIdx.x"):
            B[i] = T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
        for i in T.thread_binding(8, thread="threadIdx.x"):
            A[2 + i - 2] = T.float32(1)
        for i in T.thread_binding(4, thread="threadIdx.x"):
            B[i] = T.float32(2)

    check(UnifyThreadBinding(), before, expected)


def test_threads_beyond_a_shorter_loop_do_nothing(check):
    @T.prim_func
    def before(A: T.Buffer((2, 32), "float32"), B: T.Buffer((2, 8), "float32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                B[bx, i] = T.float32(1)
            for i in T.thread_binding(32, thread="threadIdx.x"):
                A[bx, i] = T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((2, 32), "float32"), B: T.Buffer((2, 8), "float32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                if tx < 8:
                    B[bx, tx] = T.float32(1)
                A[bx, tx] = T.float32(2)

    check(UnifyThreadBinding(), before, expected)


def test_what_several_threads_see_is_written_by_the_first_alone(check):
    @T.prim_func
    def before(A: T.Buffer((2, 32), "float32"), total: T.Buffer((2,), "float32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            total[bx] = total[bx] + T.float32(1)
            for i in T.thread_binding(32, thread="threadIdx.x"):
                A[bx, i] = T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((2, 32), "float32"), total: T.Buffer((2,), "float32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                if tx == 0:
                    total[bx] = total[bx] + T.float32(1)
                A[bx, tx] = T.float32(2)

    check(UnifyThreadBinding(), before, expected)


def test_every_thread_writes_memory_of_its_own():
    text = unified("""
        @T.prim_func
        def main(A: T.Buffer((2, 32), "float32")):
            for bx in T.thread_binding(2, thread="blockIdx.x"):
                with T.block(""):
                    mine = T.alloc_buffer((1,), scope="local")
                    mine[0] = T.float32(3)
                    for i in T.thread_binding(32, thread="threadIdx.x"):
                        A[bx, i] = mine[0]
    """)
    assert "if " not in text and text.index("threadIdx.x") < text.index("mine[0] = T.float32(3)")


def test_barriers_are_for_all_threads():
    text = unified("""
        @T.prim_func
        def main(A: T.Buffer((2, 32), "float32")):
            for bx in T.thread_binding(2, thread="blockIdx.x"):
                for i in T.thread_binding(32, thread="threadIdx.x"):
                    A[bx, i] = T.float32(0)
                T.evaluate(T.tvm_storage_sync("shared"))
    """)
    assert "if " not in text


def test_a_warp_works_together():
    text = unified("""
        @T.prim_func
        def main(A: T.Buffer((2, 4), "float32")):
            for bx in T.thread_binding(2, thread="blockIdx.x"):
                for ty in T.thread_binding(4, thread="threadIdx.y"):
                    with T.block(""):
                        T.block_attr({"warp_execution": 1})
                        A[bx, ty] = T.float32(0)
    """)
    assert 'T.thread_binding(32, thread="threadIdx.x")' in text
    assert "if " not in text and "warp_execution" not in text


def test_how_loops_are_unrolled_stays_with_them():
    text = unified("""
        @T.prim_func
        def main(A: T.Buffer((2, 4), "float32")):
            for bx in T.thread_binding(2, thread="blockIdx.x", annotations={"pragma_auto_unroll_max_step": 16}):
                for i in range(4):
                    A[bx, i] = T.float32(0)
    """)
    assert '"pragma_auto_unroll_max_step", 16)' in text


def test_virtual_threads_are_loops_of_a_thread():
    text = unified("""
        @T.prim_func
        def main(A: T.Buffer((2, 4), "float32")):
            for v in T.thread_binding(2, thread="vthread.x"):
                for tx in T.thread_binding(4, thread="threadIdx.x"):
                    A[v, tx] = T.float32(0)
    """)
    assert text.index("vthread.x") < text.index("threadIdx.x")  # the kernel begins below it


def test_symbolic_extents_must_be_the_same():
    source = """
        @T.prim_func
        def main(a: T.handle, n: T.int32, m: T.int32):
            A = T.match_buffer(a, (64,), "float32")
            for bx in T.thread_binding(2, thread="blockIdx.x"):
                for i in T.thread_binding(n, thread="threadIdx.x"):
                    A[i] = T.float32(0)
                for i in T.thread_binding({}, thread="threadIdx.x"):
                    A[i] = T.float32(1)
    """
    assert unified(source.format("n")).count("threadIdx.x") == 1
    with pytest.raises(IRValueError, match="threadIdx.x with extents n and m"):
        unified(source.format("m"))


def test_a_launch_does_not_depend_on_its_kernel():
    with pytest.raises(IRValueError, match="depends on k, a loop of the kernel"):
        unified("""
            @T.prim_func
            def main(A: T.Buffer((64,), "float32")):
                for bx in T.thread_binding(2, thread="blockIdx.x"):
                    for k in range(4):
                        for i in T.thread_binding(k + 1, thread="threadIdx.x"):
                            A[i] = T.float32(0)
        """)


def test_functions_without_threads_are_left_alone():
    @T.prim_func
    def plain(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.float32(0)

    module = IRModule({"main": plain})
    assert tir.transform.UnifyThreadBinding()(module) is module


def test_all_threads_come_to_where_they_meet():
    text = unified("""
        @T.prim_func
        def main(A: T.Buffer((64,), "float32"), B: T.Buffer((4, 64), "float32")):
            s = T.alloc_buffer((1,), scope="shared")
            for bx in T.thread_binding(1, thread="blockIdx.x"):
                for i in T.thread_binding(64, thread="threadIdx.x"):
                    with T.block(""):
                        r = T.alloc_buffer((1,), scope="local")
                        with T.attr(
                            T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))
                        ):
                            T.tvm_thread_allreduce(T.uint32(1), A[i], T.bool(True), r[0], i)
                        if i == 0:
                            s[0] = r[0]
                for y in T.thread_binding(4, thread="threadIdx.y"):
                    for i in T.thread_binding(64, thread="threadIdx.x"):
                        B[y, i] = s[0]
    """)
    before, behind = text.split("T.tvm_thread_allreduce")
    assert "threadIdx_y == 0" not in before
    assert "if threadIdx_y == 0:" in behind


NESTED = """
@T.prim_func
def main(A: T.Buffer((6, 16), "int32"), B: T.Buffer((6, 6), "int32")):
    for b in T.thread_binding(6, thread="blockIdx.x"):
        with T.block("tile"):
            vb = T.axis.spatial(6, b)
            T.reads(A[vb, 0:16])
            T.writes(B[vb, 0:6])
            S = T.alloc_buffer((16,), "int32", scope="shared")
            for t in T.thread_binding(6, thread="threadIdx.x"):
                for c in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("copy"):
                        vc = T.axis.spatial(16, {copied})
                        T.where({where})
                        S[vc] = A[vb, vc]
                with T.block("use"):
                    vt = T.axis.spatial(6, t)
                    B[vb, vt] = S[15 - vt] * 2
"""


def test_threads_beyond_a_loop_run_the_loops_of_their_axis_in_it() -> None:
    """The first six threads use what all sixteen have copied."""
    func = from_source(NESTED.format(copied="c", where="c >= 0"))
    lowered = lower(func, "nvidia/nvidia-a100")
    given = np.arange(96, dtype="int32").reshape(6, 16)
    found = np.zeros((6, 6), "int32")
    run(lowered, given, found)
    np.testing.assert_array_equal(found, given[:, 15:9:-1] * 2)


@pytest.mark.parametrize(("copied", "where"), [("(c + t) % 16", "c >= 0"), ("c", "t < 3")])
def test_a_loop_in_a_loop_of_its_axis_on_which_it_depends_is_refused(copied: str, where: str) -> None:
    """One index of a thread cannot be both."""
    func = from_source(NESTED.format(copied=copied, where=where))
    with pytest.raises(
        IRValueError,
        match="loop t is bound to threadIdx.x, and what loop c, .* depends on it: a thread has one index",
    ):
        lower(func, "nvidia/nvidia-a100")


def test_what_decides_whether_a_loop_of_an_axis_runs_is_no_loop_of_the_axis() -> None:
    func = from_source("""
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
            for t in T.thread_binding(8, thread="threadIdx.x"):
                if A[t] > 0:
                    for c in T.thread_binding(8, thread="threadIdx.x"):
                        B[c] = 1
    """)
    with pytest.raises(
        IRValueError, match="'if A.* stands around one that is bound to it, too, depends on it"
    ):
        lower(func, "nvidia/nvidia-a100")


def test_each_block_writes_the_memory_that_its_threads_share() -> None:
    """Blocks that run what is in no loop of theirs have a tile each."""
    func = from_source("""
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4, 3), "int32")):
            S = T.alloc_buffer((4,), "int32", scope="shared")
            for t in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("a"):
                    vt = T.axis.spatial(4, t)
                    S[vt] = A[vt] * 2
                for b in T.thread_binding(3, thread="blockIdx.x"):
                    with T.block("b"):
                        vt, vb = T.axis.remap("SS", [t, b])
                        B[vt, vb] = S[vt] + vb
    """)
    given, found = np.arange(4, dtype="int32"), np.zeros((4, 3), "int32")
    run(lower(func, "nvidia/nvidia-a100"), given, found)
    np.testing.assert_array_equal(found, given[:, None] * 2 + np.arange(3))


def test_what_warps_do_together_binds_their_threads() -> None:
    text = unified("""@T.prim_func
def main(A: T.Buffer((256,), "float16"), B: T.Buffer((256,), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for ty in T.thread_binding(2, thread="threadIdx.y"):
            with T.block(""):
                T.reads()
                T.writes(B[0:256])
                held = T.alloc_buffer((256,), scope="wmma.accumulator")
                T.tvm_fill_fragment(held.data, 16, 16, 16, 0, T.float32(0))
                T.tvm_store_matrix_sync(held.data, 16, 16, 16, 0, B.access_ptr("w"), 16, "row_major")
""")
    assert 'in T.thread_binding(32, thread="threadIdx.x")' in text
    assert "== 0" not in text  # all lanes come to both calls
