"""SimplifyIndices: indices, conditions, loops that run once or never."""

from ir import tir
from ir.script import tir as T


def test_guard_that_always_holds(check):
    @T.prim_func
    def before(A: T.Buffer((32,), "float32")):
        for i, j in T.grid(4, 8):
            if i * 8 + j < 32:
                A[(i * 8 + j) // 8 * 8 + (i * 8 + j) % 8] = T.float32(0)

    @T.prim_func
    def after(A: T.Buffer((32,), "float32")):
        for i, j in T.grid(4, 8):
            A[i * 8 + j] = T.float32(0)

    check(tir.transform.SimplifyIndices(), before, after)


def test_what_never_runs_disappears(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        for i in range(4):
            if i > 5:
                A[i] = T.float32(1)
            else:
                A[i] = T.float32(2)
        for i in range(0):
            A[i] = T.float32(3)

    @T.prim_func
    def after(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.float32(2)

    check(tir.transform.SimplifyIndices(), before, after)


def test_loops_of_one_iteration(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        for i in range(4):
            for j in range(1):
                A[i + j] = T.Cast("float32", j)

    @T.prim_func
    def after(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.Cast("float32", 0)

    check(tir.transform.SimplifyIndices(), before, after)
