"""LowerInitBlock: initialization becomes a condition on the first reduction step."""

from ir import tir
from ir.script import tir as T
from tests.programs import kernels

reduction = kernels.row_sum(4, 8)


@T.prim_func
def lowered(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk], B[vi])
            T.writes(B[vi])
            if vk == 0:
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


def test_reduction(check):
    check(tir.transform.LowerInitBlock(), reduction, lowered)


def test_function_without_init_is_the_same_object(apply):
    after = apply(tir.transform.LowerInitBlock(), lowered)
    assert after is lowered
