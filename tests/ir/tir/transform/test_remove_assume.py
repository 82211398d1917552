"""RemoveAssume: assumptions are for passes, not for machines."""

from ir import tir
from ir.script import tir as T


def test_assumptions_disappear_and_assertions_stay(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        T.assume(n < 16)
        A[0] = n
        assert n > 0, "positive"
        for i in range(4):
            T.assume(A[i] < 16)
            A[i] = n

    @T.prim_func
    def after(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = n
        assert n > 0, "positive"
        for i in range(4):
            A[i] = n

    check(tir.transform.RemoveAssume(), before, after)
    check(tir.transform.RemoveAssume(), after, after)
