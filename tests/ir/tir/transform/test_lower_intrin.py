"""LowerIntrin: each call becomes what the emitter prints; half floats go through float32; what has no form is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ir import IRModule
from ir.error import IRTypeError, IRValueError
from ir.op import register_op
from ir.script import tir as T
from ir.target.target import Target
from ir.tir.expr import Call
from ir.tir.function import PrimFunc
from ir.tir.interpreter import run
from ir.tir.intrinsic.declaration import INTRINSICS
from ir.tir.operators import cast
from ir.tir.stmt import Evaluate
from ir.tir.transform import LowerIntrin


def test_functions_of_llvm_and_of_the_library(check) -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.floor(T.exp(A[i])) + T.sqrt(T.float32(2))

    @T.prim_func
    def after(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.call_llvm_pure_intrin(
                "float32", "llvm.floor.f32", T.call_pure_extern("float32", "loopsmith.exp", A[i])
            ) + T.call_pure_extern("float32", "loopsmith.sqrt", T.float32(2))

    check(LowerIntrin("llvm"), before, after)
    check(LowerIntrin(Target("llvm")), after, after)


def test_half_floats_are_rounded_once(check) -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "float16")):
        for i in range(8):
            B[i] = T.trunc(A[i])

    @T.prim_func
    def after(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "float16")):
        for i in range(8):
            B[i] = T.Cast(
                "float16", T.call_llvm_pure_intrin("float32", "llvm.trunc.f32", T.Cast("float32", A[i]))
            )

    check(LowerIntrin("llvm"), before, after)


def test_what_is_needed_twice_is_computed_once(check) -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "bool")):
        for i in range(8):
            B[i] = T.isnan(T.exp(A[i]))

    @T.prim_func
    def after(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "bool")):
        for i in range(8):
            x = T.float32()
            B[i] = T.Let(x != x, where={x: T.call_pure_extern("float32", "loopsmith.exp", A[i])})

    check(LowerIntrin("llvm"), before, after)


def test_marks_disappear_and_choices_stay(check) -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = T.if_then_else(T.likely(i < 5), A[i] >> 1, ~A[i])

    @T.prim_func
    def after(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = T.if_then_else(i < 5, A[i] >> 1, A[i] ^ -1)

    check(LowerIntrin("llvm"), before, after)


def test_calls_in_indices_and_addresses_are_lowered() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[T.Cast("int32", T.floor(A[i]))] = A[T.Cast("int32", T.ceil(A[i]))]
            T.evaluate(T.prefetch(T.address_of(A[T.popcount(i)]), 0, 3, 1))

    module = IRModule({"main": before})
    after = LowerIntrin("llvm")(module)["main"]
    text = after.script()
    assert (
        text.count("call_llvm_pure_intrin") == 3
        and "T.floor" not in text
        and "T.prefetch(T.address_of(" in text
    )
    a = np.array([0.5, 1, 2.5, 3, 4.5, 5, 6, 6.5], "float32")
    first, second = np.zeros(8, "float32"), np.zeros(8, "float32")
    run(before, a, first)
    run(after, a, second)
    np.testing.assert_array_equal(first, second)


def test_an_intrinsic_without_a_form_is_refused() -> None:
    func = PrimFunc([], Evaluate(T.tvm_warp_activemask()))
    with pytest.raises(
        IRValueError,
        match="function warps: the intrinsic tir.tvm_warp_activemask has no form for target kind llvm",
    ):
        LowerIntrin("llvm")(IRModule({"warps": func}))
    exponential = PrimFunc([], Evaluate(T.exp(T.float32(1))))
    with pytest.raises(IRValueError, match="tir.exp has no form for target kind abacus"):
        LowerIntrin("abacus")(IRModule({"main": exponential}))


def test_an_operator_without_a_record_is_refused() -> None:
    register_op("tir.test_without_record")
    func = PrimFunc([], Evaluate(Call("int32", "tir.test_without_record", ())))
    with pytest.raises(IRValueError, match="tir.test_without_record has no form"):
        LowerIntrin("llvm")(IRModule({"main": func}))


def test_a_lowering_of_another_dtype_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    record = INTRINSICS["tir.exp"]
    wrong = replace(record, lowering={"llvm": lambda call: cast("int32", call.args[0])})
    monkeypatch.setitem(INTRINSICS, "tir.exp", wrong)

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = T.exp(A[i])

    with pytest.raises(
        IRTypeError, match=r"function main: .* tir\.exp .* gives int32 for a call of dtype float32"
    ):
        LowerIntrin("llvm")(IRModule({"main": main}))
