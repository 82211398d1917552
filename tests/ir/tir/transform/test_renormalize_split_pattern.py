"""RenormalizeSplitPattern: remainders of quotients become quotients of remainders."""

from ir import tir
from ir.script import tir as T


def test_remainders_of_quotients(check):
    @T.prim_func
    def before(A: T.Buffer((64,), "int32")):
        for i in range(64):
            A[i // 4 % 8] = i // 2 % 3 % 2

    @T.prim_func
    def after(A: T.Buffer((64,), "int32")):
        for i in range(64):
            A[i % 32 // 4] = i % 6 % 4 // 2

    check(tir.transform.RenormalizeSplitPattern(), before, after)
