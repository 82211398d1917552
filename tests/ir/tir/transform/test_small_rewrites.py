"""Passes of one rule each: assertions, assumptions, undefined stores, unsafe choices, split patterns, weight copies."""

import pytest

import ir
from ir import tir
from ir.error import IRValueError
from ir.script import tir as T
from ir.tir import PrimFunc
from ir.transform import Pass


def run(step: Pass, func: PrimFunc) -> PrimFunc:
    found = step(ir.IRModule({"main": func}))["main"]
    assert isinstance(found, PrimFunc)
    return found


def test_assertions_and_assumptions_disappear() -> None:
    @T.prim_func(private=True)
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        T.assume(n < 16)
        A[0] = n
        assert n > 0, "positive"
        A[1] = n

    @T.prim_func(private=True)
    def after(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = n
        A[1] = n

    ir.assert_structural_equal(
        run(tir.transform.SkipAssert(), run(tir.transform.RemoveAssume(), before)), after
    )


def test_stores_of_nothing_disappear() -> None:
    @T.prim_func(private=True)
    def before(A: T.Buffer((4,), "int32")):
        A[0] = T.undef()
        x: T.int32 = T.undef()
        A[1] = x + 1
        A[2] = 3

    @T.prim_func(private=True)
    def after(A: T.Buffer((4,), "int32")):
        A[2] = 3

    ir.assert_structural_equal(run(tir.transform.RemoveStoreUndef(), before), after)

    @T.prim_func(private=True)
    def wrong(A: T.Buffer((4,), "int32")):
        A[T.undef()] = 3

    with pytest.raises(IRValueError, match="A is stored to at an undefined index"):
        run(tir.transform.RemoveStoreUndef(), wrong)


def test_choices_that_may_fault_are_guarded() -> None:
    @T.prim_func(private=True)
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            B[i] = T.Select(1 <= i, A[i - 1], 0)
            B[i] = T.Select(n == 0, 0, 8 // n)
            B[i] = T.Select(n == 0, i + 1, i // 2)

    @T.prim_func(private=True)
    def after(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            B[i] = T.if_then_else(1 <= i, A[i - 1], 0)
            B[i] = T.if_then_else(n == 0, 0, 8 // n)
            B[i] = T.Select(n == 0, i + 1, i // 2)

    ir.assert_structural_equal(run(tir.transform.RewriteUnsafeSelect(), before), after)


def test_remainders_of_quotients() -> None:
    @T.prim_func(private=True)
    def before(A: T.Buffer((64,), "int32")):
        for i in range(64):
            A[i // 4 % 8] = i // 2 % 3 % 2

    @T.prim_func(private=True)
    def after(A: T.Buffer((64,), "int32")):
        for i in range(64):
            A[i % 32 // 4] = i % 6 % 4 // 2

    ir.assert_structural_equal(run(tir.transform.RenormalizeSplitPattern(), before), after)


def test_weights_are_taken_in_the_new_layout() -> None:
    @T.prim_func(private=True)
    def before(
        A: T.Buffer((16,), "float32"), W: T.Buffer((16, 16), "float32"), C: T.Buffer((16,), "float32")
    ):
        with T.block("root"):
            T.reads()
            T.writes()
            W_1 = T.alloc_buffer((2, 16, 8))
            for i, j in T.grid(16, 16):
                with T.block("W_copy"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    W_1[vj // 8, vi, vj % 8] = W[vi, vj]
            for i, j in T.grid(16, 16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vj] * W_1[vj // 8, vi, vj % 8]

    @T.prim_func(private=True)
    def after(
        A: T.Buffer((16,), "float32"), W: T.Buffer((2, 16, 8), "float32"), C: T.Buffer((16,), "float32")
    ):
        with T.block("root"):
            T.reads()
            T.writes()
            for i, j in T.grid(16, 16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vj] * W[vj // 8, vi, vj % 8]

    ir.assert_structural_equal(run(tir.transform.RemoveWeightLayoutRewriteBlock(), before), after)
