"""SkipAssert: assertions go, what they guard stays."""

from ir import tir
from ir.script import tir as T


def test_assertions_disappear_at_every_depth(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        assert n > 0, "positive"
        A[0] = n
        for i in range(3):
            assert A[i] > 0, "positive elements"
            A[i + 1] = A[i]

    @T.prim_func
    def after(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = n
        for i in range(3):
            A[i + 1] = A[i]

    check(tir.transform.SkipAssert(), before, after)
    check(tir.transform.SkipAssert(), after, after)
