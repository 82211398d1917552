"""Functions of a model lowered one by one: equal ones once, kept as long as what lowering goes by is the same."""

from __future__ import annotations

import pytest

from ir.codegen.cuda.lowered import host_of, lowered_for_device
from ir.error import IRError
from ir.pass_context import PassContext
from ir.script import tir as T
from ir.target import Target
from ir.tir import transform as passes
from ir.tir.kernel_launch import is_kernel

TARGET = Target("nvidia/nvidia-a100")


def twice(extent: int):
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for b in T.thread_binding(64 // extent, thread="blockIdx.x"):
            for t in T.thread_binding(extent, thread="threadIdx.x"):
                with T.block("twice"):
                    v = T.axis.spatial(64, b * extent + t)
                    B[v] = A[v] * T.float32(2)

    return main


def test_equal_functions_have_one_symbol_and_are_lowered_once():
    (first, one), (second, other), (third, _) = lowered_for_device(
        [("a", twice(32)), ("b", twice(32)), ("c", twice(16))], TARGET
    )
    assert first == second != third and one is other
    assert str(host_of(one).attrs["global_symbol"]) == first
    assert [is_kernel(func) for func in one.functions.values()].count(True) == 1
    assert lowered_for_device([("a", twice(32))], TARGET)[0] == (first, one)  # from before


def test_what_lowering_goes_by_is_part_of_the_question():
    ((_, found),) = lowered_for_device([("a", twice(32))], TARGET)
    ((_, of_other_card),) = lowered_for_device([("a", twice(32))], Target("nvidia/nvidia-t4"))
    with PassContext(config={"tir.disable_assert": True}):
        ((_, without_asserts),) = lowered_for_device([("a", twice(32))], TARGET)
    assert found is not of_other_card and found is not without_asserts
    with PassContext(config={"tir.add_lower_pass": [(1, passes.RemoveNoOp())]}):
        ((_, one),), ((_, other),) = (lowered_for_device([("a", twice(32))], TARGET) for _ in range(2))
    assert one is not other  # what a user adds may change anything: nothing is kept


def test_an_error_names_the_function():
    @T.prim_func
    def crossed(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        C = T.alloc_buffer((64,), scope="local")
        for _ in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding(64, thread="threadIdx.x"):
                with T.block("C"):
                    v = T.axis.spatial(64, t)
                    C[v] = A[v]
            for t in T.thread_binding(64, thread="threadIdx.x"):
                with T.block("B"):
                    v = T.axis.spatial(64, t)
                    B[v] = C[63 - v]

    with pytest.raises(IRError) as told:
        lowered_for_device([("crossed", crossed)], TARGET)
    assert any(note.startswith("in function crossed_") for note in told.value.__notes__)
