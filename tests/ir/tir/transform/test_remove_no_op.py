"""RemoveNoOp: what has no effect goes, what has one stays."""

from ir import tir
from ir.script import tir as T


def test_everything_without_effect(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for _i in range(16):
            T.evaluate(0)
        if A[0] > T.float32(0):
            T.evaluate(0)
        A[0] = A[0]
        B[0] = T.float32(1)

    @T.prim_func
    def after(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        B[0] = T.float32(1)

    check(tir.transform.RemoveNoOp(), before, after)


def test_effects_stay(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        for i in range(4):
            if A[i] > T.float32(0):
                T.evaluate(0)
            else:
                A[i] = T.float32(5)

    @T.prim_func
    def after(A: T.Buffer((4,), "float32")):
        for i in range(4):
            if not A[i] > T.float32(0):
                A[i] = T.float32(5)

    check(tir.transform.RemoveNoOp(), before, after)
