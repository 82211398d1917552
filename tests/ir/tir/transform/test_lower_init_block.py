"""LowerInitBlock: initialization becomes a condition on the first reduction step."""

import numpy as np

from ir import IRModule, tir
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run
from ir.tir.transform import LowerInitBlock
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


def test_a_block_around_reads_what_is_updated_through_its_view() -> None:
    main = from_source("""@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4,), "int32")):
    with T.block("O"):
        T.reads(A[0:4, 0:4])
        T.writes(B[0:4])
        V = T.match_buffer(B[0:4], (4,), "int32")
        for i, k in T.grid(4, 4):
            with T.block("I"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    V[vi] = 0
                V[vi] = V[vi] + A[vi, vk]
""")
    lowered = LowerInitBlock()(IRModule({"main": main}))["main"]
    result = np.zeros(4, "int32")
    run(lowered, np.arange(16, dtype="int32").reshape(4, 4), result)
    np.testing.assert_array_equal(result, [6, 22, 38, 54])
