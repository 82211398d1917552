"""RewriteUnsafeSelect: choices between values that may fault are guarded."""

from ir import tir
from ir.script import tir as T


def test_choices_that_may_fault_are_guarded(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            B[i] = T.Select(1 <= i, A[i - 1], 0)
            B[i] = T.Select(n == 0, 0, 8 // n)
            B[i] = T.Select(n == 0, i + 1, i // 2)

    @T.prim_func
    def after(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            B[i] = T.if_then_else(1 <= i, A[i - 1], 0)
            B[i] = T.if_then_else(n == 0, 0, 8 // n)
            B[i] = T.Select(n == 0, i + 1, i // 2)

    # Select evaluates both sides: the program has a meaning only afterwards
    check(tir.transform.RewriteUnsafeSelect(), before, after, same_results=False)
